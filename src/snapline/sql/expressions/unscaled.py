"""Decimals as integers, their digits without the point: of 64 bits where they fit, Python's own elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from snapline.sql.expressions.values import Bools

Digits = npt.NDArray[Any]
"""Integers of dtype `int64`, or `object` with Python's integers."""

_LIMIT = 2**62
_MASK = 2**64 - 1


def digits(array: pa.Array) -> Digits:
    """The unscaled values of an array of `decimal128`, zero for nulls."""
    buffer = array.buffers()[1]
    if buffer is None or not len(array):
        return np.zeros(len(array), np.int64)
    words = np.frombuffer(buffer, np.int64)[2 * array.offset : 2 * (array.offset + len(array))]
    low, high = words[0::2], words[1::2]
    if array.null_count:
        there = array.is_valid().to_numpy(zero_copy_only=False)
        low, high = np.where(there, low, 0), np.where(there, high, 0)
    if np.array_equal(high, low >> 63):
        return low.copy()
    return np.asarray(high.astype(object) * 2**64 + low.view(np.uint64).astype(object))


def decimals(values: Digits, there: Bools, type: pa.DataType) -> pa.Array:
    """The array of a decimal type with these digits, which must fit; null where not `there`."""
    words = np.empty((len(values), 2), np.int64)
    if values.dtype == object:
        values = np.where(there, values, 0)
        words[:, 0] = np.array([value & _MASK for value in values], np.uint64).view(np.int64)
        words[:, 1] = np.array([value >> 64 for value in values], np.int64)
    else:
        words[:, 0] = values
        words[:, 1] = values >> 63
    validity = None if there.all() else pa.array(there).buffers()[1]
    return pa.Array.from_buffers(type, len(values), [validity, pa.py_buffer(words)])


def wide(values: Digits) -> Digits:
    """The same as Python's integers, which do not overflow."""
    return values if values.dtype == object else values.astype(object)


def magnitude(values: Digits) -> int:
    """The largest absolute value."""
    if not len(values):
        return 0
    return max(int(values.max()), -int(values.min()))


def fitting(left: Digits, right: Digits, bound: int) -> tuple[Digits, Digits]:
    """Both, as Python's integers if a result up to `bound` needs that."""
    if bound >= _LIMIT or left.dtype == object or right.dtype == object:
        return wide(left), wide(right)
    return left, right


def shifted(values: Digits, places: int) -> Digits:
    """Multiplied by ten to the power of `places`; for negative `places` divided, rounded half up."""
    if places == 0 or not len(values):
        return values
    factor = 10 ** abs(places)
    if places > 0:
        if values.dtype != object and (factor >= _LIMIT or magnitude(values) * factor >= _LIMIT):
            values = wide(values)
        return np.asarray(values * factor)
    return quotient_half_up(values, np.full(1, factor, object if factor >= _LIMIT else np.int64))


def quotient_half_up(dividends: Digits, divisors: Digits) -> Digits:
    """The quotients, rounded to the nearest integer, halves away from zero. Divisors are not zero."""
    dividends, divisors = fitting(dividends, divisors, 2 * magnitude(dividends) + magnitude(divisors))
    up, below = np.abs(dividends), np.abs(divisors)
    quotients = (2 * up + below) // (2 * below) if up.dtype == object or magnitude(below) < _LIMIT // 2 else None
    if quotients is None:
        up, below = wide(up), wide(below)
        quotients = (2 * up + below) // (2 * below)
    return np.asarray(np.where((dividends < 0) != (divisors < 0), -quotients, quotients))


def remainder(dividends: Digits, divisors: Digits) -> Digits:
    """What is left of a division rounded towards zero: it has the sign of the dividend."""
    if dividends.dtype != object and divisors.dtype != object:
        return np.asarray(np.fmod(dividends, divisors))
    left, right = wide(dividends), wide(divisors)
    rests = np.abs(left) % np.abs(right)
    return np.asarray(np.where(left < 0, -rests, rests))


def exceeds(values: Digits, precision: int) -> Bools:
    """For each, whether it has more digits than `precision`."""
    limit = 10**precision
    if values.dtype != object:
        if limit > 2**63 - 1:
            return np.zeros(len(values), np.bool_)
        return np.asarray((values >= limit) | (values <= -limit))
    return np.asarray((values >= limit) | (values <= -limit), np.bool_)


def nearest(values: npt.NDArray[np.float64], scale: int) -> tuple[npt.NDArray[np.float64], Bools]:
    """The magnitudes of doubles times ten to the power of `scale`, as whole numbers, halves rounded up.

    The second result tells where that is in doubt: near to a half, where the digits of the double decide, and beyond
    the integers that doubles hold.
    """
    with np.errstate(all="ignore"):
        factor = 10.0 ** abs(scale)
        moved = np.abs(values * factor if scale >= 0 else values / factor)
        below = np.floor(moved)
        whole = np.where(moved - below >= 0.5, below + 1, below)
        near_half = np.abs(moved - below - 0.5) < 1e-12 + moved * 2e-15
        return whole, near_half | ~(moved < 1e14)
