"""Operations on the bits of integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from snapline.sql.expressions.registry import Kernel, SparkError, kernel
from snapline.sql.expressions.values import numbers, of_arrays, valid, with_nulls
from snapline.sql.plans.trees import Expression

_BITWISE = {"BitwiseAnd": pc.bit_wise_and, "BitwiseOr": pc.bit_wise_or, "BitwiseXor": pc.bit_wise_xor}


@kernel(*_BITWISE)
def _combination(expression: Expression) -> Kernel:
    combine = _BITWISE[expression.kind]
    return lambda values, _rows: combine(*values)


@kernel("BitwiseNot")
def _complement(_expression: Expression) -> Kernel:
    return lambda values, _rows: pc.bit_wise_not(values[0])


def _left(values: Any, places: Any) -> Any:
    return values << places


def _right(values: Any, places: Any) -> Any:
    return values >> places


def _right_unsigned(values: Any, places: Any) -> Any:
    unsigned = values.astype(np.uint64 if values.dtype == np.int64 else np.uint32)
    return (unsigned >> places.astype(unsigned.dtype)).astype(values.dtype)


_SHIFTS: dict[str, Callable[[Any, Any], Any]] = {
    "ShiftLeft": _left,
    "ShiftRight": _right,
    "ShiftRightUnsigned": _right_unsigned,
}


@kernel(*_SHIFTS)
def _shift(expression: Expression) -> Kernel:
    shift = _SHIFTS[expression.kind]
    mask = expression.type.bit_width - 1

    def compute(array: pa.Array, places: pa.Array) -> pa.Array:
        values = numbers(array)
        by = (numbers(places) & mask).astype(values.dtype)
        return with_nulls(shift(values, by), valid(array, places), expression.type)

    return of_arrays(compute)


@kernel("BitwiseCount")
def _count(_expression: Expression) -> Kernel:
    def compute(array: pa.Array) -> pa.Array:
        values = numbers(array, False if pa.types.is_boolean(array.type) else 0).astype(np.int64)
        return with_nulls(np.bitwise_count(values.view(np.uint64)).astype(np.int32), valid(array), pa.int32())

    return of_arrays(compute)


@kernel("BitwiseGet")
def _bit(expression: Expression) -> Kernel:
    width = expression.children[0].type.bit_width

    def compute(array: pa.Array, positions: pa.Array) -> pa.Array:
        there = valid(array, positions)
        values, places = numbers(array), numbers(positions)
        if (there & ((places < 0) | (places >= width))).any():
            message = f"The position of a bit must be from 0 to {width - 1}."
            raise SparkError("INVALID_PARAMETER_VALUE.BIT_POSITION_RANGE", message)
        bits = (values.astype(np.int64) >> np.clip(places, 0, width - 1)) & 1
        return with_nulls(bits.astype(np.int8), there, pa.int8())

    return of_arrays(compute)
