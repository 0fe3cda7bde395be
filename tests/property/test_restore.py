"""Properties of a restore: every part of a snapshot finds its owner, at any parallelism before and after."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from snapline.protocol.keygroups import key_group_ranges, owner
from snapline.protocol.restore.restore_plan import (
    ChannelRestore,
    RestoreEdge,
    RestorePlan,
    RestoreVertex,
    SubtaskRestore,
    plan_restore,
)
from snapline.protocol.snapshot import (
    ChannelPart,
    KeyedPart,
    OperatorPart,
    OperatorState,
    Snapshot,
    StoredObject,
    SubtaskState,
)
from snapline.types import OperatorStateMode, Partitioning, SnapshotKind, SubtaskId

parallelisms = st.integers(1, 9)
RESCALABLE = [Partitioning.HASH, Partitioning.REBALANCE, Partitioning.GLOBAL]


def snapshot(*operators: OperatorState) -> Snapshot:
    return Snapshot(1, SnapshotKind.CHECKPOINT, 1, 0, "chk-1", {operator.uid: operator for operator in operators})


def restored(plan: RestorePlan, uid: str, parallelism: int) -> list[SubtaskRestore]:
    return [plan.subtasks[SubtaskId(uid, index)].get(uid, SubtaskRestore()) for index in range(parallelism)]


# --- keyed state -----------------------------------------------------------------------------------------------------


@given(parallelisms, parallelisms, st.integers(9, 300), st.sets(st.integers(0, 8)))
def test_every_key_group_that_was_stored_goes_to_its_new_owner_and_nowhere_else(
    old: int, new: int, max_parallelism: int, finished: set[int]
) -> None:
    ranges = key_group_ranges(max_parallelism, old)
    states = {
        index: SubtaskState(finished=True)
        if index in finished
        else SubtaskState(keyed=(KeyedPart(groups, (StoredObject(f"k-{index}", 1),)),))
        for index, groups in enumerate(ranges)
    }
    stored = {group for index, groups in enumerate(ranges) if index not in finished for group in groups}
    state = OperatorState("a", old, max_parallelism, states)
    asked = max_parallelism if stored else None
    plan = plan_restore(snapshot(state), [RestoreVertex("a", new, ("a",), asked)], [])
    read: list[tuple[int, int]] = []
    for index, mine in enumerate(restored(plan, "a", new)):
        for part in mine.keyed:
            read += [(group, index) for group in part.key_groups]
            assert set(part.key_groups) <= set(part.part.key_groups), "the object does not hold them"
    assert sorted(read) == sorted((group, owner(group, new, max_parallelism)) for group in stored)


# --- list state ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Lists:
    """By state name its mode, and by old subtask how many elements it reported; None if none."""

    modes: dict[str, OperatorStateMode]
    counts: dict[str, list[int | None]]
    old: int

    def state(self) -> OperatorState:
        subtasks = {
            index: SubtaskState(
                operator=tuple(
                    OperatorPart(name, self.modes[name], count, StoredObject(f"{name}-{index}", 1))
                    for name, counts in self.counts.items()
                    if (count := counts[index]) is not None
                )
            )
            for index in range(self.old)
        }
        return OperatorState("a", self.old, 128, subtasks)

    def elements(self, name: str) -> list[tuple[str, int]]:
        return [ref for index in range(self.old) for ref in self.of(name, index)]

    def of(self, name: str, index: int) -> list[tuple[str, int]]:
        return [(f"{name}-{index}", element) for element in range(self.counts[name][index] or 0)]


@st.composite
def list_states(draw: st.DrawFn) -> Lists:
    old = draw(parallelisms)
    names = draw(st.lists(st.sampled_from(["s", "t", "u", "b"]), unique=True, min_size=1))
    counts: dict[str, list[int | None]] = {
        name: draw(st.lists(st.none() | st.integers(0, 5), min_size=old, max_size=old)) for name in names
    }
    modes = {name: draw(st.sampled_from(OperatorStateMode)) for name in names}
    return Lists(modes, counts, old)


@given(list_states(), parallelisms)
def test_every_list_element_goes_where_its_mode_sends_it(lists: Lists, new: int) -> None:
    plan = plan_restore(snapshot(lists.state()), [RestoreVertex("a", new, ("a",))], [])
    subtasks = [mine.operator for mine in restored(plan, "a", new)]
    for name, mode in lists.modes.items():
        assigned = [
            [(part.object.path, place) for part in mine.get(name, ()) for place in range(part.start, part.stop)]
            for mine in subtasks
        ]
        match mode:
            case OperatorStateMode.SPLIT:
                assert Counter(ref for mine in assigned for ref in mine) == Counter(lists.elements(name))
                if new != lists.old:
                    sizes = [len(mine) for mine in assigned]
                    assert max(sizes) - min(sizes) <= 1
            case OperatorStateMode.UNION:
                assert assigned == [lists.elements(name)] * new
            case OperatorStateMode.BROADCAST:
                copies = [lists.of(name, index) for index in range(lists.old) if lists.counts[name][index] is not None]
                assert all(mine in (copies or [[]]) for mine in assigned)
    assert {name for mine in subtasks for name in mine} <= set(lists.modes)


# --- in-flight data --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rescaling:
    """An edge, its parallelisms before and after, and the channels that hold data on each side."""

    partitioning: Partitioning
    old: tuple[int, int]
    new: tuple[int, int]
    inputs: frozenset[tuple[int, int]]
    outputs: frozenset[tuple[int, int]]

    def plan(self) -> RestorePlan:
        sources, targets = self.old
        a = {
            up: SubtaskState(outputs=tuple(self.part(up, down, "out") for u, down in sorted(self.outputs) if u == up))
            for up in range(sources)
        }
        b = {
            down: SubtaskState(inputs=tuple(self.part(up, down, "in") for up, d in sorted(self.inputs) if d == down))
            for down in range(targets)
        }
        vertices = [RestoreVertex("a", self.new[0], ("a",)), RestoreVertex("b", self.new[1], ("b",))]
        return plan_restore(
            snapshot(OperatorState("a", sources, 128, a), OperatorState("b", targets, 128, b)),
            vertices,
            [RestoreEdge("e", "a", "b", self.partitioning)],
        )

    @staticmethod
    def part(up: int, down: int, side: str) -> ChannelPart:
        return ChannelPart("e", up, down, StoredObject(f"{up}-{down}-{side}", 1))


@st.composite
def rescalings(draw: st.DrawFn) -> Rescaling:
    old, new = (draw(parallelisms), draw(parallelisms)), (draw(parallelisms), draw(parallelisms))
    channels = st.frozensets(st.tuples(st.integers(0, old[0] - 1), st.integers(0, old[1] - 1)))
    return Rescaling(draw(st.sampled_from(RESCALABLE)), old, new, draw(channels), draw(channels))


def replays(subtasks: list[SubtaskRestore], side: str) -> dict[tuple[int, int], list[tuple[int, ChannelRestore]]]:
    """By channel, who replays it and how."""
    found: dict[tuple[int, int], list[tuple[int, ChannelRestore]]] = {}
    for index, mine in enumerate(subtasks):
        for channel in mine.inputs if side == "in" else mine.outputs:
            found.setdefault((channel.part.upstream, channel.part.downstream), []).append((index, channel))
    return found


@given(rescalings())
def test_all_in_flight_data_is_replayed_and_filtered_exactly_where_several_replay_it(case: Rescaling) -> None:
    plan = case.plan()
    inputs = replays(restored(plan, "b", case.new[1]), "in")
    assert set(inputs) == case.inputs, "some input data has no owner, or is invented"
    for takers in inputs.values():
        assert {channel.filter for _, channel in takers} == {len(takers) > 1}
        assert len({index for index, _ in takers}) == len(takers)
    outputs = replays(restored(plan, "a", case.new[0]), "out")
    assert set(outputs) == case.outputs
    for takers in outputs.values():
        ((_, channel),) = takers
        assert channel.filter is (len(channel.targets) > 1)
        assert channel.targets
        assert all(0 <= target < case.new[1] for target in channel.targets)


@given(rescalings())
def test_input_and_output_data_of_one_channel_end_up_with_the_same_subtasks(case: Rescaling) -> None:
    plan = case.plan()
    inputs = replays(restored(plan, "b", case.new[1]), "in")
    outputs = replays(restored(plan, "a", case.new[0]), "out")
    for channel in case.inputs & case.outputs:
        ((_, output),) = outputs[channel]
        assert output.targets == tuple(index for index, _ in inputs[channel])


@given(parallelisms, parallelisms, st.sampled_from([16, 64, 128, 1024]))
def test_the_new_owner_of_every_key_replays_all_data_that_may_hold_it(old: int, new: int, max_parallelism: int) -> None:
    channels = frozenset((0, down) for down in range(old))
    plan = Rescaling(Partitioning.HASH, (1, old), (1, new), channels, frozenset()).plan()
    replayed = [{channel.part.downstream for channel in mine.inputs} for mine in restored(plan, "b", new)]
    for group in range(max_parallelism):
        assert owner(group, old, max_parallelism) in replayed[owner(group, new, max_parallelism)]
