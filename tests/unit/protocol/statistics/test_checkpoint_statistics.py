"""Checkpoint statistics: what is counted, kept and summarised."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import FrozenInstanceError

import pytest

from snapline.errors import EngineError
from snapline.protocol.statistics import checkpoint_statistics as module
from snapline.protocol.statistics.checkpoint_records import (
    NO_ACK,
    CheckpointCounts,
    CheckpointRecord,
    CheckpointStatus,
    Completion,
    Failure,
    RestoredCheckpoint,
    StatisticsSnapshot,
    SubtaskMetrics,
    SubtaskStatistics,
    Totals,
)
from snapline.protocol.statistics.checkpoint_statistics import MAX_MESSAGE_CHARACTERS, CheckpointStatistics
from snapline.protocol.statistics.summary import Summary
from snapline.types import NO_CHECKPOINT, FailureReason, SavepointFormat, SnapshotKind

VERTICES = {"source": 2, "sink": 1}


def create(
    statistics: CheckpointStatistics,
    checkpoint_id: int,
    kind: SnapshotKind = SnapshotKind.CHECKPOINT,
    *,
    trigger_ms: int = 1_000,
    subtasks: Mapping[str, int] = VERTICES,
    unaligned: bool = False,
) -> None:
    savepoint_format = SavepointFormat.CANONICAL if kind.is_savepoint else None
    statistics.created(checkpoint_id, kind, savepoint_format, trigger_ms, subtasks, unaligned=unaligned)


def record(statistics: CheckpointStatistics, checkpoint_id: int) -> CheckpointRecord:
    found = statistics.snapshot().find(checkpoint_id)
    assert found is not None
    return found


def complete(statistics: CheckpointStatistics, checkpoint_id: int, *, size: int = 0, duration_ms: int = 0) -> None:
    """Take a checkpoint from creation to completion in one go."""
    create(statistics, checkpoint_id, subtasks={"only": 1})
    metrics = SubtaskMetrics(checkpointed_bytes=size, state_bytes=2 * size)
    assert statistics.acknowledged(checkpoint_id, "only", 0, 1_000 + duration_ms, metrics)
    assert statistics.completed(checkpoint_id, 9_000, f"/chk-{checkpoint_id}")


def ids(snapshot: StatisticsSnapshot) -> list[int]:
    return [entry.id for entry in snapshot.history]


def test_at_first_there_is_nothing() -> None:
    assert CheckpointStatistics().snapshot() == StatisticsSnapshot()


def test_a_new_checkpoint_is_in_progress_without_acknowledgements() -> None:
    statistics = CheckpointStatistics()
    create(statistics, 1)
    snapshot = statistics.snapshot()
    assert snapshot.counts == CheckpointCounts(total=1, in_progress=1)
    (entry,) = snapshot.history
    assert entry.status is CheckpointStatus.IN_PROGRESS
    assert entry.totals == Totals(subtasks=3)
    assert (entry.totals.latest_ack_ms, entry.end_to_end_duration_ms) == (NO_ACK, NO_ACK)
    assert [vertex.vertex for vertex in entry.vertices] == ["source", "sink"]
    source = entry.vertex("source")
    assert source is not None
    assert source.subtasks == (SubtaskStatistics(0), SubtaskStatistics(1))
    assert source.end_to_end_duration_ms == NO_ACK
    assert entry.vertex("other") is None


def test_acknowledgements_add_up_per_vertex_and_over_all() -> None:
    statistics = CheckpointStatistics()
    create(statistics, 1)
    first = SubtaskMetrics(checkpointed_bytes=10, state_bytes=100, processed_bytes=1, persisted_bytes=5, sync_ms=7)
    second = SubtaskMetrics(checkpointed_bytes=20, state_bytes=200, processed_bytes=2, persisted_bytes=6, sync_ms=9)
    assert statistics.acknowledged(1, "source", 1, 1_300, first)
    assert statistics.acknowledged(1, "sink", 0, 1_200, second)

    entry = record(statistics, 1)
    assert entry.totals == Totals(3, 2, 1_300, 30, 300, 3, 11)
    assert entry.end_to_end_duration_ms == 300
    source, sink = entry.vertices
    assert source.totals == Totals(2, 1, 1_300, 10, 100, 1, 5)
    assert source.subtasks == (SubtaskStatistics(0), SubtaskStatistics(1, 1_300, 300, first))
    assert [subtask.is_acknowledged for subtask in source.subtasks] == [False, True]
    assert sink.totals == Totals(1, 1, 1_200, 20, 200, 2, 6)
    assert sink.end_to_end_duration_ms == 200


@pytest.mark.parametrize(
    ("checkpoint_id", "vertex", "index"), [(2, "sink", 0), (1, "other", 0), (1, "sink", 1), (1, "sink", -1)]
)
def test_an_acknowledgement_of_something_unknown_changes_nothing(checkpoint_id: int, vertex: str, index: int) -> None:
    statistics = CheckpointStatistics()
    create(statistics, 1)
    before = statistics.snapshot()
    assert not statistics.acknowledged(checkpoint_id, vertex, index, 1_200, SubtaskMetrics(5))
    assert statistics.snapshot() is before


def test_a_second_acknowledgement_changes_nothing() -> None:
    statistics = CheckpointStatistics()
    create(statistics, 1)
    assert statistics.acknowledged(1, "sink", 0, 1_200, SubtaskMetrics(5))
    before = statistics.snapshot()
    assert not statistics.acknowledged(1, "sink", 0, 1_300, SubtaskMetrics(7))
    assert statistics.snapshot() is before


def test_late_messages_are_ignored() -> None:
    statistics = CheckpointStatistics()
    create(statistics, 1)
    create(statistics, 2)
    statistics.failed(1, 1_500, FailureReason.CHECKPOINT_EXPIRED)
    statistics.completed(2, 1_600, None)
    before = statistics.snapshot()
    for checkpoint_id in (1, 2):
        assert not statistics.acknowledged(checkpoint_id, "sink", 0, 1_700, SubtaskMetrics(5))
        assert not statistics.completed(checkpoint_id, 1_700, "/late")
        assert not statistics.failed(checkpoint_id, 1_700, FailureReason.CHECKPOINT_DECLINED)
    assert statistics.snapshot() is before


def test_a_completed_checkpoint() -> None:
    statistics = CheckpointStatistics()
    create(statistics, 1)
    statistics.acknowledged(1, "sink", 0, 1_200, SubtaskMetrics(5, 50))
    assert statistics.completed(1, 1_250, "/data/chk-1", metadata_bytes=9)
    snapshot = statistics.snapshot()
    assert snapshot.counts == CheckpointCounts(total=1, completed=1)
    (entry,) = snapshot.history
    assert entry.status is CheckpointStatus.COMPLETED
    assert entry.completion == Completion(1_250, "/data/chk-1", 9, discarded=False)
    assert (entry.totals.checkpointed_bytes, entry.totals.state_bytes) == (5, 50)
    assert entry.end_to_end_duration_ms == 200
    assert entry.vertices[1].totals.acknowledged == 1
    assert snapshot.latest.completed is entry
    assert snapshot.latest.savepoint is None
    assert snapshot.latest.failed is None


@pytest.mark.parametrize("kind", [SnapshotKind.SAVEPOINT, SnapshotKind.SYNC_SAVEPOINT])
def test_a_completed_savepoint_of_either_kind_is_the_latest_savepoint(kind: SnapshotKind) -> None:
    statistics = CheckpointStatistics()
    create(statistics, 1, kind)
    statistics.completed(1, 1_250, "/save")
    snapshot = statistics.snapshot()
    assert snapshot.latest.savepoint == snapshot.history[0]
    assert snapshot.latest.completed is None
    assert snapshot.history[0].savepoint_format is SavepointFormat.CANONICAL
    assert snapshot.summary.checkpointed_bytes.count == 1


def test_a_savepoint_overtaken_by_a_newer_one_is_not_the_latest() -> None:
    statistics = CheckpointStatistics()
    create(statistics, 1, SnapshotKind.SAVEPOINT)
    create(statistics, 2, SnapshotKind.SAVEPOINT)
    statistics.completed(2, 2_000, "/2")
    statistics.completed(1, 3_000, "/1")
    latest = statistics.snapshot().latest
    assert latest.savepoint is not None
    assert latest.savepoint.id == 2
    assert latest.completed is None


def test_a_failed_checkpoint_lasts_until_its_failure() -> None:
    statistics = CheckpointStatistics()
    create(statistics, 1)
    statistics.acknowledged(1, "sink", 0, 1_200, SubtaskMetrics(5, 50))
    assert statistics.failed(1, 1_900, FailureReason.CHECKPOINT_EXPIRED, "took too long")
    snapshot = statistics.snapshot()
    assert snapshot.counts == CheckpointCounts(total=1, failed=1)
    (entry,) = snapshot.history
    assert entry.status is CheckpointStatus.FAILED
    assert entry.failure == Failure(1_900, FailureReason.CHECKPOINT_EXPIRED, "took too long")
    assert entry.end_to_end_duration_ms == 900
    assert (entry.totals.latest_ack_ms, entry.totals.acknowledged) == (1_200, 1)
    assert snapshot.latest.failed is entry
    assert snapshot.summary.checkpointed_bytes == Summary()


def test_a_failure_before_creation_is_the_latest_that_failed_but_no_part_of_the_history() -> None:
    statistics = CheckpointStatistics()
    assert statistics.failed(None, 1_900, FailureReason.NOT_ALL_REQUIRED_TASKS_RUNNING, "sink/0 is starting")
    snapshot = statistics.snapshot()
    assert snapshot.counts == CheckpointCounts(total=1, failed=1)
    assert snapshot.history == ()
    failure = Failure(1_900, FailureReason.NOT_ALL_REQUIRED_TASKS_RUNNING, "sink/0 is starting")
    assert snapshot.latest.not_started == failure
    assert snapshot.latest.failed is not None
    assert (snapshot.latest.failed.id, snapshot.latest.failed.failure) == (NO_CHECKPOINT, failure)
    create(statistics, 1)
    statistics.failed(1, 2_000, FailureReason.CHECKPOINT_EXPIRED)
    assert statistics.snapshot().latest.failed == statistics.snapshot().history[0]


def test_what_a_restart_drops_before_its_creation_has_not_failed() -> None:
    statistics = CheckpointStatistics()
    statistics.failed(None, 1_900, FailureReason.CHECKPOINT_COORDINATOR_SUSPEND)
    latest = statistics.snapshot().latest
    assert latest.not_started is not None
    assert latest.failed is None


def test_a_long_failure_message_is_cut() -> None:
    statistics = CheckpointStatistics()
    statistics.failed(None, 0, FailureReason.IO_EXCEPTION, "x" * MAX_MESSAGE_CHARACTERS)
    create(statistics, 1)
    statistics.failed(1, 0, FailureReason.IO_EXCEPTION, "x" * (MAX_MESSAGE_CHARACTERS + 1))
    latest = statistics.snapshot().latest
    assert latest.not_started is not None
    assert latest.not_started.message == "x" * MAX_MESSAGE_CHARACTERS
    assert latest.failed is not None
    assert latest.failed.failure is not None
    assert latest.failed.failure.message == "x" * (MAX_MESSAGE_CHARACTERS - 1) + "…"


def test_a_clock_set_back_gives_a_duration_of_zero() -> None:
    statistics = CheckpointStatistics()
    create(statistics, 1, trigger_ms=5_000)
    statistics.acknowledged(1, "sink", 0, 4_000, SubtaskMetrics())
    assert record(statistics, 1).end_to_end_duration_ms == 0


def test_the_history_keeps_the_newest_first_and_no_more_than_its_size() -> None:
    statistics = CheckpointStatistics(history=3)
    create(statistics, 1)
    create(statistics, 2, SnapshotKind.SAVEPOINT)
    statistics.completed(2, 2_000, "/2")
    create(statistics, 3)
    statistics.failed(3, 2_000, FailureReason.CHECKPOINT_DECLINED)
    assert ids(statistics.snapshot()) == [3, 2, 1]
    complete(statistics, 4)
    create(statistics, 5)
    snapshot = statistics.snapshot()
    assert ids(snapshot) == [5, 4, 3]
    assert snapshot.find(1) is None
    savepoint = snapshot.find(2)
    assert savepoint is not None, "the latest savepoint is kept although it has left the history"
    assert savepoint is snapshot.latest.savepoint


def test_a_checkpoint_that_left_the_history_can_still_complete() -> None:
    statistics = CheckpointStatistics(history=1)
    create(statistics, 1)
    create(statistics, 2)
    assert statistics.acknowledged(1, "sink", 0, 1_200, SubtaskMetrics(5))
    assert statistics.completed(1, 1_300, "/1")
    snapshot = statistics.snapshot()
    assert ids(snapshot) == [2]
    assert snapshot.counts == CheckpointCounts(total=2, in_progress=1, completed=1)
    assert snapshot.latest.completed is not None
    assert snapshot.latest.completed.totals.checkpointed_bytes == 5


def test_no_history_at_all() -> None:
    statistics = CheckpointStatistics(history=0)
    complete(statistics, 1)
    snapshot = statistics.snapshot()
    assert snapshot.history == ()
    assert snapshot.counts.completed == 1
    assert snapshot.latest.completed is not None


def test_discarding_shows_in_the_history_and_in_the_latest() -> None:
    statistics = CheckpointStatistics()
    complete(statistics, 1)
    assert statistics.discarded(1)
    snapshot = statistics.snapshot()
    assert snapshot.history[0].completion == Completion(9_000, "/chk-1", discarded=True)
    assert snapshot.latest.completed == snapshot.history[0]
    assert not statistics.discarded(1)
    assert statistics.snapshot() is snapshot


def test_discarding_a_latest_savepoint_that_left_the_history() -> None:
    statistics = CheckpointStatistics(history=1)
    create(statistics, 1, SnapshotKind.SAVEPOINT)
    statistics.completed(1, 2_000, "/1")
    complete(statistics, 2)
    assert statistics.discarded(1)
    savepoint = statistics.snapshot().latest.savepoint
    assert savepoint is not None
    assert savepoint.completion is not None
    assert savepoint.completion.discarded


def test_only_completed_checkpoints_are_discarded() -> None:
    statistics = CheckpointStatistics()
    create(statistics, 1)
    create(statistics, 2)
    statistics.failed(2, 2_000, FailureReason.CHECKPOINT_EXPIRED)
    for checkpoint_id in (1, 2, 3):
        assert not statistics.discarded(checkpoint_id)


def test_a_restore_is_counted_apart() -> None:
    statistics = CheckpointStatistics()
    statistics.restored(7, 500, is_savepoint=True, external_path="/save")
    statistics.restored(9, 800, is_savepoint=False, external_path=None)
    snapshot = statistics.snapshot()
    assert snapshot.counts == CheckpointCounts(restored=2)
    assert snapshot.latest.restored == RestoredCheckpoint(9, 800, is_savepoint=False, external_path=None)


def test_the_summary_is_over_completed_checkpoints() -> None:
    statistics = CheckpointStatistics()
    for checkpoint_id, size in enumerate((30, 10, 20, 41), start=1):
        complete(statistics, checkpoint_id, size=size, duration_ms=size * 10)
    summary = statistics.snapshot().summary
    assert summary.checkpointed_bytes == Summary(4, 10, 41, 25, p50=25.0, p90=41.0, p95=41.0, p99=41.0, p999=41.0)
    assert (summary.state_bytes.min, summary.state_bytes.max) == (20, 82)
    assert (summary.end_to_end_duration_ms.min, summary.end_to_end_duration_ms.max) == (100, 410)
    assert summary.processed_bytes == Summary(count=4)


def test_the_summary_tells_in_flight_data_apart() -> None:
    statistics = CheckpointStatistics()
    create(statistics, 1)
    statistics.acknowledged(1, "sink", 0, 1_100, SubtaskMetrics(processed_bytes=3, persisted_bytes=4))
    statistics.completed(1, 2_000, None)
    summary = statistics.snapshot().summary
    assert (summary.processed_bytes.max, summary.persisted_bytes.max) == (3, 4)


def test_a_completed_checkpoint_without_acknowledgements_has_no_duration() -> None:
    statistics = CheckpointStatistics()
    create(statistics, 1)
    statistics.completed(1, 2_000, None)
    summary = statistics.snapshot().summary
    assert summary.end_to_end_duration_ms == Summary()
    assert summary.checkpointed_bytes.count == 1


def test_percentiles_are_over_the_latest_only() -> None:
    statistics = CheckpointStatistics(percentile_window=3)
    for checkpoint_id, size in enumerate((1_000, 1, 2, 3, 1), start=1):
        complete(statistics, checkpoint_id, size=size)
    summary = statistics.snapshot().summary.checkpointed_bytes
    assert (summary.count, summary.min, summary.max, summary.avg) == (5, 1, 1_000, 1007 // 5)
    assert (summary.p50, summary.p999) == (2.0, 3.0)


def test_a_snapshot_is_the_same_object_until_something_changes() -> None:
    statistics = CheckpointStatistics()
    create(statistics, 1)
    first = statistics.snapshot()
    assert statistics.snapshot() is first
    statistics.acknowledged(1, "sink", 0, 1_100, SubtaskMetrics())
    second = statistics.snapshot()
    assert second is not first
    assert first.history[0].totals.acknowledged == 0
    assert second.history[0].totals.acknowledged == 1
    assert second.history[0].vertices[0] is first.history[0].vertices[0], "an untouched vertex is not copied"
    with pytest.raises(FrozenInstanceError):
        second.counts = CheckpointCounts()  # type: ignore[misc]


@pytest.mark.parametrize(
    "step",
    [
        lambda statistics: create(statistics, 2),
        lambda statistics: statistics.completed(1, 0, None),
        lambda statistics: statistics.failed(1, 0, FailureReason.IO_EXCEPTION),
        lambda statistics: statistics.failed(None, 0, FailureReason.IO_EXCEPTION),
        lambda statistics: statistics.restored(1, 0, is_savepoint=False, external_path=None),
    ],
)
def test_every_fact_makes_a_new_snapshot(step: object) -> None:
    statistics = CheckpointStatistics()
    create(statistics, 1)
    before = statistics.snapshot()
    assert callable(step)
    step(statistics)
    assert statistics.snapshot() != before


def test_an_id_in_progress_cannot_be_created_again_but_an_ended_one_can() -> None:
    statistics = CheckpointStatistics()
    create(statistics, 1)
    before = statistics.snapshot()
    with pytest.raises(EngineError, match="created twice"):
        create(statistics, 1)
    assert statistics.snapshot() is before
    statistics.failed(1, 2_000, FailureReason.TASK_FAILURE)
    create(statistics, 1, trigger_ms=3_000)
    assert [entry.trigger_ms for entry in statistics.snapshot().history] == [3_000, 1_000]


def test_checkpoints_in_progress_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_IN_PROGRESS", 2)
    statistics = CheckpointStatistics()
    create(statistics, 1)
    create(statistics, 2)
    with pytest.raises(EngineError, match="more than 2"):
        create(statistics, 3)
    statistics.completed(1, 2_000, None)
    create(statistics, 3)


@pytest.mark.parametrize("subtasks", [{"v": 0}, {"v": -1}, {"v": module.MAX_SUBTASKS, "w": 1}])
def test_impossible_numbers_of_subtasks_are_a_defect(subtasks: dict[str, int]) -> None:
    statistics = CheckpointStatistics()
    with pytest.raises(EngineError, match="subtasks"):
        create(statistics, 1, subtasks=subtasks)
    assert statistics.snapshot() == StatisticsSnapshot()


def test_impossible_limits_are_a_defect() -> None:
    with pytest.raises(EngineError):
        CheckpointStatistics(history=-1)
    with pytest.raises(EngineError):
        CheckpointStatistics(percentile_window=0)


def test_a_checkpoint_goes_by_the_wall_clock_of_its_trigger() -> None:
    statistics = CheckpointStatistics()
    statistics.clock(1_000, 501_000)
    statistics.created(1, SnapshotKind.CHECKPOINT, None, 1_000, {"sink": 1}, unaligned=False)
    statistics.clock(1_200, 9_000)
    statistics.acknowledged(1, "sink", 0, 1_200, SubtaskMetrics())
    statistics.completed(1, 1_300, "/1")
    statistics.failed(None, 1_400, FailureReason.IO_EXCEPTION)
    snapshot = statistics.snapshot()
    record = snapshot.latest.completed
    assert record is not None
    assert record.completion is not None
    assert (record.trigger_ms, record.totals.latest_ack_ms, record.completion.completed_ms) == (
        501_000,
        501_200,
        501_300,
    )
    assert (record.end_to_end_duration_ms, record.vertices[0].subtasks[0].end_to_end_duration_ms) == (200, 200)
    assert snapshot.latest.not_started is not None
    assert snapshot.latest.not_started.failure_ms == 9_200


def test_what_a_subtask_measured_of_a_failed_checkpoint_is_kept() -> None:
    statistics = CheckpointStatistics()
    create(statistics, 1)
    assert statistics.acknowledged(1, "source", 0, 1_200, SubtaskMetrics(sync_ms=1))
    measured = SubtaskMetrics(sync_ms=70, async_ms=-1, aborted=True)
    assert statistics.measured(1, "sink", 0, SubtaskMetrics(start_delay_ms=9, aborted=True)), "before it has failed"
    statistics.failed(1, 2_000, FailureReason.CHECKPOINT_EXPIRED)
    before = statistics.snapshot()
    assert statistics.measured(1, "source", 1, measured)
    assert statistics.snapshot() is not before
    source = record(statistics, 1).vertex("source")
    assert source is not None
    assert source.subtasks[1] == SubtaskStatistics(1, metrics=measured)
    assert not source.subtasks[1].is_acknowledged
    assert (source.totals.acknowledged, source.summary().sync_ms.max, source.summary().async_ms.count) == (1, 70, 1)
    assert record(statistics, 1).totals.acknowledged == 1
    sink = record(statistics, 1).vertex("sink")
    assert sink is not None
    assert sink.summary().start_delay_ms.max == 9


def test_measurements_of_what_is_unknown_complete_or_acknowledged_change_nothing() -> None:
    statistics = CheckpointStatistics()
    complete(statistics, 1)
    create(statistics, 2)
    statistics.acknowledged(2, "sink", 0, 1_200, SubtaskMetrics())
    statistics.failed(2, 2_000, FailureReason.CHECKPOINT_EXPIRED)
    before = statistics.snapshot()
    for checkpoint_id, vertex, index in (
        (1, "only", 0),
        (2, "sink", 0),
        (2, "none", 0),
        (2, "source", 2),
        (3, "sink", 0),
    ):
        assert not statistics.measured(checkpoint_id, vertex, index, SubtaskMetrics(aborted=True))
    assert statistics.snapshot() is before


def test_what_was_left_behind_is_with_the_snapshot_an_attempt_started_from() -> None:
    statistics = CheckpointStatistics()
    statistics.restored(7, 1_000, is_savepoint=True, external_path="sp", left_behind=("'gone'",))
    assert statistics.snapshot().latest.restored == RestoredCheckpoint(7, 1_000, True, "sp", ("'gone'",))


def test_it_is_known_when_the_tasks_were_triggered() -> None:
    statistics = CheckpointStatistics()
    statistics.clock(1_000, 51_000)
    create(statistics, 1)
    assert record(statistics, 1).started_ms == NO_ACK
    statistics.clock(1_300, 51_300)
    assert statistics.started(1)
    assert statistics.acknowledged(1, "sink", 0, 1_400, SubtaskMetrics())
    entry = record(statistics, 1)
    assert (entry.trigger_ms, entry.started_ms) == (51_000, 51_300)
    assert not statistics.started(2)


def test_failures_are_counted_by_their_reasons() -> None:
    statistics = CheckpointStatistics()
    assert statistics.snapshot().failures_by_reason == {}
    create(statistics, 1)
    statistics.failed(1, 2_000, FailureReason.CHECKPOINT_EXPIRED)
    for reason in (
        FailureReason.IO_EXCEPTION,
        FailureReason.IO_EXCEPTION,
        FailureReason.CHECKPOINT_COORDINATOR_SUSPEND,
    ):
        statistics.failed(None, 2_000, reason)
    snapshot = statistics.snapshot()
    assert snapshot.failures_by_reason == {
        FailureReason.CHECKPOINT_EXPIRED: 1,
        FailureReason.IO_EXCEPTION: 2,
        FailureReason.CHECKPOINT_COORDINATOR_SUSPEND: 1,
    }
    assert sum(snapshot.failures_by_reason.values()) == snapshot.counts.failed
    statistics.failed(None, 2_000, FailureReason.IO_EXCEPTION)
    assert snapshot.failures_by_reason[FailureReason.IO_EXCEPTION] == 2, "snapshots do not change"
