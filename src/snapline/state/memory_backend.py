"""The memory backend: all state in columns in this process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from snapline.protocol.keygroups import KeyGroupRange
from snapline.protocol.snapshot import KeyedPart
from snapline.state import state_files
from snapline.state.keyed_backend import KeyedBackend, KeyedSnapshot
from snapline.state.state_info import StateInfo
from snapline.state.timers import FrozenTimers, timers_info
from snapline.state.value_tables import FrozenTable
from snapline.storage.snapshot_writer import SnapshotWriter


class MemoryBackend(KeyedBackend):
    """Keyed state in memory. Every snapshot is complete; its synchronous part only freezes the columns."""

    def snapshot(self, *, full: bool = False, canonical: bool = False) -> KeyedSnapshot:
        self.selection.settle()
        frozen: list[tuple[StateInfo, FrozenTable | FrozenTimers]] = [
            (state.info(self.uid, name, self.max_parallelism), state.values.freeze())
            for name, state in self._states.items()
        ]
        if self._timers is not None:
            frozen.append((timers_info(self.uid, self.max_parallelism), self._timers.freeze()))
        return MemorySnapshot(frozen, self.key_groups, self.max_parallelism)

    def close(self) -> None:
        self._states.clear()
        self._spaces.clear()
        self._timers = None

    def _stored_tables(self, name: str) -> list[pa.Table]:
        frozen = self._states[name].values.freeze()
        try:
            rows = frozen.rows(self.max_parallelism)
            return [rows.slice(0, rows.num_rows)]
        finally:
            frozen.release()


@dataclass(frozen=True, slots=True)
class MemorySnapshot(KeyedSnapshot):
    """States to be written in the open format, one object for each that is not empty."""

    frozen: Sequence[tuple[StateInfo, FrozenTable | FrozenTimers]]
    key_groups: KeyGroupRange
    max_parallelism: int

    def write(self, target: SnapshotWriter) -> tuple[KeyedPart, ...]:
        objects = []
        for info, frozen in self.frozen:
            target.check()
            rows = frozen.rows(self.max_parallelism)
            if rows.num_rows:
                objects.append(state_files.store(f"{info.state}.parquet", info, rows, target))
        return (KeyedPart(self.key_groups, tuple(objects)),) if objects else ()

    def release(self) -> None:
        for _, frozen in self.frozen:
            if isinstance(frozen, FrozenTable):
                frozen.release()
