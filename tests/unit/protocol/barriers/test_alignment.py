"""The alignment of one checkpoint: what counts as in, late or stale, and what closing it leaves behind."""

from __future__ import annotations

import pytest

from snapline.protocol.barriers.alignment import Alignment
from snapline.protocol.barriers.barrier_events import (
    AlignmentMetrics,
    BarrierEffect,
    CancelAlignmentTimer,
    CheckpointTriggered,
    FinishAlignment,
    HandlerAborted,
    ResumeChannel,
    SetAlignmentTimer,
    StartCapture,
)
from snapline.types import AbortReason, Barrier, BarrierKind

TIMED = Barrier(5, 100, BarrierKind.ALIGNED_WITH_TIMEOUT, 10)


def opened(now_ms: int = 100, barrier: Barrier = TIMED, channels: int = 2) -> Alignment:
    alignment = Alignment(channels, may_time_out=True)
    alignment.now_ms = now_ms
    alignment.open(barrier, channels)
    return alignment


def effects(alignment: Alignment) -> list[BarrierEffect]:
    taken, alignment.effects = alignment.effects, []
    return taken


def test_a_checkpoint_is_stale_once_it_is_over_or_a_newer_one_is_known() -> None:
    alignment = opened()
    assert [alignment.is_stale(checkpoint_id) for checkpoint_id in (4, 5, 6)] == [True, False, False]
    alignment.abort(6, AbortReason.CANCELLED)
    assert [alignment.is_stale(checkpoint_id) for checkpoint_id in (5, 6, 7)] == [True, True, False]


@pytest.mark.parametrize(("now_ms", "due_ms"), [(100, 110), (104, 110), (150, 150)])
def test_the_timer_counts_from_the_creation_of_the_barrier(now_ms: int, due_ms: int) -> None:
    assert effects(opened(now_ms)) == [SetAlignmentTimer(5, due_ms)]


def test_a_timer_is_taken_once_and_only_for_its_own_checkpoint() -> None:
    alignment = opened()
    assert alignment.take_timer(4) is None
    assert alignment.take_timer(5) is TIMED
    assert alignment.take_timer(5) is None


def test_nothing_is_overdue_when_all_barriers_are_in() -> None:
    alignment = opened(111)
    alignment.align(0, TIMED)
    assert alignment.is_overdue(TIMED)
    alignment.align(1, TIMED)
    assert alignment.all_in
    assert not alignment.is_overdue(TIMED)


def test_the_metrics_span_from_the_first_barrier_to_the_last() -> None:
    alignment = opened(107)
    alignment.align(0, TIMED)
    alignment.processed_bytes += 64
    alignment.now_ms = 109
    alignment.align(1, TIMED)
    alignment.trigger(TIMED)
    alignment.finish()
    assert effects(alignment)[1:] == [
        CheckpointTriggered(TIMED, 7),
        CancelAlignmentTimer(5),
        FinishAlignment(5, AlignmentMetrics(7, 2, 64)),
    ]
    assert alignment.barrier is None


def test_an_abort_stops_the_capture_and_unblocks_in_order() -> None:
    alignment = opened(channels=3)
    assert alignment.trigger_unaligned(TIMED)
    alignment.block(2)
    alignment.block(0)
    assert alignment.capture.is_capturing(1)
    assert StartCapture(5) in effects(alignment)
    alignment.abort(5, AbortReason.SUBSUMED)
    assert not alignment.capture.is_capturing(1)
    assert effects(alignment) == [
        CancelAlignmentTimer(5),
        ResumeChannel(0),
        ResumeChannel(2),
        HandlerAborted(5, AbortReason.SUBSUMED),
    ]


def test_it_is_too_late_to_capture_behind_a_newer_barrier() -> None:
    alignment = opened()
    alignment.capture.barrier_arrived(1, 6)
    assert not alignment.trigger_unaligned(TIMED)
    assert effects(alignment) == [SetAlignmentTimer(5, 110)]
