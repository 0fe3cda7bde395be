"""Properties of the policies in `protocol/`: what holds for every input, checked against slow and obvious models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from hypothesis import given
from hypothesis import strategies as st

from snapline.protocol.coordinator.checkpoint_plan import (
    CheckpointPlan,
    CheckpointPlanner,
    Edge,
    Vertex,
    pointwise_sources,
)
from snapline.protocol.coordinator.failure_counter import FailureCounter
from snapline.protocol.coordinator.request_decider import Decision, RequestDecider, TriggerRequest
from snapline.protocol.keygroups import (
    MAX_PARALLELISM_LIMIT,
    default_max_parallelism,
    key_group_range,
    key_group_ranges,
    owner,
)
from snapline.protocol.restore.redistribution import (
    Dealt,
    ElementRange,
    SubtaskMapper,
    broadcast,
    is_ambiguous,
    old_subtasks,
    split,
    union,
)
from snapline.protocol.retention.retention_rules import StoredSnapshot, subsumed
from snapline.protocol.retention.shared_registry import PLACEHOLDER, SharedStateRegistry
from snapline.protocol.snapshot import StoredObject
from snapline.types import NO_CHECKPOINT, FailureReason, SnapshotKind, SubtaskId

parallelisms = st.integers(1, 12)

# --- decider ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Surroundings:
    triggering: bool
    pending: int
    cleaning: int
    now_ms: int
    last_completed_ms: int | None


@dataclass
class DeciderModel:
    """The rules read aloud: the queue is a list in order of arrival, sorted anew at every look."""

    max_queued: int
    max_concurrent: int
    min_pause_ms: int
    arrived: list[TriggerRequest]

    def in_order(self) -> list[TriggerRequest]:
        def place(request: TriggerRequest) -> tuple[int, int, int, int, int]:
            return (
                0 if request.kind in (SnapshotKind.SAVEPOINT, SnapshotKind.SYNC_SAVEPOINT) else 1,
                0 if request.forced else 1,
                1 if request.periodic else 0,
                request.timestamp_ms,
                self.arrived.index(request),
            )

        return sorted(self.arrived, key=place)

    def step(self, request: TriggerRequest | None, around: Surroundings) -> Decision:
        failed: list[tuple[TriggerRequest, FailureReason]] = []
        if request is not None:
            if len(self.arrived) == self.max_queued and not self.in_order()[-1].periodic:
                return Decision(failed=((request, FailureReason.TOO_MANY_CHECKPOINT_REQUESTS),))
            self.arrived.append(request)
            if len(self.arrived) > self.max_queued:
                worst = self.in_order()[-1]
                self.arrived.remove(worst)
                failed.append((worst, FailureReason.TOO_MANY_CHECKPOINT_REQUESTS))
        chosen: TriggerRequest | None = None
        retry_in_ms: int | None = None
        blocked = around.triggering or around.cleaning > self.max_concurrent
        if self.arrived and not blocked:
            first = self.in_order()[0]
            wait_ms = 0
            if around.last_completed_ms is not None and first.periodic and not first.forced:
                wait_ms = around.last_completed_ms + self.min_pause_ms - around.now_ms
            if around.pending < self.max_concurrent and wait_ms > 0:
                self.arrived.remove(first)
                failed.append((first, FailureReason.MINIMUM_TIME_BETWEEN_CHECKPOINTS))
                retry_in_ms = wait_ms
            elif around.pending < self.max_concurrent or first.forced:
                self.arrived.remove(first)
                chosen = first
        return Decision(chosen, tuple(failed), retry_in_ms)


surroundings = st.builds(
    Surroundings,
    triggering=st.sampled_from([False, False, True]),
    pending=st.integers(0, 3),
    cleaning=st.integers(0, 3),
    now_ms=st.integers(0, 30),
    last_completed_ms=st.none() | st.integers(0, 30),
)
wishes = st.tuples(st.sampled_from(SnapshotKind), st.booleans(), st.booleans(), st.integers(0, 3))


@given(
    st.integers(1, 4),
    st.integers(1, 2),
    st.integers(0, 10),
    st.lists(st.tuples(st.none() | wishes, surroundings), max_size=30),
)
def test_the_decider_agrees_with_the_rules_read_aloud(
    max_queued: int,
    max_concurrent: int,
    min_pause_ms: int,
    steps: list[tuple[tuple[SnapshotKind, bool, bool, int] | None, Surroundings]],
) -> None:
    decider = RequestDecider(max_queued, max_concurrent, min_pause_ms)
    model = DeciderModel(max_queued, max_concurrent, min_pause_ms, [])
    offered: list[TriggerRequest] = []
    answered: list[TriggerRequest] = []
    for number, (wish, around) in enumerate(steps):
        request = TriggerRequest(f"r{number}", *wish) if wish is not None else None
        if request is None:
            decision = decider.poll(
                triggering=around.triggering,
                pending=around.pending,
                cleaning=around.cleaning,
                now_ms=around.now_ms,
                last_completed_ms=around.last_completed_ms,
            )
        else:
            offered.append(request)
            decision = decider.offer(
                request,
                triggering=around.triggering,
                pending=around.pending,
                cleaning=around.cleaning,
                now_ms=around.now_ms,
                last_completed_ms=around.last_completed_ms,
            )
        assert decision == model.step(request, around)
        assert list(decider.queued) == model.in_order()
        assert len(decider.queued) <= max_queued
        answered += [failed for failed, _ in decision.failed]
        answered += [decision.chosen] if decision.chosen is not None else []
    everyone = answered + list(decider.drop_all())
    assert sorted(request.name for request in everyone) == sorted(request.name for request in offered)
    assert decider.queued == ()


# --- failures --------------------------------------------------------------------------------------------------------

outcomes = st.tuples(
    st.integers(1, 8) | st.just(NO_CHECKPOINT),
    st.none() | st.sampled_from([FailureReason.CHECKPOINT_DECLINED, FailureReason.CHECKPOINT_SUBSUMED]),
)


@given(st.integers(0, 3), st.lists(outcomes, max_size=25))
def test_a_job_fails_when_more_distinct_checkpoints_failed_in_a_row_than_are_tolerated(
    tolerable: int, history: list[tuple[int, FailureReason | None]]
) -> None:
    counter = FailureCounter(tolerable)
    last_success = 0
    run: list[int] = []
    for checkpoint_id, reason in history:
        if reason is None:
            if checkpoint_id > last_success:
                last_success, run = checkpoint_id, []
            counter.completed(checkpoint_id)
            continue
        if reason.is_counted and (checkpoint_id == NO_CHECKPOINT or checkpoint_id > last_success):
            run.append(checkpoint_id)
        anonymous = run.count(NO_CHECKPOINT)
        expected = anonymous + len(set(run) - {NO_CHECKPOINT}) > tolerable
        if expected:
            run = []
        assert counter.failed(checkpoint_id, reason, savepoint=False, synchronous=False, from_task=True) is expected


# --- plan ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Graph:
    vertices: tuple[Vertex, ...]
    edges: tuple[Edge, ...]
    finished: frozenset[SubtaskId]

    @property
    def subtasks(self) -> list[SubtaskId]:
        return [SubtaskId(vertex.id, index) for vertex in self.vertices for index in range(vertex.parallelism)]

    def upstream_of(self, subtask: SubtaskId) -> set[SubtaskId]:
        parallelism = {vertex.id: vertex.parallelism for vertex in self.vertices}
        feeding: set[SubtaskId] = set()
        for edge in self.edges:
            if edge.target == subtask.vertex:
                sources, targets = parallelism[edge.source], parallelism[edge.target]
                indexes = pointwise_sources(subtask.index, sources, targets) if edge.pointwise else range(sources)
                feeding.update(SubtaskId(edge.source, index) for index in indexes)
        return feeding


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=5))
    vertices = [Vertex(f"v{i}", size) for i, size in enumerate(sizes)]
    edges = [
        Edge(f"v{source}", f"v{target}", pointwise=draw(st.booleans()))
        for target in range(len(sizes))
        for source in range(target)
        if draw(st.booleans())
    ]
    # Finishing goes downstream, but the rules do not depend on it: any set will do.
    finished = frozenset(
        SubtaskId(vertex.id, index)
        for vertex in vertices
        for index in draw(st.sets(st.integers(0, vertex.parallelism - 1)))
    )
    return Graph(tuple(draw(st.permutations(vertices))), tuple(draw(st.permutations(edges))), finished)


@given(graphs())
def test_a_plan_follows_from_who_runs_and_who_feeds_whom(graph: Graph) -> None:
    plan = CheckpointPlanner(graph.vertices, graph.edges).plan(finished=graph.finished)
    assert isinstance(plan, CheckpointPlan)
    running = set(graph.subtasks) - graph.finished
    assert set(plan.wait) == running
    assert plan.commit == plan.wait
    assert set(plan.trigger) == {subtask for subtask in running if not graph.upstream_of(subtask) & running}
    assert set(plan.finished_subtasks) == graph.finished
    assert set(plan.finished_vertices) == {v.id for v in graph.vertices} - {subtask.vertex for subtask in running}
    for subtasks in (plan.trigger, plan.wait, plan.finished_subtasks):
        assert len(set(subtasks)) == len(subtasks)


@given(graphs())
def test_a_barrier_reaches_every_running_subtask_over_running_ones(graph: Graph) -> None:
    plan = CheckpointPlanner(graph.vertices, graph.edges).plan(finished=graph.finished)
    assert isinstance(plan, CheckpointPlan)
    assert set(plan.trigger) <= set(plan.wait)
    reached = set(plan.trigger)
    while newly := {subtask for subtask in set(plan.wait) - reached if graph.upstream_of(subtask) & reached}:
        reached |= newly
    assert reached == set(plan.wait)


@given(graphs())
def test_upstream_subtasks_come_first_in_a_plan(graph: Graph) -> None:
    plan = CheckpointPlanner(graph.vertices, graph.edges).plan()
    assert isinstance(plan, CheckpointPlan)
    position = {subtask: place for place, subtask in enumerate(plan.wait)}
    for subtask in plan.wait:
        assert all(position[source] < position[subtask] for source in graph.upstream_of(subtask))


@given(parallelisms, parallelisms)
def test_pointwise_edges_connect_as_specified(sources: int, targets: int) -> None:
    connected = {
        (source, target) for target in range(targets) for source in pointwise_sources(target, sources, targets)
    }
    if sources >= targets:
        expected = {
            (source, target)
            for target in range(targets)
            for source in range(target * sources // targets, (target + 1) * sources // targets)
        }
    else:
        expected = {
            (source, target)
            for source in range(sources)
            for target in range(-(-source * targets // sources), -(-(source + 1) * targets // sources))
        }
    assert connected == expected
    assert {source for source, _ in connected} == set(range(sources))


# --- key groups ------------------------------------------------------------------------------------------------------


@st.composite
def scales(draw: st.DrawFn) -> tuple[int, int]:
    max_parallelism = draw(st.integers(1, 300) | st.just(MAX_PARALLELISM_LIMIT))
    return max_parallelism, draw(st.integers(1, min(max_parallelism, 300)))


@given(scales())
def test_ranges_hold_every_key_group_once_and_in_order(scale: tuple[int, int]) -> None:
    max_parallelism, parallelism = scale
    ranges = key_group_ranges(max_parallelism, parallelism)
    assert len(ranges) == parallelism
    assert list(chain.from_iterable(ranges)) == list(range(max_parallelism))
    sizes = {len(groups) for groups in ranges}
    assert max(sizes) - min(sizes) <= 1


@given(scales(), st.data())
def test_the_owner_of_a_key_group_is_the_subtask_whose_range_holds_it(
    scale: tuple[int, int], data: st.DataObject
) -> None:
    max_parallelism, parallelism = scale
    key_group = data.draw(st.integers(0, max_parallelism - 1))
    owning = owner(key_group, parallelism, max_parallelism)
    holding = [i for i in range(parallelism) if key_group in key_group_range(max_parallelism, parallelism, i)]
    assert holding == [owning]


@given(scales(), st.data())
def test_an_intersection_holds_what_both_hold(scale: tuple[int, int], data: st.DataObject) -> None:
    max_parallelism, parallelism = scale
    other_parallelism = data.draw(st.integers(1, min(max_parallelism, 300)))
    mine = data.draw(st.sampled_from(key_group_ranges(max_parallelism, parallelism)))
    others = data.draw(st.sampled_from(key_group_ranges(max_parallelism, other_parallelism)))
    assert set(mine.intersection(others)) == set(mine) & set(others)


@given(st.integers(1, MAX_PARALLELISM_LIMIT))
def test_the_default_max_parallelism_is_a_power_of_two_with_room(parallelism: int) -> None:
    default = default_max_parallelism(parallelism)
    assert default in [2**exponent for exponent in range(7, 16)]
    assert default >= min(parallelism + parallelism // 2, MAX_PARALLELISM_LIMIT)
    assert default == 128 or default // 2 < parallelism + parallelism // 2


# --- redistribution --------------------------------------------------------------------------------------------------

States = dict[str, list[list[ElementRange] | None]]


@st.composite
def list_states(draw: st.DrawFn) -> tuple[States, int]:
    """States of one operator whose elements are all different, and the old parallelism."""
    old_parallelism = draw(st.integers(1, 5))
    states: States = {}
    for name in draw(st.lists(st.sampled_from("abcdef"), unique=True, max_size=4)):
        lengths = draw(st.lists(st.none() | st.integers(0, 6), min_size=old_parallelism, max_size=old_parallelism))
        states[name] = [
            None if length is None else draw(pieces(f"{name}{index}", length)) for index, length in enumerate(lengths)
        ]
    return states, old_parallelism


@st.composite
def pieces(draw: st.DrawFn, path: str, length: int) -> list[ElementRange]:
    """A list of so many elements, in one object or in several."""
    cuts = sorted(draw(st.sets(st.integers(1, length - 1), max_size=2))) if length > 1 else []
    spans = zip([0, *cuts], [*cuts, length], strict=True)
    return [ElementRange(StoredObject(f"{path}-{start}", 1), 0, stop - start) for start, stop in spans]


def all_elements(lists: Sequence[Sequence[ElementRange] | None]) -> list[tuple[str, int]]:
    parts = [part for pieces in lists if pieces for part in pieces]
    return [(part.object.path, place) for part in parts for place in range(part.start, part.stop)]


def expanded(result: Dealt) -> list[dict[str, list[tuple[str, int]]]]:
    return [{name: all_elements([parts]) for name, parts in subtask.items()} for subtask in result]


@given(list_states(), st.integers(1, 6))
def test_split_gives_every_element_to_one_subtask_in_order(case: tuple[States, int], to: int) -> None:
    states, old_parallelism = case
    result = expanded(split(states, to))
    assert len(result) == to
    assert all(subtask[name] for subtask in result for name in subtask)
    start = 0
    for name, lists in states.items():
        parts = [result[(start + i) % to].get(name, []) for i in range(to)]
        if old_parallelism == to:
            assert [subtask.get(name, []) for subtask in result] == [all_elements([elements]) for elements in lists]
        else:
            assert list(chain.from_iterable(parts)) == all_elements(lists)
            sizes = [len(part) for part in parts]
            assert sizes == sorted(sizes, reverse=True)
            assert sizes[0] - sizes[-1] <= 1
            start = (start + len(all_elements(lists))) % to


@given(list_states(), st.integers(1, 6))
def test_split_makes_no_more_ranges_than_lists_and_cuts(case: tuple[States, int], to: int) -> None:
    states, old_parallelism = case
    ranges = sum(len(parts) for subtask in split(states, to) for parts in subtask.values())
    given = sum(len(parts or ()) for lists in states.values() for parts in lists)
    assert ranges <= max(given, len(states) * old_parallelism) + len(states) * (to - 1)


@given(list_states(), st.integers(1, 6))
def test_split_at_a_new_parallelism_spreads_all_states_together_evenly(case: tuple[States, int], to: int) -> None:
    states, old_parallelism = case
    if old_parallelism != to:
        loads = [sum(map(len, subtask.values())) for subtask in expanded(split(states, to))]
        assert max(loads) - min(loads) <= 1


@given(list_states(), st.integers(1, 6))
def test_union_gives_all_and_broadcast_one_reported_copy(case: tuple[States, int], to: int) -> None:
    states, _ = case
    everything = {name: all_elements(lists) for name, lists in states.items() if all_elements(lists)}
    assert expanded(union(states, to)) == [everything] * to
    copies = expanded(broadcast(states, to))
    for name, lists in states.items():
        reported = [all_elements([elements]) for elements in lists if elements is not None]
        for index, subtask in enumerate(copies):
            assert subtask.get(name, []) == (reported[index % len(reported)] if reported else [])
            assert name not in subtask or subtask[name]


@given(st.sampled_from([m for m in SubtaskMapper if m is not SubtaskMapper.UNSUPPORTED]), parallelisms, parallelisms)
def test_no_old_subtask_is_lost_by_a_mapper(mapper: SubtaskMapper, old: int, new: int) -> None:
    mapping = old_subtasks(mapper, old, new)
    assert len(mapping) == new
    assert set(chain.from_iterable(mapping)) == set(range(old))
    assert all(list(olds) == sorted(set(olds)) for olds in mapping)
    takers = [sum(index in olds for olds in mapping) for index in range(old)]
    assert is_ambiguous(mapping) == tuple(count > 1 for count in takers)
    if mapper in (SubtaskMapper.ROUND_ROBIN, SubtaskMapper.FIRST):
        assert set(takers) == {1}


@given(parallelisms, parallelisms)
def test_the_range_mapper_finds_exactly_the_overlapping_key_groups(old: int, new: int) -> None:
    old_ranges = key_group_ranges(MAX_PARALLELISM_LIMIT, old)
    assert old_subtasks(SubtaskMapper.RANGE, old, new) == tuple(
        tuple(index for index, groups in enumerate(old_ranges) if groups.intersection(mine))
        for mine in key_group_ranges(MAX_PARALLELISM_LIMIT, new)
    )


# --- retention -------------------------------------------------------------------------------------------------------


@given(st.lists(st.sampled_from(SnapshotKind), min_size=1, max_size=12), st.integers(1, 5))
def test_what_is_retained_is_enough_and_not_too_much(kinds: list[SnapshotKind], limit: int) -> None:
    entries = [StoredSnapshot(number, kind) for number, kind in enumerate(kinds, start=1)]
    dropped = subsumed(entries, limit)
    kept = [entry for entry in entries if entry not in dropped]
    newest = entries[-1]
    checkpoints = [entry for entry in entries if entry.kind is SnapshotKind.CHECKPOINT]
    assert list(dropped) == sorted(dropped, key=lambda entry: entry.id)
    assert newest in kept
    assert len(kept) >= min(limit, len(entries))
    protected = {newest} if newest.kind is SnapshotKind.SYNC_SAVEPOINT else {newest, *checkpoints[-1:]}
    assert protected <= set(kept)
    assert len(kept) <= max(limit, len(protected))
    others = [entry for entry in entries if entry not in protected]
    assert list(dropped) == others[: len(dropped)], "an entry outlived a newer one that was dropped"


# --- shared state ----------------------------------------------------------------------------------------------------


@given(st.lists(st.sets(st.sampled_from("abcde")), max_size=10), st.integers(1, 3), st.integers(-1, 3))
def test_a_shared_file_goes_once_and_only_after_its_last_user(
    used: list[set[str]], retained: int, unclaimed: int
) -> None:
    """Checkpoint n uses `used[n]`; the newest `retained` are kept; the first may be restored without being owned."""
    registry: SharedStateRegistry[str] = SharedStateRegistry()
    alive: dict[str, int] = {}
    history: list[set[str]] = []
    for checkpoint_id, keys in enumerate(used):
        history.append(keys)
        if checkpoint_id <= unclaimed:
            fresh = {key: f"{key}-by-{alive.get(key, checkpoint_id)}" for key in sorted(keys)}
            registry.restored(checkpoint_id, fresh, claim=False, sharing=True)
            for key in keys:
                alive.setdefault(key, checkpoint_id)
        for key in keys:
            handle = PLACEHOLDER if key in alive else f"{key}-by-{checkpoint_id}"
            created_by = alive.setdefault(key, checkpoint_id)
            assert registry.register(key, handle, checkpoint_id) == f"{key}-by-{created_by}"
        lowest = max(0, checkpoint_id - retained + 1)
        gone = set(alive).difference(*history[lowest:])
        highest_unclaimed = min(unclaimed, checkpoint_id)
        deletable = {(key, f"{key}-by-{alive[key]}") for key in gone if alive[key] > highest_unclaimed}
        unused = registry.unregister_unused(lowest)
        assert set(unused.deleted) == deletable
        assert len(unused.deleted) == len(deletable)
        assert unused.in_use == ()
        for key in gone:
            del alive[key]
