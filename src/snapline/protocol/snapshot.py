"""Snapshots as immutable descriptions of stored objects, never the objects themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from snapline.protocol.keygroups import KeyGroupRange
from snapline.protocol.lineage import UNKNOWN_LINEAGE, Lineage
from snapline.types import OperatorStateMode, SavepointFormat, SnapshotKind, SubtaskId


@dataclass(frozen=True, slots=True)
class StoredObject:
    """One object in checkpoint storage. `shared_key` is set if several checkpoints may refer to it.

    In an acknowledgement, `reused` marks a shared object that was not written anew, so it must still exist. Several
    objects may be slices of one file, each from its `offset`. Small objects have no file: they travel with the
    metadata, as `data`, and their path is only a name. `crc32` is that of the object's bytes.
    """

    path: str
    size_bytes: int
    shared_key: str | None = None
    reused: bool = field(default=False, compare=False)
    offset: int = 0
    crc32: int | None = field(default=None, compare=False)
    data: bytes | None = field(default=None, compare=False, repr=False)

    @property
    def is_inline(self) -> bool:
        return self.data is not None


@dataclass(frozen=True, slots=True)
class KeyedPart:
    """Keyed state of a range of key groups.

    One object for each state, or, if `native` names a backend, that backend's own files: the first object lists the
    names of the others in the backend's directory.
    """

    key_groups: KeyGroupRange
    objects: tuple[StoredObject, ...]
    raw: bool = False
    native: str | None = None


@dataclass(frozen=True, slots=True)
class OperatorPart:
    """One named list state of one subtask, or a piece of it; the object holds `elements` entries.

    The pieces of a list are in order.
    """

    name: str
    mode: OperatorStateMode
    elements: int
    object: StoredObject
    raw: bool = False


@dataclass(frozen=True, slots=True)
class ChannelPart:
    """In-flight data of one channel of `edge`, captured on one of its sides."""

    edge: str
    upstream: int
    downstream: int
    object: StoredObject


@dataclass(frozen=True, slots=True)
class SubtaskState:
    """What one subtask of one operator contributed to a checkpoint.

    `ended`: the operator had finished and only waited for its last checkpoint. `finished`: the subtask had left
    before, so there is nothing to restore. `watermark_ms` is None before the first watermark.
    """

    keyed: tuple[KeyedPart, ...] = ()
    operator: tuple[OperatorPart, ...] = ()
    inputs: tuple[ChannelPart, ...] = ()
    outputs: tuple[ChannelPart, ...] = ()
    ended: bool = False
    finished: bool = False
    watermark_ms: int | None = None

    @property
    def has_union(self) -> bool:
        """Whether it has union list state."""
        return any(part.mode is OperatorStateMode.UNION for part in self.operator)

    def objects(self) -> Iterator[StoredObject]:
        for keyed in self.keyed:
            yield from keyed.objects
        for part in self.operator:
            yield part.object
        for channel in (*self.inputs, *self.outputs):
            yield channel.object


@dataclass(frozen=True, slots=True)
class OperatorState:
    """One operator in a checkpoint. A fully finished operator has no subtask states."""

    uid: str
    parallelism: int
    max_parallelism: int
    subtasks: Mapping[int, SubtaskState] = field(default_factory=dict)
    coordinator: StoredObject | None = None
    fully_finished: bool = False

    def objects(self) -> Iterator[StoredObject]:
        for state in self.subtasks.values():
            yield from state.objects()
        if self.coordinator is not None:
            yield self.coordinator

    @property
    def is_partly_finished(self) -> bool:
        return not self.fully_finished and any(state.finished for state in self.subtasks.values())


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A complete checkpoint or savepoint, as its metadata describes it."""

    id: int
    kind: SnapshotKind
    attempt: int
    timestamp_ms: int
    location: str
    operators: Mapping[str, OperatorState]
    hooks: Mapping[str, StoredObject] = field(default_factory=dict)
    format: SavepointFormat | None = None
    lineage: Lineage = UNKNOWN_LINEAGE

    @property
    def metadata_path(self) -> str:
        return f"{self.location}/_metadata"

    def objects(self) -> Iterator[StoredObject]:
        for operator in self.operators.values():
            yield from operator.objects()
        yield from self.hooks.values()

    def shared(self) -> dict[str, StoredObject]:
        return {item.shared_key: item for item in self.objects() if item.shared_key is not None}

    @property
    def is_sharing(self) -> bool:
        """Whether later checkpoints may refer to single objects of this one; never for savepoints."""
        return not self.kind.is_savepoint


@dataclass(frozen=True, slots=True)
class VertexInfo:
    """A vertex as the coordinator needs it, with its operators from head to tail."""

    id: str
    parallelism: int
    max_parallelism: int
    operators: tuple[str, ...]
    coordinators: tuple[str, ...] = ()

    def subtasks(self) -> Iterator[SubtaskId]:
        for index in range(self.parallelism):
            yield SubtaskId(self.id, index)
