"""Streams: rows between a job's sources and its sinks.

A stream is immutable: each call adds an operator to the job, and returns the stream of its output.
`parallelism=` overrides the job's for this operator. `uid=` identifies the operator across versions of the job: its
state, source or sink is found by it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from snapline.api import expressions, process_nodes
from snapline.api.async_nodes import async_map
from snapline.api.connected_streams import ConnectedStreams
from snapline.api.expressions import Column
from snapline.api.graph_nodes import BaseStream, Input, Node, shown
from snapline.api.guidance import missing, names_its_operators
from snapline.api.keyed_stream import KeyedStream
from snapline.api.late_imports import spark_side
from snapline.api.lookup_nodes import lookup
from snapline.api.transform_nodes import checked_function, filter_operator, inferred_schema
from snapline.api.windowed_stream import WindowedStream
from snapline.config import Path
from snapline.contracts.dead_letters import DEAD_LETTERS, OnError, checked_on_error
from snapline.contracts.operator import Operator
from snapline.contracts.schemas import Row, SchemaLike, checked_schema, key_type
from snapline.contracts.sink import Sink
from snapline.contracts.source import Watermarks, checked_watermarks
from snapline.errors import ConfigurationError
from snapline.operators.assign_watermarks import AssignWatermarks
from snapline.operators.batch_formats import make_format
from snapline.operators.global_commit import GlobalCommit
from snapline.operators.projection import Project
from snapline.operators.sink_operator import PREPARED_SCHEMA, SinkOperator
from snapline.operators.transforms import FlatMapRows, MapBatches, MapRows
from snapline.types import Partitioning

if TYPE_CHECKING:
    from snapline.api.job import Job

_TO_WINDOWS = "call key_by(...).window(...) first"

Predicate: TypeAlias = pc.Expression | Callable[[Any], Any]
"""Which rows to keep: an expression of `pyarrow.compute`, or a function that returns True or False."""


@names_its_operators
class Stream(BaseStream):
    """Rows of one schema on their way to the next operator."""

    def __init__(self, job: Job, inputs: tuple[Input, ...], schema: pa.Schema) -> None:
        super().__init__(job, inputs)
        self._schema = schema

    @property
    def schema(self) -> pa.Schema:
        """The schema of every batch."""
        return self._schema

    def __repr__(self) -> str:
        return f"<Stream {shown(self._inputs, self._schema)}>"

    if not TYPE_CHECKING:  # a type checker would accept any name

        def __getattr__(self, name: str) -> Any:
            raise missing(self, name, (KeyedStream, "call key_by(...) first"), (WindowedStream, _TO_WINDOWS))

    # Row by row.

    def map(
        self,
        function: Callable[[Row], Row],
        *,
        schema: SchemaLike,
        on_error: str = "fail",
        uid: str | None = None,
        parallelism: int | None = None,
    ) -> Stream:
        """Map each row to one: the function takes a row, a dict, and returns a dict with each column of `schema`.

        `on_error` is what happens to a row if the function raises, or returns something else: the job can "fail", or
        the row goes to `dead_letters` with "dead_letter", and nowhere with "drop".
        """
        made, policy = checked_schema(schema, "map()"), checked_on_error(on_error, "map")
        operator = MapRows(checked_function("map", function), made, policy)
        return self._then("map", operator, made, uid, parallelism, on_error=policy)

    def flat_map(
        self,
        function: Callable[[Row], Iterable[Row] | None],
        *,
        schema: SchemaLike,
        on_error: str = "fail",
        uid: str | None = None,
        parallelism: int | None = None,
    ) -> Stream:
        """Map each row to any number of rows: the function takes a row, and returns or yields rows of `schema`.

        `on_error` is as in `map`; a row that fails emits nothing.
        """
        made, policy = checked_schema(schema, "flat_map()"), checked_on_error(on_error, "flat_map")
        operator = FlatMapRows(checked_function("flat_map", function), made, policy)
        return self._then("flat_map", operator, made, uid, parallelism, on_error=policy)

    def filter(
        self,
        predicate: Predicate,
        *,
        format: str | None = None,
        on_error: str = "fail",
        uid: str | None = None,
        parallelism: int | None = None,
    ) -> Stream:
        """Keep the rows for which the predicate is true, not false or null.

        The predicate is an expression such as `pc.field("value") > 0`, or a function of a row. With a `format`, as in
        `map_batches`, the function takes a batch and returns True or False for each of its rows. `on_error` is as in
        `map` and `map_batches`.
        """
        policy = checked_on_error(on_error, "filter")
        operator = filter_operator(predicate, format, self._schema, policy)
        return self._then("filter", operator, self._schema, uid, parallelism, on_error=policy)

    def map_batches(
        self,
        function: Callable[[Any], Any],
        *,
        schema: SchemaLike | None = None,
        format: str = "arrow",
        on_error: str = "fail",
        uid: str | None = None,
        parallelism: int | None = None,
    ) -> Stream:
        """Apply a function to each batch; it returns one batch, several, or None.

        `format` is what it takes and returns: "arrow" is a `pyarrow.RecordBatch`, "pandas" and "polars" a DataFrame,
        "rows" a list of dicts. A pandas DataFrame has Arrow types, so that nothing is lost. Without `schema` the
        function is called once now, with an empty batch, to learn its result type; "rows" needs a `schema`.

        `on_error` is as in `map`: if the function fails for a batch, and the job should not, it is called again with
        smaller and smaller parts of it, down to single rows.
        """
        form, policy = make_format(format, "map_batches"), checked_on_error(on_error, "map_batches")
        checked_function("map_batches", function)
        if schema is None:
            made = inferred_schema(function, self._schema, form)
        else:
            made = checked_schema(schema, "map_batches()")
        operator = MapBatches(function, made, form, policy)
        return self._then("map_batches", operator, made, uid, parallelism, on_error=policy)

    # Columns.

    def select(
        self,
        *columns: Column,
        on_error: str = "fail",
        uid: str | None = None,
        parallelism: int | None = None,
        **named: Column,
    ) -> Stream:
        """Rows with only these columns and named ones: `select("user", gross=pc.field("net") * 1.19)`.

        `on_error` is as in `map`, for rows that an expression fails for: a cast, or a division by zero.
        """
        expressions.check_own_arguments("select", uid, parallelism, on_error)
        policy = checked_on_error(on_error, "select")
        return self._projected(expressions.select(self._schema, columns, named, policy), uid, parallelism, policy)

    def with_columns(
        self, *, on_error: str = "fail", uid: str | None = None, parallelism: int | None = None, **named: Column
    ) -> Stream:
        """Rows with columns added or replaced: `with_columns(gross=pc.field("net") * 1.19)`.

        `on_error` is as in `select`.
        """
        expressions.check_own_arguments("with_columns", uid, parallelism, on_error)
        policy = checked_on_error(on_error, "with_columns")
        return self._projected(expressions.with_columns(self._schema, named, policy), uid, parallelism, policy)

    def drop(self, *columns: str, uid: str | None = None, parallelism: int | None = None) -> Stream:
        """Rows without these columns."""
        return self._projected(expressions.drop(self._schema, columns), uid, parallelism)

    def rename(self, names: Mapping[str, str], *, uid: str | None = None, parallelism: int | None = None) -> Stream:
        """Rows with some columns renamed: `rename({"old": "new"})`."""
        return self._projected(expressions.rename(self._schema, names), uid, parallelism)

    # Stateful functions, and calls to other systems.

    # Some methods are written beside the checks of their arguments.
    process = process_nodes.process
    async_map = async_map
    lookup = lookup

    def apply(
        self,
        operator: Operator,
        uid: str | None = None,
        *,
        schema: SchemaLike,
        has_state: bool = False,
        parallelism: int | None = None,
    ) -> Stream:
        """Apply an operator of your own that emits batches of `schema`; with `has_state` it needs a uid."""
        return self._then_own(operator, uid, schema, has_state, parallelism)

    def with_watermarks(self, watermarks: Watermarks, *, uid: str | None = None) -> Stream:
        """Generate watermarks from a column of these rows, replacing those of their sources from here on."""
        checked_watermarks(watermarks, self._schema, "with_watermarks()")
        operator = AssignWatermarks(watermarks)
        return self._then("with_watermarks", operator, self._schema, uid, None, time_column=watermarks.column)

    def side_output(self, name: str) -> Stream:
        """The rows that the preceding operator emits to one of its side outputs."""
        known = self._inputs[0].node.side_outputs if len(self._inputs) == 1 else {}
        if name not in known:
            there = f"there are {', '.join(map(repr, known))}" if known else "the preceding operator has none"
            raise ConfigurationError(f"side_output({name!r}): there is no such output; {there}")
        return Stream(self._job, (Input(self._inputs[0].node, output=name),), known[name])

    @property
    def dead_letters(self) -> Stream:
        """The rows that the preceding operator, or source, could not process, with `on_error="dead_letter"`.

        Columns: `operator` (its uid), `error_type`, `error`, `row` (as JSON, or a line as it is in its file), `time`
        (of the failure), `file`, `line`.
        """
        if len(self._inputs) != 1 or DEAD_LETTERS not in self._inputs[0].node.side_outputs:
            raise ConfigurationError(
                "dead_letters: the preceding operator has none; give it on_error='dead_letter', and take them from the "
                "stream that this call returns"
            )
        return self.side_output(DEAD_LETTERS)

    def connect(self, other: Stream | KeyedStream) -> ConnectedStreams:
        """This stream and another one, which may have another schema, as the two inputs of one operator."""
        return ConnectedStreams(self._job, self, other)

    # Partitioning.

    def rebalance(self) -> Stream:
        """Distribute batches to the next operator's subtasks round-robin."""
        return self._to(Partitioning.REBALANCE)

    def broadcast(self) -> Stream:
        """Send every row to each of the next operator's subtasks."""
        return self._to(Partitioning.BROADCAST)

    def global_(self) -> Stream:
        """Send every row to the first of the next operator's subtasks."""
        return self._to(Partitioning.GLOBAL)

    def key_by(self, *columns: str | Sequence[str]) -> KeyedStream:
        """Partition by these columns: rows with equal values go to the same subtask, where they share state.

        Give the columns one by one, `key_by("user", "city")`, or as one list.
        """
        given = columns[0] if len(columns) == 1 and isinstance(columns[0], list | tuple) else columns
        keys: tuple[Any, ...] = tuple(given)
        key_type(self._schema, keys)
        inputs = tuple(replace(item, partitioning=Partitioning.HASH, key_columns=keys) for item in self._inputs)
        return KeyedStream(self._job, inputs, self._schema, keys)

    def union(self, *others: Stream) -> Stream:
        """The rows of this stream and of others with the same schema, in no particular order."""
        for other in others:
            if not isinstance(other, Stream) or other._job is not self._job:
                raise ConfigurationError("union: give streams of the same job")
            if not other._schema.equals(self._schema):
                raise ConfigurationError(
                    f"union: the schemas differ; align them with map_batches() first.\n"
                    f"{self._schema}\n--- and ---\n{other._schema}"
                )
        inputs = (*self._inputs, *(item for other in others for item in other._inputs))
        return Stream(self._job, inputs, self._schema)

    def as_view(self, name: str) -> Stream:
        """Give this stream a name for `Job.sql`; returns the stream itself."""
        self._job.view(name, self)
        return self

    def sink(self, sink: Sink, uid: str, *, parallelism: int | None = None) -> None:
        """Write the rows; this ends the stream."""
        if not isinstance(sink, Sink):
            raise ConfigurationError(f"sink({sink!r}): give a Sink, for example snapline.sinks.Files(directory)")
        sink.check(self._schema)
        name, operator = type(sink).__name__, SinkOperator(sink)
        schema = None if operator.is_committing else PREPARED_SCHEMA
        node = Node(name, operator, uid, self._inputs, schema, (), parallelism, has_state=True, is_sink=True)
        self._job._add(node)
        if schema is not None:
            # A broadcast to one subtask: barriers on such an edge always align.
            prepared = Input(node, Partitioning.BROADCAST)
            commit = GlobalCommit(sink, uid)
            self._job._add(
                Node(f"{name} commit", commit, f"{uid}.commit", (prepared,), None, (), 1, has_state=True, is_sink=True)
            )

    def collect(
        self,
        where: Any,
        *,
        directory: Path | None = None,
        max_rows: int = 1_000_000,
        uid: str = "collect",
        parallelism: int | None = None,
    ) -> pa.Table:
        """Run the job, whose sources must all be bounded, and return the rows of this stream as a table.

        `where` is what `Job.run` takes: a SparkSession, or a cluster of `snapline.testing`. Meant for small results:
        more than `max_rows` fail the job. Rows are in no particular order. As with `snapline.sinks.Collect`, give a
        shared `directory` if executors run on other machines. The job's own sinks are written too. The job itself is
        not changed.
        """
        from snapline.connectors.collect import Collect  # here, since file formats take long to load

        rows = Collect(directory, max_rows=max_rows)
        self._job._run_with(lambda: self.sink(rows, uid, parallelism=parallelism), where, "collect")
        return rows.table()

    def to_dataframe(self, spark: Any, *, uid: str = "to_dataframe", directory: Path | None = None) -> Any:
        """Run the job, whose sources must all be bounded, and return the rows of this stream as a Spark DataFrame.

        The rows are written exactly once to Parquet files, which the DataFrame reads. They are in `directory`, which
        driver and executors share; by default beside the checkpoints, where they stay, or if checkpoints have no
        `storage` in a temporary directory, which is deleted with the program. The job itself is not changed.
        """
        return spark_side("dataframes").to_dataframe(self, spark, uid=uid, directory=directory)

    def _to(self, partitioning: Partitioning) -> Stream:
        inputs = tuple(replace(item, partitioning=partitioning) for item in self._inputs)
        return Stream(self._job, inputs, self._schema)

    def _projected(
        self, operator: Project, uid: str | None, parallelism: int | None, on_error: OnError = OnError.FAIL
    ) -> Stream:
        copies = operator.copies
        return self._then(operator.name, operator, operator.schema, uid, parallelism, on_error=on_error, copies=copies)
