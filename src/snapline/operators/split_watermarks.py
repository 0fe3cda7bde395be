"""Event time of a source subtask, apart for each of its splits: the slowest one that is not idle counts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

_LONGEST_STEP_MS = 200
"""A longer time between two looks is not counted: the subtask could not read then, so nothing became idle."""


@dataclass(slots=True)
class _Split:
    newest_ms: int | None
    read_ms: int
    is_paused: bool = False


class SplitWatermarks:
    """The newest event time of each split, and whether it has been quiet for `idle_after_ms` (0: never).

    Time comes in with `tick`. Only time in which the subtask could read counts towards idleness, and none of it for a
    split that is paused.
    """

    def __init__(self, idle_after_ms: int) -> None:
        self._idle_after_ms = idle_after_ms
        self._splits: dict[bytes, _Split] = {}
        self._active_ms = 0
        self._looked_ms: int | None = None

    def __contains__(self, split: bytes) -> bool:
        return split in self._splits

    def __len__(self) -> int:
        return len(self._splits)

    def tick(self, now_ms: int) -> None:
        """The subtask is about to read."""
        if self._looked_ms is not None:
            self._active_ms += min(max(now_ms - self._looked_ms, 0), _LONGEST_STEP_MS)
        self._looked_ms = now_ms

    def add(self, split: bytes, newest_ms: int | None) -> None:
        """A split to read, perhaps with the event time that it had reached before."""
        self._splits[split] = _Split(newest_ms, self._active_ms)

    def read(self, split: bytes, newest_ms: int | None) -> None:
        """Rows of a split were read; None if none of them has a time."""
        known = self._splits[split]
        known.read_ms = self._active_ms
        if newest_ms is not None and (known.newest_ms is None or newest_ms > known.newest_ms):
            known.newest_ms = newest_ms

    def ended(self, split: bytes) -> None:
        self._splits.pop(split, None)

    def newest_ms(self, split: bytes) -> int | None:
        known = self._splits.get(split)
        return None if known is None else known.newest_ms

    @property
    def is_idle(self) -> bool:
        """Whether all splits are."""
        return all(map(self._is_idle, self._splits.values()))

    @property
    def slowest_ms(self) -> int | None:
        """The event time that all splits have reached which are not idle; None if one of them has none, or all are."""
        times = [split.newest_ms for split in self._splits.values() if not self._is_idle(split)]
        known = [time for time in times if time is not None]
        return min(known) if known and len(known) == len(times) else None

    def slowest(self) -> bytes | None:
        """The split that holds event time back: one without any, else the oldest; None if all are idle. Any thread."""
        active = {key: split.newest_ms for key, split in list(self._splits.items()) if not self._is_idle(split)}
        without_time = [key for key, newest_ms in active.items() if newest_ms is None]
        known = {newest_ms: key for key, newest_ms in active.items() if newest_ms is not None}
        return without_time[0] if without_time else known[min(known)] if known else None

    def pause(self, beyond_ms: int | None) -> frozenset[bytes]:
        """Pause the splits whose event time is beyond this, and no others. Returns all that are paused now."""
        for split in self._splits.values():
            is_ahead = beyond_ms is not None and split.newest_ms is not None and split.newest_ms > beyond_ms
            if split.is_paused and not is_ahead:
                split.read_ms = self._active_ms
            split.is_paused = is_ahead
        return frozenset(self._paused())

    def _paused(self) -> Iterable[bytes]:
        return (key for key, split in self._splits.items() if split.is_paused)

    def _is_idle(self, split: _Split) -> bool:
        is_quiet = self._active_ms - split.read_ms >= self._idle_after_ms
        return bool(self._idle_after_ms) and is_quiet and not split.is_paused
