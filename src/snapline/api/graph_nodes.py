"""The logical graph of a job: what the user has put together, before it is checked as a whole and planned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from snapline.contracts.operator import Operator
from snapline.contracts.schemas import SchemaLike, checked_schema
from snapline.contracts.source import Source
from snapline.errors import ConfigurationError
from snapline.types import Partitioning

_SHOWN = 8
"""So many columns are told where a stream is shown."""


@dataclass(frozen=True, slots=True, eq=False)
class Input:
    """Rows of `node` on their way to another one. Those with the same `index` arrive there as one stream.

    `output` is which of the node's outputs they come from: "" is what it emits, others are its side outputs.
    """

    node: Node
    partitioning: Partitioning = Partitioning.FORWARD
    key_columns: tuple[str, ...] = ()
    index: int = 0
    output: str = ""

    @property
    def schema(self) -> pa.Schema:
        """Of the rows."""
        return self.node.side_outputs[self.output] if self.output else self.node.schema


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One operator of the logical graph.

    `schema` is that of what it emits, none for a sink. `key_columns` are what its input is keyed by, if it is.
    `parallelism` is none unless the user set it here, and `uid` none if the user gave none. `source` is set for a
    source only. `side_outputs` are the schemas of the outputs it has besides, by name. `time_column` is the column its
    watermarks are made of, if it makes some: those that come in end there. `copies` is set where columns get other
    names: of those columns it emits that are none but copies, which ones they are copies of.
    """

    name: str
    operator: Operator
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
        """Whether something in checkpoints or outside is filed under its uid, so that the user has to choose it."""
        return self.has_state or self.is_sink or self.source is not None

    @property
    def event_time(self) -> frozenset[str] | None:
        """The columns event time is told from in what it emits; none if there are no watermarks in one of its inputs.

        They are those of its nearest ancestors that make watermarks, whether or not its rows still have them, under
        the names they have here.
        """
        columns = self._time_columns
        return None if columns is None else frozenset(names[0] for names in columns)

    @property
    def _time_columns(self) -> frozenset[tuple[str, ...]] | None:
        """Of each column event time is told from all names it has by now, the best known first."""
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
    """The names of a column behind an operator that makes copies; the one it had if it is gone."""
    kept = [name for name in names if copies.get(name) == name]
    added = [new for new, old in copies.items() if old in names and new not in kept]
    return (*kept, *added) or names[:1]


def shown(inputs: tuple[Input, ...], schema: pa.Schema) -> str:
    """Where rows come from and what they are, in short."""
    ahead = " and ".join(str(item.node) + (f" ({item.output})" if item.output else "") for item in inputs)
    fields = [f"{field.name} {field.type}" for field in schema]
    more = f", and {len(fields) - _SHOWN} more" if len(fields) > _SHOWN else ""
    return f"behind {ahead}: {', '.join(fields[:_SHOWN])}{more}"


def own_operator(
    operator: Operator,
    uid: str | None,
    inputs: tuple[Input, ...],
    schema: SchemaLike,
    key_columns: tuple[str, ...] = (),
    *,
    has_state: bool,
    parallelism: int | None,
) -> Node:
    """The node of an operator of the user's."""
    if not isinstance(operator, Operator):
        raise ConfigurationError(f"apply({operator!r}): give an Operator; for a function there is map_batches()")
    name = type(operator).__name__
    return Node(name, operator, uid, inputs, checked_schema(schema, name), key_columns, parallelism, has_state)
