"""One thread that flushes what channels have held back long enough."""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from typing import Protocol


class Holding(Protocol):
    def flush_if_due(self, now: float) -> float | None:
        """Flush if it is time. Returns the next due time, or None."""


class Flusher:
    """Calls `flush_if_due` at the times channels asked for; sleeps in between."""

    def __init__(self, name: str = "flusher") -> None:
        self._condition = threading.Condition(threading.Lock())
        self._due: list[tuple[float, int, Holding]] = []
        self._numbers = itertools.count()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def watch(self, holding: Holding, due: float) -> None:
        """Ask at this time of the monotonic clock."""
        with self._condition:
            if self._is_closed:
                return
            heapq.heappush(self._due, (due, next(self._numbers), holding))
            if self._due[0][0] == due:
                self._condition.notify()

    def close(self) -> None:
        with self._condition:
            self._is_closed = True
            self._due.clear()
            self._condition.notify()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        while True:
            with self._condition:
                while not self._is_closed and (not self._due or self._due[0][0] > time.monotonic()):
                    self._condition.wait(self._due[0][0] - time.monotonic() if self._due else None)
                if self._is_closed:
                    return
                _, _, holding = heapq.heappop(self._due)
            again = holding.flush_if_due(time.monotonic())
            if again is not None:
                self.watch(holding, again)
