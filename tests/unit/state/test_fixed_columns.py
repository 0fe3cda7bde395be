"""Columns of fixed width: numbers, times and structs of them."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from snapline.errors import UserCodeError
from snapline.state.fixed_columns import FixedColumn, dtype_of, is_fixed_width, make_fixed_column

PAIR = pa.struct([("n", pa.int64()), ("at", pa.timestamp("us", tz="UTC"))])
NOON = dt.datetime(2024, 2, 29, 12, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        (pa.bool_(), np.bool_),
        (pa.uint16(), np.uint16),
        (pa.float32(), np.float32),
        (pa.date32(), np.int32),
        (pa.date64(), np.int64),
        (pa.duration("us"), np.int64),
        (pa.string(), None),
        (pa.decimal128(5, 2), None),
    ],
)
def test_numpy_types(kind: pa.DataType, dtype: Any) -> None:
    assert dtype_of(kind) == dtype
    assert is_fixed_width(kind) is (dtype is not None)


def test_which_structs_have_a_fixed_width() -> None:
    assert is_fixed_width(PAIR)
    assert is_fixed_width(pa.struct([("inner", PAIR)]))
    assert not is_fixed_width(pa.struct([("n", pa.int64()), ("s", pa.string())]))


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.int8(), [1, None, -5]),
        (pa.bool_(), [True, False, None]),
        (pa.timestamp("us", tz="UTC"), [NOON, None, NOON]),
        (PAIR, [{"n": 1, "at": None}, None, {"n": None, "at": NOON}]),
        (pa.struct([("inner", PAIR)]), [{"inner": None}, {"inner": {"n": 1, "at": NOON}}, None]),
    ],
)
def test_values_come_back(kind: pa.DataType, values: list[Any]) -> None:
    column = make_fixed_column(kind)
    column.grow(5_000)
    slots = np.array([4_999, 0, 7])
    column.scatter(slots, pa.array(values, kind))
    frozen = column.freeze()
    assert column.gather(slots).to_pylist() == values
    assert [column.get(slot) for slot in slots.tolist()] == values
    column.set(7, values[0])
    assert column.get(7) == values[0]
    assert frozen.encode(slots).to_pylist() == values, "what is frozen does not change"
    assert column.gather(slots, np.array([True, False, False])).to_pylist() == [None, values[1], values[0]]
    column.keep(np.array([0, 4_999]))
    assert column.gather(np.array([0, 1])).to_pylist() == [values[1], values[0]]


def test_a_number_that_is_too_large() -> None:
    column = FixedColumn(pa.int8())
    with pytest.raises(UserCodeError, match="300 is no value of type int8"):
        column.set(0, 300)


@pytest.mark.parametrize(("reduce", "expected"), [("sum", [13, 7]), ("min", [1, 7]), ("max", [10, 7])])
def test_numbers_are_merged_in_place(reduce: str, expected: list[int]) -> None:
    column = FixedColumn(pa.int64())
    column.scatter(np.array([0]), pa.array([10]))
    assert column.can_merge(reduce)
    assert column.merge(reduce, np.array([0, 1, 0]), np.array([1]), pa.array([2, 7, 1]))
    assert column.gather(np.array([0, 1])).to_pylist() == expected


def test_a_sum_that_might_overflow_is_not_merged() -> None:
    column = FixedColumn(pa.int64())
    column.set(0, (1 << 63) - 1)
    nothing = np.zeros(0, dtype=np.int64)
    assert not column.merge("sum", np.array([0]), nothing, pa.array([1]))
    assert column.get(0) == (1 << 63) - 1
    assert column.merge("sum", np.array([1]), nothing, pa.array([0]))
    assert not FixedColumn(pa.int32()).can_merge("sum")
    assert not FixedColumn(pa.bool_()).can_merge("min")


def test_numbers_win_over_nan() -> None:
    column = FixedColumn(pa.float64())
    column.scatter(np.array([0]), pa.array([float("nan")]))
    assert column.merge("min", np.array([0]), np.zeros(0, dtype=np.int64), pa.array([3.0]))
    assert column.get(0) == 3.0
