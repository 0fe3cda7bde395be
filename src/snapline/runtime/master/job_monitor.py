"""Collects what outsiders see of a job, on the master's loop, and makes views of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from snapline.graph.job_spec import JobSpec
from snapline.graph.plan_view import plan_view
from snapline.protocol.coordinator.carryover import Carryover
from snapline.protocol.job.first_failure import Failure, FirstFailure
from snapline.protocol.messages import TaskReport
from snapline.protocol.statistics.checkpoint_records import CheckpointRecord, CheckpointStatus, StatisticsSnapshot
from snapline.protocol.statistics.explanation import Explanation
from snapline.protocol.statistics.explanations import Explanations
from snapline.protocol.statistics.health_check import job_health
from snapline.protocol.statistics.job_health import Health, HealthLevel
from snapline.protocol.statistics.job_past import JobPast
from snapline.protocol.statistics.job_view import AttemptFailure, JobView, SubtaskView
from snapline.protocol.statistics.task_history import TaskHistory
from snapline.protocol.statistics.task_metrics import TaskMetrics
from snapline.runtime.job_logs import JobLogger
from snapline.runtime.master.job_log import EventLog, note_metrics
from snapline.runtime.scheduler.scheduler import Scheduler
from snapline.text import is_milestone
from snapline.types import JobStatus, SubtaskId

MAX_FAILURES = 100
"""Failed attempts that are remembered."""

MAX_LOOKED_AT = 100
"""Checkpoints among which those in progress are looked for."""

MAX_LOG_CHARACTERS = 20_000
MAX_TRACE_CHARACTERS = 20_000

_UNKNOWN = Health(HealthLevel.WARNING, "the health of the job is not known: see the driver's log")

_log = JobLogger(__name__)

T = TypeVar("T")


class Watcher:
    """Hears on the loop what happens to a job. Nothing in it may wait or raise."""

    def claimed(self) -> None:
        """This driver has claimed the job, or found it ended. Once for each attempt."""

    def changed(self) -> None:
        """Something has happened that views show."""

    def checkpoint_ended(self, record: CheckpointRecord) -> None:
        """A checkpoint is complete or has failed."""

    def attempt_ended_start(self, attempt: int, started_ms: int, ended_ms: int, failure: str) -> None:
        """An attempt runs, or has failed before it ran: then `failure` says why."""


class JobMonitor:
    """Used on the loop only, but for reading `metrics` and `memory_bytes`."""

    def __init__(
        self,
        spec: JobSpec,
        subtasks: Collection[SubtaskId],
        carryover: Carryover,
        failure: FirstFailure,
        events: EventLog,
        scheduler: Scheduler,
    ) -> None:
        self.metrics: dict[str, TaskMetrics] = {}
        self.memory_bytes: dict[int, int] = {}
        self._state_memory_bytes: dict[int, int] = {}
        self.watchers: list[Watcher] = []
        self._spec = spec
        self._statistics = carryover.statistics
        self._schedule = carryover.schedule
        self._failure = failure
        self._events = events
        self._scheduler = scheduler
        self._plan = plan_view(spec.plan)
        now_ms = self._started_ms = scheduler.wall_ms()
        self._tasks = TaskHistory(subtasks, now_ms)
        self._status_times = {JobStatus.CREATED: now_ms}
        self._failures: deque[AttemptFailure] = deque(maxlen=MAX_FAILURES)
        self._failed_attempts = self._earlier_failed_attempts = 0
        self._starts_since_ms: int | None = now_ms
        self._failed_task: SubtaskId | None = None
        self._explanations = Explanations(self._plan)
        self._defects = 0

    def preceded_by(self, past: JobPast) -> None:
        """Go on from what earlier drivers have left behind about the job."""
        view = past.view
        self._statistics.preceded_by(view.statistics, past.totals)
        self._explanations.preceded_by(view.explanations)
        self._events.preceded_by(view.events)
        self._failures.extend(view.failures[: MAX_FAILURES - len(self._failures)])
        self._earlier_failed_attempts += view.failed_attempts

    @property
    def statistics(self) -> StatisticsSnapshot:
        return self._statistics.snapshot()

    @property
    def totals(self) -> Mapping[str, int]:
        """Those of the statistics, which go on with them."""
        return self._statistics.totals

    # Facts, in the order in which they happen.

    def claimed(self, attempt: int, *, is_ours: bool) -> None:
        """The driver has claimed an attempt, or found that another has, or that the job is over."""
        if is_ours:
            self._events.add(f"attempt {attempt} claimed")
        self._starts_since_ms = self._starts_since_ms or self._scheduler.wall_ms()
        for watcher in self.watchers:
            watcher.claimed()

    def attempt_runs(self, attempt: int) -> None:
        self._events.add(f"attempt {attempt} runs")
        _log.info("job %s: attempt %d runs", self._spec.name, attempt, attempt=attempt)
        self._start_ended(attempt, "")

    def status_changed(self, status: JobStatus) -> None:
        now_ms = self._status_times[status] = self._scheduler.wall_ms()
        if status is not JobStatus.RUNNING:
            self._tasks.stopped(now_ms)
        if status is JobStatus.INITIALIZING:
            self._starts_since_ms = now_ms
        self._changed()

    def attempt_failed(self, attempt: int, repeats: int, note: str) -> None:
        """The cause is in the `FirstFailure` by now; `note` says more about an error that repeats."""
        self._failed_attempts += 1
        failure = self._failure.failure or Failure("the cause is not known")
        self._events.add(f"attempt {attempt} failed: {failure.cause}")
        if note:
            self._events.add(note)
        _log.warning("job %s: attempt %d failed: %s", self._spec.name, attempt, failure.cause, attempt=attempt)
        noted = AttemptFailure(
            self._scheduler.wall_ms(), attempt, failure.cause, subtask=self._failed_task, repeats=repeats
        )
        self._failures.appendleft(_with_details(noted, failure))
        self._start_ended(attempt, failure.cause)
        self._changed()

    def failure_explained(self) -> None:
        """More has become known about the last failure."""
        if self._failed_attempts and self._failure.failure is not None:
            self._failures[0] = _with_details(self._failures[0], self._failure.failure)
            self._changed()

    def deployed(self, attempt: int, starting: Collection[SubtaskId], finished: Collection[SubtaskId]) -> None:
        """An attempt begins with these subtasks."""
        self._failed_task = None
        self._tasks.deployed(attempt, starting, finished, self._scheduler.wall_ms())
        self.metrics = {name: task for name, task in self.metrics.items() if task.execution.subtask not in starting}

    def slots_ready(self, addresses: Sequence[tuple[str, int]]) -> None:
        self._tasks.placed(lambda slot: addresses[slot][0] if slot < len(addresses) else "")

    def task_reported(self, report: TaskReport) -> None:
        if report.error and self._failed_task is None:
            self._failed_task = report.execution.subtask
        self._tasks.changed(report.execution, report.status, self._scheduler.wall_ms())

    def memory_reported(self, slot: int, size_bytes: int, state_bytes: int | None) -> None:
        """What the process of a slot takes, and state in it if that is limited."""
        self.memory_bytes[slot] = size_bytes
        if state_bytes is not None:
            self._state_memory_bytes[slot] = state_bytes

    def process_gone(self, slot: int) -> None:
        self.memory_bytes.pop(slot, None)
        self._state_memory_bytes.pop(slot, None)

    def metrics_reported(self, metrics: TaskMetrics) -> None:
        note_metrics(self.metrics, metrics, self._events, self._spec.name)
        self._tasks.reported(metrics, self._scheduler.wall_ms())
        if metrics.commits is not None:
            subtask = metrics.execution.subtask
            for checkpoint_id, commit_ms in metrics.commits.done:
                self._statistics.committed(checkpoint_id, subtask.vertex, subtask.index, commit_ms)

    def checkpoint_ended(self, checkpoint_id: int) -> Explanation | None:
        """A checkpoint is complete or has failed. Returns why it took its time, if it is in the history."""
        history = self._statistics.snapshot().history
        if (record := next((known for known in history if known.id == checkpoint_id), None)) is not None:
            for watcher in self.watchers:
                watcher.checkpoint_ended(record)
        self._changed()
        tasks, now_ms = self._tasks.views, self._scheduler.wall_ms()
        return self._tried(lambda: self._explanations.ended(checkpoint_id, history, tasks, now_ms), None)

    def checkpoint_under_way(self) -> Explanation | None:
        """Why the oldest checkpoint in progress takes its time; None if there is none."""
        history = self._statistics.snapshot().history
        pending = next((r for r in reversed(history[:MAX_LOOKED_AT]) if r.status is CheckpointStatus.IN_PROGRESS), None)
        said = self._explained(history, self._tasks.views, self._scheduler.wall_ms())
        return None if pending is None else said.get(pending.id)

    def _explained(
        self, history: Sequence[CheckpointRecord], tasks: Mapping[SubtaskId, SubtaskView], now_ms: int
    ) -> Mapping[int, Explanation]:
        return self._tried(lambda: self._explanations.of(history, tasks, now_ms), {})

    def _tried(self, call: Callable[[], T], otherwise: T) -> T:
        """What only people look at must never end a job: a defect in it is logged, at growing intervals."""
        try:
            return call()
        except Exception as error:
            self._defects += 1
            if is_milestone(self._defects - 1, self._defects):
                _log.error(
                    "job %s: it cannot be said how its checkpoints fare; this is a defect of Snapline, and the job "
                    "goes on",
                    self._spec.name,
                    exc_info=error,
                )
            return otherwise

    def _start_ended(self, attempt: int, failure: str) -> None:
        if self._starts_since_ms is None:
            return
        started_ms, self._starts_since_ms = self._starts_since_ms, None
        for watcher in self.watchers:
            watcher.attempt_ended_start(attempt, started_ms, self._scheduler.wall_ms(), failure)

    def _changed(self) -> None:
        for watcher in self.watchers:
            watcher.changed()

    # Views.

    def view(self, status: JobStatus, attempt: int, repeats: int, ended_ms: int | None, url: str) -> JobView:
        spec, statistics, tasks = self._spec, self._statistics.snapshot(), self._tasks.views
        now_ms = self._scheduler.wall_ms()
        view = JobView(
            job_id=spec.job_id,
            name=spec.name,
            status=status,
            attempt=attempt,
            now_ms=now_ms,
            started_ms=self._started_ms,
            ended_ms=ended_ms,
            status_times=dict(self._status_times),
            plan=self._plan,
            subtasks=tuple(tasks.values()),
            statistics=statistics,
            checkpoints=spec.checkpoints,
            execution=spec.execution,
            restart=spec.restart,
            monitoring=spec.monitoring,
            failures=tuple(self._failures),
            failed_attempts=self._earlier_failed_attempts + self._failed_attempts,
            repeats=repeats,
            events=tuple(self._events.all()),
            memory_bytes=dict(self.memory_bytes),
            state_memory_bytes=dict(self._state_memory_bytes),
            explanations=self._explained(statistics.history, tasks, now_ms),
            url=url,
            interval_ms=self._schedule.interval_ms,
        )
        return replace(view, health=self._tried(lambda: job_health(view), _UNKNOWN))


def _with_details(noted: AttemptFailure, failure: Failure) -> AttemptFailure:
    return replace(
        noted,
        cause=failure.cause,
        trace=failure.trace[-MAX_TRACE_CHARACTERS:],
        log=failure.log[-MAX_LOG_CHARACTERS:],
    )
