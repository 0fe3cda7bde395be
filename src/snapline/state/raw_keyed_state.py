"""Raw keyed state: bytes that an operator encodes itself, by key group, so that they can be redistributed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from snapline.errors import UserCodeError
from snapline.protocol.keygroups import KeyGroupRange
from snapline.protocol.restore.restore_plan import KeyedRestore
from snapline.protocol.snapshot import KeyedPart
from snapline.state import state_files
from snapline.state.state_info import StateInfo, StateKind, ValueEncoding
from snapline.storage.snapshot_reader import SnapshotReader
from snapline.storage.snapshot_writer import SnapshotWriter

RAW_KEYED_STATE = "_raw"
"""The name raw keyed state is stored under."""


class RawKeyedState:
    """Pieces of bytes for the key groups of one subtask. For the task's thread only.

    An operator that keeps state of its own writes it here before a snapshot. After a restore it reads all pieces of
    the key groups it owns now, in the order in which they were written within each group.
    """

    def __init__(self, uid: str, key_groups: KeyGroupRange, max_parallelism: int) -> None:
        self._info = StateInfo(uid, RAW_KEYED_STATE, StateKind.RAW, max_parallelism, ValueEncoding.ARROW)
        self._key_groups = key_groups
        self._pieces: list[tuple[int, bytes]] = []

    def read(self) -> list[tuple[int, bytes]]:
        """All pieces, each with its key group."""
        return list(self._pieces)

    def write(self, key_group: int, data: bytes | bytearray | memoryview) -> None:
        """Append a piece to those of a key group of this subtask."""
        if key_group not in self._key_groups:
            raise UserCodeError(
                f"raw state for key group {key_group}, but this subtask owns {self._key_groups.start} to "
                f"{self._key_groups.end}; write a key's state where the key is processed"
            )
        if not isinstance(data, bytes | bytearray | memoryview):
            raise UserCodeError(f"raw state is bytes, not {type(data).__name__}; encode it first")
        self._pieces.append((key_group, bytes(data)))

    def clear(self) -> None:
        """Remove all pieces."""
        self._pieces.clear()

    def snapshot(self) -> RawKeyedSnapshot:
        """The synchronous part: the current pieces."""
        return RawKeyedSnapshot(self._info, self._key_groups, tuple(self._pieces))

    def restore(self, parts: Sequence[KeyedRestore], source: SnapshotReader) -> None:
        """Add what is stored for the key groups of this subtask."""
        for part in parts:
            if part.part.raw:
                for item in part.part.objects:
                    with source.open(item) as file:
                        _, table = state_files.read(file, part.key_groups)
                    groups, data = table.column("key_group").to_pylist(), table.column("data").to_pylist()
                    self._pieces += zip(groups, data, strict=True)


@dataclass(frozen=True, slots=True)
class RawKeyedSnapshot:
    """Raw keyed state to be written."""

    info: StateInfo
    key_groups: KeyGroupRange
    pieces: tuple[tuple[int, bytes], ...]

    def write(self, target: SnapshotWriter) -> tuple[KeyedPart, ...]:
        """The asynchronous part, on any thread."""
        if not self.pieces:
            return ()
        ordered = sorted(self.pieces, key=lambda piece: piece[0])
        groups, data = zip(*ordered, strict=True)
        table = pa.table({"key_group": pa.array(groups, pa.int32()), "data": pa.array(data, pa.binary())})
        return (KeyedPart(self.key_groups, (state_files.store("raw.parquet", self.info, table, target),), raw=True),)

    def release(self) -> None:
        """Nothing to do: the pieces are immutable."""
