"""Keyed streams: rows with the same key are processed together, and share state."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from snapline.api import join_nodes as joins
from snapline.api import update_nodes as updates
from snapline.api.aggregates import Aggregate, accumulators
from snapline.api.connected_streams import ConnectedStreams
from snapline.api.expressions import check_own_arguments
from snapline.api.graph_nodes import Input, Node, own_operator, shown
from snapline.api.guidance import missing, names_its_operators
from snapline.api.join_nodes import Suffixes
from snapline.api.late_imports import spark_side
from snapline.api.process_nodes import process_node
from snapline.api.state_nodes import map_with_state, update_state
from snapline.api.windowed_stream import WindowedStream, key_fields
from snapline.api.windows import Sliding, Tumbling, WindowAssigner
from snapline.config.units import Duration, positive_duration_ms
from snapline.contracts.functions import BatchProcessFunction, ProcessFunction
from snapline.contracts.operator import Operator
from snapline.contracts.schemas import SchemaLike, key_type
from snapline.operators.aggregates.accumulators import Accumulators
from snapline.operators.aggregates.combiner import Combine
from snapline.operators.aggregates.running_aggregates import RunningAggregates
from snapline.state.ttl import Lifetime
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
class KeyedStream:
    """A stream partitioned by key: rows with the same key are in the same subtask."""

    def __init__(self, job: Job, inputs: tuple[Input, ...], schema: pa.Schema, key_columns: tuple[str, ...]) -> None:
        self._job = job
        self._inputs = inputs
        self._schema = schema
        self._key_columns = key_columns

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
        inputs = self._inputs
        if every_ms is not None and (parts := made.parts) is not None and not parts.keys() & {*self._key_columns}:
            combined = pa.schema([*fields, *(pa.field(name, part.result) for name, part in parts.items())])
            inputs = tuple(self._combined(item, made, combined, max(every_ms // 2, 1), what) for item in inputs)
            made = made.merging()
        operator = RunningAggregates(made, schema, every_ms)
        return self._job._behind(
            Node("aggregate", operator, uid, inputs, schema, self._key_columns, parallelism, has_state=True)
        )

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

    def process(
        self,
        function: ProcessFunction | BatchProcessFunction,
        *,
        schema: SchemaLike,
        side_outputs: Mapping[str, SchemaLike] | None = None,
        uid: str | None = None,
        parallelism: int | None = None,
    ) -> Stream:
        """Apply a function with keyed state and timers, which emits rows of `schema`.

        `side_outputs` are the schemas of its side outputs by name; see `Stream.side_output`.
        """
        return self._job._behind(
            process_node(
                function,
                self._inputs,
                self._key_columns,
                schema=schema,
                side_outputs=side_outputs,
                uid=uid,
                parallelism=parallelism,
            )
        )

    def map_with_state(
        self,
        function: Callable[..., Any],
        *,
        state: object,
        schema: SchemaLike,
        columns: Sequence[str] | None = None,
        ttl: Lifetime | None = None,
        uid: str | None = None,
        parallelism: int | None = None,
    ) -> Stream:
        """Call `function(state, row)` for each row; it returns the new state of the key, and a row to emit or None.

        `state` is the type of the state, such as `int` or "total DOUBLE, n BIGINT". The function gets None for a new
        key, and returns None to remove the state. A row is a dict. With `columns` the function gets the values of these
        columns instead, `function(state, value)`, which is faster, and returns only the columns of `schema` that are
        not key columns: one value, or a tuple of several; the key columns are copied. A state with fields is a dict,
        and with `columns` a tuple. With `ttl` a state that has not changed for that long expires.
        """
        operator, made = map_with_state(
            function, self._schema, self._key_columns, state=state, schema=schema, columns=columns, ttl=ttl
        )
        return self._stateful("map_with_state", operator, made, uid, parallelism)

    def update_state(
        self,
        function: Callable[..., Any],
        *,
        state: object,
        schema: SchemaLike,
        ttl: Lifetime | None = None,
        uid: str | None = None,
        parallelism: int | None = None,
    ) -> Stream:
        """Call `function(old, groups, batch)` once per batch; it returns the new states, and a batch to emit or None.

        `old` are the states of the distinct keys, an Arrow array with nulls for new keys; `groups`, a `Groups`, maps
        rows to these keys; the new states are in the same order. Results must not depend on batch boundaries.
        """
        operator, made = update_state(function, state=state, schema=schema, ttl=ttl)
        return self._stateful("update_state", operator, made, uid, parallelism)

    def _stateful(
        self, name: str, operator: Operator, schema: pa.Schema, uid: str | None, parallelism: int | None
    ) -> Stream:
        return self._job._behind(
            Node(name, operator, uid, self._inputs, schema, self._key_columns, parallelism, has_state=True)
        )

    def transform_with_state(
        self,
        processor: Any,
        schema: SchemaLike,
        *,
        time_mode: str = "none",
        output_mode: str = "append",
        initial_state: Any = None,
        format: str = "rows",
        uid: str | None = None,
        parallelism: int | None = None,
    ) -> Stream:
        """Run a `pyspark.sql.streaming.StatefulProcessor` unchanged; `schema` is that of the rows it returns.

        `time_mode` is the clock of its timers: "none", "processing_time" or "event_time", which needs watermarks.
        `output_mode` is "append" or "update", with the same effect: all rows that it returns are emitted.
        `initial_state` is a Spark DataFrame, grouped or not, or a `pyarrow.Table`, with the key columns of this stream;
        the processor gets the rows of a key once, before any other row of that key. `format` is what the processor is
        written for: "rows" (`pyspark.sql.Row`) or "pandas". `snapline.spark.stateful` lists the differences from Spark.
        """
        return spark_side("stateful.processor_operator").transform_with_state(  # type: ignore[no-any-return]
            self,
            processor,
            schema,
            time_mode=time_mode,
            output_mode=output_mode,
            initial_state=initial_state,
            format=format,
            uid=uid,
            parallelism=parallelism,
        )

    def join(
        self,
        right: KeyedStream,
        *,
        how: str = "inner",
        ttl: Lifetime | None = None,
        where: pc.Expression | None = None,
        suffixes: Suffixes = ("", "_right"),
        change_column: str = "change",
        uid: str | None = None,
        parallelism: int | None = None,
    ) -> Stream:
        """Join each row of this stream with each row of another one that has the same key, whichever comes first.

        Key columns appear once, under the names they have here; other columns that both streams have get `suffixes`.
        `how` is "inner", "left", "right" or "full". In an outer join a row without a match is emitted with nulls at
        once, and retracted when its first match arrives: `change_column` says "insert" or "delete". `where`, an
        expression over the joined row, must also hold. Rows are kept forever, or with `ttl` at least that long.
        """
        return joins.join(
            self,
            right,
            how=how,
            ttl=ttl,
            where=where,
            suffixes=suffixes,
            change_column=change_column,
            uid=uid,
            parallelism=parallelism,
        )

    def interval_join(
        self,
        right: KeyedStream,
        *,
        lower: Duration,
        upper: Duration,
        how: str = "inner",
        on: tuple[str, str] | None = None,
        suffixes: Suffixes = ("", "_right"),
        uid: str | None = None,
        parallelism: int | None = None,
    ) -> Stream:
        """Join each row of this stream with rows of another one that have the same key and are close in time.

        The time of the right row is from `lower` to `upper` after that of the left row, inclusive; "-5s" is earlier.
        `on` are the time columns of both, by default those of their watermarks. In an outer join, rows without a match
        are emitted with nulls once the watermark rules one out. Late rows are dropped, or read from the side outputs
        "late_left" and "late_right".
        """
        return joins.interval_join(
            self,
            right,
            lower=lower,
            upper=upper,
            how=how,
            on=on,
            suffixes=suffixes,
            uid=uid,
            parallelism=parallelism,
        )

    def window_join(
        self,
        right: KeyedStream,
        window: Tumbling | Sliding,
        *,
        how: str = "inner",
        on: tuple[str, str] | None = None,
        suffixes: Suffixes = ("", "_right"),
        uid: str | None = None,
        parallelism: int | None = None,
    ) -> Stream:
        """Join each row of this stream with each row of another one that has the same key and is in the same window.

        Results are emitted once the watermark has passed the end of the window, with the columns `window_start` and
        `window_end`; in an outer join rows without a match are emitted with nulls then. `on` and late rows are as for
        `interval_join`.
        """
        return joins.window_join(
            self, right, window, how=how, on=on, suffixes=suffixes, uid=uid, parallelism=parallelism
        )

    def deduplicate(
        self,
        *,
        keep: str = "first",
        by: str | Sequence[str] | None = None,
        ttl: Lifetime | None = None,
        uid: str | None = None,
        parallelism: int | None = None,
    ) -> Stream:
        """One row per key: with `keep="first"` the one that comes first, and never another.

        With "last" every row that is at least as new as all before it is emitted, and replaces the last one of its key:
        newer by the column or columns `by`, or without them by arrival. Of rows that arrive at the same time only the
        newest is emitted. With `ttl` a key is forgotten that long after its row came.
        """
        return updates.deduplicate(self, keep=keep, by=by, ttl=ttl, uid=uid, parallelism=parallelism)

    def top_n(
        self,
        n: int,
        *,
        by: str | Sequence[str],
        descending: bool | Sequence[bool] = True,
        rank: str = "rank",
        uid: str | None = None,
        parallelism: int | None = None,
    ) -> Stream:
        """The top `n` rows of each key so far: greatest first by the columns `by`, or least first, nulls last.

        Among equal rows the one that came first ranks higher. The column `rank` counts from 1; a row replaces the last
        one with the same key and rank. Only changes are emitted.
        """
        return updates.top_n(self, n, by=by, descending=descending, rank=rank, uid=uid, parallelism=parallelism)

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
        return self._job._behind(
            own_operator(
                operator, uid, self._inputs, schema, self._key_columns, has_state=has_state, parallelism=parallelism
            )
        )
