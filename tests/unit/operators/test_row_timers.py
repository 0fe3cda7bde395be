"""Timers for functions of rows: order, changes while they fire, and limits."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from snapline.errors import UserCodeError
from snapline.operators import row_timers
from snapline.operators.keyed_batches import keyed_state
from snapline.operators.row_timers import RowTimers
from snapline.state.timers import TimeDomain
from snapline.testing.operator_harness import OperatorHarness
from snapline.types import MAX_WATERMARK

EVENT, PROCESSING = TimeDomain.EVENT, TimeDomain.PROCESSING


@pytest.fixture
def keyed() -> Any:
    return keyed_state(OperatorHarness(None, key="string").context, "it")  # type: ignore[arg-type]


def with_timers(keyed: Any, domain: TimeDomain, *timers: tuple[str, int]) -> RowTimers:
    made = RowTimers(keyed)
    keys = keyed.keys([pa.array([key for key, _ in timers])])
    for number, (_, time_ms) in enumerate(timers):
        keyed.select(keys, number)
        made.register(domain, time_ms)
    return made


def test_due_timers_fire_in_order_with_their_key(keyed: Any) -> None:
    timers = with_timers(keyed, EVENT, ("b", 30), ("a", 10), ("b", 20))
    fired: list[tuple[int, str]] = []
    timers.fire(EVENT, 20, lambda time_ms, key: fired.append((time_ms, key)))
    assert fired == [(10, "a"), (20, "b")]
    assert timers.next_ms(EVENT) == 30
    assert timers.next_ms(PROCESSING) is None


@pytest.mark.parametrize("bulk", [1, 4, 1000])
def test_timers_set_or_deleted_while_others_fire_count(keyed: Any, monkeypatch: pytest.MonkeyPatch, bulk: int) -> None:
    monkeypatch.setattr(row_timers, "_LARGEST_BULK", bulk)
    timers = with_timers(keyed, EVENT, *(("a", time_ms) for time_ms in range(0, 100, 10)))
    fired: list[int] = []

    def call(time_ms: int, key: str) -> None:
        assert key == "a"
        fired.append(time_ms)
        if time_ms % 20 == 0:
            timers.delete(EVENT, time_ms + 10)
            timers.register(EVENT, time_ms + 5)

    timers.fire(EVENT, 200, call)
    assert fired == sorted([*range(0, 100, 20), *range(5, 100, 20)])


def test_timers_of_processing_time_leave_some_for_the_next_time(keyed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_timers, "_LARGEST_BULK", 2)
    monkeypatch.setattr(row_timers, "_MOST_FIRED", 4)
    timers = with_timers(keyed, PROCESSING, *(("a", time_ms) for time_ms in range(10)))
    fired: list[int] = []
    timers.fire(PROCESSING, 100, lambda time_ms, _: fired.append(time_ms))
    assert fired == [0, 1, 2, 3]
    timers.fire(PROCESSING, 100, lambda time_ms, _: fired.append(time_ms))
    assert len(fired) == 8


def test_timers_that_keep_setting_more_after_the_end_are_an_error(keyed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_timers, "_FEW_AT_THE_END", 20)
    timers = with_timers(keyed, EVENT, ("a", 0))
    with pytest.raises(UserCodeError, match="timers have fired after the end of the data"):
        timers.fire(EVENT, MAX_WATERMARK, lambda time_ms, _: timers.register(EVENT, time_ms + 1))
