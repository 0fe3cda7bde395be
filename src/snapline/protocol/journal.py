"""The job's journal: who may publish, and which checkpoints are canonical, derived from what is in the store.

The journal is a row of small objects, numbered without gaps at their creation and created only if absent. A driver
takes over by appending a claim; a checkpoint is complete once its record is appended. Because both go into the same
row, a driver of an older attempt that tries to publish finds the number taken, reads the claim there, and stops: the
fence needs nothing of the store but «create if absent».

The savepoint a job stops with is recorded too. It is not one of the job's checkpoints, but its completion commits
what sinks have prepared, so a recovery must never go back behind it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from snapline.protocol.snapshot import Snapshot


class RecordKind(Enum):
    """What a journal record says."""

    CLAIM = "CLAIM"
    CHECKPOINT = "CHECKPOINT"
    SAVEPOINT = "SAVEPOINT"


@dataclass(frozen=True, slots=True)
class Record:
    """One object of the journal. `checkpoint_id` and `location` are set unless it is a claim."""

    sequence: int
    kind: RecordKind
    attempt: int
    token: str
    checkpoint_id: int | None = None
    location: str | None = None


class Publication(Enum):
    """What the journal says about a record somebody tried to append."""

    OPEN = "OPEN"
    APPENDED = "APPENDED"
    FENCED = "FENCED"


class Journal:
    """The facts in one reading of the journal. Never changes: read again to know more."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self.records = tuple(sorted(records, key=lambda record: record.sequence))

    @property
    def attempt(self) -> int:
        """The newest attempt that has claimed the job; 0 before the first."""
        return max((record.attempt for record in self.records if record.kind is RecordKind.CLAIM), default=0)

    @property
    def next_sequence(self) -> int:
        return self.records[-1].sequence + 1 if self.records else 0

    @property
    def canonical(self) -> tuple[Record, ...]:
        """Published snapshots, oldest first: each was published while its attempt was the newest.

        A record whose attempt has no claim, or that stands behind a newer attempt's claim, is a stray of a driver
        that was slow to die, and counts for nothing.
        """
        newest: int | None = None
        canonical = []
        for record in self.records:
            if record.kind is RecordKind.CLAIM:
                newest = record.attempt if newest is None else max(newest, record.attempt)
            elif record.attempt == newest:
                canonical.append(record)
        return tuple(canonical)

    @property
    def checkpoints(self) -> tuple[Record, ...]:
        """The job's own checkpoints, oldest first."""
        return tuple(record for record in self.canonical if record.kind is RecordKind.CHECKPOINT)

    @property
    def latest(self) -> Record | None:
        """Where a recovery starts."""
        return self.canonical[-1] if self.canonical else None

    def claim(self, attempt: int, token: str) -> Record:
        """The record with which `attempt` takes over; `token` tells it from another driver's claim of that number."""
        return Record(self.next_sequence, RecordKind.CLAIM, attempt, token)

    def snapshot(self, snapshot: Snapshot, token: str) -> Record:
        """The record that makes a snapshot canonical."""
        kind = RecordKind.SAVEPOINT if snapshot.kind.is_savepoint else RecordKind.CHECKPOINT
        return Record(self.next_sequence, kind, snapshot.attempt, token, snapshot.id, snapshot.location)

    def publication(self, wanted: Record) -> Publication:
        """Where an append stands after its outcome was unclear: done, to be tried again, or never to be."""
        for record in self.records:
            if (record.kind, record.attempt, record.token, record.checkpoint_id) == (
                wanted.kind,
                wanted.attempt,
                wanted.token,
                wanted.checkpoint_id,
            ):
                return Publication.APPENDED
        is_fenced = (
            self.attempt >= wanted.attempt if wanted.kind is RecordKind.CLAIM else self.attempt != wanted.attempt
        )
        return Publication.FENCED if is_fenced else Publication.OPEN

    def obsolete(self, retained: Iterable[int]) -> tuple[Record, ...]:
        """Records that may be deleted when only `retained` checkpoint ids are kept.

        A claim stays as long as it is the newest, or guards a kept record against strays: without its own claim a
        record counts for nothing, so older claims can go once nothing they published is kept.
        """
        kept_ids = set(retained)
        kept = {
            record
            for record in self.canonical
            if record is self.latest or (record.kind is RecordKind.CHECKPOINT and record.checkpoint_id in kept_ids)
        }
        oldest_attempt = min((record.attempt for record in kept), default=self.attempt)
        return tuple(
            record
            for record in self.records
            if (record.attempt < oldest_attempt if record.kind is RecordKind.CLAIM else record not in kept)
        )
