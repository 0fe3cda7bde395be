"""Elements of arrays and values of maps, by index or key; sizes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from snapline.sql.expressions.calendar_days import Integers
from snapline.sql.expressions.frame import Value
from snapline.sql.expressions.integers import integers
from snapline.sql.expressions.lists import Lists, lists, maps
from snapline.sql.expressions.ranks import matches
from snapline.sql.expressions.registry import Kernel, SparkError, kernel
from snapline.sql.expressions.values import Bools, of_arrays, valid
from snapline.sql.plans.trees import Expression


@kernel("Size")
def _size(expression: Expression) -> Kernel:
    # Where the setting is on, Spark says -1 for null.
    legacy = bool(expression.arguments.get("legacySizeOfNull"))

    def compute(array: pa.Array) -> pa.Array:
        lengths = np.diff(np.asarray(array.offsets)).astype(np.int32)
        there = valid(array)
        if legacy:
            return pa.array(np.where(there, lengths, -1), pa.int32())
        return pa.array(lengths, pa.int32(), mask=~there)

    return of_arrays(compute)


@kernel("GetArrayItem")
def _item(expression: Expression) -> Kernel:
    fails = bool(expression.arguments.get("failOnError"))

    def compute(array: pa.Array, ordinals: pa.Array) -> pa.Array:
        parts, index = lists(array), integers(ordinals)
        there = valid(array, ordinals)
        inside = (index >= 0) & (index < parts.lengths)
        if fails and (there & ~inside).any():
            raise SparkError("INVALID_ARRAY_INDEX", "The index is out of bounds. Use the SQL function `get()`.")
        return _elements(parts, index, there & inside)

    return of_arrays(compute)


def _elements(parts: Lists, index: Integers, there: Bools) -> pa.Array:
    """The element at each row's index, null where not `there`."""
    return parts.elements.take(pa.array(np.where(there, parts.starts + index, 0), mask=~there))


@kernel("ElementAt")
def _element_at(expression: Expression) -> Kernel:
    if pa.types.is_map(expression.children[0].type):
        return of_arrays(map_value)
    fails = bool(expression.arguments.get("failOnError"))
    default = expression.arguments.get("defaultValueOutOfBound")
    otherwise = None if default is None else pa.scalar(default.arguments["value"], expression.type)

    def compute(array: pa.Array, ordinals: pa.Array) -> pa.Array:
        parts, index = lists(array), integers(ordinals)
        there = valid(array, ordinals)
        outside = there & (np.abs(index) > parts.lengths)
        zero = there & (index == 0)
        if zero.any() or (fails and outside.any()):
            _raise_bad_index(zero, outside & np.bool_(fails))
        found = _elements(parts, np.where(index < 0, parts.lengths + index, index - 1), there & ~outside)
        return found if otherwise is None else pc.if_else(pa.array(outside), otherwise, found)

    return of_arrays(compute)


def _raise_bad_index(zero: Bools, outside: Bools) -> None:
    first = int(np.argmax(zero | outside))
    if zero[first]:
        raise_index_of_zero()
    raise SparkError("INVALID_ARRAY_INDEX_IN_ELEMENT_AT", "The index is out of bounds. Use `try_element_at`.")


def raise_index_of_zero() -> None:
    """Raise what Spark does for an index of zero where they begin with one."""
    raise SparkError("INVALID_INDEX_OF_ZERO", "The index 0 is invalid. An index shall be either < 0 or > 0.")


@kernel("GetMapValue")
def _map_value(_expression: Expression) -> Kernel:
    return of_arrays(map_value)


def map_value(array: pa.Array, keys: pa.Array) -> Value:
    """The value of each row's key in its map, or null."""
    entries = maps(array)
    found = np.flatnonzero(matches(entries.as_keys, keys))
    place = np.full(len(array), -1)
    place[entries.as_keys.rows[found]] = found
    return entries.values.take(pa.array(np.maximum(place, 0), mask=place < 0))
