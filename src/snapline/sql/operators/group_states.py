"""`applyInPandasWithState`: a function of the rows of a group and its state, unchanged.

As in Spark: the arguments of the function, `GroupState`, timeouts, that they end with each call and have to be set
again, and that with timeouts in event time rows not newer than the watermark are dropped. Different: the function is
called once per group of a batch, there are no micro-batches; timeouts come when they are due, without waiting for rows;
at the end of a bounded input the groups that still have a timeout in event time get it once, in the order of time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from snapline.contracts.operator import Operator, OperatorContext
from snapline.errors import UserCodeError
from snapline.operators.event_time import SavedWatermark
from snapline.operators.kept_rows import kept_column, kept_type
from snapline.operators.keyed_batches import keyed_state
from snapline.operators.row_batches import MAX_ROWS, raised
from snapline.spark.stateful.processor_operator import newer_rows
from snapline.spark.stateful.processor_rows import KeyedRows
from snapline.spark.stateful.state_codecs import Codec
from snapline.sql.operators.python_udfs import loaded
from snapline.sql.operators.udf_frames import Frames, FrameSettings
from snapline.sql.plans.python_functions import PythonFunction
from snapline.state.timers import TimeDomain
from snapline.text import shortened
from snapline.types import MAX_WATERMARK

DOMAINS: Final = {
    GroupStateTimeout.NoTimeout: None,
    GroupStateTimeout.ProcessingTimeTimeout: TimeDomain.PROCESSING,
    GroupStateTimeout.EventTimeTimeout: TimeDomain.EVENT,
}
_NONE = GroupState.NO_TIMESTAMP


class StatefulGroups(Operator):
    """Calls a function with the rows of each group in a batch and the state of the group.

    The columns `groups` are the group, the columns `data` the function's rows, which it sees under `names`. `schema` is
    that of the input. `time` is the column that decides which rows are late, None if there is none;
    `has_watermark` says whether the input has event time at all.
    """

    def __init__(
        self,
        function: PythonFunction,
        name: str,
        schema: pa.Schema,
        *,
        groups: Sequence[str],
        data: Sequence[str],
        names: Sequence[str],
        state: pa.DataType,
        result: pa.Schema,
        timeout: str,
        time: str | None,
        has_watermark: bool,
        settings: FrameSettings,
    ) -> None:
        self._packed = function
        self._name = name
        self._groups = tuple(groups)
        self._data = tuple(data)
        self._names = list(names)
        self._codec = Codec(state, f"the state of {name}")
        self._state_schema = from_arrow_schema(pa.schema(list(state)), prefer_timestamp_ntz=True)
        self._schema = result
        self._timeout = timeout
        self._domain = DOMAINS[timeout]
        self._time = time
        self._has_watermark = has_watermark
        self._settings = settings
        self._group_fields = [schema.field(each).with_type(kept_type(schema.field(each).type)) for each in groups]

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._function = loaded(self._packed)
        self._frames = Frames(self._settings)
        self._keyed = keyed_state(context, "applyInPandasWithState")
        self._state = self._keyed.value_state("state", self._codec.kind)
        self._timeouts = self._keyed.value_state("timeout", pa.int64())
        self._keys = self._keyed.value_state("group", pa.struct(self._group_fields))
        self._timers = self._keyed.timers()
        self._saved = SavedWatermark(context)
        self._waiting: list[pa.RecordBatch] = []
        self._end_ms: int | None = None

    # What Spark calls the watermark: rows up to and including it are late.

    @property
    def _watermark_ms(self) -> int:
        if not self._has_watermark:
            return _NONE
        if self._end_ms is not None:
            return self._end_ms
        return max(self._saved.ms + 1, 0)

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        if self._time is not None and self._domain is TimeDomain.EVENT:
            rows = batch.num_rows
            batch = newer_rows(batch, self._time, self._watermark_ms)
            self.late_rows += rows - batch.num_rows
        if not batch.num_rows:
            return
        by_key = KeyedRows(batch, self.context.key_columns)
        keys = self._keyed.keys(by_key.columns)
        grouped = by_key.grouped(batch)
        firsts = pa.array(by_key.starts[:-1])
        arrays = [kept_column(grouped.column(name)).take(firsts) for name in self._groups]
        if self._domain is not None:
            self._keys.put(keys, pa.StructArray.from_arrays(arrays, fields=self._group_fields))
        shown = self._shown(arrays)
        data = grouped.select(list(self._data)).rename_columns(self._names)
        now_ms = self.context.clock()
        for number, (start, end) in enumerate(zip(by_key.starts[:-1], by_key.starts[1:], strict=True)):
            self._keyed.select(keys, number)
            self._call(shown[number], self._frames.frames(data.slice(start, end - start)), now_ms, timed_out=False)
        self._flush()

    def watermark(self, timestamp_ms: int) -> None:
        is_end = timestamp_ms == MAX_WATERMARK
        if not is_end:
            self._saved.advance(timestamp_ms)
        if self._domain is TimeDomain.EVENT:
            self._expire(TimeDomain.EVENT, timestamp_ms if is_end else self._saved.ms, self.context.clock(), is_end)

    def next_wakeup_ms(self) -> int | None:
        return None if self._domain is not TimeDomain.PROCESSING else self._timers.next_ms(TimeDomain.PROCESSING)

    def wakeup(self, now_ms: int) -> None:
        if self._domain is TimeDomain.PROCESSING:
            self._expire(TimeDomain.PROCESSING, now_ms, now_ms, is_end=False)

    def _expire(self, domain: TimeDomain, until_ms: int, now_ms: int, is_end: bool) -> None:
        """Call the function for groups whose timeout is before now, or before the watermark."""
        due = self._timers.due(domain, until_ms)
        if due is None:
            return
        shown = self._shown(self._keys.take(due.rows).flatten())
        for number, time_ms in enumerate(due.times.tolist()):
            self._keyed.select(due.rows, number)
            if is_end:
                # What a group gives must not depend on the others of the subtask.
                self._end_ms = max(self._saved.ms, time_ms) + 1
            self._call(shown[number], iter([self._no_rows()]), now_ms, timed_out=True)
        self._end_ms = None
        self._flush()

    def _no_rows(self) -> Any:
        import pandas

        return pandas.DataFrame(columns=self._names)

    def _shown(self, arrays: Sequence[pa.Array]) -> list[tuple[Any, ...]]:
        """Groups as the function sees them."""
        batch = pa.RecordBatch.from_arrays(list(arrays), schema=pa.schema(self._group_fields))
        columns = self._frames.series(batch)
        return [tuple(column.iloc[row] for column in columns) for row in range(batch.num_rows)]

    # One call.

    def _call(self, group: tuple[Any, ...], frames: Iterator[Any], now_ms: int, *, timed_out: bool) -> None:
        stored = self._state.get()
        value: Any = None if stored is None else Row(*self._codec.give(stored))
        state = GroupState(
            optionalValue=value,
            batchProcessingTimeMs=now_ms,
            eventTimeWatermarkMs=self._watermark_ms,
            timeoutConf=self._timeout,
            hasTimedOut=timed_out,
            watermarkPresent=self._has_watermark,
            defined=stored is not None,
            updated=False,
            removed=False,
            timeoutTimestamp=_NONE,
            keyAsUnsafe=b"",
            valueSchema=self._state_schema,
        )
        try:
            for frame in self._iterated(self._function(group, frames, state)):
                self._emit_later(self._frames.batch(frame, self._schema, self._name))
            self._store(state)
        except Exception as error:
            raise raised(self._name, error, f", for the group {shortened(group)}") from error

    def _iterated(self, given: Any) -> Iterable[Any]:
        if hasattr(given, "columns") or not hasattr(given, "__iter__"):
            raise UserCodeError(f"{self._name} returned {shortened(given)}; return an iterator of pandas.DataFrame")
        return given  # type: ignore[no-any-return]

    def _store(self, state: GroupState) -> None:
        if state._removed:
            self._state.clear()
        elif state._updated:
            self._state.set(self._codec.store(tuple(state._value)))
        if self._domain is None:
            return
        timeout_ms = int(state._timeout_timestamp)
        self._set_timeout(self._domain, None if timeout_ms == _NONE else timeout_ms)
        if timeout_ms == _NONE:
            self._keys.clear()

    def _set_timeout(self, domain: TimeDomain, timeout_ms: int | None) -> None:
        """A timeout is over once it is before now, or before the watermark as Spark has it."""
        before_ms = self._timeouts.get()
        if before_ms == timeout_ms:
            if timeout_ms is not None:
                self._timers.register(domain, _timer_ms(domain, timeout_ms))
            return
        if before_ms is not None:
            self._timers.delete(domain, _timer_ms(domain, before_ms))
        self._timeouts.set(timeout_ms)
        if timeout_ms is not None:
            self._timers.register(domain, _timer_ms(domain, timeout_ms))

    # Output.

    def _emit_later(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows:
            self._waiting.append(batch)
            if sum(each.num_rows for each in self._waiting) >= MAX_ROWS:
                self._flush()

    def _flush(self) -> None:
        if self._waiting:
            made = self._waiting[0] if len(self._waiting) == 1 else pa.concat_batches(self._waiting)
            self._waiting = []
            self.context.emit(made)


def _timer_ms(domain: TimeDomain, timeout_ms: int) -> int:
    """When the timer of a timeout fires. The watermark is one less than Spark's, so the time itself is right there."""
    return timeout_ms if domain is TimeDomain.EVENT else timeout_ms + 1
