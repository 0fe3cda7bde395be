"""What a user holds in hand of a job that runs."""

from __future__ import annotations

from typing import Any, Protocol

from snapline.config import Duration, Path
from snapline.errors import SnaplineError
from snapline.types import CheckpointScope, JobStatus, SavepointFormat


class JobFailedError(SnaplineError):
    """The job has failed for good. The message is its first cause; `log` holds what its process said last."""

    def __init__(self, message: str, *, log: str = "") -> None:
        super().__init__(message)
        self.log = log


class SnapshotFailedError(SnaplineError):
    """A checkpoint or savepoint that somebody asked for will never be; the job goes on unless the message says else."""


class JobHandle(Protocol):
    """A running job. Every method may be called from any thread."""

    @property
    def id(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def attempt(self) -> int:
        """How many times the job has been started, by this driver and those before it."""

    @property
    def cause(self) -> str:
        """Why the last attempt failed; empty if none did."""

    def status(self) -> JobStatus: ...

    def wait(self, timeout: Duration | None = None) -> JobStatus:
        """Wait for the job's end. `JobFailedError` if it fails, `TimeoutError` if it takes too long."""

    def checkpoints(self) -> Any:
        """The job's checkpoints so far: counts, history, latest ones, summary (`CheckpointStatistics`)."""

    def metrics(self) -> dict[str, Any]:
        """The latest figures of all tasks, by `vertex/index`."""

    def memory_bytes(self) -> dict[int, int]:
        """How much memory the operator process of each slot takes, as it said last."""

    def events(self) -> list[tuple[int, str]]:
        """What has happened lately, each with its time in milliseconds: status, attempts, failures, checkpoints."""

    def checkpoint(self, scope: CheckpointScope = CheckpointScope.CONFIGURED, timeout: Duration | None = None) -> str:
        """Take a checkpoint now; its path."""

    def savepoint(
        self, directory: Path | None = None, *, format: SavepointFormat | None = None, timeout: Duration | None = None
    ) -> str:
        """Take a savepoint; its path. Without a directory it goes to the configured one."""

    def stop(
        self,
        savepoint: Path | None = None,
        *,
        drain: bool = False,
        format: SavepointFormat | None = None,
        timeout: Duration | None = None,
    ) -> str:
        """Take a savepoint and end the job with it; the savepoint's path. `drain` ends all windows first."""

    def cancel(self, timeout: Duration | None = None) -> None:
        """End the job now and for ever, and wait until it has."""

    def suspend(self, timeout: Duration | None = None) -> None:
        """Leave the job to another driver, and wait until that is done: checkpoints stay, slots are given back."""
