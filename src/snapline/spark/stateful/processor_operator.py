"""Runs an unchanged PySpark `StatefulProcessor` as an operator.

Same as in Spark: the calls of a processor and their arguments, states, timers, time to live, initial state, and that in
event time rows not newer than the watermark are dropped. Different:

* `handleInputRows` is called once per key in a batch; there are no micro-batches across keys. Processing time, and
  with it expiry, is that of the batch.
* `init` and `close` are called once per start of the job and subtask, not per micro-batch; and, as in Spark, once on
  the driver. What a processor keeps in attributes instead of states is lost on a restart.
* Timers fire when due, without waiting for rows. At the end of the input, remaining event-time timers fire once, in
  time order, with a watermark no later than needed; timers registered then do not fire, nor do processing-time ones.
* Maps are iterated in key order; their keys are not nested and have no nulls.
* Times in rows, and in pandas frames (without a zone), are in UTC; in Spark they are in the session's zone. Times
  from a state have no zone, as in Spark, and are in the process's local zone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import cloudpickle
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, StatefulProcessor, TimerValues

from snapline.api.graph_nodes import Node
from snapline.api.keyed_stream import KeyedStream
from snapline.api.stream import Stream
from snapline.contracts.operator import Operator, OperatorContext
from snapline.contracts.schemas import checked_schema, key_type
from snapline.errors import ConfigurationError, UserCodeError
from snapline.operators.event_time import SavedWatermark, per_second
from snapline.operators.keyed_batches import keyed_state
from snapline.operators.row_batches import raised
from snapline.protocol.keygroups import KeyGroupRange
from snapline.spark.stateful.processor_rows import Format, KeyedRows, batches, make_format
from snapline.spark.stateful.processor_states import ProcessorHandle, Times
from snapline.state.batch_keys import Rows
from snapline.state.exact_cast import exact_cast
from snapline.state.memory_backend import MemoryBackend
from snapline.state.stable_hash import key_groups
from snapline.state.timers import DueTimers, TimeDomain
from snapline.text import shortened
from snapline.types import MAX_WATERMARK

TIME_MODES = {"none": None, "processingtime": TimeDomain.PROCESSING, "eventtime": TimeDomain.EVENT}
OUTPUT_MODES = ("append", "update")
MAX_INITIAL_BYTES = 256 << 20
"""Largest initial state; it is shipped with the job."""

_MAX_INTEGER = (1 << 63) - 1

_INITIALIZED = "_initialized"
"""The state that marks keys whose initial state was applied."""


class TransformWithState(Operator):
    """Runs a processor in one subtask.

    `time_column` determines which rows are late, None if unknown. `initial_state` has the key columns of the stream.
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
    ) -> None:
        self._processor = processor
        self._schema = schema
        self._format = form
        self._domain = domain
        self._time_column = time_column
        self._initial_state = initial_state
        self._name = type(processor).__name__
        self._times = Times()
        self._is_initialized = False

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._keyed = keyed_state(context, "transform_with_state")
        self._timers = self._keyed.timers()
        if self._domain is TimeDomain.EVENT:
            # Rows that were late before a restore stay late after it.
            self._watermark = SavedWatermark(context, older_list="watermarks")
            self._times.watermark_ms = max(self._watermark.ms, 0)
        self._handle = handle = ProcessorHandle(self._keyed, self._domain, self._times)
        self._processor.init(handle)
        handle.end_of_init()
        self._is_initialized = True
        if self._initial_state is not None:
            with self._batch_time():
                self._initialize(self._initial_state)
            self._initial_state = None

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        if self._time_column is not None:
            batch = _not_late(batch, self._time_column, self._times.watermark_ms)
        if batch.num_rows:
            with self._batch_time():
                self._emit(self._handled(batch), "handleInputRows")

    def watermark(self, timestamp_ms: int) -> None:
        if self._domain is not TimeDomain.EVENT or timestamp_ms <= self._times.watermark_ms:
            return
        is_end = timestamp_ms == MAX_WATERMARK
        if not is_end:
            self._watermark.advance(timestamp_ms)
            self._times.watermark_ms = timestamp_ms
        self._fire(TimeDomain.EVENT, timestamp_ms, is_end=is_end)

    def next_wakeup_ms(self) -> int | None:
        return self._timers.next_ms(TimeDomain.PROCESSING) if self._domain is TimeDomain.PROCESSING else None

    def wakeup(self, now_ms: int) -> None:
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
        finally:
            self._keyed.hold_time(None)

    def _timer_values(self) -> TimerValues:
        return TimerValues(self._times.processing_ms, self._times.watermark_ms)

    def _emit(self, items: Iterator[Any], method: str) -> None:
        for made in batches(items, self._format, self._schema, f"{method} of {self._name}"):
            self.context.emit(made)

    def _handled(self, batch: pa.RecordBatch) -> Iterator[Any]:
        """Yields the processor's output for all rows; a key stays selected while its output is consumed."""
        grouped = KeyedRows(batch, self.context.key_columns)
        rows = self._keyed.keys(grouped.columns)
        timer_values = self._timer_values()
        for number, part in enumerate(self._format.parts(batch, grouped)):
            self._keyed.select(rows, number)
            try:
                given = self._processor.handleInputRows(grouped.keys[number], iter(part), timer_values)
                yield from self._iterated(given, "handleInputRows")
            except Exception as error:
                raise self._blamed(error, "handleInputRows", grouped.keys[number]) from error

    def _fire(self, domain: TimeDomain, until_ms: int, *, is_end: bool = False) -> None:
        due = self._timers.due(domain, until_ms)
        if due is not None:
            with self._batch_time(until_ms if domain is TimeDomain.PROCESSING else None):
                self._emit(self._expired(due, is_end), "handleExpiredTimer")

    def _expired(self, due: DueTimers, is_end: bool) -> Iterator[Any]:
        keys = [tuple(key.values()) if isinstance(key, dict) else (key,) for key in due.keys.to_pylist()]
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
        grouped = KeyedRows(only, self.context.key_columns)
        keys = self._keyed.keys(grouped.columns)
        is_done = done.take(keys).to_pylist()
        timer_values = self._timer_values()
        for number, part in enumerate(self._format.parts(only, grouped)):
            if is_done[number]:
                continue
            self._keyed.select(keys, number)
            for item in part:
                self._processor.handleInitialState(grouped.keys[number], item, timer_values)
            done.set(True)


def _not_late(batch: pa.RecordBatch, column: str, watermark_ms: int) -> pa.RecordBatch:
    """Returns the rows at least one millisecond newer than the watermark, and those without a time."""
    times = batch.column(column)
    first = watermark_ms + 1
    if pa.types.is_timestamp(times.type):
        first = -(-first * per_second(times.type) // 1000)
        times = times.cast(pa.int64())
    is_new = pc.greater_equal(times, pa.scalar(min(first, _MAX_INTEGER), pa.int64()))
    return batch.filter(pc.fill_null(is_new, True))


def transform_with_state(
    stream: KeyedStream,
    processor: StatefulProcessor,
    schema: Any,
    *,
    time_mode: str,
    output_mode: str,
    initial_state: Any,
    format: str,
    uid: str | None,
    parallelism: int | None,
) -> Stream:
    """See `KeyedStream.transform_with_state`."""
    if not isinstance(processor, StatefulProcessor):
        raise ConfigurationError(
            f"transform_with_state({shortened(processor)}): give an object whose class is a "
            "pyspark.sql.streaming.StatefulProcessor"
        )
    name = type(processor).__name__
    schema = checked_schema(schema, f"transform_with_state({name})")
    mode = str(time_mode).lower().replace("_", "")
    if mode not in TIME_MODES:
        raise ConfigurationError(
            f"transform_with_state(time_mode={time_mode!r}): use 'none', 'processing_time' or 'event_time'"
        )
    domain = TIME_MODES[mode]
    if output_mode.lower() not in OUTPUT_MODES:
        raise ConfigurationError(
            f"transform_with_state(output_mode={output_mode!r}): use 'append' or 'update', which are the same here: "
            "every row the processor returns is emitted"
        )
    form = make_format(format)
    inputs, columns = stream._inputs, stream.key_columns
    time_column = _time_column(stream, name) if domain is TimeDomain.EVENT else None
    table = None if initial_state is None else _initial_table(initial_state, stream)
    _try_init(processor, domain, stream)
    operator = TransformWithState(
        processor, schema, form=form, domain=domain, time_column=time_column, initial_state=table
    )
    return stream._job._behind(Node(name, operator, uid, inputs, schema, columns, parallelism, has_state=True))


def _time_column(stream: KeyedStream, name: str) -> str | None:
    """Returns the event-time column if it is unique and in the rows, else None.

    Raises `ConfigurationError` if an input has no watermarks.
    """
    columns: set[str] = set()
    for item in stream._inputs:
        names = item.node.event_time
        if names is None:
            raise ConfigurationError(
                f"transform_with_state({name}, time_mode='event_time'): its input has no watermarks; give the source "
                "watermarks=snapline.Watermarks(column), or use with_watermarks() before key_by()"
            )
        columns |= names
    known = [column for column in columns if column in stream.schema.names]
    return known[0] if len(columns) == 1 and known else None


def _initial_table(given: Any, stream: KeyedStream) -> pa.Table:
    """Returns the user's initial state as a table, with key columns of the stream's types."""
    frame = getattr(given, "_df", given)  # the result of groupBy()
    if isinstance(frame, pa.Table):
        table = frame
    elif isinstance(frame, pa.RecordBatch):
        table = pa.Table.from_batches([frame])
    elif callable(getattr(frame, "toArrow", None)):
        table = frame.toArrow()
    else:
        raise ConfigurationError(
            f"transform_with_state(initial_state={shortened(given)}): give a Spark DataFrame, grouped or not, or a "
            "pyarrow.Table"
        )
    if table.nbytes > MAX_INITIAL_BYTES:
        raise ConfigurationError(
            f"transform_with_state(initial_state=...): {table.nbytes} bytes are too many to ship with the job, the "
            f"limit is {MAX_INITIAL_BYTES}; send such rows through the stream"
        )
    key = key_type(stream.schema, stream.key_columns)
    kinds = [key] if len(stream.key_columns) == 1 else [field.type for field in key]
    for column, kind in zip(stream.key_columns, kinds, strict=True):
        if column not in table.column_names:
            raise ConfigurationError(
                f"transform_with_state(initial_state=...): it has no column {column!r}, a key column of the stream; "
                f"there are {', '.join(map(repr, table.column_names))}"
            )
        values = table.column(column).combine_chunks()
        if values.null_count:
            raise ConfigurationError(f"transform_with_state(initial_state=...): the key column {column!r} has nulls")
        try:
            cast = exact_cast(values, kind, may_round=False)
        except UserCodeError as error:
            raise ConfigurationError(
                f"transform_with_state(initial_state=...): the key column {column!r} does not fit: {error}"
            ) from error
        table = table.set_column(table.column_names.index(column), column, cast)
    return table


def _try_init(processor: StatefulProcessor, domain: TimeDomain | None, stream: KeyedStream) -> None:
    """Run `init` of a copy, as Spark does on the driver, to report wrong state declarations early."""
    try:
        copy: StatefulProcessor = cloudpickle.loads(cloudpickle.dumps(processor))
    except Exception as error:
        raise ConfigurationError(
            f"transform_with_state: {type(processor).__name__} cannot be pickled and sent to the executors: "
            f"{type(error).__name__}: {error}; open connections and files in init()"
        ) from error
    backend = MemoryBackend(
        key_type(stream.schema, stream.key_columns), max_parallelism=1, key_groups=KeyGroupRange(0, 0), clock=lambda: 0
    )
    try:
        copy.init(ProcessorHandle(backend, domain, Times()))
        copy.close()
    except UserCodeError as error:
        raise ConfigurationError(f"transform_with_state: init of {type(processor).__name__}: {error}") from error
    finally:
        backend.close()
