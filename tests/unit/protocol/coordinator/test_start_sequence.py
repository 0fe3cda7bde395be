"""The start of a checkpoint, step by step. What the coordinator makes of it is tested with the coordinator."""

from __future__ import annotations

import pytest

from snapline.config import Checkpoints
from snapline.protocol.coordinator import coordinator_events as c
from snapline.protocol.coordinator.checkpoint_plan import CheckpointPlan, Edge
from snapline.protocol.coordinator.operator_events import OperatorEvents
from snapline.protocol.coordinator.pending_checkpoint import PendingCheckpoint, PendingPhase
from snapline.protocol.coordinator.request_decider import TriggerRequest
from snapline.protocol.coordinator.start_sequence import StartSequence
from snapline.protocol.coordinator.task_board import JobShape
from snapline.protocol.executions import Executions
from snapline.protocol.messages import OperatorEvent, TriggerCheckpoint
from snapline.protocol.snapshot import StoredObject, VertexInfo
from snapline.protocol.statistics.checkpoint_statistics import CheckpointStatistics
from snapline.types import CheckpointScope, SavepointFormat, SnapshotKind, SubtaskId

READ, WRITE = SubtaskId("read", 0), SubtaskId("write", 0)
PLAN = CheckpointPlan(trigger=(READ,), wait=(READ, WRITE), commit=(READ, WRITE))
STATE = StoredObject("state", 1)


def request(
    kind: SnapshotKind = SnapshotKind.CHECKPOINT, scope: CheckpointScope = CheckpointScope.CONFIGURED
) -> TriggerRequest:
    return TriggerRequest("r", kind, False, False, 0, scope=scope)


class Bench:
    def __init__(self, *, coordinator: bool = False, hook: bool = False, incremental: bool = True) -> None:
        self.config = Checkpoints(incremental=incremental)
        vertices = (
            VertexInfo("read", 1, 128, ("read",), ("read",) if coordinator else ()),
            VertexInfo("write", 1, 128, ("write",)),
        )
        self.events = OperatorEvents(Executions(3), {"read": vertices[0]} if coordinator else {})
        self.statistics = CheckpointStatistics()
        self.pending: dict[int, PendingCheckpoint] = {}
        self.effects: list[c.CoordinatorEffect] = []
        self.sequence = StartSequence(
            Executions(3),
            self.config,
            JobShape(vertices, (Edge("read", "write", False),), ("hook",) if hook else ()),
            self.statistics,
            self.events,
            self.pending,
            self.effects,
            full_until_complete=False,
        )

    def orders(self) -> list[c.CoordinatorEffect]:
        taken = list(self.effects)
        self.effects.clear()
        return taken

    def located(
        self, wanted: TriggerRequest, checkpoint_id: int = 7, *, is_inline: bool = False
    ) -> PendingCheckpoint | None:
        self.sequence.begin(wanted, PLAN)
        self.sequence.id_reserved(wanted.name, checkpoint_id, 1_000, 5_000)
        self.orders()
        return self.sequence.location_created(checkpoint_id, "chk", is_inline)


def test_each_step_waits_for_the_one_before() -> None:
    bench = Bench(coordinator=True, hook=True)
    sequence = bench.sequence
    sequence.begin(request(), PLAN)
    assert bench.orders() == [c.ReserveId("r")]
    sequence.id_reserved("r", 7, 1_000, 5_000)
    assert bench.orders() == [c.CreateLocation(7, request())]
    assert bench.pending[7].timestamp_ms == 5_000, "the wall clock"
    assert sequence.location_created(7, "chk", False) is None
    assert bench.orders() == [c.SnapshotOperatorCoordinator(7, "read")]
    assert sequence.coordinator_snapshotted(7, "read", STATE) is None
    assert bench.orders() == [c.SnapshotHook(7, "hook")]
    assert sequence.is_busy
    started = sequence.hook_snapshotted(7, "hook", None)
    assert started is bench.pending[7]
    assert started.phase is PendingPhase.COLLECTING
    (trigger,) = bench.orders()
    assert isinstance(trigger, TriggerCheckpoint)
    assert (trigger.execution.subtask, trigger.barrier.id, trigger.barrier.location) == (READ, 7, "chk")
    assert not sequence.is_busy


def test_operator_events_sent_before_the_snapshot_arrive_before_the_barrier() -> None:
    bench = Bench(coordinator=True)
    bench.events.started(SubtaskId("read", 0))
    (order,) = bench.events.send("read", 0, "split")
    assert isinstance(order, OperatorEvent)
    bench.located(request())
    assert bench.sequence.coordinator_snapshotted(7, "read", STATE) is None
    assert bench.sequence.event_confirmed(order.sequence + 1) is None
    assert bench.sequence.event_confirmed(order.sequence) is bench.pending[7]


def test_an_answer_to_another_request_is_ignored() -> None:
    bench = Bench()
    bench.sequence.begin(request(), PLAN)
    bench.sequence.id_reserved("other", 7, 1_000, 5_000)
    assert (bench.pending, bench.sequence.is_reserving("r"), bench.sequence.is_reserving("other")) == ({}, True, False)


def test_a_request_without_an_id_is_handed_back_when_the_start_is_dropped() -> None:
    bench = Bench()
    bench.sequence.begin(request(), PLAN)
    assert bench.sequence.drop() == request()
    assert bench.sequence.drop() is None
    bench.sequence.begin(request(), PLAN)
    bench.sequence.id_reserved("r", 7, 1_000, 5_000)
    assert bench.sequence.drop() is None
    assert not bench.sequence.is_busy


def test_the_abort_of_another_checkpoint_does_not_end_the_start() -> None:
    bench = Bench(coordinator=True)
    bench.located(request())
    bench.sequence.aborted(6)
    assert bench.sequence.is_busy
    bench.sequence.aborted(7)
    assert not bench.sequence.is_busy


def test_what_comes_after_an_abort_is_discarded() -> None:
    bench = Bench()
    assert bench.sequence.location_created(7, "chk", False) is None
    assert bench.sequence.coordinator_snapshotted(7, "read", STATE) is None
    assert bench.sequence.hook_snapshotted(7, "hook", STATE) is None
    assert bench.orders() == [c.Discard(7, (), "chk"), c.Discard(7, (STATE,))]


@pytest.mark.parametrize(
    ("kind", "scope", "incremental", "after_restore", "full"),
    [
        (SnapshotKind.CHECKPOINT, CheckpointScope.CONFIGURED, True, False, False),
        (SnapshotKind.CHECKPOINT, CheckpointScope.CONFIGURED, False, False, True),
        (SnapshotKind.CHECKPOINT, CheckpointScope.INCREMENTAL, False, False, False),
        (SnapshotKind.CHECKPOINT, CheckpointScope.FULL, True, False, True),
        (SnapshotKind.CHECKPOINT, CheckpointScope.INCREMENTAL, True, True, True),
        (SnapshotKind.SAVEPOINT, CheckpointScope.CONFIGURED, True, False, True),
    ],
)
def test_when_nothing_older_may_be_reused(
    kind: SnapshotKind, scope: CheckpointScope, incremental: bool, after_restore: bool, full: bool
) -> None:
    bench = Bench(incremental=incremental)
    bench.sequence.full_until_complete = after_restore
    assert bench.located(request(kind, scope)) is not None
    (trigger,) = bench.orders()
    assert isinstance(trigger, TriggerCheckpoint)
    assert trigger.barrier.full is full


def test_the_barrier_names_the_place_unless_tasks_send_their_objects_along() -> None:
    locations: list[str | None] = []
    for is_inline in (False, True):
        bench = Bench()
        started = bench.located(request(), is_inline=is_inline)
        assert started is not None
        assert started.location == "chk"
        (trigger,) = bench.orders()
        assert isinstance(trigger, TriggerCheckpoint)
        locations.append(trigger.barrier.location)
    assert locations == ["chk", None]


def test_only_the_barrier_of_a_savepoint_names_a_format() -> None:
    formats: list[SavepointFormat | None] = []
    for kind in (SnapshotKind.CHECKPOINT, SnapshotKind.SAVEPOINT):
        bench = Bench()
        bench.located(TriggerRequest("r", kind, False, False, 0, format=SavepointFormat.NATIVE))
        (trigger,) = bench.orders()
        assert isinstance(trigger, TriggerCheckpoint)
        formats.append(trigger.barrier.format)
    assert formats == [None, SavepointFormat.NATIVE]
