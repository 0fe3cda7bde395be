"""Where one subtask writes its snapshots and reads those it starts from."""

from __future__ import annotations

from pathlib import Path

from snapline.storage.local_copies import LocalCopies, subtask_directory
from snapline.storage.objects.object_store import ObjectStore
from snapline.storage.snapshot_reader import SnapshotReader
from snapline.storage.snapshot_writer import SnapshotWriter, WriteOptions
from snapline.types import NO_CHECKPOINT, Barrier, ExecutionId


class SubtaskStorage:
    """The storage of one execution. `local_directory` holds the job's copies on this machine; None disables them."""

    def __init__(
        self,
        objects: ObjectStore,
        execution: ExecutionId,
        shared: str | None,
        options: WriteOptions,
        local_directory: Path | None,
    ) -> None:
        self._objects = objects
        self._execution = execution
        self._shared = shared
        self._options = options
        self._local: LocalCopies | None = None
        if local_directory is not None:
            self._local = LocalCopies(subtask_directory(local_directory, *execution.subtask))

    def writer(self, uid: str, barrier: Barrier) -> SnapshotWriter:
        is_savepoint = barrier.snapshot.is_savepoint
        return SnapshotWriter(
            self._objects,
            barrier.location,
            None if is_savepoint or barrier.location is None else self._shared,
            attempt=self._execution.attempt,
            checkpoint_id=barrier.id,
            uid=uid,
            subtask=self._execution.subtask.index,
            options=self._options,
            local=None if is_savepoint else self._local,
        )

    def reader(self, checkpoint_id: int) -> SnapshotReader:
        """Returns a reader for the state of a checkpoint and forgets local copies of all others."""
        restored_id = None if checkpoint_id == NO_CHECKPOINT else checkpoint_id
        if self._local is not None:
            self._local.retain_only(restored_id)
        return SnapshotReader(self._objects, self._local, restored_id)

    def completed(self, checkpoint_id: int) -> None:
        if self._local is not None:
            self._local.confirm(checkpoint_id)

    def aborted(self, checkpoint_id: int) -> None:
        if self._local is not None:
            self._local.abort(checkpoint_id)
