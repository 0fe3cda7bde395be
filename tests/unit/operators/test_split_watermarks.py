"""Event time of a subtask that reads several splits."""

from __future__ import annotations

from snapline.operators.split_watermarks import SplitWatermarks

A, B, C = b"a", b"b", b"c"


def made(*splits: bytes, idle_after_ms: int = 0) -> SplitWatermarks:
    times = SplitWatermarks(idle_after_ms)
    times.tick(0)
    for split in splits:
        times.add(split, None)
    return times


def slowest(times: SplitWatermarks) -> int | None:
    return times.slowest_ms


def is_idle(times: SplitWatermarks) -> bool:
    return times.is_idle


def ticked(times: SplitWatermarks, start_ms: int, end_ms: int) -> None:
    for now_ms in range(start_ms, end_ms + 1, 100):
        times.tick(now_ms)


def test_the_slowest_split_counts() -> None:
    times = made(A, B)
    times.read(A, 3_600_000)
    assert slowest(times) is None, "nothing is known of the other"
    times.read(B, 1000)
    assert slowest(times) == 1000
    times.read(B, 500)
    assert slowest(times) == 1000, "an older row takes nothing back"
    times.read(B, None)
    assert times.newest_ms(B) == 1000


def test_a_split_that_ends_holds_nothing_back() -> None:
    times = made(A, B)
    times.read(A, 2000)
    times.ended(B)
    assert slowest(times) == 2000
    assert B not in times
    assert times.newest_ms(B) is None


def test_a_quiet_split_holds_nothing_back_once_it_is_idle() -> None:
    times = made(A, B, idle_after_ms=1000)
    times.read(A, 5000)
    ticked(times, 100, 900)
    times.read(A, 6000)
    assert slowest(times) is None
    ticked(times, 1000, 1000)
    assert slowest(times) == 6000
    assert not is_idle(times)
    ticked(times, 1100, 2000)
    assert is_idle(times)
    assert slowest(times) is None
    times.read(B, 100)
    assert not is_idle(times)
    assert slowest(times) == 100, "it counts again"


def test_without_a_limit_nothing_is_idle() -> None:
    times = made(A, B)
    times.read(A, 5000)
    ticked(times, 100, 100_000)
    assert not is_idle(times)
    assert slowest(times) is None


def test_time_in_which_the_subtask_could_not_read_makes_nothing_idle() -> None:
    times = made(A, B, idle_after_ms=1000)
    times.read(A, 5000)
    times.tick(60_000)
    assert slowest(times) is None, "the rows of the other may be there, and were not read"
    times.tick(59_000)
    assert slowest(times) is None, "a clock that goes back counts for nothing"


def test_splits_that_are_too_far_ahead_pause_and_do_not_become_idle() -> None:
    times = made(A, B, C, idle_after_ms=1000)
    times.read(A, 90_000)
    times.read(B, 10_000)
    assert times.pause(70_000) == {A}
    ticked(times, 100, 2000)
    times.read(B, 20_000)
    assert slowest(times) == 20_000
    assert times.pause(95_000) == frozenset()
    assert slowest(times) == 20_000, "it has just begun to be read again"
    assert times.pause(None) == frozenset()


def test_a_restored_split_goes_on_with_its_time() -> None:
    times = made(B)
    times.add(A, 700)
    times.read(B, 900)
    assert slowest(times) == 700
