"""Sums of whole numbers and decimals that never overflow and can be taken back: numbers in limbs of 32 bits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from snapline.operators.changes.group_changes import GroupChanges
from snapline.state.arrays import Bools, Ints

_BITS = 32
_MASK = (1 << _BITS) - 1
_SHORT_DIGITS = 18
"""The most digits of a decimal that fits into 64 bits."""


def limb_count(kind: pa.DataType) -> int:
    """How many limbs sums of a type have: enough for any number of rows."""
    if pa.types.is_decimal(kind):
        return 2 if kind.precision <= _SHORT_DIGITS else 4
    return 1 if kind.bit_width < 64 else 2


def added(limbs: Sequence[Ints], values: pa.Array, changes: GroupChanges) -> list[Ints]:
    """The sums of groups with values without nulls added, or taken back where their weight is -1."""
    result, carry = [], np.zeros(1, dtype=np.int64)
    parts = _limbs_of(values, len(limbs))
    for number, (limb, part) in enumerate(zip(limbs, parts, strict=True)):
        total = limb + changes.weighted(part) + carry
        if number + 1 < len(limbs):
            carry = total >> _BITS
            total &= _MASK
        result.append(total)
    return result


def merged(left: Sequence[Ints], right: Sequence[Ints]) -> list[Ints]:
    """The sums of two sums each."""
    result, carry = [], np.zeros(1, dtype=np.int64)
    for number, (mine, its) in enumerate(zip(left, right, strict=True)):
        total = mine + its + carry
        if number + 1 < len(left):
            carry = total >> _BITS
            total &= _MASK
        result.append(total)
    return result


def _limbs_of(values: pa.Array, count: int) -> list[Ints]:
    """The limbs of values, the least significant first; the last one has the sign."""
    kind = values.type
    if pa.types.is_decimal(kind):
        if not pa.types.is_decimal128(kind):
            values = values.cast(pa.decimal128(min(kind.precision, 38), kind.scale))
        words = _words(values)
        if count == 2:
            low = words[:, 0].view(np.int64)
            return [low & _MASK, low >> _BITS]
        low, high = words[:, 0].view(np.int64), words[:, 1].view(np.int64)
        return [low & _MASK, (low >> _BITS) & _MASK, high & _MASK, high >> _BITS]
    if pa.types.is_boolean(kind):
        values = values.cast(pa.int8())
    numbers = values.to_numpy().astype(np.int64, copy=False)
    return [numbers] if count == 1 else [numbers & _MASK, numbers >> _BITS]


def _words(values: pa.Array) -> npt.NDArray[np.uint64]:
    """The two words of each decimal."""
    words = np.frombuffer(values.buffers()[1] or b"", dtype=np.uint64)
    return words[2 * values.offset : 2 * (values.offset + len(values))].reshape(len(values), 2)


def sums(limbs: Sequence[Ints], kind: pa.DataType) -> tuple[pa.Array, Bools]:
    """Sums as values of a type, and which of them do not fit: those have wrapped around.

    A decimal type must have the scale of the values.
    """
    if pa.types.is_decimal(kind):
        return _decimals(limbs, kind)
    if len(limbs) == 1:
        total, wrapped = limbs[0], np.zeros(len(limbs[0]), dtype=np.bool_)
    else:
        total, wrapped = (limbs[1] << _BITS) | limbs[0], ~_is_short(limbs[1])
    if pa.types.is_int64(kind):
        return pa.array(total), wrapped
    narrow = total.astype(kind.to_pandas_dtype())
    return pa.array(narrow, kind), wrapped | (narrow.astype(np.int64) != total)


def floats(limbs: Sequence[Ints], scale: int = 0) -> npt.NDArray[np.float64]:
    """Sums as floats, divided by 10 to the power of `scale`."""
    total = np.zeros(len(limbs[0]), dtype=np.float64)
    for limb in reversed(limbs):
        total = total * float(1 << _BITS) + limb
    return total / 10.0**scale if scale else total


def _is_short(limb: Ints) -> Bools:
    return np.asarray((limb >= -(1 << (_BITS - 1))) & (limb < 1 << (_BITS - 1)))


def _decimals(limbs: Sequence[Ints], kind: pa.DataType) -> tuple[pa.Array, Bools]:
    words = np.empty((len(limbs[0]), 2), dtype=np.uint64)
    if len(limbs) == 2:
        # The second limb may be longer than 32 bits.
        words[:, 0] = (limbs[0] | (limbs[1] << _BITS)).view(np.uint64)
        words[:, 1] = (limbs[1] >> _BITS).view(np.uint64)
        wrapped = np.zeros(len(limbs[0]), dtype=np.bool_)
    else:
        words[:, 0] = (limbs[0] | (limbs[1] << _BITS)).view(np.uint64)
        words[:, 1] = (limbs[2] | (limbs[3] << _BITS)).view(np.uint64)
        wrapped = ~_is_short(limbs[3])
    wrapped |= _is_beyond(words, kind.precision)
    wide = pa.decimal128(38, kind.scale)
    values = pa.Array.from_buffers(wide, len(words), [None, pa.py_buffer(words)])
    if wrapped.any():
        values = pc.if_else(pa.array(wrapped), pa.scalar(None, wide), values)
    return values.cast(kind), wrapped


def _is_beyond(words: npt.NDArray[np.uint64], precision: int) -> Bools:
    """Whether numbers of two words have more digits than `precision`."""
    high, low = words[:, 1].view(np.int64), words[:, 0]
    limit = 10**precision
    top, bottom = limit >> 64, limit & ((1 << 64) - 1)
    lowest = -limit
    low_top, low_bottom = lowest >> 64, lowest & ((1 << 64) - 1)
    is_above = (high > top) | ((high == top) & (low >= np.uint64(bottom)))
    is_below = (high < low_top) | ((high == low_top) & (low <= np.uint64(low_bottom)))
    return np.asarray(is_above | is_below)
