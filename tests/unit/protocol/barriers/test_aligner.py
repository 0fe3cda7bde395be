"""The exactly-once barrier handler: its state table, cell by cell, and the rules around it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from snapline.errors import EngineError
from snapline.protocol.barriers.aligner import AligningHandler
from snapline.protocol.barriers.barrier_events import (
    AlignmentMetrics,
    AlignmentTimerFired,
    BarrierAnnounced,
    BarrierEffect,
    BarrierEvent,
    BarrierReceived,
    BlockChannel,
    CancelAlignmentTimer,
    CancelMarkerReceived,
    CheckpointTriggered,
    FinishAlignment,
    HandlerAborted,
    HandlerMode,
    PartitionEnded,
    PrioritizeBarrier,
    ResumeChannel,
    SetAlignmentTimer,
    StartCapture,
)
from snapline.types import AbortReason, Barrier, BarrierKind, SnapshotKind

A, T, U = BarrierKind.ALIGNED, BarrierKind.ALIGNED_WITH_TIMEOUT, BarrierKind.UNALIGNED
FORCED = BarrierKind.FORCED_ALIGNED
SUBSUMED = AbortReason.SUBSUMED
CANCELLED = AbortReason.CANCELLED
END_OF_STREAM = AbortReason.END_OF_STREAM
TIMEOUT_MS = 100


def barrier(checkpoint_id: int = 1, kind: BarrierKind = A, created_ms: int = 0) -> Barrier:
    return Barrier(checkpoint_id, created_ms, kind, TIMEOUT_MS if kind is T else None)


class Bench:
    """A handler with a clock. Each method feeds one event and returns what the handler orders."""

    def __init__(self, mode: HandlerMode, channels: int = 2, *, finish: bool = True) -> None:
        self.handler = AligningHandler(mode, channels, after_tasks_finish=finish)
        self.channels = channels
        self.now_ms = 0

    def feed(self, event: BarrierEvent) -> list[BarrierEffect]:
        return self.handler.handle(event, self.now_ms)

    def barrier(self, channel: int, checkpoint_id: int = 1, kind: BarrierKind = A) -> list[BarrierEffect]:
        return self.feed(BarrierReceived(channel, barrier(checkpoint_id, kind)))

    def announce(self, channel: int, checkpoint_id: int = 1) -> list[BarrierEffect]:
        return self.feed(BarrierAnnounced(channel, barrier(checkpoint_id, T)))

    def cancel(self, channel: int, checkpoint_id: int = 1) -> list[BarrierEffect]:
        return self.feed(CancelMarkerReceived(channel, checkpoint_id))

    def end(self, channel: int) -> list[BarrierEffect]:
        return self.feed(PartitionEnded(channel))

    def timer(self, checkpoint_id: int = 1) -> list[BarrierEffect]:
        return self.feed(AlignmentTimerFired(checkpoint_id))

    @property
    def blocked(self) -> set[int]:
        return set(self.handler.blocked)

    @property
    def capturing(self) -> set[int]:
        return {channel for channel in range(self.channels) if self.handler.is_capturing(channel)}

    @property
    def pending(self) -> tuple[int, ...]:
        return self.handler.pending


def aligned(channels: int = 2, *, finish: bool = True) -> Bench:
    return Bench(HandlerMode.ALIGNED, channels, finish=finish)


def alternating(channels: int = 2, *, finish: bool = True) -> Bench:
    return Bench(HandlerMode.ALTERNATING, channels, finish=finish)


def overdue(channels: int = 2) -> Bench:
    """Waits, unaligned, for a checkpoint whose barrier was announced on channel 0 and did not come in time."""
    bench = alternating(channels)
    bench.announce(0)
    assert bench.timer() == [PrioritizeBarrier(0, 1)]
    return bench


def trigger(checkpoint_id: int = 1, kind: BarrierKind = A, start_delay_ms: int = 0) -> CheckpointTriggered:
    return CheckpointTriggered(barrier(checkpoint_id, kind), start_delay_ms)


def trigger_switched(checkpoint_id: int = 1, start_delay_ms: int = 0) -> CheckpointTriggered:
    return CheckpointTriggered(barrier(checkpoint_id, T).as_unaligned(), start_delay_ms)


def finish(checkpoint_id: int = 1, start_delay_ms: int = 0, duration_ms: int = 0) -> FinishAlignment:
    return FinishAlignment(checkpoint_id, AlignmentMetrics(start_delay_ms, duration_ms, 0))


def resume(*channels: int) -> list[BarrierEffect]:
    return [ResumeChannel(channel) for channel in channels]


def of_type(effects: Sequence[BarrierEffect], *types: type[BarrierEffect]) -> list[BarrierEffect]:
    return [effect for effect in effects if isinstance(effect, types)]


# --- aligned, waiting for the first barrier --------------------------------------------------------------------------


def test_aligned_waiting_a_barrier_blocks_its_channel() -> None:
    bench = aligned()
    assert bench.barrier(0) == [BlockChannel(0)]
    assert (bench.blocked, bench.pending) == ({0}, (1,))


def test_aligned_waiting_the_only_barrier_triggers_and_unblocks() -> None:
    bench = aligned(1)
    assert bench.barrier(0) == [BlockChannel(0), trigger(), ResumeChannel(0), finish()]
    assert (bench.blocked, bench.pending) == (set(), ())


def test_aligned_waiting_an_end_is_only_noted() -> None:
    bench = aligned()
    assert bench.end(1) == []
    assert bench.barrier(0) == [BlockChannel(0), trigger(), ResumeChannel(0), finish()]


@pytest.mark.parametrize("collecting", [False, True])
def test_aligned_a_timeout_is_an_error(collecting: bool) -> None:
    bench = aligned()
    if collecting:
        bench.barrier(0)
    with pytest.raises(EngineError, match="only aligns"):
        bench.timer()
    assert bench.pending == ((1,) if collecting else ())
    assert trigger() in [*bench.barrier(0), *bench.barrier(1)]


def test_aligned_waiting_an_abort_leaves_it_waiting() -> None:
    bench = aligned()
    assert bench.cancel(0, 1) == [HandlerAborted(1, CANCELLED)]
    assert bench.barrier(0, 2) == [BlockChannel(0)]


# --- aligned, collecting ---------------------------------------------------------------------------------------------


def test_aligned_collecting_a_barrier_blocks_its_channel_too() -> None:
    bench = aligned(3)
    bench.barrier(1)
    assert bench.barrier(0) == [BlockChannel(0)]
    assert bench.blocked == {0, 1}


def test_aligned_collecting_the_last_barrier_triggers_and_unblocks_all() -> None:
    bench = aligned(3)
    bench.barrier(1)
    bench.barrier(0)
    assert bench.barrier(2) == [BlockChannel(2), trigger(), *resume(0, 1, 2), finish()]
    assert (bench.blocked, bench.pending) == (set(), ())


def test_aligned_collecting_the_last_end_triggers_what_is_pending_and_unblocks() -> None:
    bench = aligned(3)
    bench.barrier(1)
    assert bench.end(2) == []
    assert bench.end(0) == [trigger(), ResumeChannel(1), finish()]
    assert (bench.blocked, bench.pending) == (set(), ())


def test_aligned_collecting_an_abort_unblocks_all() -> None:
    bench = aligned(3)
    bench.barrier(1)
    bench.barrier(0)
    assert bench.cancel(2) == [*resume(0, 1), HandlerAborted(1, CANCELLED)]
    assert (bench.blocked, bench.pending) == (set(), ())


def test_aligned_a_repeated_barrier_counts_once() -> None:
    bench = aligned(2)
    bench.barrier(0)
    assert bench.barrier(0) == []
    assert bench.pending == (1,)


@pytest.mark.parametrize("kind", [A, T, FORCED])
def test_aligned_whatever_kind_of_aligned_barrier_it_is(kind: BarrierKind) -> None:
    bench = aligned()
    bench.now_ms = 10 * TIMEOUT_MS
    assert bench.barrier(0, kind=kind) == [BlockChannel(0)]
    delay_ms = bench.now_ms
    assert bench.barrier(1, kind=kind)[1] == trigger(kind=kind, start_delay_ms=delay_ms)
    assert bench.capturing == set()


def test_aligned_an_announcement_opens_a_checkpoint_and_nothing_else() -> None:
    bench = aligned()
    assert bench.announce(0) == []
    assert (bench.blocked, bench.pending) == (set(), (1,))
    bench.barrier(0)
    assert trigger() in bench.barrier(1)


# --- alternating, aligned and waiting for the first barrier ----------------------------------------------------------


def test_alternating_waiting_an_unaligned_barrier_triggers_at_once() -> None:
    bench = alternating()
    assert bench.barrier(0, kind=U) == [StartCapture(1), trigger(kind=U)]
    assert (bench.blocked, bench.capturing, bench.pending) == (set(), {1}, (1,))


def test_alternating_waiting_the_only_unaligned_barrier_completes_at_once() -> None:
    bench = alternating(1)
    assert bench.barrier(0, kind=U) == [StartCapture(1), trigger(kind=U), finish()]
    assert (bench.capturing, bench.pending) == (set(), ())


def test_alternating_waiting_an_aligned_barrier_blocks_without_a_timer() -> None:
    bench = alternating()
    assert bench.barrier(0, kind=A) == [BlockChannel(0)]
    bench.now_ms = 10 * TIMEOUT_MS
    assert bench.timer() == []
    assert bench.barrier(1, kind=A) == [BlockChannel(1), trigger(), *resume(0, 1), finish(duration_ms=bench.now_ms)]


def test_alternating_waiting_a_barrier_with_timeout_blocks_and_sets_the_timer() -> None:
    bench = alternating()
    bench.now_ms = 30
    assert bench.barrier(0, kind=T) == [SetAlignmentTimer(1, TIMEOUT_MS), BlockChannel(0)]


def test_alternating_waiting_a_timer_is_never_set_for_the_past() -> None:
    bench = alternating(3)
    bench.now_ms = 5 * TIMEOUT_MS
    assert bench.announce(0) == [SetAlignmentTimer(1, bench.now_ms)]


def test_alternating_waiting_the_only_barrier_triggers_aligned_even_if_late() -> None:
    bench = alternating(1)
    bench.now_ms = 5 * TIMEOUT_MS
    assert bench.barrier(0, kind=T) == [
        SetAlignmentTimer(1, bench.now_ms),
        BlockChannel(0),
        trigger(kind=T, start_delay_ms=bench.now_ms),
        ResumeChannel(0),
        CancelAlignmentTimer(1),
        finish(start_delay_ms=bench.now_ms),
    ]


def test_alternating_waiting_a_late_barrier_switches_at_once() -> None:
    bench = alternating()
    bench.now_ms = TIMEOUT_MS + 1
    assert bench.barrier(0, kind=T) == [
        SetAlignmentTimer(1, bench.now_ms),
        BlockChannel(0),
        StartCapture(1),
        trigger_switched(start_delay_ms=bench.now_ms),
    ]
    assert (bench.blocked, bench.capturing, bench.pending) == ({0}, {1}, (1,))


def test_alternating_waiting_a_barrier_exactly_at_the_timeout_is_in_time() -> None:
    bench = alternating()
    bench.now_ms = TIMEOUT_MS
    assert bench.barrier(0, kind=T) == [SetAlignmentTimer(1, bench.now_ms), BlockChannel(0)]


def test_alternating_waiting_an_end_is_only_noted() -> None:
    bench = alternating()
    bench.announce(0)
    bench.now_ms = 5 * TIMEOUT_MS
    assert bench.end(1) == []
    assert of_type(bench.barrier(0, kind=T), CheckpointTriggered) == [trigger(kind=T, start_delay_ms=bench.now_ms)]


def test_alternating_waiting_the_timer_prioritises_announced_barriers() -> None:
    bench = alternating(3)
    bench.announce(2)
    bench.announce(0)
    assert bench.timer() == [PrioritizeBarrier(0, 1), PrioritizeBarrier(2, 1)]
    assert (bench.capturing, bench.pending) == (set(), (1,))
    assert bench.barrier(0, kind=T) == [BlockChannel(0), StartCapture(1), trigger_switched()]


def test_alternating_waiting_an_abort_leaves_it_waiting() -> None:
    bench = alternating()
    bench.announce(0)
    assert bench.cancel(1, 2) == [CancelAlignmentTimer(1), HandlerAborted(2, CANCELLED)]
    assert bench.pending == ()
    assert bench.barrier(0, 3) == [BlockChannel(0)]


# --- alternating, aligned and collecting -----------------------------------------------------------------------------


def test_alternating_collecting_a_barrier_blocks_its_channel_too() -> None:
    bench = alternating(3)
    bench.barrier(0, kind=T)
    assert bench.barrier(1, kind=T) == [BlockChannel(1)]


def test_alternating_collecting_the_last_barrier_triggers_aligned_and_cancels_the_timer() -> None:
    bench = alternating()
    bench.barrier(0, kind=T)
    assert bench.barrier(1, kind=T) == [
        BlockChannel(1),
        trigger(kind=T),
        *resume(0, 1),
        CancelAlignmentTimer(1),
        finish(),
    ]


def test_alternating_collecting_a_late_barrier_switches() -> None:
    bench = alternating(3)
    bench.barrier(0, kind=T)
    bench.announce(2)
    bench.now_ms = TIMEOUT_MS + 1
    assert bench.barrier(1, kind=T) == [BlockChannel(1), PrioritizeBarrier(2, 1), StartCapture(1), trigger_switched()]
    assert (bench.blocked, bench.capturing) == ({0, 1}, {2})


def test_alternating_collecting_the_last_barrier_is_never_too_late() -> None:
    bench = alternating()
    bench.barrier(0, kind=T)
    bench.now_ms = 5 * TIMEOUT_MS
    assert of_type(bench.barrier(1, kind=T), CheckpointTriggered) == [trigger(kind=T)]


def test_alternating_collecting_an_unaligned_barrier_switches() -> None:
    bench = alternating(3)
    bench.barrier(0, kind=T)
    bench.announce(2)
    assert bench.barrier(1, kind=U) == [PrioritizeBarrier(2, 1), StartCapture(1), trigger(kind=U)]
    assert (bench.blocked, bench.capturing) == ({0}, {2})


def test_alternating_collecting_the_last_barrier_being_unaligned_switches_and_completes() -> None:
    bench = alternating()
    bench.barrier(0, kind=T)
    assert bench.barrier(1, kind=U) == [
        StartCapture(1),
        trigger(kind=U),
        ResumeChannel(0),
        CancelAlignmentTimer(1),
        finish(),
    ]


def test_alternating_collecting_the_last_end_triggers_aligned() -> None:
    bench = alternating()
    bench.barrier(0, kind=T)
    bench.now_ms = 5 * TIMEOUT_MS
    assert bench.end(1) == [
        trigger(kind=T),
        ResumeChannel(0),
        CancelAlignmentTimer(1),
        finish(duration_ms=bench.now_ms),
    ]


def test_alternating_collecting_a_late_end_switches() -> None:
    bench = alternating(3)
    bench.barrier(0, kind=T)
    bench.now_ms = TIMEOUT_MS
    assert bench.end(1) == []
    bench = alternating(3)
    bench.barrier(0, kind=T)
    bench.announce(2)
    bench.now_ms = TIMEOUT_MS + 1
    assert bench.end(1) == [PrioritizeBarrier(2, 1), StartCapture(1), trigger_switched()]
    assert bench.blocked == {0}
    assert bench.handler.is_capturing(2)


def test_alternating_collecting_the_timer_prioritises_captures_and_triggers() -> None:
    bench = alternating(4)
    bench.barrier(1, kind=T)
    bench.announce(3)
    bench.announce(0)
    bench.now_ms = TIMEOUT_MS
    assert bench.timer() == [PrioritizeBarrier(0, 1), PrioritizeBarrier(3, 1), StartCapture(1), trigger_switched()]
    assert (bench.blocked, bench.capturing, bench.pending) == ({1}, {0, 2, 3}, (1,))


def test_alternating_collecting_an_announcement_that_was_read_is_not_prioritised() -> None:
    bench = alternating(3)
    bench.announce(0)
    bench.barrier(0, kind=T)
    assert of_type(bench.timer(), PrioritizeBarrier) == []


def test_alternating_collecting_an_announcement_of_an_ended_channel_is_not_prioritised() -> None:
    bench = alternating(3)
    bench.announce(0)
    bench.end(0)
    bench.announce(2)
    assert of_type(bench.timer(), PrioritizeBarrier) == [PrioritizeBarrier(2, 1)]


def test_alternating_collecting_an_abort_unblocks_and_cancels_the_timer() -> None:
    bench = alternating()
    bench.barrier(0, kind=T)
    assert bench.cancel(1) == [CancelAlignmentTimer(1), ResumeChannel(0), HandlerAborted(1, CANCELLED)]
    assert bench.timer() == []


# --- unaligned, waiting for the first barrier ------------------------------------------------------------------------


def test_unaligned_waiting_a_barrier_starts_the_capture_and_triggers_at_once() -> None:
    bench = alternating(3)
    assert bench.barrier(1, kind=U) == [StartCapture(1), trigger(kind=U)]
    assert (bench.blocked, bench.capturing, bench.pending) == (set(), {0, 2}, (1,))


@pytest.mark.parametrize("kind", [A, FORCED])
def test_unaligned_waiting_an_aligned_copy_is_booked_as_blocked(kind: BarrierKind) -> None:
    bench = overdue()
    assert bench.barrier(0, kind=kind) == [BlockChannel(0), StartCapture(1), trigger(kind=U)]
    assert bench.blocked == {0}


def test_unaligned_waiting_the_only_barrier_stops_the_capture_too() -> None:
    bench = overdue(1)
    effects = bench.barrier(0, kind=A)
    assert effects == [BlockChannel(0), StartCapture(1), trigger(kind=U), ResumeChannel(0), finish()]
    assert (bench.blocked, bench.capturing, bench.pending) == (set(), set(), ())


def test_unaligned_waiting_an_end_is_only_noted() -> None:
    bench = overdue(3)
    assert bench.end(1) == []
    assert bench.announce(2) == [PrioritizeBarrier(2, 1)]
    effects = bench.barrier(0, kind=T)
    assert of_type(effects, StartCapture, CheckpointTriggered) == [StartCapture(1), trigger_switched()]


def test_unaligned_waiting_a_timer_is_ignored() -> None:
    bench = overdue()
    assert bench.timer() == []
    assert bench.pending == (1,)


def test_unaligned_waiting_an_abort_leaves_it_waiting() -> None:
    bench = alternating()
    assert bench.cancel(0, 1) == [HandlerAborted(1, CANCELLED)]
    assert bench.barrier(1, kind=U) == []
    assert bench.barrier(1, 2, U) == [StartCapture(2), trigger(2, U)]


def test_unaligned_waiting_after_a_switch_an_abort_goes_back_to_aligned() -> None:
    bench = overdue()
    assert bench.cancel(1, 2) == [HandlerAborted(2, CANCELLED)]
    assert bench.barrier(0, 3) == [BlockChannel(0)]


# --- unaligned, collecting -------------------------------------------------------------------------------------------


def test_unaligned_collecting_a_barrier_ends_the_capture_of_its_channel() -> None:
    bench = alternating(3)
    bench.barrier(0, kind=U)
    assert bench.barrier(1, kind=U) == []
    assert bench.capturing == {2}


def test_unaligned_collecting_an_aligned_copy_is_booked_as_blocked_until_the_last_barrier() -> None:
    bench = alternating(3)
    bench.barrier(0, kind=U)
    assert bench.barrier(1, kind=A) == [BlockChannel(1)]
    assert bench.barrier(2, kind=U) == [ResumeChannel(1), finish()]
    assert bench.blocked == set()


def test_unaligned_collecting_the_last_barrier_stops_the_capture() -> None:
    bench = alternating()
    bench.barrier(0, kind=U)
    assert bench.barrier(1, kind=U) == [finish()]
    assert (bench.capturing, bench.pending) == (set(), ())


def test_unaligned_collecting_the_last_end_stops_the_capture() -> None:
    bench = alternating(3)
    bench.barrier(0, kind=U)
    assert bench.end(2) == []
    assert bench.end(1) == [finish()]
    assert bench.pending == ()


def test_unaligned_collecting_a_timer_is_ignored() -> None:
    bench = alternating(3)
    bench.barrier(0, kind=T)
    bench.barrier(1, kind=U)
    assert bench.timer() == []
    assert bench.timer() == []
    assert bench.pending == (1,)


def test_unaligned_collecting_an_abort_stops_the_capture_and_unblocks() -> None:
    bench = alternating(3)
    bench.barrier(0, kind=U)
    bench.barrier(1, kind=A)
    assert bench.cancel(2) == [ResumeChannel(1), HandlerAborted(1, CANCELLED)]
    assert (bench.blocked, bench.capturing, bench.pending) == (set(), set(), ())


def test_unaligned_collecting_a_newer_cancel_marker_stops_the_capture_of_the_older_checkpoint() -> None:
    bench = alternating(3)
    bench.barrier(0, kind=U)
    assert bench.cancel(2, 3) == [HandlerAborted(3, CANCELLED)]
    assert (bench.capturing, bench.pending) == (set(), ())


def test_unaligned_an_announcement_is_prioritised_at_once() -> None:
    bench = overdue(3)
    assert bench.announce(1) == [PrioritizeBarrier(1, 1)]
    bench.barrier(0, kind=U)
    assert bench.announce(2) == [PrioritizeBarrier(2, 1)]


def test_unaligned_after_a_switch_an_announcement_is_prioritised_at_once() -> None:
    bench = alternating()
    bench.barrier(0, kind=T)
    bench.timer()
    assert bench.announce(1) == [PrioritizeBarrier(1, 1)]


@pytest.mark.parametrize("how", ["last barrier", "abort"])
def test_after_a_switched_checkpoint_the_next_one_starts_aligned(how: str) -> None:
    bench = alternating()
    bench.barrier(0, kind=T)
    bench.timer()
    if how == "abort":
        bench.cancel(1)
    else:
        assert bench.barrier(1, kind=T) == [BlockChannel(1), *resume(0, 1), finish()]
    assert bench.barrier(0, 2) == [BlockChannel(0)]
    assert bench.barrier(1, 2)[1] == trigger(2)


# --- rules for every state -------------------------------------------------------------------------------------------


MODES = [HandlerMode.ALIGNED, HandlerMode.ALTERNATING]


@pytest.mark.parametrize("mode", MODES)
def test_an_old_barrier_is_dropped_and_its_channel_resumed(mode: HandlerMode) -> None:
    bench = Bench(mode)
    bench.cancel(0, 5)
    for old_id in (4, 5):
        assert bench.barrier(1, old_id, A) == [ResumeChannel(1)]
        assert bench.barrier(1, old_id, T) == [ResumeChannel(1)]
        assert bench.barrier(1, old_id, FORCED) == [ResumeChannel(1)]
        if mode is not HandlerMode.ALIGNED:
            assert bench.barrier(1, old_id, U) == []
    assert (bench.blocked, bench.pending) == (set(), ())


def test_an_old_barrier_is_dropped_while_a_newer_checkpoint_is_pending() -> None:
    bench = aligned(3)
    bench.barrier(0, 2)
    assert bench.barrier(1, 1) == [ResumeChannel(1)]
    assert (bench.blocked, bench.pending) == ({0}, (2,))


@pytest.mark.parametrize("mode", MODES)
def test_an_old_announcement_is_dropped(mode: HandlerMode) -> None:
    bench = Bench(mode)
    bench.cancel(0, 5)
    assert bench.announce(1, 4) == []
    assert bench.announce(1, 5) == []
    assert bench.pending == ()


def test_a_newer_barrier_subsumes_what_is_pending() -> None:
    bench = aligned(3)
    bench.barrier(0, 1)
    assert bench.barrier(2, 2) == [ResumeChannel(0), HandlerAborted(1, SUBSUMED), BlockChannel(2)]
    assert (bench.blocked, bench.pending) == ({2}, (2,))


def test_a_newer_unaligned_barrier_subsumes_what_is_captured() -> None:
    bench = alternating(3)
    bench.barrier(0, 1, U)
    assert bench.barrier(2, 2, U) == [HandlerAborted(1, SUBSUMED), StartCapture(2), trigger(2, U)]
    assert bench.capturing == {0, 1}


def test_a_newer_announcement_subsumes_what_is_pending() -> None:
    bench = alternating(3)
    bench.barrier(0, 1, T)
    assert bench.announce(2, 2) == [
        CancelAlignmentTimer(1),
        ResumeChannel(0),
        HandlerAborted(1, SUBSUMED),
        SetAlignmentTimer(2, TIMEOUT_MS),
    ]
    assert (bench.blocked, bench.pending) == (set(), (2,))


def test_announcements_of_a_subsumed_checkpoint_are_forgotten() -> None:
    bench = alternating(3)
    bench.announce(0, 1)
    bench.barrier(1, 2, T)
    assert of_type(bench.timer(2), PrioritizeBarrier) == []


def test_the_target_is_what_is_open_when_a_checkpoint_begins() -> None:
    bench = aligned(3)
    bench.end(1)
    bench.barrier(0)
    assert trigger() in bench.barrier(2)
    assert bench.pending == ()


def test_an_announcement_does_not_align_its_channel() -> None:
    bench = alternating()
    bench.announce(0)
    bench.barrier(1, kind=T)
    assert bench.pending == (1,)
    assert trigger(kind=T) in bench.barrier(0, kind=T)


def test_an_announcement_sets_the_timer_once() -> None:
    bench = alternating(3)
    assert bench.announce(0) == [SetAlignmentTimer(1, TIMEOUT_MS)]
    assert bench.announce(1) == []
    assert bench.barrier(0, kind=T) == [BlockChannel(0)]


@pytest.mark.parametrize("marked_id", [1, 2])
def test_a_cancel_marker_of_what_is_done_is_ignored(marked_id: int) -> None:
    bench = aligned(2)
    bench.barrier(0, 2)
    bench.barrier(1, 2)
    assert bench.cancel(0, marked_id) == []


def test_a_cancel_marker_older_than_what_is_pending_is_ignored() -> None:
    bench = aligned(2)
    bench.barrier(0, 2)
    assert bench.cancel(1, 1) == []
    assert (bench.blocked, bench.pending) == ({0}, (2,))


def test_a_newer_cancel_marker_silently_supersedes_what_is_pending() -> None:
    bench = aligned(2)
    bench.barrier(0, 1)
    assert bench.cancel(1, 3) == [ResumeChannel(0), HandlerAborted(3, CANCELLED)]
    assert bench.cancel(0, 2) == []
    assert bench.cancel(0, 3) == []
    assert bench.barrier(0, 3) == [ResumeChannel(0)]
    assert bench.pending == ()


def test_a_cancel_marker_for_what_was_only_announced_is_ignored() -> None:
    bench = alternating()
    bench.announce(0)
    assert bench.cancel(1) == []
    assert bench.pending == (1,)
    bench.end(1)
    assert bench.cancel(0) == [CancelAlignmentTimer(1), HandlerAborted(1, CANCELLED)]


@pytest.mark.parametrize("mode", MODES)
def test_when_tasks_may_not_finish_an_end_aborts_what_is_pending(mode: HandlerMode) -> None:
    bench = Bench(mode, 3, finish=False)
    bench.barrier(0)
    assert bench.end(1)[-2:] == [ResumeChannel(0), HandlerAborted(1, END_OF_STREAM)]
    assert (bench.blocked, bench.capturing, bench.pending) == (set(), set(), ())
    assert bench.end(2) == []


def test_when_tasks_may_not_finish_an_end_aborts_what_was_only_announced() -> None:
    bench = alternating(finish=False)
    bench.announce(0)
    assert bench.end(1) == [CancelAlignmentTimer(1), HandlerAborted(1, END_OF_STREAM)]


def test_the_end_of_a_channel_that_has_delivered_counts_once_and_unblocks_it() -> None:
    bench = aligned(3)
    bench.barrier(0)
    assert bench.end(0) == [ResumeChannel(0)]
    assert (bench.blocked, bench.pending) == (set(), (1,))
    bench.barrier(1)
    assert trigger() in bench.barrier(2)


def test_a_checkpoint_that_was_only_announced_ends_with_its_channels() -> None:
    bench = alternating(1)
    bench.barrier(0, 1)
    bench.announce(0, 2)
    assert bench.end(0) == [CancelAlignmentTimer(2)]
    assert bench.pending == ()


def test_ids_count_from_nought() -> None:
    bench = aligned()
    bench.barrier(0, 0)
    assert bench.pending == (0,)
    assert trigger(0) in bench.barrier(1, 0)


@pytest.mark.parametrize("mode", MODES)
def test_open_channels_are_those_that_have_not_ended(mode: HandlerMode) -> None:
    bench = Bench(mode, 3)
    assert list(bench.handler.open_channels) == [0, 1, 2]
    bench.end(1)
    assert list(bench.handler.open_channels) == [0, 2]


# --- barriers that the coordinator injects ---------------------------------------------------------------------------


def inject(bench: Bench, channel: int, checkpoint_id: int = 1, kind: BarrierKind = A) -> list[BarrierEffect]:
    return bench.feed(BarrierReceived(channel, barrier(checkpoint_id, kind), injected=True))


@pytest.mark.parametrize("bench", [aligned(), alternating()])
def test_an_injected_barrier_counts_but_blocks_nothing(bench: Bench) -> None:
    assert inject(bench, 0) == []
    assert (bench.blocked, bench.pending) == (set(), (1,))
    assert inject(bench, 1) == [trigger(), finish()]


def test_an_injected_aligned_copy_blocks_nothing_in_the_unaligned_states() -> None:
    bench = overdue()
    assert inject(bench, 0) == [StartCapture(1), trigger(kind=U)]
    assert inject(bench, 1) == [finish()]


def test_an_injected_barrier_that_is_old_resumes_nothing() -> None:
    bench = aligned()
    bench.cancel(0, 1)
    assert inject(bench, 0) == []


# --- timers ----------------------------------------------------------------------------------------------------------


def test_the_timer_of_another_checkpoint_is_ignored() -> None:
    bench = alternating()
    bench.barrier(0, 2, T)
    assert bench.timer(1) == []
    assert bench.timer(3) == []
    assert bench.capturing == set()


def test_a_timer_that_fires_after_the_end_is_ignored() -> None:
    bench = alternating()
    bench.barrier(0, kind=T)
    bench.barrier(1, kind=T)
    assert bench.timer() == []
    assert bench.pending == ()


def test_a_timer_fires_once() -> None:
    bench = alternating(3)
    bench.barrier(0, kind=T)
    assert of_type(bench.timer(), CheckpointTriggered) == [trigger_switched()]
    assert bench.timer() == []


def test_a_newer_checkpoint_replaces_the_timer() -> None:
    bench = alternating()
    bench.barrier(0, 1, T)
    effects = of_type(bench.barrier(1, 2, T), SetAlignmentTimer, CancelAlignmentTimer)
    assert effects == [CancelAlignmentTimer(1), SetAlignmentTimer(2, TIMEOUT_MS)]


def test_only_alternating_handlers_set_timers() -> None:
    bench = aligned()
    assert of_type([*bench.announce(0), *bench.barrier(0, kind=T)], SetAlignmentTimer) == []


# --- barriers that were forced to align ------------------------------------------------------------------------------


def test_a_forced_barrier_aligns_however_long_it_takes_and_keeps_its_kind_and_timeout() -> None:
    bench = alternating()
    forced = barrier(1, T).for_aligned_only_edge()
    assert forced.kind is FORCED
    assert bench.feed(BarrierReceived(0, forced)) == [BlockChannel(0)]
    bench.now_ms = 5 * TIMEOUT_MS
    assert bench.timer() == []
    assert bench.feed(BarrierReceived(1, forced))[1] == CheckpointTriggered(forced, 0)
    assert forced.behind_aligned_only_edge() == barrier(1, T)


# --- a newer barrier is already in a channel -------------------------------------------------------------------------


def test_a_checkpoint_that_can_no_longer_be_captured_is_subsumed_at_its_first_barrier() -> None:
    bench = alternating()
    bench.handler.barrier_arrived(1, 1)
    bench.handler.barrier_arrived(1, 2)
    assert bench.barrier(0, 1, U) == [HandlerAborted(1, SUBSUMED)]
    assert (bench.blocked, bench.capturing, bench.pending) == (set(), set(), ())
    assert bench.barrier(0, 2, U) == [StartCapture(2), trigger(2, U)]
    assert bench.capturing == set()
    assert bench.barrier(1, 2, U) == [finish(2)]


def test_a_checkpoint_that_can_no_longer_be_captured_is_subsumed_when_it_switches_by_timer() -> None:
    bench = alternating(2)
    bench.barrier(0, 1)
    bench.barrier(1, 1)
    bench.barrier(0, 2, T)
    bench.handler.barrier_arrived(1, 3)
    assert bench.timer(2) == [ResumeChannel(0), HandlerAborted(2, SUBSUMED)]
    assert (bench.blocked, bench.pending) == (set(), ())


def test_a_checkpoint_that_can_no_longer_be_captured_is_subsumed_when_it_switches_at_a_late_barrier() -> None:
    bench = alternating(3)
    bench.barrier(0, 1, T)
    bench.handler.barrier_arrived(2, 2)
    bench.now_ms = TIMEOUT_MS + 1
    assert bench.barrier(1, 1, T) == [
        BlockChannel(1),
        CancelAlignmentTimer(1),
        *resume(0, 1),
        HandlerAborted(1, SUBSUMED),
    ]
    assert (bench.blocked, bench.pending) == (set(), ())


def test_a_checkpoint_that_can_no_longer_be_captured_is_subsumed_when_it_switches_at_a_late_end() -> None:
    bench = alternating(3)
    bench.barrier(0, 1, T)
    bench.handler.barrier_arrived(2, 2)
    bench.now_ms = TIMEOUT_MS + 1
    assert bench.end(1) == [CancelAlignmentTimer(1), ResumeChannel(0), HandlerAborted(1, SUBSUMED)]
    assert bench.pending == ()


def test_an_aligned_checkpoint_does_not_mind_newer_barriers_behind_its_own() -> None:
    bench = aligned()
    bench.handler.barrier_arrived(1, 1)
    bench.handler.barrier_arrived(1, 2)
    bench.barrier(0)
    assert trigger() in bench.barrier(1)


def test_a_barrier_that_is_in_the_queue_ends_the_capture_before_it_is_read() -> None:
    bench = alternating(3)
    bench.barrier(0, kind=U)
    bench.handler.barrier_arrived(1, 1)
    assert bench.capturing == {2}
    assert bench.pending == (1,)


# --- metrics ---------------------------------------------------------------------------------------------------------


def metrics_of(effects: Sequence[BarrierEffect]) -> AlignmentMetrics:
    (effect,) = of_type(effects, FinishAlignment)
    assert isinstance(effect, FinishAlignment)
    return effect.metrics


def test_metrics_of_an_aligned_checkpoint() -> None:
    bench = aligned(3)
    bench.handler.data_processed(1000)
    bench.now_ms = 40
    bench.feed(BarrierReceived(0, barrier(created_ms=10)))
    bench.handler.data_processed(5)
    bench.now_ms = 50
    bench.feed(BarrierReceived(1, barrier(created_ms=10)))
    bench.handler.data_processed(7)
    bench.now_ms = 65
    effects = bench.feed(BarrierReceived(2, barrier(created_ms=10)))
    assert CheckpointTriggered(barrier(created_ms=10), 30) in effects
    assert metrics_of(effects) == AlignmentMetrics(30, 25, 12)


def test_metrics_of_an_unaligned_checkpoint() -> None:
    bench = alternating()
    bench.now_ms = 40
    effects = bench.feed(BarrierReceived(0, barrier(1, U, created_ms=10)))
    assert CheckpointTriggered(barrier(1, U, created_ms=10), 30) in effects
    bench.handler.data_processed(200)
    bench.now_ms = 90
    assert metrics_of(bench.feed(BarrierReceived(1, barrier(1, U, created_ms=10)))) == AlignmentMetrics(30, 50, 200)


def test_metrics_begin_anew_with_each_checkpoint() -> None:
    bench = alternating()
    bench.barrier(0, 1, U)
    bench.handler.data_processed(200)
    bench.cancel(1, 1)
    bench.handler.data_processed(200)
    bench.now_ms = 7
    bench.barrier(0, 2, U)
    bench.now_ms = 9
    assert metrics_of(bench.barrier(1, 2, U)) == AlignmentMetrics(7, 2, 0)


def test_metrics_begin_with_the_first_barrier_not_with_the_announcement() -> None:
    bench = alternating()
    bench.announce(0)
    bench.handler.data_processed(1000)
    bench.now_ms = 20
    bench.barrier(0, kind=T)
    bench.now_ms = 30
    assert metrics_of(bench.barrier(1, kind=T)) == AlignmentMetrics(20, 10, 0)


def test_clocks_that_differ_do_not_make_a_delay_negative() -> None:
    bench = aligned(1)
    effects = bench.feed(BarrierReceived(0, barrier(created_ms=500)))
    assert metrics_of(effects) == AlignmentMetrics(0, 0, 0)


# --- illegal events --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "illegal",
    [
        BarrierReceived(2, barrier(2)),
        BarrierReceived(3, barrier(2)),
        BarrierReceived(-1, barrier(2)),
        BarrierReceived(1, Barrier(2, 0, T, timeout_ms=None)),
        BarrierAnnounced(2, barrier(2, T)),
        BarrierAnnounced(3, barrier(2, T)),
        BarrierAnnounced(1, Barrier(2, 0, T, timeout_ms=None)),
        CancelMarkerReceived(2, 9),
        CancelMarkerReceived(3, 9),
        PartitionEnded(2),
        PartitionEnded(3),
    ],
)
def test_an_illegal_event_raises_and_changes_nothing(mode: HandlerMode, illegal: BarrierEvent) -> None:
    disturbed, calm = Bench(mode, 3), Bench(mode, 3)
    for bench in (disturbed, calm):
        bench.barrier(0)
        bench.end(2)
    with pytest.raises(EngineError):
        disturbed.feed(illegal)
    assert (disturbed.blocked, disturbed.capturing, disturbed.pending) == (calm.blocked, calm.capturing, calm.pending)
    for bench in (disturbed, calm):
        bench.now_ms = 5
    assert disturbed.barrier(1) == calm.barrier(1) != []
    assert disturbed.barrier(0, 2) == calm.barrier(0, 2) != []


@pytest.mark.parametrize("event", [BarrierReceived(1, barrier(1, U)), BarrierAnnounced(1, barrier(1, U))])
def test_an_unaligned_barrier_is_illegal_for_an_aligned_handler(event: BarrierEvent) -> None:
    bench = aligned()
    bench.barrier(0)
    with pytest.raises(EngineError, match="unaligned barrier 1 on channel 1"):
        bench.feed(event)
    assert (bench.blocked, bench.pending) == ({0}, (1,))
    assert trigger() in bench.barrier(1)


@pytest.mark.parametrize("mode", MODES)
def test_a_handler_needs_a_channel(mode: HandlerMode) -> None:
    with pytest.raises(EngineError, match="at least one input channel"):
        Bench(mode, 0)


def test_a_tracker_is_another_handler() -> None:
    with pytest.raises(KeyError):
        Bench(HandlerMode.TRACKER)


def test_the_whole_barrier_is_passed_on() -> None:
    savepoint = Barrier(1, 0, U, snapshot=SnapshotKind.SYNC_SAVEPOINT, drain=True, full=True)
    assert alternating().feed(BarrierReceived(0, savepoint)) == [StartCapture(1), CheckpointTriggered(savepoint, 0)]
