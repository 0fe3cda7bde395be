"""The end of a connection."""

from __future__ import annotations

import socket
import threading
import time

import pytest

from snapline.runtime.network import data_connection as module
from snapline.runtime.network.data_connection import DataConnection
from snapline.runtime.network.heartbeat import HeartbeatSettings


def test_who_sends_while_the_connection_is_ended_does_not_hold_up_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    has_sent, may_go_on, send = threading.Event(), threading.Event(), module._send

    def send_and_pause(sock: socket.socket, views: list[memoryview], flags: int) -> list[memoryview]:
        rest = send(sock, views, flags)
        if rest and flags:
            has_sent.set()
            assert may_go_on.wait(10)
        return rest

    monkeypatch.setattr(module, "_send", send_and_pause)
    ours, theirs = socket.socketpair()
    with theirs:
        connection = DataConnection(ours, "test", [], [], lambda _: None, HeartbeatSettings(1000, 5000))
        connection.start()
        sender = threading.Thread(target=connection._reply, args=(bytes(50_000_000),))
        sender.start()
        assert has_sent.wait(10)
        connection.stop()
        connection._threads[1].join(10)
        may_go_on.set()
        sender.join(10)
        started_s = time.monotonic()
        connection.join()
        assert time.monotonic() - started_s < 2
