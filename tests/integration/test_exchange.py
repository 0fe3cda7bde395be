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

from snapline.config import Encryption
from snapline.errors import EngineError, FencedError, PeerError
from snapline.runtime.network.admission import REFUSED, WELCOME
from snapline.runtime.network.channels import OutputChannel, RemoteChannel
from snapline.runtime.network.data_connection import DataConnection
from snapline.runtime.network.exchange import Exchange
from snapline.runtime.network.heartbeat import HeartbeatSettings
from snapline.runtime.network.item_codec import HEADER_BYTES, ChannelKey, decode_header, encode_heartbeat
from snapline.runtime.network.region_channels import Wiring
from snapline.runtime.wire.auth import DRIVER, Route
from snapline.runtime.wire.channel_items import Item, ItemKind, data_item
from snapline.runtime.wire.credentials import Credentials, new_credentials
from snapline.runtime.wire.secured_socket import SecuredSocket, client_handshake, server_handshake
from snapline.types import Barrier, BarrierKind

CREDENTIALS = new_credentials(Encryption.MAC)
STRANGE = Credentials(b"wrong", Encryption.MAC)
SCHEMA = pa.schema([("number", pa.int64()), ("text", pa.string())])
BATCH_BYTES = 4096
WINDOW = 16_384
HEARTBEAT = HeartbeatSettings(interval_ms=1_000, timeout_ms=5_000)


def dial(address: tuple[str, int], route: Route, credentials: Credentials = CREDENTIALS) -> SecuredSocket:
    secured = SecuredSocket(socket.create_connection(address, timeout=5))
    try:
        client_handshake(secured, credentials, route, 5)
    except BaseException:
        secured.close()
        raise
    return secured


def answer(secured: SecuredSocket) -> bytes:
    return secured.read_within(1, time.monotonic() + 5)


def probe(address: tuple[str, int], slot: int, credentials: Credentials = CREDENTIALS) -> bytes:
    """What the driver does to see whether a data port can be reached."""
    with contextlib.closing(dial(address, Route("probe", 0, DRIVER, slot), credentials)) as secured:
        return answer(secured)


def batch(start: int, rows: int = 10) -> pa.RecordBatch:
    numbers = list(range(start, start + rows))
    return pa.record_batch([numbers, [f"row {number}" for number in numbers]], schema=SCHEMA)


def read_to_end(sock: socket.socket) -> bytes:
    return b"".join(iter(lambda: sock.recv(4096), b""))


def eventually(condition: Callable[[], Any], timeout_s: float = 120) -> None:
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
        self.credentials = CREDENTIALS
        self.exchanges: list[Exchange] = []
        self.lost: list[tuple[int, int]] = []
        self.lost_regions: set[int] = set()
        self.reasons: list[str] = []

    def slots(
        self,
        count: int,
        *,
        flush_timeout_ms: int = 1,
        window: int = WINDOW,
        heartbeat: HeartbeatSettings = HEARTBEAT,
        regions: int = 1,
    ) -> None:
        for slot in range(count):
            exchange = Exchange(
                "127.0.0.1",
                self.credentials,
                slot=slot,
                slots=count,
                batch_size_bytes=BATCH_BYTES,
                flush_timeout_ms=flush_timeout_ms,
                channel_memory_bytes=window,
                heartbeat=heartbeat,
                regions=regions,
            )
            self.exchanges.append(exchange)

    def begin(self, attempt: int = 1, region: int = 0) -> list[Wiring]:
        peers = [exchange.address for exchange in self.exchanges]
        return [
            exchange.begin(attempt, peers, self._lost_at(exchange.slot, region), region) for exchange in self.exchanges
        ]

    def _lost_at(self, slot: int, region: int = 0) -> Callable[[int, str], None]:
        def lost(peer: int, reason: str) -> None:
            self.lost.append((slot, peer))
            self.lost_regions.add(region)
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


def test_credit_is_never_exceeded_by_more_than_a_batch(world: World) -> None:
    world.slots(2)
    wirings = world.begin()
    output, sender, receiver = join(wirings, 0, 1, reads=False)
    connect(wirings)
    sent = 0
    while not output.is_full:
        output.send(data_item(batch(sent)))
        sent += 10
        if sent > 100_000:
            pytest.fail("never full")
        time.sleep(0)
    arrived = len(receiver.items[0])
    # What needs no credit waits behind what does.
    output.send(Item(ItemKind.WATERMARK, 5))
    assert sum(item.size for item in receiver.items[0]) <= WINDOW + 2 * BATCH_BYTES
    rooms = sender.rooms
    receiver.read_all()
    eventually(lambda: not output.is_full)
    eventually(lambda: sender.rooms > rooms)
    output.flush()
    eventually(lambda: output.is_empty and receiver.kinds()[-1] is ItemKind.WATERMARK)
    assert len(receiver.items[0]) > arrived
    assert receiver.numbers() == list(range(sent))


def test_a_blocked_channel_blocks_no_other_on_the_same_connection(world: World) -> None:
    world.slots(2)
    wirings = world.begin()
    blocked, _, silent = join(wirings, 0, 1, reads=False, edge=0)
    free, _, reader = join(wirings, 0, 1, edge=1)
    back, _, back_reader = join(wirings, 1, 0, edge=2)
    connect(wirings)
    # Full for good: until its credit is used up, the poller may still make room.
    while not blocked.is_full or sum(item.size for item in list(silent.items[0])) < WINDOW:
        if not blocked.is_full:
            blocked.send(data_item(batch(0)))
    for start in range(0, 5_000, 10):
        free.send(data_item(batch(start)))
        back.send(data_item(batch(start)))
    for channel in (free, back):
        channel.send(Item(ItemKind.END_OF_PARTITION))
    for given in (reader, back_reader):
        eventually(lambda given=given: given.kinds()[-1:] == [ItemKind.END_OF_PARTITION])  # type: ignore[misc]
        assert given.numbers() == list(range(5_000))
    assert blocked.is_full
    assert sum(item.size for item in silent.items[0]) <= WINDOW + 2 * BATCH_BYTES


@pytest.mark.parametrize("target", [0, 1])
@pytest.mark.parametrize("is_prioritised", [False, True])
def test_an_unaligned_barrier_overtakes_exactly_what_is_queued(world: World, target: int, is_prioritised: bool) -> None:
    world.slots(2)
    wirings = world.begin()
    output, sender, receiver = join(wirings, 0, target, reads=False)
    connect(wirings)
    sent = 0
    while not output.is_full:
        output.send(data_item(batch(sent)))
        sent += 10
    if is_prioritised:
        assert output.send_barrier(Barrier(1, 0, BarrierKind.ALIGNED_WITH_TIMEOUT, 10)) == []
        output.send(data_item(batch(1_000_000)))
        overtaken = output.prioritize(1)
        assert output.prioritize(1) == []
    else:
        overtaken = output.send_barrier(Barrier(1, 0, BarrierKind.UNALIGNED))
    eventually(lambda: ItemKind.BARRIER in receiver.kinds())
    eventually(lambda: sender.left == [(target, 1)])
    before = receiver.items[0][: receiver.kinds().index(ItemKind.BARRIER)]
    assert overtaken
    captured = [item.value for item in before] + overtaken
    assert [number for part in captured for number in part.column(0).to_pylist()] == list(range(sent))
    receiver.read_all()
    output.flush()
    eventually(lambda: output.is_empty)
    expected = [*range(sent), *(range(1_000_000, 1_000_010) if is_prioritised else ())]
    eventually(lambda: receiver.numbers() == expected)


def test_many_slots_at_full_speed(world: World) -> None:
    count = 3
    world.slots(count)
    wirings = world.begin()
    outputs: list[OutputChannel] = []
    receivers = [Task() for _ in range(count)]
    # In whatever order: the ends of a channel find each other.
    for slot in range(count):
        for source in range(count):
            receivers[slot].inputs[source] = wirings[slot].input(
                0, SCHEMA, source, slot, source, receivers[slot], source
            )
        for target in range(count):
            outputs.append(wirings[slot].output(0, SCHEMA, slot, target, target, Task(), may_be_unaligned=True))
    connect(wirings)

    def send(channel: OutputChannel) -> None:
        for start in range(0, 2000, 10):
            while channel.is_full:
                time.sleep(0)
            channel.send(data_item(batch(start)))
        channel.send(Item(ItemKind.END_OF_PARTITION))

    threads = [threading.Thread(target=send, args=(channel,)) for channel in outputs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for receiver in receivers:
        for source in range(count):
            eventually(lambda at=(receiver, source): at[0].kinds(at[1])[-1:] == [ItemKind.END_OF_PARTITION])  # type: ignore[misc]
            assert receiver.numbers(source) == list(range(2000))
    # All channels have ended, so a side that goes first is not missed.
    wirings[0].close()
    wirings[1].close()
    assert not world.lost


def test_channels_of_a_connection_take_turns(world: World) -> None:
    world.slots(1)
    limits, flusher = world.exchanges[0].limits, world.exchanges[0].flusher
    ours, theirs = socket.socketpair()
    with theirs:
        channels = [
            RemoteChannel(ChannelKey(edge, 0, 1), SCHEMA, Task(), limits, flusher, may_be_unaligned=True)
            for edge in range(3)
        ]
        connection = DataConnection(
            SecuredSocket(ours), world.exchanges[0].poller, channels, (), lambda reason: None, HEARTBEAT
        )
        connection._is_writing = True
        for channel in channels:
            for number in range(3):
                channel.send(Item(ItemKind.CANCEL, number))
            channel.attach(connection)
        connection.give_credit(ChannelKey(9, 0, 1), 5)
        frames = [connection._next_frame() for _ in range(11)]
        assert frames.pop() is None
        keys = [decode_header(frame[0][:HEADER_BYTES]).key.edge for frame in frames if frame is not None]
        assert keys == [9, 0, 1, 2, 0, 1, 2, 0, 1, 2]
        connection.stop()
        connection.join()


def test_many_threads_write_to_one_connection_both_ways(world: World) -> None:
    world.slots(2, window=1 << 20)
    wirings = world.begin()
    count, rounds, size = 4, 20, 3000
    ends = [
        join(wirings, source, 1 - source, edge=2 * number + source) for number in range(count) for source in range(2)
    ]
    connect(wirings)

    def send(output: OutputChannel) -> None:
        for number in range(rounds):
            while output.is_full:
                time.sleep(0)
            output.send(data_item(batch(number * size, size)))
        output.send(Item(ItemKind.END_OF_PARTITION))

    threads = [threading.Thread(target=send, args=(output,)) for output, _, _ in ends]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for _, _, receiver in ends:
        eventually(lambda given=receiver: given.kinds()[-1:] == [ItemKind.END_OF_PARTITION])  # type: ignore[misc]
        received = pa.Table.from_batches([item.value for item in receiver.items[0] if item.kind.is_data])
        assert received.column(0).to_numpy().tolist() == list(range(rounds * size))
    assert not world.lost


class Trickle:
    """A socket that takes a few bytes at a time."""

    def __init__(self) -> None:
        self.taken = b""

    def sendmsg(self, views: list[memoryview]) -> int:
        part = b"".join(views)[:7]
        self.taken += part
        return len(part)


def test_what_a_socket_does_not_take_is_sent_later() -> None:
    sock: Any = Trickle()
    rest = [memoryview(b"a header, then "), memoryview(b""), memoryview(b"a body that is longer than that")]
    while rest:
        rest = SecuredSocket(sock).send_some(rest)
    assert sock.taken == b"a header, then a body that is longer than that"


# Attempts.


def test_a_connection_may_come_before_its_attempt_has_begun(world: World) -> None:
    world.slots(2)
    peers = [exchange.address for exchange in world.exchanges]
    first = world.exchanges[0].begin(5, peers, lambda slot, error: None)
    output = first.output(0, SCHEMA, 0, 1, 1, Task(), may_be_unaligned=True)
    thread = threading.Thread(target=first.connect, args=(5,))
    thread.start()
    eventually(lambda: world.exchanges[1]._parked)
    second = world.exchanges[1].begin(5, peers, lambda slot, error: None)
    receiver = Task()
    receiver.inputs[0] = second.input(0, SCHEMA, 0, 1, 0, receiver, 0)
    second.connect(5)
    thread.join()
    output.send(data_item(batch(0)))
    eventually(lambda: receiver.numbers() == list(range(10)))


def test_a_new_attempt_ends_the_old_one_and_an_older_one_is_refused(world: World) -> None:
    world.slots(2)
    wirings = world.begin(1)
    join(wirings, 0, 1)
    connect(wirings)
    wirings = world.begin(2)
    output, _, receiver = join(wirings, 1, 0)
    connect(wirings)
    output.send(data_item(batch(0)))
    eventually(lambda: receiver.numbers() == list(range(10)))
    with pytest.raises(FencedError):
        world.begin(2)
    for route in (Route("data", 1, 0, 1), Route("data", 2, 0, 5), Route("data", 2, 1, 1), Route("data", 2, 0, 1)):
        with contextlib.closing(dial(world.exchanges[1].address, route)) as secured:
            assert answer(secured) == REFUSED
    assert world.exchanges[1].refusals.total == 4
    output.send(data_item(batch(10)))
    eventually(lambda: receiver.numbers() == list(range(20)))


def test_a_region_is_wired_again_beside_another(world: World) -> None:
    world.slots(2, regions=2)
    kept, ended = world.begin(1, region=0), world.begin(1, region=1)
    output, _, receiver = join(kept, 0, 1)
    join(ended, 0, 1, edge=1)
    connect([*kept, *ended])
    output.send(data_item(batch(0)))
    again = world.begin(2, region=1)
    other, _, reader = join(again, 0, 1, edge=1)
    connect(again)
    for channel in (output, other):
        channel.send(data_item(batch(10)))
    eventually(lambda: (receiver.numbers(), reader.numbers()) == (list(range(20)), list(range(10, 20))))
    # The slot that begins last may see the end of the old connection first.
    assert world.lost_regions <= {1}
    for route in (Route("data", 1, 0, 1, 1), Route("data", 1, 0, 1, 2)):
        with contextlib.closing(dial(world.exchanges[1].address, route)) as secured:
            assert answer(secured) == REFUSED


def test_an_old_dialler_is_told_so(world: World) -> None:
    world.slots(2)
    peers = [exchange.address for exchange in world.exchanges]
    world.exchanges[1].begin(7, peers, lambda slot, error: None)
    old = world.exchanges[0].begin(6, peers, lambda slot, error: None)
    old.output(0, SCHEMA, 0, 1, 1, Task(), may_be_unaligned=True)
    with pytest.raises(PeerError, match="refused"):
        old.connect(5)


def test_connecting_ends_in_time(world: World) -> None:
    world.slots(2)
    wirings = world.begin()
    join(wirings, 0, 1)
    with pytest.raises(PeerError, match="silent"):
        wirings[0].connect(0.05)
    wirings = world.begin(2)
    join(wirings, 0, 1)
    with pytest.raises(PeerError, match=r"slots \[0\] did not connect"):
        wirings[1].connect(0.05)
    with pytest.raises(EngineError):
        join(wirings, 0, 1, edge=1)


def test_connecting_is_ended_by_close(world: World) -> None:
    world.slots(2)
    wirings = world.begin()
    join(wirings, 0, 1)
    errors: list[str] = []

    def run(wiring: Wiring) -> None:
        with pytest.raises(PeerError) as caught:
            wiring.connect(30)
        errors.append(str(caught.value))

    thread = threading.Thread(target=run, args=(wirings[0],))
    thread.start()
    eventually(lambda: wirings[0]._dialling)
    wirings[0].close()
    thread.join(5)
    assert errors == ["the attempt was ended while it was connecting"]


def test_a_port_that_nobody_listens_on(world: World) -> None:
    world.slots(2)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    peers = [*(exchange.address for exchange in world.exchanges), ("127.0.0.1", port)]
    wiring = world.exchanges[0].begin(1, peers, lambda slot, error: None)
    for slot in (1, 2):
        wiring.output(0, SCHEMA, 0, slot, slot, Task(), may_be_unaligned=True)
    with pytest.raises(PeerError, match="cannot be reached"):
        wiring.connect(5)
    assert wiring._dialling == {}  # the other one was hung up on


# Ends and breaks.


def test_a_lost_connection_is_told_once(world: World) -> None:
    world.slots(2)
    wirings = world.begin()
    output, _, _ = join(wirings, 0, 1)
    _, _, receiver = join(wirings, 1, 0)
    connect(wirings)
    wirings[1].close()
    wirings[1].close()
    eventually(lambda: world.lost)
    for start in range(0, 10_000, 10):
        output.send(data_item(batch(start)))
    assert world.lost == [(0, 1)]
    assert len(receiver.lost) == 1


class Relay:
    """Stands between two slots. Once it is cut it forwards nothing, and both sides keep their connections."""

    def __init__(self, target: tuple[str, int]) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._listener.getsockname()
        self._target = target
        self._is_cut = threading.Event()
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(self._target)
                self._sockets += [near, far]
                for source, sink in ((near, far), (far, near)):
                    threading.Thread(target=self._forward, args=(source, sink), daemon=True).start()

    def _forward(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                if not self._is_cut.is_set():
                    sink.sendall(data)

    def cut(self) -> None:
        self._is_cut.set()

    def close(self) -> None:
        for sock in (self._listener, *self._sockets):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()


@pytest.mark.slow
@pytest.mark.parametrize("is_busy", [False, True])
def test_slots_that_lose_each_other_notice_it_within_the_timeout(world: World, is_busy: bool) -> None:
    world.slots(2, heartbeat=HeartbeatSettings(interval_ms=50, timeout_ms=1_000))
    relay = Relay(world.exchanges[1].address)
    try:
        peers = [world.exchanges[0].address, relay.address]
        wirings = [exchange.begin(1, peers, world._lost_at(exchange.slot)) for exchange in world.exchanges]
        output, _, receiver = join(wirings, 0, 1)
        connect(wirings)
        output.send(data_item(batch(0)))
        eventually(lambda: receiver.numbers() == list(range(10)))
        quiet_until = time.monotonic() + 1.5
        eventually(lambda: time.monotonic() > quiet_until)
        assert world.lost == [], "heartbeats keep an idle connection alive"
        relay.cut()
        if is_busy:
            output.send(data_item(batch(10)))
        eventually(lambda: len(world.lost) == 2)
        assert sorted(world.lost) == [(0, 1), (1, 0)]
        assert set(world.reasons) == {"nothing has come from it for 1 s (heartbeat_timeout)"}
    finally:
        relay.close()


def test_close_is_quick_although_the_other_side_hangs(world: World) -> None:
    world.slots(1, window=1 << 30)
    with socket.create_server(("127.0.0.1", 0)) as server:
        wiring = world.exchanges[0].begin(1, [("", 0), server.getsockname()], lambda slot, error: None)
        output = wiring.output(0, SCHEMA, 0, 1, 1, Task(), may_be_unaligned=True)
        peer: list[SecuredSocket] = []

        def serve() -> None:
            sock, _ = server.accept()
            secured = SecuredSocket(sock)
            assert server_handshake(secured, CREDENTIALS, "data") == Route("data", 1, 0, 1)
            secured.send([WELCOME])
            peer.append(secured)

        thread = threading.Thread(target=serve)
        thread.start()
        wiring.connect(5)
        thread.join()
        large = data_item(batch(0, 50_000))
        for _ in range(20):
            output.send(large)
        assert not output.is_empty
        start = time.monotonic()
        wiring.close()
        assert time.monotonic() - start < 4
        peer[0].close()


def test_a_callback_may_close(world: World) -> None:
    world.slots(2)
    peers = [exchange.address for exchange in world.exchanges]
    closed: list[int] = []

    def lost(slot: int, error: str) -> None:
        first.close()
        closed.append(slot)

    first = world.exchanges[0].begin(1, peers, lost)
    second = world.exchanges[1].begin(1, peers, lambda slot, error: None)
    join([first, second], 0, 1)
    connect([first, second])
    second.close()
    eventually(lambda: closed == [1])


# Strangers.


def garbage(sock: socket.socket) -> None:
    sock.sendall(b"GET / HTTP/1.1\r\nHost: somewhere\r\nAccept: everything there is, and more\r\n\r\n")


def wrong_secret(sock: socket.socket) -> None:
    client_handshake(SecuredSocket(sock), STRANGE, Route("data", 1, 0, 1))


def half_a_hello(sock: socket.socket) -> None:
    sock.sendall(b"SNAP\x02data")
    sock.shutdown(socket.SHUT_WR)


@pytest.mark.parametrize("attack", [garbage, wrong_secret, half_a_hello])
def test_strangers_are_refused_and_logged_once(
    world: World, attack: Callable[[socket.socket], None], caplog: pytest.LogCaptureFixture
) -> None:
    world.slots(2)
    wirings = world.begin()
    output, _, receiver = join(wirings, 0, 1)
    connect(wirings)
    with caplog.at_level(logging.WARNING):
        for _ in range(5):
            with socket.create_connection(world.exchanges[1].address) as sock, contextlib.suppress(PeerError, OSError):
                attack(sock)
                sock.settimeout(5)
                assert sock.recv(1) == b""
        eventually(lambda: world.exchanges[1].refusals.total == 5)
    assert len(caplog.records) == 1
    assert "refused a connection from 127.0.0.1" in caplog.text
    output.send(data_item(batch(0)))
    eventually(lambda: receiver.numbers() == list(range(10)))
    assert not world.lost


def test_two_hundred_silent_connections_keep_nobody_out(world: World) -> None:
    world.slots(2)
    silent = [socket.create_connection(world.exchanges[1].address) for _ in range(200)]
    wirings = world.begin()
    output, _, receiver = join(wirings, 0, 1)
    connect(wirings)
    output.send(data_item(batch(0)))
    eventually(lambda: receiver.numbers() == list(range(10)))
    assert probe(world.exchanges[1].address, 1) == WELCOME
    assert threading.active_count() < 20
    for sock in silent:
        sock.close()
    eventually(lambda: world.exchanges[1].refusals.total == 200)


def test_silence_is_not_waited_for_any_longer(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("snapline.runtime.network.admission.HANDSHAKE_TIMEOUT_S", 0.05)
    world.slots(1)
    with socket.create_connection(world.exchanges[0].address) as sock:
        sock.settimeout(5)
        assert sock.recv(1) == b""
    assert world.exchanges[0].refusals.total == 1


def test_a_probe_tells_whether_a_port_is_one_of_the_job(world: World) -> None:
    world.slots(1)
    address = world.exchanges[0].address
    assert probe(address, 0) == WELCOME
    assert probe(address, 1) == REFUSED, "another slot listens there"
    with pytest.raises(PeerError, match="secret"):
        probe(address, 0, STRANGE)


@pytest.mark.parametrize(
    ("frame", "complaint"),
    [
        (struct.pack("<BBHHHIQ", 0, 0, 0, 0, 1, 300 << 20, 0), "no more than"),
        (struct.pack("<BBHHHIQ", 99, 0, 0, 0, 1, 0, 0), "unknown kind"),
        (struct.pack("<BBHHHIQ", 5, 0, 0, 0, 1, 1 << 20, 0), "with 1048576 bytes"),
        (struct.pack("<BBHHHIQ", 7, 0, 9, 0, 1, 0, 0), "no channel"),
        (struct.pack("<BBHHHIQ", 65, 0, 9, 0, 1, 0, 0), "no channel"),
        (struct.pack("<BBHHHIQ", 0, 0, 0, 0, 1, 3, 0) + b"abc", "cannot be decoded"),
        (struct.pack("<BBHHHIQ", 0, 0, 0, 0, 1, 3, 0) + b"a", "middle"),
        (struct.pack("<BB", 0, 0), "middle"),
        (b"", "closed the connection"),
    ],
)
def test_a_peer_that_talks_nonsense_is_dropped(world: World, frame: bytes, complaint: str) -> None:
    world.slots(3)
    wirings = world.begin()
    receiver = Task()
    receiver.inputs[0] = wirings[1].input(0, SCHEMA, 0, 1, 0, receiver, 0)
    healthy, _, reader = join(wirings, 2, 1, edge=1)
    with contextlib.closing(dial(world.exchanges[1].address, Route("data", 1, 0, 1))) as secured:
        sock = secured.socket
        connect(wirings[1:])
        assert answer(secured) == WELCOME
        head, body = frame[:HEADER_BYTES], frame[HEADER_BYTES:]
        sock.sendall(b"".join(secured.protected([part for part in (head, body) if part])))
        sock.shutdown(socket.SHUT_WR)
        eventually(lambda: world.lost == [(1, 0)])
        assert complaint in world.reasons[0]
        assert len(receiver.lost) == 1
        (heartbeat,) = encode_heartbeat()
        size = len(heartbeat) + secured.tag_bytes
        rest = read_to_end(sock)
        assert all(rest[start:].startswith(heartbeat) for start in range(0, len(rest), size))
    healthy.send(data_item(batch(0)))
    eventually(lambda: reader.numbers() == list(range(10)))
