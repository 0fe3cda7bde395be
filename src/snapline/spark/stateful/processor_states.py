"""The handle of a PySpark stateful processor, with its states and timers, on Snapline's keyed state.

The classes implement `pyspark.sql.streaming.stateful_processor`: values are tuples with one entry per column of the
declared schema, and all methods refer to the current key.
"""

# ruff: noqa: N802, N803  # the names are PySpark's

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import ListState, MapState, StatefulProcessorHandle, ValueState

from snapline.errors import ConfigurationError, UserCodeError
from snapline.state import collection_states, value_states
from snapline.state.batch_keys import Rows
from snapline.state.keyed_backend import KeyedBackend
from snapline.state.stable_hash import Word
from snapline.state.state_types import resolve
from snapline.state.timers import TimeDomain
from snapline.state.ttl import Ttl
from snapline.text import shortened

Convert: TypeAlias = Callable[[Any], Any]

_SHORT_LIST = 4


class Codec:
    """Converts tuples of a schema to values of keyed state, and back. `what` names the state in messages."""

    def __init__(self, schema: Any, what: str) -> None:
        try:
            kind = resolve(schema).arrow
        except ConfigurationError as error:
            raise ConfigurationError(f"the schema of {what}: {error}") from error
        if kind is None or not pa.types.is_struct(kind):
            raise ConfigurationError(
                f"the schema of {what} is {schema!r}, which has no columns; declare columns, for example 'n BIGINT'"
            )
        self.kind: pa.DataType = kind
        self._what = what
        self._fields = [kind.field(index) for index in range(kind.num_fields)]
        self._names = [field.name for field in self._fields]
        self._stored = [_storing(field.type) for field in self._fields]
        self._given = [_giving(field.type) for field in self._fields]
        self._is_plain = not any(self._stored) and not any(self._given)

    def values(self, value: Any) -> list[Any]:
        """Returns the columns of a value. Raises `UserCodeError` if it is not a tuple of the right length."""
        if not isinstance(value, tuple | list) or len(value) != len(self._names):
            raise UserCodeError(
                f"{shortened(value)} is no value of {self._what}: give a tuple of {', '.join(self._names)}"
            )
        if self._is_plain:
            return list(value)
        return [item if store is None else store(item) for item, store in zip(value, self._stored, strict=True)]

    def store(self, value: Any) -> dict[str, Any]:
        return dict(zip(self._names, self.values(value), strict=True))

    def give(self, stored: dict[str, Any]) -> tuple[Any, ...]:
        if self._is_plain:
            return tuple(stored.values())
        return tuple(
            item if give is None else give(item) for item, give in zip(stored.values(), self._given, strict=True)
        )


class MapKeyCodec(Codec):
    """Codec for map keys, which are stored without a struct if they have one column."""

    def __init__(self, schema: Any, what: str) -> None:
        super().__init__(schema, what)
        self._is_single = len(self._fields) == 1
        for field in self._fields:
            if pa.types.is_nested(field.type) or pa.types.is_decimal(field.type):
                raise ConfigurationError(
                    f"the schema of {what}: {field.name!r} is {field.type}, which cannot be the key of a map here; use "
                    "numbers, strings, binary, booleans, dates or timestamps"
                )

    @property
    def key_kind(self) -> pa.DataType:
        return self._fields[0].type if self._is_single else self.kind

    def key(self, value: Any) -> Any:
        values = self.values(value)
        if any(item is None for item in values):
            raise UserCodeError(f"{shortened(value)} has nulls, which {self._what} cannot; use a placeholder value")
        return values[0] if self._is_single else tuple(values)

    def give_key(self, stored: Any) -> tuple[Any, ...]:
        return self.give({"": stored} if self._is_single else stored)


def _storing(kind: pa.DataType) -> Convert | None:
    """Returns the conversion from Spark's values to those of keyed state, or None if they are the same."""
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return _with_zone
    if pa.types.is_struct(kind):
        fields = [kind.field(index) for index in range(kind.num_fields)]
        parts = [(field.name, _storing(field.type)) for field in fields]
        return lambda value: None if value is None else _as_dict(value, parts)
    if pa.types.is_map(kind):
        key, item = _storing(kind.key_type) or _same, _storing(kind.item_type) or _same
        return lambda value: None if value is None else {key(one): item(other) for one, other in dict(value).items()}
    if pa.types.is_list(kind):
        element = _storing(kind.value_type) or _same
        return lambda value: None if value is None else [element(item) for item in value]
    return None


def _giving(kind: pa.DataType) -> Convert | None:
    """Returns the conversion back, or None: nested structs become rows, times are local without a zone."""
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return lambda value: None if value is None else value.astimezone().replace(tzinfo=None)
    if pa.types.is_struct(kind):
        fields = [kind.field(index) for index in range(kind.num_fields)]
        make = Row(*[field.name for field in fields])
        parts = [_giving(field.type) or _same for field in fields]
        return lambda value: (
            None if value is None else make(*[give(item) for give, item in zip(parts, value.values(), strict=True)])
        )
    if pa.types.is_map(kind):
        key, item = _giving(kind.key_type) or _same, _giving(kind.item_type) or _same
        return lambda value: None if value is None else {key(one): item(other) for one, other in value.items()}
    if pa.types.is_list(kind):
        element = _giving(kind.value_type)
        return element and (lambda value: None if value is None else [element(item) for item in value])
    return None


def _same(value: Any) -> Any:
    return value


def _with_zone(value: Any) -> Any:
    """A time without a zone is local time, as everywhere in PySpark."""
    return value.astimezone(datetime.UTC) if isinstance(value, datetime.datetime) and value.tzinfo is None else value


def _as_dict(value: Any, parts: list[tuple[str, Convert | None]]) -> dict[str, Any]:
    values = [value.get(name) for name, _ in parts] if isinstance(value, dict) else list(value)
    return {
        name: item if convert is None else convert(item) for (name, convert), item in zip(parts, values, strict=True)
    }


class ProcessorValueState(ValueState):
    """One tuple per key."""

    def __init__(self, state: value_states.ValueState, codec: Codec) -> None:
        self._state = state
        self._codec = codec

    def exists(self) -> bool:
        return self._state.get() is not None

    def get(self) -> tuple[Any, ...] | None:
        stored = self._state.get()
        return None if stored is None else self._codec.give(stored)

    def update(self, newValue: tuple[Any, ...]) -> None:
        self._state.set(self._codec.store(newValue))

    def clear(self) -> None:
        self._state.clear()


class ProcessorListState(ListState):
    """A list of tuples per key. As in Spark, it cannot be set to an empty list: use `clear`."""

    def __init__(self, state: collection_states.ListState, codec: Codec, name: str) -> None:
        self._state = state
        self._codec = codec
        self._name = name

    def exists(self) -> bool:
        return len(self._state) > 0

    def get(self) -> Iterator[tuple[Any, ...]]:
        return map(self._codec.give, self._state.get())

    def put(self, newState: list[tuple[Any, ...]]) -> None:
        stored = self._stored(newState)
        self._state.clear()
        self._append(stored)

    def appendValue(self, newState: tuple[Any, ...]) -> None:
        self._state.add(self._codec.store(newState))

    def appendList(self, newState: list[tuple[Any, ...]]) -> None:
        self._append(self._stored(newState))

    def clear(self) -> None:
        self._state.clear()

    def _append(self, stored: list[dict[str, Any]]) -> None:
        if len(stored) > _SHORT_LIST:
            self._state.extend(stored)
            return
        for value in stored:  # several times faster for a few
            self._state.add(value)

    def _stored(self, values: list[tuple[Any, ...]]) -> list[dict[str, Any]]:
        stored = [self._codec.store(value) for value in values]
        if not stored:
            raise UserCodeError(f"an empty list cannot be written to list state {self._name!r}; call clear() instead")
        return stored


class ProcessorMapState(MapState):
    """A map of tuples per key; iteration is in the order of the map's keys."""

    def __init__(self, state: collection_states.MapState, keys: MapKeyCodec, values: Codec) -> None:
        self._state = state
        self._keys = keys
        self._values = values

    def exists(self) -> bool:
        return len(self._state) > 0

    def getValue(self, key: tuple[Any, ...]) -> tuple[Any, ...] | None:
        stored = self._state.get(self._keys.key(key))
        return None if stored is None else self._values.give(stored)

    def containsKey(self, key: tuple[Any, ...]) -> bool:
        return self._keys.key(key) in self._state

    def updateValue(self, key: tuple[Any, ...], value: tuple[Any, ...]) -> None:
        self._state.put(self._keys.key(key), self._values.store(value))

    def iterator(self) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...]]]:
        pairs = [(self._keys.give_key(key), value) for key, value in self._state.items()]
        pairs.sort(key=lambda pair: pair[0])
        return ((key, self._values.give(value)) for key, value in pairs)

    def keys(self) -> Iterator[tuple[Any, ...]]:
        return iter(sorted(map(self._keys.give_key, self._state.keys())))

    def values(self) -> Iterator[tuple[Any, ...]]:
        return (value for _, value in self.iterator())

    def removeKey(self, key: tuple[Any, ...]) -> None:
        self._state.remove(self._keys.key(key))

    def clear(self) -> None:
        self._state.clear()


@dataclass(slots=True)
class Times:
    """The processor's current times: that of the batch, and the watermark; -1 if there is none."""

    processing_ms: int = -1
    watermark_ms: int = -1


class ProcessorHandle(StatefulProcessorHandle):
    """The handle a processor gets in `init`: it declares states there, and registers timers later.

    `domain` is that of its timers, None if it has none. The operator keeps `times` up to date.
    """

    def __init__(self, keyed: KeyedBackend, domain: TimeDomain | None, times: Times) -> None:
        self._keyed = keyed
        self._domain = domain
        self._times = times
        self._is_initializing = True
        self._declared: set[str] = set()
        self._timers = keyed.timers()
        self._times_of = _times_by_key(keyed, domain)

    def end_of_init(self) -> None:
        """From now on, declaring or deleting a state raises `UserCodeError`."""
        self._is_initializing = False

    def getValueState(self, stateName: str, schema: Any, ttlDurationMs: int | None = None) -> ProcessorValueState:
        ttl = self._declaring("getValueState", stateName, ttlDurationMs)
        codec = Codec(schema, f"value state {stateName!r}")
        return ProcessorValueState(self._keyed.value_state(stateName, codec.kind, ttl=ttl), codec)

    def getListState(self, stateName: str, schema: Any, ttlDurationMs: int | None = None) -> ProcessorListState:
        ttl = self._declaring("getListState", stateName, ttlDurationMs)
        codec = Codec(schema, f"list state {stateName!r}")
        return ProcessorListState(self._keyed.list_state(stateName, codec.kind, ttl=ttl), codec, stateName)

    def getMapState(
        self, stateName: str, userKeySchema: Any, valueSchema: Any, ttlDurationMs: int | None = None
    ) -> ProcessorMapState:
        ttl = self._declaring("getMapState", stateName, ttlDurationMs)
        keys = MapKeyCodec(userKeySchema, f"the keys of map state {stateName!r}")
        values = Codec(valueSchema, f"map state {stateName!r}")
        return ProcessorMapState(self._keyed.map_state(stateName, keys.key_kind, values.kind, ttl=ttl), keys, values)

    def deleteIfExists(self, stateName: str) -> None:
        """Delete, for all keys, a state of an older version of the processor."""
        self._check_initializing("deleteIfExists", stateName)
        if stateName in self._declared:
            raise UserCodeError(
                f"deleteIfExists({stateName!r}): the state was declared in this init; delete it before, or keep it"
            )
        self._keyed.drop_state(_checked_name(stateName))

    def registerTimer(self, expiryTimestampMs: int) -> None:
        domain = self._timed("registerTimer")
        if domain is TimeDomain.EVENT and expiryTimestampMs <= self._times.watermark_ms:
            raise UserCodeError(
                f"registerTimer({expiryTimestampMs}): the watermark is already at {self._times.watermark_ms}; register "
                "a later time, or do the work now"
            )
        self._timers.register(domain, expiryTimestampMs)
        self._times_of.setdefault(self._key(), set()).add(int(expiryTimestampMs))

    def deleteTimer(self, expiryTimestampMs: int) -> None:
        domain = self._timed("deleteTimer")
        self._timers.delete(domain, expiryTimestampMs)
        key = self._key()
        times = self._times_of.get(key, set())
        times.discard(int(expiryTimestampMs))
        if not times:
            self._times_of.pop(key, None)

    def listTimers(self) -> Iterator[int]:
        """Returns the times of the key's timers in order, including one being handled."""
        self._timed("listTimers")
        return iter(sorted(self._times_of.get(self._key(), ())))

    def _timed(self, call: str) -> TimeDomain:
        if self._domain is None:
            raise UserCodeError(
                f"{call}: there are no timers with time_mode='none'; give transform_with_state() "
                "time_mode='processing_time' or 'event_time'"
            )
        return self._domain

    def _key(self) -> tuple[Word, ...]:
        """The current key in a hashable form."""
        rows, row, _ = self._keyed.current()
        return rows.single(row).words

    def _declaring(self, call: str, name: str, ttl_ms: int | None) -> Ttl | None:
        self._check_initializing(call, name)
        self._declared.add(_checked_name(name))
        if not ttl_ms:
            return None
        if ttl_ms < 0:
            raise UserCodeError(f"{call}({name!r}): the time to live is {ttl_ms} ms; give a positive one")
        if self._domain is not TimeDomain.PROCESSING:
            raise UserCodeError(
                f"{call}({name!r}): a time to live needs processing time; give transform_with_state() "
                "time_mode='processing_time'"
            )
        return Ttl(datetime.timedelta(milliseconds=ttl_ms))

    def _check_initializing(self, call: str, name: str) -> None:
        if not self._is_initializing:
            raise UserCodeError(f"{call}({name!r}): declare and delete states in init() only")


def _checked_name(name: str) -> str:
    if isinstance(name, str) and name.startswith("_"):
        raise UserCodeError(f"{name!r} cannot be the name of a state: names that begin with '_' are reserved")
    return name


def _times_by_key(keyed: KeyedBackend, domain: TimeDomain | None) -> dict[tuple[Word, ...], set[int]]:
    """Returns the restored timers by key; `Timers` has them by time only, and saves them."""
    times: dict[tuple[Word, ...], set[int]] = {}
    if domain is None:
        return times
    restored = keyed.timers().freeze().rows(keyed.max_parallelism)
    rows = Rows.of(keyed.key.encode(restored.column("key")))
    for row, (name, time) in enumerate(
        zip(*(restored.column(it).to_pylist() for it in ("domain", "time")), strict=True)
    ):
        if name == domain.value:
            times.setdefault(rows.single(row).words, set()).add(time)
    return times
