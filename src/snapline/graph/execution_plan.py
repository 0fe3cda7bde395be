"""The execution plan: vertices of chained operators and the edges between them, as every process of a job knows it."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from snapline.types import Partitioning


@dataclass(frozen=True, slots=True)
class Key:
    """What a stream is keyed by: its columns, and the Arrow type of the key, a struct for several columns."""

    columns: tuple[str, ...]
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class PlannedOperator:
    """One operator of a chain. `schema` is that of what it emits, none for a sink.

    `has_state` says that it takes part in checkpoints with state of its own; `has_coordinator` that it is a source,
    whose splits are dealt out on the driver; `is_sink` that it commits.
    """

    uid: str
    name: str
    key: Key | None
    schema: pa.Schema | None
    has_state: bool = False
    has_coordinator: bool = False
    is_sink: bool = False


@dataclass(frozen=True, slots=True)
class PlannedEdge:
    """From the last operator of one vertex to the first of another; `id` is the same in every version of the job.

    `key_columns` are what a hash edge is partitioned by; `input_index` is which input of the target it is,
    and `output` which of the source's outputs.
    """

    id: str
    source: str
    target: str
    partitioning: Partitioning
    key_columns: tuple[str, ...]
    schema: pa.Schema
    input_index: int = 0
    output: str = ""


@dataclass(frozen=True, slots=True)
class PlannedVertex:
    """Operators that run in one thread, from head to tail. `id` is the uid of the first.

    `max_parallelism` is none unless the user set it; `union_state` says that an operator has declared union state.
    """

    id: str
    name: str
    parallelism: int
    max_parallelism: int | None
    operators: tuple[PlannedOperator, ...]
    union_state: bool = False

    @property
    def is_source(self) -> bool:
        return self.operators[0].has_coordinator


@dataclass(frozen=True, slots=True)
class ExecutionPlan:
    """Vertices in topological order. Holds no code: that is in `Shipment`."""

    vertices: tuple[PlannedVertex, ...]
    edges: tuple[PlannedEdge, ...]

    @property
    def slots(self) -> int:
        """Slot i runs subtask i of every vertex that has one."""
        return max(vertex.parallelism for vertex in self.vertices)

    def vertex(self, vertex_id: str) -> PlannedVertex:
        return next(vertex for vertex in self.vertices if vertex.id == vertex_id)
