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

from snapline.api.aggregates import Aggregate
from snapline.api.nodes import Input, Node
from snapline.api.operator import Operator
from snapline.api.schemas import checked_schema, empty_batch, key_type
from snapline.api.sink import Sink
from snapline.errors import ConfigurationError
from snapline.operators.aggregating import RunningAggregates
from snapline.operators.sinking import SinkOperator
from snapline.operators.transforming import Filter, MapBatches, batches_of
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
        return self._then(_own(operator, uid, self._inputs, schema, has_state=has_state, parallelism=parallelism))

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
        inputs = tuple(Input(item.node, Partitioning.HASH, columns) for item in self._inputs)
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

    def aggregate(self, *, uid: str | None = None, parallelism: int | None = None, **aggregates: Aggregate) -> Stream:
        """Running aggregates: for each batch one row for each key in it, with the values of all its rows so far.

        The rows have the key columns and one column for each of the named aggregates: `n=count()`,
        `total=sum("value")`.
        """
        if not aggregates:
            raise ConfigurationError(
                "aggregate: nothing to compute; name what you want, for example n=snapline.count()"
            )
        fields = [self._schema.field(column) for column in self._key_columns]
        for name, aggregate in aggregates.items():
            if not isinstance(aggregate, Aggregate):
                raise ConfigurationError(
                    f"aggregate: {name}={aggregate!r}; use snapline.count(), sum(), min() or max()"
                )
            if name in self._key_columns:
                raise ConfigurationError(f"aggregate: {name!r} is a key column already; choose another name")
            fields.append(pa.field(name, aggregate.result_type(name, self._schema)))
        schema = pa.schema(fields)
        operator = RunningAggregates(aggregates, schema)
        return self._job._behind(
            Node("aggregate", operator, uid, self._inputs, schema, self._key_columns, parallelism, has_state=True)
        )

    def apply(
        self,
        operator: Operator,
        uid: str | None = None,
        *,
        schema: pa.Schema,
        has_state: bool = True,
        parallelism: int | None = None,
    ) -> Stream:
        """Put in an operator of one's own that emits batches of `schema` and may use keyed state."""
        return self._job._behind(
            _own(operator, uid, self._inputs, schema, self._key_columns, has_state=has_state, parallelism=parallelism)
        )


def _own(
    operator: Operator,
    uid: str | None,
    inputs: tuple[Input, ...],
    schema: pa.Schema,
    key_columns: tuple[str, ...] = (),
    *,
    has_state: bool,
    parallelism: int | None,
) -> Node:
    if not isinstance(operator, Operator):
        raise ConfigurationError(f"apply({operator!r}): give an Operator; for a function there is map_batches()")
    name = type(operator).__name__
    return Node(name, operator, uid, inputs, checked_schema(schema, name), key_columns, parallelism, has_state)


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
