"""Handle to a running job."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from snapline.config import Duration, Path
from snapline.errors import SnaplineError
from snapline.protocol.statistics import JobView, Progress, StatisticsSnapshot, TaskMetrics
from snapline.text import shortened
from snapline.types import CheckpointScope, JobStatus, SavepointFormat


class JobFailedError(SnaplineError):
    """The job has failed. The message is its first cause, in one line, and how to go on.

    Its last checkpoints are kept unless `externalized` says otherwise: mended and started again under the same id, the
    job goes on from them.

    `trace` is the traceback of the exception in the task, if one was raised there; Python shows it below the message.
    `log` is the last output of the failed process.
    """

    def __init__(self, message: str, *, trace: str = "", log: str = "") -> None:
        super().__init__(message)
        self.trace = trace
        self.log = log
        if trace:
            self.add_note(trace)


class SnapshotFailedError(SnaplineError):
    """A requested checkpoint or savepoint failed. The job continues unless the message says otherwise."""


class JobHandle(Protocol):
    """Handle to a running job. Every method may be called from any thread.

    Wherever `timeout` is None, the call waits as long as it takes; otherwise it raises `TimeoutError`.
    """

    @property
    def id(self) -> str:
        """The job's id, under which a later driver finds its checkpoints."""

    @property
    def name(self) -> str:
        """The name given to `Job`."""

    @property
    def attempt(self) -> int:
        """How many times the job has been started, by this driver and earlier ones."""

    @property
    def cause(self) -> str:
        """Why the last attempt failed, in one line; empty if none did."""

    @property
    def trace(self) -> str:
        """The traceback of the exception that failed the last attempt; empty if no task raised one."""

    @property
    def log(self) -> str:
        """The last output of the process in which the last attempt failed; empty if none did."""

    @property
    def repeats(self) -> int:
        """How often the error that ended the last attempt has happened without a completed checkpoint in between.

        1 is the first time; 0 if the environment failed, or nothing. See `Execution.same_error_limit`.
        """

    @property
    def url(self) -> str:
        """Where the job's page is; empty if none is served. See `Monitoring`."""

    def status(self) -> JobStatus:
        """The job's status now."""

    def view(self) -> JobView:
        """Everything that the page shows of the job, at one moment: plan, subtasks, checkpoints, failures, health."""

    def wait(self, timeout: Duration | None = None) -> JobStatus:
        """Wait for the job to end and return its last status. Raises `JobFailedError` if it failed."""

    def checkpoints(self) -> StatisticsSnapshot:
        """Statistics of the job's checkpoints so far: counts, history, the latest of each kind, summary. Immutable."""

    def metrics(self) -> dict[str, TaskMetrics]:
        """The latest metrics of every task, by `vertex/index`."""

    def progress(self) -> Progress:
        """How far the job has come: rows, event time, the latest checkpoints."""

    def memory_bytes(self) -> dict[int, int]:
        """The memory that each slot's operator process last reported, by slot."""

    def events(self) -> list[tuple[int, str]]:
        """Recent events with their time in milliseconds: status changes, attempts, failures, checkpoints."""

    def checkpoint(self, scope: CheckpointScope = CheckpointScope.CONFIGURED, timeout: Duration | None = None) -> str:
        """Take a checkpoint now and return its path. Raises `SnapshotFailedError` if it fails."""

    def savepoint(
        self, directory: Path | None = None, *, format: SavepointFormat | None = None, timeout: Duration | None = None
    ) -> str:
        """Take a savepoint and return its path. Raises `SnapshotFailedError` if it fails.

        Without `directory` it goes to the configured one.
        """

    def process_available(self, timeout: Duration | None = None, *, only_if: Callable[[], bool] | None = None) -> bool:
        """Wait until everything that the sources have now has been processed, and the sinks have committed it.

        The job goes on, and checkpoints must be on: one is taken that covers it. What comes meanwhile may be processed
        too; what waits for more rows, such as an open window, stays in state. Rows of bounded sources are not waited
        for. `only_if` is asked once everything is read, and may leave it at that. Returns whether the checkpoint was
        taken. Raises `JobFailedError` if the job has failed.
        """

    def stop(
        self,
        savepoint: Path | None = None,
        *,
        drain: bool = False,
        format: SavepointFormat | None = None,
        timeout: Duration | None = None,
    ) -> str:
        """End the job with a savepoint and return its path. `drain` first completes all windows.

        Sources that discover splits, such as watched directories, are first read to the end of what is there, with
        `drain`. Raises `SnapshotFailedError` if the savepoint fails.
        """

    def cancel(self, timeout: Duration | None = None) -> None:
        """End the job for good and wait until it has ended."""

    def suspend(self, timeout: Duration | None = None) -> None:
        """Leave the job to another driver and wait until that is done: checkpoints stay, slots are released."""


def handle_text(handle: JobHandle) -> str:
    """The `repr` of a handle, in one line."""
    name = repr(handle.name) if handle.name == handle.id else f"{handle.name!r} (id {handle.id})"
    cause = shortened(handle.cause)[1:-1] if handle.cause else ""
    return f"<JobHandle {name}: {handle.status().value}, attempt {handle.attempt}{cause and ', last failure: '}{cause}>"
