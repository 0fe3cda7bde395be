"""The data plane of one process: its port, and the channels of each region in its current attempt."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Sequence
from typing import NamedTuple

from snapline.errors import FencedError
from snapline.runtime.network.admission import REFUSED, WELCOME, Admission, entering_limit
from snapline.runtime.network.flusher import Flusher
from snapline.runtime.network.heartbeat import HeartbeatSettings
from snapline.runtime.network.output_queue import ChannelLimits
from snapline.runtime.network.poller import Poller
from snapline.runtime.network.region_channels import Lost, Wiring
from snapline.runtime.wire.auth import DATA, PROBE, Refusals, Route
from snapline.runtime.wire.credentials import Credentials
from snapline.runtime.wire.listener import listen
from snapline.runtime.wire.secured_socket import SecuredSocket

SOCKET_BUFFERS_BYTES = 128 * 1024 * 1024
"""Limit for the socket buffers of all connections, on the sending and on the receiving side."""
_SOCKET_BUFFER_BYTES = 1024 * 1024
_LEAST_SOCKET_BUFFER_BYTES = 64 * 1024

_PARKED_TIMEOUT_S = 120.0
_BACKLOG = 4096
"""All other slots may dial at the same time; the system lowers it to its own limit."""

_log = logging.getLogger(__name__)


class _Lane(NamedTuple):
    """What connections are kept apart by: the region whose data they carry, and the slot at the other end."""

    region: int
    slot: int


class _Parked(NamedTuple):
    """A connection of another slot for an attempt that has not begun here."""

    attempt: int
    sock: SecuredSocket
    host: str
    deadline: float


class Exchange:
    """Listens on a port of `host` until `close`, and serves one attempt after another. Any thread.

    `ports` is the setting `slot_ports`. `slots` is the number of slots of the job: all limits follow from it, and the
    number of threads does not. Each of the `regions` has connections of its own: it restarts without the others.
    """

    def __init__(
        self,
        host: str,
        credentials: Credentials,
        *,
        slot: int,
        slots: int,
        batch_size_bytes: int,
        flush_timeout_ms: int,
        channel_memory_bytes: int,
        heartbeat: HeartbeatSettings,
        ports: str | None = None,
        regions: int = 1,
    ) -> None:
        self.heartbeat = heartbeat
        self.slot = slot
        self._regions = regions
        self.credentials = credentials
        self.limits = ChannelLimits(batch_size_bytes, flush_timeout_ms, channel_memory_bytes)
        self.refusals = Refusals("the data port")
        self._lock = threading.Lock()
        self._wirings: dict[int, Wiring] = {}
        # One for each lane at most, in order of their deadlines.
        self._parked: dict[_Lane, _Parked] = {}
        self._is_closed = False
        self.socket_buffer_bytes = max(
            min(_SOCKET_BUFFER_BYTES, SOCKET_BUFFERS_BYTES // (slots * regions)), _LEAST_SOCKET_BUFFER_BYTES
        )
        listener = listen(host, ports, "slot_ports", _BACKLOG)
        # Must be set before a connection exists, or the TCP window stays small.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.socket_buffer_bytes)
        self.address: tuple[str, int] = (host, listener.getsockname()[1])
        self.flusher = Flusher("exchange-flusher")
        self.poller = Poller("exchange-poller")
        self._admission = Admission(
            listener, credentials, self.refusals, self._arrived, self._expire, entering_limit(slots * regions)
        )

    def begin(self, attempt: int, peers: Sequence[tuple[str, int]], lost: Lost, region: int = 0) -> Wiring:
        """Close the previous attempt of a region and start wiring a new one. `peers` are the data ports by slot."""
        with self._lock:
            before, current = self._wirings.get(region), self._attempt(region)
            if attempt <= current:
                raise FencedError(f"attempt {attempt} is not newer than {current}", attempt=attempt, current=current)
            self._wirings[region] = wiring = Wiring(self, attempt, peers, lost, region)
            stale = [
                lane for lane, parked in self._parked.items() if lane.region == region and parked.attempt < attempt
            ]
            refused = [self._parked.pop(lane) for lane in stale]
        for parked in refused:
            self.refuse(parked.sock, parked.host, "it belongs to an older attempt")
        if before is not None:
            before.close()
        return wiring

    def _attempt(self, region: int) -> int:
        wiring = self._wirings.get(region)
        return -1 if wiring is None else wiring.attempt

    def close(self) -> None:
        """Stop listening and end the current attempt. Returns once all threads and sockets are gone."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
        self._admission.close()
        with self._lock:
            wirings, parked = list(self._wirings.values()), list(self._parked.values())
            self._parked.clear()
        for wiring in wirings:
            wiring.close()
        for connection in parked:
            connection.sock.close()
        self.flusher.close()
        self.poller.close()

    def claim_parked(self, attempt: int, region: int) -> list[tuple[int, SecuredSocket, str]]:
        """Take the connections that arrived for an attempt of a region before it began here."""
        with self._lock:
            claimed = [
                (lane, parked)
                for lane, parked in self._parked.items()
                if lane.region == region and parked.attempt == attempt
            ]
            for lane, _ in claimed:
                del self._parked[lane]
        return [(lane.slot, parked.sock, parked.host) for lane, parked in claimed]

    def _arrived(self, sock: SecuredSocket, host: str, route: Route) -> None:
        reason = None
        dropped = None
        wiring = None
        is_probe = False
        lane = _Lane(route.region, route.from_slot)
        with self._lock:
            before, current = self._parked.get(lane), self._attempt(lane.region)
            newest = current if before is None else max(current, before.attempt)
            if route.to_slot != self.slot or (route.purpose == DATA and route.from_slot >= self.slot):
                reason = f"it was meant for slot {route.to_slot}, and this is slot {self.slot}"
            elif route.purpose == PROBE:
                is_probe = True
            elif not 0 <= lane.region < self._regions:
                reason = f"there is no region {lane.region}"
            elif route.number < newest:
                reason = f"it belongs to attempt {route.number}, and this is attempt {newest}"
            elif route.number == current and self._wirings[lane.region].is_open:
                wiring = self._wirings[lane.region]
            else:
                dropped = self._parked.pop(lane, None)
                deadline = time.monotonic() + _PARKED_TIMEOUT_S
                self._parked[lane] = _Parked(route.number, sock, host, deadline)
        if reason is not None:
            self.refuse(sock, host, reason)
        if dropped is not None:
            self.refuse(dropped.sock, dropped.host, "another connection took its place")
        if is_probe:
            with contextlib.suppress(OSError):
                sock.send([WELCOME])
            sock.close()
        if wiring is not None:
            wiring.adopt(route.from_slot, sock, host)

    def _expire(self, now: float) -> None:
        expired = []
        with self._lock:
            while self._parked:
                lane, parked = next(iter(self._parked.items()))
                if parked.deadline > now:
                    break
                del self._parked[lane]
                expired.append(parked)
        for parked in expired:
            self.refuse(parked.sock, parked.host, "its attempt never began here")

    def refuse(self, sock: SecuredSocket, host: str, reason: str) -> None:
        self.refusals.refused(host, reason)
        with contextlib.suppress(OSError):
            sock.send([REFUSED])
        sock.close()
