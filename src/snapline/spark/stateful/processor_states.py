"""The handle of a PySpark stateful processor, with its states and timers, on Snapline's keyed state.

The classes implement `pyspark.sql.streaming.stateful_processor`: values are tuples with one entry per column of the
declared schema, and all methods refer to the current key.
"""

# ruff: noqa: N802, N803  # the names are PySpark's

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

from pyspark.errors import PySparkRuntimeError
from pyspark.sql.streaming.stateful_processor import ListState, MapState, StatefulProcessorHandle, ValueState

from snapline.errors import RestoreError, UserCodeError
from snapline.spark.stateful.state_codecs import Codec, MapKeyCodec
from snapline.state import collection_states, value_states
from snapline.state.batch_keys import Rows
from snapline.state.keyed_backend import KeyedBackend
from snapline.state.stable_hash import Word
from snapline.state.timers import TimeDomain
from snapline.state.ttl import Ttl

StateOfProcessor = TypeVar("StateOfProcessor", bound="ProcessorState")


class _DeletedState:
    """In place of the keyed state of a deleted state: every use raises `PySparkRuntimeError`, as in Spark."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, _: str) -> NoReturn:
        self._refuse()

    def __len__(self) -> NoReturn:  # noqa: PLE0303
        self._refuse()

    def __contains__(self, _: object) -> NoReturn:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise PySparkRuntimeError(
            f"Error checking value state exists: the state {self._name!r} was deleted by deleteIfExists() in init()"
        )


class ProcessorState:
    """A state that `init` declared."""

    _state: Any

    def __init__(self, name: str) -> None:
        self.name = name

    def delete(self) -> None:
        """All calls raise from now on."""
        self._state = _DeletedState(self.name)


class ProcessorValueState(ProcessorState, ValueState):
    """One tuple per key."""

    def __init__(self, state: value_states.ValueState, codec: Codec, name: str) -> None:
        super().__init__(name)
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


class ProcessorListState(ProcessorState, ListState):
    """A list of tuples per key. As in Spark, it cannot be set to an empty list: use `clear`."""

    def __init__(self, state: collection_states.ListState, codec: Codec, name: str) -> None:
        super().__init__(name)
        self._state = state
        self._codec = codec

    def exists(self) -> bool:
        return len(self._state) > 0

    def get(self) -> Iterator[tuple[Any, ...]]:
        return map(self._codec.give, self._state.get())

    def put(self, newState: list[tuple[Any, ...]]) -> None:
        stored = self._stored(newState)
        self._state.clear()
        self._state.extend(stored)

    def appendValue(self, newState: tuple[Any, ...]) -> None:
        self._state.add(self._codec.store(newState))

    def appendList(self, newState: list[tuple[Any, ...]]) -> None:
        self._state.extend(self._stored(newState))

    def clear(self) -> None:
        self._state.clear()

    def _stored(self, values: list[tuple[Any, ...]]) -> list[dict[str, Any]]:
        stored = [self._codec.store(value) for value in values]
        if not stored:
            raise UserCodeError(f"an empty list cannot be written to list state {self.name!r}; call clear() instead")
        return stored


class ProcessorMapState(ProcessorState, MapState):
    """A map of tuples per key; iteration is in the order of the map's keys."""

    def __init__(self, state: collection_states.MapState, keys: MapKeyCodec, values: Codec, name: str) -> None:
        super().__init__(name)
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

    `domain` is that of its timers, None if it has none. The operator keeps `times` up to date. With `is_avro` all
    columns of states must be nullable. `counts` says how many states of each kind `init` declared and deleted.
    """

    def __init__(self, keyed: KeyedBackend, domain: TimeDomain | None, times: Times, *, is_avro: bool = False) -> None:
        self._keyed = keyed
        self._domain = domain
        self._times = times
        self._is_initializing = True
        self._is_avro = is_avro
        self._declared: dict[str, ProcessorState] = {}
        self.counts: Counter[str] = Counter()
        self._timers = keyed.timers()
        self._times_of = _times_by_key(keyed, domain)

    def end_of_init(self) -> None:
        """From now on, declaring or deleting a state raises `UserCodeError`."""
        self._is_initializing = False

    def getValueState(self, stateName: str, schema: Any, ttlDurationMs: int | None = None) -> ProcessorValueState:
        ttl = self._declaring("getValueState", stateName, ttlDurationMs)
        codec = self._codec(schema, "value state", stateName)
        with _evolving(stateName):
            state = self._keyed.value_state(stateName, codec.kind, ttl=ttl, promotes=True)
        return self._declared_as("numValueStateVars", ProcessorValueState(state, codec, stateName))

    def getListState(self, stateName: str, schema: Any, ttlDurationMs: int | None = None) -> ProcessorListState:
        ttl = self._declaring("getListState", stateName, ttlDurationMs)
        codec = self._codec(schema, "list state", stateName)
        with _evolving(stateName):
            state = self._keyed.list_state(stateName, codec.kind, ttl=ttl, promotes=True)
        return self._declared_as("numListStateVars", ProcessorListState(state, codec, stateName))

    def getMapState(
        self, stateName: str, userKeySchema: Any, valueSchema: Any, ttlDurationMs: int | None = None
    ) -> ProcessorMapState:
        ttl = self._declaring("getMapState", stateName, ttlDurationMs)
        keys = MapKeyCodec(userKeySchema, f"the keys of map state {stateName!r}")
        values = self._codec(valueSchema, "map state", stateName)
        with _evolving(stateName):
            state = self._keyed.map_state(stateName, keys.key_kind, values.kind, ttl=ttl, promotes=True)
        return self._declared_as("numMapStateVars", ProcessorMapState(state, keys, values, stateName))

    def deleteIfExists(self, stateName: str) -> None:
        """Delete a state for all keys: of an older version of the processor, or one declared before in this `init`.

        Calls of the latter raise `PySparkRuntimeError` from then on.
        """
        self._check_initializing("deleteIfExists", stateName)
        declared = self._declared.pop(_checked_name(stateName), None)
        if declared is not None:
            declared.delete()
        self._keyed.drop_state(stateName)
        self.counts["numDeletedStateVars"] += 1

    def registerTimer(self, expiryTimestampMs: int) -> None:
        """Register a timer. One that is already due fires as soon as the rows at hand are handled."""
        domain = self._timed("registerTimer")
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
        rows, row = self._keyed.selection.current()
        return rows.single(row).words

    def _declaring(self, call: str, name: str, ttl_ms: int | None) -> Ttl | None:
        self._check_initializing(call, name)
        _checked_name(name)
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

    def _codec(self, schema: Any, kind: str, name: str) -> Codec:
        return Codec(schema, f"{kind} {name!r}", family=name if self._is_avro else None)

    def _declared_as(self, count: str, state: StateOfProcessor) -> StateOfProcessor:
        self._declared[state.name] = state
        self.counts[count] += 1
        return state

    def _check_initializing(self, call: str, name: str) -> None:
        if not self._is_initializing:
            raise UserCodeError(f"{call}({name!r}): declare and delete states in init() only")


@contextmanager
def _evolving(name: str) -> Iterator[None]:
    """A restored state that cannot become what it is declared as now is told as in Spark."""
    try:
        yield
    except RestoreError as error:
        raise RestoreError(
            f"[STATE_STORE_INVALID_VALUE_SCHEMA_EVOLUTION] Schema evolution is not possible for the state {name!r}: "
            f"{error}"
        ) from error


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
