"""Alignment of event time on the driver: how far the sources of a group may be ahead of the slowest subtask."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

_groups: dict[tuple[str, str], _Group] = {}
_guard = threading.Lock()


@dataclass(slots=True)
class _Group:
    """Event times by uid and subtask, None for a subtask without any, and whom to tell of the slowest."""

    times: dict[tuple[str, int], int | None] = field(default_factory=dict)
    members: dict[str, Callable[[int | None], None]] = field(default_factory=dict)
    slowest_ms: int | None = None


class AlignmentGroup:
    """One source as a member of a group of its job; the members of one job are in one process. Thread-safe.

    `tell` gets the event time of the slowest subtask of the group when it changes, on the thread of whoever reports.
    """

    def __init__(self, job_id: str, name: str, uid: str, parallelism: int, tell: Callable[[int | None], None]) -> None:
        self._key = (job_id, name)
        self._uid = uid
        with _guard:
            group = _groups.setdefault(self._key, _Group())
            group.members[uid] = tell
            group.times.update({(uid, subtask): None for subtask in range(parallelism)})

    def report(self, subtask: int, time_ms: int | None, *, is_idle: bool) -> None:
        """The event time of a subtask. One that is idle, or has ended, keeps nobody waiting."""
        with _guard:
            group = _groups[self._key]
            if is_idle:
                group.times.pop((self._uid, subtask), None)
            else:
                group.times[self._uid, subtask] = time_ms
        self._settle()

    def leave(self) -> None:
        """The source does not run any more."""
        with _guard:
            group = _groups[self._key]
            group.members.pop(self._uid, None)
            for member in [member for member in group.times if member[0] == self._uid]:
                del group.times[member]
            if not group.members:
                del _groups[self._key]
                return
        self._settle()

    def _settle(self) -> None:
        with _guard:
            group = _groups[self._key]
            known = [time for time in group.times.values() if time is not None]
            slowest = min(known) if known and len(known) == len(group.times) else None
            if slowest == group.slowest_ms:
                return
            group.slowest_ms = slowest
            told = list(group.members.values())
        for tell in told:
            tell(slowest)
