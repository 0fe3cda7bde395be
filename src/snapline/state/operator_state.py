"""Operator state: lists, union lists, broadcast maps and raw elements of a subtask, not of a key."""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, TypeVar

import pyarrow as pa

from snapline.errors import ConfigurationError, DamagedError, EngineError, RestoreError, UserCodeError
from snapline.protocol.restore.redistribution import ElementRange
from snapline.protocol.snapshot import StoredObject
from snapline.state import state_files
from snapline.state.arrays import objects
from snapline.state.evolution import Change, widening_obstacle
from snapline.state.large_elements import LARGE_BYTES, LargeElement, LargeElements, runs
from snapline.state.operator_snapshot import MODES, Content, OperatorSnapshot
from snapline.state.pickles import pickled, unpickled
from snapline.state.python_values import exact_converter
from snapline.state.state_info import PICKLED, StateInfo, StateKind, ValueEncoding, is_pickled
from snapline.state.state_types import OBJECT, StateType, resolve
from snapline.storage.snapshot_reader import SnapshotReader
from snapline.text import explanation, shortened

MAX_STATES = 1000
"""How many operator states one operator may declare."""

RAW_STATE = "raw"
"""The default name of raw state."""

_WORDS: Final = {
    StateKind.OPERATOR_LIST: "a list of {value}",
    StateKind.OPERATOR_UNION: "a union list of {value}",
    StateKind.OPERATOR_BROADCAST: "a broadcast map of {map_key} to {value}",
    StateKind.RAW_OPERATOR: "raw state",
}
_BYTES: Final = StateType(pa.binary())
_H = TypeVar("_H", bound="_Handle")


class OperatorStates:
    """The operator state of one operator in one subtask. For the task's thread only, like its handles.

    State that was restored but never declared is copied from snapshot to snapshot, until a job declares it.
    """

    def __init__(self, uid: str, subtask: int, parallelism: int = 1) -> None:
        self._uid = uid
        self._subtask = subtask
        self._parallelism = parallelism
        self._handles: dict[str, _Handle] = {}
        self._restored: dict[str, Content] = {}
        self._large = LargeElements()
        self._is_open = False

    def restore(self, ranges: Mapping[str, Sequence[ElementRange]], source: SnapshotReader) -> None:
        """Read the elements of a snapshot that were assigned to this subtask, before anything is declared.

        Reads all of them now, each object once: the snapshot may be deleted later. Raises `RestoreError` if elements
        of one state do not fit together, `DamagedError` if they are not what was written.
        """
        if self._handles or self._restored:
            raise EngineError(f"operator state of {self._uid!r} must be restored before it is declared, and once")

        @cache
        def read(item: StoredObject) -> Content:
            # Reading the whole object checks all of it.
            return Content(*state_files.read(io.BytesIO(source.read(item))))

        self._restored = {name: _restored_content(name, read, mine) for name, mine in ranges.items() if mine}

    def list_state(self, name: str, type: object = object) -> OperatorList:
        """A list whose elements are split evenly over the subtasks when the parallelism changes.

        A second call returns the same list. Raises `ConfigurationError` if `name` is declared as something else,
        `RestoreError` if it was something else in the snapshot.
        """
        return self._declare(OperatorList(self._uid, name, StateKind.OPERATOR_LIST, resolve(type)))

    def union_list_state(self, name: str, type: object = object) -> OperatorList:
        """A list of which every subtask gets the elements of all subtasks after a restore; otherwise like `list_state`.

        After a restore, set the list to the subtask's own elements, or it grows with every restore. Declare it in
        `open`: from then on no subtask of the operator ends before all of them can, so that no elements are lost.
        """
        if self._is_open and name not in self._handles:
            raise ConfigurationError(
                f"operator {self._uid!r} declares the union list {name!r} too late: other subtasks may have ended "
                "without theirs; declare it in open()"
            )
        return self._declare(OperatorList(self._uid, name, StateKind.OPERATOR_UNION, resolve(type)))

    def broadcast_state(self, name: str, key_type: object = object, value_type: object = object) -> BroadcastState:
        """A map that the user keeps equal in all subtasks; a restore copies it to each. Otherwise like `list_state`."""
        return self._declare(BroadcastState(self._uid, name, resolve(key_type), resolve(value_type)))

    def raw_state(self, name: str = RAW_STATE) -> RawOperatorState:
        """Elements that the operator encodes itself; otherwise like `list_state`."""
        return self._declare(RawOperatorState(self._uid, name))

    def opened(self) -> None:
        """The operator is open: it declares no more union lists."""
        self._is_open = True

    def take_restored(self, name: str) -> list[int]:
        """Returns and forgets the whole numbers that an older version kept in a union list of this name."""
        content = self._restored.pop(name, None)
        if content is None:
            return []
        older = OperatorList(self._uid, name, StateKind.OPERATOR_UNION, resolve(int))
        older.restore(content)
        return older.get()

    def snapshot(self, *, alone: bool = True) -> OperatorSnapshot:
        """An encoded copy of everything, unaffected by later changes. Raises `UserCodeError` if encoding fails.

        `alone`: refer to nothing older.
        """
        contents = [content for handle in self._handles.values() for content in handle.contents()]
        # Every subtask has all of a union list: if each wrote it, the next restore would multiply it.
        others = (StateKind.OPERATOR_UNION,) if self._subtask else ()
        contents += [content for content in self._restored.values() if content.info.kind not in others]
        reported = tuple(content for content in contents if content.is_reported)
        numbers = self._large.numbered(content.large.element for content in reported if content.large is not None)
        reusable = {} if alone else self._large.objects.reusable()
        return OperatorSnapshot(reported, self._parallelism, self._large.objects, numbers, reusable)

    def confirm(self, checkpoint_id: int) -> None:
        """A checkpoint is complete: later ones may refer to what it holds."""
        self._large.objects.confirm(checkpoint_id)

    def abort(self, checkpoint_id: int) -> None:
        self._large.objects.abort(checkpoint_id)

    def _declare(self, handle: _H) -> _H:
        known = self._handles.get(handle.name)
        if known is not None:
            if not (isinstance(known, type(handle)) and known.is_declared_as(handle)):
                raise ConfigurationError(
                    f"operator {self._uid!r} declares the state {handle.name!r} as {handle.declaration}, but it was "
                    f"declared as {known.declaration} before; give one of them another name"
                )
            return known
        if len(self._handles) >= MAX_STATES:
            raise ConfigurationError(
                f"operator {self._uid!r} declares more than {MAX_STATES} states; keep their entries in one of them"
            )
        restored = self._restored.get(handle.name)
        if restored is not None:
            handle.restore(restored)
            del self._restored[handle.name]
        self._handles[handle.name] = handle
        return handle


class _Handle(ABC):
    """A declared operator state."""

    def __init__(self, uid: str, name: str, kind: StateKind, columns: Mapping[str, StateType]) -> None:
        if not name:
            raise ConfigurationError(f"a state of operator {uid!r} has no name; give it one")
        self.name = name
        self._uid = uid
        self._kind = kind
        self._columns = columns

    @property
    def declaration(self) -> str:
        return _declaration(self._kind, self._columns)

    def is_declared_as(self, other: _Handle) -> bool:
        return self._kind is other._kind and self._columns == other._columns

    def contents(self) -> Sequence[Content]:
        """What a snapshot holds, in order."""
        columns = self._entries()
        return [Content(self._info, self._table(columns))]

    @property
    def _info(self) -> StateInfo:
        is_pickled = self._columns.get("value", _BYTES).is_object
        encoding = ValueEncoding.PICKLE if is_pickled else ValueEncoding.ARROW
        return StateInfo(self._uid, self.name, self._kind, None, encoding)

    @property
    def _schema(self) -> pa.Schema:
        fields = [
            pa.field(name, kind.stored, metadata=PICKLED if kind.is_object and name == "map_key" else None)
            for name, kind in self._columns.items()
        ]
        return pa.schema(fields)

    def _table(self, columns: Mapping[str, Sequence[Any]]) -> pa.Table:
        arrays = [self._encoded(kind, columns[name]) for name, kind in self._columns.items()]
        return pa.Table.from_arrays(arrays, schema=self._schema)

    def restore(self, content: Content) -> None:
        """Set the restored entries. Raises `RestoreError` if they are of another kind or type."""
        stored, change = _stored_types(content), Change()
        # Two keys of a map must not become one: only values may lose something.
        obstacles = {"map_key": widening_obstacle}
        if content.info.kind is not self._kind or any(
            obstacles.get(name, change.obstacle)(stored[name], kind) for name, kind in self._columns.items()
        ):
            raise RestoreError(
                f"operator {self._uid!r} declares the state {self.name!r} as {self.declaration}, but in the snapshot "
                f"it is {_described(content)}; declare it as it was, or give it another name"
            )
        self._take(
            {
                name: self._decoded(kind, change.apply(content.table[name], stored[name], kind, self.name))
                for name, kind in self._columns.items()
            }
        )

    @abstractmethod
    def _entries(self) -> Mapping[str, Sequence[Any]]:
        """The values of each column."""

    @abstractmethod
    def _take(self, columns: Mapping[str, list[Any]]) -> None: ...

    def _named(self, action: Callable[[Any], Any], value: Any) -> Any:
        """Call `action` and let its errors name the operator and the state."""
        try:
            return action(value)
        except (UserCodeError, RestoreError) as error:
            raise type(error)(f"operator {self._uid!r}, state {self.name!r}: {error}") from error

    def _encoded(self, kind: StateType, values: Sequence[Any]) -> pa.Array:
        if kind.arrow is None:
            return pa.array([self._named(pickled, value) for value in values], pa.binary())
        if kind.arrow.num_fields:
            # The user may have changed lists and dicts since they were added and checked.
            values = self._named(kind.convert_all, values)
        return pa.array(values, kind.arrow)

    def _decoded(self, kind: StateType, column: pa.Array) -> list[Any]:
        if kind.arrow is None:
            return [self._named(unpickled, data) for data in column.to_pylist()]
        return objects(column)


class OperatorList(_Handle):
    """A list of one subtask. Elements of a declared type are checked when added."""

    def __init__(self, uid: str, name: str, kind: StateKind, element: StateType) -> None:
        super().__init__(uid, name, kind, {"value": element})
        self._element = element
        self._elements: list[Any] = []

    def get(self) -> list[Any]:
        """A copy of the list."""
        return list(self._elements)

    def add(self, element: Any) -> None:
        self._elements.append(self._named(self._element.convert, element))

    def extend(self, elements: Iterable[Any]) -> None:
        """Add all of them, or none if one is of the wrong type."""
        self._elements += self._converted(elements)

    def set(self, elements: Iterable[Any]) -> None:
        """Replace all elements. Nothing changes if one is of the wrong type."""
        self._elements = self._converted(elements)

    def clear(self) -> None:
        self._elements = []

    def contents(self) -> Sequence[Content]:
        if self._element != _BYTES or self._kind is StateKind.OPERATOR_UNION or not self._has_large:
            return super().contents()
        info, schema, nothing = self._info, self._schema, self._schema.empty_table()
        return [
            Content(info, nothing, LargeElement(info, schema, run[0]))
            if len(run[0]) >= LARGE_BYTES
            else Content(info, self._table({"value": run}))
            for run in runs(self._elements)
        ]

    @property
    def _has_large(self) -> bool:
        return any(element is not None and len(element) >= LARGE_BYTES for element in self._elements)

    def _converted(self, elements: Iterable[Any]) -> list[Any]:
        converted: list[Any] = self._named(self._element.convert_all, list(elements))
        return converted

    def __len__(self) -> int:
        return len(self._elements)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.get())

    def _entries(self) -> Mapping[str, Sequence[Any]]:
        return {"value": self._elements}

    def _take(self, columns: Mapping[str, list[Any]]) -> None:
        self._elements = columns["value"]


class BroadcastState(_Handle):
    """A map of one subtask, in insertion order. Keys must be hashable; declared types of entries are checked."""

    def __init__(self, uid: str, name: str, key: StateType, value: StateType) -> None:
        super().__init__(uid, name, StateKind.OPERATOR_BROADCAST, {"map_key": key, "value": value})
        self._key = exact_converter(key)
        self._value = exact_converter(value)
        self._map: dict[Any, Any] = {}

    def get(self, key: Any, default: Any = None) -> Any:
        return self._map.get(self._hashable(key), default)

    def put(self, key: Any, value: Any) -> None:
        self._map[self._hashable(key)] = self._named(self._value, value)

    def remove(self, key: Any) -> None:
        """Remove a key, if it is there."""
        self._map.pop(self._hashable(key), None)

    def contains(self, key: Any) -> bool:
        return self._hashable(key) in self._map

    __contains__ = contains

    def keys(self) -> list[Any]:
        return list(self._map)

    def items(self) -> list[tuple[Any, Any]]:
        return list(self._map.items())

    def clear(self) -> None:
        self._map = {}

    def __len__(self) -> int:
        return len(self._map)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.keys())

    def _hashable(self, key: Any) -> Any:
        key = self._named(self._key, key)
        try:
            hash(key)
        except TypeError as error:
            raise UserCodeError(
                f"operator {self._uid!r}, state {self.name!r}: {shortened(key)} cannot be a key "
                f"({explanation(error)}); use a number, text or a tuple"
            ) from error
        return key

    def _entries(self) -> Mapping[str, Sequence[Any]]:
        return {"map_key": list(self._map), "value": list(self._map.values())}

    def _take(self, columns: Mapping[str, list[Any]]) -> None:
        self._map = dict(zip(columns["map_key"], columns["value"], strict=True))


class RawOperatorState(_Handle):
    """Bytes that the operator encodes itself: read once after a restore, written again for every snapshot."""

    def __init__(self, uid: str, name: str) -> None:
        super().__init__(uid, name, StateKind.RAW_OPERATOR, {"data": _BYTES})
        self._restored: list[bytes] = []
        self._written: list[bytes] = []

    def read(self) -> list[bytes]:
        """The elements the subtask was restored with."""
        return list(self._restored)

    def write(self, element: bytes) -> None:
        """Add an element to the next snapshot only."""
        self._written.append(self._named(_BYTES.convert, element))

    def contents(self) -> Sequence[Content]:
        contents = super().contents()
        self._written = []
        return contents

    def _entries(self) -> Mapping[str, Sequence[Any]]:
        return {"data": self._written}

    def _take(self, columns: Mapping[str, list[Any]]) -> None:
        self._restored = columns["data"]


def _restored_content(name: str, read: Callable[[StoredObject], Content], ranges: Sequence[ElementRange]) -> Content:
    """The elements in order; those of one list may come from several objects."""
    pieces = []
    for elements in ranges:
        path, content = elements.object.path, read(elements.object)
        if elements.stop > content.table.num_rows or content.info.kind not in MODES:
            raise DamagedError(f"{path} does not have the {elements.stop} elements that its metadata names")
        if content.info.state != name:
            raise DamagedError(f"{path} holds the state {content.info.state!r}, but its metadata names {name!r}")
        pieces.append(Content(content.info, content.table.slice(elements.start, len(elements))))
    widest = pieces[0]
    for piece in pieces[1:]:
        if _accepts(piece.info.kind, _stored_types(piece), widest):
            widest = piece
    for piece in pieces:
        if not _accepts(widest.info.kind, _stored_types(widest), piece):
            raise RestoreError(
                f"subtasks wrote the state {name!r} with different types: {_described(widest)} and "
                f"{_described(piece)}; restore an older snapshot"
            )
    return Content(widest.info, pa.concat_tables([piece.table.cast(widest.table.schema) for piece in pieces]))


def _accepts(kind: StateKind, columns: Mapping[str, StateType], content: Content) -> bool:
    """Whether content is of this kind and can be read with these types."""
    stored = _stored_types(content)
    return content.info.kind is kind and all(types.accepts(stored[name]) for name, types in columns.items())


def _stored_types(content: Content) -> dict[str, StateType]:
    return {
        field.name: OBJECT if is_pickled(content.info, field) else StateType(field.type)
        for field in content.table.schema
    }


def _described(content: Content) -> str:
    return _declaration(content.info.kind, _stored_types(content))


def _declaration(kind: StateKind, columns: Mapping[str, StateType]) -> str:
    return _WORDS[kind].format(**columns)
