"""One thread that waits for all connections of a process, however many there are."""

from __future__ import annotations

import contextlib
import logging
import os
import select
import threading
from typing import Protocol

_CALL_TIMEOUT_S = 5.0

_log = logging.getLogger(__name__)


class Polled(Protocol):
    """What the poller calls on its thread. Must not block: all connections wait meanwhile."""

    def readable(self) -> None:
        """There is something to read, or the connection has ended."""

    def writable(self) -> None:
        """There is room to write, after `want_room`."""


class Poller:
    """Waits until closed. Any thread may call it, also from within the calls it makes."""

    def __init__(self, name: str = "poller") -> None:
        self._epoll = select.epoll()
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._epoll.register(self._wake, select.EPOLLIN)
        self._polled: dict[int, Polled] = {}
        self._calling = threading.Lock()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def add(self, descriptor: int, polled: Polled) -> None:
        """Start reading."""
        self._polled[descriptor] = polled
        self._epoll.register(descriptor, select.EPOLLIN)

    def want_room(self, descriptor: int, wanted: bool) -> None:
        """Whether to call `writable` as long as there is room."""
        self._epoll.modify(descriptor, select.EPOLLIN | select.EPOLLOUT if wanted else select.EPOLLIN)

    def discard(self, descriptor: int) -> None:
        """Make no further calls for it; one may still be running. Call it once, before closing the descriptor."""
        if self._polled.pop(descriptor, None) is not None:
            with contextlib.suppress(OSError, ValueError):  # the poller itself is closed
                self._epoll.unregister(descriptor)

    def wait_for_call(self) -> None:
        """Wait until the call that is running now, if any, has returned. Returns at once on the poller's thread."""
        if threading.current_thread() is not self._thread and self._calling.acquire(timeout=_CALL_TIMEOUT_S):
            self._calling.release()

    def close(self) -> None:
        """Stop. Returns once the thread has ended, unless it is the caller."""
        if not self._is_closed:
            self._is_closed = True
            os.eventfd_write(self._wake, 1)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        try:
            while not self._is_closed:
                for descriptor, events in self._epoll.poll():
                    self._call(descriptor, events)
        finally:
            self._epoll.close()
            os.close(self._wake)

    def _call(self, descriptor: int, events: int) -> None:
        with self._calling:
            polled = self._polled.get(descriptor)
            if polled is None:
                return
            try:
                if events & ~select.EPOLLOUT:
                    polled.readable()
                if events & select.EPOLLOUT:
                    polled.writable()
            except Exception:
                # One defect must not stop all connections.
                _log.exception("a connection is given up")
                self.discard(descriptor)
