"""The processes of this machine, read from /proc, and which of them belong to a job."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

_PROC = Path("/proc")
_OPERATORS = "snapline.runtime.slot.operator_process"
_EXECUTOR = "CoarseGrainedExecutorBackend"
_LISTENING = "0A"
_POLL_S = 0.05


class Process(NamedTuple):
    """A process. `started` distinguishes it from a later one with the same id."""

    pid: int
    parent: int
    started: int

    @property
    def is_running(self) -> bool:
        # The parent does not count: a process gets another one when its own ends.
        now = look(self.pid)
        return now is not None and now.started == self.started


def can_see() -> bool:
    """Whether this system has /proc."""
    return (_PROC / "self" / "stat").exists()


def look(pid: int) -> Process | None:
    """The process with this id, or None if there is none or it is a zombie."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    # The name stands in parentheses and may contain anything.
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else Process(pid, int(fields[1]), int(fields[19]))


def descendants(root: int) -> list[Process]:
    """All descendants of `root`, parents before their children."""
    children: dict[int, list[Process]] = {}
    for entry in _PROC.iterdir() if can_see() else ():
        if entry.name.isdigit() and (process := look(int(entry.name))) is not None:
            children.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    waiting = [root]
    while waiting:
        below = sorted(children.get(waiting.pop(0), []))
        found += below
        waiting += (process.pid for process in below)
    return found


def operator_processes(*roots: int) -> list[Process]:
    """The operator processes below `roots`. The parent of each is its slot, Spark's Python worker."""
    return sorted(process for root in roots for process in descendants(root) if _OPERATORS in _arguments(process.pid))


def executor_above(pid: int) -> int | None:
    """The JVM of the Spark executor that a process belongs to, or None if the driver's JVM runs its tasks."""
    above = look(pid)
    while above is not None and above.pid > 1:
        if any(argument.endswith(_EXECUTOR) for argument in _arguments(above.pid)):
            return above.pid
        above = look(above.parent)
    return None


def listening_addresses(pid: int) -> list[tuple[str, int]]:
    """The IPv4 addresses at which a process listens, in its own network namespace."""
    sockets = set()
    for entry in (_PROC / str(pid) / "fd").iterdir():
        with contextlib.suppress(OSError):
            sockets.add(entry.readlink().name)
    found = []
    for line in (_PROC / str(pid) / "net" / "tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == _LISTENING and f"socket:[{fields[9]}]" in sockets:
            host, port = fields[1].split(":")
            found.append((socket.inet_ntoa(bytes.fromhex(host)[::-1]), int(port, 16)))
    return found


def send(pid: int, number: signal.Signals = signal.SIGKILL) -> bool:
    """Send a signal, by default `kill -9`. Returns whether the process exists."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
        return True
    return False


def end(processes: Iterable[Process], patience_s: float) -> None:
    """Wait up to `patience_s` for these processes to end, then kill the rest."""
    deadline_s = time.monotonic() + patience_s
    left = list(processes)
    while (left := [process for process in left if process.is_running]) and time.monotonic() < deadline_s:
        time.sleep(_POLL_S)
    for process in left:
        send(process.pid)


def _arguments(pid: int) -> list[str]:
    try:
        return (_PROC / str(pid) / "cmdline").read_text(errors="replace").split("\0")
    except OSError:
        return []
