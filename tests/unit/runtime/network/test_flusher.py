"""The thread that flushes what channels hold back."""

from __future__ import annotations

import threading
import time

from snapline.runtime.network.flusher import Flusher


class Held:
    """Notes when it is asked, and wants to be asked again this many times."""

    def __init__(self, again: int = 0, order: list[Held] | None = None) -> None:
        self.asked_s: list[float] = []
        self.is_done = threading.Event()
        self._again = again
        self._order = order

    def flush_if_due(self, now: float) -> float | None:
        self.asked_s.append(now)
        if self._order is not None:
            self._order.append(self)
        if len(self.asked_s) > self._again:
            self.is_done.set()
            return None
        return now


def test_nobody_is_asked_before_the_time() -> None:
    flusher, held = Flusher(), Held()
    due_s = time.monotonic() + 0.02
    flusher.watch(held, due_s)
    assert held.is_done.wait(10)
    flusher.close()
    assert held.asked_s[0] >= due_s


def test_an_earlier_time_does_not_wait_behind_a_later_one() -> None:
    flusher, order = Flusher(), list[Held]()
    late, early = Held(order=order), Held(order=order)
    now_s = time.monotonic()
    flusher.watch(late, now_s + 3600)
    flusher.watch(early, now_s)
    assert early.is_done.wait(10)
    flusher.close()
    assert order == [early]


def test_who_wants_it_is_asked_again() -> None:
    flusher, held = Flusher(), Held(again=2)
    flusher.watch(held, 0)
    assert held.is_done.wait(10)
    flusher.close()
    assert len(held.asked_s) == 3


def test_after_the_close_nobody_is_asked_and_the_thread_is_gone() -> None:
    before = threading.active_count()
    flusher, held = Flusher(), Held()
    flusher.close()
    flusher.watch(held, 0)
    assert threading.active_count() == before
    assert held.asked_s == []


def test_one_that_is_asked_may_close() -> None:
    flusher, is_over = Flusher(), threading.Event()

    class Closing:
        def flush_if_due(self, now: float) -> float | None:
            flusher.close()
            is_over.set()
            return now

    flusher.watch(Closing(), 0)
    assert is_over.wait(10)
    flusher.close()
