"""What happens to the job, for display: figures, notable moments, kills and recoveries."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from snapline.demo.clicks import SOURCE
from snapline.demo.results import Results
from snapline.protocol.statistics.checkpoint_records import CheckpointRecord, CheckpointStatus, StatisticsSnapshot
from snapline.protocol.statistics.progress import RateMeter
from snapline.protocol.statistics.task_metrics import TaskMetrics
from snapline.types import JobStatus

TOP_USERS = 5
RECENT_CHECKPOINTS = 7
RATE_WINDOW_MS = 2000
MAX_CAUSE_CHARACTERS = 120

_FAILED = re.compile(r"attempt (\d+) failed: (.*)", re.DOTALL)
_RESTORED = re.compile(r"attempt (\d+) starts from (?:.*/chk-(\d+)|the beginning)")
_RUNS = re.compile(r"attempt (\d+) runs")


@dataclass(frozen=True, slots=True)
class CheckpointLine:
    """A checkpoint for display. `duration_ms` and `size_bytes` are None unless it completed."""

    id: int
    status: CheckpointStatus
    duration_ms: int | None = None
    size_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Moment:
    """Something notable, `at_ms` after the start of the demo. `mood` is info, bad or good."""

    at_ms: int
    text: str
    mood: str = "info"


@dataclass(slots=True)
class Restart:
    """A failed attempt and its recovery. `victim` is what the demo killed, or None."""

    failed_ms: int
    victim: str | None = None
    is_restored: bool = False
    checkpoint_id: int | None = None
    runs_ms: int | None = None

    @property
    def recovery_s(self) -> float | None:
        """Seconds from the kill, or the failure if the demo killed nothing, until all tasks ran again."""
        return None if self.runs_ms is None else (self.runs_ms - self.failed_ms) / 1000


@dataclass(frozen=True, slots=True)
class View:
    """Everything shown at one instant. `page` is the address of the job's page, empty without one."""

    elapsed_ms: int
    status: JobStatus
    rows: int
    total_rows: int
    rows_per_second: float
    committed_rows: int
    committed_files: int
    top: tuple[tuple[str, int], ...]
    checkpoints: tuple[CheckpointLine, ...]
    completed: int
    moments: tuple[Moment, ...]
    page: str = ""


@dataclass(slots=True)
class Story:
    """Follows one job from `started_ms`. Times are epoch milliseconds. `page` is set once the job has one."""

    total_rows: int
    started_ms: int
    page: str = ""
    restarts: list[Restart] = field(default_factory=list)
    moments: list[Moment] = field(default_factory=list)
    _attempt: int = 0
    _restored_id: int | None = None
    _rows: int = 0
    _kill: Restart | None = None
    _last_event: tuple[int, str] | None = None
    _meter: RateMeter = field(default_factory=lambda: RateMeter(RATE_WINDOW_MS))

    def say(self, now_ms: int, text: str, mood: str = "info") -> None:
        self.moments.append(Moment(now_ms - self.started_ms, text, mood))

    def killed(self, now_ms: int, pid: int, victim: str, consequence: str) -> None:
        """The demo has just killed a process: the job's next failure is attributed to it."""
        self._kill = Restart(now_ms, victim)
        self.say(now_ms, f"kill -9 {pid}: {victim}; {consequence}", "bad")

    @property
    def is_recovering(self) -> bool:
        """Whether a kill is not noticed yet, or the job is not running again."""
        return self._kill is not None or (bool(self.restarts) and self.restarts[-1].runs_ms is None)

    def view(
        self,
        now_ms: int,
        status: JobStatus,
        statistics: StatisticsSnapshot,
        metrics: Mapping[str, TaskMetrics],
        results: Results,
    ) -> View:
        """Returns the current figures. Call `follow` first."""
        tasks = [
            task
            for name, task in metrics.items()
            if name.rpartition("/")[0] == SOURCE and task.execution.attempt == self._attempt
        ]
        if status is JobStatus.FINISHED:
            self._rows = self.total_rows
        elif tasks or self._is_restoring:
            base = 0 if self._restored_id is None else results.rows_until(self._restored_id)
            self._rows = min(base + sum(task.rows_out for task in tasks), self.total_rows)
        self._meter.add(now_ms, self._rows)
        return View(
            elapsed_ms=now_ms - self.started_ms,
            status=status,
            rows=self._rows,
            total_rows=self.total_rows,
            rows_per_second=self._meter.rows_per_second,
            committed_rows=results.rows,
            committed_files=results.files,
            top=results.top(TOP_USERS),
            checkpoints=tuple(map(_line, statistics.history[:RECENT_CHECKPOINTS])),
            completed=statistics.counts.completed,
            moments=tuple(self.moments),
            page=self.page,
        )

    def follow(self, events: Sequence[tuple[int, str]]) -> None:
        """Process the job's new events."""
        new: list[tuple[int, str]] = []
        for event in reversed(events):
            if event is self._last_event:
                break
            new.append(event)
        if events:
            self._last_event = events[-1]
        for at_ms, text in reversed(new):
            self._take(at_ms, text)

    def _take(self, at_ms: int, text: str) -> None:
        if match := _FAILED.match(text):
            restart, self._kill = self._kill or Restart(at_ms), None
            self.restarts.append(restart)
            self.say(at_ms, f"attempt {match[1]} has failed: {_short(match[2])}", "bad")
        elif match := _RESTORED.match(text):
            self._attempt = int(match[1])
            self._restored_id = None if match[2] is None else int(match[2])
            self._meter.clear()
            if self.restarts:
                self.restarts[-1].is_restored = True
                self.restarts[-1].checkpoint_id = self._restored_id
                what = "the beginning" if match[2] is None else f"checkpoint {match[2]}"
                self.say(at_ms, f"attempt {match[1]} starts from {what}: its counts, and its place in the clicks")
        elif match := _RUNS.match(text):
            if self.restarts and self.restarts[-1].runs_ms is None:
                self.restarts[-1].runs_ms = at_ms
                self.say(at_ms, f"running again after {self.restarts[-1].recovery_s:.1f} s", "good")
            else:
                self.say(at_ms, "the job runs", "good")

    @property
    def _is_restoring(self) -> bool:
        """Whether a new attempt has restored its position in the clicks, but is not running yet."""
        return bool(self.restarts) and self.restarts[-1].is_restored and self.restarts[-1].runs_ms is None


def _line(record: CheckpointRecord) -> CheckpointLine:
    if record.status is not CheckpointStatus.COMPLETED:
        return CheckpointLine(record.id, record.status)
    return CheckpointLine(record.id, record.status, record.end_to_end_duration_ms, record.totals.checkpointed_bytes)


def _short(cause: str) -> str:
    line = " ".join(cause.split())
    return line if len(line) <= MAX_CAUSE_CHARACTERS else f"{line[: MAX_CAUSE_CHARACTERS - 1]}…"
