"""Jobs in the shapes under `/snapline`."""

from __future__ import annotations

from collections.abc import Sequence

from snapline.protocol.statistics.job_view import AttemptFailure, JobView, PlanView, SubtaskView, VertexView
from snapline.protocol.statistics.plan_layout import layout
from snapline.types import TaskStatus
from snapline.web.own_checkpoint_types import CheckpointRow
from snapline.web.own_checkpoints import counts_row, failure_row
from snapline.web.own_types import (
    CommitRow,
    EventRow,
    Events,
    FailedAttempt,
    HealthLine,
    HealthNoteRow,
    HealthReport,
    JobNow,
    JobRow,
    OperatorRow,
    Plan,
    PlanEdge,
    PlanVertex,
    SubtaskRow,
    VertexRow,
)
from snapline.web.rest_ids import hex_id

_STATUS_BY_RANK = (
    TaskStatus.FAILED,
    TaskStatus.CANCELED,
    TaskStatus.DEPLOYING,
    TaskStatus.RUNNING,
    TaskStatus.CREATED,
    TaskStatus.FINISHED,
)


def job_row(view: JobView) -> JobRow:
    """A job as it is in lists."""
    return JobRow(
        view.job_id,
        hex_id(view.job_id),
        view.name,
        view.status,
        view.attempt,
        view.started_ms,
        view.ended_ms,
        HealthLine(view.health.level, view.health.line),
        view.url,
    )


def job_now(
    view: JobView, *, can_change: bool, last_completed: CheckpointRow | None, last_failed: CheckpointRow | None
) -> JobNow:
    """A job at one moment."""
    return JobNow(
        job_id=view.job_id,
        jid=hex_id(view.job_id),
        name=view.name,
        status=view.status,
        attempt=view.attempt,
        now_ms=view.now_ms,
        started_ms=view.started_ms,
        ended_ms=view.ended_ms,
        status_times=dict(view.status_times),
        url=view.url,
        is_live=view.is_live,
        can_change=can_change,
        repeats=view.repeats,
        failed_attempts=view.failed_attempts,
        failures=[_failed_attempt(failure) for failure in view.failures],
        health=_health_report(view),
        plan=_plan(view.plan),
        vertices={vertex.id: _vertex_row(subtasks) for vertex, subtasks in by_vertex(view)},
        memory_bytes={str(slot): size for slot, size in view.memory_bytes.items()},
        state_memory_bytes={str(slot): size for slot, size in view.state_memory_bytes.items()},
        state_memory_limit_bytes=view.execution.state_memory_bytes,
        counts=counts_row(view.statistics.counts),
        last_completed=last_completed,
        last_failed=last_failed,
        not_started=failure_row(view.statistics.latest.not_started),
    )


def events(view: JobView, after_ms: int) -> Events:
    """The events after a moment, oldest first."""
    return Events([EventRow(at_ms, text) for at_ms, text in view.events if at_ms > after_ms])


def by_vertex(view: JobView) -> list[tuple[VertexView, list[SubtaskView]]]:
    """Each vertex of the plan with its subtasks."""
    found: dict[str, list[SubtaskView]] = {vertex.id: [] for vertex in view.plan.vertices}
    for subtask in view.subtasks:
        found.setdefault(subtask.id.vertex, []).append(subtask)
    return [(vertex, found[vertex.id]) for vertex in view.plan.vertices]


def vertex_status(subtasks: Sequence[SubtaskView]) -> TaskStatus:
    """The status of a vertex: the worst of its subtasks. It has finished when all of them have."""
    present = {subtask.status for subtask in subtasks}
    if TaskStatus.FINISHED in present and TaskStatus.CREATED in present:
        return TaskStatus.RUNNING
    return next((status for status in _STATUS_BY_RANK if status in present), TaskStatus.CREATED)


def _failed_attempt(failure: AttemptFailure) -> FailedAttempt:
    subtask = None if failure.subtask is None else str(failure.subtask)
    return FailedAttempt(
        failure.at_ms, failure.attempt, failure.cause, failure.trace, failure.log, subtask, failure.repeats
    )


def _health_report(view: JobView) -> HealthReport:
    notes = [
        HealthNoteRow(note.level, note.issue, note.text, note.advice, note.vertex, note.subtask)
        for note in view.health.notes
    ]
    return HealthReport(view.health.level, view.health.line, notes)


def _plan(plan: PlanView) -> Plan:
    cells = layout(plan)
    vertices = [
        PlanVertex(
            vertex.id,
            hex_id(vertex.id),
            vertex.name,
            vertex.parallelism,
            vertex.max_parallelism,
            vertex.is_source,
            vertex.is_sink,
            [
                OperatorRow(
                    operator.uid,
                    operator.name,
                    operator.is_source,
                    operator.is_sink,
                    operator.has_state,
                    operator.key_columns,
                    operator.columns,
                )
                for operator in vertex.operators
            ],
            *cells[vertex.id],
        )
        for vertex in plan.vertices
    ]
    edges = [
        PlanEdge(edge.source, edge.target, edge.partitioning, edge.key_columns, edge.output) for edge in plan.edges
    ]
    return Plan(vertices, edges)


def _vertex_row(subtasks: Sequence[SubtaskView]) -> VertexRow:
    rows = [_subtask_row(subtask) for subtask in subtasks]
    reported = [row for row, subtask in zip(rows, subtasks, strict=True) if subtask.metrics is not None]
    slowest = min((row for row in reported if row.watermark_ms is not None), key=_watermark_ms, default=None)
    return VertexRow(
        status=vertex_status(subtasks),
        rows_in_per_second=sum(row.rows_in_per_second for row in rows),
        rows_out_per_second=sum(row.rows_out_per_second for row in rows),
        rows_in=sum(row.rows_in for row in rows),
        rows_out=sum(row.rows_out for row in rows),
        bytes_in=sum(row.bytes_in for row in rows),
        bytes_out=sum(row.bytes_out for row in rows),
        busy=max((row.busy for row in reported), default=0.0),
        idle=min((row.idle for row in reported), default=0.0),
        backpressured=max((row.backpressured for row in reported), default=0.0),
        watermark_ms=None if slowest is None else slowest.watermark_ms,
        late_rows=sum(row.late_rows for row in rows),
        bad_rows=sum(row.bad_rows for row in rows),
        stuck_ms=max((row.stuck_ms for row in rows), default=0),
        slowest_split="" if slowest is None else slowest.slowest_split,
        waiting_commits=sum(row.waiting_commits for row in rows),
        subtasks=rows,
    )


def _watermark_ms(row: SubtaskRow) -> int:
    return row.watermark_ms or 0


def _subtask_row(subtask: SubtaskView) -> SubtaskRow:
    metrics = subtask.metrics
    if metrics is None:
        return SubtaskRow(
            index=subtask.id.index,
            status=subtask.status,
            attempt=subtask.attempt,
            host=subtask.host,
            since_ms=subtask.since_ms,
            started_ms=subtask.started_ms,
            rows_in_per_second=0.0,
            rows_out_per_second=0.0,
            stuck_ms=0,
        )
    commits, interval_ms = metrics.commits, max(metrics.interval_ms, 1)
    return SubtaskRow(
        index=subtask.id.index,
        status=subtask.status,
        attempt=subtask.attempt,
        host=subtask.host,
        since_ms=subtask.since_ms,
        started_ms=subtask.started_ms,
        rows_in_per_second=round(subtask.rows_in_per_second, 3),
        rows_out_per_second=round(subtask.rows_out_per_second, 3),
        rows_in=metrics.rows_in,
        rows_out=metrics.rows_out,
        bytes_in=metrics.bytes_in,
        bytes_out=metrics.bytes_out,
        busy=share(metrics.busy_ms, interval_ms),
        idle=share(metrics.idle_ms, interval_ms),
        backpressured=share(metrics.backpressured_ms, interval_ms),
        watermark_ms=metrics.watermark_ms,
        late_rows=metrics.late_rows,
        bad_rows=metrics.bad_rows,
        stuck_ms=subtask.stuck_ms,
        slowest_split=metrics.slowest_split,
        waiting_commits=0 if commits is None else commits.waiting,
        queued_in_bytes=metrics.queued_in_bytes,
        queued_out_bytes=metrics.queued_out_bytes,
        latency_ms=max(metrics.latency_ms, default=None),
        last_bad_row=metrics.last_bad_row,
        commit=None
        if commits is None
        else CommitRow(commits.waiting, commits.waiting_ms, commits.retries, commits.last_problem),
    )


def share(part_ms: int, interval_ms: int) -> float:
    """A part of an interval, from 0 to 1."""
    return round(min(max(part_ms / max(interval_ms, 1), 0.0), 1.0), 4)
