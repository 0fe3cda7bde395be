"""Checkpoints in the shapes of Flink's REST interface."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from snapline.config import Checkpoints, StateBackend
from snapline.protocol.statistics.checkpoint_records import (
    NO_ACK,
    CheckpointRecord,
    RestoredCheckpoint,
    StatisticsSnapshot,
    SubtaskStatistics,
    Totals,
    VertexStatistics,
)
from snapline.protocol.statistics.job_view import JobView, VertexView
from snapline.protocol.statistics.summary import EMPTY, Summary
from snapline.types import ExternalizedRetention
from snapline.web.flink_checkpoint_types import (
    Alignment,
    AlignmentStatistics,
    Checkpoint,
    CheckpointConfiguration,
    CompletedCheckpoint,
    CompletedStatistics,
    CompletedSubtask,
    Counts,
    Externalization,
    FailedCheckpoint,
    PendingSubtask,
    Restored,
    Statistics,
    SubtaskSummary,
    SyncAsync,
    SyncAsyncStatistics,
    TaskCheckpoint,
    TaskCheckpointDetails,
)
from snapline.web.rest_ids import hex_id

NEVER = (1 << 63) - 1
"""The interval of a job without periodic checkpoints."""

NO_LIMIT = (1 << 31) - 1

_BACKENDS = {StateBackend.MEMORY: "HashMapStateBackend", StateBackend.ROCKSDB: "EmbeddedRocksDBStateBackend"}


def checkpoint(record: CheckpointRecord, tasks: dict[str, TaskCheckpoint] | None = None) -> Checkpoint:
    """A checkpoint; without `tasks` as it is in lists."""
    fields: dict[str, Any] = {
        "id": record.id,
        "status": record.status.value,
        "is_savepoint": record.kind.is_savepoint,
        "savepoint_format": None if record.savepoint_format is None else record.savepoint_format.value,
        "trigger_timestamp": record.trigger_ms,
        "latest_ack_timestamp": record.totals.latest_ack_ms,
        "checkpointed_size": record.totals.checkpointed_bytes,
        "state_size": record.totals.state_bytes,
        "end_to_end_duration": record.end_to_end_duration_ms,
        "processed_data": record.totals.processed_bytes,
        "persisted_data": record.totals.persisted_bytes,
        "num_subtasks": record.totals.subtasks,
        "num_acknowledged_subtasks": record.totals.acknowledged,
        "checkpoint_type": record.type.value,
        "tasks": tasks or {},
    }
    if record.completion is not None:
        done = record.completion
        return CompletedCheckpoint(**fields, external_path=done.external_path, discarded=done.discarded)
    if record.failure is not None:
        failure = record.failure
        message = f"{failure.reason.value}: {failure.message}" if failure.message else failure.reason.value
        return FailedCheckpoint(**fields, failure_timestamp=failure.failure_ms, failure_message=message)
    return Checkpoint(**fields)


def checkpoint_details(record: CheckpointRecord, vertices: Sequence[VertexView]) -> Checkpoint:
    """A checkpoint with the parts of all `vertices` of the job: the dashboard relies on each of them."""
    known = {part.vertex: part for part in record.vertices}
    parts = {vertex.id: _absent(record, vertex.id) for vertex in vertices} | known
    tasks = {hex_id(part.vertex): TaskCheckpoint(**_task(record, part)) for part in parts.values()}
    return checkpoint(record, tasks)


def vertex_part(record: CheckpointRecord, vertex_id: str) -> TaskCheckpointDetails:
    """The part of one vertex with its subtasks."""
    part = (record.vertex(vertex_id) or _absent(record, vertex_id)).unpacked()
    summary = part.summary()
    return TaskCheckpointDetails(
        **_task(record, part),
        summary=SubtaskSummary(
            statistics(summary.checkpointed_bytes),
            statistics(summary.state_bytes),
            statistics(summary.end_to_end_duration_ms),
            SyncAsyncStatistics(statistics(summary.sync_ms), statistics(summary.async_ms)),
            AlignmentStatistics(
                statistics(EMPTY),
                statistics(summary.processed_bytes),
                statistics(summary.persisted_bytes),
                statistics(summary.alignment_ms),
            ),
            statistics(summary.start_delay_ms),
        ),
        subtasks=[_subtask(subtask) for subtask in part.subtasks],
    )


def counts(snapshot: StatisticsSnapshot) -> Counts:
    counted = snapshot.counts
    return Counts(counted.restored, counted.total, counted.in_progress, counted.completed, counted.failed)


def completed_statistics(snapshot: StatisticsSnapshot) -> CompletedStatistics:
    summary = snapshot.summary
    return CompletedStatistics(
        statistics(summary.checkpointed_bytes),
        statistics(summary.state_bytes),
        statistics(summary.end_to_end_duration_ms),
        statistics(EMPTY),
        statistics(summary.processed_bytes),
        statistics(summary.persisted_bytes),
    )


def restored(found: RestoredCheckpoint | None) -> Restored | None:
    return None if found is None else Restored(found.id, found.restore_ms, found.is_savepoint, found.external_path)


def statistics(summary: Summary) -> Statistics:
    return Statistics(
        summary.min, summary.max, summary.avg, summary.p50, summary.p90, summary.p95, summary.p99, summary.p999
    )


def checkpoint_configuration(view: JobView) -> CheckpointConfiguration:
    settings: Checkpoints = view.checkpoints
    interval_ms, tolerable = settings.effective_interval_ms, settings.tolerable_failures
    kept = settings.externalized
    return CheckpointConfiguration(
        mode=settings.mode.value.lower(),
        interval=NEVER if interval_ms is None else interval_ms,
        timeout=settings.timeout_ms,
        min_pause=settings.min_pause_ms,
        max_concurrent=settings.max_concurrent,
        externalization=Externalization(
            kept is not ExternalizedRetention.NO_EXTERNALIZED,
            kept is not ExternalizedRetention.RETAIN_ON_CANCELLATION,
        ),
        state_backend=_BACKENDS[view.execution.state_backend],
        checkpoint_storage="JobManagerCheckpointStorage" if settings.storage is None else "FileSystemCheckpointStorage",
        unaligned_checkpoints=settings.unaligned,
        tolerable_failed_checkpoints=NO_LIMIT if tolerable is None else tolerable,
        aligned_checkpoint_timeout=settings.aligned_timeout_ms,
        checkpoints_after_tasks_finish=settings.after_tasks_finish,
        state_changelog_enabled=False,
        changelog_periodic_materialization_interval=NO_ACK,
        changelog_storage=None,
    )


def _task(record: CheckpointRecord, part: VertexStatistics) -> dict[str, Any]:
    totals = part.totals
    return {
        "id": record.id,
        "status": record.status.value,
        "latest_ack_timestamp": totals.latest_ack_ms,
        "checkpointed_size": totals.checkpointed_bytes,
        "state_size": totals.state_bytes,
        "end_to_end_duration": part.end_to_end_duration_ms,
        "processed_data": totals.processed_bytes,
        "persisted_data": totals.persisted_bytes,
        "num_subtasks": totals.subtasks,
        "num_acknowledged_subtasks": totals.acknowledged,
    }


def _absent(record: CheckpointRecord, vertex_id: str) -> VertexStatistics:
    """The part of a vertex that was not in the job then, or of a checkpoint that did not start."""
    return VertexStatistics(vertex_id, record.trigger_ms, Totals(0), ())


def _subtask(subtask: SubtaskStatistics) -> PendingSubtask | CompletedSubtask:
    metrics = subtask.metrics
    if metrics is None or not subtask.is_acknowledged:
        return PendingSubtask(subtask.index)
    return CompletedSubtask(
        index=subtask.index,
        ack_timestamp=subtask.ack_ms,
        end_to_end_duration=subtask.end_to_end_duration_ms,
        checkpointed_size=metrics.checkpointed_bytes,
        state_size=metrics.state_bytes,
        checkpoint=SyncAsync(metrics.sync_ms, metrics.async_ms),
        alignment=Alignment(0, metrics.processed_bytes, metrics.persisted_bytes, metrics.alignment_ms),
        start_delay=metrics.start_delay_ms,
        unaligned_checkpoint=metrics.unaligned,
        aborted=metrics.aborted,
    )
