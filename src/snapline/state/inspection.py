"""Looking into snapshots without a job: what is at a path, what a snapshot consists of, and the rows of its states."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum

import pyarrow as pa

from snapline.errors import (
    ConfigurationError,
    DamagedError,
    ObjectNotFoundError,
    RestoreError,
    SnaplineError,
)
from snapline.protocol.journal import RecordKind
from snapline.protocol.keygroups import KeyGroupRange
from snapline.protocol.snapshot import KeyedPart, OperatorState, Snapshot, StoredObject, SubtaskState
from snapline.state import state_files as state_format
from snapline.state.rocksdb_files import NATIVE, Listing, decode_listing, read_state, saved_database
from snapline.state.state_files import StateFile, StateInfo, StateKind, ValueEncoding
from snapline.storage import snapshot_metadata as metadata
from snapline.storage.journals.journal_store import ObjectJournal
from snapline.storage.object_paths import directory_location
from snapline.storage.object_store import ObjectStore
from snapline.storage.snapshot_reader import SnapshotReader
from snapline.types import SavepointFormat, SnapshotKind

PARALLEL_READS = 8
"""How many state files are looked at at a time: each takes a request or two of its own."""

_METADATA = "_metadata"
_CHECKPOINT = re.compile(r"chk-([0-9]{1,19})")


# What is at a path.


class Condition(Enum):
    """Whether a checkpoint directory can be restored from, as far as its files tell."""

    COMPLETE = "complete"
    HALF_WRITTEN = "half-written or never completed"
    FILES_MISSING = "files missing"
    DAMAGED = "damaged"


@dataclass(frozen=True, slots=True)
class CheckpointFacts:
    """One `chk-<n>` of a job's directory. `is_published` is none if the directory has no journal to tell.

    `problem` says more where the condition is not COMPLETE.
    """

    id: int
    location: str
    condition: Condition
    is_published: bool | None
    timestamp_ms: int | None
    size_bytes: int
    problem: str | None


@dataclass(frozen=True, slots=True)
class JobFacts:
    """The directory of a job. `restore_from` is what to take, none if there is nothing; `note` says why."""

    location: str
    checkpoints: tuple[CheckpointFacts, ...]
    restore_from: str | None
    note: str


def find(objects: ObjectStore, path: str) -> Snapshot | JobFacts:
    """What `path` names: a snapshot by its directory or its `_metadata`, or the directory of a job.

    `RestoreError` if it is none of these, with what it is instead; `DamagedError` if its metadata cannot be read.
    """
    if directory_location(path).is_root:
        raise ConfigurationError(f"{path} is a whole file system; name the directory of a snapshot or of a job")
    path = path.rstrip("/")
    location = path.removesuffix(f"/{_METADATA}")
    try:
        return metadata.decode(objects.read(f"{location}/{_METADATA}"), location)
    except ObjectNotFoundError:
        pass
    names = {info.path.removeprefix(f"{location}/"): info.size_bytes for info in objects.list(location)}
    if not names:
        is_file = objects.size_bytes(path) is not None
        problem = f"{path} is a file" if is_file else f"there is nothing at {path}"
        raise RestoreError(f"{problem}; name the directory of a snapshot or of a job")
    ids = sorted({int(match[1]) for name in names if (match := _CHECKPOINT.fullmatch(name.partition("/")[0]))})
    if ids:
        return _job(objects, location, ids, names)
    jobs = sorted({name.split("/")[0] for name in names if _CHECKPOINT.fullmatch(f"{name}//".split("/")[1])})
    if jobs:
        raise RestoreError(f"{location} holds the jobs {', '.join(jobs)}; name the directory of one of them")
    raise RestoreError(
        f"{location} has no {_METADATA}: half-written or never completed, or no snapshot at all; name another directory"
    )


def _job(objects: ObjectStore, location: str, ids: Iterable[int], names: dict[str, int]) -> JobFacts:
    published, stopped, note = _published(objects, location, names)
    checkpoints = tuple(_checkpoint(objects, location, number, names, published) for number in ids)
    if stopped is not None:
        return JobFacts(location, checkpoints, stopped, "the savepoint that the job was stopped with")
    good = [it for it in checkpoints if it.condition is Condition.COMPLETE]
    chosen = [it for it in good if it.is_published] or good
    if not chosen:
        return JobFacts(location, checkpoints, None, "no checkpoint is complete")
    return JobFacts(location, checkpoints, chosen[-1].location, f"the newest complete one{note}")


def _published(
    objects: ObjectStore, location: str, names: Iterable[str]
) -> tuple[frozenset[int] | None, str | None, str]:
    """The ids that the journal here knows, the savepoint the job was stopped with, and what to add to the advice."""
    if not any(name.startswith("journal/") for name in names):
        return None, None, "; there is no journal here that tells which were published"
    try:
        journal = ObjectJournal(objects, f"{location}/journal").read()
    except DamagedError as error:
        return None, None, f"; the journal cannot be read ({error})"
    latest = journal.latest
    stopped = latest.location if latest is not None and latest.kind is RecordKind.STOP else None
    ids = frozenset(record.checkpoint_id for record in journal.recovery_points if record.checkpoint_id is not None)
    return ids, stopped, "" if ids else "; the journal lists none"


def _checkpoint(
    objects: ObjectStore, job: str, number: int, names: dict[str, int], published: frozenset[int] | None
) -> CheckpointFacts:
    location = f"{job}/chk-{number}"
    size_bytes = sum(size for name, size in names.items() if name.startswith(f"chk-{number}/"))
    is_published = None if published is None else number in published
    if f"chk-{number}/{_METADATA}" not in names:
        absent = f"it has no {_METADATA}"
        return CheckpointFacts(number, location, Condition.HALF_WRITTEN, is_published, None, size_bytes, absent)
    try:
        snapshot = metadata.decode(objects.read(f"{location}/{_METADATA}"), location)
    except DamagedError as error:
        return CheckpointFacts(number, location, Condition.DAMAGED, is_published, None, size_bytes, str(error))
    needed: dict[str, int] = {}
    for item in snapshot.objects():
        if not item.is_inline and item.path.startswith(f"{job}/"):
            needed[item.path] = max(needed.get(item.path, 0), item.offset + item.size_bytes)
    sizes = {path: names.get(path.removeprefix(f"{job}/")) for path in sorted(needed)}
    missing = [path for path, size in sizes.items() if size is None]
    cut = [path for path, size in sizes.items() if size is not None and size < needed[path]]
    condition = Condition.COMPLETE
    problem: str | None = None
    if missing:
        condition = Condition.FILES_MISSING
        problem = f"{len(missing)} of its files are not there, {missing[0]} among them"
    elif cut:
        condition = Condition.DAMAGED
        problem = f"{len(cut)} of its files are cut off, {cut[0]} among them"
    return CheckpointFacts(number, location, condition, is_published, snapshot.timestamp_ms, size_bytes, problem)


# What a snapshot consists of.


@dataclass(frozen=True, slots=True)
class StateFacts:
    """One state over all subtasks of its operator. `columns` are names and types, from a subtask that has rows."""

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
    """Keyed state in a backend's own files. `states` has the names of the states and what they are."""

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
    """What one subtask contributed. `ended`: its operator had finished; `finished`: the subtask had left before."""

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
    """A snapshot as a whole. Sizes are of the objects it refers to, each once; `shared_bytes` of those outside it."""

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
    """Everything but the rows. Reads the footer of every state file; raises `StorageError` if one cannot be read."""
    with ThreadPoolExecutor(PARALLEL_READS, "snapline-inspect") as pool:
        items = [item for operator in snapshot.operators.values() for _, item in _state_objects(operator)]
        files = dict(zip(items, pool.map(lambda item: _described(item, source), items), strict=True))
        distinct = set(snapshot.objects())
        # What lies elsewhere may be out of reach from here.
        job = snapshot.location[: snapshot.location.rfind("/") + 1]
        near = [item for item in distinct - files.keys() if item.is_inline or item.path.startswith(job)]
        for _ in pool.map(lambda item: _check(item, source), near):
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
        tuple(_native(index, part, source) for index, part in _native_parts(operator)),
        tuple(_edges(operator)),
    )


def _native_parts(operator: OperatorState) -> Iterator[tuple[int, KeyedPart]]:
    for index, state in operator.subtasks.items():
        yield from ((index, part) for part in state.keyed if part.native is not None)


def _native(subtask: int, part: KeyedPart, source: SnapshotReader) -> NativeFacts:
    listing = _listing(part, source)
    with _readable(part.objects[0]):
        states = tuple((entry.info.state, str(entry.own_shape())) for entry in listing.states)
    files = tuple(_file(item) for item in part.objects)
    return NativeFacts(subtask, str(part.native), part.key_groups, files, states)


def _listing(part: KeyedPart, source: SnapshotReader) -> Listing:
    """What a backend's own files hold. RocksDB is the only backend that has some."""
    if not part.objects:
        raise DamagedError(
            f"the metadata names a {part.native} database for key groups {part.key_groups.start} to "
            f"{part.key_groups.end}, but no files"
        )
    item = part.objects[0]
    if part.native != NATIVE:
        raise ConfigurationError(
            f"{item.path} lists files of {part.native}, which cannot be shown; take a canonical savepoint of the job "
            "and look into that"
        )
    with _named(item), _readable(item):
        return decode_listing(source.read(item), item.path)


def _file(item: StoredObject) -> FileFacts:
    return FileFacts(item.path, item.size_bytes, item.shared_key is not None)


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
    for index, item in _state_objects(operator):
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


def _state_objects(operator: OperatorState) -> Iterator[tuple[int, StoredObject]]:
    """The state files of an operator, each with the subtask that wrote it."""
    for index, state in operator.subtasks.items():
        for part in state.keyed:
            if part.native is None:
                yield from ((index, item) for item in part.objects)
        yield from ((index, part.object) for part in state.operator)


def _described(item: StoredObject, source: SnapshotReader) -> StateFile:
    with _named(item), source.open(item) as file:
        return state_format.describe(file)


def _check(item: StoredObject, source: SnapshotReader) -> None:
    """That there is a file for an object, whatever it holds."""
    with _named(item):
        source.check(item)


@contextmanager
def _named(item: StoredObject) -> Iterator[None]:
    """Say which file of the snapshot is damaged or missing."""
    try:
        yield
    except ObjectNotFoundError as error:
        raise ObjectNotFoundError(
            f"{error.path}, a file of the snapshot, is not there; it was deleted, or the directory was moved without "
            "what it refers to",
            path=error.path,
        ) from error
    except DamagedError as error:
        if item.path in str(error):
            raise
        raise DamagedError(f"{item.path}: {error}") from error


@contextmanager
def _readable(item: StoredObject) -> Iterator[None]:
    """For files of a backend: whatever its library and Arrow raise for contents that make no sense."""
    try:
        yield
    except (GeneratorExit, SnaplineError):
        raise
    except Exception as error:
        raise DamagedError(
            f"{item.path} is damaged, or the files it lists are: {type(error).__name__}: {error}"
        ) from error


def _size(items: Iterable[StoredObject]) -> int:
    return sum(item.size_bytes for item in items)


# The rows of a state.


@dataclass(frozen=True, slots=True)
class Rows:
    """Some rows of a state as one subtask has written them."""

    subtask: int
    info: StateInfo
    table: pa.Table


def select(snapshot: Snapshot, source: SnapshotReader, name: str) -> tuple[OperatorState, str]:
    """The operator and the state that `name`, of the form uid/state, means. Both parts may contain slashes.

    `ConfigurationError` if there is no such state, with what there is.
    """
    cuts = [index for index, letter in enumerate(name) if letter == "/"]
    splits = [(name[:cut], name[cut + 1 :]) for cut in cuts if name[:cut] in snapshot.operators]
    if not splits:
        listed = ", ".join(sorted(snapshot.operators)) or "none"
        raise ConfigurationError(f"no operator of {name!r} is in the snapshot; write UID/NAME; the uids are: {listed}")
    known: set[str] = set()
    for uid, state in splits:
        operator = snapshot.operators[uid]
        for _, item in _state_objects(operator):
            found = _described(item, source).info.state
            if found == state:
                return operator, state
            known.add(f"{uid}/{found}")
        for _, part in _native_parts(operator):
            names = {entry.info.state for entry in _listing(part, source).states}
            if state in names:
                return operator, state
            known |= {f"{uid}/{found}" for found in names}
    raise ConfigurationError(
        f"there is no state {name!r} in the snapshot; there is: {', '.join(sorted(known)) or 'none'}"
    )


def rows(
    operator: OperatorState,
    state: str,
    source: SnapshotReader,
    *,
    key_groups: KeyGroupRange | None = None,
    subtask: int | None = None,
) -> Iterator[Rows]:
    """The rows of one state, some at a time, subtask by subtask; all of them, or only those asked for.

    `key_groups` leaves out operator state, which has none.
    """
    if subtask is not None and not 0 <= subtask < operator.parallelism:
        raise ConfigurationError(
            f"operator {operator.uid!r} has no subtask {subtask}, but 0 to {operator.parallelism - 1}"
        )
    for index, contributed in operator.subtasks.items():
        if subtask is not None and index != subtask:
            continue
        for part in contributed.keyed:
            if key_groups is None or part.key_groups.intersection(key_groups):
                yield from _keyed_rows(index, part, state, source, key_groups)
        if key_groups is None:
            for operator_part in contributed.operator:
                yield from _rows_of(index, operator_part.object, state, source, None)


def _keyed_rows(
    subtask: int, part: KeyedPart, state: str, source: SnapshotReader, key_groups: KeyGroupRange | None
) -> Iterator[Rows]:
    if part.native is not None:
        for info, table in native_tables(part, state, source, key_groups):
            yield Rows(subtask, info, table)
        return
    for item in part.objects:
        yield from _rows_of(subtask, item, state, source, key_groups)


def _rows_of(
    subtask: int, item: StoredObject, state: str, source: SnapshotReader, key_groups: KeyGroupRange | None
) -> Iterator[Rows]:
    with _named(item), source.open(item) as file:
        info = state_format.read_info(file)
        if info.state == state:
            for table in state_format.iterate(file, key_groups):
                yield Rows(subtask, info, table)


def native_tables(
    part: KeyedPart, state: str, source: SnapshotReader, key_groups: KeyGroupRange | None
) -> Iterator[tuple[StateInfo, pa.Table]]:
    """The rows of one state in a backend's own files, some at a time, as a state file would have them.

    The one place where inspection meets the files of a backend: they are fetched and opened as a database.
    """
    listing = _listing(part, source)
    for entry in listing.states:
        if entry.info.state == state:
            groups = part.key_groups if key_groups is None else part.key_groups.intersection(key_groups)
            with (
                _named(part.objects[0]),
                _readable(part.objects[0]),
                saved_database(listing, part.objects[1:], source) as database,
            ):
                for table in read_state(database, entry, entry.own_shape(), groups):
                    yield entry.info, table
