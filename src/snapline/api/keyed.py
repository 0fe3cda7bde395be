"""Keyed streams: the rows of one key are together, and have state."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from snapline.api.aggregates import Aggregate
from snapline.api.connected import ConnectedStreams
from snapline.api.nodes import Input, Node, own_operator
from snapline.api.operator import Operator
from snapline.errors import ConfigurationError
from snapline.operators.aggregating import RunningAggregates

if TYPE_CHECKING:
    from snapline.api.job import Job
    from snapline.api.stream import Stream


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

    def connect(self, other: Stream | KeyedStream) -> ConnectedStreams:
        """This stream and another one as the two inputs of one operator: keyed by the same types, or broadcast."""
        return ConnectedStreams(self._job, self, other)

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
            own_operator(
                operator, uid, self._inputs, schema, self._key_columns, has_state=has_state, parallelism=parallelism
            )
        )
