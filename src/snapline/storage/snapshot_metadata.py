"""The `_metadata` file of a snapshot: a header line with a checksum, and a line with the snapshot.

`docs/state-format.md` describes every field for readers without Snapline; the classes below are the same in code.
Fields at their defaults are left out. A new or changed field needs a new format version.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, TypeAlias, TypeVar

import msgspec
from msgspec import Meta, Struct

from snapline.errors import ConfigurationError, DamagedError, EngineError, StorageError
from snapline.protocol.keygroups import MAX_PARALLELISM_LIMIT, KeyGroupRange
from snapline.protocol.lineage import UNKNOWN_LINEAGE, Lineage
from snapline.protocol.snapshot import (
    ChannelPart,
    KeyedPart,
    OperatorPart,
    OperatorState,
    Snapshot,
    StoredObject,
    SubtaskState,
)
from snapline.storage.objects.object_paths import is_below
from snapline.types import NO_CHECKPOINT, OperatorStateMode, SavepointFormat, SnapshotKind

FORMAT = "snapline-snapshot"
FORMAT_VERSION = 2
"""The version `encode` writes, and the newest `decode` reads. Every version from 1 on stays readable."""

METADATA_LIMIT_BYTES = 256 << 20
"""Largest metadata file. No message of a restore is larger than the metadata, so each fits a frame."""

_SHARED = "../shared/"

_Count: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1)]
_Time: TypeAlias = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
_Crc32: TypeAlias = Annotated[int, Meta(ge=0, le=2**32 - 1)]
_Parallelism: TypeAlias = Annotated[int, Meta(ge=1, le=MAX_PARALLELISM_LIMIT)]

T = TypeVar("T")
W = TypeVar("W")
K = TypeVar("K", int, str)


class Header(Struct, forbid_unknown_fields=True):
    """The first line: format, and length and checksum of the second."""

    format: str
    version: int
    bytes: _Count
    crc32: _Crc32


class _Preamble(Struct):
    """The fields every version of the header has."""

    format: str
    version: Annotated[int, Meta(ge=1)]


class _Object(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """`path` is relative to the directory of the snapshot, unless `data` or `external` is set."""

    path: str
    size_bytes: _Count
    offset: _Count = 0
    crc32: _Crc32 | None = None
    shared_key: str | None = None
    external: bool = False
    data: bytes | None = None


class _Keyed(Struct, forbid_unknown_fields=True, omit_defaults=True):
    key_groups: tuple[int, int]
    objects: list[_Object]
    raw: bool = False
    native: str | None = None


class _Operator(Struct, forbid_unknown_fields=True, omit_defaults=True):
    name: str
    mode: OperatorStateMode
    elements: _Count
    object: _Object
    raw: bool = False


class _Channel(Struct, forbid_unknown_fields=True):
    edge: str
    upstream: _Count
    downstream: _Count
    object: _Object


class _Subtask(Struct, forbid_unknown_fields=True, omit_defaults=True):
    index: _Count
    keyed: list[_Keyed] = []
    operator: list[_Operator] = []
    inputs: list[_Channel] = []
    outputs: list[_Channel] = []
    ended: bool = False
    finished: bool = False
    watermark_ms: _Time | None = None


class _OperatorState(Struct, forbid_unknown_fields=True, omit_defaults=True):
    uid: str
    parallelism: _Parallelism
    max_parallelism: _Parallelism
    subtasks: list[_Subtask] = []
    coordinator: _Object | None = None
    fully_finished: bool = False


class _Lineage(Struct, forbid_unknown_fields=True, omit_defaults=True):
    id: str
    parent: str = ""
    parent_checkpoint: int = NO_CHECKPOINT


class _Snapshot(Struct, forbid_unknown_fields=True, omit_defaults=True):
    id: _Count
    kind: SnapshotKind
    attempt: _Count
    timestamp_ms: _Count
    operators: list[_OperatorState]
    hooks: dict[str, _Object] = {}
    format: SavepointFormat | None = None
    lineage: _Lineage | None = None


_encoder = msgspec.json.Encoder()
_body_decoder = msgspec.json.Decoder(_Snapshot)
_header_decoder = msgspec.json.Decoder(Header)
_preamble_decoder = msgspec.json.Decoder(_Preamble)


def encode(snapshot: Snapshot) -> bytes:
    """Returns the content of the snapshot's `_metadata` file.

    Paths below `snapshot.location`, and for a checkpoint below the `shared` directory next to it, are stored relative,
    so that a savepoint or a whole job directory can be moved. `reused` is of the acknowledgement and is not stored.
    Raises `StorageError` if it would be too large to restore from.
    """
    body = _encoder.encode(_Packer(snapshot).snapshot())
    if len(body) > METADATA_LIMIT_BYTES:
        inline = sum(item.size_bytes for item in snapshot.objects() if item.is_inline)
        raise StorageError(
            f"the metadata of snapshot {snapshot.id} would have {len(body)} bytes, {inline} of them small state "
            f"stored within, and {METADATA_LIMIT_BYTES} are allowed; lower `inline_threshold`, or set `storage` to a "
            "directory that all machines reach"
        )
    header = Header(FORMAT, FORMAT_VERSION, len(body), zlib.crc32(body))
    return b"%b\n%b\n" % (_encoder.encode(header), body)


def decode(data: bytes, location: str, is_known: Callable[[str], bool] | None = None) -> Snapshot:
    """Returns the snapshot a `_metadata` file describes; `location` is the directory the file was read from.

    `is_known` says whether a file outside the snapshot may belong to it; without it, any may. `location` has no
    trailing slash and is not `.`: object paths are made from it. Raises `DamagedError` if `data` is not exactly what
    `encode` returns, has a newer format, or names a file that may not belong to it.
    """
    path = f"{location}/_metadata"
    expected = header(data, path)
    body, newline, rest = data[data.index(b"\n") + 1 :].partition(b"\n")
    if len(body) != expected.bytes or not newline or rest:
        raise DamagedError(f"{path} is damaged: the header is not followed by one line of {expected.bytes} bytes")
    if zlib.crc32(body) != expected.crc32:
        raise DamagedError(f"{path} is damaged: checksum mismatch")
    try:
        return _Unpacker(location, is_known).snapshot(_body_decoder.decode(body))
    except (msgspec.DecodeError, UnicodeDecodeError, ConfigurationError, _WrongError) as error:
        raise DamagedError(f"{path} is damaged: {error}") from error


def header(data: bytes, path: str = "_metadata") -> Header:
    """Returns the header of a `_metadata` file. Raises `DamagedError`, which names `path`."""
    line, newline, _ = data.partition(b"\n")
    if not newline:
        raise DamagedError(f"{path} is damaged: it is empty, cut off, or not the metadata of a snapshot")
    try:
        preamble = _preamble_decoder.decode(line)
        if preamble.format != FORMAT:
            raise DamagedError(f"{path} is not the metadata of a snapshot, but {preamble.format!r}")
        if preamble.version > FORMAT_VERSION:
            raise DamagedError(newer(path, preamble.version, FORMAT_VERSION))
        return _header_decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DamagedError(f"{path} is damaged, or not the metadata of a snapshot: {error}") from error


def newer(path: str, version: int, supported: int) -> str:
    """The message for a file of a newer format."""
    return f"{path} was written by a newer Snapline (format {version}, this one reads up to {supported}); upgrade"


class _WrongError(Exception):
    """The body is well-formed but inconsistent."""


class _Packer:
    """Converts a snapshot to its stored form."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._own = f"{snapshot.location}/"
        self._shared = None if snapshot.kind.is_savepoint else _shared_directory(snapshot.location)

    def snapshot(self) -> _Snapshot:
        it = self._snapshot
        return _Snapshot(
            it.id,
            it.kind,
            it.attempt,
            it.timestamp_ms,
            [self._operator(uid, operator) for uid, operator in it.operators.items()],
            {name: self._object(item) for name, item in it.hooks.items()},
            it.format,
            _Lineage(it.lineage.id, it.lineage.parent, it.lineage.parent_checkpoint) if it.lineage.id else None,
        )

    def _operator(self, uid: str, it: OperatorState) -> _OperatorState:
        if uid != it.uid:
            raise EngineError(f"the state of operator {it.uid!r} is listed under {uid!r}")
        return _OperatorState(
            uid,
            it.parallelism,
            it.max_parallelism,
            [self._subtask(index, it.subtasks[index]) for index in sorted(it.subtasks)],
            None if it.coordinator is None else self._object(it.coordinator),
            it.fully_finished,
        )

    def _subtask(self, index: int, it: SubtaskState) -> _Subtask:
        return _Subtask(
            index,
            [
                _Keyed(
                    (part.key_groups.start, part.key_groups.end),
                    list(map(self._object, part.objects)),
                    part.raw,
                    part.native,
                )
                for part in it.keyed
            ],
            [
                _Operator(part.name, part.mode, part.elements, self._object(part.object), part.raw)
                for part in it.operator
            ],
            self._channels(it.inputs),
            self._channels(it.outputs),
            it.ended,
            it.finished,
            it.watermark_ms,
        )

    def _channels(self, parts: Iterable[ChannelPart]) -> list[_Channel]:
        return [_Channel(part.edge, part.upstream, part.downstream, self._object(part.object)) for part in parts]

    def _object(self, it: StoredObject) -> _Object:
        path = it.path if it.data is not None else self._relative(it.path)
        external = path is None
        return _Object(path or it.path, it.size_bytes, it.offset, it.crc32, it.shared_key, external, it.data)

    def _relative(self, path: str) -> str | None:
        if path.startswith(self._own):
            rest = path[len(self._own) :]
            return rest if is_below(rest) else None
        if self._shared is not None and path.startswith(self._shared):
            rest = path[len(self._shared) :]
            return _SHARED + rest if is_below(rest) else None
        return None


class _Unpacker:
    """Converts the stored form to a snapshot at `location`. Raises `_WrongError` if it is inconsistent."""

    def __init__(self, location: str, is_known: Callable[[str], bool] | None) -> None:
        self._location = location
        self._is_known = is_known
        self._own = f"{location}/"
        self._shared: str | None = None

    def snapshot(self, it: _Snapshot) -> Snapshot:
        self._shared = None if it.kind.is_savepoint else _shared_directory(self._location)
        return Snapshot(
            it.id,
            it.kind,
            it.attempt,
            it.timestamp_ms,
            self._location,
            _unique("operator", it.operators, lambda operator: operator.uid, self._operator),
            {name: self._object(item) for name, item in it.hooks.items()},
            it.format,
            _lineage(it.lineage),
        )

    def _operator(self, it: _OperatorState) -> OperatorState:
        if it.parallelism > it.max_parallelism:
            raise _WrongError(f"operator {it.uid!r} has parallelism {it.parallelism} of at most {it.max_parallelism}")
        subtasks = _unique("subtask", it.subtasks, lambda subtask: subtask.index, self._subtask)
        if any(index >= it.parallelism for index in subtasks):
            raise _WrongError(f"operator {it.uid!r} has subtask {max(subtasks)} at parallelism {it.parallelism}")
        coordinator = None if it.coordinator is None else self._object(it.coordinator)
        return OperatorState(it.uid, it.parallelism, it.max_parallelism, subtasks, coordinator, it.fully_finished)

    def _subtask(self, it: _Subtask) -> SubtaskState:
        return SubtaskState(
            tuple(map(self._keyed, it.keyed)),
            tuple(map(self._operator_part, it.operator)),
            tuple(map(self._channel, it.inputs)),
            tuple(map(self._channel, it.outputs)),
            it.ended,
            it.finished,
            it.watermark_ms,
        )

    def _keyed(self, it: _Keyed) -> KeyedPart:
        return KeyedPart(KeyGroupRange(*it.key_groups), tuple(map(self._object, it.objects)), it.raw, it.native)

    def _operator_part(self, it: _Operator) -> OperatorPart:
        return OperatorPart(it.name, it.mode, it.elements, self._object(it.object), it.raw)

    def _channel(self, it: _Channel) -> ChannelPart:
        return ChannelPart(it.edge, it.upstream, it.downstream, self._object(it.object))

    def _object(self, it: _Object) -> StoredObject:
        if it.data is not None and (len(it.data) != it.size_bytes or it.external):
            raise _WrongError(f"{it.path!r} holds {len(it.data)} bytes of data, not {it.size_bytes}")
        if it.external and self._is_known is not None and not self._is_known(it.path):
            raise _WrongError(
                f"it names the file {it.path!r}, which is in no directory of this job; if it belongs to the snapshot, "
                "name its directory in Checkpoints(trusted_directories=[...])"
            )
        path = it.path if it.external or it.data is not None else self._resolved(it.path)
        return StoredObject(path, it.size_bytes, it.shared_key, False, it.offset, it.crc32, it.data)

    def _resolved(self, path: str) -> str:
        if self._shared is not None and path.startswith(_SHARED):
            rest, directory = path[len(_SHARED) :], self._shared
        else:
            rest, directory = path, self._own
        if not is_below(rest):
            raise _WrongError(f"the path {path!r} points outside the snapshot")
        return directory + rest


def _lineage(it: _Lineage | None) -> Lineage:
    return UNKNOWN_LINEAGE if it is None else Lineage(it.id, it.parent, it.parent_checkpoint)


def _shared_directory(location: str) -> str:
    """The `shared` directory next to a checkpoint, with a trailing slash."""
    return f"{location[: location.rfind('/') + 1]}shared/"


def _unique(what: str, items: list[W], key: Callable[[W], K], make: Callable[[W], T]) -> Mapping[K, T]:
    made = {key(item): make(item) for item in items}
    if len(made) != len(items):
        raise _WrongError(f"it lists the same {what} twice")
    return made
