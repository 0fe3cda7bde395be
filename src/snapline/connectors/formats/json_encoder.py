"""Rows to JSON objects, column by column."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from snapline.connectors.formats.json_types import Times, check_types
from snapline.connectors.formats.message_format import MessageEncoder
from snapline.connectors.formats.type_tree import leaf_types, rebuilt
from snapline.errors import UserCodeError
from snapline.text import explanation

Decimals: TypeAlias = Literal["text", "number"]

_FORMATS: dict[str, Literal["string", "number"]] = {"text": "string", "number": "number"}


class JsonEncoder(MessageEncoder):
    """Arrow makes text of times and decimals, and msgspec objects of the columns: no row is looked at in Python."""

    def __init__(self, schema: pa.Schema, times: Times, omit_nulls: bool, decimals: Decimals) -> None:
        check_types(schema, "formats.Json()")
        self._times = times
        self._omit_nulls = omit_nulls
        self._decimals = decimals
        names = {f"c{number}": name for number, name in enumerate(schema.names)}
        fields: list[Any] = [(name, Any, None) for name in names]
        self._row: Callable[..., Any] = msgspec.defstruct(
            "Row", fields, rename=names, omit_defaults=omit_nulls, gc=False
        )
        self._encoder = msgspec.json.Encoder(decimal_format=_FORMATS[decimals])

    def encode(self, batch: pa.RecordBatch) -> list[bytes]:
        if not batch.num_rows:
            return []
        columns = [self._values(column, field) for column, field in zip(batch.columns, batch.schema, strict=True)]
        lines = self._encoder.encode_lines(list(map(self._row, *columns))).split(b"\n")
        lines.pop()  # after the last line end
        return lines

    def _values(self, column: pa.Array, field: pa.Field) -> list[Any]:
        try:
            return self._plain(column)
        except (pa.ArrowException, KeyError, ValueError, OverflowError) as error:
            raise UserCodeError(
                f"formats.Json(): the column {field.name!r}, {field.type}, cannot be written as JSON: "
                f"{explanation(error)}"
            ) from error

    def _plain(self, column: pa.Array) -> list[Any]:
        """The values as msgspec takes them."""
        kind = column.type
        if pt.is_dictionary(kind):
            return self._plain(column.dictionary_decode())
        _check_finite(column)
        if self._times != "iso" and any(pt.is_timestamp(inner) for inner in leaf_types(kind)):
            column = self._in_units(column)
        elif pt.is_timestamp(kind):
            column = _iso(column)
        elif pt.is_date(kind) or pt.is_time(kind) or (pt.is_decimal(kind) and self._decimals == "text"):
            column = (column.cast(pa.date32()) if pt.is_date64(kind) else column).cast(pa.string())
        values: list[Any] = column.to_pylist(maps_as_pydicts="strict") if pt.is_nested(kind) else column.to_pylist()
        if self._omit_nulls and any(pt.is_struct(inner) for inner in leaf_types(kind)):
            return [_without_nulls(value, kind) for value in values]
        return values

    def _in_units(self, column: pa.Array) -> pa.Array:
        """Timestamps as whole numbers; raises if they have more digits than the unit."""
        kind = column.type
        units = rebuilt(kind, lambda leaf: pa.timestamp(self._times, leaf.tz) if pt.is_timestamp(leaf) else leaf)
        numbers = rebuilt(kind, lambda leaf: pa.int64() if pt.is_timestamp(leaf) else leaf)
        return column.cast(units).cast(numbers)


def _iso(column: pa.Array) -> pa.Array:
    """Timestamps as text: with a zone in UTC, without one as they are."""
    has_zone = column.type.tz is not None
    # Arrow is many times slower with a zone, even UTC.
    text = column.cast(pa.timestamp(column.type.unit)).cast(pa.string())
    text = pc.replace_substring(text, " ", "T", max_replacements=1)
    return pc.binary_join_element_wise(text, "Z", "") if has_zone else text


def _check_finite(column: pa.Array) -> None:
    kind = column.type
    if pt.is_floating(kind):
        if pc.all(pc.is_finite(column), min_count=0).as_py() is False:
            raise ValueError("JSON has no NaN and no infinity; replace them before")
    elif pt.is_struct(kind) or pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind):
        for inner in column.flatten() if pt.is_struct(kind) else [column.flatten()]:
            _check_finite(inner)
    elif pt.is_map(kind):
        _check_finite(column.items)


def _without_nulls(value: Any, kind: pa.DataType) -> Any:
    """A nested value without the null fields of its objects. Those of maps stay: there a key says something."""
    if value is None or not pt.is_nested(kind):
        return value
    if pt.is_struct(kind):
        fields = ((field, value[field.name]) for field in kind)
        return {field.name: _without_nulls(inner, field.type) for field, inner in fields if inner is not None}
    if pt.is_map(kind):
        return {key: _without_nulls(inner, kind.item_type) for key, inner in value.items()}
    return [_without_nulls(inner, kind.value_type) for inner in value]
