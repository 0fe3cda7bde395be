"""Lines from a TCP connection."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pyarrow as pa
import pytest

import snapline as sl
from snapline.connectors.socket_lines import Socket
from snapline.errors import ConfigurationError, PeerError

CONTEXT = sl.ReaderContext("job", "lines", 0, 1)


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(10)
        yield listening


def connected(server: socket.socket) -> tuple[sl.SourceReader, socket.socket]:
    source = Socket("127.0.0.1", server.getsockname()[1])
    reader = source.reader(CONTEXT)
    (split,) = source.splits(3)
    reader.add_split(split, None)
    assert isinstance(reader.read(), sl.Wait)
    return reader, server.accept()[0]


def lines(reader: sl.SourceReader, count: int) -> list[str]:
    found: list[str] = []
    deadline_s = time.monotonic() + 10
    while len(found) < count:
        assert time.monotonic() < deadline_s
        given = reader.read()
        if isinstance(given, pa.RecordBatch):
            found += given.column("line").to_pylist()
    return found


def test_lines_are_read_to_the_end_of_the_connection(server: socket.socket) -> None:
    reader, peer = connected(server)
    with peer:
        peer.sendall("ein\nzwölf\r\nun".encode())
        assert lines(reader, 2) == ["ein", "zwölf"]
        assert len(reader.positions(1)) == 1
        peer.sendall(b"finished\n\xff\nrest")
        assert lines(reader, 2) == ["unfinished", "\ufffd"]
    assert lines(reader, 1) == ["rest"]
    assert reader.read() is None
    assert reader.positions(1) == []
    reader.close()


def test_a_line_without_an_end_is_an_error(server: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("snapline.connectors.socket_lines._MAX_LINE_BYTES", 100)
    reader, peer = connected(server)
    with peer:
        peer.sendall(b"x" * 101)
        with pytest.raises(PeerError, match="a line is longer than 100 bytes"):
            lines(reader, 1)
    reader.close()


def test_without_a_server_there_is_a_clear_error(server: socket.socket) -> None:
    port = server.getsockname()[1]
    server.close()
    reader = Socket("localhost", port).reader(CONTEXT)
    reader.add_split(["localhost", port], None)
    with pytest.raises(PeerError, match=r"cannot connect.*start the server first"):
        reader.read()


def test_other_machines_are_only_connected_to_if_wanted() -> None:
    for host in ("example.org", "10.0.0.1", "0.0.0.0"):
        with pytest.raises(ConfigurationError, match="neither encrypted nor authenticated"):
            Socket(host, 1)
        assert Socket(host, 1, remote=True).splits(1) == [[host, 1]]
    assert Socket("::1", 1).is_bounded
    with pytest.raises(ConfigurationError, match="port=0"):
        Socket("localhost", 0)
