"""A thread's mailbox: calls and items from other threads, timers, and waiting for either."""

from __future__ import annotations

import contextlib
import heapq
import itertools
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

Mail = Callable[[], None]

_LONGEST_WAIT_S = 10.0
"""A timer of processing time is due at most this late after the wall clock was set forward."""

_FEW_TIMERS = 64


class MailboxTimer:
    """A cancellable call at a set time."""

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


class Mailbox(ABC):
    """Any thread may call `post`, `arrive` and `wake`; everything else is for the owner's thread."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self.arrivals: deque[tuple[int, Any]] = deque()
        self._clock = clock
        self._mail: deque[Mail] = deque()
        self._is_woken = False
        self._timers: list[tuple[int, int, MailboxTimer]] = []
        self._tidy_at = _FEW_TIMERS
        self._numbers = itertools.count()

    # From any thread.

    def post(self, call: Mail) -> None:
        """Make a call on the owner's thread, ahead of data."""
        self._mail.append(call)
        self.wake()

    def arrive(self, channel: int, item: Any) -> None:
        self.arrivals.append((channel, item))
        self.wake()

    @abstractmethod
    def wake(self) -> None:
        """Make `wait` return."""

    # On the owner's thread.

    def at(self, at_ms: int, call: Mail) -> MailboxTimer:
        if len(self._timers) >= self._tidy_at:
            # Cancelled timers may lie far ahead and would pile up.
            self._timers = [entry for entry in self._timers if not entry[2].is_cancelled]
            heapq.heapify(self._timers)
            self._tidy_at = max(2 * len(self._timers), _FEW_TIMERS)
        timer = MailboxTimer(at_ms, call)
        heapq.heappush(self._timers, (at_ms, next(self._numbers), timer))
        return timer

    def take_mail(self) -> Sequence[Mail]:
        """Returns all calls that are due: mail first, then timers."""
        timers = self._timers
        if not self._mail and (not timers or timers[0][0] > self._clock()):
            return ()
        due = [self._mail.popleft() for _ in range(len(self._mail))]
        now_ms = self._clock()
        while timers and timers[0][0] <= now_ms:
            due.append(heapq.heappop(timers)[2].fire)
        return due

    def serve(self, is_over: Callable[[], bool]) -> None:
        while not is_over():
            self.clear()
            due = self.take_mail()
            for mail in due:
                if is_over():
                    return
                mail()
            if not due:
                self.wait()

    def timeout_s(self) -> float | None:
        """Returns the time until the next timer is due, or None."""
        while self._timers and self._timers[0][2].is_cancelled:
            heapq.heappop(self._timers)
        if not self._timers:
            return None
        return min(max(self._timers[0][0] - self._clock(), 0) / 1000, _LONGEST_WAIT_S)

    @abstractmethod
    def wait(self, at_most_s: float | None = None) -> None:
        """Wait for mail, an arrival, a due timer or `wake`; may return for no reason.

        Call `clear` before the last look at the queues, or what arrives in between is missed.
        """

    @abstractmethod
    def clear(self) -> None:
        """Reset the wake-up: from here on `wait` returns only for something new."""


class ThreadMailbox(Mailbox):
    """The mailbox of a real thread."""

    def __init__(self, clock: Callable[[], int]) -> None:
        super().__init__(clock)
        # A lock instead of an event: waking has to cost as little as possible.
        self._sleep = threading.Lock()
        self._sleep.acquire()

    def wake(self) -> None:
        if not self._is_woken:
            self._is_woken = True
            with contextlib.suppress(RuntimeError):  # another thread was as quick
                self._sleep.release()

    def wait(self, at_most_s: float | None = None) -> None:
        timeout_s = self.timeout_s()
        if at_most_s is not None:
            timeout_s = at_most_s if timeout_s is None else min(timeout_s, at_most_s)
        self._sleep.acquire(timeout=-1.0 if timeout_s is None else timeout_s)

    def clear(self) -> None:
        self._is_woken = False
