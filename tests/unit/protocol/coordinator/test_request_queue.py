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
