"""Lines of text from a TCP connection, for experiments."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence

import pyarrow as pa

from snapline.config.setting_checks import count
from snapline.contracts.source import Position, ReaderContext, Source, SourceReader, Split, Wait
from snapline.errors import ConfigurationError, PeerError

SCHEMA = pa.schema([pa.field("line", pa.string())])

_CONNECT_TIMEOUT_S = 5.0
_READ_BYTES = 1 << 20
_MAX_LINE_BYTES = 1 << 20
_PAUSE_S = 0.01


class Socket(Source):
    """Lines of UTF-8 text from a server that listens on `host` and `port`, in the column `line`; one subtask reads.

    The source ends when the server closes the connection. At most once: lines that arrived after the last checkpoint,
    or arrive while the job restarts, are lost. The connection is neither encrypted nor authenticated, so hosts other
    than this machine need `remote`.
    """

    schema = SCHEMA
    is_bounded = True

    def __init__(self, host: str, port: int, *, remote: bool = False) -> None:
        self._port = count(port, "port", least=1, most=65_535)
        if not remote and not _is_loopback(host):
            raise ConfigurationError(
                f"Socket({host!r}): the connection is neither encrypted nor authenticated; use localhost, or "
                "remote=True if you trust the network"
            )
        self._host = host

    def splits(self, parallelism: int) -> Sequence[Split]:
        return [[self._host, self._port]]

    def reader(self, context: ReaderContext) -> SourceReader:
        return SocketReader()


class SocketReader(SourceReader):
    """Reads one connection."""

    def __init__(self) -> None:
        self._split: Split | None = None
        self._connection: socket.socket | None = None
        self._rest = b""

    def add_split(self, split: Split, position: Position) -> None:
        self._split = split

    def read(self) -> pa.RecordBatch | Wait | None:
        if self._split is None:
            return None
        if self._connection is None:
            self._connection = self._connected(*self._split)
        try:
            data = self._connection.recv(_READ_BYTES)
        except BlockingIOError:
            return Wait(_PAUSE_S)
        except OSError as error:
            raise PeerError(f"the connection of Socket({self._split[0]!r}, {self._split[1]}) broke: {error}") from error
        if data:
            *lines, self._rest = (self._rest + data).split(b"\n")
        else:
            lines, self._rest = [self._rest] if self._rest else [], b""
            self.close()
            self._split = None
        if len(self._rest) > _MAX_LINE_BYTES:
            raise PeerError(f"Socket: a line is longer than {_MAX_LINE_BYTES} bytes; end lines with a line feed")
        if not lines:
            return Wait(0)
        texts = [line.removesuffix(b"\r").decode(errors="replace") for line in lines]
        return pa.record_batch([pa.array(texts, pa.string())], schema=SCHEMA)

    def positions(self, checkpoint_id: int) -> Sequence[tuple[Split, Position]]:
        return [] if self._split is None else [(self._split, None)]

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connected(self, host: str, port: int) -> socket.socket:
        try:
            connection = socket.create_connection((host, port), _CONNECT_TIMEOUT_S)
        except OSError as error:
            raise PeerError(
                f"Socket({host!r}, {port}): cannot connect: {error}; start the server first, for example: nc -lk {port}"
            ) from error
        connection.setblocking(False)
        return connection


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
