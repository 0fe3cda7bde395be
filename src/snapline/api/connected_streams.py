"""Two streams as the inputs of one operator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from snapline.api.graph_nodes import Input, own_operator
from snapline.api.guidance import names_its_operators
from snapline.api.process_nodes import connected_process_node
from snapline.contracts.functions import CoProcessFunction
from snapline.contracts.operator import Operator
from snapline.contracts.schemas import SchemaLike
from snapline.errors import ConfigurationError

if TYPE_CHECKING:
    from snapline.api.job import Job
    from snapline.api.keyed_stream import KeyedStream
    from snapline.api.stream import Stream


@names_its_operators
class ConnectedStreams:
    """Two streams as the inputs 0 and 1 of one operator.

    If the first is keyed the operator has keyed state; the second must then be keyed by columns of the same types, or
    be `broadcast()`.
    """

    def __init__(self, job: Job, first: Stream | KeyedStream, second: Stream | KeyedStream) -> None:
        if getattr(second, "_job", None) is not job:
            raise ConfigurationError(f"connect({second!r}): give a stream of the same job")
        self._job: Job = job
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
        return tuple(getattr(self._first, "key_columns", ()))

    @property
    def other_key_columns(self) -> tuple[str, ...]:
        """Key columns of the second input; empty if it is not keyed."""
        return tuple(getattr(self._second, "key_columns", ()))

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The inputs of the operator's node."""
        return (*self._first._inputs, *(replace(item, index=1) for item in self._second._inputs))

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
        node = own_operator(
            operator, uid, self.inputs, schema, self.key_columns, has_state=has_state, parallelism=parallelism
        )
        return self._job._behind(node)

    def process(
        self,
        function: CoProcessFunction,
        *,
        schema: SchemaLike,
        side_outputs: Mapping[str, SchemaLike] | None = None,
        uid: str | None = None,
        parallelism: int | None = None,
    ) -> Stream:
        """Apply a function to the rows of both streams; it emits rows of `schema`, and to side outputs.

        Both are keyed, and share the state of a key; or the second is `broadcast()`, and the first may be keyed.
        """
        node = connected_process_node(
            function,
            self.inputs,
            self.key_columns,
            self.other_key_columns,
            schema=schema,
            side_outputs=side_outputs,
            uid=uid,
            parallelism=parallelism,
        )
        return self._job._behind(node)
