"""Which completed checkpoints are kept, while the job runs and after it has ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from snapline.errors import ConfigurationError
from snapline.types import ExternalizedRetention, JobStatus, SnapshotKind


@dataclass(frozen=True, slots=True)
class StoredSnapshot:
    """A completed snapshot, as far as retention cares."""

    id: int
    kind: SnapshotKind


def subsumed(entries: Sequence[StoredSnapshot], limit: int) -> tuple[StoredSnapshot, ...]:
    """The entries to drop so that `limit` remain, oldest first. Call it after each new entry.

    `entries` are in the order in which they were added. The newest is never dropped. Nor is the newest checkpoint in
    favour of a savepoint, even if one more than `limit` then remains; but a synchronous savepoint as the newest entry
    ends the job and needs no checkpoint beside it.
    """
    if limit < 1:
        raise ConfigurationError(f"{limit} retained checkpoints; keep at least 1, or the job cannot recover")
    if not entries:
        return ()
    *older, newest = entries
    if newest.kind is SnapshotKind.SAVEPOINT:
        last_checkpoint = next((entry for entry in reversed(older) if not entry.kind.is_savepoint), None)
        older = [entry for entry in older if entry is not last_checkpoint]
    return tuple(older[: max(len(entries) - limit, 0)])


_ENDED = frozenset({JobStatus.FINISHED, JobStatus.CANCELED, JobStatus.FAILED, JobStatus.SUSPENDED})
_KEPT_AT = {
    ExternalizedRetention.NO_EXTERNALIZED: frozenset[JobStatus](),
    ExternalizedRetention.DELETE_ON_CANCELLATION: frozenset({JobStatus.FAILED}),
    ExternalizedRetention.RETAIN_ON_CANCELLATION: _ENDED - {JobStatus.FINISHED},
}


def keeps(policy: ExternalizedRetention, status: JobStatus) -> bool:
    """Whether the checkpoints of a job in `status` are kept. Savepoints always are, whatever this returns.

    A job that has not ended still needs its checkpoints: they are kept.
    """
    return status not in _ENDED or status in _KEPT_AT[policy]
