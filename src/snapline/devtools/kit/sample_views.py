"""Jobs to be looked at without running any: views of made-up figures, and a job that shows them and notes requests."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

from snapline.config import Checkpoints, Execution, Monitoring, NoRestart
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
from snapline.protocol.statistics.packed_subtasks import PackedSubtasks
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

STARTED_MS = 1_700_000_000_000
INTERVAL_MS = 1000
VERTICES: Mapping[str, int] = {"clicks": 2, "per-user": 3, "out": 1}

_PACKED_FROM = 10
"""As in a running job, the newest checkpoints are not packed."""


def sample_plan(vertices: Mapping[str, int] = VERTICES) -> PlanView:
    """A chain of these vertices with their parallelism: the first is the source, the last a sink."""
    names = list(vertices)
    made = tuple(
        VertexView(
            name,
            f"{name} <b>",
            parallelism,
            128,
            (
                OperatorView(
                    name,
                    f"{name} <b>",
                    is_source=name == names[0],
                    is_sink=name == names[-1],
                    has_state=True,
                    columns=(("user", "string"),),
                ),
            ),
        )
        for name, parallelism in vertices.items()
    )
    edges = tuple(
        EdgeView(source, target, Partitioning.HASH, ("user",)) for source, target in itertools.pairwise(names)
    )
    return PlanView(made, edges)


def sample_record(
    checkpoint_id: int,
    vertices: Mapping[str, int] = VERTICES,
    *,
    kind: SnapshotKind = SnapshotKind.CHECKPOINT,
    failed: bool = False,
    running: bool = False,
    packed: bool = False,
) -> CheckpointRecord:
    """A checkpoint: subtask n of it took n milliseconds for everything; one in progress lacks its last subtask."""
    trigger_ms = STARTED_MS + checkpoint_id * INTERVAL_MS
    parts = tuple(_part(name, parallelism, trigger_ms, running=running) for name, parallelism in vertices.items())
    totals = Totals(sum(vertices.values()))
    for part in parts:
        for subtask in part.subtasks:
            if subtask.metrics is not None:
                totals = totals.with_ack(subtask.ack_ms, subtask.metrics)
    if packed:
        parts = tuple(replace(part, subtasks=PackedSubtasks(part.subtasks)) for part in parts)
    record = CheckpointRecord(
        checkpoint_id,
        kind,
        SavepointFormat.CANONICAL if kind.is_savepoint else None,
        trigger_ms,
        False,
        totals,
        parts,
    )
    if running:
        return record
    if failed:
        message = "subtask clicks/0 was slow"
        return replace(record, failure=Failure(trigger_ms + 500, FailureReason.CHECKPOINT_EXPIRED, message))
    return replace(record, completion=Completion(trigger_ms + 300, f"/data/clicks/chk-{checkpoint_id}", 1234))


def _part(name: str, parallelism: int, trigger_ms: int, *, running: bool) -> VertexStatistics:
    subtasks: list[SubtaskStatistics] = []
    totals = Totals(parallelism)
    for index in range(parallelism):
        if running and index == parallelism - 1:
            subtasks.append(SubtaskStatistics(index))
            continue
        metrics = SubtaskMetrics(
            checkpointed_bytes=1000 + index,
            state_bytes=2000 + index,
            sync_ms=index,
            async_ms=2 * index,
            alignment_ms=3 * index,
            start_delay_ms=4 * index,
            processed_bytes=10,
            persisted_bytes=20,
        )
        ack_ms = trigger_ms + 100 + index
        subtasks.append(SubtaskStatistics(index, ack_ms, 100 + index, metrics, commit_ms=5 + index))
        totals = totals.with_ack(ack_ms, metrics)
    return VertexStatistics(name, trigger_ms, totals, tuple(subtasks))


def sample_statistics(checkpoints: int = 3, vertices: Mapping[str, int] = VERTICES) -> StatisticsSnapshot:
    """So many checkpoints; the first failed, the second is a savepoint, the newest is in progress."""
    records = [
        sample_record(
            number,
            vertices,
            kind=SnapshotKind.SAVEPOINT if number == 2 else SnapshotKind.CHECKPOINT,
            failed=number == 1,
            running=number == checkpoints,
            packed=number <= checkpoints - _PACKED_FROM,
        )
        for number in range(checkpoints, 0, -1)
    ]
    completed = [record for record in records if record.completion is not None and not record.kind.is_savepoint]
    savepoints = [record for record in records if record.completion is not None and record.kind.is_savepoint]
    failed = [record for record in records if record.failure is not None]
    done = [*completed, *savepoints]
    summary = CompletedSummary(
        *(
            Summary.of(getattr(record if name == "end_to_end_duration_ms" else record.totals, name) for record in done)
            for name in CompletedSummary.__dataclass_fields__
        )
    )
    return StatisticsSnapshot(
        CheckpointCounts(1, checkpoints, min(checkpoints, 1), len(done), len(failed)),
        LatestCheckpoints(
            completed[0] if completed else None,
            savepoints[0] if savepoints else None,
            failed[0] if failed else None,
            RestoredCheckpoint(7, STARTED_MS, True, "/data/savepoints/7", ("old",)),
            Failure(STARTED_MS, FailureReason.IO_EXCEPTION, "disk full"),
        ),
        tuple(records),
        summary,
        {FailureReason.CHECKPOINT_EXPIRED: len(failed)},
    )


def sample_view(
    job_id: str = "clicks",
    *,
    checkpoints: int = 3,
    vertices: Mapping[str, int] = VERTICES,
    status: JobStatus = JobStatus.RUNNING,
    settings: Checkpoints | None = None,
    monitoring: Monitoring | None = None,
    statistics: StatisticsSnapshot | None = None,
) -> JobView:
    """A job that has run for a minute, with everything in it that a view can show."""
    shown = sample_statistics(checkpoints, vertices) if statistics is None else statistics
    now_ms = STARTED_MS + 60_000
    blamed = shown.latest.failed
    explanation = Explanation(
        1, SlowCause.SKEW, "subtask 1 of `clicks` was slow", "add keys", "clicks", 1,
        (PathStep(PathPart.ALIGNMENT, "clicks", 1, 0, 100),),
    )  # fmt: skip
    return JobView(
        job_id=job_id,
        name=f"job {job_id}",
        status=status,
        attempt=2,
        now_ms=now_ms,
        started_ms=STARTED_MS,
        ended_ms=now_ms if status.is_globally_terminal else None,
        status_times={JobStatus.CREATED: STARTED_MS, JobStatus.RUNNING: STARTED_MS + 500},
        plan=sample_plan(vertices),
        subtasks=_subtasks(vertices),
        statistics=shown,
        checkpoints=settings or Checkpoints(interval="1s", storage="/data", history=max(checkpoints, 10)),
        execution=Execution(),
        restart=NoRestart(),
        failures=(AttemptFailure(STARTED_MS + 100, 1, "ValueError: no", "trace", "log", SubtaskId("clicks", 0), 1),),
        failed_attempts=1,
        repeats=1,
        events=((STARTED_MS, "CREATED -> RUNNING"), (STARTED_MS + 1000, "checkpoint 1 failed")),
        memory_bytes={0: 1 << 20, 1: 2 << 20},
        state_memory_bytes={0: 3 << 10},
        explanations={} if blamed is None else {blamed.id: explanation},
        health=Health(
            HealthLevel.WARNING,
            "a checkpoint failed",
            (HealthNote(HealthLevel.WARNING, HealthIssue.CHECKPOINTS_FAIL, "expired", "be patient", "clicks", 0),),
        ),
        url=f"http://127.0.0.1:4300/#/jobs/{job_id}",
        monitoring=monitoring or Monitoring(),
    )


def _subtasks(vertices: Mapping[str, int]) -> tuple[SubtaskView, ...]:
    sink = list(vertices)[-1]
    found: list[SubtaskView] = []
    for name, parallelism in vertices.items():
        for index in range(parallelism):
            subtask = SubtaskId(name, index)
            metrics = TaskMetrics(
                ExecutionId(subtask, 2),
                rows_in=100 + index,
                rows_out=90 + index,
                bytes_in=1000,
                bytes_out=900,
                interval_ms=INTERVAL_MS,
                busy_ms=600 + index,
                idle_ms=300 - index,
                backpressured_ms=100,
                queued_in_bytes=11,
                queued_out_bytes=12,
                watermark_ms=STARTED_MS + index,
                latency_ms=(3, 5),
                late_rows=1,
                bad_rows=2,
                last_bad_row="no number",
                slowest_split=f"split-{index}",
                commits=CommitFigures(waiting=1, waiting_ms=50, retries=2, last_problem="busy")
                if name == sink
                else None,
            )
            found.append(
                SubtaskView(
                    subtask,
                    2,
                    TaskStatus.RUNNING,
                    STARTED_MS + 500,
                    STARTED_MS + 400,
                    f"host-{index}",
                    metrics,
                    rows_in_per_second=10.0,
                    rows_out_per_second=9.0,
                    busy_ms=6000,
                    idle_ms=3000,
                    backpressured_ms=1000,
                    stuck_ms=index,
                )
            )
    return tuple(found)


class ScriptedJob:
    """A `MonitoredJob` that shows views and notes requests.

    A view is shown as it is when it is asked for. Requests wait in `futures`, in their order, to be answered; what was
    asked for is in `requests`. `answers_views` of False leaves everybody waiting.
    """

    can_change = True

    def __init__(self, view: JobView) -> None:
        self.shown: JobView | Exception = view
        self.job_id = view.job_id
        self.name = view.name
        self.answers_views = True
        self.views_asked = 0
        self.requests: list[tuple[Any, ...]] = []
        self.futures: list[Future[Any]] = []

    def view(self) -> Future[JobView]:
        self.views_asked += 1
        future: Future[JobView] = Future()
        if isinstance(self.shown, Exception):
            future.set_exception(self.shown)
        elif self.answers_views:
            future.set_result(self.shown)
        return future

    def checkpoint(self, scope: CheckpointScope) -> Future[str]:
        return self._asked("checkpoint", scope)

    def savepoint(self, directory: str | None, format: SavepointFormat | None) -> Future[str]:
        return self._asked("savepoint", directory, format)

    def stop(self, directory: str | None, format: SavepointFormat | None, *, drain: bool) -> Future[str]:
        return self._asked("stop", directory, format, drain)

    def cancel(self) -> Future[None]:
        return self._asked("cancel")

    def dispose(self, path: str) -> Future[None]:
        return self._asked("dispose", path)

    def _asked(self, *request: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.requests.append(request)
        self.futures.append(future)
        return future


def long_history(checkpoints: int, subtasks: int, vertices: Sequence[str] = ("clicks", "out")) -> StatisticsSnapshot:
    """A history of completed checkpoints, all packed but for the newest, with so many subtasks in all.

    Records share the packed subtasks, since making millions of them would take longer than looking at them.
    """
    parallelism = dict.fromkeys(vertices, max(subtasks // len(vertices), 1))
    packed, plain = (sample_record(1, parallelism, packed=packed) for packed in (True, False))
    records = [
        _moved(plain if number > checkpoints - _PACKED_FROM else packed, number) for number in range(checkpoints, 0, -1)
    ]
    few = sample_statistics(min(checkpoints, 3), parallelism)
    counts = CheckpointCounts(0, checkpoints, 0, checkpoints, 0)
    return replace(few, counts=counts, history=tuple(records), latest=LatestCheckpoints(completed=records[0]))


def _moved(record: CheckpointRecord, checkpoint_id: int) -> CheckpointRecord:
    trigger_ms = STARTED_MS + checkpoint_id * INTERVAL_MS
    totals = replace(record.totals, latest_ack_ms=trigger_ms + 100 + checkpoint_id % 100)
    completion = Completion(trigger_ms + 300, f"/data/clicks/chk-{checkpoint_id}", 1234, discarded=True)
    return replace(record, id=checkpoint_id, trigger_ms=trigger_ms, totals=totals, completion=completion)
