"""What simulated operators keep: enough to tell afterwards which record had its effect how often."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from snapline.devtools.simulator.channels import Record
from snapline.devtools.simulator.scenario import MAX_PARALLELISM, Role, SimVertex
from snapline.devtools.simulator.storage import SimStorage
from snapline.protocol.commit import Committable
from snapline.protocol.keygroups import KeyGroupRange, key_group_range
from snapline.protocol.restore.restore_plan import SubtaskRestore
from snapline.protocol.snapshot import ChannelPart, KeyedPart, OperatorPart, StoredObject, SubtaskState
from snapline.types import OperatorStateMode

EDGES_PER_VERTEX = 4
MAX_INCREMENTS = 3


def mark(record_id: int, edge_number: int) -> int:
    """A record that came in over one of a vertex's edges, as one number."""
    return record_id * EDGES_PER_VERTEX + edge_number


@dataclass(slots=True)
class Captured:
    """The synchronous part of a snapshot: copies that later changes do not reach."""

    lists: dict[str, tuple[OperatorStateMode, tuple[Any, ...]]]
    keyed: dict[int, tuple[int, ...]] | None
    base: tuple[StoredObject, ...]
    ended: bool
    sequence: int


@dataclass(slots=True)
class Written:
    """What the asynchronous part will create, and how the snapshot describes it."""

    state: SubtaskState
    objects: dict[str, Any] = field(default_factory=dict)


class Operator:
    """The state of one subtask of one operator."""

    def __init__(self, vertex: SimVertex, index: int, parallelism: int, *, incremental: bool) -> None:
        self.vertex = vertex
        self.role = vertex.role
        self.index = index
        self.parallelism = parallelism
        self.key_groups = key_group_range(MAX_PARALLELISM, parallelism, index)
        self.seen: list[int] = []
        self.broadcast: list[int] = []
        self.keyed: dict[int, list[int]] = {}
        self.splits: dict[int, int] = {}
        self.incremental = incremental
        self._changed: dict[int, int] = {}
        self._sequence = 1
        self._taken: dict[int, tuple[int, tuple[StoredObject, ...]]] = {}
        self._base: tuple[int, tuple[StoredObject, ...]] | None = None

    def process(self, record: Record, edge_number: int) -> None:
        entry = mark(record.id, edge_number)
        if self.role is Role.KEYED:
            self.keyed.setdefault(record.key, []).append(entry)
            self._changed[record.key] = self._sequence
        else:
            self.seen.append(entry)

    def owns(self, record: Record) -> bool:
        """Whether a record that was replayed to several subtasks is this one's."""
        return record.key % MAX_PARALLELISM in self.key_groups

    # Snapshots.

    def capture(self, committables: Iterable[Committable], *, full: bool, ended: bool) -> Captured:
        """Copy everything; `full` leaves out no keyed state that an earlier checkpoint has already."""
        lists: dict[str, tuple[OperatorStateMode, tuple[Any, ...]]] = {}
        mode = OperatorStateMode.UNION if self.role is Role.UNION_LIST else OperatorStateMode.SPLIT
        if self.role is Role.SOURCE:
            lists["splits"] = (OperatorStateMode.SPLIT, tuple(sorted(self.splits.items())))
        elif self.role is not Role.KEYED:
            lists["seen"] = (mode, tuple(self.seen))
        if self.role is Role.SINK:
            lists["committables"] = (OperatorStateMode.SPLIT, tuple(committables))
        if self.broadcast:
            lists["broadcast"] = (OperatorStateMode.BROADCAST, tuple(self.broadcast))
        keyed: dict[int, tuple[int, ...]] | None = None
        base: tuple[StoredObject, ...] = ()
        if self.role is Role.KEYED:
            since = 0
            if self._base is not None and not full and len(self._base[1]) < MAX_INCREMENTS:
                since, base = self._base
            keyed = {key: tuple(marks) for key, marks in self.keyed.items() if self._changed.get(key, 1) > since}
        captured = Captured(lists, keyed, base, ended, self._sequence)
        self._sequence += 1
        return captured

    def write(
        self,
        captured: Captured,
        checkpoint_id: int,
        location: str,
        shared_location: str | None,
        attempt: int,
        channels: Iterable[tuple[bool, str, int, int, tuple[Record, ...]]],
    ) -> Written:
        """Describe a captured snapshot; `shared_location` is where keyed state goes if later ones may reuse it."""
        name = f"{self.vertex.id}-{self.index}-{attempt}"
        written = Written(SubtaskState())
        parts = []
        for list_name, (mode, elements) in captured.lists.items():
            item = _store(written, f"{location}/{name}-{list_name}", elements)
            parts.append(OperatorPart(list_name, mode, len(elements), item))
        keyed: tuple[KeyedPart, ...] = ()
        if captured.keyed is not None:
            if shared_location is None:
                own = _store(written, f"{location}/{name}-keyed", captured.keyed)
            else:
                path = f"{shared_location}/{name}-{checkpoint_id}"
                own = _store(written, path, captured.keyed, shared=True)
            objects = (*(replace(item, reused=True) for item in captured.base), own)
            keyed = (KeyedPart(self.key_groups, objects),)
            if shared_location is not None:
                self._taken[checkpoint_id] = (captured.sequence, objects)
        inputs: list[ChannelPart] = []
        outputs: list[ChannelPart] = []
        for is_input, edge, upstream, downstream, records in channels:
            side = "in" if is_input else "out"
            path = f"{location}/{name}-{side}-{edge}-{upstream}-{downstream}"
            part = ChannelPart(edge, upstream, downstream, _store(written, path, records))
            (inputs if is_input else outputs).append(part)
        written.state = SubtaskState(keyed, tuple(parts), tuple(inputs), tuple(outputs), ended=captured.ended)
        return written

    def completed(self, checkpoint_id: int) -> None:
        """Objects of a complete checkpoint may be referred to by later ones."""
        if checkpoint_id in self._taken:
            self._base = self._taken[checkpoint_id]
            self._taken = {taken: entry for taken, entry in self._taken.items() if taken > checkpoint_id}

    # Restore.

    def restore(self, part: SubtaskRestore, storage: SimStorage, *, reuse: bool) -> list[Committable]:
        """Take over assigned state; `reuse` allows later checkpoints to refer to the objects it came from."""
        committables: list[Committable] = []
        for name, refs in part.operator.items():
            elements = [storage.read(ref.object.path)[ref.index] for ref in refs]
            if name == "splits":
                self.splits.update(elements)
            elif name == "committables":
                committables.extend(elements)
            elif name == "broadcast":
                self.broadcast.extend(elements)
            elif self.role is Role.UNION_LIST:
                self.seen.extend(entry for entry in elements if entry % self.parallelism == self.index)
            else:
                self.seen.extend(elements)
        for keyed in part.keyed:
            for key, marks in read_keyed(keyed.part, storage, keyed.key_groups).items():
                self.keyed[key] = list(marks)
        if reuse and len(part.keyed) == 1 and part.keyed[0].key_groups == part.keyed[0].part.key_groups:
            objects = part.keyed[0].part.objects
            if self.incremental and all(item.shared_key is not None for item in objects):
                self._base = (1, objects)
                self._changed = dict.fromkeys(self.keyed, 1)
                self._sequence = 2
        return committables


def read_keyed(part: KeyedPart, storage: SimStorage, wanted: KeyGroupRange) -> Mapping[int, tuple[int, ...]]:
    """Keyed state of some key groups: later objects hold newer values."""
    state: dict[int, tuple[int, ...]] = {}
    for item in part.objects:
        for key, marks in storage.read(item.path).items():
            if key % MAX_PARALLELISM in wanted:
                state[key] = marks
    return state


def _store(written: Written, path: str, value: Any, *, shared: bool = False) -> StoredObject:
    written.objects[path] = value
    return StoredObject(path, len(value), path if shared else None)
