"""What a master reports about its job: events and outcome."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from snapline.protocol.job.first_failure import Failure
from snapline.protocol.statistics.task_metrics import TaskMetrics, bad_rows_event
from snapline.runtime.job_logs import JobLogger
from snapline.runtime.scheduler.system_threads import wall_clock_ms
from snapline.types import JobStatus

_log = JobLogger(__name__)

MAX_EVENTS = 1000
MAX_TEXT_CHARACTERS = 500


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a job ended for this driver, and why its last attempt failed, if it did."""

    status: JobStatus
    failure: Failure | None


class EventLog:
    """The latest events of a job with their times. Any thread may read and write."""

    def __init__(self, now_ms: Callable[[], int] = wall_clock_ms) -> None:
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._events: deque[tuple[int, str]] = deque(maxlen=MAX_EVENTS)

    def add(self, text: str) -> None:
        with self._lock:
            self._events.append((self._now_ms(), text[:MAX_TEXT_CHARACTERS]))

    def preceded_by(self, earlier: Sequence[tuple[int, str]]) -> None:
        """Remember what an earlier driver noted, as far as there is room."""
        with self._lock:
            self._events = deque((*earlier, *self._events), self._events.maxlen)

    def all(self) -> list[tuple[int, str]]:
        with self._lock:
            return list(self._events)


def note_metrics(known: dict[str, TaskMetrics], metrics: TaskMetrics, events: EventLog, job: str) -> None:
    """Keep the newest metrics of a task by its name, and report bad rows."""
    name = str(metrics.execution.subtask)
    event = bad_rows_event(known.get(name), metrics)
    known[name] = metrics
    if event:
        events.add(event)
        subtask, attempt = metrics.execution
        _log.warning("job %s: %s", job, event, attempt=attempt, vertex=subtask.vertex, subtask=subtask.index)
