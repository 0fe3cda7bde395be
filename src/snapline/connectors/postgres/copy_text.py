"""Rows as the text that COPY takes, whole columns at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from snapline.connectors.postgres.postgres_types import PostgresColumn, is_array, plain_type

_TEXT = pa.large_string()
_ESCAPES = (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r"))
_SPECIAL = r"[\\\t\n\r]"
_HEX = np.frombuffer(b"".join(f"{byte:02x}".encode() for byte in range(256)), np.uint8).reshape(256, 2)


def copy_text(batch: pa.RecordBatch, columns: Sequence[PostgresColumn]) -> pa.Buffer:
    """The rows in the text format of COPY; `columns` are those of the table, in the order of the batch's."""
    texts = [_escaped(column_text(*pair), pair[0].type) for pair in zip(batch.columns, columns, strict=True)]
    lines = pc.binary_join_element_wise(*texts, _scalar("\t"), null_handling="replace", null_replacement="\\N")
    # The text of all lines lies in one piece.
    lines = pc.binary_join_element_wise(lines, _scalar(""), _scalar("\n"))
    data = lines.buffers()[2]
    offsets = np.frombuffer(lines.buffers()[1], np.int64, len(lines) + 1, lines.offset * 8)
    return data.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))


def column_text(array: pa.Array, column: PostgresColumn) -> pa.Array:
    """Values as PostgreSQL reads them, without escapes."""
    if pt.is_dictionary(array.type):
        array = array.cast(plain_type(array.type))
    kind = array.type
    if pt.is_nested(kind):
        return _array_text(array, column) if is_array(kind) and column.element is not None else _json(array)
    if pt.is_timestamp(kind):
        # The session's zone is UTC, and Arrow is many times slower with a zone. PostgreSQL has microseconds.
        return array.cast(pa.timestamp("us", kind.tz), safe=False).cast(pa.timestamp("us")).cast(_TEXT)
    if pt.is_date64(kind):
        return array.cast(pa.date32()).cast(_TEXT)
    if pt.is_time(kind):
        return array.cast(pa.time64("us"), safe=False).cast(_TEXT)
    if pt.is_duration(kind):
        microseconds = array.cast(pa.duration("us"), safe=False).cast(pa.int64()).cast(_TEXT)
        return pc.binary_join_element_wise(microseconds, _scalar(" microseconds"), _scalar(""))
    if pt.is_fixed_size_binary(kind) or pt.is_binary(kind) or pt.is_large_binary(kind) or pt.is_binary_view(kind):
        return _hex(array, "" if column.kind == "uuid" else "\\x")
    if pt.is_float16(kind):
        array = array.cast(pa.float32())
    return array.cast(_TEXT)


def _escaped(text: pa.Array, kind: pa.DataType) -> pa.Array:
    kind = plain_type(kind)
    is_safe = pt.is_primitive(kind) or pt.is_decimal(kind)
    # One look is cheaper than four rewrites, and most text needs none.
    if is_safe or not pc.any(pc.match_substring_regex(text, _SPECIAL)).as_py():
        return text
    for special, escape in _ESCAPES:
        text = pc.replace_substring(text, special, escape)
    return text


def _hex(array: pa.Array, prefix: str) -> pa.Array:
    array = array.cast(pa.large_binary())
    offsets = np.frombuffer(array.buffers()[1], np.int64, len(array) + 1, array.offset * 8)
    data = array.buffers()[2]
    used = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    digits = _HEX[used[offsets[0] : offsets[-1]]].reshape(-1)
    buffers = [None, pa.py_buffer((offsets - offsets[0]) * 2), pa.py_buffer(digits)]
    text = pa.Array.from_buffers(_TEXT, len(array), buffers)
    text = pc.binary_join_element_wise(_scalar(prefix), text, _scalar(""))
    return pc.if_else(array.is_valid(), text, pa.scalar(None, _TEXT))


def _array_text(array: pa.Array, column: PostgresColumn) -> pa.Array:
    """Lists as `{1,2}`; text is quoted."""
    lists = array.cast(pa.large_list(array.type.value_type))
    assert column.element is not None
    values = lists.values
    element = PostgresColumn(column.name, column.element, column.shown)
    text = column_text(values, element)
    if not (pt.is_primitive(values.type) or pt.is_decimal(values.type)) or not _is_bare(values.type):
        for special in ("\\", '"'):
            text = pc.replace_substring(text, special, f"\\{special}")
        text = pc.binary_join_element_wise(_scalar('"'), text, _scalar('"'), _scalar(""))
    text = pc.fill_null(text, "NULL")
    joined = pc.binary_join(pa.LargeListArray.from_arrays(lists.offsets, text), _scalar(","))
    joined = pc.binary_join_element_wise(_scalar("{"), joined, _scalar("}"), _scalar(""))
    return pc.if_else(lists.is_valid(), joined, pa.scalar(None, _TEXT))


def _is_bare(kind: pa.DataType) -> bool:
    return bool(pt.is_integer(kind) or pt.is_floating(kind) or pt.is_boolean(kind) or pt.is_decimal(kind))


def _json(array: pa.Array) -> pa.Array:
    """Nested values as JSON. Value by value: Arrow cannot do it."""
    encode = msgspec.json.Encoder(decimal_format="number").encode
    values: list[Any] = array.to_pylist(maps_as_pydicts="strict")
    return pa.array([None if value is None else encode(value).decode() for value in values], _TEXT)


def _scalar(text: str) -> pa.Scalar:
    return pa.scalar(text, _TEXT)
