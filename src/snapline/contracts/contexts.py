"""Contexts of user functions: what `process` and its siblings see of the runtime."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol, TypeAlias

import pyarrow as pa

from snapline.contracts.operator import OperatorContext
from snapline.contracts.schemas import Row
from snapline.errors import ConfigurationError, UserCodeError
from snapline.state.batch_keys import Rows
from snapline.state.collection_states import ListState, MapState
from snapline.state.evolution import Migrate
from snapline.state.keyed_backend import KeyedBackend
from snapline.state.operator_state import BroadcastState, OperatorStates
from snapline.state.timers import TimeDomain, Timers
from snapline.state.ttl import Lifetime
from snapline.state.value_states import AggregateFunction, AggregatingState, Reduce, ReducingState, ValueState
from snapline.text import shortened
from snapline.types import MAX_WATERMARK

Time: TypeAlias = int | datetime
"""Milliseconds since 1970, or a datetime; one without a time zone is UTC."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NAIVE_EPOCH = datetime(1970, 1, 1)
_MILLISECOND = timedelta(milliseconds=1)


class KeyTimers(Protocol):
    """Timers of the current key."""

    def register(self, domain: TimeDomain, time_ms: int) -> None: ...

    def delete(self, domain: TimeDomain, time_ms: int) -> None: ...


class FunctionContext:
    """Base of the contexts of row and batch functions. Only the task's thread uses it.

    `uid` is the operator's; `subtask` counts from 0 to `parallelism` - 1.
    """

    def __init__(self, name: str, operator: OperatorContext, *, has_uid: bool) -> None:
        self.uid = operator.uid
        self.subtask = operator.subtask
        self.parallelism = operator.parallelism
        self.time_domain: TimeDomain | None = None
        """Time domain of the timer that is firing; None while rows are processed."""
        self._what = f"{name} {operator.uid!r}"
        self._operator = operator
        self._has_uid = has_uid
        self._watermark_ms = -MAX_WATERMARK

    # Time.

    @property
    def watermark_ms(self) -> int | None:
        """The current watermark; None before the first. It is part of checkpoints, so a restore does not reset it."""
        return None if self._watermark_ms == -MAX_WATERMARK else self._watermark_ms

    @property
    def has_ended(self) -> bool:
        """Whether all input has ended: the event-time timers that are left fire now."""
        return self._watermark_ms == MAX_WATERMARK

    @property
    def processing_time_ms(self) -> int:
        """The current processing time."""
        return self._operator.clock()

    # State. docs/state.md lists the ways to declare a type, and what `migrate` is for.

    def value_state(
        self,
        name: str,
        kind: object = object,
        *,
        default: Any = None,
        ttl: Lifetime | None = None,
        migrate: Migrate | None = None,
    ) -> ValueState:
        """One value per key.

        `migrate` converts each restored value that has another type; in all other states too.
        """
        return self._keyed.value_state(name, kind, default=default, ttl=ttl, migrate=migrate)

    def list_state(
        self, name: str, kind: object = object, *, ttl: Lifetime | None = None, migrate: Migrate | None = None
    ) -> ListState:
        """A list per key."""
        return self._keyed.list_state(name, kind, ttl=ttl, migrate=migrate)

    def map_state(
        self,
        name: str,
        map_key: object,
        kind: object = object,
        *,
        ttl: Lifetime | None = None,
        migrate: Migrate | None = None,
    ) -> MapState:
        """A map per key; `map_key` is the type of its keys."""
        return self._keyed.map_state(name, map_key, kind, ttl=ttl, migrate=migrate)

    def reducing_state(
        self, name: str, kind: object, reduce: Reduce, *, ttl: Lifetime | None = None, migrate: Migrate | None = None
    ) -> ReducingState:
        """One value per key that added values are merged into by "sum", "min", "max", or a function of two values."""
        return self._keyed.reducing_state(name, kind, reduce, ttl=ttl, migrate=migrate)

    def aggregating_state(
        self,
        name: str,
        function: AggregateFunction[Any],
        accumulator: object = object,
        *,
        ttl: Lifetime | None = None,
        migrate: Migrate | None = None,
    ) -> AggregatingState[Any]:
        """An accumulator per key; `accumulator` is its type."""
        return self._keyed.aggregating_state(name, function, accumulator, ttl=ttl, migrate=migrate)

    @property
    def operator_states(self) -> OperatorStates:
        """State of the subtask outside any key: lists that are split or copied when the parallelism changes."""
        if not self._has_uid:
            raise ConfigurationError(
                f"{self._what}: state is found again by the operator's uid; give one: process(..., uid='my-uid')"
            )
        return self._operator.states.operator

    @property
    def _keyed(self) -> KeyedBackend:
        keyed = self._operator.states.keyed
        if keyed is None:
            raise ConfigurationError(f"{self._what}: keyed state and timers need a keyed stream; call key_by() first")
        return keyed


class ProcessContext(FunctionContext):
    """Context of row functions. State and timers belong to the current key: that of the row, or of the firing timer."""

    def __init__(
        self,
        name: str,
        operator: OperatorContext,
        timers: KeyTimers | None,
        side_outputs: Sequence[str],
        *,
        has_uid: bool,
        has_event_time: bool,
        has_broadcast: bool,
    ) -> None:
        super().__init__(name, operator, has_uid=has_uid)
        self._timers = timers
        self._has_event_time = has_event_time
        self._has_broadcast = has_broadcast
        self._may_write_broadcast = has_broadcast
        self._rows: list[Row] = []
        self._side_rows: dict[str, list[Row]] = {name: [] for name in side_outputs}
        self._row: Row | None = None
        self._key: Any = None
        self._key_columns: tuple[str, ...] = ()
        self._time_column: str | None = None

    # Rows.

    def emit(self, row: Row) -> None:
        """Emit a row: a dict with a value for each column of the schema given to `process`."""
        self._rows.append(row)

    def emit_to(self, name: str, row: Row) -> None:
        """Emit a row to a side output, which is read with `stream.side_output(name)`."""
        if name not in self._side_rows:
            known = ", ".join(map(repr, self._side_rows)) or "none"
            raise UserCodeError(
                f"there is no side output {name!r}, there is {known}; name it in process(..., "
                f"side_outputs={{{name!r}: schema}})"
            )
        self._side_rows[name].append(row)

    @property
    def key(self) -> Any:
        """The current key; a tuple if it has several columns."""
        columns, row = self._key_columns, self._row
        if row is None:
            return self._key
        if not columns:
            raise UserCodeError("there is no key here: the stream is not keyed, or this is its broadcast side")
        return row[columns[0]] if len(columns) == 1 else tuple(row[column] for column in columns)

    @property
    def timestamp_ms(self) -> int | None:
        """The event time of the current row, from the watermark column; None if that is null."""
        if self._time_column is None or self._row is None:
            raise UserCodeError(
                "timestamp_ms is not available here: use it while a row is processed, in a stream that has watermarks "
                "and still has their column"
            )
        value = self._row[self._time_column]
        return None if value is None else in_milliseconds(value)

    # Timers of the current key. There is at most one per key and time.

    def set_event_timer(self, time: Time) -> None:
        """Have `on_timer` called for this key when the watermark reaches `time`, at the latest when all input ends."""
        if not self._has_event_time:
            raise UserCodeError(
                "an event-time timer in a stream without watermarks; give source(..., watermarks=...), or call "
                "with_watermarks() first"
            )
        self._timed.register(TimeDomain.EVENT, in_milliseconds(time))

    def delete_event_timer(self, time: Time) -> None:
        """Delete the timer at `time`, if there is one."""
        self._timed.delete(TimeDomain.EVENT, in_milliseconds(time))

    def set_processing_timer(self, time: Time) -> None:
        """Have `on_timer` called for this key when the clock reaches `time`, unless all input has ended by then."""
        self._timed.register(TimeDomain.PROCESSING, in_milliseconds(time))

    def delete_processing_timer(self, time: Time) -> None:
        """Delete the timer at `time`, if there is one."""
        self._timed.delete(TimeDomain.PROCESSING, in_milliseconds(time))

    def broadcast_state(self, name: str, key_type: object = object, value_type: object = object) -> BroadcastMap:
        """A map that is the same in all subtasks: the broadcast side writes it, the other side reads it."""
        if not self._has_broadcast:
            raise ConfigurationError(
                f"{self._what}: broadcast state needs a second input that is broadcast; write "
                "stream.connect(other.broadcast())"
            )
        state = self.operator_states.broadcast_state(name, key_type, value_type)
        return BroadcastMap(name, state, lambda: self._may_write_broadcast)

    @property
    def _timed(self) -> KeyTimers:
        if self._timers is None:
            raise UserCodeError("timers belong to keys; call key_by() first")
        return self._timers


class BroadcastMap:
    """Broadcast state as functions see it: writable only where all subtasks see the same rows."""

    def __init__(self, name: str, state: BroadcastState, may_write: Callable[[], bool]) -> None:
        self._name = name
        self._state = state
        self._may_write = may_write

    def get(self, key: Any, default: Any = None) -> Any:
        return self._state.get(key, default)

    def keys(self) -> list[Any]:
        return self._state.keys()

    def items(self) -> list[tuple[Any, Any]]:
        return self._state.items()

    def __contains__(self, key: object) -> bool:
        return key in self._state

    def __iter__(self) -> Iterator[Any]:
        return iter(self._state)

    def __len__(self) -> int:
        return len(self._state)

    def put(self, key: Any, value: Any) -> None:
        self._writable().put(key, value)

    def remove(self, key: Any) -> None:
        """Remove a key, if it is there."""
        self._writable().remove(key)

    def clear(self) -> None:
        self._writable().clear()

    def _writable(self) -> BroadcastState:
        if not self._may_write():
            raise UserCodeError(
                f"broadcast state {self._name!r} can be written only in process_second, where every subtask sees the "
                "same rows; elsewhere the subtasks would diverge"
            )
        return self._state


class BatchContext(FunctionContext):
    """Context of batch functions."""

    def __init__(
        self,
        name: str,
        operator: OperatorContext,
        emit: Callable[[pa.RecordBatch], None],
        emit_to: Callable[[str, pa.RecordBatch], None],
        *,
        has_uid: bool,
    ) -> None:
        super().__init__(name, operator, has_uid=has_uid)
        self.emit = emit
        """Emit a batch with the schema given to `process`."""
        self.emit_to = emit_to
        """Emit a batch to a side output: its name, and the batch."""

    def keys(self, batch: pa.RecordBatch) -> Rows:
        """The keys of a batch, hashed once for all vectorised calls on state and timers."""
        return self._keyed.keys([batch.column(column) for column in self._operator.key_columns])

    @property
    def timers(self) -> Timers:
        """For `register_all` and `delete_all`; due timers are passed to `on_timers`."""
        return self._keyed.timers()


def in_milliseconds(time: Any) -> int:
    """`time` in milliseconds since 1970; `UserCodeError` if it is neither an int nor a datetime."""
    if type(time) is int:
        return time
    if isinstance(time, datetime):
        return (time - (_NAIVE_EPOCH if time.tzinfo is None else _EPOCH)) // _MILLISECOND
    if isinstance(time, int) and not isinstance(time, bool):
        return time
    raise UserCodeError(f"{shortened(time)} is not a time; give whole milliseconds since 1970, or a datetime")
