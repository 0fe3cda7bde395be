"""Keyed streams: the rows of one key are together, and have state."""

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
from snapline.api.windows import Sliding, Tumbling, WindowAssigner, positive_ms
from snapline.config import Duration
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
    # Streams are made of keyed streams too: which of the two modules comes first has to wait for the other.
    from snapline.api.stream import Stream

    return Stream


@names_its_operators
class KeyedStream:
    """Rows of one schema, those of the same key in the same subtask."""

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

    if not TYPE_CHECKING:  # which would take any name for one that is there

        def __getattr__(self, name: str) -> Any:
            raise missing(self, name, (_stream_class(), "call it before key_by(...)"), (WindowedStream, _TO_WINDOWS))

    def connect(self, other: Stream | KeyedStream) -> ConnectedStreams:
        """This stream and another one as the two inputs of one operator: keyed by the same types, or broadcast."""
        return ConnectedStreams(self._job, self, other)

    def aggregate(
        self,
        *,
        emit_every: Duration | None = None,
        uid: str | None = None,
        parallelism: int | None = None,
        **aggregates: Aggregate,
    ) -> Stream:
        """Running aggregates: for each batch one row for each key in it, with the values of all its rows so far.

        The rows have the key columns and one column for each of the named aggregates: `n=count()`,
        `total=sum("value")`. With `emit_every` the keys that have changed come at that interval of processing time
        instead, and ahead of every checkpoint; rows are then put together by key before they are sent, where the
        aggregates allow it.
        """
        check_own_arguments("aggregate", uid, parallelism)
        fields = key_fields(self._schema, self._key_columns)
        taken = dict.fromkeys(self._key_columns, "a key column")
        what = "aggregate" if uid is None else f"aggregate {uid!r}"
        made = accumulators(aggregates, self._schema, taken, what)
        schema = pa.schema([*fields, *made.fields])
        every_ms = None if emit_every is None else positive_ms(emit_every, "aggregate: emit_every")
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
        """Rows of an input, put together by key where they are before they are sent."""
        operator = Combine(self._key_columns, key_type(self._schema, self._key_columns), made, schema, every_ms, what)
        straight = replace(item, partitioning=Partitioning.FORWARD, key_columns=())
        node = Node("combine", operator, None, (straight,), schema, parallelism=item.node.parallelism)
        self._job._add(node)
        return Input(node, Partitioning.HASH, self._key_columns)

    def window(self, windows: WindowAssigner, *, on: str | None = None) -> WindowedStream:
        """The rows of each key in windows: `Tumbling`, `Sliding`, `Session`, `GlobalWindow` or `GivenWindow`.

        `on` is the column that has the time of a row, timestamps or whole milliseconds; without it the column is taken
        that the stream's watermarks are made of.
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
        """Put in a function with state of each key and timers, which emits rows of `schema`.

        `side_outputs` are the schemas of what it may emit besides, by name; see `Stream.side_output`.
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
        """Call `function(state, row)` for each row, which gives the new state of its key and a row, or None for none.

        `state` is the type of the state, such as `int` or "total DOUBLE, n BIGINT"; the first time it is None, and
        giving None removes it. A row is a dict. With `columns` the function gets the values of these instead,
        `function(state, value)`, which is quicker, and gives only those columns of `schema` that are no key columns:
        the value of an only one, or a tuple of several; the key columns are copied. A state with fields is a dict, and
        with `columns` a tuple. `ttl` lets a state end that was
        not changed for so long.
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
        """Call `function(old, groups, batch)` once for each batch, which gives new states and a batch, or None.

        `old` are the states of the distinct keys, an Arrow array with nulls for keys that have none; `groups`, of the
        type `Groups`, says which rows belong to which of them; the new states are in the same order. What comes out may
        not depend on where a batch ends.
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
        """Run a `pyspark.sql.streaming.StatefulProcessor` as it is; `schema` is that of the rows it gives.

        `time_mode` is what its timers go by: "none", "processing_time" or "event_time", which needs watermarks.
        `output_mode` is "append" or "update": what the processor gives goes on in either. `initial_state` is a Spark
        DataFrame, grouped or not, or a `pyarrow.Table`, with the key columns of this stream; the processor has the rows
        of a key before any other of that key, once in the life of the state. `format` is what the processor is
        written for: "rows" (`pyspark.sql.Row`), or "pandas". See `snapline.spark.stateful` for what is not
        as in Spark.
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
        """Each row of this stream with each of another one that has the same key, whichever comes first.

        The keys come out once, under the names they have here; other columns that both streams have get `suffixes`.
        `how` is "inner", "left", "right" or "full". But for an inner join a row without a partner comes out with nulls
        at once, and is taken back when its first partner comes: `change_column` says "insert" or "delete". `where`, an
        expression over the joined row, has to be true for a pair besides. Rows are kept for ever, or with `ttl` for at
        least so long after they came.
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
        """Each row of this stream with those of another one of the same key whose time is close to its own.

        That of a right row is from `lower` to `upper` later than the left one's, both included: "-5s" is earlier. `on`
        are the columns with the times of both, without it those their watermarks are made of. In joins that are not
        inner, rows without a partner come out with nulls once the watermark says that there will be none. Late rows
        are dropped, or read from the side outputs "late_left" and "late_right".
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
        """Each row of this stream with each of another one that has the same key and is in the same window.

        They come once the watermark has passed the end of the window, with the columns `window_start` and
        `window_end`; in joins that are not inner, rows without a partner come with nulls then. `on` and late rows are
        as for `interval_join`.
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
        """One row of each key: with `keep="first"` the one that comes first, and no other ever.

        With "last" whenever a row comes that is as new as all before it, which replaces what came out for its key
        before: new by the column `by`, or by several, or without it by the order in which rows come. Of rows that come
        at the same time only the newest one comes out. With `ttl` a key is forgotten so long after its row came.
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
        """The `n` best rows of each key so far: greatest first by the columns `by`, or least first, nulls last.

        Of equal rows the one that came first is better. The column `rank`, from 1 on, says how good a row is; a row
        replaces the one that came out for the same key and rank before. Only what has changed comes out.
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
        """Put in an operator of one's own that emits batches of `schema` and may use keyed state."""
        return self._job._behind(
            own_operator(
                operator, uid, self._inputs, schema, self._key_columns, has_state=has_state, parallelism=parallelism
            )
        )
