"""Adds a PySpark `StatefulProcessor` to a job, once its arguments and its declarations of states are checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import cloudpickle
import pyarrow as pa
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from snapline.api.graph_nodes import Input, Node
from snapline.api.keyed_stream import KeyedStream
from snapline.api.stream import Stream
from snapline.contracts.schemas import checked_schema, key_type
from snapline.errors import ConfigurationError, UserCodeError
from snapline.operators.null_keys import MARK, MarkNullKeys, marked, marked_schema
from snapline.protocol.keygroups import KeyGroupRange
from snapline.spark.stateful.pandas_frames import make_format
from snapline.spark.stateful.processor_operator import TransformWithState
from snapline.spark.stateful.processor_settings import ProcessorSettings
from snapline.spark.stateful.processor_states import ProcessorHandle, Times
from snapline.state.exact_cast import exact_cast
from snapline.state.memory_backend import MemoryBackend
from snapline.state.timers import TimeDomain
from snapline.text import shortened
from snapline.types import Partitioning

TIME_MODES = {"none": None, "processingtime": TimeDomain.PROCESSING, "eventtime": TimeDomain.EVENT}
OUTPUT_MODES = ("append", "update")
MAX_INITIAL_BYTES = 256 << 20
"""Largest initial state; it is shipped with the job."""


def transform_with_state(
    stream: KeyedStream,
    processor: StatefulProcessor,
    schema: Any,
    *,
    time_mode: str,
    output_mode: str,
    initial_state: Any,
    format: str,
    event_time_column: str | None,
    micro_batches: bool,
    null_keys: bool,
    conf: Mapping[str, Any] | None,
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
    settings = ProcessorSettings.of(conf)
    form = make_format(format, settings)
    time_column = _time_column(stream, name, "time_mode='event_time'") if domain is TimeDomain.EVENT else None
    if event_time_column is not None:
        _time_column(stream, name, f"event_time_column={event_time_column!r}")
        _check_output_time(event_time_column, schema)
    table = None if initial_state is None else _initial_table(initial_state, stream, null_keys)
    if null_keys:
        stream = _with_marks(stream)
    counts = _try_init(processor, domain, stream, settings)
    operator = TransformWithState(
        processor,
        schema,
        form=form,
        domain=domain,
        time_column=time_column,
        initial_state=table,
        event_time_column=event_time_column,
        micro_batches=micro_batches,
        null_keys=null_keys,
        is_avro=settings.is_avro,
        state_counts=counts,
    )
    inputs, columns = stream._inputs, stream.key_columns
    node = Node(
        name, operator, uid, inputs, schema, columns, parallelism, has_state=True, time_column=event_time_column
    )
    return stream._job._behind(node)


def _with_marks(stream: KeyedStream) -> KeyedStream:
    """Returns the stream keyed by its key columns and the mark of their nulls."""
    columns = stream.key_columns
    schema = marked_schema(stream.schema, columns)
    inputs = []
    for item in stream._inputs:
        straight = replace(item, partitioning=Partitioning.FORWARD, key_columns=())
        node = Node("null keys", MarkNullKeys(columns), None, (straight,), schema, parallelism=item.node.parallelism)
        stream._job._add(node)
        inputs.append(Input(node, Partitioning.HASH, (*columns, MARK)))
    return KeyedStream(stream._job, tuple(inputs), schema, (*columns, MARK))


def _check_output_time(column: str, schema: pa.Schema) -> None:
    if column not in schema.names or not pa.types.is_timestamp(schema.field(column).type):
        raise ConfigurationError(
            f"transform_with_state(event_time_column={column!r}): give a column of times that the processor returns, "
            f"of its schema {schema.names}"
        )


def _time_column(stream: KeyedStream, name: str, option: str) -> str | None:
    """Returns the event-time column if it is unique and in the rows, else None.

    Raises `ConfigurationError` if an input has no watermarks.
    """
    columns: set[str] = set()
    for item in stream._inputs:
        names = item.node.event_time
        if names is None:
            raise ConfigurationError(
                f"transform_with_state({name}, {option}): its input has no watermarks; give the source "
                "watermarks=snapline.Watermarks(column), or use with_watermarks() before key_by()"
            )
        columns |= names
    known = [column for column in columns if column in stream.schema.names]
    return known[0] if len(columns) == 1 and known else None


def _initial_table(given: Any, stream: KeyedStream, null_keys: bool) -> pa.Table:
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
        if values.null_count and not null_keys:
            raise ConfigurationError(f"transform_with_state(initial_state=...): the key column {column!r} has nulls")
        try:
            cast = exact_cast(values, kind, may_round=False)
        except UserCodeError as error:
            raise ConfigurationError(
                f"transform_with_state(initial_state=...): the key column {column!r} does not fit: {error}"
            ) from error
        table = table.set_column(table.column_names.index(column), column, cast)
    if not null_keys:
        return table
    batches = [marked(batch, stream.key_columns) for batch in table.combine_chunks().to_batches()]
    return pa.Table.from_batches(batches, marked_schema(table.schema, stream.key_columns))


def _try_init(
    processor: StatefulProcessor, domain: TimeDomain | None, stream: KeyedStream, settings: ProcessorSettings
) -> Mapping[str, int]:
    """Run `init` of a copy, as Spark does on the driver, to report wrong state declarations early.

    Returns how many states it declared and deleted.
    """
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
    handle = ProcessorHandle(backend, domain, Times(), is_avro=settings.is_avro)
    try:
        copy.init(handle)
        copy.close()
    except UserCodeError as error:
        raise ConfigurationError(f"transform_with_state: init of {type(processor).__name__}: {error}") from error
    finally:
        backend.close()
    return handle.counts
