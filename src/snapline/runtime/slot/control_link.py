"""The connection of a slot's processes to the driver."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

from snapline.errors import PeerError
from snapline.runtime.job_logs import JobLogger
from snapline.runtime.wire.auth import ClosedEarlyError, Route
from snapline.runtime.wire.control_messages import Message, encode
from snapline.runtime.wire.credentials import Credentials
from snapline.runtime.wire.frames import ControlConnection
from snapline.runtime.wire.secured_socket import SecuredSocket, client_handshake
from snapline.runtime.wire.socket_errors import connect_advice

CONNECT_TIMEOUT_S = 10.0
CONNECT_RETRY_S = 0.1
JOIN_TIMEOUT_S = 10.0

_log = JobLogger(__name__)


class ControlLink(Protocol):
    """An authenticated connection to the driver."""

    def start(self, received: Callable[[Any], None], closed: Callable[[str], None]) -> None:
        """Start reading: a thread of the link calls `received` with each message, then `closed` with the reason."""

    def send(self, message: Message) -> None:
        """Any thread. Raises `PeerError` if the driver is lost."""

    def close(self) -> None:
        """End the connection. Any thread; idempotent. `closed` may still be called."""


class SocketLink:
    """A link over a socket, which it owns."""

    def __init__(self, secured: SecuredSocket, decode: Callable[[bytes], Any], name: str) -> None:
        self._connection = ControlConnection(secured)
        self._decode = decode
        self._name = name
        self._reader: threading.Thread | None = None

    def wait_for_driver(self, timeout_s: float) -> None:
        """Wait for the driver's first message, which says that it has authenticated this side."""
        try:
            data = self._connection.receive_within(timeout_s)
        except PeerError as error:
            raise ClosedEarlyError(f"the driver did not answer: {error}") from error
        if data is None:
            raise ClosedEarlyError("the driver hung up before it answered")
        self._decode(data)

    def start(self, received: Callable[[Any], None], closed: Callable[[str], None]) -> None:
        self._reader = threading.Thread(target=self._read, args=(received, closed), name=self._name, daemon=True)
        self._reader.start()

    def send(self, message: Message) -> None:
        self._connection.send(encode(message))

    def close(self) -> None:
        self._connection.close()
        if self._reader is not None and self._reader is not threading.current_thread():
            self._reader.join(JOIN_TIMEOUT_S)

    def _read(self, received: Callable[[Any], None], closed: Callable[[str], None]) -> None:
        try:
            while (data := self._connection.receive()) is not None:
                received(self._decode(data))
            closed("it closed the connection")
        except (PeerError, OSError) as error:
            closed(str(error))


def connect(
    address: tuple[str, int],
    credentials: Credentials,
    route: Route,
    decode: Callable[[bytes], Any],
    name: str,
    *,
    retry: bool = False,
) -> SocketLink:
    """Connect to the driver and authenticate; `retry` keeps trying while it does not listen yet.

    A driver with too many strangers at its port hangs up on the oldest, so one that hangs up early is dialled again.
    Raises `OSError` if it cannot be reached, `PeerError` if authentication fails.
    """
    deadline_s = time.monotonic() + CONNECT_TIMEOUT_S
    while True:
        secured = SecuredSocket(_dial(address, retry))
        try:
            client_handshake(secured, credentials, route, CONNECT_TIMEOUT_S)
            link = SocketLink(secured, decode, name)
            link.wait_for_driver(CONNECT_TIMEOUT_S)
            return link
        except ClosedEarlyError as error:
            secured.close()
            if time.monotonic() > deadline_s:
                raise
            _log.warning("the driver hung up (%s); trying again", error)
            time.sleep(CONNECT_RETRY_S)
        except BaseException:
            secured.close()
            raise


def cannot_reach(address: tuple[str, int], error: OSError) -> str:
    """Why there is no connection to the driver, and what to do."""
    advice = connect_advice(
        error,
        "let spark.driver.host be an address the executors can reach, and open the driver's ports to them",
    )
    return f"cannot reach the driver at {address[0]}:{address[1]}: {error}; {advice}"


def _dial(address: tuple[str, int], retry: bool) -> socket.socket:
    deadline_s = time.monotonic() + CONNECT_TIMEOUT_S
    while True:
        try:
            return socket.create_connection(address, timeout=CONNECT_TIMEOUT_S)
        except OSError:
            if not retry or time.monotonic() > deadline_s:
                raise
            time.sleep(CONNECT_RETRY_S)
