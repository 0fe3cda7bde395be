"""Large elements of list states: a checkpoint writes them once, and later ones refer to them.

Without this, every checkpoint would write again what a sink keeps for commits that take longer than the interval.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count

import pyarrow as pa

from snapline.protocol.snapshot import StoredObject
from snapline.state import state_files
from snapline.state.shared_objects import SharedObjects
from snapline.state.state_info import StateInfo
from snapline.storage.snapshot_writer import SnapshotWriter

LARGE_BYTES = 1 << 20
"""From this size on, an element of bytes is an object of its own."""


@dataclass(frozen=True, slots=True)
class LargeElement:
    """An element of the state that `info` describes, which is an object of its own."""

    info: StateInfo
    schema: pa.Schema
    element: bytes

    def write(self, name: str, target: SnapshotWriter) -> StoredObject:
        table = pa.Table.from_arrays([pa.array([self.element], self.schema.types[0])], schema=self.schema)
        file = state_files.write(self.info, table, zstd=target.options.zstd, check=target.check)
        return target.share_data(name, memoryview(file))


def runs(elements: Sequence[bytes]) -> Iterator[list[bytes]]:
    """The elements in order, each large one alone."""
    run: list[bytes] = []
    for element in elements:
        if len(element) < LARGE_BYTES:
            run.append(element)
            continue
        if run:
            yield run
        yield [element]
        run = []
    if run:
        yield run


class LargeElements:
    """Which elements checkpoints have written. An element counts as the same while it is the same Python object."""

    def __init__(self) -> None:
        self._numbers = count()
        self._numbered: dict[int, tuple[bytes, int]] = {}
        """By identity. It keeps the elements alive, so that no other gets their identity."""
        self.objects = SharedObjects[int]()
        """Where they are, by their numbers."""

    def numbered(self, elements: Iterable[bytes]) -> dict[int, int]:
        """The elements of the next snapshot, all of them: the number of each, by its identity.

        An element keeps its number while it is in every snapshot. One that comes back gets another: the file of the
        old one may be deleted with the last checkpoint that had it.
        """
        known = self._numbered
        self._numbered = {id(element): known.get(id(element)) or (element, next(self._numbers)) for element in elements}
        return {identity: number for identity, (_, number) in self._numbered.items()}
