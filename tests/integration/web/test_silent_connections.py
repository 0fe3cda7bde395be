"""A thousand connections that say nothing, or hardly anything: neither the job nor others who look at it notice."""

from __future__ import annotations

import resource
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.integration.web.live_kit import Client, Start, clicks, started

import snapline as sl
from snapline.web.http_protocol import MAX_CONNECTIONS
from snapline.web.listen_sockets import BACKLOG

pytestmark = pytest.mark.slow

CONNECTIONS = 1000
SECONDS = 2.0
PATIENCE_S = 120.0
SLOW = b"POST /jobs/clicks/stop HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 1000\r\n\r\n{"


class Crowd:
    """Keeps so many connections open; every second one sends a byte of a request now and then."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.opened = 0
        self._is_over = threading.Event()
        self._is_there = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()
        assert self._is_there.wait(60)

    def end(self) -> None:
        self._is_over.set()
        self._thread.join(60)

    def _run(self) -> None:
        connections: dict[int, tuple[socket.socket, int]] = {}
        while not self._is_over.is_set():
            for number in range(CONNECTIONS):
                if number not in connections:
                    with suppress(OSError):
                        connections[number] = socket.create_connection(("127.0.0.1", self.port), timeout=5), 0
                        self.opened += 1
                    continue
                connection, sent = connections[number]
                try:
                    if number % 2:
                        connection.sendall(SLOW[sent % len(SLOW) : sent % len(SLOW) + 1])
                        connections[number] = connection, sent + 1
                    elif self._is_ended(connection):
                        raise ConnectionResetError
                except OSError:
                    connection.close()
                    del connections[number]
            self._is_there.set()
            self._is_over.wait(0.2)
        for connection, _ in connections.values():
            connection.close()

    @staticmethod
    def _is_ended(connection: socket.socket) -> bool:
        connection.setblocking(False)
        try:
            return connection.recv(1) == b""
        except BlockingIOError:
            return False
        finally:
            connection.settimeout(5)


@contextmanager
def many_descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 4 * CONNECTIONS
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip(f"this process may open {hard} files only")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def held_by_server(port: int) -> int:
    """Connections of the server that are open."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(line[1].endswith(f":{port:04X}") and line[3] in ("01", "08") for line in lines)


def has_gone_on(before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Whether the job did some work and completed some checkpoints between the two answers."""
    rows = [now["vertices"]["clicks"]["rows_out"] for now in (before, after)]
    return bool(after["counts"]["completed"] > before["counts"]["completed"] + 5 and rows[1] - rows[0] > 5_000)


def test_a_thousand_silent_and_slow_connections(start: Start, tmp_path: Path) -> None:
    with many_descriptors():
        handle = start(clicks("clicks", tmp_path, sl.Monitoring(port=None)))
        client = Client(handle.url)
        jid = started(client, "clicks")
        crowd = Crowd(client.port)
        crowd.start()
        try:
            before = after = client.get(f"/snapline/jobs/{jid}")
            times_s, most, cut_off = [], 0, 0
            start_s = time.monotonic()
            while not has_gone_on(before, after) or time.monotonic() - start_s < SECONDS:
                assert time.monotonic() - start_s < PATIENCE_S, (before, after)
                asked_s = time.monotonic()
                try:
                    after = client.get(f"/snapline/jobs/{jid}")
                except ConnectionResetError:
                    cut_off += 1  # on a busy machine hundreds came after it before its request was read
                    continue
                times_s.append(time.monotonic() - asked_s)
                assert after["status"] == "RUNNING"
                most = max(most, held_by_server(client.port))
        finally:
            crowd.end()
        assert crowd.opened >= CONNECTIONS
        assert cut_off <= 1 + len(times_s) // 10
        assert most <= MAX_CONNECTIONS + 3 * BACKLOG, "beside those that wait to be accepted, or to be ended"
        assert sorted(times_s)[len(times_s) // 2] < 0.5
        assert (after["counts"]["failed"], after["failed_attempts"]) == (0, 0)
