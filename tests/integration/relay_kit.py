"""Somebody between two ends of a connection who knows no secret."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from typing import TypeAlias

TO_SERVER, TO_CLIENT = 0, 1

Change: TypeAlias = Callable[[int, int, bytes], bytes]
"""Gets the direction, how many bytes have passed in it, and the next ones; returns what is passed on."""


class Relay:
    """Passes bytes on between those who dial it and `target`. Only the first connection is changed."""

    def __init__(self, target: tuple[str, int], change: Change | None = None) -> None:
        self.passed: tuple[bytearray, bytearray] = (bytearray(), bytearray())
        """What was read from either side on the first connection."""
        self.change = change
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._listener.getsockname()
        self._sockets: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def close(self) -> None:
        for sock in (self._listener, *self._sockets):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)
        for sock in (self._listener, *self._sockets):
            sock.close()

    def __enter__(self) -> Relay:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _accept(self) -> None:
        is_first = True
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._sockets.append(client)
                server = socket.create_connection(self._target)
                self._sockets.append(server)
                for direction, ends in ((TO_SERVER, (client, server)), (TO_CLIENT, (server, client))):
                    thread = threading.Thread(target=self._pass_on, args=(direction, *ends, is_first), daemon=True)
                    self._threads.append(thread)
                    thread.start()
                is_first = False

    def _pass_on(self, direction: int, source: socket.socket, target: socket.socket, is_first: bool) -> None:
        passed = self.passed[direction]
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if is_first:
                    offset = len(passed)
                    passed += data
                    if self.change is not None:
                        data = self.change(direction, offset, data)
                target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)


def flip(direction: int, position: int) -> Change:
    """Change one bit."""

    def change(towards: int, offset: int, data: bytes) -> bytes:
        if towards != direction or not offset <= position < offset + len(data):
            return data
        changed = bytearray(data)
        changed[position - offset] ^= 1
        return bytes(changed)

    return change
