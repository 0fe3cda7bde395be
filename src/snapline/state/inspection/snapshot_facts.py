"""What a snapshot consists of: operators, states, files and sizes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from snapline.protocol.keygroups import KeyGroupRange
from snapline.protocol.snapshot import KeyedPart, OperatorState, Snapshot, StoredObject, SubtaskState
from snapline.state.inspection import snapshot_files
from snapline.state.state_files import StateFile
from snapline.state.state_info import StateKind, ValueEncoding
from snapline.storage.snapshot_reader import SnapshotReader
from snapline.types import SavepointFormat, SnapshotKind

PARALLEL_READS = 8
"""How many state files are read at a time: each takes a request or two."""


@dataclass(frozen=True, slots=True)
class StateFacts:
    """One state over all subtasks of its operator. `columns` are names and types, from the subtask with most rows."""

    name: str
    kind: StateKind
    encoding: ValueEncoding
    columns: tuple[tuple[str, str], ...]
    ttl_ms: int | None
    rows: int
    size_bytes: int
    subtasks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FileFacts:
    """A file of a backend."""

    path: str
    size_bytes: int
    is_shared: bool


@dataclass(frozen=True, slots=True)
class NativeFacts:
    """Keyed state in a backend's own files. `states` are the names of the states and their shapes."""

    subtask: int
    backend: str
    key_groups: KeyGroupRange
    files: tuple[FileFacts, ...]
    states: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class EdgeFacts:
    """In-flight data of one edge, captured at the inputs or the outputs of the operator."""

    edge: str
    side: str
    channels: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class SubtaskFacts:
    """What one subtask contributed. `ended`: its operator had finished; `finished`: the whole subtask had finished."""

    index: int
    key_groups: tuple[KeyGroupRange, ...]
    keyed_bytes: int
    operator_bytes: int
    channel_bytes: int
    ended: bool
    finished: bool


@dataclass(frozen=True, slots=True)
class OperatorFacts:
    uid: str
    parallelism: int
    max_parallelism: int
    fully_finished: bool
    size_bytes: int
    coordinator_bytes: int | None
    subtasks: tuple[SubtaskFacts, ...]
    states: tuple[StateFacts, ...]
    native: tuple[NativeFacts, ...]
    in_flight: tuple[EdgeFacts, ...]


@dataclass(frozen=True, slots=True)
class SnapshotFacts:
    """A whole snapshot. Sizes count every object once; `shared_bytes` are those outside its directory."""

    id: int
    kind: SnapshotKind
    format: SavepointFormat | None
    attempt: int
    timestamp_ms: int
    location: str
    size_bytes: int
    inline_bytes: int
    shared_bytes: int
    files: int
    operators: tuple[OperatorFacts, ...]
    hooks: tuple[tuple[str, int], ...]


def snapshot_facts(snapshot: Snapshot, source: SnapshotReader) -> SnapshotFacts:
    """Describe a snapshot without reading rows. Reads all footers; raises `StorageError` if one is unreadable."""
    with ThreadPoolExecutor(PARALLEL_READS, "snapline-inspect") as pool:
        items = [item for operator in snapshot.operators.values() for _, item in snapshot_files.state_objects(operator)]
        files = dict(zip(items, pool.map(lambda item: snapshot_files.describe_file(item, source), items), strict=True))
        distinct = set(snapshot.objects())
        # Files outside the job's directory may be out of reach from here.
        job = snapshot.location[: snapshot.location.rfind("/") + 1]
        near = [item for item in distinct - files.keys() if item.is_inline or item.path.startswith(job)]
        for _ in pool.map(lambda item: snapshot_files.check_file(item, source), near):
            pass
    own = f"{snapshot.location}/"
    return SnapshotFacts(
        snapshot.id,
        snapshot.kind,
        snapshot.format,
        snapshot.attempt,
        snapshot.timestamp_ms,
        snapshot.location,
        _size(distinct),
        _size(item for item in distinct if item.is_inline),
        _size(item for item in distinct if not item.is_inline and not item.path.startswith(own)),
        len({item.path for item in distinct if not item.is_inline}),
        tuple(_operator(operator, files, source) for operator in snapshot.operators.values()),
        tuple((name, item.size_bytes) for name, item in snapshot.hooks.items()),
    )


def _operator(operator: OperatorState, files: dict[StoredObject, StateFile], source: SnapshotReader) -> OperatorFacts:
    return OperatorFacts(
        operator.uid,
        operator.parallelism,
        operator.max_parallelism,
        operator.fully_finished,
        _size(set(operator.objects())),
        None if operator.coordinator is None else operator.coordinator.size_bytes,
        tuple(_subtask(index, state) for index, state in operator.subtasks.items()),
        tuple(_states(operator, files)),
        tuple(_native(index, part, source) for index, part in snapshot_files.native_parts(operator)),
        tuple(_edges(operator)),
    )


def _native(subtask: int, part: KeyedPart, source: SnapshotReader) -> NativeFacts:
    listing = snapshot_files.read_listing(part, source)
    with snapshot_files.library_damage(part.objects[0]):
        states = tuple((entry.info.state, str(entry.own_shape())) for entry in listing.states)
    files = tuple(FileFacts(item.path, item.size_bytes, item.shared_key is not None) for item in part.objects)
    return NativeFacts(subtask, str(part.native), part.key_groups, files, states)


def _subtask(index: int, state: SubtaskState) -> SubtaskFacts:
    return SubtaskFacts(
        index,
        tuple(dict.fromkeys(part.key_groups for part in state.keyed)),
        _size(item for part in state.keyed for item in part.objects),
        _size(part.object for part in state.operator),
        _size(part.object for part in (*state.inputs, *state.outputs)),
        state.ended,
        state.finished,
    )


def _states(operator: OperatorState, files: dict[StoredObject, StateFile]) -> Iterator[StateFacts]:
    found: dict[tuple[str, StateKind], list[tuple[int, StoredObject]]] = {}
    for index, item in snapshot_files.state_objects(operator):
        info = files[item].info
        found.setdefault((info.state, info.kind), []).append((index, item))
    for (name, kind), items in found.items():
        shown = max((files[item] for _, item in items), key=lambda file: file.rows)
        yield StateFacts(
            name,
            kind,
            shown.info.encoding,
            tuple((field.name, str(field.type)) for field in shown.schema),
            shown.info.ttl_ms,
            sum(files[item].rows for _, item in items),
            _size(item for _, item in items),
            tuple(sorted({index for index, _ in items})),
        )


def _edges(operator: OperatorState) -> Iterator[EdgeFacts]:
    for side in ("inputs", "outputs"):
        sizes: dict[str, list[int]] = {}
        for state in operator.subtasks.values():
            for part in state.inputs if side == "inputs" else state.outputs:
                sizes.setdefault(part.edge, []).append(part.object.size_bytes)
        for edge, channels in sizes.items():
            yield EdgeFacts(edge, side, len(channels), sum(channels))


def _size(items: Iterable[StoredObject]) -> int:
    return sum(item.size_bytes for item in items)
