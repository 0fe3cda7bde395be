"""Numbers that sort as the values do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from snapline.operators.sort_codes import sort_codes


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([3, -(1 << 63), 5, 3], pa.int64()),
        ([3, 1 << 63, 5, 3], pa.uint64()),
        ([1.5, -0.0, 0.0, float("nan"), None, float("-inf")], pa.float64()),
        (["b", None, "a", "b"], pa.string()),
        ([5, None, 1], pa.date32()),
        ([5, -1, 1], pa.date32()),
        ([5, -1, 1], pa.timestamp("ns")),
    ],
)
def test_codes_sort_as_values_do(values: list[Any], kind: pa.DataType) -> None:
    column = pa.array(values, pa.int32()).view(kind) if pa.types.is_date(kind) else pa.array(values, kind)

    def order(descending: bool) -> list[Any]:
        codes = sort_codes(column, descending=descending)
        found: list[Any] = column.take(pa.array(np.argsort(codes, kind="stable"))).to_pylist()
        return found

    plain = [value for value in column.to_pylist() if value is not None and value == value]
    assert order(descending=False)[: len(plain)] == sorted(plain)
    assert order(descending=True)[: len(plain)] == sorted(plain, reverse=True)


@pytest.mark.parametrize("descending", [False, True])
def test_nan_and_then_nulls_come_last(descending: bool) -> None:
    column = pa.array([None, float("nan"), 1.0, -1.0])
    order = np.argsort(sort_codes(column, descending=descending), kind="stable").tolist()
    assert order == ([2, 3, 1, 0] if descending else [3, 2, 1, 0])
