"""What an operator process gets from its supervisor when it starts, and how it ends with it.

It comes through the pipe at the process's standard input: a command line, an environment or a file could be read by
others. The pipe stays open for as long as the supervisor lives.
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

MAX_BOOTSTRAP_BYTES = 1 << 30

_LENGTH = struct.Struct("!Q")
_PR_SET_PDEATHSIG = 1


class Bootstrap(Struct, frozen=True, kw_only=True):
    """All an operator process needs to join its job. `shipment` is the job's code: see `graph/shipment.py`.

    `host` is the address to bind the data port on, `parent_pid` the supervisor's process, and `sys_path` where that
    one finds its modules.
    """

    job_id: str
    generation: int
    slot: int
    incarnation: int
    driver_host: str
    driver_port: int
    secret: bytes
    host: str
    heartbeat_interval_ms: int
    heartbeat_timeout_ms: int
    parent_pid: int
    sys_path: list[str]
    shipment: bytes

    def __repr__(self) -> str:
        return f"Bootstrap({self.job_id!r}, slot={self.slot}, incarnation={self.incarnation})"  # without the secret

    def encoded(self) -> bytes:
        """As it goes through the pipe."""
        body = msgspec.msgpack.encode(self)
        return _LENGTH.pack(len(body)) + body

    def write(self, stream: BinaryIO) -> None:
        stream.write(self.encoded())
        stream.flush()


def read(stream: BinaryIO) -> Bootstrap:
    """What the supervisor wrote; `PeerError` if that is cut off, too large or something else."""
    (length,) = _LENGTH.unpack(_read_exactly(stream, _LENGTH.size))
    if length > MAX_BOOTSTRAP_BYTES:
        raise PeerError(f"the supervisor announces {length} bytes, more than {MAX_BOOTSTRAP_BYTES}")
    try:
        return msgspec.msgpack.decode(_read_exactly(stream, length), type=Bootstrap)
    except msgspec.MsgspecError as error:
        raise PeerError(f"the supervisor wrote what cannot be understood: {error}") from error


def die_with_parent(parent_pid: int) -> None:
    """From now on this process is killed as soon as the thread that started it has ended, however that comes about.

    If it has ended already the process ends here. Where the system cannot do that (it is not Linux), the end of the
    pipe has to do: see `watch_parent`.
    """
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
            error = ctypes.get_errno()
            raise OSError(error, f"prctl(PR_SET_PDEATHSIG): {os.strerror(error)}")
    if os.getppid() != parent_pid:
        os._exit(1)


def watch_parent(stream: BinaryIO, on_gone: Callable[[], None]) -> threading.Thread:
    """Call `on_gone`, on a thread of its own, once the pipe has ended: the supervisor is gone or wants this to end."""

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
