"""What kernels share: broadcasting of scalars, validity, and functions of single values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from snapline.sql.expressions.frame import Value, as_array
from snapline.sql.expressions.registry import Kernel

Bools = npt.NDArray[np.bool_]


def of_arrays(compute: Callable[..., pa.Array]) -> Kernel:
    """A kernel from a function of arrays of equal length. Where all values are scalars, it runs for one row only."""

    def run(values: Sequence[Value], rows: int) -> Value:
        if values and all(isinstance(value, pa.Scalar) for value in values):
            return compute(*(as_array(value, 1) for value in values))[0]
        return compute(*(as_array(value, rows) for value in values))

    return run


def valid(*arrays: pa.Array) -> Bools:
    """For each row, whether no value is null."""
    result = np.ones(len(arrays[0]), np.bool_)
    for array in arrays:
        if array.null_count:
            result &= array.is_valid().to_numpy(zero_copy_only=False)
    return result


def numbers(array: pa.Array, fill: Any = 0) -> npt.NDArray[Any]:
    """The values as numpy has them, with `fill` in place of nulls."""
    if array.null_count:
        array = pc.fill_null(array, pa.scalar(fill, array.type))
    return np.asarray(array.to_numpy(zero_copy_only=False))


def with_nulls(data: npt.NDArray[Any], there: Bools, type: pa.DataType) -> pa.Array:
    """An array of `data`, null where not `there`."""
    return pa.array(data, type=type, mask=None if there.all() else ~there)


def each(array: pa.Array, function: Callable[[Any], Any], type: pa.DataType) -> pa.Array:
    """The function of each value that is not null; called once for each distinct value."""
    if pa.types.is_nested(array.type):
        return pa.array([None if value is None else function(value) for value in array.to_pylist()], type)
    kind = array.type
    if pa.types.is_floating(kind):
        # By their bits: -0.0 is another value than 0.0 here.
        encoded = array.view(pa.int64() if kind == pa.float64() else pa.int32()).dictionary_encode()
        distinct = encoded.dictionary.view(kind)
    else:
        encoded = array.dictionary_encode()
        distinct = encoded.dictionary
    return pa.array([function(value) for value in distinct.to_pylist()], type).take(encoded.indices)


def first(there: Bools) -> int:
    """The number of the first row where it is true."""
    return int(np.argmax(there))
