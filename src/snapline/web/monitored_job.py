"""A job as the server sees it: views to show, and requests to pass on."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Protocol

from snapline.protocol.statistics.job_view import JobView
from snapline.types import CheckpointScope, SavepointFormat


class MonitoredJob(Protocol):
    """All methods return at once, on any thread. A future fails with a `SnaplineError` that says what to do."""

    @property
    def job_id(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def can_change(self) -> bool:
        """Whether requests can be passed on: not for a job that is only read from its storage."""

    def view(self) -> Future[JobView]:
        """The job as it is now; its last view once it has ended."""

    def checkpoint(self, scope: CheckpointScope) -> Future[str]:
        """Take a checkpoint; the result is its path, which ends in `chk-<id>`."""

    def savepoint(self, directory: str | None, format: SavepointFormat | None) -> Future[str]:
        """Take a savepoint in `directory`, or in the configured one; the result is its path."""

    def stop(self, directory: str | None, format: SavepointFormat | None, *, drain: bool) -> Future[str]:
        """End the job with a savepoint; the result is its path, once the job has ended."""

    def cancel(self) -> Future[None]:
        """End the job for good; done once it has ended."""

    def dispose(self, path: str) -> Future[None]:
        """Delete a savepoint in one of the job's directories."""
