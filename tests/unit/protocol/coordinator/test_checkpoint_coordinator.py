"""The checkpoint coordinator: the start sequence, acknowledgements, completion, failure, savepoints and events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from snapline.config import Checkpoints
from snapline.errors import IllegalTransitionError
from snapline.protocol.coordinator.activity import Activity
from snapline.protocol.coordinator.attempt_tasks import AttemptTasks
from snapline.protocol.coordinator.carryover import Carryover
from snapline.protocol.coordinator.checkpoint_coordinator import CheckpointCoordinator
from snapline.protocol.coordinator.checkpoint_plan import Edge
from snapline.protocol.coordinator.coordinator_events import (
    BacklogReported,
    CancelTimer,
    CheckpointRequested,
    Cleaned,
    CompleteRequest,
    CoordinatorEffect,
    CoordinatorEvent,
    CreateLocation,
    DeleteShared,
    DeleteSnapshot,
    DeliverEvent,
    Discard,
    FailJob,
    FailRequest,
    FinalizeFailed,
    HeartbeatDue,
    HookSnapshotted,
    IdReserved,
    JobLeftRunning,
    JobRunning,
    LocationCreated,
    MetadataWritten,
    NotifyCoordinatorsAborted,
    NotifyCoordinatorsCompleted,
    OperatorCoordinatorSnapshotted,
    OperatorEventLost,
    OperatorEventSent,
    Publish,
    Published,
    ReserveId,
    SetTimer,
    SnapshotHook,
    SnapshotOperatorCoordinator,
    StepFailed,
    TaskStatusChanged,
    Timer,
    TimerFired,
    TimerKind,
    WriteMetadata,
)
from snapline.protocol.coordinator.coordinator_state import InFlightEvent, parted
from snapline.protocol.coordinator.request_decider import TriggerRequest, savepoint_request
from snapline.protocol.coordinator.task_board import JobShape
from snapline.protocol.keygroups import KeyGroupRange
from snapline.protocol.messages import (
    Acknowledge,
    CheckpointAborted,
    CheckpointCompleted,
    CheckpointMeasured,
    Decline,
    EventToCoordinator,
    OperatorEvent,
    OperatorEventReceived,
    TriggerCheckpoint,
)
from snapline.protocol.retention.retained_snapshots import RetainedSnapshots
from snapline.protocol.snapshot import KeyedPart, OperatorPart, Snapshot, StoredObject, SubtaskState, VertexInfo
from snapline.protocol.statistics.checkpoint_records import (
    CheckpointStatus,
    CheckpointType,
    StatisticsSnapshot,
    SubtaskMetrics,
)
from snapline.types import (
    NO_CHECKPOINT,
    Barrier,
    BarrierKind,
    CheckpointScope,
    ClaimMode,
    ExecutionId,
    FailureReason,
    OperatorStateMode,
    SavepointFormat,
    SnapshotKind,
    SubtaskId,
    TaskStatus,
)

ATTEMPT = 3
READ0, READ1, WRITE = SubtaskId("read", 0), SubtaskId("read", 1), SubtaskId("write", 0)
EVERYONE = (READ0, READ1, WRITE)
PERIODIC = Timer(TimerKind.PERIODIC)
CHECKPOINT, SAVEPOINT, STOP = SnapshotKind.CHECKPOINT, SnapshotKind.SAVEPOINT, SnapshotKind.SYNC_SAVEPOINT
F = TypeVar("F")


def shape(*, coordinators: tuple[str, ...] = (), hooks: tuple[str, ...] = (), pointwise: bool = False) -> JobShape:
    """A source vertex with two subtasks and a sink with one."""
    vertices = (VertexInfo("read", 2, 128, ("read",), coordinators), VertexInfo("write", 1, 128, ("write",)))
    return JobShape(vertices, (Edge("read", "write", pointwise),), hooks)


def running(subtask: SubtaskId, attempt: int = ATTEMPT) -> ExecutionId:
    return ExecutionId(subtask, attempt)


def own(path: str) -> SubtaskState:
    """State in one object that belongs to one checkpoint only."""
    return SubtaskState(operator=(OperatorPart("list", OperatorStateMode.SPLIT, 1, StoredObject(path, 1)),))


def shared(name: str) -> StoredObject:
    return StoredObject(f"shared/{name}", 1, shared_key=name)


def sharing(*names: str) -> SubtaskState:
    return SubtaskState(keyed=(KeyedPart(KeyGroupRange(0, 127), tuple(map(shared, names))),))


def timeout(name: str) -> Timer:
    return Timer(TimerKind.TIMEOUT, name)


def of(kind: type[F], effects: Iterable[CoordinatorEffect]) -> list[F]:
    return [effect for effect in effects if isinstance(effect, kind)]


class Bench:
    """A coordinator, its carryover and a clock. `tell` takes facts in turn and returns all that was ordered.

    `timeouts_ms` says when requests time out; the orders about those timers are left out elsewhere.
    """

    def __init__(
        self,
        job: JobShape | None = None,
        *,
        retained: RetainedSnapshots | None = None,
        carryover: Carryover | None = None,
        finished: Iterable[SubtaskId] = (),
        full: bool = False,
        run: bool = True,
        **settings: Any,
    ) -> None:
        self.now_ms = 1000
        self.wall_ahead_ms = 0
        self.timeouts_ms: dict[str, int] = {}
        self.config = Checkpoints(**{"incremental": True, **settings})
        self.carryover = carryover if carryover is not None else Carryover.fresh(self.config)
        job = job if job is not None else shape()
        self.machine = CheckpointCoordinator(
            ATTEMPT,
            self.config,
            job,
            self.carryover,
            retained if retained is not None else RetainedSnapshots(self.config.retained),
            full_until_complete=full,
            tasks=AttemptTasks(ATTEMPT, job, allow_finished=self.config.after_tasks_finish, finished=finished),
        )
        if run:
            for subtask in EVERYONE:
                if subtask not in set(finished):
                    self.status(subtask, TaskStatus.RUNNING)
            self.tell(JobRunning(0.0))

    def tell(self, *events: CoordinatorEvent) -> list[CoordinatorEffect]:
        effects: list[CoordinatorEffect] = []
        for event in events:
            effects += self.machine.handle(event, self.now_ms, self.now_ms + self.wall_ahead_ms)
        return [effect for effect in effects if not self._is_about_timeouts(effect)]

    def _is_about_timeouts(self, effect: CoordinatorEffect) -> bool:
        match effect:
            case SetTimer(Timer(TimerKind.TIMEOUT, name), at_ms):
                self.timeouts_ms[name] = at_ms
            case CancelTimer(Timer(TimerKind.TIMEOUT, name)):
                self.timeouts_ms.pop(name, None)
            case _:
                return False
        return True

    def pending(self) -> tuple[int, ...]:
        history = reversed(self.statistics().history)
        return tuple(record.id for record in history if record.status is CheckpointStatus.IN_PROGRESS)

    def activity(self) -> Activity:
        return self.machine.activity

    def statistics(self) -> StatisticsSnapshot:
        return self.carryover.statistics.snapshot()

    def status(self, subtask: SubtaskId, status: TaskStatus) -> None:
        assert self.tell(TaskStatusChanged(subtask, status)) == []

    def request(self, name: str = "r", kind: SnapshotKind = CHECKPOINT, **fields: Any) -> TriggerRequest:
        if kind.is_savepoint and not fields:
            return savepoint_request(name, self.config, self.now_ms, target="target", stop=kind.is_synchronous)
        return TriggerRequest(name, kind, fields.pop("forced", False), False, self.now_ms, **fields)

    def ask(self, name: str = "r", kind: SnapshotKind = CHECKPOINT, **fields: Any) -> list[CoordinatorEffect]:
        return self.tell(CheckpointRequested(self.request(name, kind, **fields)))

    def start(self, checkpoint_id: int, name: str = "r", kind: SnapshotKind = CHECKPOINT, **fields: Any) -> None:
        """Ask, and go on to the triggering of tasks; for jobs without operator coordinators and hooks."""
        assert ReserveId(name) in self.ask(name, kind, **fields)
        self.go_on(checkpoint_id, name)

    def go_on(self, checkpoint_id: int, name: str) -> list[CoordinatorEffect]:
        """From the order to reserve an id to the triggering of tasks."""
        self.tell(IdReserved(name, checkpoint_id))
        effects = self.tell(LocationCreated(checkpoint_id, f"chk-{checkpoint_id}"))
        assert of(TriggerCheckpoint, effects)
        return effects

    def acknowledge(
        self, checkpoint_id: int, *subtasks: SubtaskId, state: SubtaskState | None = None, attempt: int = ATTEMPT
    ) -> list[CoordinatorEffect]:
        effects: list[CoordinatorEffect] = []
        for subtask in subtasks:
            part = state if state is not None else own(f"{subtask}-{checkpoint_id}")
            parts: Mapping[str, SubtaskState] = {subtask.vertex: part}
            metrics = SubtaskMetrics(checkpointed_bytes=10, state_bytes=20)
            effects += self.tell(
                Acknowledge(running(subtask, attempt), checkpoint_id, parts, metrics),
            )
        return effects

    def publish(self, checkpoint_id: int, *, size_bytes: int = 0) -> list[CoordinatorEffect]:
        """From the last acknowledgement to the end."""
        (order,) = of(Publish, self.tell(MetadataWritten(checkpoint_id, size_bytes)))
        assert order.snapshot.id == checkpoint_id
        return self.tell(Published(checkpoint_id))

    def complete(
        self, checkpoint_id: int, name: str = "r", *, state: SubtaskState | None = None
    ) -> list[CoordinatorEffect]:
        """A whole checkpoint, from the request to the end."""
        self.start(checkpoint_id, name)
        assert of(WriteMetadata, self.acknowledge(checkpoint_id, *EVERYONE, state=state))
        return self.publish(checkpoint_id)

    def decline(
        self,
        checkpoint_id: int,
        *,
        subtask: SubtaskId = WRITE,
        attempt: int = ATTEMPT,
        reason: FailureReason = FailureReason.CHECKPOINT_DECLINED,
    ) -> list[CoordinatorEffect]:
        return self.tell(Decline(running(subtask, attempt), checkpoint_id, reason, "no"))


def failed(effects: Iterable[CoordinatorEffect]) -> list[tuple[str, FailureReason]]:
    return [(effect.request.name, effect.reason) for effect in of(FailRequest, effects)]


def triggered(effects: Iterable[CoordinatorEffect]) -> list[Barrier]:
    return [effect.barrier for effect in of(TriggerCheckpoint, effects)]


# --- the start sequence ----------------------------------------------------------------------------------------------


def test_the_start_sequence_waits_for_each_step() -> None:
    bench = Bench(shape(coordinators=("read",), hooks=("h1", "h2")), timeout="1min")
    request = bench.request()
    assert bench.tell(CheckpointRequested(request)) == [ReserveId("r")]
    assert bench.pending() == ()
    assert bench.timeouts_ms == {"r": 61_000}
    assert bench.tell(IdReserved("r", 7)) == [CreateLocation(7, request)]
    assert bench.pending() == (7,)
    assert bench.tell(LocationCreated(7, "chk-7")) == [SnapshotOperatorCoordinator(7, "read")]
    assert bench.tell(OperatorCoordinatorSnapshotted(7, "read", StoredObject("c", 1))) == [
        SnapshotHook(7, "h1"),
        SnapshotHook(7, "h2"),
    ]
    assert bench.tell(HookSnapshotted(7, "h2", None)) == []
    barrier = Barrier(7, 1000, location="chk-7", alone=False)
    assert bench.tell(HookSnapshotted(7, "h1", StoredObject("h", 1))) == [
        TriggerCheckpoint(running(READ0), barrier),
        TriggerCheckpoint(running(READ1), barrier),
    ]


def test_without_coordinators_and_hooks_tasks_are_triggered_as_soon_as_there_is_a_place() -> None:
    bench = Bench()
    bench.ask()
    bench.tell(IdReserved("r", 1))
    assert [effect.execution.subtask for effect in of(TriggerCheckpoint, bench.tell(LocationCreated(1, "x")))] == [
        READ0,
        READ1,
    ]


def test_the_timestamp_is_that_of_the_pending_checkpoint_not_of_the_request() -> None:
    bench = Bench()
    bench.ask()
    bench.now_ms = 1500
    bench.tell(IdReserved("r", 1))
    bench.now_ms = 1800
    assert {barrier.timestamp_ms for barrier in triggered(bench.tell(LocationCreated(1, "x")))} == {1500}


@pytest.mark.parametrize(
    ("settings", "kind", "expected"),
    [
        ({}, CHECKPOINT, (BarrierKind.ALIGNED, None)),
        ({"mode": "at_least_once"}, CHECKPOINT, (BarrierKind.ALIGNED, None)),
        ({"unaligned": True}, CHECKPOINT, (BarrierKind.UNALIGNED, None)),
        ({"unaligned": True, "aligned_timeout": "3s"}, CHECKPOINT, (BarrierKind.ALIGNED_WITH_TIMEOUT, 3000)),
        ({"unaligned": True}, SAVEPOINT, (BarrierKind.ALIGNED, None)),
        ({"unaligned": True, "aligned_timeout": "3s"}, STOP, (BarrierKind.ALIGNED, None)),
    ],
)
def test_the_settings_say_how_barriers_travel_but_savepoints_always_align(
    settings: dict[str, Any], kind: SnapshotKind, expected: tuple[BarrierKind, int | None]
) -> None:
    bench = Bench(**settings)
    bench.ask(kind=kind)
    bench.tell(IdReserved("r", 1))
    barrier, _ = triggered(bench.tell(LocationCreated(1, "x")))
    assert (barrier.kind, barrier.timeout_ms) == expected
    assert barrier.snapshot is kind


@pytest.mark.parametrize("drain", [False, True])
def test_the_barrier_of_a_stop_says_whether_to_drain(drain: bool) -> None:
    bench = Bench()
    request = savepoint_request("s", bench.config, 0, target="t", stop=True, drain=drain)
    bench.tell(CheckpointRequested(request), IdReserved("s", 1))
    assert {barrier.drain for barrier in triggered(bench.tell(LocationCreated(1, "x")))} == {drain}


def test_checkpoints_are_full_until_one_is_complete_and_savepoints_do_not_count() -> None:
    bench = Bench(full=True)

    def is_full(checkpoint_id: int, kind: SnapshotKind) -> bool:
        bench.ask(kind=kind)
        bench.tell(IdReserved("r", checkpoint_id))
        ((full, alone),) = {
            (barrier.full, barrier.alone) for barrier in triggered(bench.tell(LocationCreated(checkpoint_id, "x")))
        }
        assert full or not alone
        assert alone is (checkpoint_id < 4)
        return full

    assert is_full(1, CHECKPOINT)
    bench.decline(1)
    assert is_full(2, SAVEPOINT)
    bench.acknowledge(2, *EVERYONE)
    bench.publish(2)
    assert is_full(3, CHECKPOINT)
    bench.acknowledge(3, *EVERYONE)
    bench.publish(3)
    assert not is_full(4, CHECKPOINT)


@pytest.mark.parametrize("incremental", [True, False])
@pytest.mark.parametrize("scope", list(CheckpointScope))
def test_a_checkpoint_is_full_as_asked_or_else_as_configured(scope: CheckpointScope, incremental: bool) -> None:
    bench = Bench(incremental=incremental)
    bench.ask(scope=scope)
    bench.tell(IdReserved("r", 1))
    barriers = triggered(bench.tell(LocationCreated(1, "x")))
    asked = {CheckpointScope.FULL: True, CheckpointScope.INCREMENTAL: False}
    assert {barrier.full for barrier in barriers} == {asked.get(scope, not incremental)}
    assert {barrier.alone for barrier in barriers} == {scope is CheckpointScope.FULL}


def test_while_a_checkpoint_is_being_started_nothing_else_is() -> None:
    bench = Bench(max_concurrent=5)
    bench.ask("a")
    assert bench.ask("b") == []
    bench.tell(IdReserved("a", 1))
    assert bench.ask("s", SAVEPOINT) == [], "not even a forced one"
    effects = bench.tell(LocationCreated(1, "chk-1"))
    assert effects[-1] == ReserveId("s"), "a savepoint goes first"
    assert bench.go_on(2, "s")[-1] == ReserveId("b")


def test_an_id_or_a_place_that_nobody_waits_for_starts_nothing() -> None:
    bench = Bench()
    assert bench.tell(IdReserved("r", 1)) == []
    assert bench.tell(LocationCreated(1, "chk-1")) == [Discard(1, (), "chk-1")]
    bench.ask("a")
    assert bench.tell(IdReserved("b", 1)) == []
    bench.tell(IdReserved("a", 1))
    assert bench.tell(IdReserved("a", 2)) == []
    assert bench.pending() == (1,)


@pytest.mark.parametrize("status", [TaskStatus.CREATED, TaskStatus.DEPLOYING, TaskStatus.FAILED, TaskStatus.CANCELED])
def test_without_all_tasks_running_a_request_fails_and_the_next_is_looked_at(status: TaskStatus) -> None:
    bench = Bench()
    bench.status(WRITE, status)
    assert failed(bench.ask()) == [("r", FailureReason.NOT_ALL_REQUIRED_TASKS_RUNNING)]
    assert bench.statistics().latest.not_started is not None
    bench.status(WRITE, TaskStatus.RUNNING)
    assert bench.ask("again") == [ReserveId("again")]


def test_requests_that_wait_do_not_wait_for_ever_when_one_before_them_cannot_start() -> None:
    bench = Bench(after_tasks_finish=False)
    bench.ask("a")
    for name in ("b", "c", "d"):
        assert bench.ask(name) == []
    bench.status(WRITE, TaskStatus.FINISHED)
    effects = bench.tell(StepFailed("a", None, "no id"))
    assert [name for name, _ in failed(effects)] == ["a", "b", "c", "d"]


# --- failure of a step -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("io", "reason"), [(True, FailureReason.IO_EXCEPTION), (False, FailureReason.TRIGGER_CHECKPOINT_FAILURE)]
)
def test_without_an_id_only_the_request_fails(io: bool, reason: FailureReason) -> None:
    bench = Bench()
    request = bench.request()
    bench.tell(CheckpointRequested(request))
    bench.ask("next")
    assert bench.tell(StepFailed("r", None, "no counter", io)) == [
        FailRequest(request, reason, "no counter"),
        ReserveId("next"),
    ]
    assert bench.statistics().counts.failed == 1


def test_a_failed_reservation_of_another_request_is_no_news() -> None:
    bench = Bench()
    bench.ask("a")
    assert bench.tell(StepFailed("b", None, "late")) == []
    bench.go_on(1, "a")
    assert bench.tell(StepFailed("a", None, "late")) == []


def test_a_failure_without_an_id_after_the_id_is_known_changes_nothing() -> None:
    bench = Bench()
    bench.ask()
    bench.tell(IdReserved("r", 1))
    assert bench.tell(StepFailed("r", None, "late")) == []
    assert bench.ask("forced", SAVEPOINT) == [], "the start is not over"
    assert triggered(bench.tell(LocationCreated(1, "chk-1")))


@pytest.mark.parametrize("step", ["location", "coordinator", "hook"])
@pytest.mark.parametrize(
    ("io", "reason"), [(True, FailureReason.IO_EXCEPTION), (False, FailureReason.TRIGGER_CHECKPOINT_FAILURE)]
)
def test_with_an_id_a_failed_step_aborts_the_checkpoint(step: str, io: bool, reason: FailureReason) -> None:
    bench = Bench(shape(coordinators=("read",), hooks=("hook",)))
    request = bench.request()
    bench.tell(CheckpointRequested(request), IdReserved("r", 7))
    state, location = StoredObject("c", 1), None
    collected: tuple[StoredObject, ...] = ()
    if step != "location":
        bench.tell(LocationCreated(7, "chk-7"))
        location = "chk-7"
    if step == "hook":
        bench.tell(OperatorCoordinatorSnapshotted(7, "read", state))
        collected = (state,)
    bench.ask("next")
    assert bench.tell(StepFailed("r", 7, "out of order", io)) == [
        Discard(7, collected, location),
        FailRequest(request, reason, "out of order", 7),
        NotifyCoordinatorsAborted(7),
        *[CheckpointAborted(running(subtask), 7) for subtask in EVERYONE],
        ReserveId("next"),
    ]
    assert bench.pending() == ()


def test_what_comes_of_a_step_after_the_abort_is_discarded() -> None:
    bench = Bench(shape(coordinators=("read",), hooks=("hook",)))
    bench.ask()
    bench.tell(IdReserved("r", 7), StepFailed("r", 7, "x"))
    state = StoredObject("late", 1)
    assert bench.tell(LocationCreated(7, "chk-7")) == [Discard(7, (), "chk-7")]
    assert bench.tell(OperatorCoordinatorSnapshotted(7, "read", state)) == []
    assert bench.tell(HookSnapshotted(7, "hook", state)) == [Discard(7, (state,))]
    assert bench.tell(HookSnapshotted(7, "hook", None)) == [Discard(7, ())]
    assert bench.tell(StepFailed("r", 7, "again")) == []


@pytest.mark.parametrize("published", [False, True])
def test_a_step_that_is_said_to_have_failed_too_late_cannot_abort_what_is_being_published(published: bool) -> None:
    bench = Bench()
    bench.start(1)
    bench.acknowledge(1, *EVERYONE)
    if published:
        bench.tell(MetadataWritten(1))
    assert bench.tell(StepFailed("r", 1, "the message to a task got lost")) == []
    assert bench.pending() == (1,)


# --- acknowledgements ------------------------------------------------------------------------------------------------


def test_the_last_acknowledgement_writes_the_metadata() -> None:
    bench = Bench(shape(coordinators=("read",), hooks=("hook",)))
    bench.ask()
    bench.tell(IdReserved("r", 7), LocationCreated(7, "chk-7"))
    bench.tell(OperatorCoordinatorSnapshotted(7, "read", StoredObject("c", 1)))
    bench.tell(HookSnapshotted(7, "hook", StoredObject("h", 1)))
    assert bench.acknowledge(7, READ0, WRITE) == []
    (write,) = bench.acknowledge(7, READ1)
    assert isinstance(write, WriteMetadata)
    snapshot = write.snapshot
    assert (snapshot.id, snapshot.attempt, snapshot.location, snapshot.timestamp_ms) == (7, ATTEMPT, "chk-7", 1000)
    assert snapshot.operators["read"].subtasks == {0: own("read/0-7"), 1: own("read/1-7")}
    assert snapshot.operators["read"].coordinator == StoredObject("c", 1)
    assert snapshot.operators["write"].subtasks == {0: own("write/0-7")}
    assert snapshot.hooks == {"hook": StoredObject("h", 1)}


def test_an_acknowledgement_may_come_before_the_start_is_over() -> None:
    bench = Bench(shape(hooks=("hook",)))
    bench.ask()
    bench.tell(IdReserved("r", 1), LocationCreated(1, "chk-1"))
    assert bench.acknowledge(1, *EVERYONE) == []
    effects = bench.tell(HookSnapshotted(1, "hook", None))
    assert [type(effect) for effect in effects] == [TriggerCheckpoint, TriggerCheckpoint, WriteMetadata]


def test_an_acknowledgement_that_comes_twice_counts_once_and_nothing_is_discarded() -> None:
    bench = Bench()
    bench.start(1)
    bench.acknowledge(1, READ0)
    assert bench.acknowledge(1, READ0) == []
    assert bench.acknowledge(1, READ1) == []
    assert of(WriteMetadata, bench.acknowledge(1, WRITE))


@pytest.mark.parametrize("stage", ["writing", "publishing", "complete"])
def test_an_acknowledgement_that_comes_twice_never_deletes_what_may_be_complete(stage: str) -> None:
    bench = Bench()
    bench.start(1)
    bench.acknowledge(1, *EVERYONE)
    if stage != "writing":
        bench.tell(MetadataWritten(1))
    if stage == "complete":
        bench.tell(Published(1))
    assert bench.acknowledge(1, *EVERYONE) == []


def test_an_acknowledgement_that_comes_twice_never_deletes_a_complete_savepoint() -> None:
    bench = Bench()
    bench.start(1, kind=SAVEPOINT)
    bench.acknowledge(1, *EVERYONE)
    bench.publish(1)
    assert bench.acknowledge(1, READ0) == []


def test_an_acknowledgement_of_another_attempt_counts_for_nothing_and_deletes_nothing() -> None:
    bench = Bench()
    bench.start(1)
    for attempt in (ATTEMPT - 1, ATTEMPT + 1):
        assert bench.acknowledge(1, *EVERYONE, attempt=attempt) == []
        assert bench.acknowledge(9, READ0, attempt=attempt) == []
    assert bench.acknowledge(1, READ0, READ1) == []
    assert of(WriteMetadata, bench.acknowledge(1, WRITE))


def test_an_acknowledgement_of_another_attempt_deletes_nothing_whatever_became_of_the_checkpoint() -> None:
    bench = Bench(finished=[READ0])
    bench.start(1)
    assert bench.acknowledge(1, READ0, attempt=ATTEMPT - 1) == []
    bench.decline(1)
    assert bench.acknowledge(1, READ1, attempt=ATTEMPT - 1) == []


def test_what_another_attempt_shares_is_not_registered() -> None:
    bench = Bench()
    bench.start(1)
    bench.acknowledge(1, READ0, state=sharing("foreign"), attempt=ATTEMPT - 1)
    bench.acknowledge(1, *EVERYONE)
    bench.publish(1)
    assert not of(DeleteShared, bench.complete(2))


def test_an_acknowledgement_of_a_task_that_is_not_waited_for_is_discarded() -> None:
    bench = Bench(finished=[READ0])
    bench.start(1)
    assert bench.acknowledge(1, READ0) == [Discard(1, (StoredObject("read/0-1", 1),))]
    bench.acknowledge(1, READ1, WRITE)
    assert bench.acknowledge(1, READ0) == [Discard(1, (StoredObject("read/0-1", 1),))]


def test_a_late_acknowledgement_of_an_aborted_checkpoint_is_discarded() -> None:
    bench = Bench()
    bench.start(1)
    bench.decline(1)
    assert bench.acknowledge(1, READ0) == [Discard(1, (StoredObject("read/0-1", 1),))]


def test_only_so_many_aborted_ids_are_remembered() -> None:
    bench = Bench(remembered_expired=2)
    for checkpoint_id in (1, 2, 3):
        bench.start(checkpoint_id, f"r{checkpoint_id}")
        bench.decline(checkpoint_id)
    assert bench.acknowledge(1, READ0) == []
    assert bench.acknowledge(2, READ0)
    assert bench.acknowledge(3, READ0)


def test_an_acknowledgement_of_an_unknown_id_deletes_nothing() -> None:
    assert Bench().acknowledge(99, READ0) == []


def test_shared_objects_are_never_discarded_only_registered() -> None:
    bench = Bench()
    bench.start(1)
    part = SubtaskState(keyed=sharing("a").keyed, operator=own("x").operator)
    bench.acknowledge(1, READ0, state=part)
    (discard,) = of(Discard, bench.decline(1))
    assert discard == Discard(1, (StoredObject("x", 1),), "chk-1")
    assert bench.acknowledge(1, READ1, state=sharing("b")) == []
    (delete,) = of(DeleteShared, bench.complete(2))
    assert delete.objects == (shared("a"), shared("b"))


def reusing(name: str) -> SubtaskState:
    part = KeyedPart(KeyGroupRange(0, 127), (replace(shared(name), reused=True),))
    return SubtaskState(keyed=(part,), operator=own("x").operator)


def test_a_checkpoint_that_reuses_what_is_gone_is_aborted_and_does_not_count() -> None:
    bench = Bench(tolerable_failures=0)
    bench.complete(1, state=sharing("a"))
    bench.complete(2, state=sharing("b"))
    bench.start(3)
    effects = bench.acknowledge(3, READ0, state=reusing("a"))
    assert failed(effects) == [("r", FailureReason.TASK_CHECKPOINT_FAILURE)]
    assert of(Discard, effects)[0] == Discard(3, (StoredObject("x", 1),))
    assert not of(FailJob, effects)
    bench.start(4)
    assert bench.acknowledge(4, READ0, state=reusing("b")) == []
    assert bench.pending() == (4,)


def test_a_message_that_comes_again_does_not_bring_back_what_is_gone() -> None:
    bench = Bench()
    bench.complete(1, state=sharing("a"))
    assert of(DeleteShared, bench.complete(2, state=sharing("b")))
    assert bench.acknowledge(1, READ0, state=sharing("a")) == []
    bench.start(3)
    assert failed(bench.acknowledge(3, READ0, state=reusing("a")))


def test_a_message_that_comes_again_after_its_objects_have_gone_aborts_nothing() -> None:
    bench = Bench(max_concurrent=2)
    bench.complete(1, state=sharing("a"))
    bench.complete(2, state=sharing("b"))
    bench.start(3)
    assert bench.acknowledge(1, READ0, state=reusing("a")) == []
    bench.acknowledge(3, *EVERYONE)
    assert bench.acknowledge(3, READ0, state=reusing("a")) == []
    assert bench.pending() == (3,)
    bench.publish(3)
    bench.start(4)
    bench.decline(4)
    assert bench.acknowledge(4, READ0, state=reusing("a")) == [Discard(4, (StoredObject("x", 1),))]


def test_a_savepoints_objects_are_not_registered_as_shared() -> None:
    bench = Bench()
    bench.start(1, kind=SAVEPOINT)
    bench.acknowledge(1, *EVERYONE, state=sharing("in the savepoint"))
    bench.publish(1)
    assert not of(DeleteShared, bench.complete(2))


# --- completion ------------------------------------------------------------------------------------------------------


def test_completion_publishes_then_retains_answers_and_notifies_in_this_order() -> None:
    bench = Bench(shape(coordinators=("read",)))
    bench.ask("first")
    bench.tell(IdReserved("first", 1), LocationCreated(1, "chk-1"))
    bench.tell(OperatorCoordinatorSnapshotted(1, "read", StoredObject("c1", 1)))
    bench.acknowledge(1, *EVERYONE, state=sharing("a"))
    bench.publish(1)
    request = bench.request("second")
    bench.tell(CheckpointRequested(request), IdReserved("second", 2), LocationCreated(2, "chk-2"))
    bench.tell(OperatorCoordinatorSnapshotted(2, "read", StoredObject("c2", 1)))
    (write,) = of(WriteMetadata, bench.acknowledge(2, *EVERYONE))
    assert bench.tell(MetadataWritten(2)) == [Publish(write.snapshot)]
    delete, *rest = bench.tell(Published(2))
    assert isinstance(delete, DeleteSnapshot)
    assert delete.snapshot.id == 1
    assert rest == [
        DeleteShared((shared("a"),)),
        CompleteRequest(request, write.snapshot),
        NotifyCoordinatorsCompleted(2, 1),
        *[CheckpointCompleted(running(subtask), 2, 1) for subtask in EVERYONE],
    ]
    assert bench.machine.retained.latest_id == 2
    assert bench.pending() == ()


def test_no_notice_goes_out_before_the_checkpoint_is_published() -> None:
    bench = Bench()
    bench.start(1)
    effects = bench.acknowledge(1, *EVERYONE) + bench.tell(MetadataWritten(1))
    assert not of(CheckpointCompleted, effects)
    assert not of(CompleteRequest, effects)
    assert bench.machine.retained.snapshots == ()


@pytest.mark.parametrize("event", [MetadataWritten(1), Published(1), MetadataWritten(9), Published(9)])
def test_words_about_metadata_out_of_turn_change_nothing(event: CoordinatorEvent) -> None:
    bench = Bench()
    bench.start(1)
    assert bench.tell(event) == []
    bench.acknowledge(1, *EVERYONE)
    assert bench.tell(Published(1)) == []
    bench.publish(1)
    assert bench.tell(event) == []


def test_the_first_checkpoint_subsumes_nothing() -> None:
    assert {effect.subsumed_id for effect in of(CheckpointCompleted, Bench().complete(1))} == {NO_CHECKPOINT}


def test_more_may_be_retained() -> None:
    bench = Bench(retained=RetainedSnapshots(2))
    bench.complete(1)
    second = bench.complete(2)
    assert {effect.subsumed_id for effect in of(CheckpointCompleted, second)} == {NO_CHECKPOINT}
    assert not of(DeleteSnapshot, second)
    third = bench.complete(3)
    assert [effect.snapshot.id for effect in of(DeleteSnapshot, third)] == [1]
    assert {effect.subsumed_id for effect in of(CheckpointCompleted, third)} == {1}


def test_a_restored_snapshot_that_is_not_owned_is_not_deleted_and_not_named_as_subsumed() -> None:
    foreign = Snapshot(5, SAVEPOINT, 1, 0, "savepoint", {})
    bench = Bench(retained=RetainedSnapshots.restored(1, [], foreign, ClaimMode.NO_CLAIM))
    effects = bench.complete(6)
    assert not of(DeleteSnapshot, effects)
    assert {effect.subsumed_id for effect in of(CheckpointCompleted, effects)} == {NO_CHECKPOINT}


def test_of_several_that_are_deleted_the_newest_is_named_as_subsumed() -> None:
    def point(checkpoint_id: int) -> Snapshot:
        return Snapshot(checkpoint_id, CHECKPOINT, 1, 0, f"chk-{checkpoint_id}", {})

    bench = Bench(retained=RetainedSnapshots.restored(1, [point(7), point(8)], None, ClaimMode.NO_CLAIM))
    effects = bench.complete(9)
    assert [effect.snapshot.id for effect in of(DeleteSnapshot, effects)] == [7, 8]
    assert {effect.subsumed_id for effect in of(CheckpointCompleted, effects)} == {8}


def test_older_checkpoints_are_subsumed_but_never_savepoints() -> None:
    bench = Bench(max_concurrent=4)
    bench.start(1, "old")
    bench.start(2, "savepoint", SAVEPOINT)
    bench.start(3, "middle")
    bench.start(4, "new")
    bench.ask("queued")
    bench.acknowledge(3, *EVERYONE)
    effects = bench.publish(3)
    assert effects[-1] == ReserveId("queued"), "notices of the old checkpoint come before a new one"
    assert failed(effects) == [("old", FailureReason.CHECKPOINT_SUBSUMED)]
    assert bench.pending() == (2, 4)
    kinds = [type(effect) for effect in effects]
    assert kinds.index(CompleteRequest) < kinds.index(FailRequest) < kinds.index(CheckpointCompleted)
    assert of(CheckpointAborted, effects) == [CheckpointAborted(running(subtask), 1) for subtask in EVERYONE]


def test_checkpoints_are_published_one_at_a_time_so_that_none_comes_after_a_newer_one() -> None:
    bench = Bench(max_concurrent=3)
    for checkpoint_id in (1, 2, 3):
        bench.start(checkpoint_id, f"r{checkpoint_id}")
    assert of(WriteMetadata, bench.acknowledge(2, *EVERYONE))
    assert bench.acknowledge(1, *EVERYONE) == [], "an older one waits, and will be subsumed"
    assert bench.acknowledge(3, *EVERYONE) == [], "a newer one waits as well"
    effects = bench.publish(2)
    assert failed(effects) == [("r1", FailureReason.CHECKPOINT_SUBSUMED)]
    (write,) = of(WriteMetadata, effects)
    assert write.snapshot.id == 3
    bench.publish(3)
    assert [snapshot.id for snapshot in bench.machine.retained.snapshots] == [3]


def test_a_checkpoint_that_waited_is_published_when_the_one_before_it_fails() -> None:
    bench = Bench(max_concurrent=2)
    bench.start(1, "a")
    bench.start(2, "b")
    bench.acknowledge(1, *EVERYONE)
    assert bench.acknowledge(2, *EVERYONE) == []
    effects = bench.tell(FinalizeFailed(1, "no"))
    assert [effect.snapshot.id for effect in of(WriteMetadata, effects)] == [2]


def test_a_plain_savepoint_is_published_in_turn_too() -> None:
    bench = Bench()
    bench.start(1, "a")
    bench.acknowledge(1, *EVERYONE)
    bench.start(2, "s", SAVEPOINT)
    assert bench.acknowledge(2, *EVERYONE) == []
    (write,) = of(WriteMetadata, bench.publish(1))
    assert write.snapshot.id == 2
    bench.start(3, "t", SAVEPOINT)
    assert bench.acknowledge(3, *EVERYONE) == []
    assert of(WriteMetadata, bench.publish(2))


def test_a_heartbeat_repeats_the_last_notification_to_tasks_that_run() -> None:
    bench = Bench()
    assert bench.tell(HeartbeatDue()) == []
    bench.complete(1)
    bench.complete(2)
    assert bench.tell(HeartbeatDue()) == [CheckpointCompleted(running(subtask), 2, 1) for subtask in EVERYONE]
    bench.status(READ0, TaskStatus.FINISHED)
    assert [effect.execution.subtask for effect in of(CheckpointCompleted, bench.tell(HeartbeatDue()))] == [
        READ1,
        WRITE,
    ]


def test_deletions_under_way_hold_back_even_forced_requests() -> None:
    bench = Bench()
    for checkpoint_id in (1, 2, 3):
        bench.complete(checkpoint_id)
    assert bench.ask("forced", SAVEPOINT) == []
    assert bench.ask("r") == []
    assert bench.tell(Cleaned(9)) == []
    assert bench.tell(Cleaned(1)) == [ReserveId("forced")]


# --- failure ---------------------------------------------------------------------------------------------------------


def test_a_checkpoint_that_times_out_is_aborted() -> None:
    bench = Bench(shape(coordinators=("read",)))
    request = bench.request()
    bench.tell(CheckpointRequested(request), IdReserved("r", 1), LocationCreated(1, "chk-1"))
    bench.tell(OperatorCoordinatorSnapshotted(1, "read", StoredObject("c", 1)))
    bench.acknowledge(1, READ0)
    message = "not complete within 600 s; it waited for 2 of 3 subtasks: read/1, write/0"
    assert bench.tell(TimerFired(timeout("r"))) == [
        Discard(1, (StoredObject("read/0-1", 1), StoredObject("c", 1)), "chk-1"),
        FailRequest(request, FailureReason.CHECKPOINT_EXPIRED, message, 1),
        NotifyCoordinatorsAborted(1),
        *[CheckpointAborted(running(subtask), 1) for subtask in EVERYONE],
    ]
    assert bench.timeouts_ms == {}
    assert bench.tell(TimerFired(timeout("r"))) == []


@pytest.mark.parametrize(
    ("step", "what"),
    [
        ("reserved", "its directory"),
        ("located", "operator coordinators: read"),
        ("coordinated", "master hooks: hook"),
    ],
)
def test_a_timeout_ends_the_start_too_and_the_next_request_begins(step: str, what: str) -> None:
    bench = Bench(shape(coordinators=("read",), hooks=("hook",)))
    bench.ask("slow")
    bench.ask("next")
    bench.tell(IdReserved("slow", 1))
    if step != "reserved":
        bench.tell(LocationCreated(1, "chk-1"))
    if step == "coordinated":
        bench.tell(OperatorCoordinatorSnapshotted(1, "read", StoredObject("c", 1)))
    effects = bench.tell(TimerFired(timeout("slow")))
    (fail,) = of(FailRequest, effects)
    assert (fail.request.name, fail.reason) == ("slow", FailureReason.CHECKPOINT_EXPIRED)
    assert fail.message == f"not complete within 600 s; it waited for {what}"
    assert effects[-1] == ReserveId("next")


def test_a_request_that_gets_no_id_times_out_and_the_next_begins() -> None:
    bench = Bench()
    assert bench.ask("slow") == [ReserveId("slow")]
    bench.ask("next")
    effects = bench.tell(TimerFired(timeout("slow")))
    assert failed(effects) == [("slow", FailureReason.CHECKPOINT_EXPIRED)]
    assert effects[-1] == ReserveId("next")
    assert bench.tell(IdReserved("slow", 1)) == [], "its id came too late"
    assert bench.statistics().counts.failed == 1


def test_a_request_that_gets_no_turn_times_out() -> None:
    bench = Bench()
    bench.start(1)
    assert bench.ask("waiting") == []
    bench.now_ms += bench.config.timeout_ms
    assert bench.timeouts_ms["waiting"] == bench.now_ms
    effects = bench.tell(TimerFired(timeout("waiting")))
    assert failed(effects) == [("waiting", FailureReason.CHECKPOINT_EXPIRED)]
    assert bench.pending() == (1,)
    assert of(ReserveId, bench.decline(1)) == []


def test_metadata_that_is_not_written_in_time_fails_the_checkpoint_and_is_deleted_when_it_comes() -> None:
    bench = Bench(max_concurrent=2)
    bench.start(1, "slow")
    bench.start(2, "next")
    bench.acknowledge(1, *EVERYONE)
    assert bench.acknowledge(2, *EVERYONE) == [], "one after the other"
    effects = bench.tell(TimerFired(timeout("slow")))
    (fail,) = of(FailRequest, effects)
    assert fail.message == "not complete within 600 s; it waited for its metadata to be written"
    (discard,) = of(Discard, effects)
    assert (discard.checkpoint_id, discard.location) == (1, "chk-1")
    assert [effect.snapshot.id for effect in of(WriteMetadata, effects)] == [2]
    assert bench.tell(MetadataWritten(1)) == [Discard(1, (), "chk-1")]
    assert of(CompleteRequest, bench.publish(2))


def test_a_record_that_is_not_written_in_time_fails_the_checkpoint_whose_state_stays() -> None:
    bench = Bench()
    bench.start(1)
    bench.acknowledge(1, *EVERYONE)
    bench.tell(MetadataWritten(1))
    effects = bench.tell(TimerFired(timeout("r")))
    (fail,) = of(FailRequest, effects)
    assert fail.message == "not complete within 600 s; it waited for its record in the journal"
    assert of(Discard, effects) == [], "it may be in the journal by now"
    assert bench.tell(Published(1)) == []
    bench.complete(2)


def test_a_complete_checkpoint_no_longer_times_out() -> None:
    bench = Bench()
    bench.complete(1)
    assert bench.timeouts_ms == {}
    assert bench.tell(TimerFired(timeout("r"))) == []


def test_a_decline_aborts_the_checkpoint() -> None:
    bench = Bench()
    bench.complete(1)
    bench.start(2)
    effects = bench.decline(2)
    (fail,) = of(FailRequest, effects)
    assert (fail.reason, fail.message) == (FailureReason.CHECKPOINT_DECLINED, "write/0#3 declined: no")
    assert of(CheckpointAborted, effects) == [CheckpointAborted(running(subtask), 2) for subtask in EVERYONE]
    assert bench.pending() == ()


def test_a_decline_need_not_say_why() -> None:
    bench = Bench()
    bench.start(1)
    decline = Decline(running(READ1), 1, FailureReason.CHECKPOINT_DECLINED)
    (fail,) = of(FailRequest, bench.tell(decline))
    assert fail.message == "read/1#3 declined"


def test_a_decline_of_another_attempt_of_an_unknown_id_or_too_late_changes_nothing() -> None:
    bench = Bench()
    bench.start(1)
    assert bench.decline(1, attempt=ATTEMPT - 1) == []
    assert bench.decline(1, attempt=ATTEMPT + 1) == []
    assert bench.decline(2) == []
    bench.acknowledge(1, *EVERYONE)
    assert bench.decline(1) == []
    bench.tell(MetadataWritten(1))
    assert bench.decline(1) == []
    assert bench.pending() == (1,)


@pytest.mark.parametrize("published", [False, True])
def test_metadata_that_cannot_be_written_fails_the_checkpoint_and_its_state_is_deleted(published: bool) -> None:
    bench = Bench()
    bench.start(1)
    bench.acknowledge(1, *EVERYONE)
    if published:
        bench.tell(MetadataWritten(1))
    effects = bench.tell(FinalizeFailed(1, "no space"))
    assert failed(effects) == [("r", FailureReason.FINALIZE_CHECKPOINT_FAILURE)]
    (discard,) = of(Discard, effects)
    assert {item.path for item in discard.objects} == {"read/0-1", "read/1-1", "write/0-1"}
    assert discard.location == "chk-1"
    assert len(of(CheckpointAborted, effects)) == 3
    assert bench.tell(Published(1)) == []


def test_a_checkpoint_that_may_be_canonical_after_all_is_not_deleted() -> None:
    bench = Bench()
    bench.start(1)
    bench.acknowledge(1, *EVERYONE)
    bench.tell(MetadataWritten(1))
    effects = bench.tell(FinalizeFailed(1, "no answer", possibly_inconsistent=True))
    assert failed(effects) == [("r", FailureReason.FINALIZE_CHECKPOINT_FAILURE)]
    assert not of(Discard, effects)
    assert bench.acknowledge(1, READ0) == [], "nor by a message that comes twice"


def test_failures_beyond_the_tolerable_number_fail_the_job() -> None:
    bench = Bench(tolerable_failures=1)
    bench.start(1, "a")
    assert not of(FailJob, bench.decline(1))
    bench.start(2, "b")
    assert of(FailJob, bench.decline(2)) == [
        FailJob("checkpoint 2 failed (CHECKPOINT_DECLINED): write/0#3 declined: no")
    ]


def test_a_success_forgives_earlier_failures() -> None:
    bench = Bench(tolerable_failures=1)
    bench.start(1, "a")
    bench.decline(1)
    bench.complete(2, "b")
    bench.start(3, "c")
    assert not of(FailJob, bench.decline(3))


@pytest.mark.parametrize(
    ("reason", "fails"),
    [
        (FailureReason.CHECKPOINT_ASYNC_EXCEPTION, True),
        (FailureReason.CHECKPOINT_DECLINED_TASK_CLOSING, False),
        (FailureReason.CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER, False),
    ],
)
def test_only_some_reasons_count(reason: FailureReason, fails: bool) -> None:
    bench = Bench(tolerable_failures=0)
    bench.start(1)
    assert bool(of(FailJob, bench.decline(1, reason=reason))) is fails


def test_timeouts_metadata_and_failed_steps_count() -> None:
    for last in (TimerFired(timeout("r")), StepFailed("r", 1, "x"), FinalizeFailed(1, "x")):
        bench = Bench(tolerable_failures=0)
        bench.start(1)
        if isinstance(last, FinalizeFailed):
            bench.acknowledge(1, *EVERYONE)
        assert of(FailJob, bench.tell(last)), last


def test_a_request_that_failed_before_it_had_an_id_counts_each_time() -> None:
    bench = Bench(tolerable_failures=1)
    bench.ask("a")
    assert not of(FailJob, bench.tell(StepFailed("a", None, "x")))
    bench.ask("b")
    assert of(FailJob, bench.tell(StepFailed("b", None, "x")))


def test_a_failed_checkpoint_never_fails_the_job_unless_the_user_said_so() -> None:
    bench = Bench()
    for checkpoint_id in range(1, 50):
        bench.start(checkpoint_id)
        assert not of(FailJob, bench.decline(checkpoint_id))


def test_failures_are_counted_over_attempts_that_share_a_carryover() -> None:
    first = Bench(tolerable_failures=1)
    first.start(1)
    first.decline(1)
    second = Bench(tolerable_failures=1, carryover=first.carryover)
    second.start(2)
    assert of(FailJob, second.decline(2))


# --- savepoints ------------------------------------------------------------------------------------------------------


def test_a_request_for_a_savepoint_is_forced_exactly_while_unaligned_is_off() -> None:
    aligned, unaligned = Checkpoints(savepoint_dir="default"), Checkpoints(unaligned=True)
    request = savepoint_request("s", aligned, 5)
    assert (request.kind, request.forced, request.periodic, request.target) == (SAVEPOINT, True, False, "default")
    assert (request.timestamp_ms, request.format, request.drain) == (5, SavepointFormat.CANONICAL, False)
    assert savepoint_request("s", aligned, 5, target="here").target == "here"
    stop = savepoint_request("s", unaligned, 5, target="here", stop=True, drain=True)
    assert (stop.kind, stop.forced, stop.drain) == (STOP, False, True)


def test_a_plain_savepoint_is_published_but_not_retained_and_nobody_is_notified() -> None:
    bench = Bench(shape(coordinators=("read",)))
    request = bench.request("s", SAVEPOINT)
    bench.tell(CheckpointRequested(request), IdReserved("s", 1), LocationCreated(1, "savepoint-1"))
    bench.tell(OperatorCoordinatorSnapshotted(1, "read", StoredObject("c", 1)))
    (write,) = of(WriteMetadata, bench.acknowledge(1, *EVERYONE))
    assert write.snapshot.kind is SAVEPOINT
    assert write.snapshot.format is SavepointFormat.CANONICAL
    assert bench.tell(MetadataWritten(1)) == [Publish(write.snapshot)]
    assert bench.tell(Published(1)) == [CompleteRequest(request, write.snapshot)]
    assert bench.machine.retained.snapshots == ()
    assert bench.tell(HeartbeatDue()) == []


def test_a_plain_savepoint_subsumes_nothing() -> None:
    bench = Bench()
    bench.start(1, "checkpoint")
    bench.start(2, "savepoint", SAVEPOINT)
    bench.acknowledge(2, *EVERYONE)
    assert failed(bench.publish(2)) == []
    assert bench.pending() == (1,)


def test_a_stop_savepoint_is_published_and_notified_but_not_retained() -> None:
    bench = Bench()
    bench.complete(1)
    request = bench.request("stop", STOP)
    bench.tell(CheckpointRequested(request))
    bench.go_on(2, "stop")
    (write,) = of(WriteMetadata, bench.acknowledge(2, *EVERYONE))
    assert bench.tell(MetadataWritten(2)) == [Publish(write.snapshot)]
    assert bench.tell(Published(2)) == [
        CompleteRequest(request, write.snapshot),
        NotifyCoordinatorsCompleted(2, NO_CHECKPOINT),
        *[CheckpointCompleted(running(subtask), 2, NO_CHECKPOINT) for subtask in EVERYONE],
    ]
    assert [snapshot.id for snapshot in bench.machine.retained.snapshots] == [1]
    assert bench.activity() is Activity.STOPPING
    assert of(CheckpointCompleted, bench.tell(HeartbeatDue()))


def test_a_stop_suspends_everything_else_first() -> None:
    bench = Bench(interval="10s", max_concurrent=2)
    bench.start(1, "pending")
    bench.start(2, "savepoint", SAVEPOINT)
    bench.ask("starting", SAVEPOINT)
    bench.ask("queued")
    effects = bench.ask("stop", STOP)
    assert effects[0] == CancelTimer(PERIODIC)
    suspended = FailureReason.CHECKPOINT_COORDINATOR_SUSPEND
    assert failed(effects) == [(name, suspended) for name in ("queued", "pending", "savepoint", "starting")]
    assert effects[-1] == ReserveId("stop")
    assert bench.activity() is Activity.STOPPING
    assert bench.tell(IdReserved("starting", 3)) == []
    bench.go_on(3, "stop")


def test_a_stop_waits_for_what_is_being_published() -> None:
    bench = Bench(unaligned=True)
    bench.start(1, "checkpoint")
    bench.acknowledge(1, *EVERYONE)
    effects = bench.ask("stop", STOP)
    assert failed(effects) == []
    assert ReserveId("stop") not in effects
    assert bench.publish(1)[-1] == ReserveId("stop")


def test_a_stop_savepoint_is_never_published_before_an_older_checkpoint() -> None:
    bench = Bench()
    bench.start(1, "checkpoint")
    bench.acknowledge(1, *EVERYONE)
    bench.start(2, "stop", STOP)
    assert bench.acknowledge(2, *EVERYONE) == []
    assert of(WriteMetadata, bench.publish(1))


@pytest.mark.parametrize("kind", SnapshotKind)
def test_while_a_job_stops_all_other_requests_are_refused_and_it_goes_on_stopping(kind: SnapshotKind) -> None:
    bench = Bench(interval="10s")
    bench.start(1, "stop", STOP)
    effects = bench.ask("other", kind)
    assert failed(effects) == [("other", FailureReason.CHECKPOINT_COORDINATOR_SUSPEND)]
    assert not of(SetTimer, effects)
    assert bench.activity() is Activity.STOPPING
    assert bench.pending() == (1,)


def failed_stop(bench: Bench) -> list[CoordinatorEffect]:
    """A stop whose savepoint expires."""
    bench.start(1, "stop", STOP)
    return bench.tell(TimerFired(timeout("stop")))


def test_a_stop_that_failed_lets_checkpoints_go_on_after_the_pause() -> None:
    bench = Bench(interval="10s", min_pause="3s", tolerable_failures=0)
    effects = failed_stop(bench)
    assert failed(effects) == [("stop", FailureReason.CHECKPOINT_EXPIRED)]
    assert of(SetTimer, effects) == [SetTimer(PERIODIC, 4000)]
    assert not of(FailJob, effects), "the coordinator's own failure does not count for savepoints"
    assert bench.activity() is Activity.ACTIVE
    assert bench.ask("again") == [ReserveId("again")]


@pytest.mark.parametrize(
    ("io", "reason"), [(True, FailureReason.IO_EXCEPTION), (False, FailureReason.TRIGGER_CHECKPOINT_FAILURE)]
)
def test_a_stop_that_could_not_start_lets_checkpoints_go_on(io: bool, reason: FailureReason) -> None:
    bench = Bench(interval="10s", tolerable_failures=0)
    bench.ask("stop", STOP)
    effects = bench.tell(StepFailed("stop", None, "no id", io))
    assert failed(effects) == [("stop", reason)]
    assert not of(FailJob, effects)
    assert of(SetTimer, effects) == [SetTimer(PERIODIC, 1000)]
    assert bench.activity() is Activity.ACTIVE


def test_a_stop_that_cannot_be_planned_lets_checkpoints_go_on() -> None:
    bench = Bench(interval="10s", after_tasks_finish=False)
    bench.status(READ0, TaskStatus.FINISHED)
    effects = bench.ask("stop", STOP)
    assert failed(effects) == [("stop", FailureReason.NOT_ALL_REQUIRED_TASKS_RUNNING)]
    assert effects[-1] == SetTimer(PERIODIC, 1000)
    assert bench.activity() is Activity.ACTIVE


def test_a_task_that_declines_a_stop_fails_the_job() -> None:
    bench = Bench()
    bench.start(1, "stop", STOP)
    effects = bench.decline(1, reason=FailureReason.CHECKPOINT_DECLINED_TASK_CLOSING)
    assert of(FailJob, effects)
    assert bench.activity() is Activity.ACTIVE


def test_a_declined_plain_savepoint_counts_like_a_checkpoint_but_a_timeout_does_not() -> None:
    bench = Bench(tolerable_failures=0)
    bench.start(1, "s", SAVEPOINT)
    assert not of(FailJob, bench.tell(TimerFired(timeout("s"))))
    bench.start(2, "s", SAVEPOINT)
    assert of(FailJob, bench.decline(2))


@pytest.mark.parametrize("kind", SnapshotKind)
def test_a_request_before_the_job_runs_fails(kind: SnapshotKind) -> None:
    bench = Bench(run=False)
    assert failed(bench.ask("r", kind)) == [("r", FailureReason.NOT_ALL_REQUIRED_TASKS_RUNNING)]
    assert bench.activity() is Activity.WAITING


# --- concurrency, pause and the periodic timer -----------------------------------------------------------------------


def tick(bench: Bench, now_ms: int) -> list[CoordinatorEffect]:
    bench.now_ms = now_ms
    return bench.tell(TimerFired(PERIODIC))


def test_periodic_checkpoints_start_when_the_job_runs_and_come_at_a_fixed_rate() -> None:
    bench = Bench(run=False, interval="10s", max_concurrent=2)
    for subtask in EVERYONE:
        bench.status(subtask, TaskStatus.RUNNING)
    assert bench.tell(JobRunning(0.5)) == [SetTimer(PERIODIC, 6000)]
    assert bench.activity() is Activity.ACTIVE
    set_timer, reserve = tick(bench, 6100)
    assert set_timer == SetTimer(PERIODIC, 16_000)
    assert reserve == ReserveId("periodic-3-1")
    bench.go_on(1, "periodic-3-1")
    assert tick(bench, 16_000) == [SetTimer(PERIODIC, 26_000), ReserveId("periodic-3-2")]


def test_without_an_interval_there_are_no_periodic_checkpoints() -> None:
    bench = Bench(run=False)
    assert bench.tell(JobRunning(0.5)) == [CancelTimer(PERIODIC)]
    assert tick(bench, 10**9) == []


def test_a_timer_that_fires_early_is_set_again() -> None:
    bench = Bench(interval="10s")
    assert tick(bench, 999) == [SetTimer(PERIODIC, 1000)]
    assert of(ReserveId, tick(bench, 1000))


def test_backlog_changes_the_rate() -> None:
    bench = Bench(interval="10s", interval_during_backlog="60s")
    tick(bench, 1000)
    assert bench.tell(BacklogReported("read", True)) == []
    assert of(SetTimer, tick(bench, 11_000)) == [SetTimer(PERIODIC, 71_000)]
    bench.now_ms = 12_000
    assert bench.tell(BacklogReported("read", False)) == [SetTimer(PERIODIC, 22_000)]


def test_no_more_than_so_many_checkpoints_run_at_once_but_forced_ones_do() -> None:
    bench = Bench(max_concurrent=2)
    bench.start(1, "a")
    bench.start(2, "b")
    assert bench.ask("c") == []
    assert bench.ask("s", SAVEPOINT) == [ReserveId("s")]
    bench.go_on(3, "s")
    bench.decline(1)
    assert bench.decline(3)[-1] == ReserveId("c")


def test_unaligned_savepoints_are_not_forced_and_wait() -> None:
    bench = Bench(unaligned=True)
    bench.start(1, "a")
    assert bench.ask("s", SAVEPOINT) == []
    assert bench.decline(1)[-1] == ReserveId("s")


def test_a_periodic_checkpoint_within_the_pause_is_dropped_and_the_timer_postponed() -> None:
    bench = Bench(interval="10s", min_pause="3s")
    tick(bench, 4000)
    bench.go_on(1, "periodic-3-1")
    bench.acknowledge(1, *EVERYONE)
    bench.now_ms = 12_000
    bench.publish(1)
    effects = tick(bench, 14_000)
    assert failed(effects) == [("periodic-3-2", FailureReason.MINIMUM_TIME_BETWEEN_CHECKPOINTS)]
    assert effects[-1] == SetTimer(PERIODIC, 15_000)
    assert of(ReserveId, tick(bench, 15_000)) == [ReserveId("periodic-3-3")]
    assert of(SetTimer, effects)[0] == SetTimer(PERIODIC, 24_000)


def test_a_periodic_request_that_never_started_is_no_failed_checkpoint() -> None:
    bench = Bench(interval="10s", min_pause="3s")
    bench.now_ms = 2_000
    bench.complete(1)
    assert failed(tick(bench, 4_000)) == [("periodic-3-1", FailureReason.MINIMUM_TIME_BETWEEN_CHECKPOINTS)]
    assert of(ReserveId, tick(bench, 5_000)) == [ReserveId("periodic-3-2")]
    bench.go_on(2, "periodic-3-2")
    assert failed(tick(bench, 20_000)) == []
    assert failed(bench.tell(JobLeftRunning())) == [
        ("periodic-3-3", FailureReason.CHECKPOINT_COORDINATOR_SUSPEND),
        ("periodic-3-2", FailureReason.CHECKPOINT_COORDINATOR_SUSPEND),
    ]
    counts = bench.statistics().counts
    assert (counts.total, counts.completed, counts.failed) == (2, 1, 1)
    assert bench.statistics().latest.not_started is None


def test_one_periodic_request_waits_while_a_checkpoint_takes_long_and_missed_ticks_are_dropped() -> None:
    bench = Bench(interval="10s")
    tick(bench, 1_000)
    bench.go_on(1, "periodic-3-1")
    for now_ms in range(11_000, 301_000, 10_000):
        assert of(ReserveId, tick(bench, now_ms)) == []
    bench.now_ms = 305_000
    bench.acknowledge(1, *EVERYONE)
    assert of(ReserveId, bench.publish(1)) == [ReserveId("periodic-3-2")]
    assert bench.timeouts_ms == {"periodic-3-2": 905_000}, "its time begins with its turn"
    bench.go_on(2, "periodic-3-2")
    bench.acknowledge(2, *EVERYONE)
    assert of(ReserveId, bench.publish(2)) == [], "nothing else has waited"
    assert bench.statistics().counts.failed == 0


def test_people_see_the_wall_clock_and_durations_do_not_depend_on_it() -> None:
    bench = Bench()
    bench.wall_ahead_ms = 1_700_000_000_000
    bench.start(1)
    bench.wall_ahead_ms -= 3_600_000
    bench.now_ms += 250
    (write,) = of(WriteMetadata, bench.acknowledge(1, *EVERYONE))
    bench.publish(1)
    assert write.snapshot.timestamp_ms == 1_700_000_001_000
    record = bench.statistics().latest.completed
    assert record is not None
    assert record.completion is not None
    assert (record.trigger_ms, record.end_to_end_duration_ms) == (1_700_000_001_000, 250)
    assert record.completion.completed_ms == 1_700_000_001_250
    bench.status(READ0, TaskStatus.DEPLOYING)
    bench.ask("early")
    not_started = bench.statistics().latest.not_started
    assert not_started is not None
    assert not_started.failure_ms == bench.now_ms + bench.wall_ahead_ms


def test_the_pause_is_counted_from_completion_savepoints_included_not_from_failure() -> None:
    bench = Bench(interval="10s", min_pause="5s")
    bench.start(1, "failing")
    bench.now_ms = 5000
    bench.decline(1)
    assert of(ReserveId, tick(bench, 6000))
    bench.tell(StepFailed("periodic-3-1", None, "x"))
    bench.now_ms = 15_000
    bench.start(2, "s", SAVEPOINT)
    bench.acknowledge(2, *EVERYONE)
    bench.publish(2)
    assert failed(tick(bench, 16_000)) == [("periodic-3-2", FailureReason.MINIMUM_TIME_BETWEEN_CHECKPOINTS)]


def test_the_pause_does_not_bind_a_users_request() -> None:
    bench = Bench(interval="10s", min_pause="5s")
    bench.complete(1)
    assert bench.ask("now") == [ReserveId("now")]


def test_the_queue_is_bounded() -> None:
    bench = Bench(max_queued_requests=1)
    bench.start(1, "a")
    bench.ask("b")
    assert failed(bench.ask("c")) == [("c", FailureReason.TOO_MANY_CHECKPOINT_REQUESTS)]


# --- finished tasks --------------------------------------------------------------------------------------------------


def test_finished_tasks_are_marked_not_waited_for_and_their_targets_triggered() -> None:
    bench = Bench(shape(pointwise=False))
    bench.status(READ0, TaskStatus.FINISHED)
    bench.start(1)
    (write,) = of(WriteMetadata, bench.acknowledge(1, READ1, WRITE))
    assert write.snapshot.operators["read"].subtasks[0].finished
    effects = bench.publish(1)
    assert [effect.execution.subtask for effect in of(CheckpointCompleted, effects)] == [READ1, WRITE]
    bench.status(READ1, TaskStatus.FINISHED)
    bench.ask()
    bench.tell(IdReserved("r", 2))
    assert [task.execution.subtask for task in of(TriggerCheckpoint, bench.tell(LocationCreated(2, "x")))] == [WRITE]
    (write,) = of(WriteMetadata, bench.acknowledge(2, WRITE))
    assert write.snapshot.operators["read"].fully_finished


def test_tasks_that_had_finished_before_the_restore_are_finished_from_the_start() -> None:
    bench = Bench(finished=[READ0, READ1])
    bench.ask()
    bench.tell(IdReserved("r", 1))
    assert [task.execution.subtask for task in of(TriggerCheckpoint, bench.tell(LocationCreated(1, "x")))] == [WRITE]


def test_a_word_that_comes_late_does_not_bring_a_finished_task_back() -> None:
    bench = Bench()
    bench.status(READ0, TaskStatus.FINISHED)
    bench.status(READ0, TaskStatus.RUNNING)
    bench.start(1)
    assert of(WriteMetadata, bench.acknowledge(1, READ1, WRITE))


def test_with_finished_tasks_switched_off_one_makes_triggering_fail() -> None:
    bench = Bench(after_tasks_finish=False)
    bench.status(READ0, TaskStatus.FINISHED)
    assert failed(bench.ask()) == [("r", FailureReason.NOT_ALL_REQUIRED_TASKS_RUNNING)]


def test_when_every_task_has_finished_there_is_nothing_to_checkpoint() -> None:
    bench = Bench()
    for subtask in EVERYONE:
        bench.status(subtask, TaskStatus.FINISHED)
    assert failed(bench.ask()) == [("r", FailureReason.NOT_ALL_REQUIRED_TASKS_RUNNING)]


def test_partly_ended_union_state_aborts_the_checkpoint_and_does_not_count() -> None:
    union = (OperatorPart("all", OperatorStateMode.UNION, 0, StoredObject("u", 1)),)
    bench = Bench(tolerable_failures=0)
    bench.start(1)
    bench.acknowledge(1, READ1, WRITE)
    effects = bench.acknowledge(1, READ0, state=SubtaskState(operator=union, ended=True))
    assert failed(effects) == [("r", FailureReason.CHECKPOINT_DECLINED_TASK_CLOSING)]
    assert not of(WriteMetadata, effects)
    assert not of(FailJob, effects)
    bench.start(2)
    bench.acknowledge(2, READ0, READ1, state=SubtaskState(operator=union, ended=True))
    assert of(WriteMetadata, bench.acknowledge(2, WRITE))


def test_partly_finished_union_state_aborts_the_checkpoint() -> None:
    union = (OperatorPart("all", OperatorStateMode.UNION, 1, StoredObject("u", 1)),)
    bench = Bench(finished=[READ0])
    bench.start(1)
    bench.acknowledge(1, READ1, state=SubtaskState(operator=union))
    assert failed(bench.acknowledge(1, WRITE)) == [("r", FailureReason.CHECKPOINT_DECLINED_TASK_CLOSING)]


# --- operator events -------------------------------------------------------------------------------------------------


def coordinated(*operators: str, **settings: Any) -> Bench:
    return Bench(shape(coordinators=operators or ("read",)), **settings)


def send(bench: Bench, event: str, subtask: int = 0, operator: str = "read") -> list[CoordinatorEffect]:
    return bench.tell(OperatorEventSent(operator, subtask, event))


def begin(bench: Bench, checkpoint_id: int, name: str = "r") -> list[CoordinatorEffect]:
    """Start a checkpoint and take the operator coordinator's state."""
    assert ReserveId(name) in bench.ask(name)
    bench.tell(IdReserved(name, checkpoint_id), LocationCreated(checkpoint_id, f"chk-{checkpoint_id}"))
    return bench.tell(OperatorCoordinatorSnapshotted(checkpoint_id, "read", StoredObject("c", 1, data=b"c")))


def delivered(effects: Iterable[CoordinatorEffect]) -> list[str]:
    return [effect.event for effect in of(OperatorEvent, effects)]


def test_an_event_passes_while_no_checkpoint_holds_it() -> None:
    bench = coordinated()
    assert send(bench, "a", 1) == [OperatorEvent(running(READ1), "read", 0, "a")]
    bench.ask()
    bench.tell(IdReserved("r", 1), LocationCreated(1, "chk-1"))
    assert delivered(send(bench, "b", 0)) == ["b"], "the coordinator's state is not taken yet"


def test_the_next_event_for_a_subtask_leaves_when_the_one_before_has_arrived() -> None:
    bench = coordinated()
    send(bench, "a", 0)
    assert send(bench, "b", 0) == []
    assert delivered(send(bench, "for another", 1)) == ["for another"]
    assert bench.tell(OperatorEventReceived(ATTEMPT, 0)) == [OperatorEvent(running(READ0), "read", 1, "b")]
    assert bench.tell(OperatorEventReceived(ATTEMPT, 0)) == []
    assert bench.tell(OperatorEventReceived(ATTEMPT, 1)) == []
    assert delivered(send(bench, "c", 0)) == ["c"]


def test_from_its_snapshot_on_a_coordinators_events_wait_for_their_subtask() -> None:
    bench = coordinated()
    begin(bench, 1)
    assert send(bench, "for 0", 0) == []
    assert send(bench, "for 1", 1) == []
    assert delivered(bench.acknowledge(1, WRITE)) == []
    assert delivered(bench.acknowledge(1, READ1)) == ["for 1"]
    assert bench.tell(OperatorEventReceived(ATTEMPT, 1)) == []
    assert delivered(send(bench, "more for 1", 1)) == ["more for 1"]
    assert delivered(bench.acknowledge(1, READ0)) == ["for 0"]


def test_events_are_released_by_an_abort_before_anything_new_starts() -> None:
    bench = coordinated()
    begin(bench, 1)
    send(bench, "held")
    bench.ask("next")
    effects = bench.decline(1)
    assert delivered(effects) == ["held"]
    assert effects[-1] == ReserveId("next")


def test_events_for_finished_subtasks_are_dropped() -> None:
    bench = coordinated(finished=[READ0])
    begin(bench, 1)
    send(bench, "dropped", 0)
    send(bench, "held", 1)
    bench.acknowledge(1, WRITE)
    bench.tell(TaskStatusChanged(READ1, TaskStatus.RUNNING))
    assert delivered(bench.acknowledge(1, READ1)) == ["held"]


def test_a_checkpoint_does_not_wait_for_events_of_a_subtask_that_finishes() -> None:
    bench = coordinated()
    send(bench, "on its way", 0)
    assert begin(bench, 1) == []
    assert len(triggered(bench.tell(TaskStatusChanged(READ0, TaskStatus.FINISHED)))) == 2


def test_a_checkpoint_holds_the_events_on_their_way_to_coordinators() -> None:
    bench = coordinated()
    early = EventToCoordinator(ExecutionId(READ1, ATTEMPT), "read", -1, b"early")
    assert bench.tell(early) == [DeliverEvent("read", 1, b"early")]
    begin(bench, 1)
    assert bench.tell(replace(early, event=b"kept")) == [DeliverEvent("read", 1, b"kept")]
    assert bench.tell(replace(early, after=1, event=b"later")) == [DeliverEvent("read", 1, b"later")]
    (write,) = of(WriteMetadata, bench.acknowledge(1, *EVERYONE))
    state = write.snapshot.operators["read"].coordinator
    assert state is not None
    assert state.data is not None
    assert parted(state.data) == (b"c", [InFlightEvent(1, b"kept")])


def test_measurements_of_a_checkpoint_that_failed_are_shown() -> None:
    bench = Bench()
    bench.start(1)
    bench.acknowledge(1, READ0)
    bench.decline(1)
    metrics = SubtaskMetrics(sync_ms=3, async_ms=-1, aborted=True)
    bench.tell(CheckpointMeasured(ExecutionId(READ1, ATTEMPT - 1), 1, metrics))
    assert subtask_metrics(bench, 1) == [None]
    bench.tell(CheckpointMeasured(ExecutionId(READ1, ATTEMPT), 1, metrics))
    assert subtask_metrics(bench, 1) == [metrics]


def subtask_metrics(bench: Bench, index: int) -> list[SubtaskMetrics | None]:
    failed = bench.machine._statistics.snapshot().latest.failed
    assert failed is not None
    return [vertex.subtasks[index].metrics for vertex in failed.vertices if vertex.vertex == "read"]


def test_tasks_are_triggered_only_when_earlier_events_have_surely_arrived() -> None:
    bench = coordinated()
    send(bench, "a", 0)
    send(bench, "b", 1)
    bench.tell(OperatorEventReceived(ATTEMPT, 0))
    assert begin(bench, 1) == []
    assert bench.tell(OperatorEventReceived(ATTEMPT, 7)) == []
    assert len(triggered(bench.tell(OperatorEventReceived(ATTEMPT, 1)))) == 2


def test_events_sent_after_the_snapshot_do_not_delay_the_trigger() -> None:
    bench = coordinated()
    send(bench, "a")
    begin(bench, 1)
    send(bench, "held")
    assert triggered(bench.tell(OperatorEventReceived(ATTEMPT, 0)))


def test_an_event_that_an_earlier_checkpoint_holds_back_must_arrive_before_the_next_triggers() -> None:
    """It was sent before the second snapshot of its coordinator, so it is part of that checkpoint."""
    bench = coordinated(max_concurrent=2)
    begin(bench, 1, "a")
    assert send(bench, "held by 1") == []
    assert begin(bench, 2, "b") == []
    (deliver,) = of(OperatorEvent, bench.acknowledge(1, READ0))
    assert deliver.event == "held by 1"
    assert len(triggered(bench.tell(OperatorEventReceived(ATTEMPT, deliver.sequence)))) == 2


def test_an_event_one_coordinator_holds_back_does_not_stop_another_of_the_same_checkpoint() -> None:
    two = VertexInfo("read", 2, 128, ("read", "parse"), ("read", "parse"))
    bench = Bench(JobShape((two, VertexInfo("write", 1, 128, ("write",))), (Edge("read", "write", False),)))
    begin(bench, 1)
    assert send(bench, "held by 1") == []
    assert delivered(send(bench, "open", operator="parse")) == ["open"]
    assert bench.tell(OperatorCoordinatorSnapshotted(1, "parse", StoredObject("p", 1))) == []
    assert triggered(bench.tell(OperatorEventReceived(ATTEMPT, 1)))


def test_an_event_of_several_checkpoints_waits_for_all_of_them() -> None:
    bench = coordinated(max_concurrent=2)
    begin(bench, 1, "a")
    begin(bench, 2, "b")
    send(bench, "held")
    assert delivered(bench.acknowledge(2, READ0)) == []
    assert delivered(bench.acknowledge(1, READ0)) == ["held"]


def test_a_lost_event_fails_the_job_unless_it_is_known_to_have_arrived() -> None:
    bench = coordinated()
    send(bench, "a")
    assert of(FailJob, bench.tell(OperatorEventLost(0)))
    send(bench, "b")
    bench.tell(OperatorEventReceived(ATTEMPT, 1))
    assert bench.tell(OperatorEventLost(1), OperatorEventLost(99)) == []


# --- leaving RUNNING -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shutdown", "reason"),
    [
        (False, FailureReason.CHECKPOINT_COORDINATOR_SUSPEND),
        (True, FailureReason.CHECKPOINT_COORDINATOR_SHUTDOWN),
    ],
)
def test_leaving_running_aborts_everything_with_one_reason(shutdown: bool, reason: FailureReason) -> None:
    bench = Bench(interval="10s", max_concurrent=3, tolerable_failures=0)
    bench.start(1, "publishing")
    bench.acknowledge(1, *EVERYONE)
    bench.tell(MetadataWritten(1))
    bench.start(2, "collecting")
    bench.ask("starting")
    bench.ask("queued")
    effects = bench.tell(JobLeftRunning(shutdown))
    assert effects[0] == CancelTimer(PERIODIC)
    assert failed(effects) == [(name, reason) for name in ("queued", "collecting", "starting", "publishing")]
    assert not of(FailJob, effects)
    assert not of(SetTimer, effects)
    assert not of(ReserveId, effects)
    assert bench.pending() == ()
    assert bench.activity() is Activity.CLOSED


def test_leaving_running_keeps_what_is_being_published_for_the_journal_to_decide() -> None:
    bench = Bench(max_concurrent=2)
    bench.start(1, "publishing")
    bench.acknowledge(1, *EVERYONE)
    bench.tell(MetadataWritten(1))
    bench.start(2, "collecting")
    bench.acknowledge(2, READ0)
    assert of(Discard, bench.tell(JobLeftRunning())) == [Discard(2, (StoredObject("read/0-2", 1),), "chk-2")]
    assert bench.acknowledge(1, *EVERYONE) == []
    assert bench.tell(Published(1), MetadataWritten(1)) == []
    assert bench.machine.retained.snapshots == ()


def test_after_the_job_has_left_running_nothing_starts_any_more() -> None:
    bench = Bench(interval="10s")
    bench.complete(1)
    bench.complete(2)
    bench.tell(JobLeftRunning())
    assert failed(bench.ask("late")) == [("late", FailureReason.CHECKPOINT_COORDINATOR_SHUTDOWN)]
    assert failed(bench.ask("stop", STOP)) == [("stop", FailureReason.CHECKPOINT_COORDINATOR_SHUTDOWN)]
    assert tick(bench, 10**9) == []
    assert bench.tell(Cleaned(1), BacklogReported("read", True), IdReserved("late", 3)) == []
    assert bench.activity() is Activity.CLOSED


def test_a_stop_that_is_cut_short_is_not_taken_up_again() -> None:
    bench = Bench(interval="10s")
    bench.start(1, "stop", STOP)
    effects = bench.tell(JobLeftRunning())
    assert failed(effects) == [("stop", FailureReason.CHECKPOINT_COORDINATOR_SUSPEND)]
    assert not of(SetTimer, effects)
    assert bench.activity() is Activity.CLOSED


def test_a_job_that_never_ran_may_leave_and_may_leave_twice() -> None:
    bench = Bench(run=False)
    assert bench.tell(JobLeftRunning()) == [CancelTimer(PERIODIC)]
    assert bench.tell(JobLeftRunning(shutdown=True)) == [CancelTimer(PERIODIC)]
    with pytest.raises(IllegalTransitionError):
        bench.tell(JobRunning(0.0))


# --- statistics ------------------------------------------------------------------------------------------------------


def test_statistics_follow_a_checkpoint_to_its_end() -> None:
    bench = Bench(shape(hooks=("hook",)))
    bench.ask()
    assert bench.statistics().counts.total == 0
    bench.tell(IdReserved("r", 1))
    (record,) = bench.statistics().history
    assert (record.status, record.trigger_ms, record.type) == (
        CheckpointStatus.IN_PROGRESS,
        1000,
        CheckpointType.CHECKPOINT,
    )
    bench.tell(LocationCreated(1, "chk-1"), HookSnapshotted(1, "hook", None))
    bench.now_ms = 1200
    bench.acknowledge(1, READ0)
    bench.acknowledge(1, READ0)
    (record,) = bench.statistics().history
    assert (record.totals.acknowledged, record.totals.subtasks, record.totals.latest_ack_ms) == (1, 3, 1200)
    bench.acknowledge(1, READ1, WRITE)
    bench.now_ms = 1300
    bench.publish(1, size_bytes=77)
    completed = bench.statistics().latest.completed
    assert completed is not None
    assert completed.completion is not None
    assert (completed.completion.completed_ms, completed.completion.external_path) == (1300, "chk-1")
    assert completed.completion.metadata_bytes == 77
    assert completed.totals.checkpointed_bytes == 30
    assert bench.statistics().counts.completed == 1


def test_statistics_say_why_a_checkpoint_failed_and_count_what_never_began() -> None:
    bench = Bench()
    bench.start(1)
    bench.decline(1)
    failed = bench.statistics().latest.failed
    assert failed is not None
    assert failed.failure is not None
    assert (failed.id, failed.failure.reason) == (1, FailureReason.CHECKPOINT_DECLINED)
    assert failed.failure.message == "write/0#3 declined: no"
    bench.ask("never")
    bench.tell(StepFailed("never", None, "no id"))
    snapshot = bench.statistics()
    assert (snapshot.counts.total, snapshot.counts.failed, snapshot.counts.in_progress) == (2, 2, 0)
    assert snapshot.latest.failed is not None
    assert snapshot.latest.failed.failure == snapshot.latest.not_started
    assert snapshot.latest.not_started is not None
    assert snapshot.latest.not_started.reason is FailureReason.IO_EXCEPTION


def test_statistics_know_unaligned_checkpoints_and_savepoints() -> None:
    bench = Bench(unaligned=True)
    bench.start(1)
    assert bench.statistics().history[0].type is CheckpointType.UNALIGNED_CHECKPOINT
    bench.decline(1)
    bench.start(2, "s", SAVEPOINT)
    bench.acknowledge(2, *EVERYONE)
    bench.publish(2, size_bytes=5)
    savepoint = bench.statistics().latest.savepoint
    assert savepoint is not None
    assert savepoint.type is CheckpointType.SAVEPOINT
    assert savepoint.savepoint_format is SavepointFormat.CANONICAL
    assert savepoint.completion is not None
    assert savepoint.completion.metadata_bytes == 5
    assert bench.statistics().latest.completed is None


def test_statistics_count_finished_subtasks_as_acknowledged() -> None:
    bench = Bench(finished=[READ0])
    bench.start(1)
    (record,) = bench.statistics().history
    assert (record.totals.subtasks, record.totals.acknowledged) == (3, 1)
    bench.status(READ1, TaskStatus.FINISHED)
    bench.decline(1)
    bench.start(2)
    newest = bench.statistics().history[0]
    assert [vertex.vertex for vertex in newest.vertices] == ["read", "write"]
    assert (newest.totals.subtasks, newest.totals.acknowledged) == (3, 2)


def test_statistics_say_which_checkpoints_are_gone() -> None:
    bench = Bench()
    bench.complete(1)
    bench.complete(2)
    bench.tell(Cleaned(1))
    second, first = bench.statistics().history
    assert first.completion is not None
    assert first.completion.discarded
    assert second.completion is not None
    assert not second.completion.discarded


def test_statistics_go_on_over_attempts_that_share_a_carryover() -> None:
    first = Bench()
    first.complete(1)
    second = Bench(carryover=first.carryover)
    second.complete(2)
    assert second.statistics().counts.completed == 2


# --- from one attempt to the next ------------------------------------------------------------------------------------


def test_after_a_failover_the_first_checkpoint_waits_for_the_minimum_pause_alone() -> None:
    first = Bench(run=False, interval="60s", min_pause="1s")
    for subtask in EVERYONE:
        first.status(subtask, TaskStatus.RUNNING)
    assert SetTimer(PERIODIC, first.now_ms + 30_500) in first.tell(JobRunning(0.5))
    first.tell(JobLeftRunning())
    second = Bench(run=False, carryover=first.carryover, interval="60s", min_pause="1s")
    for subtask in EVERYONE:
        second.status(subtask, TaskStatus.RUNNING)
    assert SetTimer(PERIODIC, second.now_ms + 1_000) in second.tell(JobRunning(0.5))


def test_the_minimum_pause_is_measured_from_the_last_completion_of_an_earlier_attempt() -> None:
    first = Bench(interval="60s", min_pause="10s")
    first.carryover.last_completed_ms = first.now_ms
    second = Bench(carryover=first.carryover, interval="60s", min_pause="10s")
    second.now_ms += 1_000
    periodic = TriggerRequest("p", CHECKPOINT, False, True, second.now_ms)
    effects = second.tell(CheckpointRequested(periodic))
    assert FailRequest(periodic, FailureReason.MINIMUM_TIME_BETWEEN_CHECKPOINTS, "the request was dropped") in effects


def test_a_step_that_knows_why_it_failed_says_so() -> None:
    bench = Bench()
    bench.ask("r")
    reason = FailureReason.NOT_ALL_REQUIRED_TASKS_RUNNING
    effects = bench.tell(StepFailed("r", None, "a task left", io=False, reason=reason))
    assert [effect.reason for effect in effects if isinstance(effect, FailRequest)] == [reason]


def test_of_two_hooks_with_one_name_the_second_is_ignored() -> None:
    assert JobShape((), (), ("h", "g", "h")).hooks == ("h", "g")
