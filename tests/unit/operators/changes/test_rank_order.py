"""Orders of rows, and ranks in them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from snapline.operators.changes.rank_order import (
    RankKind,
    SortColumn,
    compared,
    ranks_of,
    sort_codes_of,
    sorted_rows,
)

NAN = float("nan")
STRUCT = pa.struct([("a", pa.int64()), ("b", pa.string())])
STRUCTS = [{"a": 1, "b": "x"}, None, {"a": 2, "b": ""}, {"a": 1, "b": None}]


@pytest.mark.parametrize(
    ("values", "kind", "order", "wanted"),
    [
        ([3, None, 1], pa.int64(), SortColumn("v"), [1, 2, 0]),
        ([3, None, 1], pa.int64(), SortColumn("v", nulls_first=False), [2, 0, 1]),
        ([3, None, 1], pa.int64(), SortColumn("v", descending=True), [1, 0, 2]),
        ([-(2**63), 2**63 - 1], pa.int64(), SortColumn("v", descending=True), [1, 0]),
        ([1.0, NAN, -1.0, float("inf")], pa.float64(), SortColumn("v"), [2, 0, 3, 1]),
        ([1.0, NAN], pa.float64(), SortColumn("v", descending=True), [1, 0]),
        (["b", None, "a", "é"], pa.string(), SortColumn("v", descending=True, nulls_first=False), [3, 0, 2, 1]),
        ([b"\xff", b""], pa.binary(), SortColumn("v"), [1, 0]),
        (STRUCTS, STRUCT, SortColumn("v"), [1, 3, 0, 2]),
        (STRUCTS, STRUCT, SortColumn("v", descending=True, nulls_first=False), [2, 0, 3, 1]),
    ],
)
def test_orders(values: list[object], kind: pa.DataType, order: SortColumn, wanted: list[int]) -> None:
    codes = sort_codes_of([pa.array(values, kind)], [order])
    nothing = np.zeros(len(values), dtype=np.int64)
    assert sorted_rows(nothing, codes, nothing).tolist() == wanted


def test_groups_come_first_and_arrival_last() -> None:
    groups, arrival = np.array([1, 0, 0, 1]), np.array([3, 2, 1, 0])
    codes = sort_codes_of([pa.array([5, 5, 5, 5])], [SortColumn("v")])
    assert sorted_rows(groups, codes, arrival).tolist() == [2, 1, 3, 0]
    assert sorted_rows(groups, codes, arrival, newest_first=True).tolist() == [1, 2, 0, 3]


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        (RankKind.ROW_NUMBER, [1, 2, 3, 4, 1]),
        (RankKind.RANK, [1, 1, 3, 3, 1]),
        (RankKind.DENSE_RANK, [1, 1, 2, 2, 1]),
    ],
)
def test_ranks(kind: RankKind, wanted: list[int]) -> None:
    groups = np.array([0, 0, 0, 0, 1])
    assert ranks_of(groups, [np.array([1, 1, 2, 2, 2])], kind).tolist() == wanted
    assert ranks_of(groups[:0], [], kind).tolist() == []


def test_rows_are_compared_column_by_column() -> None:
    left, right = [np.array([1, 1, 2]), np.array([5, 6, 0])], [np.array([1, 1, 1]), np.array([6, 6, 9])]
    is_before, is_equal = compared(left, right)
    assert (is_before.tolist(), is_equal.tolist()) == ([True, False, False], [False, True, False])
