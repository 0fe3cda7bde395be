"""`CAST` and `TRY_CAST` between all types, elements of nested ones included."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from snapline.sql.expressions import datetime_casts, number_casts
from snapline.sql.expressions.arithmetic import eval_mode
from snapline.sql.expressions.cast_rules import CastRules, Converter
from snapline.sql.expressions.frame import Value
from snapline.sql.expressions.interval_casts import interval_cast
from snapline.sql.expressions.interval_text import to_interval
from snapline.sql.expressions.registry import Kernel, UnsupportedError, kernel
from snapline.sql.expressions.text_casts import to_text
from snapline.sql.expressions.type_names import type_name
from snapline.sql.expressions.values import numbers, of_arrays, valid
from snapline.sql.plans.trees import Expression


@kernel("Cast")
def _cast(expression: Expression) -> Kernel:
    rules = CastRules(eval_mode(expression), expression.arguments.get("timeZoneId"))
    source = expression.children[0].type
    if expression.children[0].sql_type != expression.sql_type:
        return of_arrays(interval_cast(expression, rules))
    if source == expression.type:
        return _same
    convert = converter(source, expression.type, rules)
    if convert is None:
        names = f"{type_name(source)} to {type_name(expression.type)}"
        raise UnsupportedError(f"the cast of {names} is not supported: {expression.text}")
    return of_arrays(convert)


def _same(values: Sequence[Value], _rows: int) -> Value:
    return values[0]


def converter(source: pa.DataType, target: pa.DataType, rules: CastRules) -> Converter | None:
    """The cast of one type to another, or None if there is none."""
    if source == target:
        return lambda array: array
    if pa.types.is_null(source):
        return lambda array: pa.nulls(len(array), target)
    if pa.types.is_string(target):
        return to_text(source, rules)
    if pa.types.is_integer(target):
        return number_casts.to_integer(source, target, rules)
    if pa.types.is_floating(target):
        return number_casts.to_floating(source, target, rules)
    if pa.types.is_decimal(target):
        return number_casts.to_decimal(source, target, rules)
    if pa.types.is_boolean(target):
        return number_casts.to_boolean(source, rules)
    if pa.types.is_date32(target):
        return datetime_casts.to_date(source, rules)
    if pa.types.is_timestamp(target):
        return (datetime_casts.to_timestamp if target.tz else datetime_casts.to_local_timestamp)(source, rules)
    if pa.types.is_binary(target):
        return _to_binary(source)
    if target == pa.month_day_nano_interval() and pa.types.is_string(source):
        return to_interval
    return _to_nested(source, target, rules)


def _to_binary(source: pa.DataType) -> Converter | None:
    if pa.types.is_string(source):
        return lambda array: pc.cast(array, pa.binary())
    if pa.types.is_integer(source):
        return _big_endian
    return None


def _big_endian(array: pa.Array) -> pa.Array:
    values = numbers(array)
    swapped = values.astype(values.dtype.newbyteorder(">")).tobytes()
    width = values.dtype.itemsize
    pieces = [swapped[at : at + width] for at in range(0, len(swapped), width)]
    return pa.array(pieces, pa.binary(), mask=~valid(array))


def _to_nested(source: pa.DataType, target: pa.DataType, rules: CastRules) -> Converter | None:
    if pa.types.is_map(source) and pa.types.is_map(target):
        return _to_map(source, target, rules)
    if pa.types.is_list(source) and pa.types.is_list(target):
        element = converter(source.value_type, target.value_type, rules)
        return None if element is None else lambda array: _lists(array, element, target)
    if pa.types.is_struct(source) and pa.types.is_struct(target) and source.num_fields == target.num_fields:
        return _to_struct(source, target, rules)
    return None


def _lists(array: pa.Array, element: Converter, target: pa.DataType) -> pa.Array:
    lengths = numbers(pc.list_value_length(array))
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    mask = pa.array(~valid(array)) if array.null_count else None
    return pa.ListArray.from_arrays(pa.array(offsets), element(pc.list_flatten(array)), type=target, mask=mask)


def _to_map(source: pa.DataType, target: pa.DataType, rules: CastRules) -> Converter | None:
    key = converter(source.key_type, target.key_type, rules)
    item = converter(source.item_type, target.item_type, rules)
    if key is None or item is None:
        return None

    def convert(array: pa.Array) -> pa.Array:
        offsets = array.offsets.to_numpy()
        start, end = int(offsets[0]), int(offsets[-1])
        keys, items = array.keys[start:end], array.items[start:end]
        mask = pa.array(~valid(array)) if array.null_count else None
        moved = pa.array(offsets - offsets[0], pa.int32())
        return pa.MapArray.from_arrays(moved, key(keys), item(items), type=target, mask=mask)

    return convert


def _to_struct(source: pa.DataType, target: pa.DataType, rules: CastRules) -> Converter | None:
    fields = [converter(old.type, new.type, rules) for old, new in zip(source, target, strict=True)]
    known = [field for field in fields if field is not None]
    if len(known) < len(fields):
        return None

    def convert(array: pa.Array) -> pa.Array:
        values = [field(child) for field, child in zip(known, array.flatten(), strict=True)]
        mask = pa.array(~valid(array)) if array.null_count else None
        return pa.StructArray.from_arrays(values, fields=list(target), mask=mask)

    return convert
