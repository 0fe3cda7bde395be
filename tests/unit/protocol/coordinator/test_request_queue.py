"""The queue of requests: periodic ones, the timer that makes them, and what stopping leaves behind."""

from __future__ import annotations

from typing import Any

from snapline.config import Checkpoints
from snapline.protocol.coordinator.carryover import Carryover
from snapline.protocol.coordinator.coordinator_events import CancelTimer, CoordinatorEffect, SetTimer, Timer, TimerKind
from snapline.protocol.coordinator.request_decider import TriggerRequest
from snapline.protocol.coordinator.request_queue import RequestQueue
from snapline.types import FailureReason, SnapshotKind

PERIODIC = Timer(TimerKind.PERIODIC)


class Bench:
    def __init__(self, **settings: Any) -> None:
        config = Checkpoints(**{"interval": "10s", **settings})
        self.carryover = Carryover.fresh(config)
        self.effects: list[CoordinatorEffect] = []
        self.queue = RequestQueue(3, config, self.carryover, self.effects)

    def orders(self) -> list[CoordinatorEffect]:
        taken = list(self.effects)
        self.effects.clear()
        return taken

    def decide(self, offered: TriggerRequest | None = None, *, now_ms: int = 0, pending: int = 0) -> str | None:
        decision = self.queue.decide(offered, now_ms, triggering=False, pending=pending, cleaning=0)
        return None if decision.chosen is None else decision.chosen.name


def request(name: str) -> TriggerRequest:
    return TriggerRequest(name, SnapshotKind.CHECKPOINT, False, False, 0)


def test_the_timer_makes_numbered_requests_at_a_fixed_rate() -> None:
    bench = Bench()
    bench.queue.start(0, 0.5)
    assert bench.orders() == [SetTimer(PERIODIC, 5_000)]
    first, second = bench.queue.timer_fired(5_100), bench.queue.timer_fired(15_000)
    assert first is not None
    assert second is not None
    assert (first.name, first.periodic, second.name) == ("periodic-3-1", True, "periodic-3-2")
    assert bench.orders() == [SetTimer(PERIODIC, 15_000), SetTimer(PERIODIC, 25_000)]


def test_a_timer_that_fires_early_is_set_again() -> None:
    bench = Bench()
    bench.queue.start(0, 0.5)
    assert bench.queue.timer_fired(4_999) is None
    assert bench.orders()[-1] == SetTimer(PERIODIC, 5_000)


def test_stopping_cancels_the_timer_and_hands_back_what_waits() -> None:
    bench = Bench()
    bench.queue.start(0, 0.5)
    assert bench.decide(request("a"), pending=1) is None
    bench.orders()
    assert bench.queue.stop() == (request("a"),)
    assert bench.orders() == [CancelTimer(PERIODIC)]
    assert bench.queue.timer_fired(60_000) is None
    assert bench.orders() == []
    assert bench.decide() is None


def test_what_waits_is_chosen_once_it_may_start() -> None:
    bench = Bench()
    assert bench.decide(request("a"), pending=1) is None
    assert bench.decide(request("b"), pending=1) is None
    assert (bench.decide(), bench.decide(), bench.decide()) == ("a", "b", None)


def test_a_periodic_request_that_comes_too_soon_after_a_checkpoint_is_postponed() -> None:
    bench = Bench(min_pause="4s")
    bench.queue.start(0, 0.0)
    bench.carryover.last_completed_ms = 3_000
    periodic = bench.queue.timer_fired(4_000)
    assert periodic is not None
    decision = bench.queue.decide(periodic, 4_000, triggering=False, pending=0, cleaning=0)
    assert decision.failed == ((periodic, FailureReason.MINIMUM_TIME_BETWEEN_CHECKPOINTS),)
    assert decision.retry_in_ms == 3_000
    bench.queue.postpone(4_000, 3_000)
    assert bench.orders()[-1] == SetTimer(PERIODIC, 7_000)


def test_the_end_of_a_backlog_brings_the_next_request_forward() -> None:
    bench = Bench(interval_during_backlog="60s")
    bench.queue.backlog_changed("source", True, 0)
    bench.queue.start(0, 0.9)
    assert bench.orders() == [SetTimer(PERIODIC, 54_000)]
    bench.queue.backlog_changed("source", False, 1_000)
    assert bench.orders() == [SetTimer(PERIODIC, 11_000)]


def timeout(name: str) -> Timer:
    return Timer(TimerKind.TIMEOUT, name)


def test_a_user_s_request_times_out_from_when_it_was_made_and_a_periodic_one_from_its_turn() -> None:
    bench = Bench(timeout="1min")
    assert bench.decide(request("a"), now_ms=2_000, pending=1) is None
    assert bench.orders() == [SetTimer(timeout("a"), 60_000)]
    assert bench.decide(now_ms=50_000) == "a"
    assert bench.orders() == [], "the time it waited counts"
    bench.queue.start(50_000, 0.5)
    periodic = bench.queue.timer_fired(55_000)
    assert bench.decide(periodic, now_ms=55_000, pending=1) is None
    bench.orders()
    assert bench.decide(now_ms=90_000) == "periodic-3-1"
    assert bench.orders() == [SetTimer(timeout("periodic-3-1"), 150_000)]


def test_at_most_one_periodic_request_waits() -> None:
    bench = Bench()
    bench.queue.start(0, 0.0)
    assert bench.decide(bench.queue.timer_fired(10_000), now_ms=10_000, pending=1) is None
    assert [bench.queue.timer_fired(now_ms) for now_ms in (20_000, 30_000, 40_000)] == [None, None, None]
    assert bench.orders()[-1] == SetTimer(PERIODIC, 50_000)
    assert bench.decide(now_ms=41_000) == "periodic-3-1"
    assert bench.decide(now_ms=41_000) is None
    following = bench.queue.timer_fired(50_000)
    assert following is not None
    assert following.name == "periodic-3-2"


def test_a_waiting_request_can_be_taken_out() -> None:
    bench = Bench()
    assert bench.decide(request("a"), pending=1) is None
    assert bench.decide(request("b"), pending=1) is None
    assert (bench.queue.take("a"), bench.queue.take("a")) == (request("a"), None)
    assert (bench.decide(), bench.decide()) == ("b", None)


def test_a_request_that_has_ended_no_longer_times_out() -> None:
    bench = Bench()
    bench.queue.ended(request("a"))
    assert bench.orders() == [CancelTimer(timeout("a"))]
