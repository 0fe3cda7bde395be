"""When periodic checkpoints are due: the first delay, a fixed rate, postponement and backlog."""

from __future__ import annotations

import pytest

from snapline.config import Checkpoints
from snapline.protocol.coordinator.schedule import PeriodicSchedule

SECOND = 1000


def schedule(
    *,
    interval: str | None = "10s",
    min_pause: str = "0ms",
    backlog: str | None = None,
    pause_sources: bool = False,
) -> PeriodicSchedule:
    return PeriodicSchedule(
        Checkpoints(
            interval=interval,
            min_pause=min_pause,
            interval_during_backlog=backlog,
            pause_sources_until_first=pause_sources,
        )
    )


def due(periodic: PeriodicSchedule) -> int | None:
    return periodic.next_ms


def test_without_an_interval_nothing_is_ever_due() -> None:
    periodic = schedule(interval=None)
    assert periodic.start(0, 0.5) is None
    assert not periodic.fired(10**9)
    assert not periodic.backlog_changed("source", True, 5)
    assert due(periodic) is None


@pytest.mark.parametrize(
    ("chance", "first_ms"), [(0.0, 102 * SECOND), (0.5, 106 * SECOND), (0.25, 104 * SECOND), (0.999, 109992)]
)
def test_the_first_delay_lies_between_the_pause_and_the_interval(chance: float, first_ms: int) -> None:
    assert schedule(min_pause="2s").start(100 * SECOND, chance) == first_ms


def test_an_interval_below_the_pause_counts_as_the_pause() -> None:
    periodic = schedule(interval="1s", min_pause="4s")
    assert periodic.interval_ms == 4 * SECOND
    assert periodic.start(0, 0.9) == 4 * SECOND


@pytest.mark.parametrize(("chance", "first_ms"), [(0.0, 2 * SECOND), (0.5, 3 * SECOND)])
def test_while_sources_wait_the_first_delay_is_at_most_twice_the_pause(chance: float, first_ms: int) -> None:
    assert schedule(min_pause="2s", pause_sources=True).start(0, chance) == first_ms


def test_after_a_stop_the_first_delay_is_exactly_the_pause() -> None:
    periodic = schedule(min_pause="2s")
    periodic.start(0, 0.5)
    periodic.stop()
    assert due(periodic) is None
    assert periodic.start(50 * SECOND, 0.5) == 52 * SECOND


def test_the_next_time_is_the_last_planned_one_plus_the_interval() -> None:
    periodic = schedule()
    periodic.start(0, 0.5)
    assert periodic.fired(5 * SECOND)
    assert due(periodic) == 15 * SECOND
    assert periodic.fired(15 * SECOND + 7)
    assert due(periodic) == 25 * SECOND


def test_a_late_tick_fires_at_once_and_missed_ones_are_dropped() -> None:
    periodic = schedule()
    periodic.start(0, 0.0)
    assert periodic.fired(31 * SECOND)
    assert due(periodic) == 40 * SECOND, "whole intervals from the planned time, after now"
    assert not periodic.fired(31 * SECOND)
    assert periodic.fired(40 * SECOND)
    assert due(periodic) == 50 * SECOND


def test_a_timer_that_fires_early_or_after_a_stop_is_nothing() -> None:
    periodic = schedule()
    periodic.start(0, 0.5)
    assert not periodic.fired(5 * SECOND - 1)
    assert due(periodic) == 5 * SECOND
    periodic.stop()
    assert not periodic.fired(6 * SECOND)


def test_a_checkpoint_that_came_too_early_is_due_after_the_rest_of_the_pause() -> None:
    periodic = schedule(min_pause="2s")
    periodic.start(0, 0.0)
    assert periodic.fired(2 * SECOND)
    periodic.postpone(2 * SECOND, 700)
    assert due(periodic) == 2700
    assert periodic.fired(2700)
    assert due(periodic) == 12700


def test_a_stopped_schedule_cannot_be_postponed() -> None:
    periodic = schedule()
    periodic.start(0, 0.0)
    periodic.stop()
    periodic.postpone(5, 5)
    assert due(periodic) is None


def test_during_backlog_another_interval_applies() -> None:
    periodic = schedule(backlog="60s")
    periodic.start(0, 0.5)
    assert not periodic.backlog_changed("a", True, 1 * SECOND), "a later time reschedules nothing"
    assert due(periodic) == 5 * SECOND
    assert periodic.fired(5 * SECOND)
    assert due(periodic) == 65 * SECOND


def test_the_end_of_backlog_reschedules_to_the_earlier_time() -> None:
    periodic = schedule(backlog="60s")
    periodic.backlog_changed("a", True, 0)
    periodic.start(0, 0.5)
    assert due(periodic) == 30 * SECOND
    assert periodic.backlog_changed("a", False, 4 * SECOND)
    assert due(periodic) == 14 * SECOND


def test_backlog_lasts_until_the_last_source_has_caught_up() -> None:
    periodic = schedule(backlog="60s")
    periodic.backlog_changed("a", True, 0)
    periodic.backlog_changed("b", True, 0)
    periodic.backlog_changed("a", False, 0)
    assert periodic.interval_ms == 60 * SECOND
    periodic.backlog_changed("b", False, 0)
    assert periodic.interval_ms == 10 * SECOND


def test_backlog_may_switch_periodic_checkpoints_off_and_its_end_on_again() -> None:
    periodic = schedule(backlog="0ms")
    periodic.start(0, 0.5)
    assert not periodic.backlog_changed("a", True, 1 * SECOND)
    assert not periodic.fired(5 * SECOND)
    assert due(periodic) is None
    assert periodic.backlog_changed("a", False, 8 * SECOND)
    assert due(periodic) == 18 * SECOND
    assert periodic.fired(18 * SECOND)


def test_a_job_that_starts_behind_waits_for_the_end_of_its_backlog() -> None:
    periodic = schedule(backlog="0ms")
    periodic.backlog_changed("a", True, 0)
    assert periodic.start(0, 0.5) is None
    assert periodic.backlog_changed("a", False, 3 * SECOND)
    assert due(periodic) == 13 * SECOND


def test_backlog_without_an_interval_of_its_own_changes_nothing() -> None:
    periodic = schedule()
    periodic.start(0, 0.5)
    assert not periodic.backlog_changed("a", True, 1 * SECOND)
    assert due(periodic) == 5 * SECOND


def test_a_time_that_is_no_earlier_reschedules_nothing() -> None:
    periodic = schedule(backlog="10s")
    periodic.start(0, 0.0)
    periodic.fired(0)
    assert due(periodic) == 10 * SECOND
    assert not periodic.backlog_changed("a", True, 0)
    assert periodic.backlog_changed("a", False, -1)
    assert due(periodic) == 10 * SECOND - 1


def test_backlog_before_the_start_plans_nothing() -> None:
    periodic = schedule(backlog="20s")
    assert not periodic.backlog_changed("a", True, 0)
    assert not periodic.backlog_changed("a", False, 0)
    assert due(periodic) is None


@pytest.mark.parametrize(
    ("interval", "hold_ms", "first_ms"),
    [("10s", 0, 0), ("10s", 700, 700), ("10s", 10**6, 20_000), ("100ms", 700, 700), ("100ms", 10**6, 1000)],
)
def test_after_a_failure_of_the_code_the_first_is_held_back_for_some_time(
    interval: str, hold_ms: int, first_ms: int
) -> None:
    periodic = schedule(interval=interval)
    periodic.start(0, 0.0, 5000)
    assert periodic.next_ms == 0, "nothing has failed before the first start"
    periodic.stop()
    assert periodic.start(0, 0.5, hold_ms) == first_ms
