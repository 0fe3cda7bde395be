"""Checkpoints in the shapes under `/snapline`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, fields
from typing import Any

from snapline.protocol.statistics.checkpoint_records import (
    NO_ACK,
    CheckpointCounts,
    CheckpointRecord,
    CompletedSummary,
    Failure,
    RestoredCheckpoint,
    SubtaskMetrics,
    SubtaskStatistics,
    VertexStatistics,
    VertexSummary,
)
from snapline.protocol.statistics.explanation import Explanation, SlowCause
from snapline.protocol.statistics.packed_subtasks import PackedSubtasks
from snapline.protocol.statistics.summary import Summary
from snapline.web.own_checkpoint_types import (
    CheckpointDetails,
    CheckpointRow,
    CompletedSummaryRow,
    CountsRow,
    ExplanationDetails,
    ExplanationRow,
    FailureRow,
    PartSummary,
    PathStepRow,
    RestoredRow,
    SubtaskPart,
    SummaryRow,
    VertexPart,
)
from snapline.web.rest_ids import hex_id

_UNMEASURED = SubtaskMetrics(
    checkpointed_bytes=NO_ACK,
    state_bytes=NO_ACK,
    sync_ms=NO_ACK,
    async_ms=NO_ACK,
    alignment_ms=NO_ACK,
    start_delay_ms=NO_ACK,
    processed_bytes=NO_ACK,
    persisted_bytes=NO_ACK,
)


def checkpoint_row(record: CheckpointRecord, explanation: Explanation | None) -> CheckpointRow:
    """A checkpoint as it is in lists."""
    explained = None if explanation is None else ExplanationRow(*_said(explanation))
    return CheckpointRow(**_row(record), explanation=explained)


def checkpoint_details(record: CheckpointRecord, explanation: Explanation | None) -> CheckpointDetails:
    """A checkpoint with its critical path, its vertices and their subtasks."""
    explained = None
    if explanation is not None:
        path = [
            PathStepRow(step.part, step.vertex, step.subtask, step.from_ms, step.to_ms) for step in explanation.path
        ]
        explained = ExplanationDetails(*_said(explanation), path=path)
    vertices = [_vertex_part(vertex) for vertex in record.vertices]
    return CheckpointDetails(**_row(record), explanation=explained, vertices=vertices)


def counts_row(counts: CheckpointCounts) -> CountsRow:
    return CountsRow(counts.restored, counts.total, counts.in_progress, counts.completed, counts.failed)


def failure_row(failure: Failure | None) -> FailureRow | None:
    return None if failure is None else FailureRow(failure.failure_ms, failure.reason, failure.message)


def restored_row(restored: RestoredCheckpoint | None) -> RestoredRow | None:
    return None if restored is None else RestoredRow(*(getattr(restored, item.name) for item in fields(restored)))


def completed_summary_row(summary: CompletedSummary) -> CompletedSummaryRow:
    return CompletedSummaryRow(*(_summary_row(getattr(summary, item.name)) for item in fields(CompletedSummary)))


def latest_commit_ms(record: CheckpointRecord) -> int:
    """When the last subtask had committed, in milliseconds after the completion; -1 without any commit."""
    return max((_latest_commit_ms(vertex.subtasks) for vertex in record.vertices), default=NO_ACK)


def _latest_commit_ms(subtasks: Sequence[SubtaskStatistics]) -> int:
    if isinstance(subtasks, PackedSubtasks):
        return subtasks.max_commit_ms
    return max((subtask.commit_ms for subtask in subtasks), default=NO_ACK)


def _row(record: CheckpointRecord) -> dict[str, Any]:
    totals, completion = record.totals, record.completion
    return {
        "id": record.id,
        "kind": record.kind,
        "type": record.type,
        "status": record.status,
        "savepoint_format": record.savepoint_format,
        "trigger_ms": record.trigger_ms,
        "latest_ack_ms": totals.latest_ack_ms,
        "completed_ms": NO_ACK if completion is None else completion.completed_ms,
        "end_to_end_duration_ms": record.end_to_end_duration_ms,
        "checkpointed_bytes": totals.checkpointed_bytes,
        "state_bytes": totals.state_bytes,
        "processed_bytes": totals.processed_bytes,
        "persisted_bytes": totals.persisted_bytes,
        "subtasks": totals.subtasks,
        "acknowledged": totals.acknowledged,
        "external_path": None if completion is None else completion.external_path,
        "discarded": completion is not None and completion.discarded,
        "failure": failure_row(record.failure),
        "commit_ms": latest_commit_ms(record),
    }


def _said(explanation: Explanation) -> tuple[SlowCause, str, str, str, int | None]:
    return (
        explanation.cause,
        explanation.sentence,
        explanation.advice,
        explanation.vertex,
        explanation.subtask,
    )


def _vertex_part(vertex: VertexStatistics) -> VertexPart:
    vertex, totals = vertex.unpacked(), vertex.totals
    return VertexPart(
        id=vertex.vertex,
        hex=hex_id(vertex.vertex),
        trigger_ms=vertex.trigger_ms,
        latest_ack_ms=totals.latest_ack_ms,
        end_to_end_duration_ms=vertex.end_to_end_duration_ms,
        checkpointed_bytes=totals.checkpointed_bytes,
        state_bytes=totals.state_bytes,
        processed_bytes=totals.processed_bytes,
        persisted_bytes=totals.persisted_bytes,
        any_unaligned=totals.any_unaligned,
        parallelism=totals.subtasks,
        acknowledged=totals.acknowledged,
        summary=_part_summary(vertex.summary()),
        subtasks=[_subtask_part(subtask) for subtask in vertex.subtasks],
    )


def _subtask_part(subtask: SubtaskStatistics) -> SubtaskPart:
    metrics = _UNMEASURED if subtask.metrics is None else subtask.metrics
    return SubtaskPart(
        subtask.index,
        subtask.is_acknowledged,
        subtask.ack_ms,
        subtask.end_to_end_duration_ms,
        metrics.start_delay_ms,
        metrics.alignment_ms,
        metrics.sync_ms,
        metrics.async_ms,
        subtask.commit_ms,
        metrics.checkpointed_bytes,
        metrics.state_bytes,
        metrics.processed_bytes,
        metrics.persisted_bytes,
        metrics.unaligned,
        metrics.aborted,
        subtask.metrics is not None,
    )


def _part_summary(summary: VertexSummary) -> PartSummary:
    return PartSummary(*(_summary_row(getattr(summary, item.name)) for item in fields(VertexSummary)))


def _summary_row(summary: Summary) -> SummaryRow:
    return SummaryRow(*astuple(summary))
