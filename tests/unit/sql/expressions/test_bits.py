"""Values as Spark should give them; `python -m benchmarks.expressions` asks Spark itself."""

from __future__ import annotations

import pyarrow as pa
from tests.expression_kit import applied, condition, values

INT = pa.int32()


def test_bitwise_operations() -> None:
    left, right = pa.array([6, None], INT), pa.array([3, 1], INT)
    assert values(applied("BitwiseAnd", INT, left, right), left, right) == [2, None]
    assert values(applied("BitwiseOr", INT, left, right), left, right) == [7, None]
    assert values(applied("BitwiseXor", INT, left, right), left, right) == [5, None]
    assert values(applied("BitwiseNot", INT, left), left) == [-7, None]


def test_shifts_use_the_low_bits_of_the_distance() -> None:
    array, places = pa.array([1, -8, -8], INT), pa.array([33, 1, -31], INT)
    assert values(applied("ShiftLeft", INT, array, places), array, places) == [2, -16, -16]
    assert values(applied("ShiftRight", INT, array, places), array, places) == [0, -4, -4]
    assert values(applied("ShiftRightUnsigned", INT, array, places), array, places) == [0, 2147483644, 2147483644]


def test_counts_are_those_of_longs() -> None:
    array = pa.array([-1, 5, None], pa.int8())
    assert values(applied("BitwiseCount", INT, array), array) == [64, 2, None]


def test_single_bits() -> None:
    array, places = pa.array([5, 5], INT), pa.array([2, 1], INT)
    assert values(applied("BitwiseGet", pa.int8(), array, places), array, places) == [1, 0]
    far = pa.array([33, 0], INT)
    expression = applied("BitwiseGet", pa.int8(), array, far)
    assert condition(expression, array, far) == "INVALID_PARAMETER_VALUE.BIT_POSITION_RANGE"
