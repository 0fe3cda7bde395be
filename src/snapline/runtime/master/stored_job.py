"""A job that no driver of this program runs, shown from what is stored about it: its history and its journal."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection
from concurrent.futures import Future
from dataclasses import replace
from threading import Lock
from typing import Any

from snapline.config import Checkpoints, Execution, Monitoring, NoRestart, StorageOptionsLike
from snapline.errors import ConfigurationError, DamagedError
from snapline.protocol.journal import Journal, Record
from snapline.protocol.snapshot import Snapshot
from snapline.protocol.statistics.checkpoint_records import StatisticsSnapshot
from snapline.protocol.statistics.health_check import job_health
from snapline.protocol.statistics.job_health import Health, HealthIssue, HealthLevel, HealthNote
from snapline.protocol.statistics.job_past import JobPast, PublishedSnapshot, joined
from snapline.protocol.statistics.job_view import JobView, OperatorView, PlanView, VertexView
from snapline.runtime.job_logs import JobLogger
from snapline.runtime.master.job_storage import absolute
from snapline.runtime.scheduler.system_threads import wall_clock_ms
from snapline.storage.history_objects import HistoryObjects, history_of, published_snapshots
from snapline.storage.journals.journal_store import ObjectJournal
from snapline.storage.known_roots import KnownRoots
from snapline.storage.metadata_objects import METADATA_LIMIT_BYTES, MetadataObjects
from snapline.storage.objects.daemon_pool import DaemonPool
from snapline.storage.objects.file_objects import FileObjects
from snapline.storage.objects.object_paths import directory_location
from snapline.storage.objects.object_store import ObjectStore
from snapline.text import duration_text
from snapline.types import CheckpointScope, JobStatus, SavepointFormat
from snapline.web.web_server import Served, serve

REFRESH_S = 5.0
"""How old a view may be before the files are looked at again. A driver writes its history every 10 s."""

_JOB = re.compile(r"(journal|monitor|chk-[0-9]{1,19})/.+")
_NOT_RUNNING = "this shows what is stored about the job; start it, and use the page of its driver"

_log = JobLogger(__name__)


class StoredJob:
    """A `MonitoredJob` that can only be looked at. Files are read on a thread, which `close` ends."""

    can_change = False

    def __init__(
        self,
        objects: ObjectStore,
        directory: str,
        *,
        time_s: Callable[[], float] = time.monotonic,
        wall_ms: Callable[[], int] = wall_clock_ms,
    ) -> None:
        self.url = ""
        self._objects = objects
        self._directory = directory.rstrip("/")
        self._time_s = time_s
        self._wall_ms = wall_ms
        self._pool = DaemonPool(1, "snapline-stored-job")
        self._guard = Lock()
        self._looking: Future[JobView] | None = None
        self._looked_s = float("-inf")
        self._files: tuple[dict[str, bytes], tuple[Record, ...]] | None = None
        self._known: JobView | None = None
        self._told: set[str] = set()

    @property
    def job_id(self) -> str:
        return self._directory.rpartition("/")[2]

    @property
    def name(self) -> str:
        return self.job_id if self._known is None else self._known.name

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def view(self) -> Future[JobView]:
        with self._guard:
            looking, now_s = self._looking, self._time_s()
            if looking is None or (looking.done() and now_s - self._looked_s >= REFRESH_S):
                self._looked_s = now_s
                looking = self._looking = self._pool.submit(self.look)
            return looking

    def look(self) -> JobView:
        """The job as it is stored now. Blocks."""
        history = HistoryObjects(self._objects, f"{self._directory}/monitor")
        contents, journal = history.contents(), self._journal()
        files = (contents, () if journal is None else journal.records)
        if self._known is None or files != self._files:
            self._known, self._files = self._made(contents, journal), files
        view = replace(self._known, now_ms=self._wall_ms(), url=self.url)
        return replace(view, health=_health(view, self._known.now_ms))

    def checkpoint(self, scope: CheckpointScope) -> Future[str]:
        del scope
        return _refused()

    def savepoint(self, directory: str | None, format: SavepointFormat | None) -> Future[str]:
        del directory, format
        return _refused()

    def stop(self, directory: str | None, format: SavepointFormat | None, *, drain: bool) -> Future[str]:
        del directory, format, drain
        return _refused()

    def cancel(self) -> Future[None]:
        return _refused()

    def dispose(self, path: str) -> Future[None]:
        del path
        return _refused()

    # Making a view.

    def _journal(self) -> Journal | None:
        """None if the journal is elsewhere, or cannot be read."""
        try:
            journal = ObjectJournal(self._objects, f"{self._directory}/journal").read()
        except DamagedError as error:
            self._tell(str(error))
            return None
        return journal if journal.records else None

    def _made(self, contents: dict[str, bytes], journal: Journal | None) -> JobView:
        def published(known: int) -> Collection[PublishedSnapshot] | None:
            return None if journal is None else published_snapshots(self._objects, journal, self._root, known)

        def is_over(view: JobView) -> bool:
            is_left = view.status.is_globally_terminal or view.status is JobStatus.SUSPENDED
            return is_left or (journal is not None and (journal.ended is not None or journal.attempt > view.attempt))

        found = history_of(contents, published, is_over)
        for warning in found.warnings:
            self._tell(warning)
        past = found.past or joined([JobPast(self._bare(journal), {})], published(0))
        ended = None if journal is None else journal.ended
        status = ended or past.view.status
        return replace(past.view, is_live=False, status=status, attempt=max(past.view.attempt, _attempt(journal)))

    @property
    def _root(self) -> str:
        """Where checkpoints may be: beside the journal, or, of jobs that share a directory, above it."""
        return self._directory.rpartition("/")[0] or self._directory

    def _bare(self, journal: Journal | None) -> JobView:
        """What is known of a job without a history."""
        return JobView(
            job_id=self.job_id,
            name=self.job_id,
            status=JobStatus.SUSPENDED,
            attempt=_attempt(journal),
            now_ms=self._wall_ms(),
            started_ms=0,
            ended_ms=None,
            status_times={},
            plan=_plan_of(self._last_snapshot(journal)),
            subtasks=(),
            statistics=StatisticsSnapshot(),
            checkpoints=Checkpoints(storage=self._root),
            execution=Execution(),
            restart=NoRestart(),
            is_live=False,
        )

    def _last_snapshot(self, journal: Journal | None) -> Snapshot | None:
        metadata = MetadataObjects(self._objects, KnownRoots([self._root]), METADATA_LIMIT_BYTES)
        for record in reversed(() if journal is None else journal.recovery_points):
            try:
                return metadata.read(str(record.location))
            except DamagedError as error:
                self._tell(str(error))
        return None

    def _tell(self, warning: str) -> None:
        """Warn once."""
        if warning not in self._told:
            self._told.add(warning)
            _log.warning("job %s: %s", self.job_id, warning, job_id=self.job_id)


def stored_jobs(objects: ObjectStore, path: str) -> list[StoredJob]:
    """The jobs in a directory: that of one job, or the storage of several. Blocks.

    Raises `ConfigurationError` if there is none.
    """
    if directory_location(path).is_root:
        raise ConfigurationError(f"{path} is a whole file system; name the directory of a job, or the storage of jobs")
    root = absolute(path)
    names = [info.path.removeprefix(f"{root}/") for info in objects.list(root)]
    if any(name.startswith(("journal/", "monitor/")) for name in names):
        return [StoredJob(objects, root)]
    found = sorted({name.split("/")[0] for name in names if _JOB.fullmatch(name.partition("/")[2])})
    if not found:
        raise ConfigurationError(
            f"{root} holds no job: there is neither a history nor a journal; name the directory of a job, or the "
            "storage of jobs"
        )
    return [StoredJob(objects, f"{root}/{name}") for name in found]


def serve_stored(path: str, monitoring: Monitoring, storage_options: StorageOptionsLike | None = None) -> list[Served]:
    """Show the jobs that are stored in a directory, each on a page of its own, as long as the program runs. Blocks.

    Raises `ConfigurationError` if there is none, and `StorageError` if it cannot be read.
    """
    served: list[Served] = []
    for job in stored_jobs(FileObjects(options=storage_options), path):
        job.look()
        place = serve(job, monitoring)
        job.url = place.url
        served.append(place)
    return served


def _attempt(journal: Journal | None) -> int:
    """The last attempt: the end of a job is recorded in place of the next."""
    return 0 if journal is None else journal.attempt - (journal.ended is not None)


def _plan_of(snapshot: Snapshot | None) -> PlanView:
    """As much of a plan as its state tells: the operators, but not how they are connected."""
    operators = () if snapshot is None else tuple(snapshot.operators.values())
    vertices = (
        VertexView(
            state.uid,
            state.uid,
            state.parallelism,
            state.max_parallelism,
            (OperatorView(state.uid, state.uid, has_state=True),),
        )
        for state in operators
    )
    return PlanView(tuple(vertices), ())


def _health(view: JobView, seen_ms: int) -> Health:
    """The health of a job as it was last seen, with a note that it may be gone since."""
    health = job_health(view)
    if view.status.is_globally_terminal or view.status is JobStatus.SUSPENDED:
        return health
    ago = duration_text(max(view.now_ms - seen_ms, 0))
    text = f"last seen {view.status.value} {ago} ago; whether a driver runs it now is not known"
    note = HealthNote(HealthLevel.WARNING, HealthIssue.NOT_RUNNING, text, _NOT_RUNNING)
    level = HealthLevel.BAD if health.level is HealthLevel.BAD else HealthLevel.WARNING
    return Health(level, text, (note, *health.notes))


def _refused() -> Future[Any]:
    refused: Future[Any] = Future()
    refused.set_exception(ConfigurationError(_NOT_RUNNING))
    return refused
