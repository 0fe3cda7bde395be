"""A checkpoint on its way: who has acknowledged, the snapshot that comes of it, and the union-state rule."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from snapline.errors import IllegalTransitionError
from snapline.protocol.coordinator.checkpoint_plan import CheckpointPlan
from snapline.protocol.coordinator.coordinator_events import AckResult
from snapline.protocol.coordinator.pending_checkpoint import PENDING, PendingCheckpoint, PendingPhase
from snapline.protocol.coordinator.request_decider import TriggerRequest
from snapline.protocol.lineage import Lineage
from snapline.protocol.snapshot import OperatorPart, StoredObject, SubtaskState, VertexInfo
from snapline.types import OperatorStateMode, SavepointFormat, SnapshotKind, SubtaskId

SOURCE = VertexInfo("source", 2, 128, ("read", "parse"))
MAP = VertexInfo("map", 2, 64, ("map",))
LINEAGE = Lineage("job.1")
VERTICES = (SOURCE, MAP)


def subtasks(*names: str) -> tuple[SubtaskId, ...]:
    return tuple(SubtaskId(vertex, int(index)) for vertex, index in (name.split("/") for name in names))


EVERYONE = subtasks("source/0", "source/1", "map/0", "map/1")


def state(path: str, *, ended: bool = False) -> SubtaskState:
    part = OperatorPart("list", OperatorStateMode.SPLIT, 1, StoredObject(path, 1))
    return SubtaskState(operator=(part,), ended=ended)


def pending(
    wait: tuple[SubtaskId, ...] = EVERYONE,
    *,
    finished_vertices: tuple[str, ...] = (),
    finished: tuple[SubtaskId, ...] = (),
    coordinators: tuple[str, ...] = (),
    hooks: tuple[str, ...] = (),
    kind: SnapshotKind = SnapshotKind.CHECKPOINT,
) -> PendingCheckpoint:
    savepoint_format = SavepointFormat.NATIVE if kind.is_savepoint else None
    request = TriggerRequest("r", kind, False, False, 0, format=savepoint_format)
    plan = CheckpointPlan(wait[:1], wait, wait, finished_vertices, finished)
    made = PendingCheckpoint(5, request, plan, timestamp_ms=77, coordinators=coordinators, hooks=hooks)
    made.location = "chk-5"
    return made


@pytest.mark.parametrize("last", ["task", "coordinator", "hook", "event"])
def test_it_is_fully_acknowledged_with_whatever_comes_last(last: str) -> None:
    checkpoint = pending(subtasks("source/0"), coordinators=("read",), hooks=("hook",))
    checkpoint.unconfirmed_events.add(3)
    steps: dict[str, Callable[[], object]] = {
        "task": lambda: checkpoint.acknowledge(SubtaskId("source", 0), {}),
        "coordinator": lambda: checkpoint.acknowledge_coordinator("read", StoredObject("c", 1)),
        "hook": lambda: checkpoint.acknowledge_hook("hook", None),
        "event": lambda: checkpoint.unconfirmed_events.discard(3),
    }
    for name, step in steps.items():
        if name != last:
            step()
    assert not checkpoint.is_fully_acknowledged
    assert checkpoint.coordinators_done is (last not in ("coordinator", "event"))
    assert checkpoint.hooks_done is (last != "hook")
    steps[last]()
    assert checkpoint.is_fully_acknowledged


def test_coordinators_are_not_done_while_their_events_may_be_on_the_way() -> None:
    checkpoint = pending(coordinators=("read",))
    checkpoint.acknowledge_coordinator("read", StoredObject("c", 1))
    checkpoint.unconfirmed_events.add(3)
    assert not checkpoint.coordinators_done


def test_a_task_acknowledges_once_and_only_if_it_is_waited_for() -> None:
    checkpoint = pending(subtasks("source/0", "source/1"))
    source = SubtaskId("source", 0)
    assert checkpoint.acknowledge(source, {"read": state("first")}) is AckResult.SUCCESS
    assert checkpoint.acknowledge(source, {"read": state("second")}) is AckResult.DUPLICATE
    assert checkpoint.acknowledge(SubtaskId("map", 0), {"map": state("third")}) is AckResult.UNKNOWN
    assert [item.path for item in checkpoint.objects()] == ["first"]


def test_coordinators_and_hooks_answer_once_and_only_if_asked() -> None:
    checkpoint = pending(coordinators=("read",), hooks=("hook",))
    assert checkpoint.acknowledge_coordinator("read", StoredObject("c1", 1))
    assert not checkpoint.acknowledge_coordinator("read", StoredObject("c2", 1))
    assert not checkpoint.acknowledge_coordinator("map", StoredObject("c3", 1))
    assert checkpoint.acknowledge_hook("hook", StoredObject("h1", 1))
    assert not checkpoint.acknowledge_hook("hook", StoredObject("h2", 1))
    assert not checkpoint.acknowledge_hook("other", None)
    assert [item.path for item in checkpoint.objects()] == ["c1", "h1"]


def test_the_snapshot_has_an_entry_for_every_operator_of_every_vertex() -> None:
    checkpoint = pending(coordinators=("read",), hooks=("hook", "stateless"))
    checkpoint.acknowledge_coordinator("read", StoredObject("c", 1))
    checkpoint.acknowledge_hook("hook", StoredObject("h", 1))
    checkpoint.acknowledge_hook("stateless", None)
    for index, subtask in enumerate(EVERYONE):
        uid = "read" if subtask.vertex == "source" else "map"
        checkpoint.acknowledge(subtask, {uid: state(f"s{index}")})
    snapshot = checkpoint.to_snapshot(VERTICES, 3, {}, LINEAGE)
    assert (snapshot.id, snapshot.kind, snapshot.attempt, snapshot.timestamp_ms, snapshot.location) == (
        5,
        SnapshotKind.CHECKPOINT,
        3,
        77,
        "chk-5",
    )
    assert snapshot.hooks == {"hook": StoredObject("h", 1)}
    assert snapshot.format is None
    assert list(snapshot.operators) == ["read", "parse", "map"]
    read, parse, mapped = snapshot.operators.values()
    assert (read.parallelism, read.max_parallelism) == (2, 128)
    assert (mapped.parallelism, mapped.max_parallelism) == (2, 64)
    assert read.coordinator == StoredObject("c", 1)
    assert mapped.coordinator is None
    assert read.subtasks == {0: state("s0"), 1: state("s1")}
    assert parse.subtasks == {0: SubtaskState(), 1: SubtaskState()}
    assert mapped.subtasks == {0: state("s2"), 1: state("s3")}
    assert not any(operator.fully_finished or operator.is_partly_finished for operator in snapshot.operators.values())


def test_a_savepoint_says_its_format() -> None:
    snapshot = pending((), kind=SnapshotKind.SAVEPOINT).to_snapshot((), 1, {}, LINEAGE)
    assert (snapshot.kind, snapshot.format) == (SnapshotKind.SAVEPOINT, SavepointFormat.NATIVE)


def test_a_fully_finished_vertex_is_marked_as_a_whole() -> None:
    checkpoint = pending(
        subtasks("map/0", "map/1"),
        finished_vertices=("source",),
        finished=subtasks("source/0", "source/1"),
        coordinators=("read",),
    )
    checkpoint.acknowledge_coordinator("read", StoredObject("c", 1))
    for subtask in subtasks("map/0", "map/1"):
        checkpoint.acknowledge(subtask, {"map": SubtaskState()})
    snapshot = checkpoint.to_snapshot(VERTICES, 1, {}, LINEAGE)
    for uid in ("read", "parse"):
        assert snapshot.operators[uid].fully_finished
        assert snapshot.operators[uid].subtasks == {}
    assert snapshot.operators["read"].coordinator == StoredObject("c", 1)
    assert not snapshot.operators["map"].fully_finished


def test_finished_subtasks_of_a_running_vertex_are_marked_one_by_one() -> None:
    wait = subtasks("source/1", "map/0", "map/1")
    checkpoint = pending(wait, finished=subtasks("source/0"))
    checkpoint.acknowledge(SubtaskId("source", 1), {"read": state("s1")})
    for uid in ("read", "parse"):
        operator = checkpoint.to_snapshot(VERTICES, 1, {}, LINEAGE).operators[uid]
        assert operator.is_partly_finished
        assert operator.subtasks[0] == SubtaskState(finished=True)
        assert not operator.subtasks[1].finished


# --- union list state ------------------------------------------------------------------------------------------------


def broken(*map_states: SubtaskState | None, finished_vertices: tuple[str, ...] = ()) -> str | None:
    """What the rule says when the subtasks of `map` report this; None for one that had finished before."""
    wait = tuple(SubtaskId("map", index) for index, reported in enumerate(map_states) if reported is not None)
    finished = tuple(SubtaskId("map", index) for index, reported in enumerate(map_states) if reported is None)
    checkpoint = pending(wait, finished_vertices=finished_vertices, finished=finished)
    for index, reported in enumerate(map_states):
        if reported is not None:
            checkpoint.acknowledge(SubtaskId("map", index), {"map": reported})
    return checkpoint.breaks_union_state([MAP])


UNION = (OperatorPart("all", OperatorStateMode.UNION, 0, StoredObject("u", 1)),)
RUNNING, ENDED = SubtaskState(operator=UNION), SubtaskState(operator=UNION, ended=True)


def test_union_state_is_whole_while_all_run_or_all_have_reported_their_end() -> None:
    assert broken(RUNNING, RUNNING) is None
    assert broken(ENDED, ENDED) is None


def test_union_state_is_broken_when_only_some_are_past_their_end() -> None:
    assert broken(ENDED, RUNNING) == "map"
    assert broken(RUNNING, ENDED) == "map"


def test_one_subtask_that_declares_it_is_enough() -> None:
    assert broken(SubtaskState(ended=True), RUNNING) == "map"
    assert broken(ENDED, SubtaskState()) == "map"


def test_union_state_is_broken_when_only_some_have_finished() -> None:
    assert broken(None, RUNNING) == "map"
    assert broken(None, ENDED) == "map"


def test_a_fully_finished_vertex_has_no_union_state_to_break() -> None:
    assert broken(None, None, finished_vertices=("map",)) is None


def test_vertices_without_union_state_may_be_partly_finished() -> None:
    checkpoint = pending(subtasks("source/1"), finished=subtasks("source/0"))
    checkpoint.acknowledge(SubtaskId("source", 1), {"read": state("x", ended=True)})
    assert checkpoint.breaks_union_state([SOURCE]) is None


# --- phases ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", PendingPhase)
def test_only_its_own_metadata_can_fail_a_final_checkpoint(phase: PendingPhase) -> None:
    checkpoint = pending()
    checkpoint.phase = phase
    assert checkpoint.is_final is (phase in (PendingPhase.WRITING_METADATA, PendingPhase.PUBLISHING))


def test_a_step_that_is_not_in_the_table_changes_nothing() -> None:
    checkpoint = pending()
    with pytest.raises(IllegalTransitionError):
        checkpoint.step("published")
    assert checkpoint.phase is PendingPhase.LOCATING


def test_a_checkpoint_may_be_aborted_in_every_phase_but_the_last_ones() -> None:
    abortable = {row.source for row in PENDING.rows if row.target is PendingPhase.ABORTED}
    assert abortable == set(PendingPhase) - PENDING.final_states
    assert PENDING.final_states == {PendingPhase.COMPLETED, PendingPhase.ABORTED}


def test_it_says_what_its_next_step_waits_for() -> None:
    many = tuple(SubtaskId("map", index) for index in range(9))
    checkpoint = pending(many, coordinators=("read",), hooks=("h1", "h2"))
    said = [checkpoint.waits_for]
    for cause in ("location created", "coordinators snapshotted", "hooks snapshotted"):
        checkpoint.step(cause)
        said.append(checkpoint.waits_for)
    checkpoint.acknowledge(many[0], {})
    said.append(checkpoint.waits_for)
    for cause in ("fully acknowledged", "metadata written"):
        checkpoint.step(cause)
        said.append(checkpoint.waits_for)
    assert said == [
        "its directory",
        "operator coordinators: read",
        "master hooks: h1, h2",
        "9 of 9 subtasks: map/0, map/1, map/2, map/3, map/4, …",
        "8 of 9 subtasks: map/1, map/2, map/3, map/4, map/5, …",
        "its metadata to be written",
        "its record in the journal",
    ]


def test_it_may_wait_for_events_of_its_coordinators() -> None:
    checkpoint = pending(coordinators=("read",))
    checkpoint.step("location created")
    checkpoint.acknowledge_coordinator("read", StoredObject("c", 1))
    checkpoint.unconfirmed_events.add(3)
    assert checkpoint.waits_for == "operator coordinators: events that are not confirmed"
