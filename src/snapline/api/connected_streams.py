"""Two streams as the inputs of one operator."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from snapline.api.graph_nodes import BaseStream, Input
from snapline.api.guidance import names_its_operators
from snapline.api.process_nodes import process_connected
from snapline.contracts.operator import Operator
from snapline.contracts.schemas import SchemaLike
from snapline.errors import ConfigurationError

if TYPE_CHECKING:
    from snapline.api.job import Job
    from snapline.api.keyed_stream import KeyedStream
    from snapline.api.stream import Stream


@names_its_operators
class ConnectedStreams(BaseStream):
    """Two streams as the inputs 0 and 1 of one operator.

    If the first is keyed the operator has keyed state; the second must then be keyed by columns of the same types, or
    be `broadcast()`.
    """

    def __init__(self, job: Job, first: Stream | KeyedStream, second: Stream | KeyedStream) -> None:
        if getattr(second, "_job", None) is not job:
            raise ConfigurationError(f"connect({second!r}): give a stream of the same job")
        inputs = (*first._inputs, *(replace(item, index=1) for item in second._inputs))
        super().__init__(job, inputs, first._key_columns)
        self._first = first
        self._second = second

    def __repr__(self) -> str:
        return f"<ConnectedStreams of {self._first} and {self._second}>"

    @property
    def schemas(self) -> tuple[pa.Schema, pa.Schema]:
        """The schemas of the two inputs."""
        return self._first.schema, self._second.schema

    @property
    def key_columns(self) -> tuple[str, ...]:
        """Key columns of the first input; empty if it is not keyed."""
        return self._key_columns

    @property
    def other_key_columns(self) -> tuple[str, ...]:
        """Key columns of the second input; empty if it is not keyed."""
        return self._second._key_columns

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The inputs of the operator's node."""
        return self._inputs

    def apply(
        self,
        operator: Operator,
        uid: str | None = None,
        *,
        schema: SchemaLike,
        has_state: bool = True,
        parallelism: int | None = None,
    ) -> Stream:
        """Apply an operator of your own that emits batches of `schema`; `process` gets the input's index."""
        return self._then_own(operator, uid, schema, has_state, parallelism)

    process = process_connected
