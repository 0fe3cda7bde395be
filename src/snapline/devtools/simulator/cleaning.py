"""What becomes of a job's storage when the job has ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from snapline.config import Checkpoints
from snapline.devtools.simulator.archive import Archive
from snapline.devtools.simulator.checkers import Checker
from snapline.errors import StorageError
from snapline.protocol.journal import Journal, Record, RecordKind
from snapline.protocol.retention.retention_rules import StoredSnapshot, keeps, subsumed
from snapline.protocol.snapshot import Snapshot
from snapline.types import JobStatus, SnapshotKind


class Cleaning:
    """Closes a job, keeps or deletes its checkpoints as the policy says, and sweeps.

    `claimed` is the snapshot of another run that this one owns. `retained` tells what the last attempt keeps, none if
    no attempt has come so far as to have a coordinator.
    """

    def __init__(
        self,
        job: str,
        archive: Archive,
        checker: Checker,
        config: Checkpoints,
        claimed: Snapshot | None,
        retained: Callable[[], Sequence[Snapshot] | None],
    ) -> None:
        self._job = job
        self._archive = archive
        self._checker = checker
        self._config = config
        self._claimed = claimed
        self._retained = retained

    def clean(self, attempt: int, status: JobStatus, done: Callable[[], None]) -> None:
        """Begin; goes on until the store has answered, and leaves all as it is if `attempt` is not the newest."""
        archive = self._archive
        keep = keeps(self._config.externalized, status)

        def closed(journal: Journal) -> None:
            if journal.ended is status:
                archive.submit(lambda: self._tidy(keep=keep), lambda _: done(), again)
            else:
                done()

        def again(_: StorageError) -> None:
            self.clean(attempt, status, done)

        archive.close(attempt, status, closed, again)

    def _tidy(self, *, keep: bool) -> None:
        journal = self._archive.read_journal()
        records = self._kept_records(journal) if keep else []
        snapshots = self._archive.read_snapshots(records, ended=True)
        self._checker.checkpoints_released(self._job, [snapshot.id for snapshot in snapshots])
        checkpoints = [record for record in journal.recovery_points if record.kind is RecordKind.CHECKPOINT]
        self._archive.delete_records(record for record in checkpoints if record not in records)
        self._delete_claimed(snapshots, keep=keep)
        self._archive.sweep(snapshots, journal.attempt, ended=True)

    def _kept_records(self, journal: Journal) -> list[Record]:
        """The job's own checkpoints, as many as are to be retained."""
        records = [record for record in journal.recovery_points if record.kind is RecordKind.CHECKPOINT]
        entries = [StoredSnapshot(record.checkpoint_id or 0, SnapshotKind.CHECKPOINT) for record in records]
        dropped = {entry.id for entry in subsumed(entries, self._config.retained)}
        return [record for record in records if record.checkpoint_id not in dropped]

    def _delete_claimed(self, own: Sequence[Snapshot], *, keep: bool) -> None:
        """A snapshot of another run that was claimed goes like the job's own checkpoints, of which it is the oldest."""
        claimed, retained = self._claimed, self._retained()
        if claimed is None or retained is None:
            return
        is_retained = claimed.id in [snapshot.id for snapshot in retained]
        if keep and is_retained and len(own) < self._config.retained:
            return
        self._checker.claimed_released(claimed)
        self._archive.delete_foreign(claimed, own)
