"""Numbers in place of values, so that whole columns are compared, sorted and counted as integers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from snapline.sql.expressions.calendar_days import Integers
from snapline.sql.expressions.integers import integers
from snapline.sql.expressions.lists import Lists, lists, relabelled
from snapline.sql.expressions.registry import UnsupportedError
from snapline.sql.expressions.value_order import equal
from snapline.sql.expressions.values import Bools, valid

_ABSENT = -2
"""Stands where an array has ended: before nulls, which come before all values."""


def normalised(array: pa.Array) -> pa.Array:
    """The values with 0.0 in place of -0.0, as Spark keeps them in sets and as keys."""
    if not pa.types.is_floating(array.type):
        return array
    return pc.add(array, pa.scalar(0.0, array.type))


def codes(*arrays: pa.Array) -> list[Integers]:
    """For each array, a number for each value: equal values have equal numbers in all of them, and null has -1."""
    same = [relabelled(array, arrays[0].type) for array in arrays]
    joined = pa.concat_arrays(same) if len(same) > 1 else same[0]
    if pa.types.is_nested(joined.type) or pa.types.is_null(joined.type):
        numbers = ranks(joined)
    else:
        indices = normalised(joined).dictionary_encode().indices
        numbers = np.asarray(indices.fill_null(-1)).astype(np.int64)
    return list(np.split(numbers, np.cumsum([len(array) for array in arrays])[:-1]))


def ranks(array: pa.Array) -> Integers:
    """For each value a number: equal values have equal ones, greater values greater ones, and null has -1."""
    type = array.type
    if pa.types.is_null(type):
        return np.full(len(array), -1)
    if pa.types.is_struct(type):
        fields = [ranks(field) for field in array.flatten()]
        places = _places(np.column_stack(fields)) if fields else np.zeros(len(array), np.int64)
    elif pa.types.is_map(type):
        raise UnsupportedError("maps have no order; compare map_entries of them")
    elif pa.types.is_list(type):
        parts = lists(array)
        table = np.full((len(array), int(parts.lengths.max(initial=0))), _ABSENT)
        table[parts.rows, parts.positions] = ranks(parts.elements)
        places = _places(table)
    else:
        places = _simple_ranks(array)
    return np.where(valid(array), places, -1)


def _is_integral(type: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(type) or pa.types.is_date(type) or pa.types.is_timestamp(type) or pa.types.is_duration(type)
    )


def _places(table: npt.NDArray[np.int64]) -> Integers:
    """The place of each row of the table among the distinct ones, in lexicographic order."""
    if not table.shape[1]:
        return np.zeros(len(table), np.int64)
    return np.unique(table, axis=0, return_inverse=True)[1].reshape(-1)


def matches(parts: Lists, values: pa.Array) -> Bools:
    """Which elements are equal to the value of their row; a null equals nothing."""
    if pa.types.is_nested(values.type) or pa.types.is_null(values.type):
        wanted, own = codes(values, parts.elements)
        return np.asarray((wanted[parts.rows] == own) & (own >= 0))
    found = equal(parts.elements, values.take(pa.array(parts.rows)), len(parts.elements))
    return np.asarray(found.fill_null(False).to_numpy(zero_copy_only=False))


def _simple_ranks(array: pa.Array) -> Integers:
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.int8())
    if _is_integral(array.type) and array.null_count < len(array):
        data = integers(array)
        least = int(data[valid(array)].min())
        if int(data.max()) - least < 2**62:
            return data - least
    encoded = normalised(array).dictionary_encode()
    order = np.asarray(pc.sort_indices(encoded.dictionary))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    if not len(place):
        return np.full(len(array), -1)
    return np.asarray(place[np.asarray(encoded.indices.fill_null(0))])
