"""Streams: what rows go through between a job's sources and its sinks.

Calls on a stream change nothing in it; each gives the stream behind one more operator, and adds that to the job.
`parallelism=` is in how many subtasks the operator runs, instead of the job's; `uid=` is the name it keeps from one
version of the job to the next, which state, sources and sinks are found by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from snapline.api import expressions
from snapline.api.async_nodes import async_operator
from snapline.api.connected_streams import ConnectedStreams
from snapline.api.expressions import Column
from snapline.api.graph_nodes import Input, Node, own_operator, shown
from snapline.api.guidance import missing, names_its_operators
from snapline.api.join_nodes import Suffixes
from snapline.api.keyed_stream import KeyedStream
from snapline.api.late_imports import spark_side
from snapline.api.lookup_nodes import lookup
from snapline.api.process_nodes import process_node
from snapline.api.transform_nodes import checked_function, filter_operator, inferred_schema
from snapline.api.windowed_stream import WindowedStream
from snapline.config import Duration, Path, Size
from snapline.contracts.functions import AsyncFunction, BatchProcessFunction, ProcessFunction
from snapline.contracts.operator import Operator
from snapline.contracts.schemas import Row, SchemaLike, checked_schema, key_type
from snapline.contracts.sink import Sink
from snapline.contracts.source import Watermarks, checked_watermarks
from snapline.errors import ConfigurationError
from snapline.operators.assign_watermarks import AssignWatermarks
from snapline.operators.batch_formats import make_format
from snapline.operators.projection import Project
from snapline.operators.sink_operator import SinkOperator
from snapline.operators.transforms import FlatMapRows, MapBatches, MapRows
from snapline.types import Partitioning

if TYPE_CHECKING:
    from snapline.api.job import Job

_TO_WINDOWS = "call key_by(...).window(...) first"

Predicate: TypeAlias = "pc.Expression | Callable[[Any], Any]"
"""Which rows to keep: an expression of `pyarrow.compute`, or a function that says true or false."""


@names_its_operators
class Stream:
    """Rows of one schema on their way to the next operator."""

    def __init__(self, job: Job, inputs: tuple[Input, ...], schema: pa.Schema) -> None:
        self._job = job
        self._inputs = inputs
        self._schema = schema

    @property
    def schema(self) -> pa.Schema:
        """The schema of every batch."""
        return self._schema

    def __repr__(self) -> str:
        return f"<Stream {shown(self._inputs, self._schema)}>"

    if not TYPE_CHECKING:  # which would take any name for one that is there

        def __getattr__(self, name: str) -> Any:
            raise missing(self, name, (KeyedStream, "call key_by(...) first"), (WindowedStream, _TO_WINDOWS))

    # Rows by rows.

    def map(
        self,
        function: Callable[[Row], Row],
        *,
        schema: SchemaLike,
        uid: str | None = None,
        parallelism: int | None = None,
    ) -> Stream:
        """Make one row of each: the function takes a row, a dict, and gives a dict with each column of `schema`."""
        made = checked_schema(schema, "map()")
        operator = MapRows(checked_function("map", function), made)
        return self._then(Node("map", operator, uid, self._inputs, made, parallelism=parallelism))

    def flat_map(
        self,
        function: Callable[[Row], Iterable[Row] | None],
        *,
        schema: SchemaLike,
        uid: str | None = None,
        parallelism: int | None = None,
    ) -> Stream:
        """Make any number of rows of each: the function takes a row, and gives or yields rows of `schema`."""
        made = checked_schema(schema, "flat_map()")
        operator = FlatMapRows(checked_function("flat_map", function), made)
        return self._then(Node("flat_map", operator, uid, self._inputs, made, parallelism=parallelism))

    def filter(
        self,
        predicate: Predicate,
        *,
        format: str | None = None,
        uid: str | None = None,
        parallelism: int | None = None,
    ) -> Stream:
        """Keep the rows for which the predicate is true, not false or null.

        It is an expression such as `pc.field("value") > 0`, or a function of a row. With a `format` as `map_batches`
        has it the function takes a batch, and gives true or false for each of its rows.
        """
        operator = filter_operator(predicate, format, self._schema)
        return self._then(Node("filter", operator, uid, self._inputs, self._schema, parallelism=parallelism))

    def map_batches(
        self,
        function: Callable[[Any], Any],
        *,
        schema: SchemaLike | None = None,
        format: str = "arrow",
        uid: str | None = None,
        parallelism: int | None = None,
    ) -> Stream:
        """Apply a function to each batch, which gives one, none or several.

        `format` is what it takes and gives: "arrow" is a `pyarrow.RecordBatch`, "pandas" and "polars" a DataFrame,
        "rows" a list of dicts. A DataFrame of pandas has Arrow types inside, so that nothing is lost. Without `schema`
        the function is called once now, without rows, to learn what it gives; for "rows" it is needed.
        """
        form = make_format(format, "map_batches")
        checked_function("map_batches", function)
        if schema is None:
            made = inferred_schema(function, self._schema, form)
        else:
            made = checked_schema(schema, "map_batches()")
        operator = MapBatches(function, made, form)
        return self._then(Node("map_batches", operator, uid, self._inputs, made, parallelism=parallelism))

    # Columns.

    def select(
        self, *columns: Column, uid: str | None = None, parallelism: int | None = None, **named: Column
    ) -> Stream:
        """Rows of these columns only, and of named ones: `select("user", gross=pc.field("net") * 1.19)`."""
        expressions.check_own_arguments("select", uid, parallelism)
        return self._projected(expressions.select(self._schema, columns, named), uid, parallelism)

    def with_columns(self, *, uid: str | None = None, parallelism: int | None = None, **named: Column) -> Stream:
        """Rows with more columns, or with others of the same name: `with_columns(gross=pc.field("net") * 1.19)`."""
        expressions.check_own_arguments("with_columns", uid, parallelism)
        return self._projected(expressions.with_columns(self._schema, named), uid, parallelism)

    def drop(self, *columns: str, uid: str | None = None, parallelism: int | None = None) -> Stream:
        """Rows without these columns."""
        return self._projected(expressions.drop(self._schema, columns), uid, parallelism)

    def rename(self, names: Mapping[str, str], *, uid: str | None = None, parallelism: int | None = None) -> Stream:
        """Rows with other names for some columns: `rename({"old": "new"})`."""
        return self._projected(expressions.rename(self._schema, names), uid, parallelism)

    # Functions with state, and with answers from elsewhere.

    def process(
        self,
        function: ProcessFunction | BatchProcessFunction,
        *,
        schema: SchemaLike,
        side_outputs: Mapping[str, SchemaLike] | None = None,
        uid: str | None = None,
        parallelism: int | None = None,
    ) -> Stream:
        """Put in a function that emits rows of `schema`, and to side outputs, given as their schemas by name.

        Here it has no key, so no timers and no state of keys; for those call `key_by` first.
        """
        return self._then(
            process_node(
                function,
                self._inputs,
                (),
                schema=schema,
                side_outputs=side_outputs,
                uid=uid,
                parallelism=parallelism,
            )
        )

    def async_map(
        self,
        function: Callable[[Row], Any] | AsyncFunction,
        *,
        schema: SchemaLike,
        ordered: bool = True,
        timeout: Duration = "30s",
        capacity: int = 100,
        on_timeout: Callable[[Row], Any] | None = None,
        retries: int = 0,
        backoff: Duration = "100ms",
        uid: str | None = None,
        parallelism: int | None = None,
    ) -> Stream:
        """Ask something outside for each row, up to `capacity` of them at the same time in each subtask.

        The function takes a row and gives a row of `schema`, a list of rows or None. It is an `async def`, or a
        blocking one, which runs in threads, or an `AsyncFunction`. If not `ordered`, rows go on as their answers come,
        but never past a watermark. If it raises it is asked again up to `retries` times, after a pause of `backoff`
        that doubles each time. `timeout` is for all that together: a row that has no answer by then fails the job, or
        what `on_timeout` gives for it takes its place. Rows whose answers are not there yet are in every checkpoint,
        and are asked for again after a restart.
        """
        operator, made = async_operator(
            function,
            self._schema,
            schema=schema,
            ordered=ordered,
            timeout=timeout,
            capacity=capacity,
            on_timeout=on_timeout,
            retries=retries,
            backoff=backoff,
        )
        return self._then(Node("async_map", operator, uid, self._inputs, made, parallelism=parallelism, has_state=True))

    def apply(
        self,
        operator: Operator,
        uid: str | None = None,
        *,
        schema: SchemaLike,
        has_state: bool = False,
        parallelism: int | None = None,
    ) -> Stream:
        """Put in an operator of one's own that emits batches of `schema`; one that `has_state` needs a uid."""
        return self._then(
            own_operator(operator, uid, self._inputs, schema, has_state=has_state, parallelism=parallelism)
        )

    def lookup(
        self,
        static: Any,
        on: str | Sequence[str] | Mapping[str, str],
        *,
        how: str = "inner",
        suffixes: Suffixes = ("", "_right"),
        max_size: Size = "256MB",
        uid: str | None = None,
        parallelism: int | None = None,
    ) -> Stream:
        """Add the columns of a table that does not change: for each row those of the table's rows with equal keys.

        `static` is a `pyarrow.Table`, or a DataFrame of Spark, pandas or Polars. It is read now and travels with the
        job, so it may have `max_size` at most. `on` are the columns that have to be equal, `["user"]`, or
        `{"user": "id"}` where the table calls them otherwise. A row with several partners comes out with each; one
        without, or with a null in its key, is left out, or with `how="left"` comes with nulls.
        """
        return lookup(self, static, on, how=how, suffixes=suffixes, max_size=max_size, uid=uid, parallelism=parallelism)

    def with_watermarks(self, watermarks: Watermarks, *, uid: str | None = None) -> Stream:
        """Tell event time from a column of these rows from here on, instead of what their sources told."""
        checked_watermarks(watermarks, self._schema, "with_watermarks()")
        return self._then(
            Node(
                "with_watermarks",
                AssignWatermarks(watermarks),
                uid,
                self._inputs,
                self._schema,
                time_column=watermarks.column,
            )
        )

    def side_output(self, name: str) -> Stream:
        """What the operator in front emits to one of its side outputs, as a stream of its own."""
        known = self._inputs[0].node.side_outputs if len(self._inputs) == 1 else {}
        if name not in known:
            there = f"there are {', '.join(map(repr, known))}" if known else "the operator in front has none"
            raise ConfigurationError(f"side_output({name!r}): there is no such output; {there}")
        return Stream(self._job, (Input(self._inputs[0].node, output=name),), known[name])

    def connect(self, other: Stream | KeyedStream) -> ConnectedStreams:
        """This stream and another one, with rows of another schema, as the two inputs of one operator."""
        return ConnectedStreams(self._job, self, other)

    # Where rows go.

    def rebalance(self) -> Stream:
        """Deal batches out to the next operator's subtasks in turn."""
        return self._to(Partitioning.REBALANCE)

    def broadcast(self) -> Stream:
        """Send every row to each of the next operator's subtasks."""
        return self._to(Partitioning.BROADCAST)

    def global_(self) -> Stream:
        """Send every row to the first of the next operator's subtasks."""
        return self._to(Partitioning.GLOBAL)

    def key_by(self, *columns: str | Sequence[str]) -> KeyedStream:
        """Bring the rows with equal values in these columns to the same subtask, where they share state.

        The columns are given one by one, `key_by("user", "city")`, or as one list.
        """
        given = columns[0] if len(columns) == 1 and isinstance(columns[0], list | tuple) else columns
        keys: tuple[Any, ...] = tuple(given)
        key_type(self._schema, keys)
        inputs = tuple(replace(item, partitioning=Partitioning.HASH, key_columns=keys) for item in self._inputs)
        return KeyedStream(self._job, inputs, self._schema, keys)

    def union(self, *others: Stream) -> Stream:
        """The rows of this stream and others of the same schema, in no particular order."""
        for other in others:
            if not isinstance(other, Stream) or other._job is not self._job:
                raise ConfigurationError("union: give streams of the same job")
            if not other._schema.equals(self._schema):
                raise ConfigurationError(
                    f"union: the schemas differ; bring them together with map_batches() first.\n"
                    f"{self._schema}\n--- and ---\n{other._schema}"
                )
        inputs = (*self._inputs, *(item for other in others for item in other._inputs))
        return Stream(self._job, inputs, self._schema)

    def sink(self, sink: Sink, uid: str, *, parallelism: int | None = None) -> None:
        """Write the rows; this ends the stream."""
        if not isinstance(sink, Sink):
            raise ConfigurationError(f"sink({sink!r}): give a Sink, for example snapline.sinks.Files(directory)")
        sink.check(self._schema)
        name = type(sink).__name__
        self._job._add(
            Node(name, SinkOperator(sink), uid, self._inputs, None, (), parallelism, has_state=True, is_sink=True)
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
        """Run the job, whose sources all have to end, and give the rows of this stream as a table.

        `where` is what `Job.run` takes: a SparkSession, or a cluster of `snapline.testing`. For small results, of which
        more than `max_rows` fail the job; they are in no particular order. They travel as those of
        `snapline.sinks.Collect` do: if executors are on other machines give a `directory` that all share. What the job
        writes to its sinks it writes too. The job is left as it was.
        """
        from snapline.connectors.collect import Collect  # here, since file formats take long to load

        rows = Collect(directory, max_rows=max_rows)
        self._job._run_with(lambda: self.sink(rows, uid, parallelism=parallelism), where, "collect")
        return rows.table()

    def to_dataframe(self, spark: Any, *, uid: str = "to_dataframe", directory: Path | None = None) -> Any:
        """Run the job, whose sources all have to end, and give the rows of this stream as a Spark DataFrame.

        They are written to Parquet files exactly once, which the DataFrame then reads. The files are in `directory`,
        which driver and executors share; without one beside the checkpoints, where they stay, and without `storage` for
        those among temporary files, which go with the program. The job is left as it was.
        """
        return spark_side("dataframes").to_dataframe(self, spark, uid=uid, directory=directory)

    def _to(self, partitioning: Partitioning) -> Stream:
        inputs = tuple(replace(item, partitioning=partitioning) for item in self._inputs)
        return Stream(self._job, inputs, self._schema)

    def _projected(self, operator: Project, uid: str | None, parallelism: int | None) -> Stream:
        schema, copies = operator.schema, operator.copies
        return self._then(
            Node(operator.name, operator, uid, self._inputs, schema, parallelism=parallelism, copies=copies)
        )

    def _then(self, node: Node) -> Stream:
        return self._job._behind(node)
