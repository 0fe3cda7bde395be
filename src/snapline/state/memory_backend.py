"""The memory backend: all state in columns in this process."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from snapline.errors import RestoreError
from snapline.protocol.keygroups import KeyGroupRange
from snapline.protocol.restore.restore_plan import KeyedRestore
from snapline.protocol.snapshot import KeyedPart
from snapline.state import state_files
from snapline.state.keyed_backend import KeyedBackend, KeyedSnapshot, Registered
from snapline.state.state_info import StateInfo, StateKind, ValueEncoding
from snapline.state.state_types import StateType
from snapline.state.timers import TIMERS_STATE, FrozenTimers
from snapline.state.value_tables import FrozenTable, Layout
from snapline.storage.snapshot_reader import SnapshotReader
from snapline.storage.snapshot_writer import SnapshotWriter


class MemoryBackend(KeyedBackend):
    """Keyed state in memory. Every snapshot is whole; its synchronous part only takes hold of the columns."""

    def snapshot(self, *, full: bool = False, canonical: bool = False) -> KeyedSnapshot:
        frozen: list[tuple[StateInfo, FrozenTable | FrozenTimers]] = [
            (state.info(self.uid, name, self.max_parallelism), state.values.freeze())
            for name, state in self._states.items()
        ]
        if self._timers is not None:
            frozen.append((timers_info(self.uid, self.max_parallelism), self._timers.freeze()))
        return CanonicalSnapshot(frozen, self.key_groups, self.max_parallelism)

    def close(self) -> None:
        self._states.clear()
        self._spaces.clear()
        self._timers = None

    def _backing(self, name: str, layout: Layout, declared: StateType, ttl_ms: int | None) -> None:
        return None

    def _restore_native(self, part: KeyedRestore, source: SnapshotReader) -> None:
        raise RestoreError(
            f"{self.uid!r} was saved by the {part.part.native} backend in files of its own, which the memory backend "
            "cannot read; restore with that backend, or from a canonical savepoint"
        )

    def _stored_tables(self, name: str, known: Registered) -> list[pa.Table]:
        frozen = known.values.freeze()
        try:
            rows = frozen.rows(self.max_parallelism)
            return [rows.slice(0, rows.num_rows)]
        finally:
            frozen.release()

    def confirm(self, checkpoint_id: int) -> None:
        """No snapshot refers to another, so there is nothing to remember."""

    def abort(self, checkpoint_id: int) -> None:
        """No snapshot refers to another, so there is nothing to forget."""

    def _forget(self, name: str) -> None:
        """Nothing is kept elsewhere."""

    def _restored_some(self) -> None:
        """There is room for all of it, or there is none."""


def timers_info(uid: str, max_parallelism: int) -> StateInfo:
    return StateInfo(uid, TIMERS_STATE, StateKind.TIMERS, max_parallelism, ValueEncoding.ARROW)


class CanonicalSnapshot(KeyedSnapshot):
    """States to be written in the open format, one object for each that is not empty."""

    def __init__(
        self,
        frozen: Sequence[tuple[StateInfo, FrozenTable | FrozenTimers]],
        key_groups: KeyGroupRange,
        max_parallelism: int,
    ) -> None:
        self._frozen = frozen
        self._key_groups = key_groups
        self._max_parallelism = max_parallelism

    def write(self, target: SnapshotWriter) -> tuple[KeyedPart, ...]:
        objects = []
        for info, frozen in self._frozen:
            target.check()
            rows = frozen.rows(self._max_parallelism)
            if rows.num_rows:
                data = state_files.write(info, rows, zstd=target.options.zstd, check=target.check)
                objects.append(target.write(f"{info.state}.parquet", memoryview(data)))
        return (KeyedPart(self._key_groups, tuple(objects)),) if objects else ()

    def release(self) -> None:
        for _, frozen in self._frozen:
            if isinstance(frozen, FrozenTable):
                frozen.release()
