"""What an operator process gets from its supervisor at its start, and how it dies with it.

It comes through the pipe at standard input, because others can read command lines, environments and files. The pipe
stays open as long as the supervisor lives.
"""

from __future__ import annotations

import ctypes
import os
import signal
import struct
import sys
import threading
from collections.abc import Callable
from typing import BinaryIO

import msgspec
from msgspec import Struct

from snapline.errors import PeerError
from snapline.runtime.wire.credentials import Credentials

MAX_BOOTSTRAP_BYTES = 1 << 30

_LENGTH = struct.Struct("!Q")
_PR_SET_PDEATHSIG = 1


class Bootstrap(Struct, frozen=True, kw_only=True):
    """All an operator process needs to join its job; `shipment` is the job's code, `parent_pid` the supervisor."""

    job_id: str
    generation: int
    slot: int
    incarnation: int
    driver_host: str
    driver_port: int
    credentials: Credentials
    host: str
    heartbeat_interval_ms: int
    heartbeat_timeout_ms: int
    parent_pid: int
    sys_path: list[str]
    shipment: bytes

    def __repr__(self) -> str:
        return f"Bootstrap({self.job_id!r}, slot={self.slot}, incarnation={self.incarnation})"  # no secret

    def encoded(self) -> bytes:
        body = msgspec.msgpack.encode(self)
        return _LENGTH.pack(len(body)) + body

    def write(self, stream: BinaryIO) -> None:
        stream.write(self.encoded())
        stream.flush()


def read(stream: BinaryIO) -> Bootstrap:
    """Raises `PeerError` if the supervisor's message is cut off, too large or malformed."""
    (length,) = _LENGTH.unpack(_read_exactly(stream, _LENGTH.size))
    if length > MAX_BOOTSTRAP_BYTES:
        raise PeerError(f"the supervisor announces {length} bytes, more than {MAX_BOOTSTRAP_BYTES}")
    try:
        return msgspec.msgpack.decode(_read_exactly(stream, length), type=Bootstrap)
    except msgspec.MsgspecError as error:
        raise PeerError(f"the supervisor's message cannot be decoded: {error}") from error


def die_with_parent(parent_pid: int) -> None:
    """Have the system kill this process once the thread that started it ends; exit now if it is gone already.

    Without Linux, only the end of the pipe tells: see `watch_parent`.
    """
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
            error = ctypes.get_errno()
            raise OSError(error, f"prctl(PR_SET_PDEATHSIG): {os.strerror(error)}")
    if os.getppid() != parent_pid:
        os._exit(1)


def watch_parent(stream: BinaryIO, on_gone: Callable[[], None]) -> threading.Thread:
    """Call `on_gone` on a new thread once the pipe ends: the supervisor is gone or wants this process to end."""

    def watch() -> None:
        while stream.read(1):
            pass
        on_gone()

    thread = threading.Thread(target=watch, name="parent-watch", daemon=True)
    thread.start()
    return thread


def _read_exactly(stream: BinaryIO, length: int) -> bytes:
    data = bytearray()
    while len(data) < length:
        part = stream.read(length - len(data))
        if not part:
            raise PeerError(f"the supervisor's pipe ended after {len(data)} of {length} bytes")
        data += part
    return bytes(data)
