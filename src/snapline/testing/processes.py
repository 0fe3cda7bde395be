"""Processes of this machine as Linux shows them in /proc, and which of them belong to a job."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

_OPERATORS = "snapline.runtime.worker"
_EXECUTOR = "CoarseGrainedExecutorBackend"


def descendants(root: int) -> list[int]:
    """All processes that `root` has started, and those they have started; parents before their children."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (parent := parent_of(int(entry.name))) is not None:
            children.setdefault(parent, []).append(int(entry.name))
    found: list[int] = []
    waiting = [root]
    while waiting:
        below = sorted(children.get(waiting.pop(0), []))
        found += below
        waiting += below
    return found


def operator_processes(roots: list[int]) -> list[int]:
    """The operator processes among the descendants; the parent of each is its slot."""
    return sorted(pid for root in roots for pid in descendants(root) if _OPERATORS in _arguments(pid))


def executor_above(pid: int) -> int | None:
    """The JVM of the Spark executor to which a process belongs; none if the driver's JVM runs its tasks."""
    above: int | None = pid
    while above is not None and above > 1:
        if any(argument.endswith(_EXECUTOR) for argument in _arguments(above)):
            return above
        above = parent_of(above)
    return None


def parent_of(pid: int) -> int | None:
    """None if there is no such process, or it has ended and only waits to be noticed."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    # the name stands in parentheses and may hold anything
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[1])


def is_running(pid: int) -> bool:
    return parent_of(pid) is not None


def send(pid: int, number: signal.Signals) -> bool:
    """Send a signal; whether there was such a process."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
        return True
    return False


def _arguments(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")
    except OSError:
        return []
