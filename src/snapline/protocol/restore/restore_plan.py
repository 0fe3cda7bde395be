"""The plan of a restore: which snapshot to start from, whether it fits the job, and which subtask gets what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from snapline.errors import RestoreError
from snapline.protocol.keygroups import KeyGroupRange, default_max_parallelism, key_group_range
from snapline.protocol.restore.redistribution import (
    SubtaskMapper,
    broadcast,
    downstream_mapper,
    is_ambiguous,
    old_subtasks,
    split,
    union,
    upstream_mapper,
)
from snapline.protocol.snapshot import ChannelPart, KeyedPart, OperatorState, Snapshot, StoredObject, SubtaskState
from snapline.types import NO_CHECKPOINT, ClaimMode, OperatorStateMode, Partitioning, SubtaskId


@dataclass(frozen=True, slots=True)
class RestoreVertex:
    """A vertex of the job to restore. `max_parallelism` is None unless the user set it.

    `coordinators` are its operators that have a coordinator on the driver.
    """

    id: str
    parallelism: int
    operators: tuple[str, ...]
    max_parallelism: int | None = None
    coordinators: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RestoreEdge:
    """An edge of the job; its channel state is stored under `id`."""

    id: str
    source: str
    target: str
    partitioning: Partitioning


@dataclass(frozen=True, slots=True)
class RestoreOptions:
    """The user's settings for a restore."""

    allow_non_restored: bool = False
    ignore_in_flight_of: int | None = None


@dataclass(frozen=True, slots=True)
class ElementRef:
    """The n-th element of a stored list state."""

    object: StoredObject
    index: int


@dataclass(frozen=True, slots=True)
class KeyedRestore:
    """Read this part, but only these key groups."""

    part: KeyedPart
    key_groups: KeyGroupRange


@dataclass(frozen=True, slots=True)
class ChannelRestore:
    """Replay this in-flight data. With `filter` several subtasks replay it, and each keeps its own records.

    Output data goes to the downstream subtasks `targets`.
    """

    part: ChannelPart
    filter: bool
    targets: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class SubtaskRestore:
    """The state that one operator of one subtask starts with."""

    keyed: tuple[KeyedRestore, ...] = ()
    operator: Mapping[str, tuple[ElementRef, ...]] = field(default_factory=dict)
    inputs: tuple[ChannelRestore, ...] = ()
    outputs: tuple[ChannelRestore, ...] = ()


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """How a snapshot is distributed.

    `coordinators` holds the state of each operator coordinator, None for one that starts anew. `ignored` are the
    operators of the snapshot that the job does not have.
    """

    checkpoint_id: int
    max_parallelism: Mapping[str, int]
    subtasks: Mapping[SubtaskId, Mapping[str, SubtaskRestore]]
    finished: frozenset[SubtaskId]
    coordinators: Mapping[str, StoredObject | None]
    hooks: Mapping[str, StoredObject | None]
    ignored: tuple[str, ...] = ()


def restore_point(own: Sequence[Snapshot], given: Snapshot | None) -> Snapshot | None:
    """The newest of the job's own snapshots, else the one the user names, else None: start anew."""
    return max(own, key=lambda snapshot: snapshot.id, default=given)


def must_be_full(own: Sequence[Snapshot], given: Snapshot | None, claim_mode: ClaimMode) -> bool:
    """Whether the next checkpoint must not depend on the snapshot that the job starts from.

    Derived, and so it survives any failover: true until the job has a checkpoint of its own.
    """
    start = restore_point(own, given)
    if start is None:
        return False
    return start.kind.is_savepoint if start is not given else claim_mode is ClaimMode.NO_CLAIM


def plan_fresh_start(vertices: Sequence[RestoreVertex], hooks: Iterable[str] = ()) -> RestorePlan:
    """The plan without a snapshot, also after a failure before the first one: everything starts anew."""
    return RestorePlan(
        NO_CHECKPOINT,
        {vertex.id: vertex.max_parallelism or default_max_parallelism(vertex.parallelism) for vertex in vertices},
        {SubtaskId(vertex.id, index): {} for vertex in vertices for index in range(vertex.parallelism)},
        frozenset(),
        {uid: None for vertex in vertices for uid in vertex.coordinators},
        dict.fromkeys(hooks),
    )


def plan_restore(
    snapshot: Snapshot,
    vertices: Sequence[RestoreVertex],
    edges: Sequence[RestoreEdge],
    options: RestoreOptions = RestoreOptions(),  # noqa: B008  # frozen
    *,
    hooks: Iterable[str] = (),
) -> RestorePlan:
    """The plan for this snapshot. Raises `RestoreError` if the snapshot does not fit the job."""
    ignored = _unmatched_operators(snapshot, vertices, options.allow_non_restored)
    max_parallelism = {vertex.id: _max_parallelism(vertex, snapshot) for vertex in vertices}
    finished = _finished_vertices(snapshot, vertices, edges)
    subtasks: dict[SubtaskId, dict[str, SubtaskRestore]] = {
        SubtaskId(vertex.id, index): {} for vertex in vertices for index in range(vertex.parallelism)
    }
    for vertex in vertices:
        if vertex.id not in finished:
            _assign_vertex(snapshot, vertex, max_parallelism[vertex.id], subtasks)
    if options.ignore_in_flight_of != snapshot.id:
        _assign_channels(snapshot, vertices, edges, max_parallelism, subtasks)
    coordinators = {
        uid: snapshot.operators[uid].coordinator if uid in snapshot.operators else None
        for vertex in vertices
        for uid in vertex.coordinators
    }
    return RestorePlan(
        snapshot.id,
        max_parallelism,
        subtasks,
        frozenset(subtask for subtask in subtasks if subtask.vertex in finished),
        coordinators,
        _match_hooks(snapshot, hooks, options.allow_non_restored),
        ignored,
    )


def _unmatched_operators(
    snapshot: Snapshot, vertices: Sequence[RestoreVertex], allow_non_restored: bool
) -> tuple[str, ...]:
    known: set[str] = set()
    for vertex in vertices:
        for uid in vertex.operators:
            if uid in known:
                raise RestoreError(f"two operators have the uid {uid!r}; give each its own")
            known.add(uid)
    unmatched = tuple(
        uid for uid, state in snapshot.operators.items() if uid not in known and any(True for _ in state.objects())
    )
    if unmatched and not allow_non_restored:
        names = ", ".join(map(repr, unmatched))
        raise RestoreError(
            f"snapshot {snapshot.id} has state of {names}, which the job does not have; restore the operators "
            "under these uids, or set allow_non_restored=True to leave their state behind"
        )
    return unmatched


def _match_hooks(snapshot: Snapshot, hooks: Iterable[str], allow_non_restored: bool) -> dict[str, StoredObject | None]:
    matched = {hook: snapshot.hooks.get(hook) for hook in hooks}
    unmatched = [hook for hook in snapshot.hooks if hook not in matched]
    if unmatched and not allow_non_restored:
        names = ", ".join(map(repr, unmatched))
        raise RestoreError(
            f"snapshot {snapshot.id} has state of the master hooks {names}, which the job does not have; "
            "register them, or set allow_non_restored=True to leave their state behind"
        )
    return matched


def _max_parallelism(vertex: RestoreVertex, snapshot: Snapshot) -> int:
    states = [snapshot.operators[uid] for uid in vertex.operators if uid in snapshot.operators]
    states = [state for state in states if any(True for _ in state.objects())]
    keyed = {state.max_parallelism for state in states if any(part.keyed for part in state.subtasks.values())}
    if len(keyed) > 1:
        raise RestoreError(
            f"vertex {vertex.id!r} chains operators with keyed state of different maximum parallelism "
            f"({', '.join(map(str, sorted(keyed)))}); they can't be chained"
        )
    stored = max(keyed or {state.max_parallelism for state in states}, default=None)
    if stored is None:
        return vertex.max_parallelism or default_max_parallelism(vertex.parallelism)
    if vertex.max_parallelism is not None and vertex.max_parallelism != stored:
        raise RestoreError(
            f"vertex {vertex.id!r} asks for a maximum parallelism of {vertex.max_parallelism}, but its state was "
            f"written with {stored}, which can't be changed; use {stored}, or leave it out"
        )
    if stored < vertex.parallelism:
        raise RestoreError(
            f"vertex {vertex.id!r} has parallelism {vertex.parallelism}, but its state was written with a maximum "
            f"of {stored}; use at most {stored}"
        )
    return stored


def _finished_vertices(
    snapshot: Snapshot, vertices: Sequence[RestoreVertex], edges: Sequence[RestoreEdge]
) -> frozenset[str]:
    finished: set[str] = set()
    partly: set[str] = set()
    for vertex in vertices:
        states = [snapshot.operators.get(uid) for uid in vertex.operators]
        fully = [state is not None and state.fully_finished for state in states]
        if any(fully):
            if not all(fully):
                raise RestoreError(
                    f"vertex {vertex.id!r} chains operators that had finished with others that had not; "
                    "they can't be chained when this snapshot is restored"
                )
            finished.add(vertex.id)
        elif any(state is not None and state.is_partly_finished for state in states):
            partly.add(vertex.id)
    for edge in edges:
        if edge.source in finished:
            continue
        if edge.target in finished:
            raise RestoreError(
                f"vertex {edge.target!r} had finished, but {edge.source!r} ahead of it had not; "
                "the graph has changed in a way this snapshot can't be restored into"
            )
        if edge.target in partly and not (edge.partitioning.is_pointwise and edge.source in partly):
            raise RestoreError(
                f"subtasks of {edge.target!r} had finished, but those of {edge.source!r} ahead of them had not; "
                "the graph has changed in a way this snapshot can't be restored into"
            )
    return frozenset(finished)


def _assign_vertex(
    snapshot: Snapshot,
    vertex: RestoreVertex,
    max_parallelism: int,
    subtasks: Mapping[SubtaskId, dict[str, SubtaskRestore]],
) -> None:
    for uid in vertex.operators:
        state = snapshot.operators.get(uid)
        if state is None:
            continue
        lists = _assign_lists(state, vertex.parallelism)
        for index in range(vertex.parallelism):
            wanted = key_group_range(max_parallelism, vertex.parallelism, index)
            keyed = _assign_keyed(state, vertex.parallelism, index, wanted)
            subtasks[SubtaskId(vertex.id, index)][uid] = SubtaskRestore(keyed, lists[index])


def _assign_keyed(
    state: OperatorState, parallelism: int, index: int, wanted: KeyGroupRange
) -> tuple[KeyedRestore, ...]:
    if state.parallelism == parallelism:
        parts = state.subtasks[index].keyed if index in state.subtasks else ()
        return tuple(KeyedRestore(part, part.key_groups) for part in parts)
    assigned = []
    for subtask in sorted(state.subtasks):
        for part in state.subtasks[subtask].keyed:
            common = part.key_groups.intersection(wanted)
            if common:
                assigned.append(KeyedRestore(part, common))
    return tuple(assigned)


def _assign_lists(state: OperatorState, parallelism: int) -> list[dict[str, tuple[ElementRef, ...]]]:
    by_mode: dict[OperatorStateMode, dict[str, list[list[ElementRef] | None]]] = {}
    for index in sorted(state.subtasks):
        for part in state.subtasks[index].operator:
            reported = by_mode.setdefault(part.mode, {}).setdefault(part.name, [None] * state.parallelism)
            reported[index] = [ElementRef(part.object, element) for element in range(part.elements)]
    result: list[dict[str, tuple[ElementRef, ...]]] = [{} for _ in range(parallelism)]
    deal = {
        OperatorStateMode.SPLIT: split,
        OperatorStateMode.UNION: union,
        OperatorStateMode.BROADCAST: broadcast,
    }
    for mode, lists in by_mode.items():
        for index, assigned in enumerate(deal[mode](lists, parallelism)):
            result[index].update({name: tuple(elements) for name, elements in assigned.items()})
    return result


def _assign_channels(
    snapshot: Snapshot,
    vertices: Sequence[RestoreVertex],
    edges: Sequence[RestoreEdge],
    max_parallelism: Mapping[str, int],
    subtasks: Mapping[SubtaskId, dict[str, SubtaskRestore]],
) -> None:
    by_id = {edge.id: edge for edge in edges}
    by_vertex = {vertex.id: vertex for vertex in vertices}
    for vertex in vertices:
        for position, uid in enumerate(vertex.operators):
            state = snapshot.operators.get(uid)
            if state is None:
                continue
            parts = list(state.subtasks.values())
            if any(part.inputs for part in parts) and position != 0:
                raise RestoreError(_moved_channel(snapshot, uid, "input", "first"))
            if any(part.outputs for part in parts) and position != len(vertex.operators) - 1:
                raise RestoreError(_moved_channel(snapshot, uid, "output", "last"))
            for channel, is_input in _channels(parts):
                edge = by_id.get(channel.edge)
                if edge is None or vertex.id != (edge.target if is_input else edge.source):
                    raise RestoreError(
                        f"snapshot {snapshot.id} has in-flight data of the edge {channel.edge!r}, which the job does "
                        "not have; restore a savepoint or an aligned checkpoint instead"
                    )
                shape = _EdgeShape.of(edge, snapshot, by_vertex, max_parallelism)
                shape.assign(channel, is_input, uid, vertex.id, subtasks)


def _moved_channel(snapshot: Snapshot, uid: str, side: str, place: str) -> str:
    return (
        f"snapshot {snapshot.id} has in-flight {side} data of {uid!r}, which is no longer the {place} operator of its "
        "chain; restore a savepoint or an aligned checkpoint instead"
    )


def _channels(parts: Iterable[SubtaskState]) -> Iterable[tuple[ChannelPart, bool]]:
    for part in parts:
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
        return cls(upstream, downstream, is_ambiguous(downstream))

    def assign(
        self,
        channel: ChannelPart,
        is_input: bool,
        uid: str,
        vertex_id: str,
        subtasks: Mapping[SubtaskId, dict[str, SubtaskRestore]],
    ) -> None:
        filtered = self.ambiguous[channel.downstream]
        targets = tuple(new for new, old in enumerate(self.downstream) if channel.downstream in old)
        owners = targets if is_input else tuple(new for new, old in enumerate(self.upstream) if channel.upstream in old)
        for owner in owners:
            operators = subtasks[SubtaskId(vertex_id, owner)]
            before = operators.get(uid, SubtaskRestore())
            if is_input:
                operators[uid] = replace(before, inputs=(*before.inputs, ChannelRestore(channel, filtered)))
            else:
                restored = ChannelRestore(channel, filtered, targets)
                operators[uid] = replace(before, outputs=(*before.outputs, restored))


def _old_max_parallelism(snapshot: Snapshot, vertex: RestoreVertex, default: int) -> int:
    known = [snapshot.operators[uid] for uid in vertex.operators if uid in snapshot.operators]
    return known[0].max_parallelism if known else default


def _old_parallelism(snapshot: Snapshot, vertex: RestoreVertex, operators: Iterable[str]) -> int:
    """That of the operator next to the edge: the operators of a chain may come from different vertices."""
    for uid in operators:
        if uid in snapshot.operators:
            return snapshot.operators[uid].parallelism
    return vertex.parallelism
