"""Frames, cut wherever the network cuts them."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from snapline.errors import PeerError
from snapline.runtime.network import item_codec as codec
from snapline.runtime.network.frame_reader import FrameReader
from snapline.runtime.network.item_codec import ChannelKey
from snapline.runtime.wire.channel_items import Item, ItemKind, data_item
from snapline.runtime.wire.secured_socket import SecuredSocket

KEY = ChannelKey(1, 2, 3)
SCHEMA = pa.schema([("number", pa.int64())])


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs:
        yield ours, theirs


def frames(*items: Item) -> bytes:
    return b"".join(bytes(memoryview(part)) for item in items for part in codec.encode(KEY, item))


def read(reader: FrameReader) -> list[Item]:
    made: list[Item] = []
    while True:
        has_more = reader.receive()
        while (frame := reader.next_frame()) is not None:
            header, body = frame
            assert header.key == KEY
            made.append(codec.decode(header, body, SCHEMA))
        if not has_more:
            return made


def batch(rows: int) -> Item:
    return data_item(pa.record_batch([list(range(rows))], schema=SCHEMA))


def plain(items: list[Item]) -> list[tuple[ItemKind, Any]]:
    return [(item.kind, item.value.to_pydict() if item.kind.is_data else item.value) for item in items]


ITEMS = [
    batch(3),
    Item(ItemKind.WATERMARK, 5),
    Item(ItemKind.END_OF_PARTITION),
    batch(5000),
    batch(0),
    *(Item(ItemKind.CANCEL, number) for number in range(600)),
    batch(2000),
    Item(ItemKind.END_OF_DATA, 7),
]


@pytest.mark.parametrize("step", [1, 7, codec.HEADER_BYTES, 4096, 8192, 100_000])
def test_frames_are_the_same_wherever_they_are_cut(pair: tuple[socket.socket, socket.socket], step: int) -> None:
    ours, theirs = pair
    data = frames(*ITEMS)
    reader = FrameReader(SecuredSocket(ours))
    made: list[Item] = []
    for start in range(0, len(data), step):
        theirs.sendall(data[start : start + step])
        made += read(reader)
    assert plain(made) == plain(ITEMS)
    assert not reader.has_ended
    theirs.close()
    assert read(reader) == []
    assert reader.has_ended


def test_several_small_frames_cost_one_read(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    reader = FrameReader(SecuredSocket(ours))
    theirs.sendall(frames(*(Item(ItemKind.CANCEL, number) for number in range(50))))
    assert not reader.receive()
    assert sum(1 for _ in iter(reader.next_frame, None)) == 50


def test_a_large_body_and_the_next_header_cost_one_read(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    reader = FrameReader(SecuredSocket(ours))
    data = frames(batch(3000), Item(ItemKind.CANCEL, 1))
    theirs.sendall(data[:9000])
    read(reader)
    theirs.sendall(data[9000:])
    assert not reader.receive()
    assert sum(1 for _ in iter(reader.next_frame, None)) == 2


@pytest.mark.parametrize("length", [1, codec.HEADER_BYTES, codec.HEADER_BYTES + 1, 9000])
def test_an_end_within_a_frame(pair: tuple[socket.socket, socket.socket], length: int) -> None:
    ours, theirs = pair
    theirs.sendall(frames(batch(3000))[:length])
    theirs.close()
    reader = FrameReader(SecuredSocket(ours))
    read(reader)
    with pytest.raises(PeerError, match="in the middle of a frame"):
        read(reader)


@pytest.mark.parametrize(
    ("header", "complaint"),
    [
        (struct.pack("<BBHHHIQ", 0, 0, 0, 0, 1, 300 << 20, 0), "no more than"),
        (struct.pack("<BBHHHIQ", 99, 0, 0, 0, 1, 0, 0), "unknown kind"),
        (struct.pack("<BBHHHIQ", 5, 0, 0, 0, 1, 1 << 20, 0), "with 1048576 bytes"),
    ],
)
def test_nonsense_is_refused_by_its_header(
    pair: tuple[socket.socket, socket.socket], header: bytes, complaint: str
) -> None:
    ours, theirs = pair
    theirs.sendall(header)
    with pytest.raises(PeerError, match=complaint):
        read(FrameReader(SecuredSocket(ours)))
