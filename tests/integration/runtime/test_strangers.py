"""Strangers at the ports of a job that runs: they are turned away, and the job does not notice."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import struct
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.integration.runtime.runtime_kit import (
    RESTART,
    Start,
    listening_ports,
    settings,
    small,
    wait_for_checkpoints,
    wait_for_restart,
)

from snapline.config import Encryption
from snapline.devtools.kit.exactly_once import numbering_job
from snapline.errors import PeerError
from snapline.runtime.network.descriptors import require_descriptors
from snapline.runtime.wire.auth import Route
from snapline.runtime.wire.credentials import Credentials
from snapline.runtime.wire.secured_socket import SecuredSocket, client_handshake
from snapline.testing.clusters import ProcessCluster
from snapline.types import JobStatus

pytestmark = pytest.mark.slow


def garbage(port: int) -> None:
    _speak(port, os.urandom(100_000))


def http(port: int) -> None:
    _speak(port, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")


def huge_frame(port: int) -> None:
    _speak(port, struct.pack("!I", 0xFFFF_FFFF) + b"\x00" * 100_000)


def half_a_hello(port: int) -> None:
    _speak(port, b"SNAP\x02cont")


def wrong_secret(port: int) -> None:
    for purpose in ("control", "data"):
        credentials = Credentials(b"x" * 32, Encryption.MAC)
        with socket.create_connection(("127.0.0.1", port), timeout=5) as sock, pytest.raises((PeerError, OSError)):
            client_handshake(SecuredSocket(sock), credentials, Route(purpose, 1, 0, 1), 5.0)


def silence(port: int) -> None:
    for _ in range(50):
        socket.create_connection(("127.0.0.1", port), timeout=5).close()


def _speak(port: int, data: bytes) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=5) as sock, contextlib.suppress(OSError):
        sock.sendall(data)
        sock.shutdown(socket.SHUT_WR)
        while sock.recv(4096):
            pass


STRANGERS: tuple[Callable[[int], None], ...] = (garbage, http, huge_frame, half_a_hello, wrong_secret, silence)


def test_strangers_are_turned_away(
    start: Start, tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.INFO)
    before = listening_ports()
    job = numbering_job(
        "visited",
        tmp_path,
        rows=30_000,
        rows_per_second=10_000,
        checkpoints=settings("unaligned"),
        restart=RESTART,
        execution=small(),
    )
    cluster = ProcessCluster()
    handle = start(job.job, cluster)
    wait_for_checkpoints(handle, 1)
    control = listening_ports() - before
    data = {port for pid in cluster.worker_pids() for port in listening_ports(pid)}
    assert len(control) == 1
    assert len(data) == 2
    for port in control | data:
        for stranger in STRANGERS:
            stranger(port)
    wait_for_checkpoints(handle, 1)
    assert handle.wait("120s") is JobStatus.FINISHED
    assert handle.attempt == 1
    assert job.prove().problems == ()
    refused = [record for record in caplog.records if "refused" in record.getMessage()]
    assert 1 <= len(refused) <= 3
    lines = [line for line in capfd.readouterr().err.splitlines() if "WARNING" in line]
    assert 2 <= len(lines) <= 6
    assert not any("Traceback" in line for line in lines)


def test_a_thousand_silent_strangers_at_each_port_do_not_keep_a_new_attempt_out(start: Start, tmp_path: Path) -> None:
    """Connections that say nothing are held open while operator processes have to come back."""
    require_descriptors(5000, "the test")
    before = listening_ports()
    job = numbering_job(
        "crowded",
        tmp_path,
        rows=40_000,
        rows_per_second=4_000,
        checkpoints=settings(),
        restart=RESTART,
        execution=small(),
    )
    cluster = ProcessCluster()
    handle = start(job.job, cluster)
    wait_for_checkpoints(handle, 1)
    ports = (listening_ports() - before) | {port for pid in cluster.worker_pids() for port in listening_ports(pid)}
    with contextlib.ExitStack() as crowd:
        for port in ports:
            for _ in range(1000):
                crowd.enter_context(socket.create_connection(("127.0.0.1", port), timeout=5))
        os.kill(cluster.worker_pids()[0], 9)
        killed_s = time.monotonic()
        wait_for_restart(handle, 1)
        assert time.monotonic() - killed_s < 10
        assert handle.wait("120s") is JobStatus.FINISHED
    assert handle.attempt == 2
    assert job.prove().problems == ()
