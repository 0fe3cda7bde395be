from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from snapline.errors import ConfigurationError
from snapline.operators.changes.aggregate_specs import Aggregate, AggregateKind
from snapline.operators.changes.over_frames import Frame, in_order
from snapline.operators.changes.over_functions import OverFunction, OverKind, computed
from snapline.operators.changes.rank_order import SortColumn

SCHEMA = pa.schema([("i", pa.int64()), ("v", pa.int64())])
INT = pa.int32()


def results(function: OverFunction, values: list[Any], order: list[int] | None = None) -> list[Any]:
    columns = {"i": pa.array(order or list(range(len(values)))), "v": pa.array(values, pa.int64())}
    zeros = np.zeros(len(values), dtype=np.int64)
    _, rows = in_order(zeros, columns, [SortColumn("i")], np.arange(len(values)))
    found = computed(function, rows, SCHEMA)
    assert found.type == function.result
    made: list[Any] = found.to_pylist()
    return made


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        (OverKind.ROW_NUMBER, [1, 2, 3, 4]),
        (OverKind.RANK, [1, 2, 2, 4]),
        (OverKind.DENSE_RANK, [1, 2, 2, 3]),
    ],
)
def test_ranks(kind: OverKind, wanted: list[int]) -> None:
    assert results(OverFunction(kind, INT), [0] * 4, [1, 2, 2, 3]) == wanted


def test_shares() -> None:
    percent, share = (OverFunction(kind, pa.float64()) for kind in (OverKind.PERCENT_RANK, OverKind.CUME_DIST))
    assert results(percent, [0] * 5, [1, 2, 2, 3, 4]) == [0.0, 0.25, 0.25, 0.75, 1.0]
    assert results(share, [0] * 4, [1, 2, 2, 3]) == [0.25, 0.75, 0.75, 1.0]
    assert results(percent, [0]) == [0.0]


@pytest.mark.parametrize(
    ("parts", "count", "wanted"), [(2, 3, [1, 1, 2]), (5, 3, [1, 2, 3]), (3, 7, [1, 1, 1, 2, 2, 3, 3]), (1, 2, [1, 1])]
)
def test_parts_differ_by_one_row_at_most(parts: int, count: int, wanted: list[int]) -> None:
    assert results(OverFunction(OverKind.NTILE, INT, number=parts), [0] * count) == wanted


VALUES = [1, None, 3, None, 5]


@pytest.mark.parametrize(
    ("number", "ignore_nulls", "wanted"),
    [
        (1, False, [None, 1, None, 3, None]),
        (-2, False, [3, None, 5, None, None]),
        (0, False, VALUES),
        (1, True, [None, 1, 1, 3, 3]),
        (-2, True, [5, 5, None, None, None]),
    ],
)
def test_rows_before_and_after(number: int, ignore_nulls: bool, wanted: list[Any]) -> None:
    lag = OverFunction(OverKind.LAG, pa.int64(), column="v", number=number, ignore_nulls=ignore_nulls)
    assert results(lag, VALUES) == wanted


def test_a_default_stands_only_where_there_is_no_row() -> None:
    lag = OverFunction(OverKind.LAG, pa.int64(), column="v", default="i", number=2)
    assert results(lag, VALUES) == [0, 1, 1, None, 3]


def test_a_column_without_values() -> None:
    lag = OverFunction(OverKind.LAG, pa.int64(), column="v", default="i", ignore_nulls=True)
    assert results(lag, [None, None]) == [0, 1]
    nth = OverFunction(OverKind.NTH_VALUE, pa.int64(), Frame(True, None, 0), "v", ignore_nulls=True)
    assert results(nth, [None, None]) == [None, None]


def test_the_nth_value_of_a_frame() -> None:
    frame = Frame(True, -1, 1)
    nth = OverFunction(OverKind.NTH_VALUE, pa.int64(), frame, "v", number=2)
    assert results(nth, VALUES) == [None, None, 3, None, 5]
    valued = OverFunction(OverKind.NTH_VALUE, pa.int64(), frame, "v", number=2, ignore_nulls=True)
    assert results(valued, VALUES) == [None, 3, None, 5, None]


def test_distinct_is_of_whole_partitions_only() -> None:
    spec = Aggregate(AggregateKind.SUM, "v", distinct=True)
    OverFunction(OverKind.AGGREGATE, pa.int64(), aggregate=spec).check(SCHEMA)
    with pytest.raises(ConfigurationError, match=r"sum\(DISTINCT\) is computed of whole partitions only"):
        OverFunction(OverKind.AGGREGATE, pa.int64(), Frame(True, None, 0), aggregate=spec).check(SCHEMA)
