"""Groups: one value for each key, from one for each row."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snapline.errors import UserCodeError
from snapline.state.groups import Groups


def grouped(*numbers: int) -> Groups:
    return Groups(max(numbers, default=-1) + 1, np.array(numbers, dtype=np.int32))


def single(count: int) -> Groups:
    return Groups(count, None)


NAN = math.nan


def test_counts() -> None:
    assert grouped(0, 1, 0, 2, 0).counts().to_pylist() == [3, 1, 1]
    assert single(3).counts().to_pylist() == [1, 1, 1]
    assert single(0).counts().to_pylist() == []


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (pa.array([1, 2, 3, 4]), [4, 2, 4]),
        (pa.array([1, None, 3, None]), [4, 0, 0]),
        (pa.array([100, 1, 100, 1], pa.int8()), [200, 1, 1]),
        (pa.array([250, 1, 250, 1], pa.uint8()), [500, 1, 1]),
        (pa.array([2**63, 1, 2**62, 1], pa.uint64()), [2**63 + 2**62, 1, 1]),
        (pa.array([2**62, -(2**62), 2**62 - 1, 0]), [2**63 - 1, -(2**62), 0]),
        (pa.array([-(2**62), 0, -(2**62), 0]), [-(2**63), 0, 0]),
        (pa.array([0.5, 0.25, 1.0, None]), [1.5, 0.25, 0.0]),
        (pa.array([0.5, 0.25, 1.0, None], pa.float32()), [1.5, 0.25, 0.0]),
        (pa.array([True, False, True, True]), [2, 0, 1]),
        (pa.array([Decimal("1.50"), None, Decimal("0.25"), Decimal("9.99")]), [Decimal("1.75"), 0, Decimal("9.99")]),
        (pa.chunked_array([[1, 2], [3], [], [4]]), [4, 2, 4]),
        ([1, 2, 3, 4], [4, 2, 4]),
        (np.array([1, 2, 3, 4], dtype=np.int16), [4, 2, 4]),
        (pa.array([9, 1, 2, 3, 4, 9]).slice(1, 4), [4, 2, 4]),
    ],
    ids=str,
)
def test_sums(values: Any, expected: list[Any]) -> None:
    assert grouped(0, 1, 0, 2).sum(values).to_pylist() == expected


def test_sums_of_single_rows() -> None:
    assert single(3).sum(pa.array([1, None, 3], pa.int8())).to_pylist() == [1, 0, 3]
    assert single(0).sum(pa.array([], pa.int64())).to_pylist() == []
    assert single(2).sum(pa.array([1, 2]), pa.array([10, None])).to_pylist() == [11, 2]


def test_sums_onto_something() -> None:
    groups = grouped(0, 1, 0, 2)
    assert groups.sum(pa.array([1, 2, 3, 4]), pa.array([10, None, 30])).to_pylist() == [14, 2, 34]
    assert groups.sum(pa.array([1, 2, 3, 4], pa.int8()), pa.array([1000, 0, 0])).to_pylist() == [1004, 2, 4]
    assert groups.sum(pa.array([1, 2, 3, 4]), pa.array([0.5, None, 0.0])).to_pylist() == [4.5, 2.0, 4.0]
    ages = [datetime.timedelta(days=days) for days in (1, 2, 3, 4)]
    assert groups.sum(pa.array(ages)).to_pylist() == [ages[3], ages[1], ages[3]]


def test_what_is_added_to_is_not_changed() -> None:
    old = pa.array(np.array([1, 2, 3]))
    grouped(0, 1, 0, 2).sum(pa.array([1, 1, 1, 1]), old)
    assert old.to_pylist() == [1, 2, 3]


@pytest.mark.parametrize("groups", [grouped(0, 0), grouped(0, 1)], ids=["together", "apart"])
def test_sums_of_decimals_as_long_as_can_be(groups: Groups) -> None:
    kind = pa.decimal128(38, 2)
    values, old = pa.array([Decimal("1.25"), Decimal("2.25")], kind), pa.nulls(groups.count, kind)
    assert sum(groups.sum(values, old).to_pylist()) == Decimal("3.50")


@pytest.mark.parametrize(
    ("values", "onto"),
    [
        (pa.array([2**63 - 1, 1]), None),
        (pa.array([-(2**63), -1]), None),
        (pa.array([2**64 - 1, 1], pa.uint64()), None),
        (pa.array([1, 0]), pa.array([2**63 - 1])),
    ],
    ids=["up", "down", "unsigned", "onto"],
)
def test_sums_that_are_too_large(values: pa.Array, onto: pa.Array | None) -> None:
    with pytest.raises(UserCodeError, match="too large"):
        grouped(0, 0).sum(values, onto)


def test_a_sum_too_large_for_a_single_row() -> None:
    with pytest.raises(UserCodeError, match="too large"):
        single(1).sum(pa.array([1]), pa.array([2**63 - 1]))


@pytest.mark.parametrize(
    ("values", "smallest", "largest"),
    [
        (pa.array([3, 5, 1, 2]), [1, 5, 2], [3, 5, 2]),
        (pa.array([None, None, 1, 2]), [1, None, 2], [1, None, 2]),
        (pa.array([0.5, NAN, -0.5, -math.inf]), [-0.5, NAN, -math.inf], [0.5, NAN, -math.inf]),
        (pa.array([NAN, 1.0, 2.0, None]), [2.0, 1.0, None], [2.0, 1.0, None]),
        (pa.array(["b", "", "a", "é"]), ["a", "", "é"], ["b", "", "é"]),
        (pa.array([True, None, False, True]), [False, None, True], [True, None, True]),
        (pa.array([datetime.date(2026, 1, day) for day in (3, 5, 1, 2)]), None, None),
        (pa.chunked_array([[3], [5, 1], [2]]), [1, 5, 2], [3, 5, 2]),
    ],
    ids=str,
)
def test_smallest_and_largest(values: Any, smallest: list[Any] | None, largest: list[Any] | None) -> None:
    groups = grouped(0, 1, 0, 2)
    days = [value.day for value in groups.min(values).to_pylist()] if smallest is None else None
    assert repr(days or groups.min(values).to_pylist()) == repr(smallest or [1, 5, 2])
    days = [value.day for value in groups.max(values).to_pylist()] if largest is None else None
    assert repr(days or groups.max(values).to_pylist()) == repr(largest or [3, 5, 2])


def test_first_and_last() -> None:
    groups = grouped(0, 1, 0, 2, 1)
    values = pa.array(["a", None, "b", None, "c"])
    assert groups.first(values).to_pylist() == ["a", "c", None]
    assert groups.last(values).to_pylist() == ["b", "c", None]
    assert groups.first([1, 2, 3, 4, 5]).to_pylist() == [1, 2, 4]
    assert groups.last([1, 2, 3, 4, 5]).to_pylist() == [3, 5, 4]


def test_rows_that_are_all_different() -> None:
    values = pa.array([2, None, 1])
    for name in ("first", "last", "min", "max"):
        assert getattr(single(3), name)(values).to_pylist() == [2, None, 1]


@pytest.mark.parametrize("name", ["sum", "min", "max", "first", "last"])
@pytest.mark.parametrize("groups", [grouped(0, 0, 1), single(3)], ids=["together", "apart"])
@pytest.mark.parametrize("count", [0, 2, 4])
def test_one_value_for_each_row(name: str, groups: Groups, count: int) -> None:
    with pytest.raises(UserCodeError, match=f"{count} values for 3 keys"):
        getattr(groups, name)(pa.array(range(count), pa.int64()))


KINDS: dict[str, st.SearchStrategy[Any]] = {
    "int64": st.integers(-(2**40), 2**40),
    "int8": st.integers(-128, 127),
    "double": st.integers(-1000, 1000).map(lambda number: number / 8),
    "string": st.text(st.characters(exclude_categories=["Cs"]), max_size=3),
}
ADDED: dict[str, Callable[[list[Any]], Any]] = {
    "sum": sum,
    "min": lambda values: min(values, default=None),
    "max": lambda values: max(values, default=None),
    "first": lambda values: values[0] if values else None,
    "last": lambda values: values[-1] if values else None,
}


@settings(max_examples=120)
@given(st.sampled_from(list(KINDS)), st.sampled_from(list(ADDED)), st.data())
def test_the_same_as_in_plain_python(kind: str, name: str, data: st.DataObject) -> None:
    if kind == "string" and name == "sum":
        name = "min"
    rows = data.draw(st.lists(st.tuples(st.integers(0, 4), KINDS[kind] | st.none()), max_size=12))
    numbers = {group: number for number, group in enumerate(dict.fromkeys(group for group, _ in rows))}
    groups = grouped(*(numbers[group] for group, _ in rows))
    values = pa.array([value for _, value in rows], pa.type_for_alias(kind))
    expected = [
        ADDED[name]([value for other, value in rows if other == group and value is not None]) for group in numbers
    ]
    assert getattr(groups, name)(values).to_pylist() == expected
