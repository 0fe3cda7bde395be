"""What counts as silence of a peer."""

from __future__ import annotations

from snapline.runtime.scheduler.silence import silent_since


def test_looks_in_time_or_a_little_late_change_nothing() -> None:
    assert [silent_since(7.0, 10.0, now, 1.0) for now in (10.0, 11.0, 11.5, 12.0)] == [7.0] * 4


def test_of_a_late_look_one_interval_counts() -> None:
    assert silent_since(7.0, 10.0, 13.0, 1.0) == 9.0
    assert silent_since(7.0, 10.0, 70.0, 1.0) == 66.0


def test_who_was_heard_after_a_standstill_is_not_heard_from_the_future() -> None:
    assert silent_since(69.9, 10.0, 70.0, 1.0) == 70.0
