"""Processing time while the wall clock is set."""

from __future__ import annotations

import logging
import threading

import pytest

from snapline.runtime.scheduler.steady_clock import SLOWDOWN, SteadyClock

MS = 1_000_000
HOUR_MS = 3_600_000
START_MS = 1_700_000_000_000


class Clocks:
    """A wall clock that can be set, and time that passes."""

    def __init__(self) -> None:
        self.wall_ms = START_MS
        self.time_ms = 500
        self.steady = SteadyClock(lambda: self.wall_ms * MS, lambda: self.time_ms * MS)

    def pass_(self, duration_ms: int) -> int:
        """Let time pass. Returns what the clock shows then."""
        self.wall_ms += duration_ms
        self.time_ms += duration_ms
        return self.steady.now_ms()


def test_it_shows_the_time_of_the_wall_clock() -> None:
    clocks = Clocks()
    assert clocks.steady.now_ms() == START_MS
    assert clocks.pass_(1_234) == START_MS + 1_234


def test_it_follows_the_wall_clock_forward() -> None:
    clocks = Clocks()
    clocks.wall_ms += HOUR_MS
    assert clocks.pass_(5) == START_MS + HOUR_MS + 5


def test_it_goes_on_when_the_wall_clock_is_set_back() -> None:
    clocks = Clocks()
    clocks.pass_(1_000)
    clocks.wall_ms -= HOUR_MS
    shown = [clocks.pass_(100) for _ in range(50)]
    assert shown == sorted(set(shown)), "it never stands still and never goes back"
    assert shown[0] == START_MS + 1_100
    assert START_MS + 1_100 + 49 * 90 <= shown[-1] < START_MS + 1_100 + 49 * 100


def test_it_agrees_with_the_wall_clock_again_after_a_while() -> None:
    clocks = Clocks()
    clocks.wall_ms -= HOUR_MS
    clocks.pass_(1)
    before = clocks.steady.now_ms()
    assert clocks.pass_(SLOWDOWN * HOUR_MS // 2) - before == SLOWDOWN * HOUR_MS // 2 - HOUR_MS // 2
    clocks.pass_(SLOWDOWN * HOUR_MS // 2)
    assert clocks.steady.now_ms() - clocks.wall_ms <= 10
    assert clocks.pass_(1_000) - clocks.wall_ms <= 10


def test_a_second_step_back_takes_nothing_of_the_time_between_them() -> None:
    clocks = Clocks()
    clocks.wall_ms -= HOUR_MS
    clocks.pass_(10)
    clocks.wall_ms += HOUR_MS
    clocks.pass_(100 * HOUR_MS)
    before = clocks.pass_(10)
    clocks.wall_ms -= HOUR_MS
    assert clocks.pass_(10) == before + 10


def test_a_step_back_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    clocks = Clocks()
    with caplog.at_level(logging.WARNING):
        clocks.wall_ms -= HOUR_MS
        for _ in range(5):
            clocks.pass_(1_000)
    assert [record.getMessage() for record in caplog.records] == [
        "the wall clock was set back by 3600 s; processing time goes on, a tenth slower until both agree"
    ]


def test_threads_never_see_it_go_back() -> None:
    clock, problems = SteadyClock(), list[tuple[int, int]]()

    def look() -> None:
        last = 0
        for _ in range(5_000):
            now = clock.now_ms()
            if now < last:
                problems.append((last, now))
            last = now

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert problems == []
