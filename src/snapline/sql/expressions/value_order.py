"""Spark's order of values: NaN is the greatest and equals itself, strings go by bytes, nulls inside come first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from snapline.sql.expressions.frame import Value, as_array


def equal(left: Value, right: Value, rows: int) -> Value:
    """Whether values of one type are equal; null where one is null."""
    type = left.type
    if pa.types.is_null(type):
        return pa.scalar(None, pa.bool_())
    if pa.types.is_nested(type):
        return _by_keys(left, right, rows, lambda first, second: first == second)
    if pa.types.is_floating(type):
        return pc.or_(pc.equal(left, right), pc.and_(pc.is_nan(left), pc.is_nan(right)))
    return pc.equal(left, right)


def less(left: Value, right: Value, rows: int) -> Value:
    """Whether the left value of one type comes before the right one; null where one is null."""
    type = left.type
    if pa.types.is_null(type):
        return pa.scalar(None, pa.bool_())
    if pa.types.is_nested(type):
        return _by_keys(left, right, rows, lambda first, second: first < second)
    if pa.types.is_floating(type):
        return pc.or_(pc.less(left, right), pc.and_(pc.is_nan(right), pc.invert(pc.is_nan(left))))
    if pa.types.is_boolean(type):
        return pc.and_(pc.invert(left), right)
    return pc.less(left, right)


def _by_keys(left: Value, right: Value, rows: int, test: Callable[[Any, Any], bool]) -> pa.Array:
    pairs = zip(as_array(left, rows).to_pylist(), as_array(right, rows).to_pylist(), strict=True)
    key = sort_key(left.type)
    return pa.array(
        [None if first is None or second is None else test(key(first), key(second)) for first, second in pairs],
        pa.bool_(),
    )


def sort_key(type: pa.DataType) -> Callable[[Any], Any]:
    """A function of Python values of this type, not null themselves, that Python compares as Spark does."""
    if pa.types.is_floating(type):
        return lambda value: (value != value, value if value == value else 0.0)
    if pa.types.is_string(type):
        return lambda value: value.encode()
    if pa.types.is_struct(type):
        keys = [(field.name, _nulls_first(field.type)) for field in type]
        return lambda value: tuple(key(value[name]) for name, key in keys)
    if pa.types.is_list(type):
        element = _nulls_first(type.value_type)
        return lambda value: [element(item) for item in value]
    return lambda value: value


def _nulls_first(type: pa.DataType) -> Callable[[Any], Any]:
    key = sort_key(type)
    return lambda value: (False, None) if value is None else (True, key(value))
