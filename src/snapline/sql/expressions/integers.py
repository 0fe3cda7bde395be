"""Kernels from functions of integers: dates, times and intervals are integers to numpy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from snapline.sql.expressions.calendar_days import Integers
from snapline.sql.expressions.frame import Value, as_array
from snapline.sql.expressions.registry import Kernel
from snapline.sql.expressions.values import Bools, of_arrays, valid

Computed: TypeAlias = npt.NDArray[Any] | tuple[npt.NDArray[Any], Bools]
"""Values, or values and which of them are not null."""

_STORED = {1: pa.int8(), 2: pa.int16(), 4: pa.int32(), 8: pa.int64()}


def integers(array: pa.Array) -> Integers:
    """The integers that an array holds: days of dates, microseconds of timestamps, numbers; 0 for nulls."""
    stored = array.view(_STORED[array.type.bit_width // 8])
    if stored.null_count:
        stored = stored.fill_null(0)
    return np.asarray(stored.to_numpy(zero_copy_only=False)).astype(np.int64, copy=False)


def from_integers(data: npt.NDArray[Any], there: Bools, type: pa.DataType) -> pa.Array:
    """An array of `type` from the integers it holds, null where not `there`."""
    mask = None if there.all() else ~there
    if pa.types.is_floating(type) or pa.types.is_boolean(type):
        return pa.array(data, type, mask=mask)
    stored = _STORED[type.bit_width // 8]
    return pa.array(data.astype(stored.to_pandas_dtype()), stored, mask=mask).view(type)


def strict(compute: Callable[..., Computed], type: pa.DataType) -> Kernel:
    """A kernel from a function of integers that sees only rows where no argument is null; all others give null."""
    return of_arrays(lambda *arrays: strict_array(compute, arrays, type))


def strict_array(compute: Callable[..., Computed], arrays: Sequence[pa.Array], type: pa.DataType) -> pa.Array:
    """What `compute` gives for the rows where no argument is null, as an array of `type`."""
    there = valid(*arrays)
    inputs = [integers(array) for array in arrays]
    whole = bool(there.all())
    result = compute(*(inputs if whole else [data[there] for data in inputs]))
    data, known = result if isinstance(result, tuple) else (result, None)
    if not whole:
        spread = np.zeros(len(there), data.dtype)
        spread[there] = data
        data = spread
    if known is not None:
        there = there.copy()
        there[there] = known
    return from_integers(data, there, type)


def by_text(position: int, make: Callable[[str], Callable[..., pa.Array]], type: pa.DataType) -> Kernel:
    """A kernel with a text among its arguments, such as a format or a time zone, that is nearly always constant.

    `make` returns the function for one text; it takes the arrays of the other arguments.
    """
    made = lru_cache(maxsize=256)(make)

    def run(values: Sequence[Value], rows: int) -> Value:
        text = values[position]
        others = [value for number, value in enumerate(values) if number != position]
        if isinstance(text, pa.Scalar):
            if not text.is_valid:
                return pa.scalar(None, type)
            return of_arrays(made(text.as_py()))(others, rows)
        return _for_each_text(made, text, [as_array(value, rows) for value in others], type)

    return run


def _for_each_text(
    made: Callable[[str], Callable[..., pa.Array]], texts: pa.Array, others: list[pa.Array], type: pa.DataType
) -> pa.Array:
    encoded = texts.dictionary_encode()
    codes = np.asarray(encoded.indices.fill_null(-1))
    parts = [pa.nulls(int((codes < 0).sum()), type)]
    order = [np.flatnonzero(codes < 0)]
    for code, text in enumerate(encoded.dictionary.to_pylist()):
        rows = np.flatnonzero(codes == code)
        parts.append(made(text)(*(other.take(pa.array(rows)) for other in others)))
        order.append(rows)
    places = np.empty(len(codes), np.int64)
    places[np.concatenate(order)] = np.arange(len(codes))
    return pa.concat_arrays(parts).take(pa.array(places))
