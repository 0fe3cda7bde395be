"""Checkpoints, tasks and jobs as monitoring sees them, made in a few words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from snapline.config import Checkpoints, Execution, NoRestart
from snapline.protocol.statistics.checkpoint_records import (
    NO_ACK,
    CheckpointRecord,
    Completion,
    Failure,
    StatisticsSnapshot,
    SubtaskMetrics,
    SubtaskStatistics,
    Totals,
    VertexStatistics,
)
from snapline.protocol.statistics.job_view import (
    EdgeView,
    JobView,
    OperatorView,
    PlanView,
    SubtaskView,
    VertexView,
)
from snapline.protocol.statistics.task_metrics import CommitFigures, TaskMetrics
from snapline.types import (
    ExecutionId,
    FailureReason,
    JobStatus,
    Partitioning,
    SnapshotKind,
    SubtaskId,
    TaskStatus,
)

TRIGGER_MS = 1_000_000
NOW_MS = 2_000_000

HASH = Partitioning.HASH
FORWARD = Partitioning.FORWARD


def plan_of(parallelism: Mapping[str, int], *edges: tuple[str, str] | tuple[str, str, Partitioning]) -> PlanView:
    """Vertices in this order; those without an edge to them are sources, those without one from them sinks."""
    views = [EdgeView(edge[0], edge[1], edge[2] if len(edge) == 3 else HASH) for edge in edges]
    targets, origins = {edge.target for edge in views}, {edge.source for edge in views}
    vertices = tuple(
        VertexView(name, name, count, 128, (OperatorView(name, name, name not in targets, name not in origins),))
        for name, count in parallelism.items()
    )
    return PlanView(vertices, tuple(views))


def answer(ack_ms: int, *, commit_ms: int = NO_ACK, **measured: Any) -> SubtaskStatistics:
    """A subtask that answered this long after the trigger; the index is set by `record_of`."""
    return SubtaskStatistics(0, TRIGGER_MS + ack_ms, ack_ms, SubtaskMetrics(**measured), commit_ms)


def silence(**measured: Any) -> SubtaskStatistics:
    """A subtask that has not answered; it may have measured something before it gave up."""
    sizes: dict[str, Any] = {"checkpointed_bytes": -1, "state_bytes": -1}
    given = {**sizes, "sync_ms": -1, "async_ms": -1, "alignment_ms": -1, "aborted": True}
    return SubtaskStatistics(0, metrics=SubtaskMetrics(**{**given, **measured}) if measured else None)


def record_of(
    subtasks: Mapping[str, Sequence[SubtaskStatistics]],
    *,
    id: int = 7,
    completed_ms: int | None = None,
    failed: tuple[int, FailureReason, str] | None = None,
    started_ms: int | None = 0,
    trigger_ms: int = TRIGGER_MS,
    kind: SnapshotKind = SnapshotKind.CHECKPOINT,
    metadata_bytes: int = 0,
) -> CheckpointRecord:
    """A checkpoint; times are from its trigger on."""
    vertices, all_totals = [], Totals(sum(map(len, subtasks.values())))
    for name, parts in subtasks.items():
        totals = Totals(len(parts))
        numbered = tuple(
            replace(part, index=index, ack_ms=part.ack_ms - TRIGGER_MS + trigger_ms if part.is_acknowledged else NO_ACK)
            for index, part in enumerate(parts)
        )
        for part in numbered:
            if part.is_acknowledged and part.metrics is not None:
                totals, all_totals = (item.with_ack(part.ack_ms, part.metrics) for item in (totals, all_totals))
        vertices.append(VertexStatistics(name, trigger_ms, totals, numbered))
    return CheckpointRecord(
        id,
        kind,
        None,
        trigger_ms,
        False,
        all_totals,
        tuple(vertices),
        None if completed_ms is None else Completion(trigger_ms + completed_ms, None, metadata_bytes),
        None if failed is None else Failure(trigger_ms + failed[0], *failed[1:]),
        NO_ACK if started_ms is None else trigger_ms + started_ms,
    )


def task_of(
    vertex: str,
    index: int = 0,
    *,
    busy: float = 0.0,
    held_up: float = 0.0,
    rows: int = 100,
    queued_bytes: int = 0,
    watermark_ms: int | None = None,
    slowest_split: str = "",
    commits: CommitFigures | None = None,
    status: TaskStatus = TaskStatus.RUNNING,
    **fields: Any,
) -> SubtaskView:
    id = SubtaskId(vertex, index)
    metrics = TaskMetrics(
        ExecutionId(id, 1),
        rows,
        rows,
        0,
        0,
        1000,
        round(1000 * busy),
        1000 - round(1000 * busy) - round(1000 * held_up),
        round(1000 * held_up),
        queued_bytes,
        0,
        watermark_ms=watermark_ms,
        slowest_split=slowest_split,
        commits=commits,
    )
    fields = {"rows_since_ms": NOW_MS, "watermark_since_ms": NOW_MS, **fields}
    return SubtaskView(id, 1, status, 0, 0, "host", metrics, recent_busy=busy, recent_backpressured=held_up, **fields)


def tasks_of(*tasks: SubtaskView) -> dict[SubtaskId, SubtaskView]:
    return {task.id: task for task in tasks}


def view_of(plan: PlanView, *tasks: SubtaskView, status: JobStatus = JobStatus.RUNNING, **fields: Any) -> JobView:
    """A job that has run since time 0."""
    given: dict[str, Any] = {
        "job_id": "clicks",
        "name": "clicks",
        "status": status,
        "attempt": 1,
        "now_ms": NOW_MS,
        "started_ms": 0,
        "ended_ms": None,
        "status_times": {JobStatus.RUNNING: 0, status: 0},
        "plan": plan,
        "subtasks": tasks,
        "statistics": StatisticsSnapshot(),
        "checkpoints": Checkpoints(),
        "execution": Execution(),
        "restart": NoRestart(),
    }
    return JobView(**{**given, **fields})
