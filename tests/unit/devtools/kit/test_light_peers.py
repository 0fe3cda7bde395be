"""One real slot and a thousand others."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest

from snapline.config import Encryption
from snapline.devtools.kit.light_peers import LightPeers
from snapline.runtime.network.descriptors import require_descriptors
from snapline.runtime.network.exchange import Exchange
from snapline.runtime.network.heartbeat import HeartbeatSettings
from snapline.runtime.wire.channel_items import Item, ItemKind, data_item
from snapline.runtime.wire.credentials import Credentials
from snapline.types import Barrier, BarrierKind

SLOTS = 1001
SCHEMA = pa.schema([("number", pa.int64())])


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def make_exchange(slot: int, slots: int) -> Exchange:
    return Exchange(
        "127.0.0.1",
        Credentials(b"a secret of 32 bytes, or about it", Encryption.MAC),
        slot=slot,
        slots=slots,
        batch_size_bytes=128 << 10,
        flush_timeout_ms=10,
        channel_memory_bytes=512 << 10,
        heartbeat=HeartbeatSettings(1000, 5000),
    )


@pytest.fixture
def real() -> Iterator[Exchange]:
    require_descriptors(3 * SLOTS, "the test")
    exchange = make_exchange(SLOTS // 2, SLOTS)
    yield exchange
    exchange.close()


@pytest.mark.slow
def test_a_slot_exchanges_with_a_thousand_peers_over_two_attempts_without_a_thread_for_any(real: Exchange) -> None:
    peers = LightPeers(real, SLOTS, SCHEMA)
    try:
        threads, before = threading.active_count(), descriptors()
        for attempt in (1, 2):
            wiring, outputs, task = peers.connect(attempt)
            for number, output in enumerate(outputs):
                output.send(data_item(pa.record_batch([list(range(number))], schema=SCHEMA)))
                output.send_barrier(Barrier(attempt, 0, BarrierKind.ALIGNED))
                output.send(Item(ItemKind.WATERMARK, number))
            task.wait(SLOTS - 1, 3)
            assert task.lost == []
            assert threading.active_count() == threads
            # Two ends of each connection; those of an older attempt are gone at the real slot.
            assert descriptors() - before <= (attempt + 1) * (SLOTS - 1)
        wiring.close()
    finally:
        peers.close()


def test_socket_buffers_are_shared_by_the_slots_of_the_job() -> None:
    for slots, most in ((2, 1 << 20), (128, 1 << 20), (512, 256 << 10), (100_000, 64 << 10)):
        exchange = make_exchange(1, slots)
        try:
            assert exchange.socket_buffer_bytes == most
            with socket.create_connection(exchange.address):
                pass
        finally:
            exchange.close()
