"""Waiting until everything is read that a source had when somebody asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from snapline.contracts.source import Source
from snapline.operators.split_assigner import SplitAssigner


@dataclass(slots=True, eq=False)
class _CatchUp:
    """One request. It waits for the discovery number `look`, and once it `is_begun` for what is left to read."""

    token: str
    done: Callable[[], None]
    look: int
    is_begun: bool = False
    found: object = None
    waits_for: set[int] = field(default_factory=set)


class CatchUps:
    """The requests to one source, on the driver: first discovery, then reading.

    Splits that are read one after the other are read when their subtasks ask for more. Where splits are read in step
    nobody asks: the subtasks get `tell(subtask, event)`, and answer when their readers have nothing left.
    """

    def __init__(
        self, source: Source, assigner: SplitAssigner, subtasks: int, attempt: int, tell: Callable[[int, object], None]
    ) -> None:
        self._source = source
        self._assigner = assigner
        self._subtasks = subtasks
        self._attempt = attempt
        self._tell = tell
        self._number = 0
        self._looks = 0
        self._waiting: list[_CatchUp] = []

    def add(self, done: Callable[[], None]) -> None:
        """Call `done` once everything is read that is there now."""
        self._number += 1
        # Answers to an earlier attempt may come again from a checkpoint.
        entry = _CatchUp(f"{self._attempt}/{self._number}", done, self._looks + 1)
        self._waiting.append(entry)
        if self._source.discovery_interval_ms is None:
            self._begin(entry)

    @property
    def wants_look(self) -> bool:
        """Whether somebody waits for a discovery that has not begun."""
        return any(not entry.is_begun and entry.look > self._looks for entry in self._waiting)

    def look_begins(self) -> None:
        self._looks += 1

    def looked(self, *, has_found: bool) -> None:
        """A discovery is over. One that is limited may have left something for the next."""
        may_be_more = has_found and self._source.max_waiting_splits is not None
        for entry in list(self._waiting):
            if entry.is_begun or entry.look > self._looks:
                continue
            if may_be_more:
                entry.look = self._looks + 1
            else:
                self._begin(entry)

    def answered(self, subtask: int, token: str) -> None:
        """A subtask has nothing left to read."""
        for entry in self._waiting:
            if entry.token == token:
                entry.waits_for.discard(subtask)
        self.check()

    def check(self) -> None:
        """Something may have been read."""
        for entry in list(self._waiting):
            if entry.is_begun and not entry.waits_for and self._assigner.has_read(entry.found):
                self._waiting.remove(entry)
                entry.done()

    def _begin(self, entry: _CatchUp) -> None:
        entry.is_begun = True
        if self._source.in_step or self._source.discovery_interval_ms is None:
            entry.waits_for = set(range(self._subtasks))
            for subtask in range(self._subtasks):
                self._tell(subtask, {"catch_up": entry.token})
        else:
            entry.found = self._assigner.newest_found
        self.check()
