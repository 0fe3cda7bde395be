"""Runs an unchanged PySpark `StatefulProcessor` as an operator.

Same as in Spark: the calls of a processor and their arguments, states, timers, time to live, initial state, and that in
event time rows not newer than the watermark are dropped. Different:

* `handleInputRows` is called once per key in a batch; there are no micro-batches across keys. Processing time, and
  with it expiry, is that of the batch.
* `init` and `close` are called once per start of the job and subtask, not per micro-batch; and, as in Spark, once on
  the driver. What a processor keeps in attributes instead of states is lost on a restart.
* Timers fire when due, without waiting for rows; those that are due when they are registered fire after the rows of
  the batch. At the end of the input, remaining event-time timers fire once, in time order, with a watermark no later
  than needed; timers registered then do not fire, nor do processing-time ones.
* Rows are late by the watermark of now, in Spark by that of the micro-batch before.
* Maps are iterated in key order; their keys are not nested and have no nulls.
* Times from a state have no zone, as in Spark, and are in the process's local zone.

With `micro_batches`, the rows between two checkpoints are what a micro-batch is in Spark: each key is handled once,
with all its rows; timers fire only after the rows; rows are late by the watermark that the batch before saw.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, StatefulProcessor, TimerValues

from snapline.contracts.operator import Operator, OperatorContext
from snapline.errors import UserCodeError
from snapline.operators.event_time import SavedWatermark, per_second
from snapline.operators.keyed_batches import keyed_state
from snapline.operators.null_keys import unmarked, unmarked_key
from snapline.operators.row_batches import raised
from snapline.spark.stateful.processor_rows import Format, Key, KeyedRows, batches
from snapline.spark.stateful.processor_states import ProcessorHandle, Times
from snapline.state.batch_keys import Rows
from snapline.state.stable_hash import key_groups
from snapline.state.timers import DueTimers, TimeDomain
from snapline.text import shortened
from snapline.types import MAX_WATERMARK

_MAX_INTEGER = (1 << 63) - 1

_INITIALIZED = "_initialized"
"""The state that marks keys whose initial state was applied."""


class TransformWithState(Operator):
    """Runs a processor in one subtask.

    `time_column` determines which rows are late, None if unknown. `initial_state` has the key columns of the stream.
    `event_time_column` of the output has its event time, which must be newer than the watermark. With `null_keys` the
    last key column marks null keys; the processor sees neither it nor what stands for nulls.
    """

    def __init__(
        self,
        processor: StatefulProcessor,
        schema: pa.Schema,
        *,
        form: Format,
        domain: TimeDomain | None,
        time_column: str | None = None,
        initial_state: pa.Table | None = None,
        event_time_column: str | None = None,
        micro_batches: bool = False,
        null_keys: bool = False,
        is_avro: bool = False,
        state_counts: Mapping[str, int] | None = None,
    ) -> None:
        self.state_counts = dict(state_counts or {})
        """How many states `init` declared and deleted, by the names of Spark's metrics."""
        self._processor = processor
        self._schema = schema
        self._format = form
        self._domain = domain
        self._time_column = time_column
        self._initial_state = initial_state
        self._event_time_column = event_time_column
        self._has_micro_batches = micro_batches
        self._has_null_keys = null_keys
        self._is_avro = is_avro
        self._name = type(processor).__name__
        self._times = Times()
        self._late_ms = -MAX_WATERMARK
        self._waiting: list[pa.RecordBatch] = []
        self._is_initialized = False

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._keyed = keyed_state(context, "transform_with_state")
        self._timers = self._keyed.timers()
        if self._domain is TimeDomain.EVENT or self._event_time_column is not None:
            # Rows that were late before a restore stay late after it.
            self._watermark = SavedWatermark(context, older_list="watermarks")
            self._late_ms = self._watermark.ms
        if self._domain is TimeDomain.EVENT:
            self._times.watermark_ms = max(self._watermark.ms, 0)
        self._handle = handle = ProcessorHandle(self._keyed, self._domain, self._times, is_avro=self._is_avro)
        self._processor.init(handle)
        handle.end_of_init()
        self._is_initialized = True
        if self._initial_state is not None:
            with self._batch_time():
                self._initialize(self._initial_state)
            self._initial_state = None

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        if self._has_micro_batches:
            self._waiting.append(batch)
            return
        if self._watermarked:
            self._late_ms = self._watermark.ms
        self._process(batch)

    def prepare_snapshot(self, checkpoint_id: int) -> None:
        if self._has_micro_batches:
            self._end_micro_batch()

    def finish(self) -> None:
        if self._has_micro_batches:
            self._end_micro_batch()

    def _end_micro_batch(self) -> None:
        waiting, self._waiting = self._waiting, []
        if waiting:
            (batch,) = pa.Table.from_batches(waiting).combine_chunks().to_batches()
            self._process(batch)
        elif self._domain is not None:
            with self._batch_time():
                self._fire(self._domain, self._now_ms(self._domain))
        if self._watermarked:
            self._late_ms = self._watermark.ms

    def _process(self, batch: pa.RecordBatch) -> None:
        if self._time_column is not None:
            rows = batch.num_rows
            batch = newer_rows(batch, self._time_column, max(self._late_ms, 0))
            self.late_rows += rows - batch.num_rows
        with self._batch_time():
            if batch.num_rows:
                self._emit(self._handled(batch), "handleInputRows")
            if self._domain is not None:
                self._fire(self._domain, self._now_ms(self._domain))

    def watermark(self, timestamp_ms: int) -> None:
        is_end = timestamp_ms == MAX_WATERMARK
        if is_end and self._has_micro_batches:
            self._end_micro_batch()
        # A watermark of Spark is the time up to which rows are late; ours is the last before it.
        spark_ms = timestamp_ms if is_end else timestamp_ms + 1
        if not self._watermarked or spark_ms <= max(self._watermark.ms, 0):
            return
        if not self._has_micro_batches:
            self._late_ms = self._watermark.ms
        if not is_end:
            self._watermark.advance(spark_ms)
        if self._domain is not TimeDomain.EVENT:
            return
        if not is_end:
            self._times.watermark_ms = spark_ms
        if is_end or not self._has_micro_batches:
            with self._batch_time():
                self._fire(TimeDomain.EVENT, spark_ms, is_end=is_end)

    def next_wakeup_ms(self) -> int | None:
        if self._domain is not TimeDomain.PROCESSING or self._has_micro_batches:
            return None
        return self._timers.next_ms(TimeDomain.PROCESSING)

    def wakeup(self, now_ms: int) -> None:
        with self._batch_time(now_ms):
            self._fire(TimeDomain.PROCESSING, now_ms)

    def close(self) -> None:
        if self._is_initialized:
            self._is_initialized = False
            self._processor.close()

    @contextmanager
    def _batch_time(self, now_ms: int | None = None) -> Iterator[None]:
        """Freeze processing time; with `time_mode` none the processor does not see it."""
        now_ms = self.context.clock() if now_ms is None else now_ms
        if self._domain is not None:
            self._times.processing_ms = now_ms
        self._keyed.hold_time(now_ms)
        try:
            yield
            self._keyed.select_none()
        finally:
            self._keyed.hold_time(None)

    @property
    def _watermarked(self) -> bool:
        return self._domain is TimeDomain.EVENT or self._event_time_column is not None

    def _now_ms(self, domain: TimeDomain) -> int:
        return self._times.watermark_ms if domain is TimeDomain.EVENT else self._times.processing_ms

    def _timer_values(self) -> TimerValues:
        return TimerValues(self._times.processing_ms, self._times.watermark_ms)

    def _emit(self, items: Iterator[Any], method: str) -> None:
        for made in batches(items, self._format, self._schema, f"{method} of {self._name}"):
            if self._event_time_column is not None:
                self._check_event_time(made, self._event_time_column, method)
            self.context.emit(made)

    def _check_event_time(self, made: pa.RecordBatch, column: str, method: str) -> None:
        older = made.num_rows - newer_rows(made, column, self._late_ms).num_rows
        if older:
            raise UserCodeError(
                f"[EMITTING_ROWS_OLDER_THAN_WATERMARK_NOT_ALLOWED] {method} of {self._name} returned {older} rows "
                f"whose {column!r}, the event time of its output, is not newer than the watermark, {self._late_ms} ms; "
                "operators behind it would drop them as late"
            )

    def _by_key(self, batch: pa.RecordBatch) -> tuple[Rows, list[Key], Iterator[list[Any]]]:
        """Returns the keys of a batch, for state and for the processor, and the processor's input for each."""
        grouped = KeyedRows(batch, self.context.key_columns)
        shown, columns = batch, grouped.columns
        if self._has_null_keys:
            names = self.context.key_columns[:-1]
            shown = unmarked(batch, names)
            columns = [shown.column(name).take(pa.array(grouped.firsts)) for name in names]
        return self._keyed.keys(grouped.columns), self._format.keys(columns), self._format.parts(shown, grouped)

    def _handled(self, batch: pa.RecordBatch) -> Iterator[Any]:
        """Yields the processor's output for all rows; a key stays selected while its output is consumed."""
        rows, keys, parts = self._by_key(batch)
        timer_values = self._timer_values()
        for number, part in enumerate(parts):
            self._keyed.select(rows, number)
            try:
                given = self._processor.handleInputRows(keys[number], iter(part), timer_values)
                yield from self._iterated(given, "handleInputRows")
            except Exception as error:
                raise self._blamed(error, "handleInputRows", keys[number]) from error

    def _fire(self, domain: TimeDomain, until_ms: int, *, is_end: bool = False) -> None:
        due = self._timers.due(domain, until_ms)
        if due is not None:
            self._emit(self._expired(due, is_end), "handleExpiredTimer")

    def _expired(self, due: DueTimers, is_end: bool) -> Iterator[Any]:
        keys = [tuple(key.values()) if isinstance(key, dict) else (key,) for key in due.keys.to_pylist()]
        if self._has_null_keys:
            keys = [unmarked_key(key) for key in keys]
        for number, (key, time_ms) in enumerate(zip(keys, due.times.tolist(), strict=True)):
            self._keyed.select(due.rows, number)
            if is_end:
                # The output for a key must not depend on the other keys of the subtask.
                self._times.watermark_ms = max(self._times.watermark_ms, time_ms)
            try:
                given = self._processor.handleExpiredTimer(key, self._timer_values(), ExpiredTimerInfo(time_ms))
                yield from self._iterated(given, "handleExpiredTimer")
            except Exception as error:
                raise self._blamed(error, "handleExpiredTimer", key) from error
            self._handle.deleteTimer(time_ms)

    def _blamed(self, error: Exception, method: str, key: Any) -> Exception:
        return raised(f"{method} of {self._name}", error, f", for the key {shortened(key)}")

    def _iterated(self, given: Any, method: str) -> Iterator[Any]:
        try:
            return iter(given)
        except TypeError:
            raise UserCodeError(
                f"{method} of {self._name} returned {shortened(given)}; return an iterator, an empty one for no rows"
            ) from None

    def _initialize(self, table: pa.Table) -> None:
        """Pass the initial state of this subtask's keys to the processor, once per key across restarts."""
        columns = [table.column(name).combine_chunks() for name in self.context.key_columns]
        rows = Rows.of(self._keyed.key.encode(columns))
        groups = key_groups(rows.key_hashes, self._keyed.max_parallelism)
        owned = self._keyed.key_groups
        mine = np.flatnonzero((groups >= owned.start) & (groups <= owned.end))
        batch = table.take(pa.array(mine)).combine_chunks().to_batches()
        if not mine.size:
            return
        (only,) = batch
        done = self._keyed.value_state(_INITIALIZED, pa.bool_())
        keys, values, parts = self._by_key(only)
        is_done = done.take(keys).to_pylist()
        timer_values = self._timer_values()
        for number, part in enumerate(parts):
            if is_done[number]:
                continue
            self._keyed.select(keys, number)
            for item in part:
                self._processor.handleInitialState(values[number], item, timer_values)
            done.set(True)


def newer_rows(batch: pa.RecordBatch, column: str, watermark_ms: int) -> pa.RecordBatch:
    """Returns the rows at least one millisecond newer than the watermark, and those without a time."""
    times = batch.column(column)
    first = watermark_ms + 1
    if pa.types.is_timestamp(times.type):
        first = -(-first * per_second(times.type) // 1000)
        times = times.cast(pa.int64())
    is_new = pc.greater_equal(times, pa.scalar(max(-_MAX_INTEGER, min(first, _MAX_INTEGER)), pa.int64()))
    return batch.filter(pc.fill_null(is_new, True))
