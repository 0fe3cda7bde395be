"""The at-least-once tracker: counts barriers of several checkpoints at once and never holds a channel back."""

from __future__ import annotations

import pytest

from snapline.errors import EngineError
from snapline.protocol.barriers.barrier_events import (
    AlignmentMetrics,
    AlignmentTimerFired,
    BarrierAnnounced,
    BarrierEffect,
    BarrierEvent,
    BarrierReceived,
    CancelMarkerReceived,
    CheckpointTriggered,
    FinishAlignment,
    HandlerAborted,
    PartitionEnded,
)
from snapline.protocol.barriers.tracker import MAX_TRACKED, TRACKED, Tracked, TrackingHandler
from snapline.types import AbortReason, Barrier, BarrierKind, SnapshotKind

CANCELLED, END_OF_STREAM = AbortReason.CANCELLED, AbortReason.END_OF_STREAM


class Bench:
    """A tracker fed with events in the notation of the replay tool: B1@0, X1@0, E@0."""

    def __init__(self, channels: int, *, finish: bool = True) -> None:
        self.handler = TrackingHandler(channels, after_tasks_finish=finish)
        self.now_ms = 0

    def feed(self, events: str) -> list[BarrierEffect]:
        """Feed events separated by spaces and return the effects of them all."""
        return [effect for event in events.split() for effect in self.handler.handle(parse(event), self.now_ms)]

    def outcomes(self, events: str) -> list[int | tuple[int, AbortReason]]:
        """Feed events and return ids that were triggered, and ids with reasons that were aborted, in order."""
        found: list[int | tuple[int, AbortReason]] = []
        for effect in self.feed(events):
            if isinstance(effect, CheckpointTriggered):
                found.append(effect.barrier.id)
            elif isinstance(effect, HandlerAborted):
                found.append((effect.checkpoint_id, effect.reason))
            else:
                assert isinstance(effect, FinishAlignment)
        return found

    @property
    def pending(self) -> list[int]:
        return list(self.handler.pending)


def parse(event: str) -> BarrierEvent:
    what, _, channel = event.partition("@")
    match what[0]:
        case "B":
            return BarrierReceived(int(channel), Barrier(int(what[1:]), 0))
        case "X":
            return CancelMarkerReceived(int(channel), int(what[1:]))
        case _:
            return PartitionEnded(int(channel))


def test_a_checkpoint_is_triggered_at_its_last_barrier() -> None:
    bench = Bench(3)
    assert bench.outcomes("B1@1 B1@2") == []
    assert bench.pending == [1]
    assert bench.outcomes("B1@0") == [1]
    assert bench.pending == []


def test_a_trigger_is_followed_by_the_end_of_alignment() -> None:
    bench = Bench(2)
    metrics = AlignmentMetrics(0, 0, 0)
    assert bench.feed("B1@0 B1@1") == [CheckpointTriggered(Barrier(1, 0), 0), FinishAlignment(1, metrics)]


def test_with_a_single_channel_every_new_barrier_triggers_at_once() -> None:
    assert Bench(1).outcomes("B1@0 B2@0 B5@0") == [1, 2, 5]


def test_with_a_single_channel_an_old_barrier_does_not_trigger_again() -> None:
    assert Bench(1).outcomes("B2@0 B2@0 B1@0") == [2]


def test_with_a_single_channel_a_cancel_marker_is_reported_once() -> None:
    bench = Bench(1)
    assert bench.outcomes("X1@0 X1@0 B1@0 B2@0 X2@0") == [(1, CANCELLED), 2]
    assert bench.pending == []


def test_a_repeated_barrier_of_a_channel_counts_once() -> None:
    bench = Bench(3)
    assert bench.outcomes("B1@0 B1@0 B1@0") == []
    assert bench.outcomes("B1@1 B1@2") == [1]


def test_several_checkpoints_are_followed_at_once_and_may_complete_in_order() -> None:
    bench = Bench(2)
    assert bench.outcomes("B1@0 B2@0 B3@0") == []
    assert bench.pending == [1, 2, 3]
    assert bench.outcomes("B1@1 B2@1 B3@1") == [1, 2, 3]


def test_a_completed_checkpoint_drops_all_older_ones_silently() -> None:
    bench = Bench(3)
    assert bench.outcomes("B1@0 B2@0 B3@0 B3@1 B2@1 B4@0") == []
    assert bench.outcomes("B3@2") == [3]
    assert bench.pending == [4]
    assert bench.outcomes("B1@1 B1@2 B2@2") == []


def test_a_barrier_of_an_id_that_is_not_kept_and_not_new_opens_nothing() -> None:
    bench = Bench(2)
    assert bench.outcomes("B3@0 B2@0 B2@1 B1@1") == []
    assert bench.pending == [3]


def test_the_target_is_what_was_open_at_the_first_barrier() -> None:
    bench = Bench(3)
    assert bench.outcomes("E@2 B1@0 B1@1") == [1]


def test_one_more_than_the_limit_drops_the_oldest_silently() -> None:
    bench = Bench(2)
    assert bench.outcomes(" ".join(f"B{i}@0" for i in range(1, MAX_TRACKED + 1))) == []
    assert bench.pending == list(range(1, MAX_TRACKED + 1))
    assert bench.outcomes(f"B{MAX_TRACKED + 1}@0") == []
    assert bench.pending == list(range(2, MAX_TRACKED + 2))
    assert bench.outcomes("B1@1 X1@1") == []
    assert bench.outcomes("B2@1") == [2]


def test_the_limit_is_fifty() -> None:
    assert MAX_TRACKED == 50


def test_an_aborted_id_that_is_remembered_counts_towards_the_limit() -> None:
    bench = Bench(2)
    assert bench.outcomes("X1@0 " + " ".join(f"B{i}@0" for i in range(2, MAX_TRACKED + 2))) == [(1, CANCELLED)]
    assert bench.pending == list(range(2, MAX_TRACKED + 2))
    assert bench.outcomes("X1@1") == []


# Cancel markers.


def test_a_cancel_marker_aborts_its_id_and_all_older_ones_each_once() -> None:
    bench = Bench(2)
    outcomes = bench.outcomes("B1@0 B2@0 B3@0 B4@0 X3@1")
    assert outcomes == [(1, CANCELLED), (2, CANCELLED), (3, CANCELLED)]
    assert bench.pending == [4]
    assert bench.outcomes("X3@1 X2@1 X1@1 B4@1") == [4]


def test_a_cancelled_checkpoint_is_remembered_until_every_channel_was_heard() -> None:
    bench = Bench(3)
    assert bench.outcomes("B1@0 X1@1") == [(1, CANCELLED)]
    assert bench.pending == []
    assert bench.outcomes("B1@2") == []
    assert bench.outcomes("X1@0 B1@0") == []


def test_a_marker_for_an_unknown_new_id_is_reported_and_remembered() -> None:
    bench = Bench(2)
    assert bench.outcomes("X5@0") == [(5, CANCELLED)]
    assert bench.outcomes("B5@1") == []
    assert bench.outcomes("B5@0 X5@1 X4@0 B4@1") == []
    assert bench.outcomes("B6@0 B6@1") == [6]


def test_a_marker_for_a_dropped_id_is_not_reported() -> None:
    bench = Bench(2)
    assert bench.outcomes("B1@0 B2@0 B2@1") == [2]
    assert bench.outcomes("X1@1 X2@0") == []


def test_a_marker_for_an_id_that_is_not_kept_still_aborts_older_ones() -> None:
    bench = Bench(2)
    assert bench.outcomes("B1@0 B3@0 X2@1") == [(1, CANCELLED)]
    assert bench.pending == [3]
    assert bench.outcomes("B3@1") == [3]


def test_an_aborted_id_is_dropped_when_a_newer_one_is_cancelled_or_completes() -> None:
    assert Bench(2).outcomes("X1@0 X2@0 X1@1 X2@1") == [(1, CANCELLED), (2, CANCELLED)]
    assert Bench(2).outcomes("X1@0 B2@0 B2@1 X1@1") == [(1, CANCELLED), 2]


# The end of a channel.


def test_an_end_counts_for_every_kept_id_and_completes_the_newest() -> None:
    bench = Bench(3)
    assert bench.outcomes("B1@0 B2@0 B2@1 B3@0 B4@0 B4@1 B5@1 E@2") == [4]
    assert bench.pending == [5]
    assert bench.outcomes("B5@0") == [5]


def test_an_end_completes_nothing_that_still_waits_for_others() -> None:
    bench = Bench(3)
    assert bench.outcomes("B1@0 E@2") == []
    assert bench.pending == [1]
    assert bench.outcomes("E@1") == [1]


def test_the_end_of_a_channel_that_has_delivered_counts_once() -> None:
    bench = Bench(3)
    assert bench.outcomes("B1@0 E@0") == []
    assert bench.outcomes("B1@1 B1@2") == [1]


def test_an_end_only_removes_an_id_remembered_as_aborted() -> None:
    bench = Bench(2)
    assert bench.outcomes("X1@0 E@1") == [(1, CANCELLED)]
    assert bench.outcomes("X1@0 B2@0") == [2]


def test_an_end_removes_an_aborted_id_and_leaves_newer_ones_counting() -> None:
    bench = Bench(3)
    assert bench.outcomes("X1@0 X1@1 B2@0 E@2") == [(1, CANCELLED)]
    assert bench.pending == [2]
    assert bench.outcomes("B2@1") == [2]


def test_an_end_of_the_last_but_one_channel_makes_new_barriers_trigger_at_once() -> None:
    assert Bench(2).outcomes("E@1 B1@0 B2@0") == [1, 2]


def test_with_one_channel_left_a_new_id_drops_an_older_one() -> None:
    bench = Bench(3)
    assert bench.outcomes("B1@1 E@1 E@2 B2@0") == [2]
    assert bench.pending == []


def test_an_end_without_anything_kept_does_nothing() -> None:
    assert Bench(2).outcomes("E@0 E@1") == []


def test_when_tasks_may_not_finish_an_end_aborts_all_kept_ids() -> None:
    bench = Bench(3, finish=False)
    assert bench.outcomes("B1@0 B2@0 E@2") == [(1, END_OF_STREAM), (2, END_OF_STREAM)]
    assert bench.pending == []
    assert bench.outcomes("B1@1 B2@1 B3@0 B3@1") == [3]


def test_when_tasks_may_not_finish_an_end_does_not_report_an_aborted_id_again() -> None:
    assert Bench(3, finish=False).outcomes("X1@0 B2@0 E@2 X1@1") == [(1, CANCELLED), (2, END_OF_STREAM)]


# Metrics, and what the tracker leaves alone.


def test_metrics() -> None:
    bench = Bench(2)
    bench.handler.data_processed(1000)
    first, second = Barrier(1, timestamp_ms=10), Barrier(2, timestamp_ms=60)
    assert bench.handler.handle(BarrierReceived(0, first), 50) == []
    bench.handler.data_processed(5)
    assert bench.handler.handle(BarrierReceived(0, second), 70) == []
    bench.handler.data_processed(7)
    assert bench.handler.handle(BarrierReceived(1, first), 90) == [
        CheckpointTriggered(first, 40),
        FinishAlignment(1, AlignmentMetrics(40, 40, 12)),
    ]
    assert bench.handler.handle(BarrierReceived(1, second), 100) == [
        CheckpointTriggered(second, 10),
        FinishAlignment(2, AlignmentMetrics(10, 30, 7)),
    ]


def test_clocks_that_differ_do_not_make_a_delay_negative() -> None:
    barrier = Barrier(1, timestamp_ms=500)
    effects = Bench(1).handler.handle(BarrierReceived(0, barrier), 400)
    assert effects[0] == CheckpointTriggered(barrier, 0)


def test_the_barrier_is_passed_on_as_it_came() -> None:
    barrier = Barrier(1, 0, snapshot=SnapshotKind.SYNC_SAVEPOINT, drain=True, full=True)
    assert Bench(1).handler.handle(BarrierReceived(0, barrier), 0)[0] == CheckpointTriggered(barrier, 0)


def test_it_never_blocks_and_never_captures() -> None:
    handler = Bench(2).handler
    handler.handle(BarrierReceived(0, Barrier(1, 0, BarrierKind.UNALIGNED)), 0)
    handler.barrier_arrived(1, 2)
    assert handler.blocked == frozenset()
    assert [handler.is_capturing(channel) for channel in range(2)] == [False, False]


def test_announcements_and_timers_mean_nothing_to_it() -> None:
    handler = Bench(2).handler
    assert handler.handle(BarrierAnnounced(0, Barrier(1, 0)), 0) == []
    assert handler.handle(AlignmentTimerFired(1), 0) == []
    assert handler.pending == ()


@pytest.mark.parametrize(
    "illegal",
    [
        BarrierReceived(2, Barrier(2, 0)),
        BarrierReceived(-1, Barrier(2, 0)),
        BarrierReceived(3, Barrier(2, 0)),
        BarrierAnnounced(2, Barrier(2, 0)),
        CancelMarkerReceived(2, 1),
        CancelMarkerReceived(3, 1),
        PartitionEnded(2),
        PartitionEnded(3),
    ],
)
def test_an_illegal_event_raises_and_changes_nothing(illegal: BarrierEvent) -> None:
    bench = Bench(3)
    bench.outcomes("B1@0 E@2")
    with pytest.raises(EngineError):
        bench.handler.handle(illegal, 0)
    assert bench.pending == [1]
    assert bench.outcomes("B1@1 B2@0 B2@1") == [1, 2]


def test_open_channels_are_those_that_have_not_ended() -> None:
    bench = Bench(3)
    bench.outcomes("E@1")
    assert bench.handler.open_channels == (0, 2)


def test_it_needs_a_channel() -> None:
    with pytest.raises(EngineError, match="at least one input channel"):
        TrackingHandler(0)


def test_the_table_ends_in_triggered_or_forgotten() -> None:
    assert TRACKED.final_states == {Tracked.TRIGGERED, Tracked.FORGOTTEN}
