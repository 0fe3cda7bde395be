"""Array types that all of `state/` and its users share, and the values of several slots."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ints: TypeAlias = npt.NDArray[np.int64]
Words: TypeAlias = npt.NDArray[np.uint64]
Bools: TypeAlias = npt.NDArray[np.bool_]
Octets: TypeAlias = npt.NDArray[np.uint8]

Values: TypeAlias = Any
"""Values of several slots: a `pyarrow.Array`, or a list where a state holds any Python object."""

MIN_CAPACITY = 1024
"""Length of the smallest array by slot."""

MAX_INT64 = (1 << 63) - 1


def grown(array: npt.NDArray[Any], capacity: int, fill: Any = 0) -> npt.NDArray[Any]:
    """A copy of an array, extended to `capacity` with `fill`."""
    result = np.full(capacity, fill, dtype=array.dtype) if fill else np.zeros(capacity, dtype=array.dtype)
    result[: len(array)] = array
    return result


def largest_absolute(numbers: npt.NDArray[Any]) -> int:
    """The largest absolute value of whole numbers, 0 if there are none."""
    return max(-int(numbers.min(initial=0)), int(numbers.max(initial=0)))


def objects(values: Values) -> list[Any]:
    """`values` as Python objects."""
    if not isinstance(values, pa.Array | pa.ChunkedArray):
        return list(values)
    # Arrow converts values many times faster if it need not look for maps.
    return list(values.to_pylist(maps_as_pydicts="strict") if has_map(values.type) else values.to_pylist())


def has_map(kind: pa.DataType) -> bool:
    """Whether a type is or contains a map."""
    return pa.types.is_map(kind) or any(has_map(kind.field(index).type) for index in range(kind.num_fields))
