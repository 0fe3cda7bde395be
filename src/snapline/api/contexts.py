"""What functions with state and timers have around them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

import pyarrow as pa

from snapline.contracts.operator import OperatorContext
from snapline.errors import ConfigurationError, UserCodeError
from snapline.operators.row_batches import Row
from snapline.operators.row_timers import RowTimers
from snapline.operators.row_values import RowBatch, row_value_state
from snapline.state.batch_keys import Rows
from snapline.state.keyed_backend import KeyedBackend, Lifetime
from snapline.state.keyed_states import (
    AggregateFunction,
    AggregatingState,
    ListState,
    MapState,
    Reduce,
    ReducingState,
    ValueState,
)
from snapline.state.operator_state import BroadcastState, OperatorStates
from snapline.state.state_types import resolve
from snapline.state.timers import TimeDomain, Timers
from snapline.types import MAX_WATERMARK

Time: TypeAlias = "int | datetime"
"""Milliseconds since 1970, or a datetime; one without a time zone is UTC."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NAIVE_EPOCH = datetime(1970, 1, 1)
_MILLISECOND = timedelta(milliseconds=1)


class FunctionContext:
    """What rows and batches have in common. Only the thread of the task uses it.

    `uid` is the operator's, `subtask` the number of this subtask of `parallelism`.
    """

    def __init__(self, name: str, operator: OperatorContext, *, has_uid: bool) -> None:
        self.uid = operator.uid
        self.subtask = operator.subtask
        self.parallelism = operator.parallelism
        self.time_domain: TimeDomain | None = None
        """What the timer that is due is measured by; none while rows are processed."""
        self._what = f"{name} {operator.uid!r}"
        self._operator = operator
        self._has_uid = has_uid
        self._watermark_ms = -MAX_WATERMARK

    # Time.

    @property
    def watermark_ms(self) -> int | None:
        """How far event time has come; none before the first watermark."""
        return None if self._watermark_ms == -MAX_WATERMARK else self._watermark_ms

    @property
    def has_ended(self) -> bool:
        """Whether there are no more rows: all timers of event time that are left are due now."""
        return self._watermark_ms == MAX_WATERMARK

    @property
    def processing_time_ms(self) -> int:
        """The time of the clock."""
        return self._operator.clock()

    # State; types are declared in any of the ways on docs/state.md.

    def value_state(
        self, name: str, kind: object = object, *, default: Any = None, ttl: Lifetime | None = None
    ) -> ValueState:
        """One value for each key."""
        return self._keyed.value_state(name, kind, default=default, ttl=ttl)

    def list_state(self, name: str, kind: object = object, *, ttl: Lifetime | None = None) -> ListState:
        """A list for each key."""
        return self._keyed.list_state(name, kind, ttl=ttl)

    def map_state(self, name: str, map_key: object, kind: object = object, *, ttl: Lifetime | None = None) -> MapState:
        """A map for each key; `map_key` is the type of its keys."""
        return self._keyed.map_state(name, map_key, kind, ttl=ttl)

    def reducing_state(self, name: str, kind: object, reduce: Reduce, *, ttl: Lifetime | None = None) -> ReducingState:
        """One value for each key, into which those added are merged: by "sum", "min", "max", or a function of two."""
        return self._keyed.reducing_state(name, kind, reduce, ttl=ttl)

    def aggregating_state(
        self, name: str, function: AggregateFunction[Any], accumulator: object = object, *, ttl: Lifetime | None = None
    ) -> AggregatingState[Any]:
        """An accumulator for each key; `accumulator` is its type."""
        return self._keyed.aggregating_state(name, function, accumulator, ttl=ttl)

    @property
    def operator_states(self) -> OperatorStates:
        """State of the subtask that belongs to no key: lists that are split or copied when the parallelism changes."""
        if not self._has_uid:
            raise ConfigurationError(
                f"{self._what}: state is found again by the operator's uid; give one, process(..., uid='my-uid')"
            )
        return self._operator.states.operator

    @property
    def _keyed(self) -> KeyedBackend:
        keyed = self._operator.states.keyed
        if keyed is None:
            raise ConfigurationError(f"{self._what}: state of keys and timers need a keyed stream; call key_by() first")
        return keyed


class ProcessContext(FunctionContext):
    """For functions of rows. Calls on state and timers mean the key of the row, or of the timer, in process."""

    def __init__(
        self,
        name: str,
        operator: OperatorContext,
        timers: RowTimers | None,
        batch: RowBatch | None,
        side_outputs: Sequence[str],
        *,
        has_uid: bool,
        has_event_time: bool,
        has_broadcast: bool,
    ) -> None:
        super().__init__(name, operator, has_uid=has_uid)
        self._timers = timers
        self._batch = batch
        self._values: dict[str, tuple[Any, ValueState]] = {}
        self._has_event_time = has_event_time
        self._has_broadcast = has_broadcast
        self._may_write_broadcast = has_broadcast
        self._rows: list[Row] = []
        self._side_rows: dict[str, list[Row]] = {name: [] for name in side_outputs}
        self._row: Row | None = None
        self._key: Any = None
        self._key_columns: tuple[str, ...] = ()
        self._time_column: str | None = None

    def value_state(
        self, name: str, kind: object = object, *, default: Any = None, ttl: Lifetime | None = None
    ) -> ValueState:
        """One value for each key."""
        state = super().value_state(name, kind, default=default, ttl=ttl)
        if self._batch is None or ttl is not None:  # what expires has to be looked at whenever it is used
            return state
        known = self._values.get(name)
        if known is None:
            known = self._values[name] = default, row_value_state(state, resolve(kind).arrow, self._batch)
        elif known[0] != default:
            raise ConfigurationError(
                f"{self._what}: state {name!r} was declared with the default {known[0]!r}, and now with {default!r}; "
                "declare it once"
            )
        return known[1]

    # Rows.

    def emit(self, row: Row) -> None:
        """Pass a row on: a dict with a value for each column of the schema given to `process`."""
        self._rows.append(row)

    def emit_to(self, name: str, row: Row) -> None:
        """Pass a row on to a side output, which is read with `stream.side_output(name)`."""
        if name not in self._side_rows:
            known = ", ".join(map(repr, self._side_rows)) or "none"
            raise UserCodeError(
                f"there is no side output {name!r}, there is {known}; name it in process(..., "
                f"side_outputs={{{name!r}: schema}})"
            )
        self._side_rows[name].append(row)

    @property
    def key(self) -> Any:
        """The key in process; of several columns a tuple."""
        columns, row = self._key_columns, self._row
        if row is None:
            return self._key
        if not columns:
            raise UserCodeError("there is no key here: the stream is not keyed, or this is its broadcast side")
        return row[columns[0]] if len(columns) == 1 else tuple(row[column] for column in columns)

    @property
    def timestamp_ms(self) -> int | None:
        """The event time of the row in process, from the column watermarks are made of; none if that is null."""
        if self._time_column is None or self._row is None:
            raise UserCodeError(
                "no event time can be told here: use it while a row is processed, of a stream that has watermarks and "
                "still has the column they are made of"
            )
        value = self._row[self._time_column]
        return None if value is None else in_milliseconds(value)

    # Timers of the key in process. For one key and time there is at most one.

    def set_event_timer(self, time: Time) -> None:
        """Have `on_timer` called for this key when event time has come that far; at the latest when the rows end."""
        if not self._has_event_time:
            raise UserCodeError(
                "a timer of event time in a stream without watermarks; give source(..., watermarks=...), or call "
                "with_watermarks() first"
            )
        self._timed.register(TimeDomain.EVENT, in_milliseconds(time))

    def delete_event_timer(self, time: Time) -> None:
        """Have no timer at this time; there need not be one."""
        self._timed.delete(TimeDomain.EVENT, in_milliseconds(time))

    def set_processing_timer(self, time: Time) -> None:
        """Have `on_timer` called for this key when the clock has come that far, if the job still has rows to come."""
        self._timed.register(TimeDomain.PROCESSING, in_milliseconds(time))

    def delete_processing_timer(self, time: Time) -> None:
        """Have no timer at this time; there need not be one."""
        self._timed.delete(TimeDomain.PROCESSING, in_milliseconds(time))

    def broadcast_state(self, name: str, key_type: object = object, value_type: object = object) -> BroadcastMap:
        """A map that is the same in all subtasks: the broadcast side writes it, the other one reads it."""
        if not self._has_broadcast:
            raise ConfigurationError(
                f"{self._what}: broadcast state needs a second input that all subtasks get; write "
                "stream.connect(other.broadcast())"
            )
        state = self.operator_states.broadcast_state(name, key_type, value_type)
        return BroadcastMap(name, state, lambda: self._may_write_broadcast)

    @property
    def _timed(self) -> RowTimers:
        if self._timers is None:
            raise UserCodeError("timers belong to keys; call key_by() first")
        return self._timers


class BroadcastMap:
    """Broadcast state as functions see it: it can be written where all subtasks see the same rows, and only there."""

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
        """Forget a key; it need not be there."""
        self._writable().remove(key)

    def clear(self) -> None:
        self._writable().clear()

    def _writable(self) -> BroadcastState:
        if not self._may_write():
            raise UserCodeError(
                f"broadcast state {self._name!r} can be written in process_second only, where every subtask sees the "
                "same rows; elsewhere the subtasks would come to differ"
            )
        return self._state


class BatchContext(FunctionContext):
    """For functions of batches."""

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
        """Pass a batch on, of the schema given to `process`."""
        self.emit_to = emit_to
        """Pass a batch on to a side output: its name, and the batch."""

    def keys(self, batch: pa.RecordBatch) -> Rows:
        """The keys of a batch, hashed once for all vectorised calls of states and timers."""
        return self._keyed.keys([batch.column(column) for column in self._operator.key_columns])

    @property
    def timers(self) -> Timers:
        """For `register_all` and `delete_all`; those that are due come to `on_timers`."""
        return self._keyed.timers()


def in_milliseconds(time: Any) -> int:
    """A time as timers have it."""
    if isinstance(time, datetime):
        return (time - (_NAIVE_EPOCH if time.tzinfo is None else _EPOCH)) // _MILLISECOND
    if isinstance(time, int) and not isinstance(time, bool):
        return time
    raise UserCodeError(f"{time!r} is no time; give whole milliseconds since 1970, or a datetime")
