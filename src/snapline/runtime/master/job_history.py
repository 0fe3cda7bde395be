"""Keeps the history of a job beside its checkpoints, so that the next driver, or people without one, see the past."""

from __future__ import annotations

from collections.abc import Callable, Collection
from concurrent.futures import Future
from dataclasses import replace

from snapline.errors import DamagedError, SnaplineError
from snapline.graph.job_spec import JobSpec
from snapline.protocol.statistics.checkpoint_records import StatisticsSnapshot
from snapline.protocol.statistics.job_past import JobPast, PublishedSnapshot, bounded
from snapline.protocol.statistics.job_view import JobView
from snapline.runtime.job_logs import JobLogger
from snapline.runtime.master.job_monitor import JobMonitor, Watcher
from snapline.runtime.master.job_storage import MasterStorage
from snapline.runtime.scheduler.background_calls import BackgroundCalls
from snapline.runtime.scheduler.scheduler import Cancellable, Scheduler
from snapline.storage.history_format import encode
from snapline.storage.history_objects import FoundHistory, HistoryObjects, history_of, published_snapshots
from snapline.storage.storage_factory import monitor_directory
from snapline.text import is_milestone
from snapline.types import JobStatus

WRITE_INTERVAL_S = 10.0
"""Least time between two writes, and so how much of the past a driver that is killed may take with it."""

SOON_S = 1.0
"""How soon the first change after a quiet time is written."""

LONGEST_PAUSE_S = 600.0
"""Longest time between two tries while the storage fails."""

_log = JobLogger(__name__)


class JobHistory(Watcher):
    """Reads what earlier drivers have left, once the job is claimed, and writes what this one has seen.

    Works on a thread of its own: storage that fails or hangs costs the history, never the job. Used on the loop only.
    """

    def __init__(
        self,
        spec: JobSpec,
        storage: MasterStorage,
        objects: HistoryObjects,
        scheduler: Scheduler,
        monitor: JobMonitor,
        look: Callable[[], JobView],
    ) -> None:
        self.calls = BackgroundCalls(scheduler, 1, "snapline-history")
        self._spec = spec
        self._storage = storage
        self._objects = objects
        self._scheduler = scheduler
        self._monitor = monitor
        self._look = look
        self._name = ""
        self._absorbed: tuple[str, ...] = ()
        self._obsolete: tuple[str, ...] = ()
        self._seen: tuple[StatisticsSnapshot, tuple[tuple[int, str], ...]] | None = None
        self._written_s = float("-inf")
        self._timer: Cancellable | None = None
        self._due_s = float("inf")
        self._failures = 0
        self._is_busy = False
        self._is_read = False
        self._has_file = False
        self._is_over = False
        self._end: tuple[JobStatus, Future[None]] | None = None

    # Facts.

    def claimed(self) -> None:
        if not self._is_read and not self._is_busy and self._timer is None:
            self._load()

    def changed(self) -> None:
        if self._is_read and not self._is_busy and self._failures == 0:
            since_s = self._scheduler.time_s() - self._written_s
            self._look_in(max(SOON_S, WRITE_INTERVAL_S - since_s))

    def close(self, status: JobStatus) -> Future[None]:
        """The job has ended for this driver. The result is set once that is written, or cannot be."""
        self._end = (status, Future())
        if self._timer is not None:
            self._timer.cancel()
        if not self._is_busy:
            self._finish()
        return self._end[1]

    # Reading.

    def _load(self) -> None:
        self._is_busy = True
        self.calls.run(
            lambda: history_of(self._objects.contents(), self._published),
            self._loaded,
            lambda error: self._failed(error, "what earlier drivers saw of it cannot be read"),
            self._named("reading its history"),
        )

    def _published(self, known: int) -> Collection[PublishedSnapshot] | None:
        """Blocks."""
        archive = self._storage.archive
        try:
            return published_snapshots(self._storage.objects, archive.read_journal(), archive.directory, known)
        except DamagedError:
            return None

    def _loaded(self, found: FoundHistory) -> None:
        self._is_read = True
        self._failures = 0
        for warning in found.warnings:
            _log.warning("job %s: %s", self._spec.name, warning)
        if found.past is not None:
            self._monitor.preceded_by(found.past)
            self._absorbed = found.past.absorbed
        self._obsolete = found.names
        self._rest(SOON_S)

    # Writing.

    def _due(self) -> None:
        self._timer, self._due_s = None, float("inf")
        if not self._is_read:
            self._load()
            return
        view = self._look()
        is_news = self._seen is None or view.statistics is not self._seen[0] or view.events != self._seen[1]
        if view.attempt > 0 and is_news:
            self._write(view)
        else:
            self._rest(WRITE_INTERVAL_S)

    def _write(self, view: JobView) -> None:
        self._is_busy = True
        self._name = self._name or HistoryObjects.name(view.attempt, self._storage.archive.token)
        self._seen = (view.statistics, view.events)
        self._written_s = self._scheduler.time_s()
        past = JobPast(view, self._monitor.totals, self._absorbed)
        name, obsolete, has_file = self._name, self._obsolete, self._has_file
        self.calls.run(
            lambda: self._store(past, name, obsolete, has_file=has_file),
            self._stored,
            lambda error: self._failed(error, "its history cannot be written"),
            self._named("writing its history"),
        )

    def _store(self, past: JobPast, name: str, obsolete: tuple[str, ...], *, has_file: bool) -> bool:
        """Returns False if the file was deleted meanwhile: by a driver that has taken over, or with the job. Blocks."""
        if has_file and not self._objects.exists(name):
            return False
        self._objects.write(name, encode(bounded(past, self._spec.monitoring.history)))
        self._objects.delete(obsolete)
        return True

    def _stored(self, is_there: bool) -> None:
        self._failures, self._obsolete, self._has_file = 0, (), True
        if not is_there:
            self._is_over = True
            if self._end is None:
                _log.warning(
                    "job %s: its history is kept no longer: %s/%s was deleted, or another driver has taken over",
                    self._spec.name,
                    self._objects.directory,
                    self._name,
                )
        self._rest(WRITE_INTERVAL_S)

    def _failed(self, error: Exception, what: str) -> None:
        self._failures += 1
        self._seen = None
        if is_milestone(self._failures - 1, self._failures):
            _log.warning(
                "job %s: %s (%d times in a row): %s; the job goes on",
                self._spec.name,
                what,
                self._failures,
                error,
                exc_info=None if isinstance(error, SnaplineError) else error,
            )
        self._rest(min(WRITE_INTERVAL_S * 2 ** min(self._failures - 1, 10), LONGEST_PAUSE_S))

    # Between two calls.

    def _rest(self, pause_s: float) -> None:
        self._is_busy = False
        if self._end is None:
            self._look_in(pause_s)
        else:
            self._finish()

    def _look_in(self, pause_s: float) -> None:
        """Look for news after this time, unless that is planned earlier."""
        due_s = self._scheduler.time_s() + pause_s
        if self._is_over or self._end is not None or due_s >= self._due_s:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._due_s = due_s
        self._timer = self._scheduler.call_later(pause_s, self._due)

    def _finish(self) -> None:
        """Write the end of the job once; what could not be read before stays for the next driver."""
        assert self._end is not None
        status, done = self._end
        view = None if self._is_over else self._look()
        self._is_over = True
        if view is None or view.attempt == 0:
            done.set_result(None)
            return
        now_ms = self._scheduler.wall_ms()
        times, events = {**view.status_times, status: now_ms}, (*view.events, (now_ms, end_text(status)))
        self._write(replace(view, status=status, ended_ms=now_ms, status_times=times, events=events))

    def _named(self, what: str) -> str:
        return f"job {self._spec.name}: {what} in {self._objects.directory}"


def keep_history(
    spec: JobSpec, storage: MasterStorage, scheduler: Scheduler, monitor: JobMonitor, look: Callable[[], JobView]
) -> JobHistory | None:
    """Start to keep the history of a job; None if its settings say not to, or it has no storage."""
    directory = monitor_directory(spec.checkpoints, spec.job_id)
    if directory is None or spec.monitoring.history == 0:
        return None
    history = JobHistory(spec, storage, HistoryObjects(storage.objects, directory), scheduler, monitor, look)
    monitor.watchers.append(history)
    return history


def end_text(status: JobStatus) -> str:
    """The last event of a job."""
    return f"the job has ended: {status.value}"
