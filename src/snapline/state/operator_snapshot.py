"""What a snapshot holds of the operator state of one operator in one subtask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from snapline.protocol.snapshot import OperatorPart, StoredObject
from snapline.state import state_files
from snapline.state.large_elements import LargeElement
from snapline.state.shared_objects import SharedObjects
from snapline.state.state_info import StateInfo, StateKind
from snapline.storage.snapshot_writer import SnapshotWriter
from snapline.types import OperatorStateMode

UNION_INLINE_BYTES = 512 << 20
"""Limit for inline union lists in what the driver sends when a job restarts: every subtask gets those of all."""

_FILE = "operator-state"

MODES: Final = {
    StateKind.OPERATOR_LIST: OperatorStateMode.SPLIT,
    StateKind.OPERATOR_UNION: OperatorStateMode.UNION,
    StateKind.OPERATOR_BROADCAST: OperatorStateMode.BROADCAST,
    StateKind.RAW_OPERATOR: OperatorStateMode.SPLIT,
}


@dataclass(frozen=True, slots=True)
class Content:
    """Entries of one state in stored form; `large` if it is an element that is an object of its own."""

    info: StateInfo
    table: pa.Table
    large: LargeElement | None = None

    @property
    def is_reported(self) -> bool:
        """An empty list adds nothing to a snapshot. An empty map is a copy like any other, and the coordinator has to
        know of every union list.
        """
        kinds = (StateKind.OPERATOR_BROADCAST, StateKind.OPERATOR_UNION)
        return self.elements > 0 or self.info.kind in kinds

    @property
    def elements(self) -> int:
        return 1 if self.large else self.table.num_rows


@dataclass(frozen=True, slots=True)
class OperatorSnapshot:
    """Operator state at one moment; immutable. `write` may be called from any thread."""

    _contents: tuple[Content, ...]
    _parallelism: int
    _large: SharedObjects[int]
    _numbers: Mapping[int, int]
    _reusable: Mapping[int, StoredObject]

    def write(self, target: SnapshotWriter) -> tuple[OperatorPart, ...]:
        """Write all states into one file, but for large elements. Raises what storage raises, or
        `SnapshotCancelledError`.
        """
        if not self._contents:
            self._large.offer(target.checkpoint_id, {})
            return ()
        small = [content for content in self._contents if content.large is None]
        files = [
            state_files.write(content.info, content.table, zstd=target.options.zstd, check=target.check)
            for content in small
        ]
        has_union = any(content.info.kind is StateKind.OPERATOR_UNION for content in small)
        most_inline = UNION_INLINE_BYTES // self._parallelism**2 if has_union else None
        stored = iter(target.write_slices(_FILE, [memoryview(file) for file in files], most_inline) if files else ())
        objects = [
            next(stored) if content.large is None else self._shared(number, content.large, target)
            for number, content in enumerate(self._contents)
        ]
        self._offer(target.checkpoint_id, objects)
        return tuple(
            OperatorPart(
                content.info.state,
                MODES[content.info.kind],
                content.elements,
                item,
                raw=content.info.kind is StateKind.RAW_OPERATOR,
            )
            for content, item in zip(self._contents, objects, strict=True)
        )

    def _shared(self, number: int, large: LargeElement, target: SnapshotWriter) -> StoredObject:
        known = self._reusable.get(self._numbers[id(large.element)])
        if known is not None:
            return target.reuse(known)
        return large.write(f"{target.checkpoint_id}-{large.info.state}-{number}", target)

    def _offer(self, checkpoint_id: int, objects: Sequence[StoredObject]) -> None:
        larges = [(content.large, item) for content, item in zip(self._contents, objects, strict=True)]
        written = {
            self._numbers[id(large.element)]: item
            for large, item in larges
            if large is not None and item.shared_key is not None
        }
        self._large.offer(checkpoint_id, written)
