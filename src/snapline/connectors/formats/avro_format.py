"""Messages of one Avro datum each, alone or with the id of their schema in a registry."""

from __future__ import annotations

import json
from collections.abc import Mapping
from io import BytesIO
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from snapline.config.secret import SecretLike
from snapline.connectors.formats.avro_schemas import (
    arrow_schema,
    avro_schema,
    schema_text,
    without_logical_types,
)
from snapline.connectors.formats.message_format import (
    BatchDecoder,
    Decoded,
    MessageDecoder,
    MessageEncoder,
    MessageFormat,
    Messages,
    Nulls,
    checked_nulls,
)
from snapline.connectors.formats.schema_registry import SchemaRegistry, UnknownSchemaError
from snapline.connectors.formats.type_tree import can_cast, rebuilt
from snapline.contracts.schemas import SchemaLike, checked_schema
from snapline.errors import ConfigurationError, TransientError, UserCodeError
from snapline.text import explanation

_MAGIC = 0
_HEADER_BYTES = 5
_RECORD_NAME = "Row"


class Avro(MessageFormat):
    """Each message is a record of Avro.

    `schema` is an Avro schema as JSON text or a dictionary, or a schema as elsewhere, such as "user STRING, n BIGINT",
    from which one is derived. Without `registry` a message is the record alone, which `schema` must describe exactly.

    With `registry`, the address of a schema registry, messages begin with the id of their schema (Confluent's wire
    format). Each is read with the schema it was written with and resolved to `schema`, or else to the newest one of
    `subject`. Rows are written with `schema`, or else with one derived from their columns, which is registered under
    `subject`; with `register=False` it must be there. Credentials are `Secret`s or text.

    `nulls` says what a message without a value becomes: "bad", a "row" of nulls, or "skip". Needs the extra `avro`.
    """

    def __init__(
        self,
        schema: SchemaLike | Mapping[str, Any] | None = None,
        *,
        registry: str | None = None,
        subject: str | None = None,
        registry_user: SecretLike | None = None,
        registry_password: SecretLike | None = None,
        registry_timeout_s: float = 10.0,
        register: bool = True,
        nulls: Nulls = "bad",
    ) -> None:
        _fastavro()
        self._text: str | None = None
        self._latest: str | None = None
        if schema is not None:
            self._text = schema_text(_given(schema))
            _columns(self._text)
        if registry is None and (subject is not None or registry_user is not None):
            raise ConfigurationError("formats.Avro(): subject= and credentials are of a registry; give registry= too")
        self._registry = None
        if registry is not None:
            self._registry = SchemaRegistry(
                registry, user=registry_user, password=registry_password, timeout_s=registry_timeout_s
            )
        self._subject = subject
        self._register = register
        self._nulls = checked_nulls(nulls, None, "formats.Avro()")

    def __repr__(self) -> str:
        return f"Avro(registry={self._registry!r}, subject={self._subject!r})"

    def schema(self) -> pa.Schema:
        found = _columns(self._reader_text())
        if self._nulls == "row":
            found = pa.schema([field.with_nullable(True) for field in found])
        return checked_schema(found, "formats.Avro()")

    def decoder(self) -> MessageDecoder:
        return _AvroDecoder(self.schema(), self._nulls, self._reader_text(), self._registry)

    def encoder(self, schema: pa.Schema) -> MessageEncoder:
        text = self._writer_text(schema)
        header = b""
        if self._registry is not None:
            subject = self._named_subject()
            request = self._registry.register if self._register else self._registry.lookup
            header = bytes([_MAGIC]) + request(subject, text).to_bytes(4, "big")
        return _AvroEncoder(text, header)

    def check(self, schema: pa.Schema) -> None:
        text = self._writer_text(schema)
        if self._registry is None:
            return
        subject = self._named_subject()
        try:
            if not self._register:
                self._registry.lookup(subject, text)
            elif not self._registry.is_compatible(subject, text):
                raise ConfigurationError(
                    f"formats.Avro(): the rows do not fit the subject {subject!r}, whose schema is not compatible; "
                    "change the columns so that readers of older messages can go on, or use another subject"
                )
        except (TransientError, UnknownSchemaError) as error:
            raise ConfigurationError(f"formats.Avro(): {error}") from error

    def _named_subject(self) -> str:
        if self._subject is None:
            raise ConfigurationError("formats.Avro(): writing with a registry needs subject=, such as 'TOPIC-value'")
        return self._subject

    def _reader_text(self) -> str:
        """The schema that messages are resolved to. Asked for once: the tasks of a job all use what the driver got."""
        if self._text is not None:
            return self._text
        if self._latest is None:
            if self._registry is None or self._subject is None:
                raise ConfigurationError(
                    "formats.Avro() has no schema, which decoding needs; give schema=, or registry= and subject="
                )
            try:
                self._latest = schema_text(json.loads(self._registry.latest(self._subject)))
            except (TransientError, UnknownSchemaError) as error:
                raise ConfigurationError(f"formats.Avro(): {error}") from error
        return self._latest

    def _writer_text(self, schema: pa.Schema) -> str:
        if self._text is None:
            return schema_text(avro_schema(schema, _RECORD_NAME))
        wanted = _columns(self._text)
        fields = {field["name"]: field for field in json.loads(self._text)["fields"]}
        for field in schema:
            if field.name not in wanted.names:
                raise ConfigurationError(f"formats.Avro(): the schema has no field for the column {field.name!r}")
        for field in wanted:
            if field.name not in schema.names:
                if "default" not in fields[field.name]:
                    raise ConfigurationError(f"formats.Avro(): there is no column for the field {field.name!r}")
                continue
            _check_cast(schema.field(field.name), field)
        return self._text


def _check_cast(given: pa.Field, wanted: pa.Field) -> None:
    if not can_cast(given.type, wanted.type):
        raise ConfigurationError(
            f"formats.Avro(): the column {given.name!r} is {given.type}; its field in the schema takes {wanted.type}"
        )


class _AvroDecoder(BatchDecoder):
    def __init__(self, schema: pa.Schema, nulls: Nulls, text: str, registry: SchemaRegistry | None) -> None:
        super().__init__(schema, nulls, "Avro")
        self._fastavro = _fastavro()
        self._text = text
        self._registry = registry
        self._plain = self._schemas(text)
        self._by_id: dict[int, tuple[Any, Any]] = {}
        self._unknown: dict[int, UnknownSchemaError] = {}

    def decode(self, values: Messages) -> Decoded:
        # Only for this batch: a schema may be registered later.
        self._unknown.clear()
        return super().decode(values)

    def _rows(self, messages: list[bytes]) -> pa.RecordBatch:
        rows = list(map(self._datum, messages))
        columns = [pa.array([row[field.name] for row in rows], field.type) for field in self._schema]
        batch = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        batch.validate()
        return batch

    def _verdict(self, message: bytes) -> tuple[Exception | None, bool]:
        try:
            self._datum(message)
        except (TransientError, ConfigurationError):
            raise
        except Exception as error:
            return error, True
        return None, False

    def _datum(self, message: bytes) -> Any:
        stream = BytesIO(message)
        writer, reader = self._plain
        if self._registry is not None:
            header = stream.read(_HEADER_BYTES)
            if len(header) < _HEADER_BYTES or header[0] != _MAGIC:
                raise ValueError("it does not begin with a zero byte and the id of a schema; was it written without?")
            writer, reader = self._schemas_of(int.from_bytes(header[1:], "big"))
        datum = self._fastavro.schemaless_reader(stream, writer, reader)
        if stream.read(1):
            raise ValueError(f"the record ends before byte {stream.tell()} of {len(message)}")
        return datum

    def _schemas_of(self, number: int) -> tuple[Any, Any]:
        found = self._by_id.get(number)
        if found is None:
            if number in self._unknown:
                raise self._unknown[number]
            assert self._registry is not None
            try:
                found = self._schemas(self._registry.schema(number))
            except UnknownSchemaError as error:
                self._unknown[number] = error
                raise
            self._by_id[number] = found
        return found

    def _schemas(self, writer: str) -> tuple[Any, Any]:
        """What a message is read with and resolved to. Times are numbers only if both mean the same by them."""
        is_same = schema_text(json.loads(writer)) == self._text
        if is_same:
            return _parsed(self._fastavro, writer, without_logical_types), None
        read, resolved = (
            _parsed(self._fastavro, text, lambda avro: without_logical_types(avro, only_uuid=True))
            for text in (writer, self._text)
        )
        return read, resolved


class _AvroEncoder(MessageEncoder):
    def __init__(self, text: str, header: bytes) -> None:
        self._fastavro = _fastavro()
        self._types = _columns(text)
        self._avro = _parsed(self._fastavro, text, without_logical_types)
        self._header = header

    def encode(self, batch: pa.RecordBatch) -> list[bytes]:
        names = batch.schema.names
        columns = [self._values(column, name) for column, name in zip(batch.columns, names, strict=True)]
        messages: list[bytes] = []
        write, avro, header = self._fastavro.schemaless_writer, self._avro, self._header
        for values in zip(*columns, strict=True):
            stream = BytesIO()
            stream.write(header)
            try:
                write(stream, avro, dict(zip(names, values, strict=True)))
            except (ValueError, TypeError, KeyError, OverflowError) as error:
                raise UserCodeError(
                    f"formats.Avro(): a row cannot be written with the schema: {explanation(error)}"
                ) from error
            messages.append(stream.getvalue())
        return messages

    def _values(self, column: pa.Array, name: str) -> list[Any]:
        """The values as fastavro takes them, with times as numbers."""
        kind = self._types.field(name).type
        try:
            column = column.cast(kind).cast(rebuilt(kind, _number_type))
            values: list[Any] = column.to_pylist(maps_as_pydicts="strict") if pt.is_nested(kind) else column.to_pylist()
        except (pa.ArrowException, KeyError) as error:
            raise UserCodeError(
                f"formats.Avro(): the column {name!r} cannot be written as {kind}: {explanation(error)}"
            ) from error
        return values


def _number_type(kind: pa.DataType) -> pa.DataType:
    if pt.is_timestamp(kind) or pt.is_time64(kind):
        return pa.int64()
    return pa.int32() if pt.is_date32(kind) or pt.is_time32(kind) else kind


def _given(schema: Any) -> Any:
    """A schema as Avro's, from what users give."""
    if isinstance(schema, Mapping):
        return schema
    if isinstance(schema, str) and schema.lstrip()[:1] in ("{", "[", '"'):
        try:
            return json.loads(schema)
        except ValueError as error:
            raise ConfigurationError(f"formats.Avro(): the schema is no JSON: {error}") from error
    return avro_schema(checked_schema(schema, "formats.Avro()"), _RECORD_NAME)


def _columns(text: str) -> pa.Schema:
    # Parsed before, so that references have full names.
    return arrow_schema(_parsed(_fastavro(), text))


def _parsed(fastavro: ModuleType, text: str, change: Any = lambda avro: avro) -> Any:
    """A schema as fastavro takes it. Raises `ConfigurationError` if it is none."""
    try:
        return fastavro.parse_schema(change(json.loads(text)), named_schemas={})
    except (fastavro.schema.SchemaParseException, fastavro.schema.UnknownType, ValueError, KeyError) as error:
        raise ConfigurationError(f"formats.Avro(): the schema is not one of Avro: {error}") from error


def _fastavro() -> ModuleType:
    try:
        import fastavro
    except ImportError as error:
        raise ConfigurationError(
            "formats.Avro() needs the package fastavro: pip install 'snapline[avro]' on the driver and the executors"
        ) from error
    found: ModuleType = fastavro
    return found
