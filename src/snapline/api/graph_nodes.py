"""Nodes of the logical graph: the job as the user built it, before it is checked as a whole and planned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from snapline.contracts.dead_letters import DEAD_LETTER_SCHEMA, DEAD_LETTERS, OnError
from snapline.contracts.operator import Operator
from snapline.contracts.schemas import SchemaLike, checked_schema
from snapline.contracts.source import Source
from snapline.errors import ConfigurationError
from snapline.operators.source_head import ChainMember, SourceHead
from snapline.types import Partitioning

if TYPE_CHECKING:
    from snapline.api.job import Job
    from snapline.api.stream import Stream

_SHOWN = 8
"""Most columns listed in the `repr` of a stream."""


@dataclass(frozen=True, slots=True, eq=False)
class Input:
    """An edge from `node` to another one. Inputs with the same `index` arrive there as one stream.

    `output` names the side output the rows come from; "" is the main output.
    """

    node: Node
    partitioning: Partitioning = Partitioning.FORWARD
    key_columns: tuple[str, ...] = ()
    index: int = 0
    output: str = ""

    @property
    def schema(self) -> pa.Schema:
        """Schema of the rows."""
        return self.node.side_outputs[self.output] if self.output else self.node.schema


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One operator of the logical graph.

    `schema` is that of its output, None for a sink. `key_columns` are what its input is keyed by, if it is.
    `parallelism` and `uid` are None unless the user set them. `source` is set for sources only. `side_outputs` maps
    names to schemas. `time_column` is the column it makes watermarks from, if it does: incoming watermarks stop there.
    `copies` is set where columns are renamed: it maps output columns that are mere copies to the input columns.
    """

    name: str
    operator: ChainMember
    uid: str | None
    inputs: tuple[Input, ...]
    schema: pa.Schema | None
    key_columns: tuple[str, ...] = ()
    parallelism: int | None = None
    has_state: bool = False
    is_sink: bool = False
    source: Source | None = None
    side_outputs: Mapping[str, pa.Schema] = field(default_factory=dict)
    time_column: str | None = None
    copies: Mapping[str, str] | None = None

    @property
    def needs_uid(self) -> bool:
        """Whether checkpoints or external systems refer to its uid, so that the user must choose one."""
        return self.has_state or self.is_sink or self.has_coordinator

    @property
    def has_coordinator(self) -> bool:
        """Whether a part of it runs on the driver."""
        return isinstance(self.operator, SourceHead) or self.operator.make_coordinator() is not None

    @property
    def event_time(self) -> frozenset[str] | None:
        """The watermark columns of its output; None if one of its inputs has no watermarks.

        They come from the nearest ancestors that make watermarks, under the names they have here, whether or not the
        output still has them.
        """
        columns = self._time_columns
        return None if columns is None else frozenset(names[0] for names in columns)

    @property
    def _time_columns(self) -> frozenset[tuple[str, ...]] | None:
        """All names that each watermark column has by now, the preferred one first."""
        if self.time_column is not None:
            return frozenset({(self.time_column,)})
        columns = [item.node._time_columns for item in self.inputs]
        if not columns or None in columns:
            return None
        known = frozenset[tuple[str, ...]]().union(*(found for found in columns if found is not None))
        return known if self.copies is None else frozenset(_names_now(names, self.copies) for names in known)

    def __str__(self) -> str:
        return self.name if self.uid is None else f"{self.name} {self.uid!r}"


def _names_now(names: tuple[str, ...], copies: Mapping[str, str]) -> tuple[str, ...]:
    """The names of a column after an operator that copies columns; its old name if it is gone."""
    kept = [name for name in names if copies.get(name) == name]
    added = [new for new, old in copies.items() if old in names and new not in kept]
    return (*kept, *added) or names[:1]


def dead_letter_output(on_error: OnError) -> dict[str, pa.Schema]:
    """The side output of an operator that sends bad rows to dead letters; empty for others."""
    return {DEAD_LETTERS: DEAD_LETTER_SCHEMA} if on_error is OnError.DEAD_LETTER else {}


def shown(inputs: tuple[Input, ...], schema: pa.Schema) -> str:
    """Origin and columns of a stream in short, for its `repr`."""
    ahead = " and ".join(str(item.node) + (f" ({item.output})" if item.output else "") for item in inputs)
    fields = [f"{field.name} {field.type}" for field in schema]
    more = f", and {len(fields) - _SHOWN} more" if len(fields) > _SHOWN else ""
    return f"behind {ahead}: {', '.join(fields[:_SHOWN])}{more}"


class BaseStream:
    """What all kinds of streams have: the job, the edges that the rows come from, and the columns they are keyed by."""

    def __init__(self, job: Job, inputs: tuple[Input, ...], key_columns: tuple[str, ...] = ()) -> None:
        self._job = job
        self._inputs = inputs
        self._key_columns = key_columns

    @property
    def _event_time(self) -> frozenset[str] | None:
        """The watermark columns of the rows; None if one of the inputs has no watermarks."""
        known = [item.node.event_time for item in self._inputs]
        return None if None in known else frozenset[str]().union(*filter(None, known))

    def _then(
        self,
        name: str,
        operator: ChainMember,
        schema: pa.Schema,
        uid: str | None,
        parallelism: int | None,
        *,
        on_error: OnError = OnError.FAIL,
        side_outputs: Mapping[str, pa.Schema] | None = None,
        **settings: Any,
    ) -> Stream:
        """Add an operator for these rows, and return the stream of its output. `settings` are fields of its `Node`."""
        outputs = {**(side_outputs or {}), **dead_letter_output(on_error)}
        node = Node(
            name,
            operator,
            uid,
            self._inputs,
            schema,
            self._key_columns,
            parallelism,
            side_outputs=outputs,
            **settings,
        )
        return self._job._behind(node)

    def _then_own(
        self, operator: Operator, uid: str | None, schema: SchemaLike, has_state: bool, parallelism: int | None
    ) -> Stream:
        """Add a user's own operator."""
        if not isinstance(operator, Operator):
            raise ConfigurationError(f"apply({operator!r}): give an Operator; for a function there is map_batches()")
        name = type(operator).__name__
        return self._then(name, operator, checked_schema(schema, name), uid, parallelism, has_state=has_state)
