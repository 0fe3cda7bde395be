"""The thread that waits for connections."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from snapline.runtime.network.poller import Poller


class Noted:
    """Counts its calls, and pauses in the first ones if asked to."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.data = b""
        self.has_read = threading.Event()
        self.has_written = threading.Event()
        self.may_go_on = threading.Event()
        self.may_go_on.set()

    def readable(self) -> None:
        self.data += self.sock.recv(100)
        self.has_read.set()
        assert self.may_go_on.wait(10)

    def writable(self) -> None:
        self.has_written.set()


@pytest.fixture
def poller() -> Iterator[Poller]:
    poller = Poller()
    yield poller
    poller.close()


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def test_what_arrives_is_read_and_room_is_reported_only_where_it_is_wanted(
    poller: Poller, pair: tuple[socket.socket, socket.socket]
) -> None:
    ours, theirs = pair
    noted = Noted(ours)
    poller.add(ours.fileno(), noted)
    theirs.send(b"abc")
    assert noted.has_read.wait(10)
    assert noted.data == b"abc"
    assert not noted.has_written.is_set()
    poller.want_room(ours.fileno(), True)
    assert noted.has_written.wait(10)
    poller.want_room(ours.fileno(), False)
    for data in (b"def", b"ghi"):  # the first may still come with room: it was seen before
        noted.has_written.clear()
        noted.has_read.clear()
        theirs.send(data)
        assert noted.has_read.wait(10)
        poller.wait_for_call()
    assert not noted.has_written.is_set()
    poller.discard(ours.fileno())


def test_nothing_is_called_once_it_is_discarded_and_the_running_call_has_ended(
    poller: Poller, pair: tuple[socket.socket, socket.socket]
) -> None:
    ours, theirs = pair
    noted = Noted(ours)
    noted.may_go_on.clear()
    poller.add(ours.fileno(), noted)
    theirs.send(b"abc")
    assert noted.has_read.wait(10)
    poller.discard(ours.fileno())
    thread = threading.Thread(target=poller.wait_for_call)
    thread.start()
    assert thread.is_alive()
    theirs.send(b"def")
    noted.may_go_on.set()
    thread.join(10)
    assert not thread.is_alive()
    poller.wait_for_call()
    assert noted.data == b"abc"


def test_a_defect_costs_its_own_connection_only(
    poller: Poller, pair: tuple[socket.socket, socket.socket], caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(Noted):
        def readable(self) -> None:
            super().readable()
            raise ValueError("broken")

    ours, theirs = pair
    broken = Broken(ours)
    poller.add(ours.fileno(), broken)
    theirs.send(b"abc")
    assert broken.has_read.wait(10)
    other_ours, other_theirs = socket.socketpair()
    with other_ours, other_theirs:
        noted = Noted(other_ours)
        poller.add(other_ours.fileno(), noted)
        other_theirs.send(b"def")
        assert noted.has_read.wait(10)
        assert "broken" in caplog.text
        theirs.send(b"ghi")
        poller.discard(other_ours.fileno())
    assert broken.data == b"abc"


def test_its_own_thread_may_close_it(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    poller = Poller()

    class Closing(Noted):
        def readable(self) -> None:
            poller.discard(self.sock.fileno())
            poller.wait_for_call()
            poller.close()

    poller.add(ours.fileno(), Closing(ours))
    theirs.send(b"abc")
    poller._thread.join(10)
    assert not poller._thread.is_alive()
    poller.close()
