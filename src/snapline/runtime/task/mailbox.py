"""A task's mailbox: what other threads bring to it, timers, and waiting for either."""

from __future__ import annotations

import contextlib
import heapq
import itertools
import threading
import time
from collections import deque
from collections.abc import Callable

from snapline.runtime.wire.channel_items import Item

Mail = Callable[[], None]

_LONGEST_WAIT_S = 3600.0
"""A timer may be set for a time that is too far away to wait for."""

_FEW_TIMERS = 64


def wall_clock_ms() -> int:
    """Processing time."""
    return time.time_ns() // 1_000_000


class Timer:
    """A call that is to be made at a time, unless it is cancelled."""

    __slots__ = ("_call", "at_ms")

    def __init__(self, at_ms: int, call: Mail) -> None:
        self.at_ms = at_ms
        self._call: Mail | None = call

    @property
    def is_cancelled(self) -> bool:
        return self._call is None

    def cancel(self) -> None:
        self._call = None

    def fire(self) -> None:
        if self._call is not None:
            self._call()


class Mailbox:
    """Mail and arrivals may come from any thread; everything else is for the task's thread alone."""

    def __init__(self, clock: Callable[[], int] = wall_clock_ms) -> None:
        self.arrivals: deque[tuple[int, Item]] = deque()
        self._clock = clock
        self._mail: deque[Mail] = deque()
        # A lock instead of an event: to be woken has to cost as little as it can.
        self._sleep = threading.Lock()
        self._sleep.acquire()
        self._is_woken = False
        self._timers: list[tuple[int, int, Timer]] = []
        self._tidy_at = _FEW_TIMERS
        self._numbers = itertools.count()

    # From any thread.

    def post(self, call: Mail) -> None:
        """Have a call made on the task's thread, ahead of data."""
        self._mail.append(call)
        self.wake()

    def arrive(self, channel: int, item: Item) -> None:
        """Something has come through an input channel."""
        self.arrivals.append((channel, item))
        self.wake()

    def wake(self) -> None:
        """There may be something to do."""
        if not self._is_woken:
            self._is_woken = True
            with contextlib.suppress(RuntimeError):  # somebody else was as quick
                self._sleep.release()

    # On the task's thread.

    def at(self, at_ms: int, call: Mail) -> Timer:
        """Have a call made at a time."""
        if len(self._timers) >= self._tidy_at:
            # One that is cancelled may be far in the future: those would pile up.
            self._timers = [entry for entry in self._timers if not entry[2].is_cancelled]
            heapq.heapify(self._timers)
            self._tidy_at = max(2 * len(self._timers), _FEW_TIMERS)
        timer = Timer(at_ms, call)
        heapq.heappush(self._timers, (at_ms, next(self._numbers), timer))
        return timer

    def take_mail(self) -> Mail | None:
        """The next call that is due: mail first, then timers."""
        if self._mail:
            return self._mail.popleft()
        while self._timers:
            at_ms, _, timer = self._timers[0]
            if timer.is_cancelled:
                heapq.heappop(self._timers)
            elif at_ms <= self._clock():
                heapq.heappop(self._timers)
                return timer.fire
            else:
                return None
        return None

    def wait(self) -> None:
        """Wait until there is mail, an arrival or a due timer, or somebody wakes the task; it may end without either.

        Whatever came before the last look at the queues must have been seen: call `clear` ahead of that look.
        """
        timeout_s = -1.0
        while self._timers and self._timers[0][2].is_cancelled:
            heapq.heappop(self._timers)
        if self._timers:
            timeout_s = min(max(self._timers[0][0] - self._clock(), 0) / 1000, _LONGEST_WAIT_S)
        self._sleep.acquire(timeout=timeout_s)

    def clear(self) -> None:
        """Forget that somebody has woken the task: from here on `wait` returns for what is new."""
        self._is_woken = False
