"""Rows as messages of Kafka: value, key, partition, timestamp and headers, batch by batch, and how they are kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from snapline.connectors.formats import MessageEncoder, MessageFormat
from snapline.errors import ConfigurationError, UserCodeError

if TYPE_CHECKING:
    from confluent_kafka import Producer

ANY_PARTITION = -1
"""The partitioner chooses."""
NOW = 0
"""The timestamp of a message that has none: when it is sent."""

_HEADERS = pa.map_(pa.string(), pa.binary())
_KEPT = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
_BYTES = (pt.is_binary, pt.is_large_binary, pt.is_fixed_size_binary, pt.is_binary_view)
_TEXT = (pt.is_string, pt.is_large_string, pt.is_string_view)


@dataclass(frozen=True)
class MessageParts:
    """Which columns become which part of a message. It is pickled with the job.

    value_columns: None for all that are neither headers, timestamp nor partition.
    key_format: None if the key is one column of text or bytes, which is taken as it is.
    """

    call: str
    format: MessageFormat
    value_columns: tuple[str, ...] | None = None
    key_columns: tuple[str, ...] = ()
    key_format: MessageFormat | None = None
    partition: str | None = None
    timestamp: str | None = None
    headers: str | None = None

    def check(self, schema: pa.Schema) -> None:
        """Raises `ConfigurationError` if rows of this schema cannot become messages. Called on the driver."""
        self._check_columns(schema)
        self.format.check(self._chosen(schema, self._values(schema)))
        if self.key_format is not None:
            self.key_format.check(self._chosen(schema, self.key_columns))

    def _check_columns(self, schema: pa.Schema) -> None:
        self._check_names(schema)
        is_plain_key = self.key_format is None and bool(self.key_columns)
        if is_plain_key and not _is_any(schema.field(self.key_columns[0]).type, (*_BYTES, *_TEXT)):
            self._refuse(
                schema, "key", self.key_columns[0], "text or bytes; cast it, or give key_format=formats.Json()"
            )
        if self.partition is not None and not pt.is_integer(schema.field(self.partition).type):
            self._refuse(schema, "partition", self.partition, "whole numbers")
        if self.timestamp is not None:
            kind = schema.field(self.timestamp).type
            if not pt.is_timestamp(kind) and not pt.is_int64(kind):
                self._refuse(schema, "timestamp", self.timestamp, "timestamps, or int64 with milliseconds since 1970")
        if self.headers is not None and not _is_headers(schema.field(self.headers).type):
            wanted = "map<string, binary> or list<struct<key: string, value: binary>>"
            self._refuse(schema, "headers", self.headers, wanted)

    def encoder(self, schema: pa.Schema) -> RowEncoder:
        """Called where tasks run. Formats are not checked again: a registry that is away now is no wrong setting."""
        self._check_columns(schema)
        values = self._values(schema)
        key = None if self.key_format is None else self.key_format.encoder(self._chosen(schema, self.key_columns))
        return RowEncoder(self, values, self.format.encoder(self._chosen(schema, values)), key)

    def _values(self, schema: pa.Schema) -> tuple[str, ...]:
        apart = {self.partition, self.timestamp, self.headers}
        return self.value_columns or tuple(name for name in schema.names if name not in apart)

    def _check_names(self, schema: pa.Schema) -> None:
        given = {"partition": self.partition, "timestamp": self.timestamp, "headers": self.headers}
        named = [(setting, name) for setting, name in given.items() if name is not None]
        named += [("key", name) for name in self.key_columns]
        named += [("value_columns", name) for name in self.value_columns or ()]
        for setting, name in named:
            if name not in schema.names:
                raise ConfigurationError(
                    f"{self.call}: {setting} names the column {name!r}, and the rows have {', '.join(schema.names)}"
                )
        if not self._values(schema):
            raise ConfigurationError(f"{self.call}: no column is left for the value of messages; add one")

    def _refuse(self, schema: pa.Schema, setting: str, name: str, wanted: str) -> None:
        raise ConfigurationError(
            f"{self.call}: {setting}={name!r} is a column of {schema.field(name).type}; it has to be {wanted}"
        )

    @staticmethod
    def _chosen(schema: pa.Schema, names: Iterable[str]) -> pa.Schema:
        return pa.schema([schema.field(name) for name in names])


class RowEncoder:
    """Encodes batches of rows. Used by one thread at a time."""

    def __init__(
        self, parts: MessageParts, values: tuple[str, ...], encoder: MessageEncoder, key: MessageEncoder | None
    ) -> None:
        self._parts = parts
        self._values = list(values)
        self._encoder = encoder
        self._key = key

    def encode(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """A batch of messages: `value`, and what else they have of `key`, `partition`, `timestamp` and `headers`.

        Raises `UserCodeError`, which names the column, if a value cannot be encoded.
        """
        parts = self._parts
        columns = {"value": _binary(self._encoder.encode(rows.select(self._values)))}
        if self._key is not None:
            columns["key"] = _binary(self._key.encode(rows.select(list(parts.key_columns))))
        elif parts.key_columns:
            columns["key"] = rows.column(parts.key_columns[0]).cast(pa.large_binary())
        if parts.partition is not None:
            columns["partition"] = pc.fill_null(self._cast(rows, parts.partition, pa.int32()), ANY_PARTITION)
        if parts.timestamp is not None:
            columns["timestamp"] = pc.fill_null(self._milliseconds(rows, parts.timestamp), NOW)
        if parts.headers is not None:
            columns["headers"] = _headers(rows.column(parts.headers))
        return pa.RecordBatch.from_pydict(columns)

    def _milliseconds(self, rows: pa.RecordBatch, name: str) -> pa.Array:
        column = rows.column(name)
        if pt.is_timestamp(column.type):
            column = column.cast(pa.timestamp("ms"), safe=False).cast(pa.int64())
        if (pc.min(column).as_py() or 0) < 0:
            raise UserCodeError(
                f"{self._parts.call}: timestamp={name!r} has a time before 1970, which Kafka cannot keep"
            )
        return column

    def _cast(self, rows: pa.RecordBatch, name: str, kind: pa.DataType) -> pa.Array:
        try:
            return rows.column(name).cast(kind)
        except pa.ArrowException as error:
            raise UserCodeError(f"{self._parts.call}: the column {name!r} has a wrong value: {error}") from error


def largest_bytes(messages: pa.RecordBatch) -> int:
    """The size of the largest message of a batch, its key included."""
    sizes = pc.binary_length(messages.column("value"))
    if "key" in messages.schema.names:
        sizes = pc.add(pc.fill_null(sizes, 0), pc.fill_null(pc.binary_length(messages.column("key")), 0))
    return int(pc.max(sizes).as_py() or 0)


def kept_bytes(batches: list[pa.RecordBatch]) -> bytes:
    """Batches of messages as they are kept in a checkpoint."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema, options=_KEPT) as writer:
        for batch in batches:
            writer.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def kept_batches(data: bytes) -> Iterable[pa.RecordBatch]:
    """The batches of `kept_bytes`, in order."""
    with pa.ipc.open_stream(data) as reader:
        yield from reader


def produce_all(producer: Producer, topic: str, messages: pa.RecordBatch, wait: Callable[[], None]) -> None:
    """Hand a batch of messages to the client, in order; `wait` is called while its queue is full.

    Raises what the client raises.
    """
    produce = producer.produce
    columns = {name: messages.column(name).to_pylist() for name in messages.schema.names}
    values = columns.pop("value")
    keys = columns.pop("key", None)
    # The client's produce_batch takes a dict for each message and no headers, and is slower than this loop.
    if columns:
        count = len(values)
        rows: Iterable[tuple[Any, ...]] = zip(
            values,
            keys or [None] * count,
            columns.get("partition") or [ANY_PARTITION] * count,
            [None] * count,
            [None] * count,
            columns.get("timestamp") or [NOW] * count,
            (header or [] for header in columns.get("headers") or [None] * count),
            strict=True,
        )
    elif keys is not None:
        rows = zip(values, keys, strict=True)
    else:
        rows = zip(values, strict=True)
    for row in rows:
        try:
            produce(topic, *row)
        except BufferError:
            _insist(producer, topic, row, wait)


def _insist(producer: Producer, topic: str, row: tuple[Any, ...], wait: Callable[[], None]) -> None:
    while True:
        wait()
        try:
            producer.produce(topic, *row)
            return
        except BufferError:
            continue


def _binary(messages: Any) -> pa.Array:
    return pa.array(messages, pa.large_binary())


def _is_any(kind: pa.DataType, tests: Iterable[Callable[[pa.DataType], bool]]) -> bool:
    return any(test(kind) for test in tests)


def _is_headers(kind: pa.DataType) -> bool:
    if pt.is_map(kind):
        key, value = kind.key_type, kind.item_type
    elif (pt.is_list(kind) or pt.is_large_list(kind)) and pt.is_struct(kind.value_type):
        if kind.value_type.num_fields != 2:
            return False
        key, value = kind.value_type.field(0).type, kind.value_type.field(1).type
    else:
        return False
    return _is_any(key, _TEXT) and _is_any(value, (*_BYTES, *_TEXT))


def _headers(column: pa.Array) -> pa.Array:
    if pt.is_map(column.type):
        return column.cast(_HEADERS)
    rows = (None if row is None else [tuple(header.values()) for header in row] for row in column.to_pylist())
    return pa.array(list(rows), _HEADERS)
