"""How a job ends for its driver."""

from __future__ import annotations

from dataclasses import dataclass

from snapline.types import JobStatus


@dataclass(frozen=True, slots=True)
class Ending:
    """`must_record` says that the end is to be recorded, so that no driver runs the job again.

    `stop_location` is the savepoint the job was stopped with.
    """

    status: JobStatus
    stop_location: str | None = None
    must_record: bool = True
