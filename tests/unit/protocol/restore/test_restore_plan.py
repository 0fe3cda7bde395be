"""Restoring: which snapshot, whether it fits the job, and who gets which part of it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from snapline.errors import RestoreError
from snapline.protocol.keygroups import KeyGroupRange, default_max_parallelism, key_group_ranges
from snapline.protocol.restore.redistribution import ElementRange
from snapline.protocol.restore.restore_plan import (
    ChannelRestore,
    KeyedRestore,
    RestoreEdge,
    RestoreOptions,
    RestorePlan,
    RestoreVertex,
    SubtaskRestore,
    must_be_full,
    plan_fresh_start,
    plan_restore,
    restore_point,
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
from snapline.types import MAX_WATERMARK, ClaimMode, OperatorStateMode, Partitioning, SnapshotKind, SubtaskId

HASH, REBALANCE, GLOBAL = Partitioning.HASH, Partitioning.REBALANCE, Partitioning.GLOBAL
FORWARD, BROADCAST = Partitioning.FORWARD, Partitioning.BROADCAST
FINISHED = SubtaskState(finished=True)


def stored(path: str) -> StoredObject:
    return StoredObject(path, 1)


def snapshot(*operators: OperatorState, hooks: Mapping[str, StoredObject] | None = None) -> Snapshot:
    by_uid = {operator.uid: operator for operator in operators}
    return Snapshot(5, SnapshotKind.CHECKPOINT, 1, 0, "chk-5", by_uid, hooks or {})


def operator(
    uid: str, *subtasks: SubtaskState, max_parallelism: int = 128, parallelism: int | None = None
) -> OperatorState:
    return OperatorState(uid, parallelism or len(subtasks), max_parallelism, dict(enumerate(subtasks)))


def finished(uid: str, parallelism: int = 2) -> OperatorState:
    return OperatorState(uid, parallelism, 128, fully_finished=True)


def keyed(uid: str, parallelism: int, max_parallelism: int = 128) -> OperatorState:
    """Keyed state of all key groups, one object per subtask."""
    parts = [
        SubtaskState(keyed=(KeyedPart(groups, (stored(f"{uid}-{index}"),)),))
        for index, groups in enumerate(key_group_ranges(max_parallelism, parallelism))
    ]
    return operator(uid, *parts, max_parallelism=max_parallelism)


def lists(mode: OperatorStateMode, name: str, *counts: int | None) -> list[SubtaskState]:
    """By subtask how many elements of one list state it reported; None if it reported none."""
    return [
        SubtaskState()
        if count is None
        else SubtaskState(operator=(OperatorPart(name, mode, count, stored(f"{name}-{index}")),))
        for index, count in enumerate(counts)
    ]


def inputs(edge: str, *channels: tuple[int, int]) -> SubtaskState:
    return SubtaskState(inputs=tuple(channel(edge, up, down, "in") for up, down in channels))


def outputs(edge: str, *channels: tuple[int, int]) -> SubtaskState:
    return SubtaskState(outputs=tuple(channel(edge, up, down, "out") for up, down in channels))


def channel(edge: str, up: int, down: int, side: str) -> ChannelPart:
    return ChannelPart(edge, up, down, stored(f"{edge}-{up}-{down}-{side}"))


def vertex(uid: str, parallelism: int, max_parallelism: int | None = None) -> RestoreVertex:
    """A vertex with one operator of the same name."""
    return RestoreVertex(uid, parallelism, (uid,), max_parallelism)


def edge(source: str, target: str, partitioning: Partitioning = HASH) -> RestoreEdge:
    return RestoreEdge(f"{source}->{target}", source, target, partitioning)


def restored(plan: RestorePlan, uid: str, index: int) -> SubtaskRestore:
    return plan.subtasks[SubtaskId(uid, index)][uid]


def elements(assigned: tuple[ElementRange, ...]) -> list[tuple[str, int]]:
    return [(mine.object.path, index) for mine in assigned for index in range(mine.start, mine.stop)]


# --- where to start --------------------------------------------------------------------------------------------------


def point(checkpoint_id: int, kind: SnapshotKind = SnapshotKind.CHECKPOINT) -> Snapshot:
    return Snapshot(checkpoint_id, kind, 1, 0, f"chk-{checkpoint_id}", {})


def test_the_newest_of_its_own_goes_before_what_the_user_names() -> None:
    assert restore_point([point(3), point(2)], point(9)) == point(3)
    assert restore_point([], point(9)) == point(9)
    assert restore_point([], None) is None


@pytest.mark.parametrize(
    ("mode", "full"), [(ClaimMode.NO_CLAIM, True), (ClaimMode.CLAIM, False), (ClaimMode.LEGACY, False)]
)
def test_after_a_start_from_a_snapshot_that_is_not_claimed_the_next_checkpoint_is_full(
    mode: ClaimMode, full: bool
) -> None:
    assert must_be_full([], point(9), mode) is full


@pytest.mark.parametrize("mode", ClaimMode)
def test_once_the_job_has_a_checkpoint_of_its_own_the_next_need_not_be_full(mode: ClaimMode) -> None:
    assert not must_be_full([point(10)], point(9), mode)
    assert not must_be_full([], None, mode)


@pytest.mark.parametrize("mode", ClaimMode)
def test_after_the_savepoint_it_was_to_stop_with_the_next_checkpoint_is_full(mode: ClaimMode) -> None:
    assert must_be_full([point(4), point(5, SnapshotKind.SYNC_SAVEPOINT)], point(1), mode)


# --- what does not match ---------------------------------------------------------------------------------------------


def test_two_operators_cannot_have_one_uid() -> None:
    with pytest.raises(RestoreError, match="two operators have the uid 'x'"):
        plan_restore(snapshot(), [vertex("x", 1), RestoreVertex("w", 1, ("y", "x"))], [])


def test_state_of_an_operator_the_job_does_not_have_is_refused_unless_allowed() -> None:
    old = snapshot(keyed("gone", 1), keyed("a", 1))
    with pytest.raises(RestoreError, match="snapshot 5 has state of 'gone'"):
        plan_restore(old, [vertex("a", 1)], [])
    plan = plan_restore(old, [vertex("a", 1)], [], RestoreOptions(allow_non_restored=True))
    assert plan.left_behind == ("'gone'",)
    assert list(plan.subtasks) == [SubtaskId("a", 0)]


def test_coordinator_state_alone_is_state_too() -> None:
    gone = OperatorState("gone", 1, 128, coordinator=stored("c"))
    with pytest.raises(RestoreError, match="'gone'"):
        plan_restore(snapshot(gone), [], [])
    plan = plan_restore(snapshot(gone), [], [], RestoreOptions(allow_non_restored=True))
    assert plan.coordinators == {}


def test_an_operator_that_left_no_state_may_be_gone() -> None:
    plan = plan_restore(snapshot(operator("gone", SubtaskState(), FINISHED), finished("done")), [], [])
    assert plan.left_behind == ()


def test_new_operators_start_empty() -> None:
    plan = plan_restore(snapshot(), [vertex("new", 2)], [])
    assert plan.subtasks == {SubtaskId("new", 0): {}, SubtaskId("new", 1): {}}
    assert plan.checkpoint_id == 5


def test_hook_state_without_its_hook_is_refused_unless_allowed() -> None:
    old = snapshot(hooks={"a": stored("ha"), "b": stored("hb")})
    with pytest.raises(RestoreError, match="the master hook 'b'"):
        plan_restore(old, [], [], hooks=["a"])
    plan = plan_restore(old, [], [], RestoreOptions(allow_non_restored=True), hooks=["a"])
    assert plan.hooks == {"a": stored("ha")}
    assert plan.left_behind == ("the master hook 'b'",)


def test_coordinator_state_of_an_operator_that_no_longer_has_one_is_refused_unless_allowed() -> None:
    old = snapshot(OperatorState("a", 1, 128, {0: SubtaskState()}, stored("c")))
    with pytest.raises(RestoreError, match="state of the coordinator of 'a', which the job does not have"):
        plan_restore(old, [vertex("a", 1)], [])
    plan = plan_restore(old, [vertex("a", 1)], [], RestoreOptions(allow_non_restored=True))
    assert plan.left_behind == ("the coordinator of 'a'",)


def test_hooks_without_state_get_none() -> None:
    assert plan_restore(snapshot(), [], [], hooks=["new"]).hooks == {"new": None}


def test_operator_coordinators_are_reset_to_their_state() -> None:
    old = snapshot(OperatorState("a", 1, 128, {0: SubtaskState()}, stored("c")), operator("b", SubtaskState()))
    vertices = [RestoreVertex(uid, 1, (uid,), coordinators=(uid,)) for uid in ("a", "b", "new")]
    plan = plan_restore(old, vertices, [])
    assert plan.coordinators == {"a": stored("c"), "b": None, "new": None}


def test_without_a_snapshot_everything_is_reset_to_nothing() -> None:
    plan = plan_fresh_start([RestoreVertex("a", 2, ("a",), coordinators=("a",)), vertex("b", 1)], hooks=["h"])
    assert plan.coordinators == {"a": None}
    assert plan.hooks == {"h": None}
    assert plan.max_parallelism == {"a": 128, "b": 128}
    assert set(plan.subtasks) == {SubtaskId("a", 0), SubtaskId("a", 1), SubtaskId("b", 0)}
    assert plan.finished == frozenset()


# --- max parallelism -------------------------------------------------------------------------------------------------


def max_parallelism_of(snapshot_: Snapshot, restore_vertex: RestoreVertex) -> int:
    return plan_restore(snapshot_, [restore_vertex], []).max_parallelism[restore_vertex.id]


def test_the_stored_maximum_replaces_a_derived_one() -> None:
    assert max_parallelism_of(snapshot(keyed("a", 2, 32)), vertex("a", 3)) == 32
    assert max_parallelism_of(snapshot(keyed("a", 2, 512)), vertex("a", 3)) == 512


def test_a_new_vertex_gets_what_was_set_or_the_default() -> None:
    assert max_parallelism_of(snapshot(), vertex("a", 3, 7)) == 7
    assert max_parallelism_of(snapshot(), vertex("a", 100)) == default_max_parallelism(100)


def test_a_maximum_the_user_set_must_be_the_stored_one() -> None:
    assert max_parallelism_of(snapshot(keyed("a", 2, 64)), vertex("a", 3, 64)) == 64
    with pytest.raises(RestoreError, match=r"maximum parallelism of 128, but its state was written with 64"):
        plan_restore(snapshot(keyed("a", 2, 64)), [vertex("a", 3, 128)], [])


def test_the_parallelism_cannot_exceed_the_stored_maximum() -> None:
    assert max_parallelism_of(snapshot(keyed("a", 2, 4)), vertex("a", 4)) == 4
    with pytest.raises(RestoreError, match="parallelism 5, but its state was written with a maximum of 4"):
        plan_restore(snapshot(keyed("a", 2, 4)), [vertex("a", 5)], [])


def test_operators_with_keyed_state_of_different_maxima_cannot_be_chained() -> None:
    with pytest.raises(RestoreError, match=r"different maximum parallelism \(32, 64\)"):
        plan_restore(snapshot(keyed("a", 1, 64), keyed("b", 1, 32)), [RestoreVertex("v", 1, ("a", "b"))], [])


def test_operators_without_state_bind_nobody() -> None:
    old = snapshot(
        operator("a", SubtaskState(), max_parallelism=64), operator("b", SubtaskState(), max_parallelism=256)
    )
    chained = ("a", "b")
    assert max_parallelism_of(old, RestoreVertex("v", 1, chained)) == 128
    assert max_parallelism_of(old, RestoreVertex("v", 1, chained, max_parallelism=16)) == 16
    assert max_parallelism_of(old, RestoreVertex("v", 300, chained)) == 512


def test_any_state_holds_its_operator_to_the_stored_maximum() -> None:
    old = snapshot(OperatorState("a", 1, 64, {0: SubtaskState()}, stored("c")))
    assert max_parallelism_of(old, RestoreVertex("v", 1, ("a",), None, ("a",))) == 64
    for wrong in (RestoreVertex("v", 1, ("a",), 16, ("a",)), RestoreVertex("v", 65, ("a",), None, ("a",))):
        with pytest.raises(RestoreError, match="written with"):
            max_parallelism_of(old, wrong)


def test_among_chained_operators_only_those_with_keyed_state_say_the_maximum() -> None:
    old = snapshot(operator("a", SubtaskState(), max_parallelism=256), keyed("b", 1, 64))
    assert max_parallelism_of(old, RestoreVertex("v", 1, ("a", "b"))) == 64


# --- finished operators ----------------------------------------------------------------------------------------------


def test_a_fully_finished_vertex_is_deployed_as_finished_and_gets_nothing() -> None:
    plan = plan_restore(snapshot(finished("a"), keyed("b", 2)), [vertex("a", 3), vertex("b", 2)], [edge("a", "b")])
    assert plan.finished == {SubtaskId("a", 0), SubtaskId("a", 1), SubtaskId("a", 2)}
    assert plan.subtasks[SubtaskId("a", 0)] == {}


def test_finished_and_unfinished_operators_cannot_be_chained() -> None:
    chained = [RestoreVertex("v", 2, ("a", "b"))]
    with pytest.raises(RestoreError, match="'v' chains operators that had finished with others"):
        plan_restore(snapshot(finished("a"), operator("b", SubtaskState(), SubtaskState())), chained, [])
    with pytest.raises(RestoreError, match="'v' chains"):
        plan_restore(snapshot(finished("a")), chained, [])
    assert plan_restore(snapshot(finished("a"), finished("b")), chained, []).finished


@pytest.mark.parametrize("partitioning", Partitioning)
def test_what_is_ahead_of_a_finished_vertex_must_have_finished(partitioning: Partitioning) -> None:
    vertices, edges = [vertex("a", 2), vertex("b", 2)], [edge("a", "b", partitioning)]
    for ahead in (
        operator("a", SubtaskState(), SubtaskState()),
        operator("a", FINISHED, SubtaskState()),
    ):
        with pytest.raises(RestoreError, match="'b' had finished, but 'a' ahead of it had not"):
            plan_restore(snapshot(ahead, finished("b")), vertices, edges)
    with pytest.raises(RestoreError, match="'b' had finished"):
        plan_restore(snapshot(finished("b")), vertices, edges)
    assert len(plan_restore(snapshot(finished("a"), finished("b")), vertices, edges).finished) == 4


@pytest.mark.parametrize("partitioning", [HASH, REBALANCE, BROADCAST, GLOBAL])
def test_ahead_of_a_partly_finished_vertex_an_all_to_all_source_must_have_finished(partitioning: Partitioning) -> None:
    vertices, edges = [vertex("a", 2), vertex("b", 2)], [edge("a", "b", partitioning)]
    partly = operator("b", FINISHED, SubtaskState())
    with pytest.raises(RestoreError, match="subtasks of 'b' had finished"):
        plan_restore(snapshot(operator("a", FINISHED, SubtaskState()), partly), vertices, edges)
    plan = plan_restore(snapshot(finished("a"), partly), vertices, edges)
    assert plan.finished == {SubtaskId("a", 0), SubtaskId("a", 1)}


def test_ahead_of_a_partly_finished_vertex_a_pointwise_source_must_be_partly_finished() -> None:
    vertices, edges = [vertex("a", 2), vertex("b", 2)], [edge("a", "b", FORWARD)]
    partly = operator("b", FINISHED, SubtaskState())
    with pytest.raises(RestoreError, match="subtasks of 'b' had finished"):
        plan_restore(snapshot(operator("a", SubtaskState(), SubtaskState()), partly), vertices, edges)
    plan = plan_restore(snapshot(operator("a", FINISHED, SubtaskState()), partly), vertices, edges)
    assert plan.finished == frozenset()
    assert plan_restore(snapshot(finished("a"), partly), vertices, edges).finished


def test_a_partly_finished_pointwise_source_may_have_another_parallelism_now() -> None:
    old = snapshot(operator("a", *[SubtaskState()] * 3, FINISHED), operator("b", *[SubtaskState()] * 3, FINISHED))
    plan = plan_restore(old, [vertex("a", 2), vertex("b", 4)], [edge("a", "b", FORWARD)])
    assert plan.finished == frozenset()


# --- keyed and list state --------------------------------------------------------------------------------------------


def test_at_the_same_parallelism_keyed_parts_stay_as_they_are() -> None:
    plan = plan_restore(snapshot(keyed("a", 2)), [vertex("a", 2)], [])
    (part,) = restored(plan, "a", 1).keyed
    assert part.part.objects == (stored("a-1"),)
    assert part.key_groups == part.part.key_groups == KeyGroupRange(64, 127)


def test_at_another_parallelism_everyone_reads_the_key_groups_that_are_now_its_own() -> None:
    plan = plan_restore(snapshot(keyed("a", 2)), [vertex("a", 3)], [])
    read = [
        [(part.part.objects[0].path, part.key_groups) for part in restored(plan, "a", index).keyed]
        for index in range(3)
    ]
    assert read == [
        [("a-0", KeyGroupRange(0, 42))],
        [("a-0", KeyGroupRange(43, 63)), ("a-1", KeyGroupRange(64, 85))],
        [("a-1", KeyGroupRange(86, 127))],
    ]


def test_a_subtask_that_had_finished_left_no_keyed_state() -> None:
    part = KeyedPart(KeyGroupRange(64, 127), (stored("a-1"),))
    old = snapshot(operator("a", FINISHED, SubtaskState(keyed=(part,))))
    same = plan_restore(old, [vertex("a", 2)], [])
    assert restored(same, "a", 0).keyed == ()
    assert restored(same, "a", 1).keyed == (KeyedRestore(part, part.key_groups),)
    down = plan_restore(old, [vertex("a", 1)], [])
    assert restored(down, "a", 0).keyed == (KeyedRestore(part, part.key_groups),)


def list_names(plan: RestorePlan, parallelism: int) -> list[dict[str, list[tuple[str, int]]]]:
    return [
        {name: elements(assigned) for name, assigned in restored(plan, "a", index).operator.items()}
        for index in range(parallelism)
    ]


def test_split_lists_stay_at_the_same_parallelism_and_are_cut_at_another() -> None:
    old = snapshot(operator("a", *lists(OperatorStateMode.SPLIT, "t", 3, None)))
    same = plan_restore(old, [vertex("a", 2)], [])
    assert list_names(same, 2) == [{"t": [("t-0", 0), ("t-0", 1), ("t-0", 2)]}, {}]
    up = plan_restore(old, [vertex("a", 4)], [])
    assert list_names(up, 4) == [{"t": [("t-0", 0)]}, {"t": [("t-0", 1)]}, {"t": [("t-0", 2)]}, {}]
    down = plan_restore(old, [vertex("a", 1)], [])
    assert list_names(down, 1) == [{"t": [("t-0", 0), ("t-0", 1), ("t-0", 2)]}]


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_union_lists_go_to_everyone_whole(parallelism: int) -> None:
    old = snapshot(operator("a", *lists(OperatorStateMode.UNION, "u", 1, 2)))
    plan = plan_restore(old, [vertex("a", parallelism)], [])
    assert list_names(plan, parallelism) == [{"u": [("u-0", 0), ("u-1", 0), ("u-1", 1)]}] * parallelism


def test_broadcast_lists_are_copied_in_turn_from_those_that_reported() -> None:
    old = snapshot(operator("a", *lists(OperatorStateMode.BROADCAST, "b", None, 1, 1)))
    up = plan_restore(old, [vertex("a", 5)], [])
    assert [names["b"][0][0] for names in list_names(up, 5)] == ["b-1", "b-2", "b-1", "b-2", "b-1"]
    same = plan_restore(old, [vertex("a", 3)], [])
    assert [names["b"][0][0] for names in list_names(same, 3)] == ["b-1", "b-2", "b-1"]


@pytest.mark.parametrize(
    ("old_ms", "same", "other"),
    [
        ((70, 30), [70, 30], 30),
        ((70, None), [70, None], None),
        ((70, MAX_WATERMARK), [70, None], 70),
        ((MAX_WATERMARK, MAX_WATERMARK), [None, None], None),
    ],
    ids=["its own, or the least", "one has none", "one had ended", "all had ended"],
)
def test_a_subtask_keeps_its_watermark(
    old_ms: tuple[int | None, ...], same: list[int | None], other: int | None
) -> None:
    old = snapshot(operator("a", *(SubtaskState(watermark_ms=ms) for ms in old_ms)))
    kept = plan_restore(old, [vertex("a", 2)], [])
    assert [restored(kept, "a", index).watermark_ms for index in range(2)] == same
    for parallelism in (1, 3):
        plan = plan_restore(old, [vertex("a", parallelism)], [])
        assert {restored(plan, "a", index).watermark_ms for index in range(parallelism)} == {other}


def test_a_subtask_that_had_finished_holds_no_watermark_back() -> None:
    old = snapshot(operator("a", FINISHED, SubtaskState(watermark_ms=70)))
    plan = plan_restore(old, [vertex("a", 1)], [])
    assert restored(plan, "a", 0).watermark_ms == 70


def test_lists_of_all_modes_may_live_in_one_operator() -> None:
    parts = tuple(
        OperatorPart(mode.value, mode, 1, stored(mode.value))
        for mode in (OperatorStateMode.SPLIT, OperatorStateMode.UNION, OperatorStateMode.BROADCAST)
    )
    plan = plan_restore(snapshot(operator("a", SubtaskState(operator=parts))), [vertex("a", 2)], [])
    first, second = list_names(plan, 2)
    assert set(first) == {"SPLIT", "UNION", "BROADCAST"}
    assert set(second) == {"UNION", "BROADCAST"}


def test_every_operator_of_a_chain_gets_its_own() -> None:
    old = snapshot(keyed("a", 1), operator("b", *lists(OperatorStateMode.SPLIT, "t", 1)))
    plan = plan_restore(old, [RestoreVertex("v", 1, ("a", "b", "new"))], [])
    assert set(plan.subtasks[SubtaskId("v", 0)]) == {"a", "b"}
    assert plan.subtasks[SubtaskId("v", 0)]["a"].keyed
    assert plan.subtasks[SubtaskId("v", 0)]["b"].operator


# --- in-flight data --------------------------------------------------------------------------------------------------


def channels_of(plan: RestorePlan, uid: str, *, side: str) -> list[list[tuple[int, int, bool, tuple[int, ...]]]]:
    """By subtask: upstream, downstream, filter and targets of what it replays."""
    result = []
    for subtask in sorted(subtask for subtask in plan.subtasks if subtask.vertex == uid):
        mine = plan.subtasks[subtask].get(uid, SubtaskRestore())
        parts = mine.inputs if side == "in" else mine.outputs
        result.append([(part.part.upstream, part.part.downstream, part.filter, part.targets) for part in parts])
    return result


def in_flight(source: int, target: int, *, side: str, partitioning: Partitioning, to: tuple[int, int]) -> RestorePlan:
    """Restore an edge all of whose channels hold data on one side, at another parallelism of source and target."""
    ups, downs = range(source), range(target)
    if side == "in":
        a = operator("a", *[SubtaskState() for _ in ups])
        b = operator("b", *[inputs("a->b", *((up, down) for up in ups)) for down in downs])
    else:
        a = operator("a", *[outputs("a->b", *((up, down) for down in downs)) for up in ups])
        b = operator("b", *[SubtaskState() for _ in downs])
    return plan_restore(snapshot(a, b), [vertex("a", to[0]), vertex("b", to[1])], [edge("a", "b", partitioning)])


@pytest.mark.parametrize("partitioning", Partitioning)
def test_at_the_same_parallelism_everyone_replays_its_own_without_a_filter(partitioning: Partitioning) -> None:
    plan = in_flight(2, 2, side="in", partitioning=partitioning, to=(2, 2))
    assert channels_of(plan, "b", side="in") == [
        [(0, 0, False, ()), (1, 0, False, ())],
        [(0, 1, False, ()), (1, 1, False, ())],
    ]
    if partitioning is not FORWARD:
        plan = in_flight(2, 2, side="out", partitioning=partitioning, to=(2, 2))
        assert channels_of(plan, "a", side="out") == [
            [(0, 0, False, (0,)), (0, 1, False, (1,))],
            [(1, 0, False, (0,)), (1, 1, False, (1,))],
        ]


def test_keyed_input_scaled_up_is_filtered_where_two_replay_it() -> None:
    plan = in_flight(1, 2, side="in", partitioning=HASH, to=(1, 3))
    assert channels_of(plan, "b", side="in") == [
        [(0, 0, True, ())],
        [(0, 0, True, ()), (0, 1, True, ())],
        [(0, 1, True, ())],
    ]


def test_keyed_input_scaled_down_by_a_factor_needs_no_filter() -> None:
    plan = in_flight(1, 4, side="in", partitioning=HASH, to=(1, 2))
    assert channels_of(plan, "b", side="in") == [
        [(0, 0, False, ()), (0, 1, False, ())],
        [(0, 2, False, ()), (0, 3, False, ())],
    ]


def test_keyed_input_scaled_down_unevenly_is_filtered_only_where_it_is_cut() -> None:
    plan = in_flight(1, 3, side="in", partitioning=HASH, to=(1, 2))
    assert channels_of(plan, "b", side="in") == [
        [(0, 0, False, ()), (0, 1, True, ())],
        [(0, 1, True, ()), (0, 2, False, ())],
    ]


def test_keyed_output_says_to_which_targets_it_goes() -> None:
    plan = in_flight(2, 2, side="out", partitioning=HASH, to=(1, 3))
    assert channels_of(plan, "a", side="out") == [
        [(0, 0, True, (0, 1)), (0, 1, True, (1, 2)), (1, 0, True, (0, 1)), (1, 1, True, (1, 2))]
    ]


@pytest.mark.parametrize(("to", "owners"), [(1, [[0, 1, 2]]), (2, [[0, 2], [1]]), (4, [[0], [1], [2], []])])
def test_rebalanced_input_is_dealt_out_in_turn(to: int, owners: list[list[int]]) -> None:
    plan = in_flight(1, 3, side="in", partitioning=REBALANCE, to=(1, to))
    assert [[down for _, down, _, _ in mine] for mine in channels_of(plan, "b", side="in")] == owners
    assert not any(filtered for mine in channels_of(plan, "b", side="in") for _, _, filtered, _ in mine)


def test_global_input_all_goes_to_the_first() -> None:
    plan = in_flight(1, 2, side="in", partitioning=GLOBAL, to=(1, 3))
    assert channels_of(plan, "b", side="in") == [[(0, 0, False, ()), (0, 1, False, ())], [], []]


@pytest.mark.parametrize(("to", "owners"), [(1, [[0, 1, 2]]), (2, [[0, 2], [1]]), (4, [[0], [1], [2], []])])
def test_output_is_dealt_out_in_turn_over_the_senders(to: int, owners: list[list[int]]) -> None:
    plan = in_flight(3, 1, side="out", partitioning=HASH, to=(to, 1))
    assert [[up for up, _, _, _ in mine] for mine in channels_of(plan, "a", side="out")] == owners


@pytest.mark.parametrize("to", [(3, 2), (2, 3)])
def test_in_flight_data_of_broadcast_edges_cannot_be_rescaled(to: tuple[int, int]) -> None:
    with pytest.raises(RestoreError, match="in-flight data of this edge cannot move"):
        in_flight(2, 2, side="in", partitioning=BROADCAST, to=to)


def test_in_flight_data_may_be_left_out_of_exactly_one_checkpoint() -> None:
    old = snapshot(operator("a", outputs("a->b", (0, 0))), operator("b", inputs("a->b", (0, 0))))
    vertices, edges = [vertex("a", 1), vertex("b", 1)], [edge("a", "b")]
    dropped = plan_restore(old, vertices, edges, RestoreOptions(ignore_in_flight_of=5))
    assert channels_of(dropped, "b", side="in") == [[]]
    assert channels_of(dropped, "a", side="out") == [[]]
    kept = plan_restore(old, vertices, edges, RestoreOptions(ignore_in_flight_of=4))
    assert channels_of(kept, "b", side="in") == [[(0, 0, False, ())]]
    assert channels_of(kept, "a", side="out") == [[(0, 0, False, (0,))]]


def test_left_out_in_flight_data_cannot_stand_in_the_way() -> None:
    old = snapshot(operator("a", outputs("gone", (0, 0))))
    assert plan_restore(old, [vertex("a", 2)], [], RestoreOptions(ignore_in_flight_of=5)).checkpoint_id == 5


def test_input_data_may_only_sit_at_the_first_operator_of_a_chain() -> None:
    old = snapshot(operator("a", SubtaskState()), operator("b", inputs("a->b", (0, 0))))
    with pytest.raises(RestoreError, match="in-flight input data of 'b', which is no longer the first"):
        plan_restore(old, [vertex("a", 1), RestoreVertex("w", 1, ("new", "b"))], [edge("a", "w")])


def test_output_data_may_only_sit_at_the_last_operator_of_a_chain() -> None:
    old = snapshot(operator("a", outputs("a->b", (0, 0))), operator("b", SubtaskState()))
    with pytest.raises(RestoreError, match="in-flight output data of 'a', which is no longer the last"):
        plan_restore(old, [RestoreVertex("v", 1, ("a", "new")), vertex("b", 1)], [edge("v", "b")])


def test_in_flight_data_of_an_edge_the_job_does_not_have_is_refused() -> None:
    old = snapshot(operator("a", outputs("a->b", (0, 0))), operator("b", inputs("a->b", (0, 0))))
    vertices = [vertex("a", 1), vertex("b", 1)]
    with pytest.raises(RestoreError, match="in-flight data of the edge 'a->b', which the job does not have"):
        plan_restore(old, vertices, [])
    turned = RestoreEdge("a->b", "b", "a", HASH)
    with pytest.raises(RestoreError, match="the edge 'a->b'"):
        plan_restore(old, vertices, [turned])


def test_in_flight_data_keeps_keyed_and_list_state_beside_it() -> None:
    part = KeyedPart(KeyGroupRange(0, 127), (stored("k"),))
    both = SubtaskState(keyed=(part,), inputs=(channel("a->b", 0, 0, "in"),), outputs=(channel("b->c", 0, 0, "out"),))
    old = snapshot(operator("a", SubtaskState()), operator("b", both), operator("c", SubtaskState()))
    plan = plan_restore(
        old, [vertex("a", 1), vertex("b", 1), vertex("c", 1)], [edge("a", "b"), edge("b", "c", REBALANCE)]
    )
    assert restored(plan, "b", 0) == SubtaskRestore(
        keyed=(KeyedRestore(part, part.key_groups),),
        inputs=(ChannelRestore(channel("a->b", 0, 0, "in"), filter=False),),
        outputs=(ChannelRestore(channel("b->c", 0, 0, "out"), filter=False, targets=(0,)),),
    )


def test_the_old_parallelism_of_an_edge_is_that_of_the_operators_next_to_it() -> None:
    """A chain may be made of operators that had different parallelisms; none of the data may be forgotten."""
    ahead = operator("head", SubtaskState())
    last = operator("tail", *[outputs("v->w", (up, 0)) for up in range(3)])
    first = operator("first", inputs("v->w", *((up, 0) for up in range(3))))
    behind = operator("behind", *[SubtaskState()] * 4)
    vertices = [RestoreVertex("v", 1, ("head", "tail")), RestoreVertex("w", 2, ("first", "behind"))]
    plan = plan_restore(snapshot(ahead, last, first, behind), vertices, [edge("v", "w", REBALANCE)])
    assert [part.part.upstream for part in plan.subtasks[SubtaskId("v", 0)]["tail"].outputs] == [0, 1, 2]
    assert [part.part.upstream for part in plan.subtasks[SubtaskId("w", 0)]["first"].inputs] == [0, 1, 2]
