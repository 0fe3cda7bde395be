"""Barriers change their kind on the way; statuses and reasons know their groups."""

from __future__ import annotations

import pytest

from snapline.types import (
    Barrier,
    BarrierKind,
    ExecutionId,
    FailureReason,
    JobStatus,
    Partitioning,
    SnapshotKind,
    SubtaskId,
)


@pytest.mark.parametrize(
    ("kind", "timeout_ms", "on_the_edge", "behind_it"),
    [
        (BarrierKind.ALIGNED, None, BarrierKind.ALIGNED, BarrierKind.ALIGNED),
        (BarrierKind.UNALIGNED, None, BarrierKind.FORCED_ALIGNED, BarrierKind.UNALIGNED),
        (BarrierKind.ALIGNED_WITH_TIMEOUT, 5, BarrierKind.FORCED_ALIGNED, BarrierKind.ALIGNED_WITH_TIMEOUT),
    ],
)
def test_an_edge_that_only_aligns_forces_a_barrier_and_gives_its_kind_back(
    kind: BarrierKind, timeout_ms: int | None, on_the_edge: BarrierKind, behind_it: BarrierKind
) -> None:
    barrier = Barrier(1, 0, kind, timeout_ms)
    crossing = barrier.for_aligned_only_edge()
    assert crossing.kind is on_the_edge
    assert not crossing.may_capture
    assert crossing.behind_aligned_only_edge() == barrier
    assert crossing.behind_aligned_only_edge().kind is behind_it


def test_a_barrier_times_out_after_its_timeout_and_stays_unaligned() -> None:
    barrier = Barrier(1, 1_000, BarrierKind.ALIGNED_WITH_TIMEOUT, 50)
    assert not barrier.is_timed_out(1_050)
    assert barrier.is_timed_out(1_051)
    unaligned = barrier.as_unaligned()
    assert unaligned.is_unaligned
    assert not unaligned.is_timed_out(9_999)
    assert unaligned.for_aligned_only_edge().behind_aligned_only_edge().is_unaligned
    assert not Barrier(1, 0).is_timed_out(9_999)


def test_kinds_and_reasons_know_their_groups() -> None:
    assert [kind.is_savepoint for kind in SnapshotKind] == [False, True, True]
    assert [kind for kind in SnapshotKind if kind.is_synchronous] == [SnapshotKind.SYNC_SAVEPOINT]
    assert FailureReason.IO_EXCEPTION.is_preflight
    assert FailureReason.IO_EXCEPTION.is_counted
    assert not FailureReason.CHECKPOINT_SUBSUMED.is_counted
    assert not FailureReason.CHECKPOINT_EXPIRED.is_preflight
    assert [status.value for status in JobStatus if status.is_globally_terminal] == ["CANCELED", "FINISHED", "FAILED"]
    assert {kind for kind in Partitioning if not kind.may_be_unaligned} == {
        Partitioning.FORWARD,
        Partitioning.BROADCAST,
    }
    assert [kind for kind in Partitioning if kind.is_pointwise] == [Partitioning.FORWARD]


def test_ids_are_short_in_messages() -> None:
    subtask = SubtaskId("map", 3)
    assert (str(subtask), str(ExecutionId(subtask, 2))) == ("map/3", "map/3#2")


@pytest.mark.parametrize(
    ("now_ms", "due_ms"),
    [(10_000, 10_500), (10_200, 10_500), (10_500, 10_500), (99_000, 99_000), (9_000, 9_500), (0, 500)],
)
def test_alignment_never_waits_longer_than_its_timeout_whatever_the_clocks_say(now_ms: int, due_ms: int) -> None:
    barrier = Barrier(1, 10_000, BarrierKind.ALIGNED_WITH_TIMEOUT, timeout_ms=500)
    assert barrier.times_out_ms(now_ms) == due_ms
