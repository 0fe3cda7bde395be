"""Jobs as the server sees them, put together by hand: for what no small job shows, such as 1,000 subtasks.

Times are relative to `now_ms`, so that ages on the page are the same on every run.
"""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any

from snapline.config import Checkpoints, Execution, FixedDelay, Monitoring
from snapline.protocol.statistics.checkpoint_records import (
    CheckpointCounts,
    CheckpointRecord,
    CompletedSummary,
    Completion,
    Failure,
    LatestCheckpoints,
    RestoredCheckpoint,
    StatisticsSnapshot,
    SubtaskMetrics,
    SubtaskStatistics,
    Totals,
    VertexStatistics,
)
from snapline.protocol.statistics.explanation import Explanation, PathPart, PathStep, SlowCause
from snapline.protocol.statistics.job_health import Health, HealthIssue, HealthLevel, HealthNote
from snapline.protocol.statistics.job_view import (
    AttemptFailure,
    EdgeView,
    JobView,
    OperatorView,
    PlanView,
    SubtaskView,
    VertexView,
)
from snapline.protocol.statistics.summary import Summary
from snapline.protocol.statistics.task_metrics import CommitFigures, TaskMetrics
from snapline.types import (
    CheckpointScope,
    ExecutionId,
    FailureReason,
    JobStatus,
    Partitioning,
    SavepointFormat,
    SnapshotKind,
    SubtaskId,
    TaskStatus,
)

STORAGE = "s3://lake/checkpoints"
INTERVAL_MS = 10_000
MARKUP = "<img src=x onerror=\"document.title='owned'\">"
"""Text that would run if anything took it for HTML."""


@dataclass
class StagedJob:
    """A `MonitoredJob` that shows the view it is given and notes what it was asked for."""

    staged: JobView
    can_change: bool = True
    asked: list[str] = field(default_factory=list)

    @property
    def job_id(self) -> str:
        return self.staged.job_id

    @property
    def name(self) -> str:
        return self.staged.name

    def view(self) -> Future[JobView]:
        return _done(self.staged)

    def checkpoint(self, scope: CheckpointScope) -> Future[str]:
        self.asked.append(f"checkpoint {scope.value}")
        return _done(f"{STORAGE}/{self.job_id}/chk-99")

    def savepoint(self, directory: str | None, format: SavepointFormat | None) -> Future[str]:
        self.asked.append(f"savepoint {directory} {format}")
        return _done(f"{directory}/savepoint-1")

    def stop(self, directory: str | None, format: SavepointFormat | None, *, drain: bool) -> Future[str]:
        self.asked.append(f"stop {directory} {format} {drain}")
        return _done(f"{directory}/savepoint-2")

    def cancel(self) -> Future[None]:
        self.asked.append("cancel")
        return _done(None)

    def dispose(self, path: str) -> Future[None]:
        self.asked.append(f"dispose {path}")
        return _done(None)


def _done(value: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(value)
    return future


def staged_view(now_ms: int, *, parallelism: int = 4, checkpoints: int = 60) -> JobView:
    """A running job that back-pressure from a sink makes slow, with restarts, failed checkpoints and a savepoint."""
    plan = _plan(parallelism)
    records = _history(plan, now_ms, checkpoints)
    return JobView(
        job_id="orders-1",
        name="orders per customer",
        status=JobStatus.RUNNING,
        attempt=3,
        now_ms=now_ms,
        started_ms=now_ms - 7_983_000,
        ended_ms=None,
        status_times={JobStatus.CREATED: now_ms - 7_983_000, JobStatus.RUNNING: now_ms - 4_290_000},
        plan=plan,
        subtasks=tuple(
            _subtask(vertex, index, now_ms) for vertex in plan.vertices for index in range(vertex.parallelism)
        ),
        statistics=_statistics(records, now_ms),
        checkpoints=Checkpoints(
            interval="10s", storage=STORAGE, savepoint_dir="s3://lake/savepoints", tolerable_failures=3
        ),
        execution=Execution(state_backend="rocksdb", state_memory="2GB"),
        restart=FixedDelay(attempts=10, delay="2s"),
        failures=_failures(now_ms),
        failed_attempts=2,
        repeats=1,
        events=tuple((now_ms - 1000 * (400 - 3 * index), f"{MARKUP} event {index}") for index in range(130)),
        memory_bytes={slot: 412_000_000 + 9_000_000 * slot for slot in range(4)},
        state_memory_bytes={slot: 120_000_000 + 5_000_000 * slot for slot in range(4)},
        explanations={record.id: _explanation(record) for record in records if record.completion is not None},
        health=_health(),
        monitoring=Monitoring(),
    )


def _plan(parallelism: int) -> PlanView:
    orders = OperatorView("orders", "Kafka", is_source=True, columns=(("customer", "int64"), ("amount", "double")))
    customers = OperatorView("customers", "Files", is_source=True, columns=(("customer", "int64"), ("name", "string")))
    total = OperatorView(
        "per-customer",
        "aggregate",
        has_state=True,
        key_columns=("customer",),
        columns=(("customer", "int64"), ("total", "double")),
    )
    totals = OperatorView("totals", "Postgres", is_sink=True, has_state=True)
    late = OperatorView("late", "Files", is_sink=True)
    vertices = (
        VertexView("orders", "Kafka -> filter", parallelism, 128, (orders,)),
        VertexView("customers", "Files", 1, 128, (customers,)),
        VertexView("per-customer", "aggregate", parallelism, 128, (total,)),
        VertexView("totals", "Postgres", parallelism, 128, (totals,)),
        VertexView("late", "Files", 1, 128, (late,)),
    )
    edges = (
        EdgeView("orders", "per-customer", Partitioning.HASH, ("customer",)),
        EdgeView("customers", "per-customer", Partitioning.BROADCAST),
        EdgeView("per-customer", "totals", Partitioning.FORWARD),
        EdgeView("per-customer", "late", Partitioning.REBALANCE, output="late"),
    )
    return PlanView(vertices, edges)


_SHARES = {"orders": (210, 660), "customers": (20, 0), "per-customer": (330, 520), "totals": (940, 0), "late": (10, 0)}
"""Milliseconds of a second that each vertex is busy and back-pressured."""


def _subtask(vertex: VertexView, index: int, now_ms: int) -> SubtaskView:
    id = SubtaskId(vertex.id, index)
    busy_ms, backpressured_ms = _SHARES[vertex.id]
    busy_ms -= 13 * (index % 7)
    rate = {"orders": 0.0, "customers": 0.0, "late": 2.0}.get(vertex.id, 2_490.0 + index)
    metrics = TaskMetrics(
        execution=ExecutionId(id, 3),
        rows_in=0 if vertex.is_source else 10_712_000 + 37 * index,
        rows_out=0 if vertex.is_sink else 10_712_000 + 41 * index,
        bytes_in=0 if vertex.is_source else 612_000_000,
        bytes_out=0 if vertex.is_sink else 598_000_000,
        interval_ms=1000,
        busy_ms=max(busy_ms, 0),
        idle_ms=1000 - max(busy_ms, 0) - backpressured_ms,
        backpressured_ms=backpressured_ms,
        queued_in_bytes=480_000 if vertex.id == "totals" else 12_000,
        queued_out_bytes=500_000 if backpressured_ms else 0,
        watermark_ms=None if vertex.id == "customers" else now_ms - 8_400 - 300 * (index % 5),
        latency_ms=(8_000, 8_600) if vertex.is_sink else (),
        late_rows=37 if vertex.id == "per-customer" and index == 0 else 0,
        bad_rows=2 if vertex.id == "orders" and index == 1 else 0,
        last_bad_row=f"not JSON: {MARKUP}" if vertex.id == "orders" and index == 1 else "",
        slowest_split="orders-3" if vertex.id == "orders" else "",
        commits=CommitFigures(waiting=2, waiting_ms=9_100, retries=1, last_problem="timed out")
        if id == ("totals", 1)
        else None,
    )
    return SubtaskView(
        id,
        3,
        TaskStatus.RUNNING,
        since_ms=now_ms - 4_290_000,
        started_ms=now_ms - 4_294_000,
        host=f"10.0.4.{11 + index % 4}",
        metrics=metrics,
        rows_in_per_second=rate,
        rows_out_per_second=0.0 if vertex.is_sink else 2_500.0 if vertex.id == "orders" else rate,
    )


def _history(plan: PlanView, now_ms: int, count: int) -> list[CheckpointRecord]:
    """Newest first; the newest is in progress."""
    newest_ms = now_ms - 2_600
    return [_record(plan, 340 + count - number, newest_ms - number * INTERVAL_MS, number) for number in range(count)]


def _record(plan: PlanView, id: int, trigger_ms: int, number: int) -> CheckpointRecord:
    savepoint = number == 14
    kind = SnapshotKind.SAVEPOINT if savepoint else SnapshotKind.CHECKPOINT
    slow = 8.0 if number in (3, 4, 5, 6) else 1.0 + 0.4 * (number * 7 % 5)
    has_failed = number in (21, 22)
    vertices = tuple(
        _vertex_part(vertex, trigger_ms, slow, is_running=number == 0, has_failed=has_failed)
        for vertex in plan.vertices
    )
    totals = Totals(sum(vertex.totals.subtasks for vertex in vertices))
    for vertex in vertices:
        for subtask in vertex.subtasks:
            if subtask.is_acknowledged and subtask.metrics is not None:
                totals = totals.with_ack(subtask.ack_ms, subtask.metrics)
    completion, failure = None, None
    if has_failed:
        message = f"totals/2 did not answer within 10 s {MARKUP}"
        failure = Failure(trigger_ms + 10_000, FailureReason.CHECKPOINT_EXPIRED, message)
    elif number:
        where = f"s3://lake/savepoints/savepoint-{id}" if savepoint else f"{STORAGE}/orders-1/chk-{id}"
        completion = Completion(totals.latest_ack_ms + 24, where, 14_000, discarded=number > 3 and not savepoint)
    return CheckpointRecord(
        id,
        kind,
        SavepointFormat.CANONICAL if savepoint else None,
        trigger_ms,
        False,
        totals,
        vertices,
        completion,
        failure,
    )


def _vertex_part(
    vertex: VertexView, trigger_ms: int, slow: float, *, is_running: bool, has_failed: bool
) -> VertexStatistics:
    delays = {"orders": 4, "customers": 3, "per-customer": 130, "totals": 420, "late": 160}
    subtasks = []
    for index in range(vertex.parallelism):
        hung = (has_failed and vertex.id == "totals" and index == 2) or (is_running and vertex.id == "totals")
        metrics = SubtaskMetrics(
            checkpointed_bytes=2_150_000 + 40_000 * index if vertex.id == "per-customer" else 4_200,
            state_bytes=18_800_000 + 310_000 * index if vertex.id == "per-customer" else 4_200,
            sync_ms=6 + index % 3,
            async_ms=90 + 11 * (index % 5) if vertex.id == "per-customer" else 12,
            alignment_ms=int((240 + 37 * (index % 4)) * slow) if vertex.id == "per-customer" else 0,
            start_delay_ms=int(delays[vertex.id] * slow) + 5 * (index % 6),
            processed_bytes=310_000 if vertex.id == "per-customer" else 0,
        )
        took_ms = metrics.start_delay_ms + metrics.alignment_ms + metrics.sync_ms + metrics.async_ms + 3
        subtasks.append(
            SubtaskStatistics(index)
            if hung
            else SubtaskStatistics(
                index,
                trigger_ms + took_ms,
                took_ms,
                metrics,
                35 + 9 * (index % 8) if vertex.is_sink and not is_running else -1,
            )
        )
    totals = Totals(vertex.parallelism)
    for subtask in subtasks:
        if subtask.metrics is not None:
            totals = totals.with_ack(subtask.ack_ms, subtask.metrics)
    return VertexStatistics(vertex.id, trigger_ms, totals, subtasks)


def _explanation(record: CheckpointRecord) -> Explanation:
    took_ms = record.end_to_end_duration_ms
    if took_ms < 3_000:
        return Explanation(record.id, SlowCause.NOTHING, "Nothing held it up.")
    return Explanation(
        record.id,
        SlowCause.BACK_PRESSURE,
        "Subtask 3 of `per-customer` waited 2.8 s for its last barrier: back-pressure from `totals`.",
        "Turn on unaligned checkpoints (unaligned=True, aligned_timeout), or make `totals` faster.",
        "per-customer",
        3,
        (
            PathStep(PathPart.START_DELAY, "per-customer", 3, 0, 1_055),
            PathStep(PathPart.ALIGNMENT, "per-customer", 3, 1_055, took_ms - 140),
            PathStep(PathPart.SYNCHRONOUS, "per-customer", 3, took_ms - 140, took_ms - 130),
            PathStep(PathPart.ASYNCHRONOUS, "per-customer", 3, took_ms - 130, took_ms),
            PathStep(PathPart.COMPLETION, "", None, took_ms, took_ms + 24),
            PathStep(PathPart.COMMIT, "totals", 3, took_ms + 24, took_ms + 86),
        ),
    )


def _statistics(records: list[CheckpointRecord], now_ms: int) -> StatisticsSnapshot:
    completed = [record for record in records if record.completion is not None]
    failed = [record for record in records if record.failure is not None]
    savepoints = [record for record in completed if record.kind is SnapshotKind.SAVEPOINT]
    plain = [record for record in completed if record.kind is SnapshotKind.CHECKPOINT]
    return StatisticsSnapshot(
        CheckpointCounts(1, 339 + len(records), 1, 339 + len(completed), len(failed)),
        LatestCheckpoints(
            next(iter(plain), None),
            next(iter(savepoints), None),
            next(iter(failed), None),
            RestoredCheckpoint(
                records[-1].id + 10, now_ms - 495_000, False, f"{STORAGE}/orders-1/chk-{records[-1].id + 10}"
            ),
            Failure(now_ms - 500_000, FailureReason.NOT_ALL_REQUIRED_TASKS_RUNNING, "totals/0 is DEPLOYING"),
        ),
        tuple(records),
        CompletedSummary(
            Summary.of(record.totals.checkpointed_bytes for record in completed),
            Summary.of(record.totals.state_bytes for record in completed),
            Summary.of(record.end_to_end_duration_ms for record in completed),
            Summary.of(record.totals.processed_bytes for record in completed),
            Summary.of(record.totals.persisted_bytes for record in completed),
        ),
    )


def _failures(now_ms: int) -> tuple[AttemptFailure, ...]:
    cause = (
        f"UserCodeError: per-customer raised ZeroDivisionError: division by zero, for the row {{'name': '{MARKUP}'}}"
    )
    trace = 'Traceback (most recent call last):\n  File "orders.py", line 31, in share\n    return amount / total\n'
    return (
        AttemptFailure(
            now_ms - 4_300_000, 2, cause, trace, "12:00:03 worker 2: out of rows", SubtaskId("per-customer", 1), 1
        ),
        AttemptFailure(
            now_ms - 6_100_000, 1, "PeerError: slot 2 was lost: its process was killed (signal 9)", "", "", None, 1
        ),
    )


def _health() -> Health:
    return Health(
        HealthLevel.WARNING,
        "back-pressure: `totals` is the bottleneck, and checkpoints take long",
        (
            HealthNote(
                HealthLevel.WARNING,
                HealthIssue.BACK_PRESSURE,
                "`totals` is busy 94 % of the time, and everything before it waits.",
                "Raise its parallelism, or write larger batches (`batch_rows`).",
                "totals",
            ),
            HealthNote(
                HealthLevel.WARNING,
                HealthIssue.FAILING_COMMITS,
                "The output of 2 checkpoints waits for its commit in `totals/1`, for 9.1 s.",
                "Look at the database: the last try timed out.",
                "totals",
                1,
            ),
        ),
    )


def ended(view: JobView, status: JobStatus) -> JobView:
    """The same job, some time after its end."""
    ended_ms = view.now_ms - 65_000
    return replace(view, status=status, ended_ms=ended_ms, status_times={**view.status_times, status: ended_ms})
