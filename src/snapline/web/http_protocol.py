"""HTTP connections of the web server: uvicorn's, with a limit on their number and on their time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

MAX_CONNECTIONS = 200

REQUEST_TIMEOUT_S = 10.0
"""How long a connection may take for a whole request, and how long it may be idle."""

ANSWER_TIMEOUT_S = 60.0
"""How long it may take until a whole request is answered, and the client has read the answer."""

MAX_HEADER_BYTES = 16 << 10
"""The first line and all headers of a request."""

_BAD_REQUEST = b'{"errors":["this is not HTTP, or its headers are too long"]}'

# Apart from uvicorn's own loggers, which belong to the user's program.
_log = logging.getLogger("snapline.web.connections")


def _is_news(record: logging.LogRecord) -> bool:
    """Strangers who send nonsense are no news, nor are requests that the end of the server cuts short."""
    error = record.exc_info[1] if record.exc_info else None
    return record.levelno >= logging.ERROR and not isinstance(error, asyncio.CancelledError)


_log.addFilter(_is_news)


class QuietConfig(Config):
    """uvicorn's settings, without its changes to the logging of the program."""

    def configure_logging(self) -> None:
        pass


class Connections:
    """All connections of a server. If there are too many, the oldest that waits for a request makes room."""

    def __init__(
        self,
        most: int = MAX_CONNECTIONS,
        request_timeout_s: float = REQUEST_TIMEOUT_S,
        answer_timeout_s: float = ANSWER_TIMEOUT_S,
    ) -> None:
        self.most = most
        self.request_timeout_s = request_timeout_s
        self.answer_timeout_s = answer_timeout_s
        self._waiting: dict[LimitedProtocol, None] = {}
        self._idle: dict[LimitedProtocol, None] = {}
        self._busy: set[LimitedProtocol] = set()

    def __len__(self) -> int:
        return len(self._waiting) + len(self._idle) + len(self._busy)

    def admit(self, connection: LimitedProtocol) -> bool:
        """A new connection. Returns False if there is no room for it: all others are being answered."""
        while len(self) >= self.most:
            oldest = next(iter(self._waiting), None) or next(iter(self._idle), None)
            if oldest is None:
                return False
            self.forget(oldest)
            oldest.abandon()
        self._waiting[connection] = None
        return True

    def busy(self, connection: LimitedProtocol) -> None:
        """A whole request is there, and is being answered."""
        self.forget(connection)
        self._busy.add(connection)

    def idle(self, connection: LimitedProtocol) -> None:
        """A request is answered; the connection may bring another one."""
        self.forget(connection)
        self._idle[connection] = None

    def forget(self, connection: LimitedProtocol) -> None:
        self._waiting.pop(connection, None)
        self._idle.pop(connection, None)
        self._busy.discard(connection)

    def close(self) -> None:
        """End all of them at once."""
        for connection in (*self._waiting, *self._idle, *self._busy):
            connection.abandon()


class LimitedProtocol(H11Protocol):
    """One connection."""

    def __init__(
        self, limits: Connections, config: Config, server_state: ServerState, loop: asyncio.AbstractEventLoop
    ) -> None:
        super().__init__(config, server_state, {}, loop)
        self.logger = _log
        self.access_log = False
        self._limits = limits
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self._limits.admit(self):
            self._expect(self._limits.request_timeout_s)
        else:
            self.abandon()

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect_nothing()
        self._limits.forget(self)
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._note_request()

    def on_response_complete(self) -> None:
        self._limits.idle(self)
        self._expect(self._limits.request_timeout_s)
        super().on_response_complete()
        # A next request may have been there already.
        self._note_request()

    def send_400_response(self, msg: str) -> None:
        """A stranger does not speak HTTP. Called by the base class."""
        del msg
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            headers = [
                (b"content-type", b"application/json"),
                (b"content-length", str(len(_BAD_REQUEST)).encode()),
                (b"connection", b"close"),
            ]
            parts: tuple[Any, ...] = (
                h11.Response(status_code=400, headers=headers, reason=b"Bad Request"),
                h11.Data(data=_BAD_REQUEST),
                h11.EndOfMessage(),
            )
            self.transport.write(b"".join(self.conn.send(part) or b"" for part in parts))
        self.transport.close()

    def abandon(self) -> None:
        """End the connection without waiting for anything."""
        self._expect_nothing()
        self.transport.abort()

    def _note_request(self) -> None:
        cycle = self.cycle
        if cycle is not None and not cycle.more_body and not cycle.response_complete:
            self._limits.busy(self)
            self._expect(self._limits.answer_timeout_s)

    def _expect(self, within_s: float) -> None:
        self._expect_nothing()
        self._deadline = self.loop.call_later(within_s, self.abandon)

    def _expect_nothing(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def protocol_factory(app: Any, limits: Connections, loop: asyncio.AbstractEventLoop) -> Callable[[], LimitedProtocol]:
    """Makes a protocol for each connection of a server."""
    config = QuietConfig(
        app,
        loop="none",
        http=H11Protocol,
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=int(REQUEST_TIMEOUT_S),
        h11_max_incomplete_event_size=MAX_HEADER_BYTES,
    )
    config.load()
    state = ServerState()
    return lambda: LimitedProtocol(limits, config, state, loop)
