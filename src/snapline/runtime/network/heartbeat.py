"""Notices a data connection whose other end is gone without a word."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import Protocol

from snapline.runtime.scheduler.silence import silent_since

LOOKS_PER_INTERVAL = 4
"""How often a connection is looked at between two heartbeats, so that silence is noticed soon after the timeout."""


@dataclass(frozen=True, slots=True)
class HeartbeatSettings:
    """`timeout_ms` of silence is the end of a connection; each side says something every `interval_ms`."""

    interval_ms: int
    timeout_ms: int


class Beating(Protocol):
    """A connection as its heartbeat sees it."""

    @property
    def is_ending(self) -> bool: ...

    def take_heard(self) -> bool:
        """Whether anything has come since the last call."""

    def send_heartbeat(self) -> None: ...

    def give_up(self, reason: str) -> None:
        """End the connection and report it as lost."""


class Heartbeat:
    """The heartbeat of one connection, at the times of the flusher's thread.

    The kernel's own probes end where a proxy or a firewall answers for the other end. Whoever has dialled may be busy
    with other connections at first: `has_begun` says that the other end says something from now on.
    """

    def __init__(self, connection: Beating, settings: HeartbeatSettings, now_s: float, *, has_begun: bool) -> None:
        self._connection = connection
        self._interval_s = settings.interval_ms / 1000
        self._timeout_s = settings.timeout_ms / 1000
        self._look_s = self._interval_s / LOOKS_PER_INTERVAL
        self._looked_s = self._beat_at_s = now_s
        self._heard_s = now_s if has_begun else None

    def flush_if_due(self, now: float) -> float | None:
        """Send a heartbeat if it is time, or give up a silent connection. Returns when to call again, or None."""
        connection = self._connection
        if connection.is_ending:
            return None
        if self._heard_s is not None:
            self._heard_s = silent_since(self._heard_s, self._looked_s, now, self._look_s)
        self._looked_s = now
        if connection.take_heard():
            self._heard_s = now
        elif self._heard_s is not None and now - self._heard_s >= self._timeout_s:
            connection.give_up(f"nothing has come from it for {self._timeout_s:g} s (heartbeat_timeout)")
            return None
        if now >= self._beat_at_s:
            self._beat_at_s = now + self._interval_s
            connection.send_heartbeat()
        return now + self._look_s


def keep_alive(sock: socket.socket, timeout_ms: int) -> None:
    """Let the kernel end a TCP connection whose other end has not answered for `timeout_ms`, busy or idle."""
    probe_s = max(timeout_ms // 4000, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, probe_s)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, probe_s)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, timeout_ms)
