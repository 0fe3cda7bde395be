"""The execution plan: vertices of chained operators and the edges between them. Every process of a job has it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa

from snapline.protocol.job.regions import Regions
from snapline.types import Partitioning


@dataclass(frozen=True, slots=True)
class Key:
    """Key of a stream: its columns, and the Arrow type of the key, a struct for several columns."""

    columns: tuple[str, ...]
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class PlannedOperator:
    """One operator of a chain. `schema` is that of its output, None for a sink.

    `has_state` says that it has state of its own in checkpoints; `has_coordinator` that a part of it runs on the
    driver, as for every source; `is_sink` that it commits; `makes_watermarks` that it lets none of its input pass.
    """

    uid: str
    name: str
    key: Key | None
    schema: pa.Schema | None
    has_state: bool = False
    has_coordinator: bool = False
    is_sink: bool = False
    is_source: bool = False
    makes_watermarks: bool = False


@dataclass(frozen=True, slots=True)
class PlannedEdge:
    """From the last operator of one vertex to the first of another; `id` is stable across versions of the job.

    `key_columns` partition a hash edge; `input_index` is the input of the target; `output` names the side output of
    the source, "" for its main output.
    """

    id: str
    source: str
    target: str
    partitioning: Partitioning
    key_columns: tuple[str, ...]
    schema: pa.Schema
    input_index: int = 0
    output: str = ""


def edge_id(source_uid: str, target_uid: str, output: str = "") -> str:
    """The id of the first edge from an output of one operator to another operator."""
    return f"{source_uid}{output and '/'}{output}->{target_uid}"


@dataclass(frozen=True, slots=True)
class PlannedVertex:
    """Operators that run in one thread, from head to tail. `id` is the uid of the first.

    `max_parallelism` is None unless the user set it.
    """

    id: str
    name: str
    parallelism: int
    max_parallelism: int | None
    operators: tuple[PlannedOperator, ...]

    @property
    def links(self) -> tuple[str, ...]:
        """The ids of the edges that each operator would have to the next one, if they were not chained."""
        return tuple(edge_id(one.uid, other.uid) for one, other in pairwise(self.operators))

    @property
    def is_source(self) -> bool:
        return self.operators[0].is_source


@dataclass(frozen=True, slots=True)
class ExecutionPlan:
    """Vertices in topological order. Holds no code: `Shipment` does."""

    vertices: tuple[PlannedVertex, ...]
    edges: tuple[PlannedEdge, ...]

    @property
    def slots(self) -> int:
        """Number of slots: slot i runs subtask i of every vertex that has one."""
        return max(vertex.parallelism for vertex in self.vertices)

    @property
    def regions(self) -> Regions:
        """The parts that no edge connects."""
        return self.regions_coupled_by("")

    def regions_coupled_by(self, reason: str) -> Regions:
        """The same; with a reason, all of them restart together."""
        return Regions(
            {vertex.id: vertex.parallelism for vertex in self.vertices},
            [(edge.source, edge.target) for edge in self.edges],
            reason,
        )

    @property
    def in_unison(self) -> frozenset[str]:
        """The vertices whose subtasks all hear the same of event time, and so are idle or not together."""
        found: set[str] = set()
        for vertex in self.vertices:
            inputs = [edge for edge in self.edges if edge.target == vertex.id]
            hear_the_same = inputs and all(
                not edge.partitioning.is_pointwise or edge.source in found for edge in inputs
            )
            says_its_own = any(operator.makes_watermarks for operator in vertex.operators)
            if vertex.parallelism == 1 or (hear_the_same and not says_its_own):
                found.add(vertex.id)
        return frozenset(found)

    def vertex(self, vertex_id: str) -> PlannedVertex:
        return next(vertex for vertex in self.vertices if vertex.id == vertex_id)
