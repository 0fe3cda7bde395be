"""The plan of a restore: which snapshot to start from, whether it fits the job, and which subtask gets what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from snapline.errors import RestoreError
from snapline.protocol.keygroups import KeyGroupRange, default_max_parallelism, key_group_range
from snapline.protocol.restore.channel_replay import Replay, replays
from snapline.protocol.restore.redistribution import Dealt, ElementRange, broadcast, split, union
from snapline.protocol.snapshot import ChannelPart, KeyedPart, OperatorState, Snapshot, StoredObject, SubtaskState
from snapline.types import MAX_WATERMARK, NO_CHECKPOINT, ClaimMode, OperatorStateMode, Partitioning, SubtaskId


@dataclass(frozen=True, slots=True)
class RestoreVertex:
    """A vertex of the job to restore. `max_parallelism` is None unless the user set it.

    `coordinators` are its operators that have a coordinator on the driver. `links` are the ids of the edges that each
    operator would have to the next one, if they were not chained.
    """

    id: str
    parallelism: int
    operators: tuple[str, ...]
    max_parallelism: int | None = None
    coordinators: tuple[str, ...] = ()
    links: tuple[str, ...] = ()


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
class KeyedRestore:
    """Read this part, but only these key groups."""

    part: KeyedPart
    key_groups: KeyGroupRange


@dataclass(frozen=True, slots=True)
class ChannelRestore:
    """Replay this in-flight data. With `filter` several subtasks replay it, and each keeps its own records.

    Output data goes to the downstream subtasks `targets`; input data has none.
    """

    part: ChannelPart
    filter: bool
    targets: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class SubtaskRestore:
    """The state that one operator of one subtask starts with; `watermark_ms` is None before the first watermark."""

    keyed: tuple[KeyedRestore, ...] = ()
    operator: Mapping[str, tuple[ElementRange, ...]] = field(default_factory=dict)
    inputs: tuple[ChannelRestore, ...] = ()
    outputs: tuple[ChannelRestore, ...] = ()
    watermark_ms: int | None = None


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """How a snapshot is distributed.

    `coordinators` holds the state of each operator coordinator, None for one that starts anew. `left_behind` names
    what the snapshot has and the job does not: operators, operator coordinators and master hooks.
    """

    checkpoint_id: int
    max_parallelism: Mapping[str, int]
    subtasks: Mapping[SubtaskId, Mapping[str, SubtaskRestore]]
    finished: frozenset[SubtaskId]
    coordinators: Mapping[str, StoredObject | None]
    hooks: Mapping[str, StoredObject | None]
    left_behind: tuple[str, ...] = ()


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
    options: RestoreOptions = RestoreOptions(),
    *,
    hooks: Sequence[str] = (),
) -> RestorePlan:
    """The plan for this snapshot. Raises `RestoreError` if the snapshot does not fit the job."""
    left_behind = _left_behind(snapshot, vertices, tuple(hooks), options.allow_non_restored)
    max_parallelism = {vertex.id: _max_parallelism(vertex, snapshot) for vertex in vertices}
    finished = _finished_vertices(snapshot, vertices, edges)
    subtasks: dict[SubtaskId, dict[str, SubtaskRestore]] = {
        SubtaskId(vertex.id, index): {} for vertex in vertices for index in range(vertex.parallelism)
    }
    for vertex in vertices:
        if vertex.id not in finished:
            _assign_vertex(snapshot, vertex, max_parallelism[vertex.id], subtasks)
    if options.ignore_in_flight_of != snapshot.id:
        for replay in replays(snapshot, vertices, edges, max_parallelism):
            _assign_replay(replay, subtasks[replay.subtask])
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
        {hook: snapshot.hooks.get(hook) for hook in hooks},
        left_behind,
    )


def _left_behind(
    snapshot: Snapshot, vertices: Sequence[RestoreVertex], hooks: Sequence[str], allow_non_restored: bool
) -> tuple[str, ...]:
    """What the snapshot has and the job does not."""
    known: set[str] = set()
    for vertex in vertices:
        for uid in vertex.operators:
            if uid in known:
                raise RestoreError(f"two operators have the uid {uid!r}; give each its own")
            known.add(uid)
    coordinated = {uid for vertex in vertices for uid in vertex.coordinators}
    states = snapshot.operators
    operators = [repr(uid) for uid in states if uid not in known and any(True for _ in states[uid].objects())]
    coordinators = [
        f"the coordinator of {uid!r}"
        for uid, state in states.items()
        if uid in known and uid not in coordinated and state.coordinator is not None
    ]
    unknown_hooks = [f"the master hook {hook!r}" for hook in snapshot.hooks if hook not in hooks]
    left_behind = (*operators, *coordinators, *unknown_hooks)
    if left_behind and not allow_non_restored:
        raise RestoreError(
            f"snapshot {snapshot.id} has state of {', '.join(left_behind)}, which the job does not have; bring it back "
            "under the same uid or name, or set allow_non_restored=True to leave its state behind"
        )
    return left_behind


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
            watermark_ms = _assign_watermark(state, vertex.parallelism, index)
            subtasks[SubtaskId(vertex.id, index)][uid] = SubtaskRestore(keyed, lists[index], watermark_ms=watermark_ms)


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


def _assign_watermark(state: OperatorState, parallelism: int, index: int) -> int | None:
    """The subtask's own watermark. At another parallelism the least: it may get keys of any old subtask.

    The end of the data is no watermark to restore: the job may have more data now.
    """
    old = state.subtasks
    sources = (old.get(index, SubtaskState()),) if state.parallelism == parallelism else tuple(old.values())
    known = [part.watermark_ms for part in sources if not part.finished and part.watermark_ms != MAX_WATERMARK]
    return None if None in known else min((ms for ms in known if ms is not None), default=None)


def _assign_lists(state: OperatorState, parallelism: int) -> Dealt:
    by_mode: dict[OperatorStateMode, dict[str, list[list[ElementRange] | None]]] = {}
    for index in sorted(state.subtasks):
        for part in state.subtasks[index].operator:
            reported = by_mode.setdefault(part.mode, {}).setdefault(part.name, [None] * state.parallelism)
            reported[index] = [*(reported[index] or ()), ElementRange(part.object, 0, part.elements)]
    result: Dealt = [{} for _ in range(parallelism)]
    deal = {
        OperatorStateMode.SPLIT: split,
        OperatorStateMode.UNION: union,
        OperatorStateMode.BROADCAST: broadcast,
    }
    for mode, lists in by_mode.items():
        for index, assigned in enumerate(deal[mode](lists, parallelism)):
            result[index].update(assigned)
    return result


def _assign_replay(replay: Replay, operators: dict[str, SubtaskRestore]) -> None:
    before = operators.get(replay.uid, SubtaskRestore())
    restored = ChannelRestore(replay.part, replay.filter, replay.targets)
    operators[replay.uid] = (
        replace(before, outputs=(*before.outputs, restored))
        if replay.targets
        else replace(before, inputs=(*before.inputs, restored))
    )
