"""Keyed streams: rows with the same key are processed together, and share state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from snapline.api import join_nodes as joins
from snapline.api import process_nodes
from snapline.api import state_nodes as states
from snapline.api import update_nodes as updates
from snapline.api.aggregates import Aggregate, accumulators
from snapline.api.connected_streams import ConnectedStreams
from snapline.api.expressions import check_own_arguments
from snapline.api.graph_nodes import BaseStream, Input, Node, shown
from snapline.api.guidance import missing, names_its_operators
from snapline.api.late_imports import spark_side
from snapline.api.windowed_stream import WindowedStream, key_fields
from snapline.api.windows import WindowAssigner
from snapline.config.units import Duration, positive_duration_ms
from snapline.contracts.operator import Operator
from snapline.contracts.schemas import SchemaLike, key_type
from snapline.operators.aggregates.accumulators import Accumulators
from snapline.operators.aggregates.combiner import Combine
from snapline.operators.aggregates.running_aggregates import RunningAggregates
from snapline.types import Partitioning

if TYPE_CHECKING:
    from snapline.api.job import Job
    from snapline.api.stream import Stream

_TO_WINDOWS = "call window(...) first"


def _stream_class() -> type:
    # Imported here, since the two modules import each other.
    from snapline.api.stream import Stream

    return Stream


@names_its_operators
class KeyedStream(BaseStream):
    """A stream partitioned by key: rows with the same key are in the same subtask."""

    def __init__(self, job: Job, inputs: tuple[Input, ...], schema: pa.Schema, key_columns: tuple[str, ...]) -> None:
        super().__init__(job, inputs, key_columns)
        self._schema = schema

    @property
    def schema(self) -> pa.Schema:
        """The schema of every batch."""
        return self._schema

    @property
    def key_columns(self) -> tuple[str, ...]:
        return self._key_columns

    def __repr__(self) -> str:
        key = ", ".join(map(repr, self._key_columns))
        return f"<KeyedStream by {key} {shown(self._inputs, self._schema)}>"

    if not TYPE_CHECKING:  # a type checker would accept any name

        def __getattr__(self, name: str) -> Any:
            raise missing(self, name, (_stream_class(), "call it before key_by(...)"), (WindowedStream, _TO_WINDOWS))

    def connect(self, other: Stream | KeyedStream) -> ConnectedStreams:
        """This stream and another one as the two inputs of one operator; the other is keyed alike, or broadcast."""
        return ConnectedStreams(self._job, self, other)

    def aggregate(
        self,
        *,
        emit_every: Duration | None = None,
        uid: str | None = None,
        parallelism: int | None = None,
        **aggregates: Aggregate,
    ) -> Stream:
        """Running aggregates: emits, for each batch, one row per key in it, with the values over all its rows so far.

        The rows have the key columns and one column per named aggregate: `n=count()`, `total=sum("value")`. With
        `emit_every` changed keys are emitted at that interval of processing time instead, and before every checkpoint;
        rows are then combined by key before they are sent, where the aggregates allow it.
        """
        check_own_arguments("aggregate", uid, parallelism)
        fields = key_fields(self._schema, self._key_columns)
        taken = dict.fromkeys(self._key_columns, "a key column")
        what = "aggregate" if uid is None else f"aggregate {uid!r}"
        made = accumulators(aggregates, self._schema, taken, what)
        schema = pa.schema([*fields, *made.fields])
        every_ms = None if emit_every is None else positive_duration_ms(emit_every, "aggregate: emit_every")
        stream = self
        if every_ms is not None and (parts := made.parts) is not None and not parts.keys() & {*self._key_columns}:
            combined = pa.schema([*fields, *(pa.field(name, part.result) for name, part in parts.items())])
            inputs = tuple(self._combined(item, made, combined, max(every_ms // 2, 1), what) for item in self._inputs)
            stream = KeyedStream(self._job, inputs, combined, self._key_columns)
            made = made.merging()
        operator = RunningAggregates(made, schema, every_ms)
        return stream._then("aggregate", operator, schema, uid, parallelism, has_state=True)

    def _combined(self, item: Input, made: Accumulators, schema: pa.Schema, every_ms: int, what: str) -> Input:
        """An input whose rows are combined by key before they are sent."""
        operator = Combine(self._key_columns, key_type(self._schema, self._key_columns), made, schema, every_ms, what)
        straight = replace(item, partitioning=Partitioning.FORWARD, key_columns=())
        node = Node("combine", operator, None, (straight,), schema, parallelism=item.node.parallelism)
        self._job._add(node)
        return Input(node, Partitioning.HASH, self._key_columns)

    def window(self, windows: WindowAssigner, *, on: str | None = None) -> WindowedStream:
        """The rows of each key in windows: `Tumbling`, `Sliding`, `Session`, `GlobalWindow` or `GivenWindow`.

        `on` is the column with the time of a row, a timestamp or whole milliseconds; by default the column of the
        stream's watermarks.
        """
        return WindowedStream(self._job, self._inputs, self._schema, self._key_columns, windows, on)

    # Some methods are written beside the checks of their arguments.
    process = process_nodes.process
    map_with_state = states.map_with_state
    update_state = states.update_state

    def transform_with_state(
        self,
        processor: Any,
        schema: SchemaLike,
        *,
        time_mode: str = "none",
        output_mode: str = "append",
        initial_state: Any = None,
        format: str = "rows",
        event_time_column: str | None = None,
        micro_batches: bool = False,
        null_keys: bool = False,
        conf: Mapping[str, Any] | None = None,
        uid: str | None = None,
        parallelism: int | None = None,
    ) -> Stream:
        """Run a `pyspark.sql.streaming.StatefulProcessor` unchanged; `schema` is that of the rows it returns.

        `time_mode` is the clock of its timers: "none", "processing_time" or "event_time", which needs watermarks.
        `output_mode` is "append" or "update", with the same effect: all rows that it returns are emitted.
        `initial_state` is a Spark DataFrame, grouped or not, or a `pyarrow.Table`, with the key columns of this stream;
        the processor gets the rows of a key once, before any other row of that key. `format` is what the processor is
        written for: "rows" (`pyspark.sql.Row`) or "pandas".

        `event_time_column` is the column of the output that has its event time (`eventTimeColumnName` in Spark).
        `micro_batches` treats each batch as Spark treats a micro-batch: timers fire only after the rows of a batch, and
        rows are late by the watermark that the batch before saw. With `null_keys` rows whose key is null are a group of
        their own, as in SQL, and are not refused; state that was saved without it cannot be restored with it, nor the
        other way round. `conf` has settings of Spark SQL by their names, such
        as `spark.sql.session.timeZone`; by default those of the active session count.
        `snapline.spark.stateful` lists the differences from Spark.
        """
        return spark_side("stateful.processor_node").transform_with_state(  # type: ignore[no-any-return]
            self,
            processor,
            schema,
            time_mode=time_mode,
            output_mode=output_mode,
            initial_state=initial_state,
            format=format,
            event_time_column=event_time_column,
            micro_batches=micro_batches,
            null_keys=null_keys,
            conf=conf,
            uid=uid,
            parallelism=parallelism,
        )

    join = joins.join
    interval_join = joins.interval_join
    window_join = joins.window_join
    deduplicate = updates.deduplicate
    top_n = updates.top_n

    def apply(
        self,
        operator: Operator,
        uid: str | None = None,
        *,
        schema: SchemaLike,
        has_state: bool = True,
        parallelism: int | None = None,
    ) -> Stream:
        """Apply an operator of your own that emits batches of `schema` and may use keyed state."""
        return self._then_own(operator, uid, schema, has_state, parallelism)
