"""The completed checkpoints that a job keeps, and what to delete when one more is complete."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from snapline.protocol.retention.retention_rules import StoredSnapshot, subsumed
from snapline.protocol.retention.shared_registry import SharedStateRegistry
from snapline.protocol.snapshot import Snapshot, StoredObject, SubtaskState
from snapline.types import NO_CHECKPOINT, ClaimMode

_BEYOND_ALL = 2**63
"""Greater than any checkpoint id."""


@dataclass(frozen=True, slots=True)
class Retirement:
    """What to delete after a checkpoint has completed: whole snapshots, and shared objects without references.

    `subsumed_id` is the newest snapshot that it replaced, if that one can be deleted now.
    """

    delete: tuple[Snapshot, ...]
    shared: tuple[StoredObject, ...]
    subsumed_id: int = NO_CHECKPOINT


class RetainedSnapshots:
    """Completed checkpoints in order, with the registry of the objects they share.

    A snapshot that the job does not own (restored without a claim) is subsumed like any other, but never deleted.
    One of which only the journal knows whether it completed stays until it would have been subsumed, and counts for
    nothing.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._snapshots: dict[int, Snapshot] = {}
        self._not_owned: set[int] = set()
        self._unclear: dict[int, Snapshot] = {}
        self._postponed: dict[int, Snapshot] = {}
        self._registry: SharedStateRegistry[StoredObject] = SharedStateRegistry()

    @classmethod
    def restored(
        cls, limit: int, own: Iterable[Snapshot], foreign: Snapshot | None, claim_mode: ClaimMode
    ) -> RetainedSnapshots:
        """What a new attempt starts with: the job's own snapshots, and the foreign one that the user named.

        A savepoint among its own is one the job stopped with: it belongs to the user and is never deleted. Once the
        job has a snapshot of its own, a foreign one with NO_CLAIM is forgotten.
        """
        retained = cls(limit)
        own = list(own)
        if foreign is not None and not (own and claim_mode is ClaimMode.NO_CLAIM):
            retained._restore(foreign, claim=claim_mode is ClaimMode.CLAIM)
        for snapshot in own:
            if snapshot.kind.is_savepoint:
                retained._snapshots[snapshot.id] = snapshot
                retained._not_owned.add(snapshot.id)
            else:
                retained._restore(snapshot, claim=True)
        return retained

    def _restore(self, snapshot: Snapshot, *, claim: bool) -> None:
        self._snapshots[snapshot.id] = snapshot
        if not claim:
            self._not_owned.add(snapshot.id)
        self._registry.restored(snapshot.id, snapshot.shared(), claim=claim, sharing=snapshot.is_sharing)

    @property
    def snapshots(self) -> tuple[Snapshot, ...]:
        return tuple(self._snapshots.values())

    @property
    def needed(self) -> tuple[Snapshot, ...]:
        """The snapshots whose files must stay: all that completed, and those that may have."""
        return (*self._snapshots.values(), *self._unclear.values())

    @property
    def owned(self) -> tuple[Snapshot, ...]:
        """The snapshots that this job may delete."""
        return tuple(snapshot for snapshot in self._snapshots.values() if snapshot.id not in self._not_owned)

    @property
    def latest_id(self) -> int:
        return max(self._snapshots, default=NO_CHECKPOINT)

    def register(self, item: StoredObject, checkpoint_id: int) -> bool:
        """Notes that a pending checkpoint refers to a shared object. False if the object has been deleted.

        A subtask that has not heard of the last completed checkpoint may reuse what that one no longer needed.
        """
        assert item.shared_key is not None
        if item.reused and item.shared_key not in self._registry:
            return False
        self._registry.register(item.shared_key, item, checkpoint_id)
        return True

    def register_all(self, states: Iterable[SubtaskState], checkpoint_id: int) -> str | None:
        """Registers all shared objects of `states`. Returns the key of one that has been deleted, or None."""
        missing = None
        for state in states:
            for item in state.objects():
                if item.shared_key is not None and not self.register(item, checkpoint_id):
                    missing = item.shared_key
        return missing

    def add(self, snapshot: Snapshot) -> Retirement:
        """Adds a completed checkpoint and drops those that it subsumes."""
        self._snapshots[snapshot.id] = snapshot
        entries = [StoredSnapshot(entry.id, entry.kind) for entry in self._snapshots.values()]
        dropped_ids = [old.id for old in subsumed(entries, self.limit)]
        for old_id in dropped_ids:
            dropped = self._snapshots.pop(old_id)
            if old_id not in self._not_owned:
                self._postponed[old_id] = dropped
        for old_id in self._replaced_unclear():
            self._postponed[old_id] = self._unclear.pop(old_id)
        lowest = min((entry.id for entry in self.needed if not entry.kind.is_savepoint), default=snapshot.id)
        unused = self._registry.unregister_unused(lowest)
        delete = tuple(entry for entry in self._postponed.values() if entry.id not in unused.in_use)
        for entry in delete:
            del self._postponed[entry.id]
        newest_id = max(dropped_ids, default=NO_CHECKPOINT)
        subsumed_id = newest_id if any(entry.id == newest_id for entry in delete) else NO_CHECKPOINT
        return Retirement(delete, tuple(item for _, item in unused.deleted), subsumed_id)

    def add_unclear(self, snapshot: Snapshot) -> None:
        """Keeps a checkpoint that was given up while its record was on its way to the journal."""
        self._unclear[snapshot.id] = snapshot

    def _replaced_unclear(self) -> list[int]:
        """Returns those that no recovery would keep any more, even if they are in the journal."""
        return [
            unclear_id
            for unclear_id in self._unclear
            if sum(entry_id > unclear_id for entry_id in self._snapshots) >= self.limit
        ]

    def remaining_shared(self) -> tuple[StoredObject, ...]:
        """All shared objects that may be deleted once the job keeps no checkpoint at all."""
        return tuple(item for _, item in self._registry.unregister_unused(_BEYOND_ALL).deleted)
