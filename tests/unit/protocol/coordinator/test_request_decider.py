"""The request decider: order, limits and pauses, step by step."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from snapline.errors import ConfigurationError
from snapline.protocol.coordinator.request_decider import (
    Decision,
    RequestDecider,
    TriggerRequest,
    is_forced,
    was_dropped,
)
from snapline.types import CheckpointScope, FailureReason, SnapshotKind

TOO_MANY = FailureReason.TOO_MANY_CHECKPOINT_REQUESTS
TOO_EARLY = FailureReason.MINIMUM_TIME_BETWEEN_CHECKPOINTS


def periodic(name: str, at_ms: int = 0) -> TriggerRequest:
    return TriggerRequest(name, SnapshotKind.CHECKPOINT, forced=False, periodic=True, timestamp_ms=at_ms)


def manual(name: str, at_ms: int = 0) -> TriggerRequest:
    return TriggerRequest(name, SnapshotKind.CHECKPOINT, forced=False, periodic=False, timestamp_ms=at_ms)


def savepoint(
    name: str, at_ms: int = 0, *, forced: bool = True, kind: SnapshotKind = SnapshotKind.SAVEPOINT
) -> TriggerRequest:
    return TriggerRequest(name, kind, forced=forced, periodic=False, timestamp_ms=at_ms)


class Bench:
    """A decider whose surroundings are idle unless a step says otherwise."""

    def __init__(self, max_queued: int = 1000, max_concurrent: int = 1, min_pause_ms: int = 0) -> None:
        self.decider = RequestDecider(max_queued, max_concurrent, min_pause_ms)

    def offer(
        self,
        request: TriggerRequest,
        *,
        triggering: bool = False,
        pending: int = 0,
        cleaning: int = 0,
        now_ms: int = 0,
        last_completed_ms: int | None = None,
    ) -> Decision:
        return self.decider.offer(
            request,
            triggering=triggering,
            pending=pending,
            cleaning=cleaning,
            now_ms=now_ms,
            last_completed_ms=last_completed_ms,
        )

    def poll(
        self,
        *,
        triggering: bool = False,
        pending: int = 0,
        cleaning: int = 0,
        now_ms: int = 0,
        last_completed_ms: int | None = None,
    ) -> Decision:
        return self.decider.poll(
            triggering=triggering,
            pending=pending,
            cleaning=cleaning,
            now_ms=now_ms,
            last_completed_ms=last_completed_ms,
        )

    def queue(self, *requests: TriggerRequest) -> None:
        for request in requests:
            assert self.offer(request, triggering=True) == Decision()

    @property
    def names(self) -> list[str]:
        return [request.name for request in self.decider.queued]


def test_an_idle_decider_chooses_what_it_is_offered() -> None:
    bench = Bench()
    request = periodic("r")
    assert bench.offer(request) == Decision(chosen=request)
    assert bench.names == []


def test_nothing_is_chosen_from_an_empty_queue() -> None:
    assert Bench().poll() == Decision()


def test_d6_a_savepoint_overtakes_a_waiting_checkpoint() -> None:
    bench = Bench()
    checkpoint, forced_savepoint = periodic("c"), savepoint("s")
    bench.queue(checkpoint, forced_savepoint)
    assert bench.poll().chosen == forced_savepoint
    assert bench.poll().chosen == checkpoint


def test_d9_the_last_periodic_request_in_order_is_evicted_from_a_full_queue() -> None:
    bench = Bench(max_queued=10)
    bench.queue(*(periodic(f"r{i}", at_ms=i) for i in range(10)))
    late = periodic("late", at_ms=10)
    assert bench.offer(late, triggering=True, now_ms=10) == Decision(failed=((late, TOO_MANY),))
    assert bench.names == [f"r{i}" for i in range(10)]


def test_d12_a_periodic_request_within_the_pause_is_dropped_with_the_time_that_is_left() -> None:
    bench = Bench(min_pause_ms=10)
    early = periodic("early", at_ms=100)
    decision = bench.offer(early, now_ms=100, last_completed_ms=100)
    assert decision == Decision(failed=((early, TOO_EARLY),), retry_in_ms=10)
    assert bench.names == []


@pytest.mark.parametrize(("now_ms", "retry_in_ms"), [(100, 10), (109, 1), (110, None), (500, None)])
def test_the_pause_ends_exactly_min_pause_after_the_completion(now_ms: int, retry_in_ms: int | None) -> None:
    decision = Bench(min_pause_ms=10).offer(periodic("r"), now_ms=now_ms, last_completed_ms=100)
    assert decision.retry_in_ms == retry_in_ms
    assert (decision.chosen is None) == (retry_in_ms is not None)


def test_there_is_no_pause_before_anything_has_completed() -> None:
    assert Bench(min_pause_ms=10).offer(periodic("r"), now_ms=0, last_completed_ms=None).chosen is not None


@pytest.mark.parametrize(
    "request_",
    [
        manual("m"),
        savepoint("s"),
        savepoint("s", forced=False),
        TriggerRequest("f", SnapshotKind.CHECKPOINT, forced=True, periodic=True, timestamp_ms=0),
    ],
)
def test_only_periodic_requests_that_are_not_forced_wait_out_the_pause(request_: TriggerRequest) -> None:
    assert Bench(min_pause_ms=10).offer(request_, last_completed_ms=0) == Decision(chosen=request_)


def test_a_request_that_came_too_early_does_not_give_its_turn_to_the_next() -> None:
    bench = Bench(min_pause_ms=10)
    bench.queue(periodic("first", 0), periodic("second", 1))
    decision = bench.poll(last_completed_ms=0)
    assert (decision.chosen, decision.failed) == (None, ((periodic("first", 0), TOO_EARLY),))
    assert bench.names == ["second"]


def test_the_queue_order() -> None:
    forced_checkpoint = TriggerRequest("forced", SnapshotKind.CHECKPOINT, forced=True, periodic=False, timestamp_ms=9)
    bench = Bench()
    bench.queue(
        periodic("newer", 5),
        periodic("older", 4),
        periodic("newer too", 5),
        manual("manual", 8),
        forced_checkpoint,
        savepoint("unforced", 1, forced=False),
        savepoint("savepoint", 7),
        savepoint("stop", 6, kind=SnapshotKind.SYNC_SAVEPOINT),
    )
    in_order = ["stop", "savepoint", "unforced", "forced", "manual", "older", "newer", "newer too"]
    assert bench.names == in_order
    chosen = [bench.poll().chosen for _ in in_order]
    assert [request.name for request in chosen if request is not None] == in_order


@pytest.mark.parametrize("forced", [True, False])
def test_nothing_is_chosen_while_a_trigger_is_in_progress(forced: bool) -> None:
    bench = Bench()
    assert bench.offer(savepoint("s", forced=forced), triggering=True) == Decision()
    assert bench.poll(triggering=True) == Decision()
    assert bench.names == ["s"]


def test_too_many_cleanups_hold_back_even_forced_requests() -> None:
    bench = Bench(max_concurrent=2)
    bench.queue(savepoint("s"))
    assert bench.poll(cleaning=3) == Decision()
    assert bench.poll(cleaning=2).chosen == savepoint("s")


def test_pending_checkpoints_hold_back_what_is_not_forced() -> None:
    bench = Bench(max_concurrent=2)
    assert bench.offer(manual("m"), pending=2) == Decision()
    assert bench.poll(pending=3) == Decision()
    assert bench.poll(pending=1).chosen == manual("m")


def test_a_forced_request_ignores_pending_checkpoints() -> None:
    assert Bench().offer(savepoint("s"), pending=5).chosen == savepoint("s")


def test_a_forced_request_behind_one_that_is_not_waits_with_it() -> None:
    forced_checkpoint = TriggerRequest("forced", SnapshotKind.CHECKPOINT, forced=True, periodic=False, timestamp_ms=0)
    bench = Bench()
    bench.queue(forced_checkpoint, savepoint("unforced", forced=False))
    assert bench.poll(pending=1) == Decision()
    assert bench.names == ["unforced", "forced"]


def test_the_pause_is_not_looked_at_while_too_many_are_pending() -> None:
    bench = Bench(min_pause_ms=10)
    assert bench.offer(periodic("r"), pending=1, last_completed_ms=0) == Decision()
    assert bench.names == ["r"]


def test_a_full_queue_without_periodic_requests_rejects_the_new_one_and_chooses_nothing() -> None:
    bench = Bench(max_queued=2)
    bench.queue(manual("a", 0), manual("b", 1))
    better = savepoint("s")
    assert bench.offer(better) == Decision(failed=((better, TOO_MANY),))
    assert bench.names == ["a", "b"]


def test_a_full_queue_gives_up_its_worst_periodic_request_for_a_better_one() -> None:
    bench = Bench(max_queued=2)
    bench.queue(periodic("old", 0), periodic("young", 1))
    decision = bench.offer(manual("m", 2), triggering=True)
    assert decision == Decision(failed=((periodic("young", 1), TOO_MANY),))
    assert bench.names == ["m", "old"]


def test_one_step_may_evict_and_choose() -> None:
    bench = Bench(max_queued=1)
    bench.queue(periodic("p"))
    assert bench.offer(savepoint("s")) == Decision(chosen=savepoint("s"), failed=((periodic("p"), TOO_MANY),))


def test_one_step_may_evict_one_request_and_drop_another_as_too_early() -> None:
    bench = Bench(max_queued=1, min_pause_ms=10)
    bench.queue(periodic("old", 0))
    decision = bench.offer(periodic("new", 1), now_ms=1, last_completed_ms=0)
    assert decision.failed == ((periodic("new", 1), TOO_MANY), (periodic("old", 0), TOO_EARLY))
    assert (decision.chosen, decision.retry_in_ms) == (None, 9)


def test_drop_all_empties_the_queue_and_returns_it_in_order() -> None:
    bench = Bench()
    bench.queue(periodic("c"), savepoint("s"))
    assert [request.name for request in bench.decider.drop_all()] == ["s", "c"]
    assert bench.names == []
    assert bench.decider.drop_all() == ()


@pytest.mark.parametrize(
    ("kind", "unaligned", "forced"),
    [
        (SnapshotKind.CHECKPOINT, False, False),
        (SnapshotKind.CHECKPOINT, True, False),
        (SnapshotKind.SAVEPOINT, False, True),
        (SnapshotKind.SAVEPOINT, True, False),
        (SnapshotKind.SYNC_SAVEPOINT, False, True),
        (SnapshotKind.SYNC_SAVEPOINT, True, False),
    ],
)
def test_savepoints_are_forced_exactly_when_unaligned_is_disabled(
    kind: SnapshotKind, unaligned: bool, forced: bool
) -> None:
    assert is_forced(kind, unaligned=unaligned) is forced


@pytest.mark.parametrize(
    ("limits", "setting"), [((0, 1, 0), "max_queued"), ((1, 0, 0), "max_concurrent"), ((1, 1, -1), "min_pause_ms")]
)
def test_impossible_limits_are_refused(limits: tuple[int, int, int], setting: str) -> None:
    with pytest.raises(ConfigurationError, match=setting):
        RequestDecider(*limits)


def test_a_request_asks_for_what_is_configured_unless_it_says_otherwise() -> None:
    request = manual("m")
    assert (request.target, request.format, request.drain) == (None, None, False)
    assert request.scope is CheckpointScope.CONFIGURED
    with pytest.raises(FrozenInstanceError):
        request.name = "other"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("reason", "is_dropped"),
    [
        (TOO_MANY, True),
        (TOO_EARLY, True),
        (FailureReason.CHECKPOINT_COORDINATOR_SUSPEND, True),
        (FailureReason.CHECKPOINT_COORDINATOR_SHUTDOWN, True),
        (FailureReason.IO_EXCEPTION, False),
        (FailureReason.CHECKPOINT_EXPIRED, False),
    ],
)
def test_a_periodic_request_may_be_dropped_but_a_user_s_fails(reason: FailureReason, is_dropped: bool) -> None:
    assert was_dropped(periodic("p"), reason) is is_dropped
    assert not was_dropped(manual("m"), reason)
