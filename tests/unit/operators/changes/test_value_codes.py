"""Values as numbers that sort alike."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.unit.operators.changes.aggregate_runs import ORDERED

from snapline.operators.changes.value_codes import has_codes, order_codes, values_of_codes


@pytest.mark.parametrize("kind", [kind for kind in ORDERED if has_codes(kind)], ids=str)
def test_codes_sort_as_values_do_and_lead_back(kind: pa.DataType) -> None:
    values = pa.array([None, *ORDERED[kind]], kind).slice(1)
    codes = order_codes(values)
    assert (codes[1:] > codes[:-1]).all()
    assert values_of_codes(codes, kind).to_pylist() == values.to_pylist()


@pytest.mark.parametrize("kind", [pa.string(), pa.decimal128(19, 0), pa.uint64(), pa.list_(pa.int8())], ids=str)
def test_longer_values_have_none(kind: pa.DataType) -> None:
    assert not has_codes(kind)


def test_all_nan_are_one() -> None:
    codes = order_codes(pa.array([float("inf"), float("nan"), -float("nan")]))
    assert codes[0] < codes[1] == codes[2]
