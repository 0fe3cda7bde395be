"""Values as numbers that sort alike, and back."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from snapline.state.arrays import Ints

_SHORT_DIGITS = 18
_MAX = np.iinfo(np.int64).max


def has_codes(kind: pa.DataType) -> bool:
    """Whether values of a type can be ordered as 64-bit numbers."""
    return bool(
        pa.types.is_signed_integer(kind)
        or (pa.types.is_unsigned_integer(kind) and kind.bit_width < 64)
        or pa.types.is_boolean(kind)
        or pa.types.is_floating(kind)
        or (pa.types.is_temporal(kind) and not pa.types.is_interval(kind))
        or (pa.types.is_decimal128(kind) and kind.precision <= _SHORT_DIGITS)
    )


def order_codes(values: pa.Array) -> Ints:
    """Numbers that sort as values without nulls do; NaN is greater than any other float."""
    kind = values.type
    if pa.types.is_floating(kind):
        floats = values.to_numpy(zero_copy_only=False).astype(np.float64)
        floats[np.isnan(floats)] = np.nan
        return _flipped(floats.view(np.int64))
    if pa.types.is_decimal(kind):
        words = np.frombuffer(values.buffers()[1] or b"", dtype=np.int64)
        return words[2 * values.offset : 2 * (values.offset + len(values)) : 2]
    if pa.types.is_boolean(kind):
        values = values.cast(pa.int8())
    elif pa.types.is_temporal(kind):
        values = values.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    numbers: Ints = values.to_numpy().astype(np.int64, copy=False)
    return numbers


def values_of_codes(codes: Ints, kind: pa.DataType) -> pa.Array:
    """The values with these codes."""
    if pa.types.is_floating(kind):
        return pa.array(_flipped(codes).view(np.float64)).cast(kind, safe=False)
    if pa.types.is_decimal(kind):
        words = np.stack([codes, codes >> 63], axis=1)
        return pa.Array.from_buffers(kind, len(codes), [None, pa.py_buffer(words)])
    if pa.types.is_boolean(kind):
        return pa.array(codes.astype(np.bool_))
    if pa.types.is_temporal(kind):
        return pa.array(codes.astype(np.int32) if kind.bit_width == 32 else codes).view(kind)
    return pa.array(codes).cast(kind)


def _flipped(bits: npt.NDArray[np.int64]) -> Ints:
    """From the bits of floats to numbers that sort alike, and back."""
    return bits ^ ((bits >> 63) & _MAX)
