"""Keyed state of simulated operators: small, with increments that several checkpoints share."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO, cast

import msgspec

from snapline.config import Execution
from snapline.devtools.simulator.records import key_group_of
from snapline.graph.execution_plan import PlannedOperator
from snapline.protocol.keygroups import KeyGroupRange, key_group_range
from snapline.protocol.restore.restore_plan import KeyedRestore
from snapline.protocol.snapshot import KeyedPart, StoredObject
from snapline.state.operator_state import OperatorStates
from snapline.state.subtask_states import SubtaskStates
from snapline.storage.snapshot_reader import SnapshotReader
from snapline.storage.snapshot_writer import SnapshotWriter

MAX_INCREMENTS = 3


class MemoryFile:
    """Bytes that look like a local file."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def stat(self) -> Any:
        return SimpleNamespace(st_size=len(self._data))

    def read_bytes(self) -> bytes:
        return self._data

    def open(self, mode: str) -> BinaryIO:
        del mode
        return io.BytesIO(self._data)


class SimKeyedState:
    """Marks of records by key. Replaces a keyed backend."""

    def __init__(self, key_groups: KeyGroupRange) -> None:
        self.key_groups = key_groups
        self.taken: dict[int, tuple[int, tuple[StoredObject, ...]]] = {}
        self._values: dict[int, list[int]] = {}
        self._changed: dict[int, int] = {}
        self._sequence = 1
        self._base: tuple[int, tuple[StoredObject, ...]] | None = None

    @property
    def marks(self) -> list[int]:
        return [entry for marks in self._values.values() for entry in marks]

    def add(self, keys: Sequence[int], marks: Sequence[int]) -> None:
        for key, entry in zip(keys, marks, strict=True):
            if key_group_of(key) not in self.key_groups:
                raise AssertionError(f"key {key} is not in {self.key_groups}")
            self._values.setdefault(key, []).append(entry)
            self._changed[key] = self._sequence

    def snapshot(self, *, full: bool = False, canonical: bool = False) -> SimKeyedSnapshot:
        since, base = 0, tuple[StoredObject, ...]()
        if self._base is not None and not full and len(self._base[1]) < MAX_INCREMENTS:
            since, base = self._base
        values = {key: tuple(marks) for key, marks in self._values.items() if self._changed.get(key, 1) > since}
        snapshot = SimKeyedSnapshot(self, values, base, self._sequence, shares=not canonical)
        self._sequence += 1
        return snapshot

    def confirm(self, checkpoint_id: int) -> None:
        if checkpoint_id in self.taken:
            self._base = self.taken[checkpoint_id]
            self.taken = {taken: entry for taken, entry in self.taken.items() if taken > checkpoint_id}

    def abort(self, checkpoint_id: int) -> None:
        self.taken.pop(checkpoint_id, None)

    def close(self) -> None:
        """Holds no resources."""

    def restore(self, parts: Sequence[KeyedRestore], reader: SnapshotReader) -> None:
        for keyed in parts:
            for key, marks in read_keyed(keyed.part, reader, keyed.key_groups).items():
                self._values[key] = list(marks)
        if len(parts) == 1 and parts[0].key_groups == parts[0].part.key_groups == self.key_groups:
            objects = parts[0].part.objects
            if all(item.shared_key is not None for item in objects):
                self._base = (1, objects)
                self._changed = dict.fromkeys(self._values, 1)
                self._sequence = 2


class SimKeyedSnapshot:
    """Keyed state at one moment."""

    def __init__(
        self,
        state: SimKeyedState,
        values: Mapping[int, tuple[int, ...]],
        base: tuple[StoredObject, ...],
        sequence: int,
        *,
        shares: bool,
    ) -> None:
        self._state = state
        self._values = values
        self._base = base
        self._sequence = sequence
        self._shares = shares

    def write(self, writer: SnapshotWriter) -> tuple[KeyedPart, ...]:
        data = msgspec.msgpack.encode(self._values)
        if not self._shares:
            return (KeyedPart(self._state.key_groups, (writer.write("keyed", data),)),)
        file = cast(Path, MemoryFile(data))
        own = writer.share(f"keyed-{writer.checkpoint_id}", file)
        objects = (*(writer.reuse(item, file) for item in self._base), own)
        if own.shared_key is not None:
            self._state.taken[writer.checkpoint_id] = (self._sequence, objects)
        return (KeyedPart(self._state.key_groups, objects),)

    def release(self) -> None:
        """Holds no resources."""


def read_keyed(part: KeyedPart, reader: SnapshotReader, wanted: KeyGroupRange) -> Mapping[int, tuple[int, ...]]:
    """Returns the keyed state of some key groups; later objects hold newer values."""
    state: dict[int, tuple[int, ...]] = {}
    for item in part.objects:
        values = msgspec.msgpack.decode(reader.read(item), type=dict[int, tuple[int, ...]])
        state.update({key: marks for key, marks in values.items() if key_group_of(key) in wanted})
    return state


def make_sim_states(
    planned: PlannedOperator,
    *,
    subtask: int,
    parallelism: int,
    max_parallelism: int,
    execution: Execution,
    directory: object,
    clock: object,
) -> SubtaskStates:
    """`make_states` of simulated tasks."""
    del execution, directory, clock
    operator = OperatorStates(planned.uid, subtask, parallelism)
    if planned.key is None:
        return SubtaskStates(operator)
    keyed = SimKeyedState(key_group_range(max_parallelism, parallelism, subtask))
    return SubtaskStates(operator, cast(Any, keyed))
