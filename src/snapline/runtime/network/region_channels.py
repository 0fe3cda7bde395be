"""The channels of one region in one attempt, as one process sees them, and the connections that carry them."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

import pyarrow as pa

from snapline.errors import EngineError, PeerError
from snapline.runtime.network.admission import WELCOME
from snapline.runtime.network.channels import (
    InputChannel,
    LocalChannel,
    LocalInput,
    OutputChannel,
    Receiver,
    RemoteChannel,
    RemoteInput,
    Sender,
)
from snapline.runtime.network.data_connection import DataConnection
from snapline.runtime.network.flusher import Flusher
from snapline.runtime.network.heartbeat import Heartbeat, HeartbeatSettings
from snapline.runtime.network.item_codec import ChannelKey
from snapline.runtime.network.output_queue import ChannelLimits
from snapline.runtime.network.poller import Poller
from snapline.runtime.wire.auth import DATA, HANDSHAKE_TIMEOUT_S, ClosedEarlyError, Route
from snapline.runtime.wire.credentials import Credentials
from snapline.runtime.wire.secured_socket import SecuredSocket, client_handshake
from snapline.runtime.wire.socket_errors import connect_advice

Lost: TypeAlias = Callable[[int, str], None]
"""Called once per slot whose connection broke during the attempt, with its number and the reason."""

_RETRY_PAUSE_S = 0.05

_log = logging.getLogger(__name__)


class DataPort(Protocol):
    """The exchange as its wirings see it."""

    slot: int
    credentials: Credentials
    limits: ChannelLimits
    flusher: Flusher
    poller: Poller
    heartbeat: HeartbeatSettings
    socket_buffer_bytes: int

    def claim_parked(self, attempt: int, region: int) -> list[tuple[int, SecuredSocket, str]]: ...

    def refuse(self, sock: SecuredSocket, host: str, reason: str) -> None: ...


def _dialled(host: str, port: int, timeout_s: float) -> socket.socket:
    try:
        return socket.create_connection((host, port), timeout=timeout_s)
    except OSError as error:
        advice = connect_advice(error, "check that the processes of the job can reach each other")
        raise PeerError(f"{host}:{port} cannot be reached: {error}; {advice}") from error


class Wiring:
    """The channels of one attempt: name them with `output` and `input`, then `connect`. Local ones work once named."""

    def __init__(
        self, exchange: DataPort, attempt: int, peers: Sequence[tuple[str, int]], lost: Lost, region: int = 0
    ) -> None:
        self.attempt = attempt
        self.region = region
        self._exchange = exchange
        self._peers = list(peers)
        self._lost = lost
        self._condition = threading.Condition()
        self._outputs: dict[int, dict[ChannelKey, RemoteChannel]] = {}
        self._inputs: dict[int, dict[ChannelKey, RemoteInput]] = {}
        self._local_outputs: dict[ChannelKey, LocalChannel] = {}
        self._local_inputs: dict[ChannelKey, tuple[LocalInput, Receiver, int]] = {}
        self._connections: dict[int, DataConnection] = {}
        self._dialling: dict[int, SecuredSocket] = {}
        self._is_open = False
        self._is_closed = False

    @property
    def is_open(self) -> bool:
        """Whether it accepts connections."""
        return self._is_open

    # Before `connect`.

    def output(
        self,
        edge_index: int,
        schema: pa.Schema,
        upstream: int,
        downstream: int,
        target_slot: int,
        sender: Sender,
        *,
        may_be_unaligned: bool,
    ) -> OutputChannel:
        """Name the sending end of the channel between two subtasks of an edge."""
        key = ChannelKey(edge_index, upstream, downstream)
        kind = LocalChannel if target_slot == self._exchange.slot else RemoteChannel
        channel = kind(
            key,
            schema,
            sender,
            self._exchange.limits,
            self._exchange.flusher,
            may_be_unaligned=may_be_unaligned,
        )
        with self._condition:
            self._check_open()
            if isinstance(channel, RemoteChannel):
                _enter(self._outputs.setdefault(target_slot, {}), key, channel)
                return channel
            assert isinstance(channel, LocalChannel)
            _enter(self._local_outputs, key, channel)
        self._join(key)
        return channel

    def input(
        self,
        edge_index: int,
        schema: pa.Schema,
        upstream: int,
        downstream: int,
        source_slot: int,
        receiver: Receiver,
        channel_index: int,
    ) -> InputChannel:
        """Name the receiving end; `receiver` gets its items, with `channel_index`."""
        key = ChannelKey(edge_index, upstream, downstream)
        with self._condition:
            self._check_open()
            if source_slot != self._exchange.slot:
                window = self._exchange.limits.channel_memory_bytes
                remote = RemoteInput(key, schema, receiver, channel_index, window)
                _enter(self._inputs.setdefault(source_slot, {}), key, remote)
                return remote
            local = LocalInput()
            _enter(self._local_inputs, key, (local, receiver, channel_index))
        self._join(key)
        return local

    def _check_open(self) -> None:
        if self._is_open or self._is_closed:
            raise EngineError("a channel was named after `connect` or `close`")

    def _join(self, key: ChannelKey) -> None:
        channel, entry = self._local_outputs.get(key), self._local_inputs.get(key)
        if channel is not None and entry is not None:
            local, receiver, channel_index = entry
            local.channel = channel
            channel.join(receiver, channel_index)

    # Connecting.

    def connect(self, timeout_s: float) -> None:
        """Connect to every slot with a channel to or from here; `PeerError` if that fails or takes too long."""
        deadline = time.monotonic() + timeout_s
        needed = self._inputs.keys() | self._outputs.keys()
        with self._condition:
            self._check_open()
            self._is_open = True
        for slot, sock, host in self._exchange.claim_parked(self.attempt, self.region):
            self.adopt(slot, sock, host)
        slots = sorted(slot for slot in needed if slot > self._exchange.slot)
        try:
            # A peer answers once it is ready itself, so dial all of them before waiting for any.
            for slot in slots:
                with contextlib.suppress(ClosedEarlyError):
                    self._dial(slot, deadline)
            for slot in slots:
                self._connect_to(slot, deadline)
        finally:
            for slot in list(self._dialling):
                self._hang_up(slot)
        with self._condition:
            while missing := needed - self._connections.keys():
                self._check_not_closed()
                if not self._condition.wait(deadline - time.monotonic()):
                    raise PeerError(f"slots {sorted(missing)} did not connect within {timeout_s:g} s; see their logs")
            self._check_not_closed()

    def _dial(self, slot: int, deadline: float) -> None:
        host, port = self._peers[slot]
        sock = SecuredSocket(_dialled(host, port, max(deadline - time.monotonic(), 0.001)))
        with self._condition:
            if not self._is_closed:
                self._dialling[slot] = sock
        if self._is_closed:
            sock.close()
            self._check_not_closed()
        left_s = max(deadline - time.monotonic(), 0.001)
        try:
            route = Route(DATA, self.attempt, self._exchange.slot, slot, self.region)
            client_handshake(sock, self._exchange.credentials, route, min(left_s, HANDSHAKE_TIMEOUT_S))
        except OSError as error:
            self._hang_up(slot)
            raise ClosedEarlyError(f"the connection to slot {slot} broke: {error}") from error
        except PeerError:
            self._hang_up(slot)
            raise

    def _connect_to(self, slot: int, deadline: float) -> None:
        """Wait for a slot's answer; redial if it hung up without one."""
        while True:
            self._check_not_closed()
            try:
                if slot not in self._dialling:
                    self._dial(slot, deadline)
                sock = self._dialling[slot]
                answer = sock.read_within(len(WELCOME), deadline)
            except (ClosedEarlyError, OSError):
                self._hang_up(slot)
                self._check_not_closed()
                if time.monotonic() + _RETRY_PAUSE_S > deadline:
                    raise
                with self._condition:
                    self._condition.wait(_RETRY_PAUSE_S)
                continue
            except PeerError as error:
                self._hang_up(slot)
                raise PeerError(f"slot {slot} did not answer: {error}") from error
            if answer != WELCOME:
                self._hang_up(slot)
                raise PeerError(f"slot {slot} refused the connection: it runs another attempt or is another slot")
            with self._condition:
                self._check_not_closed()
                del self._dialling[slot]
                self._start(slot, sock, is_dialled=True)
            return

    def _hang_up(self, slot: int) -> None:
        with self._condition:
            sock = self._dialling.pop(slot, None)
        if sock is not None:
            sock.close()

    def adopt(self, slot: int, sock: SecuredSocket, host: str) -> None:
        with self._condition:
            is_wanted = slot in self._inputs or slot in self._outputs
            if is_wanted and not self._is_closed and slot not in self._connections:
                try:
                    sock.send([WELCOME])
                except OSError as error:
                    _log.info("slot %d hung up before it was answered: %s", slot, error)
                    sock.close()
                    return
                self._start(slot, sock, is_dialled=False)
                return
        self._exchange.refuse(sock, host, f"slot {slot} is not expected, or is connected already")

    def _start(self, slot: int, sock: SecuredSocket, *, is_dialled: bool) -> None:
        with contextlib.suppress(OSError):  # the first read reports a peer that is gone already
            sock.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._exchange.socket_buffer_bytes)
        connection = DataConnection(
            sock,
            self._exchange.poller,
            self._outputs.get(slot, {}).values(),
            self._inputs.get(slot, {}).values(),
            lambda reason: self._connection_lost(slot, reason),
            self._exchange.heartbeat,
        )
        self._connections[slot] = connection
        connection.start()
        now_s = time.monotonic()
        heartbeat = Heartbeat(connection, self._exchange.heartbeat, now_s, has_begun=is_dialled)
        self._exchange.flusher.watch(heartbeat, now_s)
        self._condition.notify_all()

    def _connection_lost(self, slot: int, reason: str) -> None:
        if not self._is_closed:
            self._lost(slot, reason)

    def _check_not_closed(self) -> None:
        if self._is_closed:
            raise PeerError("the attempt was ended while it was connecting")

    # Ending.

    def close(self) -> None:
        """End all channels and connections at once. Idempotent; callbacks may call it too."""
        with self._condition:
            self._is_closed = True
            connections = list(self._connections.values())
            dialling = list(self._dialling.values())
            outputs: list[OutputChannel] = [*self._local_outputs.values()]
            outputs += [channel for channels in self._outputs.values() for channel in channels.values()]
            self._condition.notify_all()
        for channel in outputs:
            channel.close()
        for sock in dialling:
            sock.shutdown()
        for connection in connections:
            connection.stop()
        for connection in connections:
            connection.join()


def _enter(channels: dict[ChannelKey, object] | dict, key: ChannelKey, channel: object) -> None:  # type: ignore[type-arg]
    if key in channels:
        raise EngineError(f"{key} was named twice")
    channels[key] = channel
