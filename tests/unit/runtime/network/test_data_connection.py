"""One connection, without an exchange."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pyarrow as pa
import pytest

from snapline.runtime.network import item_codec as codec
from snapline.runtime.network.data_connection import DataConnection
from snapline.runtime.network.heartbeat import HeartbeatSettings
from snapline.runtime.network.poller import Poller
from snapline.runtime.wire.channel_items import data_item
from snapline.runtime.wire.secured_socket import SecuredSocket

HEARTBEAT = HeartbeatSettings(1000, 5000)


@pytest.fixture
def poller() -> Iterator[Poller]:
    poller = Poller()
    yield poller
    poller.close()


def test_who_sends_while_the_connection_is_ended_does_not_hold_up_its_end(
    poller: Poller, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_sent, may_go_on, send = threading.Event(), threading.Event(), SecuredSocket.send_some

    def send_and_pause(sock: SecuredSocket, views: list[memoryview]) -> list[memoryview]:
        rest = send(sock, views)
        if rest:
            has_sent.set()
            assert may_go_on.wait(10)
        return rest

    monkeypatch.setattr(SecuredSocket, "send_some", send_and_pause)
    ours, theirs = socket.socketpair()
    with theirs:
        connection = DataConnection(SecuredSocket(ours), poller, [], [], lambda _: None, HEARTBEAT)
        connection.start()
        sender = threading.Thread(target=connection._reply, args=([bytes(50_000_000)],))
        sender.start()
        assert has_sent.wait(10)
        connection.stop()
        may_go_on.set()
        sender.join(10)
        started_s = time.monotonic()
        connection.join()
        assert time.monotonic() - started_s < 4


def test_what_the_poller_still_has_to_send_does_not_hold_up_the_end(poller: Poller) -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        connection = DataConnection(SecuredSocket(ours), poller, [], [], lambda _: None, HEARTBEAT)
        connection.start()
        connection._reply([bytes(50_000_000)])
        assert connection._is_left_to_poller
        started_s = time.monotonic()
        connection.stop()
        connection.join()
        assert time.monotonic() - started_s < 4


def test_the_poller_sends_what_did_not_fit_and_what_came_after(poller: Poller) -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        connection = DataConnection(SecuredSocket(ours), poller, [], [], lambda _: None, HEARTBEAT)
        connection.start()
        connection._reply([b"a" * 5_000_000])
        connection._reply([b"b" * 5_000_000])
        received = bytearray()
        theirs.settimeout(10)
        while len(received) < 10_000_000:
            received += theirs.recv(1 << 20)
        assert received == b"a" * 5_000_000 + b"b" * 5_000_000
        # The right to write is free again, and used directly.
        connection._reply([b"c"])
        assert theirs.recv(10) == b"c"
        connection.stop()
        connection.join()


def test_a_large_batch_that_comes_slowly_is_heard_though_it_waits_to_be_read(poller: Poller) -> None:
    key = codec.ChannelKey(0, 0, 0)
    item = data_item(pa.record_batch([pa.array(range(100_000))], ["n"]))
    header, body = (bytes(memoryview(part)) for part in codec.encode(key, item))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        theirs = socket.create_connection(listener.getsockname())
        ours, _ = listener.accept()
    with theirs:
        connection = DataConnection(SecuredSocket(ours), poller, [], [], lambda _: None, HEARTBEAT)
        connection.start()
        try:
            theirs.sendall(header + body[:100])
            deadline_s = time.monotonic() + 10
            while not connection._reader.missing_bytes:
                assert time.monotonic() < deadline_s, "the beginning is not read"
            poller.wait_for_call()
            assert connection.take_heard()
            assert not connection.take_heard()
            theirs.sendall(body[100:200])
            while not connection.take_heard():
                assert time.monotonic() < deadline_s, "what waits to be read is not heard"
            assert connection._reader.missing_bytes == len(body) - 100
        finally:
            connection.stop()
            connection.join()
