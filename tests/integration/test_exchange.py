"""Exchanges of several slots, over real sockets."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import struct
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from snapline.errors import EngineError, FencedError, PeerError
from snapline.runtime.items import Item, ItemKind, data_item
from snapline.runtime.network.admission import REFUSED, WELCOME, Hello
from snapline.runtime.network.auth import client_handshake
from snapline.runtime.network.channels import OutputChannel
from snapline.runtime.network.exchange import Exchange, Wiring, probe
from snapline.types import Barrier, BarrierKind

SECRET = b"a secret of 32 bytes, or about it"
SCHEMA = pa.schema([("number", pa.int64()), ("text", pa.string())])
BATCH_BYTES = 4096
WINDOW = 16_384


def batch(start: int, rows: int = 10) -> pa.RecordBatch:
    numbers = list(range(start, start + rows))
    return pa.record_batch([numbers, [f"row {number}" for number in numbers]], schema=SCHEMA)


def eventually(condition: Callable[[], Any], timeout_s: float = 10) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.001)


class Task:
    """A sender and a receiver that notes all it hears. Unless it `reads`, credit is given back only on demand."""

    def __init__(self, *, reads: bool = True) -> None:
        self.reads = reads
        self.items: dict[int, list[Item]] = defaultdict(list)
        self.inputs: dict[int, Any] = {}
        self.left: list[tuple[int, int]] = []
        self.ends_read: list[int] = []
        self.lost: list[str] = []
        self.rooms = 0

    def room_changed(self) -> None:
        self.rooms += 1

    def barrier_left(self, channel: OutputChannel, checkpoint_id: int) -> None:
        self.left.append((channel.downstream, checkpoint_id))

    def end_was_read(self, channel: OutputChannel) -> None:
        self.ends_read.append(channel.downstream)

    def arrive(self, channel_index: int, item: Item) -> None:
        self.items[channel_index].append(item)
        if self.reads:
            self.inputs[channel_index].consumed(item.size)

    def connection_lost(self, error: str) -> None:
        self.lost.append(error)

    def read_all(self, channel_index: int = 0) -> None:
        """From now on give credit back, and for all that has arrived so far."""
        self.reads = True
        for item in list(self.items[channel_index]):
            self.inputs[channel_index].consumed(item.size)

    def numbers(self, channel_index: int = 0) -> list[int]:
        batches = [item.value for item in self.items[channel_index] if item.kind.is_data]
        return [number for given in batches for number in given.column(0).to_pylist()]

    def kinds(self, channel_index: int = 0) -> list[ItemKind]:
        return [item.kind for item in self.items[channel_index]]


class World:
    """Some slots in one process, and what they were told of lost connections."""

    def __init__(self) -> None:
        self.exchanges: list[Exchange] = []
        self.lost: list[tuple[int, int]] = []
        self.reasons: list[str] = []

    def slots(self, count: int, *, flush_timeout_ms: int = 1, window: int = WINDOW) -> None:
        for slot in range(count):
            exchange = Exchange(
                "127.0.0.1",
                SECRET,
                slot=slot,
                batch_size_bytes=BATCH_BYTES,
                flush_timeout_ms=flush_timeout_ms,
                channel_memory_bytes=window,
            )
            self.exchanges.append(exchange)

    def begin(self, attempt: int = 1) -> list[Wiring]:
        peers = [exchange.address for exchange in self.exchanges]
        return [exchange.begin(attempt, peers, self._lost_at(exchange.slot)) for exchange in self.exchanges]

    def _lost_at(self, slot: int) -> Callable[[int, str], None]:
        def lost(peer: int, reason: str) -> None:
            self.lost.append((slot, peer))
            self.reasons.append(reason)

        return lost

    def close(self) -> None:
        for exchange in self.exchanges:
            exchange.close()


def open_sockets() -> int:
    return sum(os.readlink(path).startswith("socket:") for path in Path("/proc/self/fd").iterdir() if path.is_symlink())


@pytest.fixture
def world() -> Iterator[World]:
    threads, sockets = set(threading.enumerate()), open_sockets()
    world = World()
    try:
        yield world
    finally:
        world.close()
    eventually(lambda: set(threading.enumerate()) <= threads)
    assert open_sockets() == sockets


def connect(wirings: list[Wiring], timeout_s: float = 5) -> None:
    errors: list[BaseException] = []

    def run(wiring: Wiring) -> None:
        try:
            wiring.connect(timeout_s)
        except PeerError as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(wiring,)) for wiring in wirings]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def join(
    wirings: list[Wiring], source: int, target: int, *, reads: bool = True, edge: int = 0, up: Task | None = None
) -> tuple[OutputChannel, Task, Task]:
    """A channel from slot to slot: its sending end, the sending and the receiving task."""
    sender, receiver = up or Task(), Task(reads=reads)
    output = wirings[source].output(edge, SCHEMA, source, target, target, sender, may_be_unaligned=True)
    receiver.inputs[0] = wirings[target].input(edge, SCHEMA, source, target, source, receiver, 0)
    return output, sender, receiver


@pytest.mark.parametrize("source", [0, 1])
@pytest.mark.parametrize("target", [0, 1])
def test_everything_arrives_in_order(world: World, source: int, target: int) -> None:
    world.slots(2)
    wirings = world.begin()
    output, sender, receiver = join(wirings, source, target)
    connect(wirings)
    barrier = Barrier(7, 1, BarrierKind.ALIGNED, location="somewhere")
    for start in range(0, 3000, 10):
        output.send(data_item(batch(start)))
        if start == 1500:
            output.send_barrier(barrier)
            output.send(Item(ItemKind.CANCEL, 3))
    output.send(data_item(batch(3000), filtered=True))
    output.send(Item(ItemKind.WATERMARK, -5))
    output.send(Item(ItemKind.LATENCY, 99))
    output.send(Item(ItemKind.END_OF_DATA, 8))
    output.send(Item(ItemKind.END_OF_PARTITION))
    eventually(lambda: receiver.kinds()[-1:] == [ItemKind.END_OF_PARTITION])
    assert receiver.numbers() == list(range(3010))
    items = receiver.items[0]
    at = receiver.kinds().index(ItemKind.BARRIER)
    assert items[at].value == barrier
    assert items[at + 1] == Item(ItemKind.CANCEL, 3)
    assert sum(item.value.num_rows for item in items[:at]) == 1510
    assert [item[:2] for item in items[-4:]] == [
        (ItemKind.WATERMARK, -5),
        (ItemKind.LATENCY, 99),
        (ItemKind.END_OF_DATA, 8),
        (ItemKind.END_OF_PARTITION, None),
    ]
    assert len(items) < 150
    assert sender.left == [(target, 7)]
    receiver.inputs[0].end_read()
    eventually(lambda: sender.ends_read == [target])
    assert output.is_empty
    assert sender.rooms
    assert not world.lost
