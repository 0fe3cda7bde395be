"""Who replays in-flight data where an edge has changed; `test_restore_plan.py` has the edges that are as before."""

from __future__ import annotations

import pytest

from snapline.protocol.restore.channel_replay import Replay, replays
from snapline.protocol.restore.restore_plan import RestoreEdge, RestoreVertex
from snapline.protocol.snapshot import ChannelPart, OperatorState, Snapshot, StoredObject, SubtaskState
from snapline.types import Partitioning, SnapshotKind


def channel(up: int, down: int, side: str) -> ChannelPart:
    return ChannelPart("a->b", up, down, StoredObject(f"{up}-{down}-{side}", 1))


def rebalanced(ups: int, downs: int) -> Snapshot:
    """An edge from `a` to `b` with data on both sides of every channel."""
    a = {up: SubtaskState(outputs=tuple(channel(up, down, "out") for down in range(downs))) for up in range(ups)}
    b = {down: SubtaskState(inputs=tuple(channel(up, down, "in") for up in range(ups))) for down in range(downs)}
    operators = {"a": OperatorState("a", ups, 128, a), "b": OperatorState("b", downs, 128, b)}
    return Snapshot(5, SnapshotKind.CHECKPOINT, 1, 0, "chk-5", operators)


def taken(made: list[Replay], subtasks: int) -> list[list[int]]:
    """By subtask the old downstream subtasks whose data it replays."""
    return [
        sorted({replay.part.downstream for replay in made if replay.subtask.index == index})
        for index in range(subtasks)
    ]


BEFORE = pytest.mark.parametrize(
    ("before", "owners"),
    [((2, 3), [[0], [1], [2]]), ((1, 2), [[0], [1], []]), ((4, 4), [[0, 3], [1], [2]])],
)


@BEFORE
def test_an_edge_that_became_a_forward_one_leads_to_its_namesake_alone(
    before: tuple[int, int], owners: list[list[int]]
) -> None:
    vertices = [RestoreVertex("a", 3, ("a",)), RestoreVertex("b", 3, ("b",))]
    edges = [RestoreEdge("a->b", "a", "b", Partitioning.FORWARD)]
    made = list(replays(rebalanced(*before), vertices, edges, {"a": 128, "b": 128}))
    assert not any(replay.filter for replay in made)
    sent = [replay for replay in made if replay.targets]
    for part, uid in ((sent, "a"), ([replay for replay in made if not replay.targets], "b")):
        assert {(replay.subtask.vertex, replay.uid) for replay in part} == {(uid, uid)}
        assert taken(part, 3) == owners
        assert len(part) == before[0] * before[1], "each channel once"
    assert all(replay.targets == (replay.subtask.index,) for replay in sent)


@BEFORE
def test_an_edge_inside_a_chain_is_input_of_the_operator_behind_it(
    before: tuple[int, int], owners: list[list[int]]
) -> None:
    chain = RestoreVertex("a", 3, ("a", "b", "c"), links=("a->b", "b->c"))
    made = list(replays(rebalanced(*before), [chain], [], {"a": 128}))
    assert {(replay.subtask.vertex, replay.uid, replay.filter, replay.targets) for replay in made} == {
        ("a", "b", False, ())
    }
    assert taken(made, 3) == owners
    assert len({replay.part.object.path for replay in made}) == len(made) == 2 * before[0] * before[1], "each side once"
