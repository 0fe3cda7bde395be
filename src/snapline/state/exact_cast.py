"""Conversion of values to Arrow arrays of a declared type that never changes a value."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from snapline.errors import UserCodeError
from snapline.state.arrays import objects
from snapline.text import explanation, shortened


def exact_array(values: Sequence[Any], arrow: pa.DataType) -> pa.Array:
    """Convert Python values to an Arrow array. Raises `UserCodeError` if a value would change, such as 1.5 to 1."""
    try:
        array = pa.array(values, arrow)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise UserCodeError(_wrong_value(values, arrow, error)) from error
    try:
        came_back = objects(array)
    except KeyError as error:
        raise UserCodeError(f"a value of type {arrow} has a key twice: {explanation(error)}") from error
    if not pa.types.is_nested(arrow) and not pa.types.is_floating(arrow) and _are_equal(values, came_back):
        return array
    for value, converted in zip(values, came_back, strict=True):
        try:
            problem = _difference(value, converted, arrow)
        except (TypeError, ValueError, KeyError) as error:
            problem = explanation(error)
        if problem is not None:
            raise UserCodeError(f"{shortened(value)} is no value of type {arrow}: {problem}")
    return array


def _are_equal(values: Sequence[Any], came_back: list[Any]) -> bool:
    """Whether all are equal, far quicker than looking at each; False if that is not so sure."""
    try:
        return isinstance(values, list) and values == came_back
    except (TypeError, ValueError):
        return False


def _wrong_value(values: Sequence[Any], arrow: pa.DataType, error: Exception) -> str:
    """Says which of several values cannot be converted, and why."""
    for value in values:
        try:
            pa.array([value], arrow)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as own:
            is_text = _family(arrow) == "text" and not isinstance(value, str | bytes)
            why = f"it is {type(value).__name__}, not text" if is_text else explanation(own)
            return f"{shortened(value)} is no value of type {arrow}: {why}"
    return f"{shortened(values)} are no values of type {arrow}: {explanation(error)}"


def exact_cast(array: pa.Array, arrow: pa.DataType, *, may_round: bool) -> pa.Array:
    """Cast an Arrow array to another type of the same family. Raises `UserCodeError` if a value would change.

    Only floats may change, and only if `may_round`. A string never becomes a number, nor a timestamp a date.
    """
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if array.type == arrow:
        return array
    if array.null_count == len(array):
        return pa.nulls(len(array), arrow)
    try:
        if _family(array.type) != _family(arrow):
            raise pa.ArrowInvalid("the types are of different kinds")
        result = array.cast(arrow, safe=not (may_round and pa.types.is_floating(arrow)))
        is_rounded = pa.types.is_floating(arrow) and may_round
        if not pa.types.is_nested(arrow) and not is_rounded and not _is_same(result.cast(array.type), array):
            raise pa.ArrowInvalid("some values would change")
    except pa.ArrowException as error:
        raise UserCodeError(
            f"values of the type {array.type} are no values of type {arrow}: {explanation(error)}"
        ) from error
    return result


def converted(values: Any, kind: pa.DataType) -> pa.Array:
    """Convert `values`, an Arrow array or any iterable, to a type; floats may round. Raises `UserCodeError`."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if not isinstance(values, pa.Array):
        return exact_array(list(values), kind)
    return exact_cast(values, kind, may_round=True)


_FAMILIES: Final = (
    ("number", (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)),
    ("text", (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)),
    ("bytes", (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary, pa.types.is_binary_view)),
    ("date", (pa.types.is_date,)),
    ("timestamp", (pa.types.is_timestamp,)),
    ("list", (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)),
)


def _family(arrow: pa.DataType) -> str:
    """Types of the same family have values in common."""
    for name, tests in _FAMILIES:
        if any(test(arrow) for test in tests):
            return name
    return str(arrow.id)


def _is_same(one: pa.Array, other: pa.Array) -> bool:
    if pa.types.is_floating(one.type):
        return one.is_valid().equals(other.is_valid()) and np.array_equal(
            one.drop_null().to_numpy(zero_copy_only=False),
            other.drop_null().to_numpy(zero_copy_only=False),
            equal_nan=True,
        )
    return bool(one.equals(other))


def _difference(given: Any, converted: Any, arrow: pa.DataType) -> str | None:
    """Says how a converted value differs from the one given; None if it does not."""
    if converted is None or given is None:
        return None if given is converted else f"{shortened(given)} would become {shortened(converted)}"
    if pa.types.is_struct(arrow):
        values = given if isinstance(given, Mapping) else dict(zip(converted, given, strict=True))
        for name in values:
            if name not in converted:
                return f"it has no field {name!r}"
        parts = [(values.get(field.name), converted[field.name], field) for field in arrow]
    elif pa.types.is_map(arrow):
        values = dict(given)
        parts = [(key, key, arrow.key_field) for key in converted]
        parts += [(values[key], item, arrow.item_field) for key, item in converted.items()]
    elif isinstance(converted, list):
        parts = [(one, other, arrow.value_field) for one, other in zip(given, converted, strict=True)]
    elif isinstance(converted, float):
        return None if math.isinf(given) == math.isinf(converted) else f"{shortened(given)} is too large"
    else:
        return None if given == converted else f"{shortened(given)} would become {shortened(converted)}"
    for one, other, field in parts:
        if other is None and not field.nullable:
            return f"{field.name!r} may not be null"
        problem = _difference(one, other, field.type)
        if problem is not None:
            return problem
    return None
