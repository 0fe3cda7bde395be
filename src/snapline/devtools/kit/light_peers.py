"""Many slots on three threads, to try one real slot with: each has one channel to it and one back, and echoes."""

from __future__ import annotations

import socket
import threading
import time

import pyarrow as pa

from snapline.errors import PeerError
from snapline.runtime.network.admission import WELCOME, Admission, entering_limit
from snapline.runtime.network.channels import InputChannel, OutputChannel, RemoteChannel, RemoteInput
from snapline.runtime.network.data_connection import DataConnection
from snapline.runtime.network.exchange import Exchange
from snapline.runtime.network.flusher import Flusher
from snapline.runtime.network.heartbeat import Heartbeat
from snapline.runtime.network.item_codec import ChannelKey
from snapline.runtime.network.poller import Poller
from snapline.runtime.network.region_channels import Wiring
from snapline.runtime.wire.auth import DATA, Refusals, Route
from snapline.runtime.wire.channel_items import Item
from snapline.runtime.wire.secured_socket import SecuredSocket, client_handshake

OUT, BACK = 0, 1
"""The edges of the channels: from the real slot to its peers, and back."""

_TIMEOUT_S = 30.0


class _Echo:
    """The task of a light peer."""

    def __init__(self, output: OutputChannel | None = None, port: RemoteInput | None = None) -> None:
        self.output = output
        self.port = port

    def arrive(self, channel_index: int, item: Item) -> None:
        del channel_index
        assert self.output is not None
        assert self.port is not None
        self.port.consumed(item.size)
        self.output.send(item)

    def connection_lost(self, error: str) -> None:
        """The connections end with the real slot."""

    def room_changed(self) -> None:
        """Echoes need no room: the real slot waits for them."""

    def barrier_left(self, channel: OutputChannel, checkpoint_id: int) -> None:
        """Nobody waits for it."""

    def end_was_read(self, channel: OutputChannel) -> None:
        """Nobody waits for it."""


class Echoed:
    """The task of the real slot: counts what comes back, by peer."""

    def __init__(self) -> None:
        self.inputs: list[InputChannel] = []
        self.lost: list[str] = []
        self._counts: dict[int, int] = {}
        self._condition = threading.Condition()

    def arrive(self, channel_index: int, item: Item) -> None:
        self.inputs[channel_index].consumed(item.size)
        with self._condition:
            self._counts[channel_index] = self._counts.get(channel_index, 0) + 1
            self._condition.notify_all()

    def wait(self, peers: int, items: int) -> None:
        """Wait until this many items have come back from each of this many peers."""
        deadline = time.monotonic() + _TIMEOUT_S
        with self._condition:
            while sum(count >= items for count in self._counts.values()) < peers:
                if not self._condition.wait(deadline - time.monotonic()):
                    raise TimeoutError(f"only {len(self._counts)} of {peers} peers have answered; lost: {self.lost}")

    def connection_lost(self, error: str) -> None:
        self.lost.append(error)

    def room_changed(self) -> None:
        """It sends little and waits for the echo."""

    def barrier_left(self, channel: OutputChannel, checkpoint_id: int) -> None:
        """Nobody waits for it."""

    def end_was_read(self, channel: OutputChannel) -> None:
        """Nobody waits for it."""


class LightPeers:
    """All slots of a job except the one of `exchange`: lower ones dial it, higher ones are dialled by it."""

    def __init__(self, exchange: Exchange, slots: int, schema: pa.Schema) -> None:
        self.slots = [slot for slot in range(slots) if slot != exchange.slot]
        self._exchange = exchange
        self._schema = schema
        self._flusher = Flusher("light-flusher")
        self._poller = Poller("light-poller")
        self._lock = threading.Lock()
        self._connections: list[DataConnection] = []
        listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
        self._address = listener.getsockname()
        refusals = Refusals("the port of light peers")
        self._admission = Admission(
            listener, exchange.credentials, refusals, self._arrived, lambda _: None, entering_limit(slots)
        )

    def connect(self, attempt: int) -> tuple[Wiring, list[OutputChannel], Echoed]:
        """Start an attempt. Returns its wiring, the real slot's channels to its peers, and its task."""
        exchange, own = self._exchange, self._exchange.slot
        dialled = [(slot, self._dial(attempt, slot)) for slot in self.slots if slot < own]
        task = Echoed()
        peers = [self._address] * (len(self.slots) + 1)
        wiring = exchange.begin(attempt, peers, lambda slot, error: task.lost.append(f"slot {slot}: {error}"))
        outputs: list[OutputChannel] = []
        for index, slot in enumerate(self.slots):
            outputs.append(wiring.output(OUT, self._schema, own, slot, slot, task, may_be_unaligned=True))
            task.inputs.append(wiring.input(BACK, self._schema, slot, own, slot, task, index))
        wiring.connect(_TIMEOUT_S)
        for slot, sock in dialled:
            answer = sock.read_within(len(WELCOME), time.monotonic() + _TIMEOUT_S)
            if answer != WELCOME:
                raise PeerError(f"the real slot refused slot {slot}")
            self._start(slot, sock)
        return wiring, outputs, task

    def close(self) -> None:
        self._admission.close()
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            connection.stop()
        for connection in connections:
            connection.join()
        self._flusher.close()
        self._poller.close()

    def _dial(self, attempt: int, slot: int) -> SecuredSocket:
        sock = SecuredSocket(socket.create_connection(self._exchange.address, timeout=_TIMEOUT_S))
        client_handshake(sock, self._exchange.credentials, Route(DATA, attempt, slot, self._exchange.slot))
        return sock

    def _arrived(self, sock: SecuredSocket, host: str, route: Route) -> None:
        del host
        sock.send([WELCOME])
        self._start(route.to_slot, sock)

    def _start(self, slot: int, sock: SecuredSocket) -> None:
        own = self._exchange.slot
        echo = _Echo()
        limits = self._exchange.limits
        output = RemoteChannel(
            ChannelKey(BACK, slot, own), self._schema, echo, limits, self._flusher, may_be_unaligned=True
        )
        port = RemoteInput(ChannelKey(OUT, own, slot), self._schema, echo, 0, limits.channel_memory_bytes)
        echo.output, echo.port = output, port
        settings = self._exchange.heartbeat
        connection = DataConnection(sock, self._poller, [output], [port], lambda _: None, settings)
        with self._lock:
            self._connections.append(connection)
        connection.start()
        now_s = time.monotonic()
        self._flusher.watch(Heartbeat(connection, settings, now_s, has_begun=False), now_s)
