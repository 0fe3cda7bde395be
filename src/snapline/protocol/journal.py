"""The job's journal: who may publish, and which snapshots are canonical, derived from the records in the store.

The journal needs only "create if absent" and listing from the store. It has a claim for each attempt, and for each
attempt a row of records, numbered from 0, to which only the driver of this attempt appends snapshots:

- A driver that takes over first appends a seal to the row of the newest attempt, and then creates the claim of the
  next. A driver that is still alive finds the next number of its row taken by the seal, and stops: it is fenced.
- So the row of every attempt but the newest is sealed. An unsealed older row was deleted once, and holds a stray that
  a slow process created afterwards: it is ignored.
- A seal counts only at the end of its row, and a claim only if it is the newest: others are strays as well, created
  too late where something has been deleted.
- An end in place of the next claim closes the job. A job that failed is not closed: the next driver takes over behind
  the end, as behind any other attempt.
- Checkpoint ids are reserved one by one, and only the newest reservation counts. So no two attempts use the same id,
  and what an attempt deletes under an id, however late, is its own.

Savepoints are recorded too. The one a job stops with is not one of its checkpoints, but its completion commits what
sinks have prepared, so a recovery must never go back behind it. A recovery never starts from any other savepoint, but
a user may restore it later: a recovery that goes back behind it must not abort what sinks had prepared for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from snapline.protocol.snapshot import Snapshot
from snapline.types import NO_CHECKPOINT, JobStatus, SnapshotKind

_LINEAGE_DIGITS = 12


class RecordKind(Enum):
    """The kinds of journal records."""

    CLAIM = "CLAIM"
    END = "END"
    SEAL = "SEAL"
    CHECKPOINT = "CHECKPOINT"
    STOP = "STOP"
    SAVEPOINT = "SAVEPOINT"
    ID = "ID"

    @property
    def is_claim(self) -> bool:
        """Whether the record stands for an attempt as a whole, not in its row."""
        return self is RecordKind.CLAIM or self is RecordKind.END


_RECORD_OF = {
    SnapshotKind.CHECKPOINT: RecordKind.CHECKPOINT,
    SnapshotKind.SYNC_SAVEPOINT: RecordKind.STOP,
    SnapshotKind.SAVEPOINT: RecordKind.SAVEPOINT,
}


@dataclass(frozen=True, slots=True)
class Record:
    """One object of the journal, created once under its `name`. `token` tells drivers apart.

    Snapshots have `checkpoint_id` and `location`, the end of the job has `status`. Claims and ends have the `lineage`
    that the job began with, which every driver takes over: "" in journals of versions that had none.
    """

    kind: RecordKind
    attempt: int
    token: str
    sequence: int = 0
    checkpoint_id: int | None = None
    location: str | None = None
    status: JobStatus | None = None
    lineage: str = ""

    @property
    def name(self) -> str:
        """The place of the record in the journal; names sort like the numbers in them."""
        if self.kind.is_claim:
            return f"claims/{self.attempt:019d}"
        if self.kind is RecordKind.ID:
            return f"ids/{self.checkpoint_id:019d}"
        return f"rows/{self.attempt:019d}/{self.sequence:019d}"

    def is_same(self, other: Record) -> bool:
        """Whether both are the same record, whatever their place in the row."""
        return (self.kind, self.attempt, self.token, self.checkpoint_id) == (
            other.kind,
            other.attempt,
            other.token,
            other.checkpoint_id,
        )


class Publication(Enum):
    """Whether a record is in the journal, may still get there, or never will."""

    OPEN = "OPEN"
    APPENDED = "APPENDED"
    FENCED = "FENCED"


class Journal:
    """One reading of the journal. Immutable: read again for news."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self.records = tuple(sorted(records, key=lambda record: record.name))
        self._rows: dict[int, list[Record]] = {}
        self._newest: Record | None = None
        self._newest_id: Record | None = None
        self._newest_end: Record | None = None
        for record in self.records:
            if record.kind is RecordKind.ID:
                self._newest_id = record
            elif not record.kind.is_claim:
                self._rows.setdefault(record.attempt, []).append(record)
            elif self._newest is None or record.attempt > self._newest.attempt:
                self._newest = record
                self._newest_end = record if record.kind is RecordKind.END else self._newest_end

    # Facts.

    @property
    def attempt(self) -> int:
        """The newest attempt that has claimed the job, or closed it; 0 before the first."""
        return 0 if self._newest is None else self._newest.attempt

    @property
    def lineage(self) -> str:
        """What the job's own lineage is called; "" if no claim says so."""
        return "" if self._newest is None else self._newest.lineage

    @property
    def ended(self) -> JobStatus | None:
        """How the job ended, or None."""
        return None if self._newest is None else self._newest.status

    @property
    def is_closed(self) -> bool:
        """Whether no driver may run the job again. One that failed goes on once its code is mended."""
        return self.ended is not None and self.ended is not JobStatus.FAILED

    @property
    def failed_before(self) -> int | None:
        """The attempt whose failure ended the job, if the newest attempt is the first one since; else None."""
        end = self._newest_end
        return end.attempt - 1 if end is not None and end.attempt == self.attempt - 1 else None

    @property
    def canonical(self) -> tuple[Record, ...]:
        """Published snapshots, oldest first."""
        return tuple(
            record
            for attempt in sorted(self._rows)
            if attempt == self.attempt or (attempt < self.attempt and self._is_sealed(attempt))
            for record in self._rows[attempt]
            if record.kind is not RecordKind.SEAL
        )

    @property
    def recovery_points(self) -> tuple[Record, ...]:
        """The job's own checkpoints and the savepoints it stopped with, oldest first."""
        return tuple(record for record in self.canonical if record.kind is not RecordKind.SAVEPOINT)

    @property
    def latest(self) -> Record | None:
        """Where a recovery starts."""
        points = self.recovery_points
        return points[-1] if points else None

    @property
    def prepared_until(self) -> int:
        """The newest id whose prepared transactions a recovery or a restored savepoint may still commit."""
        return max((record.checkpoint_id or 0 for record in self.canonical), default=NO_CHECKPOINT)

    def _is_sealed(self, attempt: int) -> bool:
        row = self._rows.get(attempt)
        return row is not None and row[-1].kind is RecordKind.SEAL

    # What to create next.

    def take_over(self, token: str) -> Record:
        """The next record on the way to a new attempt: the seal of the newest row if it is missing, else the claim."""
        if self.attempt and not self._is_sealed(self.attempt):
            return self._seal(token)
        return Record(RecordKind.CLAIM, self.attempt + 1, token, lineage=self.lineage or token[:_LINEAGE_DIGITS])

    def close(self, token: str, status: JobStatus) -> Record:
        """The next record on the way to the end of the job."""
        if not self._is_sealed(self.attempt):
            return self._seal(token)
        return Record(RecordKind.END, self.attempt + 1, token, status=status, lineage=self.lineage)

    def publish(self, snapshot: Snapshot, token: str) -> Record:
        """The record that makes a snapshot canonical."""
        kind, sequence = _RECORD_OF[snapshot.kind], self._next(snapshot.attempt)
        return Record(kind, snapshot.attempt, token, sequence, snapshot.id, snapshot.location)

    def _seal(self, token: str) -> Record:
        return Record(RecordKind.SEAL, self.attempt, token, self._next(self.attempt))

    def _next(self, attempt: int) -> int:
        row = self._rows.get(attempt)
        return row[-1].sequence + 1 if row else 0

    def reserve_id(self, attempt: int, token: str, *, after: int = 0) -> Record:
        """The record that reserves a checkpoint id, above all that were ever reserved and above `after`.

        If the newest reservation has this attempt and token, it is returned.
        """
        newest = self._newest_id
        if newest is not None and (newest.attempt, newest.token) == (attempt, token):
            return newest
        last = 0 if newest is None else newest.checkpoint_id or 0
        return Record(RecordKind.ID, attempt, token, checkpoint_id=max(last, after) + 1)

    def owns(self, attempt: int, token: str) -> bool:
        """Whether the newest attempt is this one, claimed with this token."""
        newest = self._newest
        return newest is not None and (newest.attempt, newest.token) == (attempt, token) and newest.status is None

    def publication(self, wanted: Record) -> Publication:
        """Whether an append is done, can be tried again, or is fenced.

        Ask after every append, not only after an unclear outcome: a process that slept for long can create a record
        where one has been deleted, and only this tells it that the record is a stray. A driver that is fenced after an
        append must keep the snapshot: its record may have been canonical, and obsolete since.
        """
        if wanted.kind.is_claim:
            if self._newest is not None and self._newest.is_same(wanted):
                return Publication.APPENDED
            return Publication.FENCED if self.attempt >= wanted.attempt else Publication.OPEN
        if wanted.kind is RecordKind.ID:
            is_newest = self._newest_id is not None and self._newest_id.is_same(wanted)
            return Publication.APPENDED if is_newest else Publication.OPEN
        if wanted.kind is RecordKind.SEAL:
            is_sealed = self.attempt > wanted.attempt or self._is_sealed(wanted.attempt)
            return Publication.APPENDED if is_sealed else Publication.OPEN
        if any(record.is_same(wanted) for record in self.canonical):
            return Publication.APPENDED
        is_fenced = self.attempt != wanted.attempt or self._is_sealed(wanted.attempt)
        return Publication.FENCED if is_fenced else Publication.OPEN

    def obsolete(self, retained: Iterable[int]) -> tuple[Record, ...]:
        """Records that may be deleted when only `retained` checkpoint ids are kept.

        Of claims, ends and reserved ids only the newest stays. A seal stays as long as something in its row does,
        and those of the two newest rows always.
        """
        kept_ids, latest = set(retained), self.latest
        kept = {
            record
            for record in self.canonical
            if record is latest
            or (record.kind is RecordKind.CHECKPOINT and record.checkpoint_id in kept_ids)
            or (record.kind is RecordKind.SAVEPOINT and (latest is None or record.name > latest.name))
        }
        sealed = {record.attempt for record in kept} | {self.attempt, self.attempt - 1}
        return tuple(record for record in self.records if not self._is_needed(record, kept, sealed))

    def _is_needed(self, record: Record, kept: set[Record], sealed: set[int]) -> bool:
        if record.kind.is_claim:
            return record is self._newest or record is self._newest_end
        if record.kind is RecordKind.ID:
            return record is self._newest_id
        if record.kind is RecordKind.SEAL:
            return record.attempt in sealed and record is self._rows[record.attempt][-1]
        return record in kept
