"""A small counting job with real state and storage but no runtime, for tests of crashes and restarts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from snapline.devtools.kit.stored_snapshots import JOURNAL
from snapline.protocol.keygroups import KeyGroupRange
from snapline.protocol.restore.restore_plan import RestoreVertex, plan_restore
from snapline.protocol.retention.retained_snapshots import RetainedSnapshots
from snapline.protocol.snapshot import OperatorState, Snapshot
from snapline.state.keyed_backend import KeyedBackend
from snapline.state.memory_backend import MemoryBackend
from snapline.state.operator_state import OperatorStates
from snapline.state.rocksdb.rocksdb_backend import RocksDbBackend
from snapline.state.subtask_states import SubtaskStates
from snapline.storage.archive import Archive
from snapline.storage.journals.journal_store import JournalStore, ObjectJournal
from snapline.storage.objects.object_store import ObjectStore
from snapline.storage.snapshot_reader import SnapshotReader
from snapline.storage.snapshot_writer import SnapshotWriter, WriteOptions
from snapline.types import ClaimMode, SnapshotKind, SubtaskId

UID = "counts"
STATE = "n"
MAX_PARALLELISM = 128


class CountingJob:
    """One driver with one subtask that counts words. It claims the job and continues from its last checkpoint.

    `scratch` is an empty directory of its own. The driver does not retry storage failures, so that tests see them.
    """

    def __init__(
        self,
        objects: ObjectStore,
        directory: str,
        scratch: Path,
        *,
        backend: str = "memory",
        driver: str = "driver",
        retained: int = 1,
        options: WriteOptions | None = None,
        journal: JournalStore | None = None,
    ) -> None:
        self.objects = objects
        self._options = options
        journal = journal or ObjectJournal(objects, f"{directory}/{JOURNAL}")
        self.archive = Archive(objects, journal, directory, driver, retries=0, retry_pause_s=0)
        claimed, is_ours = self.archive.claim()
        assert is_ours
        self.attempt = claimed.attempt
        self.recovered = self.archive.recover(self.attempt)
        self.retained = RetainedSnapshots.restored(retained, self.recovered.snapshots, None, ClaimMode.NO_CLAIM)
        groups = KeyGroupRange(0, MAX_PARALLELISM - 1)
        common: dict[str, Any] = {"max_parallelism": MAX_PARALLELISM, "key_groups": groups, "clock": int, "uid": UID}
        self.keyed: KeyedBackend
        if backend == "memory":
            self.keyed = MemoryBackend("string", **common)
        else:
            self.keyed = RocksDbBackend("string", directory=scratch, **common)
        self.states = SubtaskStates(OperatorStates(UID, 0), self.keyed)
        try:
            self._restore()
        except BaseException:
            self.close()
            raise

    @property
    def latest(self) -> Snapshot | None:
        return self.retained.snapshots[-1] if self.retained.snapshots else None

    def _restore(self) -> None:
        if self.latest is not None:
            plan = plan_restore(self.latest, [RestoreVertex(UID, 1, (UID,))], [])
            self.states.restore(plan.subtasks[SubtaskId(UID, 0)][UID], SnapshotReader(self.objects))

    def count(self, words: Sequence[str]) -> None:
        """Count each of these words once."""
        self.keyed.reducing_state(STATE, "bigint", "sum").add_all(words, [1] * len(words))

    def counts(self, words: Sequence[str]) -> list[int | None]:
        counted: list[int | None] = self.keyed.reducing_state(STATE, "bigint", "sum").take(words).to_pylist()
        return counted

    def checkpoint(self) -> Snapshot:
        """Take a checkpoint, publish it and delete what it subsumes. After a failure the job must not be used."""
        checkpoint_id = self.archive.reserve_id(self.attempt, f"after {self.retained.latest_id}")
        location = self.archive.location(checkpoint_id)
        target = SnapshotWriter(
            self.objects,
            location,
            self.archive.shared_directory,
            attempt=self.attempt,
            checkpoint_id=checkpoint_id,
            uid=UID,
            subtask=0,
            options=self._options,
        )
        written = self.states.snapshot().write(target)
        assert self.retained.register_all([written.state], checkpoint_id) is None
        operators = {UID: OperatorState(UID, 1, MAX_PARALLELISM, {0: written.state})}
        snapshot = Snapshot(
            checkpoint_id, SnapshotKind.CHECKPOINT, self.attempt, 1_000 * checkpoint_id, location, operators
        )
        self.archive.write_metadata(snapshot)
        self.archive.publish(snapshot)
        retirement = self.retained.add(snapshot)
        self.states.confirm(checkpoint_id)
        for old in retirement.delete:
            self.archive.delete_snapshot(old, self.retained)
        self.archive.delete_shared(retirement.shared, self.retained)
        return snapshot

    def close(self) -> None:
        self.states.close()
