"""The processes below this one, as Linux shows them in /proc."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import NamedTuple

_PROC = Path("/proc")
_WORKER = "snapline.runtime.worker"
_POLL_S = 0.05


class Process(NamedTuple):
    """A process; `started` tells it from a later one with the same number."""

    pid: int
    parent: int
    started: int


def can_see() -> bool:
    """Whether this system shows its processes."""
    return (_PROC / "self" / "stat").exists()


def descendants(root: int) -> list[Process]:
    """All processes that `root` has started, and those they have started, without the ones that have ended."""
    children: dict[int, list[Process]] = {}
    for entry in _PROC.iterdir() if can_see() else ():
        if entry.name.isdigit() and (process := _look(int(entry.name))) is not None:
            children.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    waiting = [root]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += (process.pid for process in below)
    return sorted(found)


def operator_processes(root: int) -> list[Process]:
    """The operator processes among the descendants; the parent of each is a Python worker of Spark."""
    return [process for process in descendants(root) if _WORKER in _arguments(process.pid)]


def end(processes: list[Process], patience_s: float) -> None:
    """Wait until these processes have ended, and kill those that have not in time."""
    deadline_s = time.monotonic() + patience_s
    left = processes
    while (left := [process for process in left if _is_running(process)]) and time.monotonic() < deadline_s:
        time.sleep(_POLL_S)
    for process in left:
        kill(process.pid)


def kill(pid: int) -> bool:
    """`kill -9`; whether there was such a process."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
        return True
    return False


def _is_running(process: Process) -> bool:
    # not by its parent: it gets another when its own has ended
    now = _look(process.pid)
    return now is not None and now.started == process.started


def _look(pid: int) -> Process | None:
    try:
        text = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    # the name stands in parentheses and may hold anything
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else Process(pid, int(fields[1]), int(fields[19]))


def _arguments(pid: int) -> list[str]:
    try:
        return (_PROC / str(pid) / "cmdline").read_text(errors="replace").split("\0")
    except OSError:
        return []
