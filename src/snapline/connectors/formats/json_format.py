"""Messages of one JSON object each. Arrow parses whole batches of them."""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.json

from snapline.connectors.files.text_records import json_options
from snapline.connectors.formats.json_encoder import Decimals, JsonEncoder
from snapline.connectors.formats.json_types import (
    TIMES,
    Times,
    check_types,
    in_objects,
    middle_type,
    object_type,
    wire_type,
)
from snapline.connectors.formats.message_format import (
    BatchDecoder,
    MessageDecoder,
    MessageEncoder,
    MessageFormat,
    Nulls,
    checked_nulls,
)
from snapline.contracts.schemas import SchemaLike, checked_schema
from snapline.errors import ConfigurationError, UserCodeError
from snapline.text import explanation

_OPEN, _CLOSE = b"{}"
_NO_OBJECT = "it is not one JSON object"


class Json(MessageFormat):
    """Each message is a JSON object with the columns as fields, in UTF-8.

    `schema` is needed to decode. Missing fields are null, unknown ones are ignored; a value of another type, a field
    twice, or null where the schema allows none makes a bad message. Decimals may be numbers or text, bytes are
    base 64, dates and times ISO 8601, maps are objects.

    `times` says how timestamps stand in messages: as ISO 8601 text, where a time without a zone is in UTC, or as whole
    numbers of "s", "ms", "us" or "ns" since 1970. `nulls` says what a message without a value becomes: "bad", a "row"
    of nulls, or "skip".

    Encoded are nulls as null, or not at all with `omit_nulls`; decimals as text, which every reader takes exactly, or
    as numbers with `decimals="number"`. A number that JSON does not have, such as NaN, is an error.
    """

    def __init__(
        self,
        schema: SchemaLike | None = None,
        *,
        times: Times = "iso",
        nulls: Nulls = "bad",
        omit_nulls: bool = False,
        decimals: Decimals = "text",
    ) -> None:
        self._schema = None if schema is None else checked_schema(schema, "formats.Json()")
        self._nulls = checked_nulls(nulls, self._schema, "formats.Json()")
        if times not in TIMES:
            raise ConfigurationError(f"formats.Json(): times={times!r}; use one of {', '.join(map(repr, TIMES))}")
        if decimals not in ("text", "number"):
            raise ConfigurationError(f"formats.Json(): decimals={decimals!r}; use 'text' or 'number'")
        if self._schema is not None:
            check_types(self._schema, "formats.Json()")
        self._times: Times = times
        self._omit_nulls = omit_nulls
        self._decimals: Decimals = decimals

    def __repr__(self) -> str:
        columns = "" if self._schema is None else ", ".join(f"{field.name} {field.type}" for field in self._schema)
        return f"Json({columns})"

    def schema(self) -> pa.Schema:
        if self._schema is None:
            raise ConfigurationError(
                "formats.Json() has no schema, which decoding needs; give one, as in Json('user STRING, n BIGINT')"
            )
        return self._schema

    def decoder(self) -> MessageDecoder:
        return _JsonDecoder(self.schema(), self._nulls, self._times)

    def encoder(self, schema: pa.Schema) -> MessageEncoder:
        return JsonEncoder(schema, self._times, self._omit_nulls, self._decimals)

    def check(self, schema: pa.Schema) -> None:
        check_types(schema, "formats.Json()")


class _JsonDecoder(BatchDecoder):
    """Arrow parses all messages at once, joined by line ends; columns it has no parser for go through msgspec."""

    def __init__(self, schema: pa.Schema, nulls: Nulls, times: Times) -> None:
        super().__init__(schema, nulls, "JSON")
        parsed = [field for field in schema if not in_objects(field.type)]
        objects = [field for field in schema if in_objects(field.type)]
        self._wire = pa.schema([(field.name, wire_type(field.type, times)) for field in parsed])
        self._names = [field.name for field in objects]
        self._middle = {field.name: middle_type(field.type, times) for field in schema}
        self._objects: msgspec.json.Decoder[Any] = msgspec.json.Decoder(_struct(objects, times, exact=True))
        self._probe: msgspec.json.Decoder[Any] = msgspec.json.Decoder(_struct(schema, times, exact=False))
        self._exact: msgspec.json.Decoder[Any] = msgspec.json.Decoder(_struct(schema, times, exact=True))

    def _rows(self, messages: list[bytes]) -> pa.RecordBatch:
        columns: dict[str, Any] = {}
        if len(self._wire):
            table = _parsed(messages, self._wire)
            columns = {name: table.column(name).combine_chunks() for name in self._wire.names}
        if self._names:
            rows = list(map(self._objects.decode, messages))
            for number, name in enumerate(self._names):
                columns[name] = [getattr(row, f"c{number}") for row in rows]
        arrays = [self._converted(columns[field.name], field) for field in self._schema]
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        batch.validate(full=True)
        return batch

    def _converted(self, values: Any, field: pa.Field) -> pa.Array:
        middle = self._middle[field.name]
        try:
            array = pa.array(values, middle) if isinstance(values, list) else _cast(values, middle)
            array = _cast(array, field.type)
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
            raise _misfit(field, error) from error
        if not field.nullable and array.null_count:
            raise UserCodeError(f"the message has no value for {field.name!r}, which its schema says is never null")
        return array

    def _verdict(self, message: bytes) -> tuple[Exception | None, bool]:
        try:
            self._exact.decode(message)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            problem = error
        else:
            return None, False
        try:
            self._probe.decode(message)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            # Arrow takes NaN, Infinity and numbers that round to it; msgspec does not.
            return error, not (b"NaN" in message or b"Inf" in message or "range" in str(error))
        except RecursionError as error:
            return error, False
        return problem, False

    def _reason(self, message: bytes, error: Exception) -> Exception:
        """Arrow does not say which field has a wrong value."""
        if isinstance(error, UserCodeError | UnicodeDecodeError):
            return error
        try:
            self._exact.decode(message)
        except (msgspec.DecodeError, UnicodeDecodeError) as found:
            return found
        except RecursionError:
            return error
        for wired in self._wire:
            field = self._schema.field(wired.name)
            try:
                self._converted(_parsed([message], pa.schema([wired])).column(0), field)
            except pa.ArrowException as inner:
                return _misfit(field, inner)
            except UserCodeError as own:
                return own
        return error


def _parsed(messages: list[bytes], wire: pa.Schema) -> pa.Table:
    """What Arrow reads in messages. Exactly one row for each message, and the right one.

    Arrow parses objects one after the other and does not care for lines. Since each message begins with a brace and
    ends with one, and a string cannot have a line end in it, no object can reach into the next message; so each
    message has at least one object, and with as many objects as messages each has one.
    """
    if not _are_framed(messages):
        messages = [message.strip() for message in messages]
        if not _are_framed(messages):
            raise pa.ArrowInvalid(_NO_OBJECT)
    data = b"\n".join(messages)
    if b"\0" in data:  # where Arrow's parser stops
        raise pa.ArrowInvalid("it has a zero byte")
    if not data.isascii():
        data.decode()  # Arrow does not look at what it skips, msgspec does
    table = pyarrow.json.read_json(pa.BufferReader(data), *json_options(wire, len(data) + 1))
    if table.num_rows != len(messages):
        raise pa.ArrowInvalid(_NO_OBJECT)
    return table


def _cast(array: pa.Array, kind: pa.DataType) -> pa.Array:
    return array if array.type == kind else array.cast(kind)


def _are_framed(messages: list[bytes]) -> bool:
    """Whether all begin and end with a brace."""
    try:
        return all([message[0] == _OPEN and message[-1] == _CLOSE for message in messages])  # noqa: C419  # quicker
    except IndexError:
        return False


def _struct(fields: Any, times: Times, *, exact: bool) -> type:
    """A class whose objects hold these columns, as `c0`, `c1`, and so on: a name may be any text."""
    parts: list[Any] = []
    names: dict[str, str] = {}
    for number, field in enumerate(fields):
        kind = object_type(field.type, times, exact=exact)
        names[f"c{number}"] = field.name
        if field.nullable:
            parts.append((f"c{number}", kind, None))
        else:
            parts.append((f"c{number}", kind))
    return msgspec.defstruct("Row", parts, rename=names, kw_only=True, gc=False)


def _misfit(field: pa.Field, error: Exception) -> UserCodeError:
    return UserCodeError(
        f"the message cannot be decoded as JSON: the field {field.name!r} has no value of type {field.type}: "
        f"{explanation(error)}"
    )
