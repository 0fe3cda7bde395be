"""Who replays the in-flight data of a snapshot, also where edges have changed since."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from snapline.errors import RestoreError
from snapline.protocol.restore.redistribution import (
    SubtaskMapper,
    downstream_mapper,
    is_ambiguous,
    old_subtasks,
    upstream_mapper,
)
from snapline.protocol.snapshot import ChannelPart, Snapshot
from snapline.types import Partitioning, SubtaskId

if TYPE_CHECKING:
    from snapline.protocol.restore.restore_plan import RestoreEdge, RestoreVertex


@dataclass(frozen=True, slots=True)
class Replay:
    """One subtask replays one channel, as input of the operator `uid`, or as its output to the subtasks `targets`.

    With `filter` several subtasks replay it, and each keeps its own records.
    """

    subtask: SubtaskId
    uid: str
    part: ChannelPart
    filter: bool
    targets: tuple[int, ...] = ()


def replays(
    snapshot: Snapshot,
    vertices: Sequence[RestoreVertex],
    edges: Sequence[RestoreEdge],
    max_parallelism: Mapping[str, int],
) -> Iterator[Replay]:
    """All of a snapshot's in-flight data. Raises `RestoreError` for data that has no place in the job."""
    by_id = {edge.id: edge for edge in edges}
    by_vertex = {vertex.id: vertex for vertex in vertices}
    for vertex in vertices:
        for position, uid in enumerate(vertex.operators):
            for part, is_input in _channels(snapshot, uid):
                if part.edge in vertex.links:
                    yield from _within_chain(snapshot, vertex, part)
                    continue
                if position != (0 if is_input else len(vertex.operators) - 1):
                    raise RestoreError(_moved(snapshot, uid, is_input=is_input))
                edge = by_id.get(part.edge)
                if edge is None or vertex.id != (edge.target if is_input else edge.source):
                    raise RestoreError(
                        f"snapshot {snapshot.id} has in-flight data of the edge {part.edge!r}, which the job does "
                        "not have; restore a savepoint or an aligned checkpoint instead"
                    )
                shape = _EdgeShape.of(edge, snapshot, by_vertex, max_parallelism)
                yield from shape.replays(vertex.id, uid, part, is_input=is_input)


def _within_chain(snapshot: Snapshot, vertex: RestoreVertex, part: ChannelPart) -> Iterator[Replay]:
    """The edge has become a link of a chain: what was in flight on either side is input of the operator behind it."""
    uid = vertex.operators[vertex.links.index(part.edge) + 1]
    old = snapshot.operators[uid].parallelism if uid in snapshot.operators else vertex.parallelism
    for index, downstream in enumerate(old_subtasks(SubtaskMapper.ROUND_ROBIN, old, vertex.parallelism)):
        if part.downstream in downstream:
            yield Replay(SubtaskId(vertex.id, index), uid, part, filter=False)


def _moved(snapshot: Snapshot, uid: str, *, is_input: bool) -> str:
    side, place = ("input", "first") if is_input else ("output", "last")
    return (
        f"snapshot {snapshot.id} has in-flight {side} data of {uid!r}, which is no longer the {place} operator of its "
        "chain; restore a savepoint or an aligned checkpoint instead"
    )


def _channels(snapshot: Snapshot, uid: str) -> Iterator[tuple[ChannelPart, bool]]:
    """The channels of an operator, and whether each is an input."""
    if uid in snapshot.operators:
        for part in snapshot.operators[uid].subtasks.values():
            for channel in part.inputs:
                yield channel, True
            for channel in part.outputs:
                yield channel, False


@dataclass(frozen=True, slots=True)
class _EdgeShape:
    """How an edge's subtasks before and after the restore correspond."""

    upstream: tuple[tuple[int, ...], ...]
    downstream: tuple[tuple[int, ...], ...]
    ambiguous: tuple[bool, ...]
    is_forward: bool

    @classmethod
    def of(
        cls,
        edge: RestoreEdge,
        snapshot: Snapshot,
        vertices: Mapping[str, RestoreVertex],
        max_parallelism: Mapping[str, int],
    ) -> _EdgeShape:
        source, target = vertices[edge.source], vertices[edge.target]
        old_source = _old_parallelism(snapshot, source, reversed(source.operators))
        old_target = _old_parallelism(snapshot, target, target.operators)
        mapper, key_groups = downstream_mapper(edge.partitioning), max_parallelism[target.id]
        if mapper is SubtaskMapper.RANGE and key_groups != _old_max_parallelism(snapshot, target, key_groups):
            mapper = SubtaskMapper.FULL  # other key groups: any old subtask may hold records of any new one
        downstream = old_subtasks(mapper, old_target, target.parallelism, key_groups)
        upstream = old_subtasks(upstream_mapper(edge.partitioning), old_source, source.parallelism)
        if old_target == target.parallelism:
            downstream = tuple((index,) for index in range(old_target))
        return cls(upstream, downstream, is_ambiguous(downstream), edge.partitioning is Partitioning.FORWARD)

    def replays(self, vertex_id: str, uid: str, part: ChannelPart, *, is_input: bool) -> Iterator[Replay]:
        is_filtered = self.ambiguous[part.downstream]
        targets = tuple(new for new, old in enumerate(self.downstream) if part.downstream in old)
        if is_input:
            for target in targets:
                yield Replay(SubtaskId(vertex_id, target), uid, part, is_filtered)
        elif self.is_forward:
            # Each subtask sends to its namesake alone.
            for target in targets:
                yield Replay(SubtaskId(vertex_id, target), uid, part, is_filtered, (target,))
        else:
            for owner, old in enumerate(self.upstream):
                if part.upstream in old:
                    yield Replay(SubtaskId(vertex_id, owner), uid, part, is_filtered, targets)


def _old_max_parallelism(snapshot: Snapshot, vertex: RestoreVertex, default: int) -> int:
    known = [snapshot.operators[uid] for uid in vertex.operators if uid in snapshot.operators]
    return known[0].max_parallelism if known else default


def _old_parallelism(snapshot: Snapshot, vertex: RestoreVertex, operators: Iterable[str]) -> int:
    """That of the operator next to the edge: the operators of a chain may come from different vertices."""
    for uid in operators:
        if uid in snapshot.operators:
            return snapshot.operators[uid].parallelism
    return vertex.parallelism
