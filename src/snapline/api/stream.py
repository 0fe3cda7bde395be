"""Streams: what rows go through between a job's sources and its sinks.

Calls on a stream change nothing in it; each gives the stream behind one more operator, and adds that to the job.
`parallelism=` is in how many subtasks the operator runs, instead of the job's; `uid=` is the name it keeps from one
version of the job to the next, which state, sources and sinks are found by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from snapline.api.connected import ConnectedStreams
from snapline.api.keyed import KeyedStream
from snapline.api.nodes import Input, Node, own_operator
from snapline.api.operator import Operator
from snapline.api.schemas import checked_schema, empty_batch, key_type
from snapline.api.sink import Sink
from snapline.api.source import Watermarks
from snapline.errors import ConfigurationError
from snapline.operators.sinking import SinkOperator
from snapline.operators.transforming import Filter, MapBatches, batches_of
from snapline.operators.watermarking import AssignWatermarks
from snapline.types import Partitioning

if TYPE_CHECKING:
    from snapline.api.job import Job

BatchFunction: TypeAlias = "Callable[[pa.RecordBatch], pa.RecordBatch | pa.Table | Iterable[pa.RecordBatch] | None]"
"""Takes a batch and gives one, none, or several."""

Predicate: TypeAlias = "pc.Expression | Callable[[pa.RecordBatch], Any]"
"""Which rows to keep: an expression of `pyarrow.compute`, or a function that gives true or false for each row."""


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

    # Rows by rows.

    def map_batches(
        self,
        function: BatchFunction,
        *,
        schema: pa.Schema | None = None,
        uid: str | None = None,
        parallelism: int | None = None,
    ) -> Stream:
        """Apply a function to each batch. Without `schema` it is called once now, without rows, to learn its schema."""
        schema = _inferred(function, self._schema) if schema is None else checked_schema(schema, "map_batches()")
        operator = MapBatches(function, schema)
        return self._then(Node("map_batches", operator, uid, self._inputs, schema, parallelism=parallelism))

    def filter(self, predicate: Predicate, *, uid: str | None = None, parallelism: int | None = None) -> Stream:
        """Keep the rows for which the predicate is true, not false or null."""
        if isinstance(predicate, pc.Expression):
            try:
                empty_batch(self._schema).filter(predicate)
            except (pa.ArrowException, TypeError, KeyError) as error:
                raise ConfigurationError(
                    f"filter({predicate}) does not fit rows with the columns {', '.join(self._schema.names)}: {error}"
                ) from error
        elif not callable(predicate):
            raise ConfigurationError(
                f"filter({predicate!r}): give an expression such as pc.field('value') > 0, or a function of a batch"
            )
        return self._then(
            Node("filter", Filter(predicate), uid, self._inputs, self._schema, parallelism=parallelism),
        )

    def apply(
        self,
        operator: Operator,
        uid: str | None = None,
        *,
        schema: pa.Schema,
        has_state: bool = False,
        parallelism: int | None = None,
    ) -> Stream:
        """Put in an operator of one's own that emits batches of `schema`; one that `has_state` needs a uid."""
        return self._then(
            own_operator(operator, uid, self._inputs, schema, has_state=has_state, parallelism=parallelism)
        )

    def with_watermarks(self, watermarks: Watermarks, *, uid: str | None = None) -> Stream:
        """Tell event time from a column of these rows from here on, instead of what their sources told."""
        watermarks.check(self._schema, "with_watermarks()")
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

    def key_by(self, *columns: str) -> KeyedStream:
        """Bring the rows with equal values in these columns to the same subtask, where they share state."""
        key_type(self._schema, columns)
        inputs = tuple(replace(item, partitioning=Partitioning.HASH, key_columns=columns) for item in self._inputs)
        return KeyedStream(self._job, inputs, self._schema, columns)

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

    def _to(self, partitioning: Partitioning) -> Stream:
        inputs = tuple(replace(item, partitioning=partitioning) for item in self._inputs)
        return Stream(self._job, inputs, self._schema)

    def _then(self, node: Node) -> Stream:
        return self._job._behind(node)


def _inferred(function: BatchFunction, schema: pa.Schema) -> pa.Schema:
    """The schema of what a function gives, by what it makes of a batch without rows."""
    advice = "give the schema of its result with map_batches(..., schema=pyarrow.schema(...))"
    if not callable(function):
        raise ConfigurationError(f"map_batches({function!r}): give a function of a batch")
    try:
        made = next(iter(batches_of(function(empty_batch(schema)))), None)
    except Exception as error:
        raise ConfigurationError(
            f"map_batches: the function cannot be called with a batch without rows, "
            f"{type(error).__name__}: {error}; {advice}"
        ) from error
    if made is None:
        raise ConfigurationError(f"map_batches: the function gives nothing for a batch without rows; {advice}")
    for field in made.schema:
        if pa.types.is_null(field.type):
            raise ConfigurationError(
                f"map_batches: without rows the type of the column {field.name!r} is unknown; {advice}"
            )
    return checked_schema(made.schema, "what map_batches() gives")
