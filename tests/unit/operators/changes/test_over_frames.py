from __future__ import annotations

from datetime import date
from decimal import Decimal
from math import nan
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from snapline.errors import ConfigurationError
from snapline.operators.changes.over_frames import Frame, SortedRows, in_order, is_sortable
from snapline.operators.changes.rank_order import SortColumn


def ordered(values: pa.Array, by: SortColumn, groups: list[int] | None = None) -> SortedRows:
    numbers = np.zeros(len(values), dtype=np.int64) if groups is None else np.array(groups)
    _, rows = in_order(numbers, {"v": values}, [by], np.arange(len(values)))
    return rows


def ranges(rows: SortedRows, *bounds: Any) -> list[tuple[int, int]]:
    starts, ends = rows.ranges(Frame(*bounds))
    return list(zip(starts.tolist(), ends.tolist(), strict=True))


def test_rows_are_counted_within_the_partition() -> None:
    rows = ordered(pa.array([1, 2, 3, 9, 8]), SortColumn("v"), [0, 0, 0, 1, 1])
    assert ranges(rows, True, -1, 0) == [(0, 1), (0, 2), (1, 3), (3, 4), (3, 5)]
    assert ranges(rows, True, 1, None) == [(1, 3), (2, 3), (3, 3), (4, 5), (5, 5)]
    assert ranges(rows, True, None, -2) == [(0, 0), (0, 0), (0, 1), (3, 3), (3, 3)]
    assert rows.columns["v"].to_pylist() == [1, 2, 3, 8, 9]


def test_equal_rows_are_in_the_frame_together() -> None:
    rows = ordered(pa.array([2, 1, 2, None]), SortColumn("v"))
    assert rows.columns["v"].to_pylist() == [None, 1, 2, 2]
    assert ranges(rows, False, None, 0) == [(0, 1), (0, 2), (0, 4), (0, 4)]
    assert rows.is_first_peer.tolist() == [True, True, True, False]


def test_zeros_of_both_signs_are_equal() -> None:
    rows = ordered(pa.array([0.0, -0.0, nan]), SortColumn("v"))
    assert ranges(rows, False, 0, 0) == [(0, 2), (0, 2), (2, 3)]
    assert ranges(rows, False, -1.0, 1.0) == [(0, 2), (0, 2), (2, 3)]


@pytest.mark.parametrize("nulls_first", [True, False])
@pytest.mark.parametrize("descending", [True, False])
def test_distances_and_nulls(descending: bool, nulls_first: bool) -> None:
    values = pa.array([1, 2, 4, 5, None, None])
    rows = ordered(values, SortColumn("v", descending=descending, nulls_first=nulls_first))
    shown = rows.columns["v"].to_pylist()
    sums = {}
    for value, (start, end) in zip(shown, ranges(rows, False, -1, 1), strict=True):
        sums[value] = [each for each in shown[start:end] if each is not None]
    assert {value: sorted(found) for value, found in sums.items()} == {
        1: [1, 2],
        2: [1, 2],
        4: [4, 5],
        5: [4, 5],
        None: [],
    }


@pytest.mark.parametrize(
    ("values", "distance"),
    [
        (pa.array([date(2020, 1, 1), date(2020, 1, 3)]), 2),
        (pa.array([Decimal("1.00"), Decimal("1.50")], pa.decimal128(5, 2)), 50),
        (pa.array([0, 2_000_000], pa.timestamp("us", "UTC")), 2_000_000),
        (pa.array([2**63 - 2, 2**63 - 1]), 5),
    ],
)
def test_distances_of_each_type(values: pa.Array, distance: int) -> None:
    rows = ordered(values, SortColumn("v"))
    assert ranges(rows, False, -distance, 0) == [(0, 1), (0, 2)]
    assert ranges(rows, False, 0, distance) == [(0, 2), (1, 2)]


@pytest.mark.parametrize(
    ("descending", "nulls_first", "wanted"),
    [
        (False, True, [None, (None, 9), (1, 2), (1, 3)]),
        (True, False, [(1, 3), (1, 2), (None, 9), None]),
        (True, True, [None, (1, 3), (1, 2), (None, 9)]),
    ],
)
def test_structs_sort_by_their_fields(descending: bool, nulls_first: bool, wanted: list[Any]) -> None:
    given = [{"a": 1, "b": 3}, None, {"a": None, "b": 9}, {"a": 1, "b": 2}]
    rows = ordered(pa.array(given), SortColumn("v", descending=descending, nulls_first=nulls_first))
    assert [each and tuple(each.values()) for each in rows.columns["v"].to_pylist()] == wanted
    assert rows.is_first_peer.all()


def test_what_has_an_order() -> None:
    assert is_sortable(pa.struct([("a", pa.string()), ("b", pa.decimal128(30, 2))]))
    assert not is_sortable(pa.list_(pa.int64()))
    assert not is_sortable(pa.struct([("a", pa.map_(pa.string(), pa.int64()))]))


def test_texts_have_no_distance() -> None:
    rows = ordered(pa.array(["a", "b"]), SortColumn("v"))
    with pytest.raises(ConfigurationError, match="no distance in the order of a column of type string"):
        rows.ranges(Frame(False, -1, 0))


def test_frames_that_are_whole_or_look_ahead() -> None:
    assert Frame(True, None, None).is_whole
    assert not Frame(True, None, 0).is_whole
    assert [Frame(True, None, upper).looks_ahead for upper in (None, 1, 0, -1)] == [True, True, False, False]
