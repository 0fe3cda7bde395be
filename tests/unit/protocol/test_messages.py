"""One vocabulary between the driver and its tasks: what one machine orders, the other takes in as it is."""

from __future__ import annotations

import dataclasses

import pytest

from snapline.config import Checkpoints
from snapline.protocol import messages as m
from snapline.protocol.coordinator.carryover import Carryover
from snapline.protocol.coordinator.checkpoint_coordinator import CheckpointCoordinator
from snapline.protocol.coordinator.coordinator_events import (
    CheckpointRequested,
    CoordinatorEffect,
    CoordinatorEvent,
    IdReserved,
    JobRunning,
    LocationCreated,
    MetadataWritten,
    Published,
    TaskStatusChanged,
)
from snapline.protocol.coordinator.request_decider import TriggerRequest
from snapline.protocol.coordinator.task_board import JobShape
from snapline.protocol.retention.retained_snapshots import RetainedSnapshots
from snapline.protocol.snapshot import VertexInfo
from snapline.protocol.subtask.subtask_events import (
    AsynchronousPartFinished,
    NotifyOperatorsCompleted,
    SynchronousPartFinished,
)
from snapline.protocol.subtask.subtask_machine import SubtaskMachine
from snapline.types import NO_CHECKPOINT, ExecutionId, SnapshotKind, SubtaskId, TaskStatus

READ = SubtaskId("read", 0)
ME = ExecutionId(READ, 3)
MESSAGES = [value for value in vars(m).values() if dataclasses.is_dataclass(value) and value.__module__ == m.__name__]


class Coordinator:
    """A coordinator of one source subtask."""

    def __init__(self) -> None:
        config = Checkpoints()
        shape = JobShape((VertexInfo("read", 1, 128, ("read",)),), (), ())
        retained = RetainedSnapshots(config.retained)
        self.machine = CheckpointCoordinator(ME.attempt, config, shape, Carryover.fresh(config), retained)
        self.tell(TaskStatusChanged(READ, TaskStatus.RUNNING), JobRunning(0.0))

    def tell(self, *events: CoordinatorEvent) -> list[CoordinatorEffect]:
        return [effect for event in events for effect in self.machine.handle(event, 1000)]


def test_a_checkpoint_goes_there_and_back_without_translation() -> None:
    coordinator = Coordinator()
    subtask = SubtaskMachine(ME, has_inputs=False, has_outputs=False)
    coordinator.tell(CheckpointRequested(TriggerRequest("r", SnapshotKind.CHECKPOINT, False, False, 0)))
    (trigger,) = coordinator.tell(IdReserved("r", 7), LocationCreated(7, "chk-7"))[-1:]
    assert isinstance(trigger, m.TriggerCheckpoint)
    assert subtask.handle(trigger, 1000)
    written = AsynchronousPartFinished(7, {}, 0, 0, 0)
    (*_, answer) = [
        effect for event in (SynchronousPartFinished(7, 0), written) for effect in subtask.handle(event, 1000)
    ]
    assert isinstance(answer, m.Acknowledge)
    assert coordinator.tell(answer)
    effects = coordinator.tell(MetadataWritten(7), Published(7))
    (notice,) = [effect for effect in effects if isinstance(effect, m.CheckpointCompleted)]
    assert subtask.handle(notice, 1000) == [NotifyOperatorsCompleted(7)]


def test_the_answer_of_an_older_attempt_does_not_complete_a_checkpoint() -> None:
    coordinator = Coordinator()
    coordinator.tell(CheckpointRequested(TriggerRequest("r", SnapshotKind.CHECKPOINT, False, False, 0)))
    (trigger,) = coordinator.tell(IdReserved("r", 7), LocationCreated(7, "chk-7"))[-1:]
    assert isinstance(trigger, m.TriggerCheckpoint)
    older = ME._replace(attempt=2)
    subtask = SubtaskMachine(older, has_inputs=False, has_outputs=False)
    assert subtask.handle(trigger, 1000) == [], "it is for another execution"
    subtask.handle(m.TriggerCheckpoint(older, trigger.barrier), 1000)
    subtask.handle(SynchronousPartFinished(7, 0), 1000)
    (answer,) = subtask.handle(AsynchronousPartFinished(7, {}, 0, 0, 0), 1000)
    assert isinstance(answer, m.Acknowledge)
    assert coordinator.tell(answer) == []


@pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: kind.__name__)
def test_every_message_says_of_which_attempt_it_is(kind: type) -> None:
    names = {field.name for field in dataclasses.fields(kind)}
    assert names & {"execution", "attempt"}


def test_a_completion_may_replace_nothing_and_a_report_may_be_without_an_error() -> None:
    assert m.CheckpointCompleted(ME, 7).subsumed_id == NO_CHECKPOINT
    report = m.TaskReport(ME, TaskStatus.RUNNING)
    assert (report.error, report.trace, report.log, report.is_final) == ("", "", "", False)
