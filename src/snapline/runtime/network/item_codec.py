"""Frames of the data plane: a header of fixed size and a body."""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from snapline.errors import EngineError, PeerError
from snapline.runtime.wire.channel_items import Item, ItemKind
from snapline.types import Barrier

FRAME_LIMIT_BYTES = 256 * 1024 * 1024

CREDIT = 64
"""Frame kind, from the receiver: returned credit; the body is the number of bytes."""
END_READ = 65
"""Frame kind, from the receiver: END_OF_DATA was read."""

HEARTBEAT = 66
"""Frame kind, from either side, of no channel: this side lives."""

_STREAM = 1
"""Flag: the body is an IPC stream with its own schema and dictionaries."""

_HEADER = struct.Struct("<BBHHHIQ")
HEADER_BYTES = _HEADER.size
_NUMBER = struct.Struct("<q")
_NUMBERS = frozenset({ItemKind.WATERMARK, ItemKind.LATENCY, ItemKind.CANCEL, ItemKind.END_OF_DATA, CREDIT})
_REPLIES = frozenset({CREDIT, END_READ, HEARTBEAT})
_KINDS = {int(kind): kind for kind in ItemKind}

_encoder = msgspec.msgpack.Encoder()
_barriers: msgspec.msgpack.Decoder[Barrier] = msgspec.msgpack.Decoder(Barrier)


class ChannelKey(NamedTuple):
    """Identifies a channel: the index of its edge in the plan and the subtasks at its ends."""

    edge: int
    upstream: int
    downstream: int


class Header(NamedTuple):
    """Precedes a body of `length` bytes. `size` is what data counts against the channel's memory."""

    kind: int
    flags: int
    key: ChannelKey
    length: int
    size: int


def has_dictionary(kind: pa.DataType | pa.Schema) -> bool:
    """Whether a type or schema is or contains a dictionary."""
    if isinstance(kind, pa.Schema):
        return any(has_dictionary(field.type) for field in kind)
    if isinstance(kind, pa.BaseExtensionType):
        return has_dictionary(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return True
    if pa.types.is_run_end_encoded(kind):
        return has_dictionary(kind.value_type)
    return any(has_dictionary(kind.field(index).type) for index in range(kind.num_fields))


def encode(key: ChannelKey, item: Item, *, with_dictionaries: bool = False) -> list[Any]:
    """The frame of an item as parts to send one after the other: the header, and the body if there is one."""
    kind = item.kind
    if kind <= ItemKind.FILTERED_DATA:
        flags, body = (_STREAM, _as_stream(item.value)) if with_dictionaries else (0, item.value.serialize())
        if body.size > FRAME_LIMIT_BYTES:
            raise EngineError(f"a batch of {body.size} bytes in one frame; batches must be split before")
        return [_HEADER.pack(kind, flags, *key, body.size, item.size), body]
    if kind is ItemKind.BARRIER:
        return _small(key, kind, _encoder.encode(item.value))
    return _small(key, kind, b"" if item.value is None else _NUMBER.pack(item.value))


def encode_credit(key: ChannelKey, size: int) -> list[bytes]:
    return _small(key, CREDIT, _NUMBER.pack(size))


def encode_end_read(key: ChannelKey) -> list[bytes]:
    return _small(key, END_READ, b"")


def encode_heartbeat() -> list[bytes]:
    return _small(ChannelKey(0, 0, 0), HEARTBEAT, b"")


def decode_header(data: bytes | bytearray | memoryview) -> Header:
    """Raises `PeerError` if the kind is unknown or the body too large."""
    kind, flags, edge, upstream, downstream, length, size = _HEADER.unpack(data)
    if length > FRAME_LIMIT_BYTES:
        raise PeerError(f"a frame of {length} bytes; no more than {FRAME_LIMIT_BYTES} are allowed")
    if kind not in _KINDS and kind not in _REPLIES:
        raise PeerError(f"a frame of the unknown kind {kind}")
    return Header(kind, flags, ChannelKey(edge, upstream, downstream), length, size)


def decode(header: Header, body: pa.Buffer | bytes | memoryview, schema: pa.Schema) -> Item:
    """The item of a sender's frame; data refers to `body`. `PeerError` if it is damaged."""
    kind = _KINDS[header.kind]
    try:
        if kind <= ItemKind.FILTERED_DATA:
            if header.flags & _STREAM:
                with pa.ipc.open_stream(body) as stream:
                    batch = stream.read_next_batch()
                if not batch.schema.equals(schema):
                    raise PeerError("a batch with another schema than its edge")
            else:
                batch = pa.ipc.read_record_batch(body, schema)
            return Item(kind, batch, header.size)
        if kind is ItemKind.BARRIER:
            return Item(kind, _barriers.decode(body))
        return Item(kind, decode_number(body) if kind in _NUMBERS else None)
    except (pa.ArrowException, msgspec.MsgspecError, OSError, ValueError, EOFError, StopIteration) as error:
        raise PeerError(f"a frame that cannot be decoded: {error}") from error


def decode_number(body: pa.Buffer | bytes | memoryview) -> int:
    try:
        (number,) = _NUMBER.unpack(body)
    except struct.error as error:
        raise PeerError(f"a frame that cannot be decoded: {error}") from error
    return int(number)


def _small(key: ChannelKey, kind: int, body: bytes) -> list[bytes]:
    header = _HEADER.pack(kind, 0, *key, len(body), 0)
    return [header, body] if body else [header]


def _as_stream(batch: pa.RecordBatch) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return sink.getvalue()
