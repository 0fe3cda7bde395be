"""Messages of Protocol Buffers, by a generated class."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from snapline.connectors.formats.message_format import (
    BatchDecoder,
    MessageDecoder,
    MessageEncoder,
    MessageFormat,
    Nulls,
    checked_nulls,
)
from snapline.connectors.formats.type_tree import can_cast
from snapline.contracts.schemas import checked_schema
from snapline.errors import ConfigurationError, UserCodeError
from snapline.text import explanation

_TIMESTAMP = "google.protobuf.Timestamp"
_ENUM, _STRING, _MESSAGE, _BYTES = 8, 9, 10, 12  # the last one is a `type`, the others are each a `cpp_type`
_PLAIN = dict(
    enumerate([pa.int32(), pa.int64(), pa.uint32(), pa.uint64(), pa.float64(), pa.float32(), pa.bool_()], 1)
) | {_ENUM: pa.string(), _STRING: pa.string()}


class Protobuf(MessageFormat):
    """Each message is one of a class that `protoc` generated. Its description travels with the job, not the class.

    Columns are the fields. One that can be absent is null then; one that cannot, such as a plain number of proto3, has
    no nulls. Repeated fields are lists, messages are structs, enums the names of their values, and
    `google.protobuf.Timestamp` is a timestamp, without its nanoseconds. `nulls` says what a message without a value
    becomes: "bad", a "row" of nulls, or "skip". Needs the extra `protobuf`.
    """

    def __init__(self, kind: type, *, nulls: Nulls = "bad") -> None:
        descriptor: Any = getattr(kind, "DESCRIPTOR", None)
        if not hasattr(descriptor, "fields_by_name"):
            raise ConfigurationError(f"formats.Protobuf({kind!r}): give a class of messages that protoc generated")
        self._name: str = descriptor.full_name
        self._files: dict[str, bytes] = {}
        self._add(descriptor.file)
        fields = [field.with_nullable(field.nullable or nulls == "row") for field in _struct(descriptor, ())]
        self._schema = checked_schema(pa.schema(fields), f"formats.Protobuf({self._name})")
        self._nulls = checked_nulls(nulls, self._schema, "formats.Protobuf()")

    def schema(self) -> pa.Schema:
        return self._schema

    def decoder(self) -> MessageDecoder:
        return _ProtobufDecoder(self._schema, self._nulls, self._class())

    def encoder(self, schema: pa.Schema) -> MessageEncoder:
        self.check(schema)
        return _ProtobufEncoder(self._class())

    def check(self, schema: pa.Schema) -> None:
        for field in schema:
            if field.name not in self._schema.names:
                raise ConfigurationError(f"formats.Protobuf(): {self._name} has no field for the column {field.name!r}")
            wanted = self._schema.field(field.name).type
            if not can_cast(field.type, wanted):
                raise ConfigurationError(
                    f"formats.Protobuf(): {field.name!r} is {field.type}; {self._name} takes {wanted}"
                )

    def _add(self, file: Any) -> None:  # after the files it needs
        for other in file.dependencies:
            self._add(other)
        self._files[file.name] = file.serialized_pb

    def _class(self) -> Any:
        try:
            from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
        except ImportError as error:
            raise ConfigurationError("formats.Protobuf() needs pip install 'snapline[protobuf]' everywhere") from error
        pool = descriptor_pool.DescriptorPool()
        for file in self._files.values():
            pool.Add(descriptor_pb2.FileDescriptorProto.FromString(file))
        return message_factory.GetMessageClass(pool.FindMessageTypeByName(self._name))


class _ProtobufDecoder(BatchDecoder):
    def __init__(self, schema: pa.Schema, nulls: Nulls, kind: Any) -> None:
        super().__init__(schema, nulls, f"the message {kind.DESCRIPTOR.full_name}")
        self._kind = kind
        self._readers = [_reader(field) for field in kind.DESCRIPTOR.fields]

    def _rows(self, messages: list[bytes]) -> pa.RecordBatch:
        parsed = list(map(self._kind.FromString, messages))
        parts = zip(self._readers, self._schema.types, strict=True)
        columns = [pa.array(list(map(read, parsed)), kind) for read, kind in parts]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)


class _ProtobufEncoder(MessageEncoder):
    def __init__(self, kind: Any) -> None:
        self._kind, self._type = kind, _struct(kind.DESCRIPTOR, ())

    def encode(self, batch: pa.RecordBatch) -> list[bytes]:
        # Arrow refuses nulls in fields that cannot be absent, which would become zeros; what can be absent may be None.
        wanted = pa.struct([self._type.field(name) for name in batch.schema.names])
        try:
            array = batch.to_struct_array()
            rows = (array if array.type == wanted else array.cast(wanted)).to_pylist(maps_as_pydicts="strict")
            return [self._kind(**row).SerializeToString() for row in rows]
        except (pa.ArrowException, ValueError, TypeError, KeyError) as error:
            raise UserCodeError(f"formats.Protobuf(): a row cannot be written: {explanation(error)}") from error


def _struct(descriptor: Any, path: tuple[str, ...]) -> pa.StructType:
    if descriptor.full_name in path:
        raise ConfigurationError(f"formats.Protobuf(): {descriptor.full_name} contains itself; use formats.Raw()")
    return pa.struct([_field(field, (*path, descriptor.full_name)) for field in descriptor.fields])


def _field(field: Any, path: tuple[str, ...]) -> pa.Field:
    kind: Any = pa.binary() if field.type == _BYTES else _PLAIN.get(field.cpp_type)
    if field.cpp_type == _MESSAGE:
        is_time = field.message_type.full_name == _TIMESTAMP
        kind = pa.timestamp("us", "UTC") if is_time else _struct(field.message_type, path)
    if _is_map(field):
        kind = pa.map_(kind.field("key").type, kind.field("value").with_nullable(False))
    elif field.default_value == []:  # repeated; its name for that is not the same in all versions
        kind = pa.list_(pa.field("item", kind, nullable=False))
    return pa.field(field.name, kind, nullable=field.has_presence)


def _reader(field: Any) -> Callable[[Any], Any]:
    name, value = field.name, _value_reader(field)
    if _is_map(field):
        item = _value_reader(field.message_type.fields_by_name["value"])
        return lambda message: [(key, item(found)) for key, found in getattr(message, name).items()]
    if field.default_value == []:
        return lambda message: [value(found) for found in getattr(message, name)]
    if field.has_presence:
        return lambda message: value(getattr(message, name)) if message.HasField(name) else None
    return lambda message: value(getattr(message, name))


def _value_reader(field: Any) -> Callable[[Any], Any]:
    if field.cpp_type == _ENUM:
        return {number: value.name for number, value in field.enum_type.values_by_number.items()}.__getitem__
    if field.cpp_type != _MESSAGE:
        return lambda value: value
    if field.message_type.full_name == _TIMESTAMP:
        return lambda value: value.seconds * 1_000_000 + value.nanos // 1000
    readers = {inner.name: _reader(inner) for inner in field.message_type.fields}
    return lambda message: {name: read(message) for name, read in readers.items()}


def _is_map(field: Any) -> bool:
    return field.cpp_type == _MESSAGE and bool(field.message_type.GetOptions().map_entry)
