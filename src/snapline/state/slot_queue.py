"""Priority queue of timer slots, by time."""

from __future__ import annotations

import numpy as np

from snapline.state.arrays import Ints


class _Run:
    """Slots sorted by time; those before `start` are taken."""

    def __init__(self, slots: Ints, times: Ints) -> None:
        order = np.argsort(times, kind="stable")
        self.slots = slots[order]
        self.times = times[order]
        self.start = 0

    def __len__(self) -> int:
        return len(self.times) - self.start

    def rest(self) -> tuple[Ints, Ints]:
        return self.slots[self.start :], self.times[self.start :]

    def take(self, until_ms: int) -> tuple[Ints, Ints]:
        """Take those up to and including a time."""
        end = int(np.searchsorted(self.times, until_ms, side="right"))
        taken = self.slots[self.start : end], self.times[self.start : end]
        self.start = max(self.start, end)
        if self.start > len(self):
            # Taken slots must not keep memory as long as a single late one is left.
            self.slots, self.times = (part.copy() for part in self.rest())
            self.start = 0
        return taken


class SlotQueue:
    """Returns slots by time, each as many times as it was added.

    Sorted runs, each at least twice as long as the next.
    """

    def __init__(self) -> None:
        self._runs: list[_Run] = []

    def add(self, slots: Ints, times: Ints) -> None:
        if not len(slots):
            return
        run = _Run(slots, times)
        while self._runs and len(self._runs[-1]) < 2 * len(run):
            before = self._runs.pop()
            run = _Run(*(np.concatenate(parts) for parts in zip(before.rest(), run.rest(), strict=True)))
        self._runs.append(run)

    def next_ms(self) -> int | None:
        """The earliest time, or None if the queue is empty."""
        return min((int(run.times[run.start]) for run in self._runs), default=None)

    def take(self, now_ms: int, limit: int | None) -> tuple[Ints, Ints] | None:
        """Take those up to and including a time, about `limit` at most, ordered by time and slot. None if none is due.

        Those with the same time are never split, whatever the limit.
        """
        next_ms = self.next_ms()
        if next_ms is None or next_ms > now_ms:
            return None
        if limit is not None:
            earliest = np.concatenate([run.times[run.start : run.start + limit] for run in self._runs])
            if len(earliest) >= limit:
                now_ms = min(now_ms, int(np.partition(earliest, limit - 1)[limit - 1]))
        parts = [run.take(now_ms) for run in self._runs]
        self._runs = [run for run in self._runs if len(run)]
        slots, times = (np.concatenate(column) for column in zip(*parts, strict=True))
        order = np.lexsort((slots, times))
        return slots[order], times[order]
