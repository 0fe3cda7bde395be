"""How a job ended, as its storage tells when its driver is gone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from snapline.cli.job_lookup import RunningJob
from snapline.cli.storage_access import open_store
from snapline.errors import SnaplineError
from snapline.protocol.journal import RecordKind
from snapline.storage.journals.journal_store import ObjectJournal
from snapline.types import JobStatus


@dataclass(frozen=True, slots=True)
class StoredEnd:
    """The end in the job's journal. `savepoint` is the one that it was stopped with, if it was."""

    status: JobStatus
    savepoint: str | None


def stored_end(job: RunningJob, s3: Sequence[str]) -> StoredEnd | None:
    """Returns None if the journal cannot be found or read, or if the job has not ended."""
    if job.address is None or job.address.storage is None:
        return None
    try:
        objects = open_store(s3)
        journal = ObjectJournal(objects, f"{job.address.storage}/{job.job_id}/journal").read()
    except SnaplineError:
        return None  # whoever asks has more to say about the driver that is gone
    if journal.ended is None:
        return None
    latest = journal.latest
    is_stopped = latest is not None and latest.kind is RecordKind.STOP
    return StoredEnd(journal.ended, latest.location if latest is not None and is_stopped else None)
