"""One subtask's part in checkpoints: what is ordered, in which order, and how the subtask ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import permutations

import pytest

from snapline.errors import EngineError, IllegalTransitionError
from snapline.protocol.barriers.barrier_events import AlignmentMetrics, CheckpointTriggered, HandlerAborted
from snapline.protocol.messages import (
    Acknowledge,
    CheckpointAborted,
    CheckpointCompleted,
    CheckpointMeasured,
    Decline,
    TriggerCheckpoint,
)
from snapline.protocol.snapshot import OperatorPart, StoredObject, SubtaskState
from snapline.protocol.statistics.checkpoint_records import SubtaskMetrics
from snapline.protocol.subtask.subtask_events import (
    AsynchronousPartFailed,
    AsynchronousPartFinished,
    BroadcastBarrier,
    BroadcastCancelMarker,
    BroadcastEndOfData,
    CancelSnapshot,
    DataEnded,
    EndInput,
    FailTask,
    FinishTask,
    InputsFinished,
    NotifyOperatorsAborted,
    NotifyOperatorsCompleted,
    NotifyOperatorsSubsumed,
    OutputsConsumed,
    OutputsFinished,
    OutputTimerFired,
    PartitionsEnded,
    PrepareSnapshot,
    PrioritizeOutputs,
    ResumeSources,
    SetOutputTimer,
    StopSources,
    SubtaskEffect,
    SubtaskEvent,
    SynchronousPartFinished,
    TakeSnapshot,
    WorkChanged,
    WriteSnapshot,
)
from snapline.protocol.subtask.subtask_machine import Life, SubtaskMachine
from snapline.types import (
    NO_CHECKPOINT,
    AbortReason,
    Barrier,
    BarrierKind,
    ExecutionId,
    FailureReason,
    OperatorStateMode,
    SnapshotKind,
    SubtaskId,
)

ATTEMPT = 3
ME = ExecutionId(SubtaskId("map", 1), ATTEMPT)
METRICS = AlignmentMetrics(start_delay_ms=7, duration_ms=5, processed_bytes=11)
STATE: Mapping[str, SubtaskState] = {
    "map": SubtaskState(
        operator=(OperatorPart("offsets", OperatorStateMode.SPLIT, 2, StoredObject("chk/map-1", 40)),),
    )
}
ALIGNED, UNALIGNED = BarrierKind.ALIGNED, BarrierKind.UNALIGNED
WITH_TIMEOUT, FORCED = BarrierKind.ALIGNED_WITH_TIMEOUT, BarrierKind.FORCED_ALIGNED


def barrier(checkpoint_id: int, kind: BarrierKind = ALIGNED, timeout_ms: int | None = None) -> Barrier:
    return Barrier(checkpoint_id, timestamp_ms=100, kind=kind, timeout_ms=timeout_ms)


def stop_barrier(checkpoint_id: int, *, drain: bool = False) -> Barrier:
    return Barrier(checkpoint_id, 100, snapshot=SnapshotKind.SYNC_SAVEPOINT, drain=drain)


class Subtask:
    """A machine and a clock; `tell` takes facts in turn and returns all that was ordered."""

    def __init__(
        self,
        *,
        has_inputs: bool = True,
        has_outputs: bool = True,
        final_checkpoint: bool = True,
        max_remembered_aborts: int = 1,
        last_checkpoint_id: int = NO_CHECKPOINT,
    ) -> None:
        self.now_ms = 1000
        self.measured: list[CheckpointMeasured] = []
        self.machine = SubtaskMachine(
            ME,
            has_inputs=has_inputs,
            has_outputs=has_outputs,
            final_checkpoint=final_checkpoint,
            max_remembered_aborts=max_remembered_aborts,
            last_checkpoint_id=last_checkpoint_id,
        )

    def tell(self, *events: SubtaskEvent) -> list[SubtaskEffect]:
        """Measurements of checkpoints that were given up are in `measured` instead."""
        effects = [effect for event in events for effect in self.machine.handle(event, self.now_ms)]
        self.measured += [effect for effect in effects if isinstance(effect, CheckpointMeasured)]
        return [effect for effect in effects if not isinstance(effect, CheckpointMeasured)]

    def life(self) -> Life:
        return self.machine.life

    def acknowledge(self, checkpoint_id: int) -> None:
        """Go through a whole aligned checkpoint."""
        effects = self.tell(
            triggered(barrier(checkpoint_id)),
            InputsFinished(checkpoint_id, METRICS),
            SynchronousPartFinished(checkpoint_id, 2),
            written(checkpoint_id),
        )
        assert isinstance(effects[-1], Acknowledge)


def triggered(barrier: Barrier, start_delay_ms: int = 0) -> CheckpointTriggered:
    return CheckpointTriggered(barrier, start_delay_ms)


def written(checkpoint_id: int) -> AsynchronousPartFinished:
    return AsynchronousPartFinished(checkpoint_id, STATE, checkpointed_bytes=40, state_bytes=90, duration_ms=6)


def completed(checkpoint_id: int, subsumed_id: int = NO_CHECKPOINT) -> CheckpointCompleted:
    return CheckpointCompleted(ME, checkpoint_id, subsumed_id)


def aborted(checkpoint_id: int) -> CheckpointAborted:
    return CheckpointAborted(ME, checkpoint_id)


def declined(checkpoint_id: int, reason: FailureReason, message: str = "") -> Decline:
    return Decline(ME, checkpoint_id, reason, message)


# --- the trigger -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [ALIGNED, UNALIGNED])
def test_at_the_trigger_the_barrier_leaves_before_the_snapshot_is_taken(kind: BarrierKind) -> None:
    subtask = Subtask()
    assert subtask.tell(triggered(barrier(1, kind))) == [
        PrepareSnapshot(1),
        BroadcastBarrier(barrier(1, kind)),
        TakeSnapshot(barrier(1, kind)),
    ]


@pytest.mark.parametrize(
    ("now_ms", "at_ms"), [(100, 350), (300, 350), (350, 350), (400, 400)], ids=["new", "young", "due", "overdue"]
)
def test_a_barrier_with_a_timeout_sets_the_output_timer_behind_it(now_ms: int, at_ms: int) -> None:
    subtask = Subtask()
    subtask.now_ms = now_ms
    timed = barrier(1, WITH_TIMEOUT, 250)
    assert subtask.tell(triggered(timed)) == [
        PrepareSnapshot(1),
        BroadcastBarrier(timed),
        SetOutputTimer(1, at_ms),
        TakeSnapshot(timed),
    ]


def test_without_outputs_there_is_no_output_timer() -> None:
    timed = barrier(1, WITH_TIMEOUT, 250)
    assert Subtask(has_outputs=False).tell(triggered(timed)) == [
        PrepareSnapshot(1),
        BroadcastBarrier(timed),
        TakeSnapshot(timed),
    ]


@pytest.mark.parametrize(("timeout_ms", "kind"), [(None, UNALIGNED), (950, WITH_TIMEOUT)])
def test_behind_an_edge_that_forced_alignment_a_barrier_regains_its_kind(
    timeout_ms: int | None, kind: BarrierKind
) -> None:
    subtask = Subtask()
    original = barrier(1, kind, timeout_ms)
    timer = [SetOutputTimer(1, 1050)] if timeout_ms is not None else []
    assert subtask.tell(triggered(barrier(1, FORCED, timeout_ms))) == [
        PrepareSnapshot(1),
        BroadcastBarrier(original),
        *timer,
        TakeSnapshot(original),
    ]


def test_a_plain_savepoint_is_taken_like_an_aligned_checkpoint() -> None:
    savepoint = Barrier(1, 100, snapshot=SnapshotKind.SAVEPOINT)
    subtask = Subtask()
    assert subtask.tell(triggered(savepoint)) == [
        PrepareSnapshot(1),
        BroadcastBarrier(savepoint),
        TakeSnapshot(savepoint),
    ]
    assert subtask.life() is Life.RUNNING


@pytest.mark.parametrize(("drain", "first"), [(True, EndInput()), (False, StopSources())])
def test_stop_with_savepoint_ends_the_data_before_all_else(drain: bool, first: SubtaskEffect) -> None:
    subtask = Subtask()
    savepoint = stop_barrier(1, drain=drain)
    assert subtask.tell(triggered(savepoint)) == [
        first,
        PrepareSnapshot(1),
        BroadcastBarrier(savepoint),
        TakeSnapshot(savepoint, ended=drain),
    ]
    assert subtask.life() is Life.STOPPING


def test_a_source_is_triggered_by_the_coordinator_and_needs_no_inputs() -> None:
    source = Subtask(has_inputs=False)
    assert source.tell(TriggerCheckpoint(ME, barrier(1))) == [
        PrepareSnapshot(1),
        BroadcastBarrier(barrier(1)),
        TakeSnapshot(barrier(1)),
    ]
    *_, acknowledgement = source.tell(SynchronousPartFinished(1, 2), written(1))
    assert isinstance(acknowledgement, Acknowledge)
    metrics = acknowledgement.metrics
    assert (metrics.start_delay_ms, metrics.alignment_ms, metrics.processed_bytes) == (900, 0, 0)


def test_the_start_delay_of_a_source_is_never_negative() -> None:
    source = Subtask(has_inputs=False)
    source.now_ms = 50
    *_, acknowledgement = source.tell(
        TriggerCheckpoint(ME, barrier(1)), SynchronousPartFinished(1, 2), AsynchronousPartFinished(1, {}, 0, 0, 0)
    )
    assert isinstance(acknowledgement, Acknowledge)
    assert acknowledgement.metrics.start_delay_ms == 0


# --- ids out of order ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("late", [1, 2])
def test_ids_that_are_not_newer_are_ignored(late: int) -> None:
    subtask = Subtask(has_inputs=False)
    subtask.tell(TriggerCheckpoint(ME, barrier(2)))
    assert subtask.tell(TriggerCheckpoint(ME, barrier(late))) == []
    assert subtask.tell(triggered(barrier(late))) == []


def test_ids_up_to_the_restored_one_are_ignored() -> None:
    subtask = Subtask(last_checkpoint_id=5)
    assert subtask.tell(triggered(barrier(5))) == []
    assert subtask.tell(triggered(barrier(6)))[0] == PrepareSnapshot(6)


def test_ids_may_skip() -> None:
    subtask = Subtask()
    subtask.tell(triggered(barrier(1)))
    assert subtask.tell(triggered(barrier(4)))[0] == PrepareSnapshot(4)


# --- the acknowledgement ---------------------------------------------------------------------------------------------


def test_each_part_leads_to_the_next() -> None:
    subtask = Subtask()
    subtask.tell(triggered(barrier(1), start_delay_ms=3))
    assert subtask.tell(InputsFinished(1, METRICS, persisted_bytes=13)) == []
    assert subtask.tell(SynchronousPartFinished(1, 2)) == [WriteSnapshot(1)]
    assert subtask.tell(written(1)) == [
        Acknowledge(
            ME,
            1,
            STATE,
            SubtaskMetrics(
                checkpointed_bytes=40,
                state_bytes=90,
                sync_ms=2,
                async_ms=6,
                alignment_ms=5,
                start_delay_ms=3,
                processed_bytes=11,
                persisted_bytes=13,
                unaligned=True,
            ),
        )
    ]


def test_the_acknowledgement_waits_for_the_inputs() -> None:
    subtask = Subtask()
    effects = subtask.tell(triggered(barrier(1)), SynchronousPartFinished(1, 2), written(1))
    assert effects[-1] == WriteSnapshot(1)
    (acknowledgement,) = subtask.tell(InputsFinished(1, METRICS))
    assert isinstance(acknowledgement, Acknowledge)


@pytest.mark.parametrize("captured", [barrier(1, UNALIGNED), barrier(1, WITH_TIMEOUT, 250), barrier(1, FORCED)])
def test_the_acknowledgement_waits_for_outputs_that_may_be_captured(captured: Barrier) -> None:
    subtask = Subtask()
    effects = subtask.tell(
        triggered(captured),
        InputsFinished(1, METRICS, persisted_bytes=13),
        SynchronousPartFinished(1, 2),
        written(1),
    )
    assert effects[-1] == WriteSnapshot(1)
    (acknowledgement,) = subtask.tell(OutputsFinished(1, persisted_bytes=100))
    assert isinstance(acknowledgement, Acknowledge)
    assert acknowledgement.metrics.persisted_bytes == 113


@pytest.mark.parametrize(
    "order",
    [
        [InputsFinished(1, METRICS), OutputsFinished(1), SynchronousPartFinished(1, 2), written(1)],
        [OutputsFinished(1), SynchronousPartFinished(1, 2), InputsFinished(1, METRICS), written(1)],
        [SynchronousPartFinished(1, 2), written(1), OutputsFinished(1), InputsFinished(1, METRICS)],
        [SynchronousPartFinished(1, 2), OutputsFinished(1), written(1), InputsFinished(1, METRICS)],
    ],
)
def test_the_acknowledgement_is_sent_once_with_the_last_part(order: list[SubtaskEvent]) -> None:
    subtask = Subtask()
    subtask.tell(triggered(barrier(1, UNALIGNED)))
    before = subtask.tell(*order[:-1])
    assert not any(isinstance(effect, Acknowledge) for effect in before)
    (acknowledgement,) = subtask.tell(order[-1])
    assert isinstance(acknowledgement, Acknowledge)
    assert subtask.tell(InputsFinished(1, METRICS), OutputsFinished(1), written(1)) == []


def test_without_outputs_an_unaligned_checkpoint_does_not_wait_for_them() -> None:
    subtask = Subtask(has_outputs=False)
    *_, acknowledgement = subtask.tell(
        triggered(barrier(1, UNALIGNED)),
        InputsFinished(1, METRICS),
        SynchronousPartFinished(1, 2),
        written(1),
    )
    assert isinstance(acknowledgement, Acknowledge)


@pytest.mark.parametrize(
    ("kind", "persisted_bytes", "unaligned"),
    [(ALIGNED, 0, False), (UNALIGNED, 0, True), (WITH_TIMEOUT, 0, False), (WITH_TIMEOUT, 1, True)],
)
def test_a_checkpoint_is_reported_as_unaligned_if_it_is_or_holds_in_flight_data(
    kind: BarrierKind, persisted_bytes: int, unaligned: bool
) -> None:
    subtask = Subtask()
    *_, acknowledgement = subtask.tell(
        triggered(barrier(1, kind, 10 if kind is WITH_TIMEOUT else None)),
        InputsFinished(1, AlignmentMetrics(0, 0, 0)),
        OutputsFinished(1, persisted_bytes),
        SynchronousPartFinished(1, 2),
        written(1),
    )
    assert isinstance(acknowledgement, Acknowledge)
    assert acknowledgement.metrics.unaligned is unaligned


def test_two_checkpoints_may_be_written_at_once_and_are_acknowledged_apart() -> None:
    subtask = Subtask(max_remembered_aborts=2)
    subtask.tell(triggered(barrier(1)), InputsFinished(1, METRICS), SynchronousPartFinished(1, 2))
    subtask.tell(triggered(barrier(2)), InputsFinished(2, METRICS), SynchronousPartFinished(2, 2))
    (second,) = subtask.tell(written(2))
    (first,) = subtask.tell(written(1))
    assert isinstance(first, Acknowledge)
    assert isinstance(second, Acknowledge)
    assert (first.checkpoint_id, second.checkpoint_id) == (1, 2)


# --- the output timer ------------------------------------------------------------------------------------------------


def test_the_output_timer_lets_the_barrier_overtake() -> None:
    subtask = Subtask()
    subtask.tell(triggered(barrier(1, WITH_TIMEOUT, 250)))
    assert subtask.tell(OutputTimerFired(1)) == [PrioritizeOutputs(1)]


def test_the_output_timer_changes_nothing_once_the_barrier_has_left() -> None:
    subtask = Subtask()
    subtask.tell(triggered(barrier(1, WITH_TIMEOUT, 250)), OutputsFinished(1))
    assert subtask.tell(OutputTimerFired(1)) == []


def test_the_output_timer_of_a_checkpoint_that_is_over_changes_nothing() -> None:
    subtask = Subtask()
    subtask.tell(triggered(barrier(1, WITH_TIMEOUT, 250)), aborted(1))
    assert subtask.tell(OutputTimerFired(1), OutputTimerFired(9)) == []


# --- giving up -------------------------------------------------------------------------------------------------------


def test_an_id_aborted_before_its_barrier_is_skipped_and_cancelled_downstream() -> None:
    subtask = Subtask()
    assert subtask.tell(aborted(1)) == [NotifyOperatorsAborted(1)]
    assert subtask.tell(triggered(barrier(1))) == [CancelSnapshot(1), BroadcastCancelMarker(1)]
    assert subtask.tell(triggered(barrier(1))) == []
    assert subtask.tell(triggered(barrier(2)))[0] == PrepareSnapshot(2)


def test_only_so_many_aborted_ids_are_remembered_the_newest() -> None:
    subtask = Subtask(max_remembered_aborts=2)
    subtask.tell(aborted(1), aborted(3), aborted(2), aborted(3))
    assert subtask.tell(triggered(barrier(1)))[0] == PrepareSnapshot(1)
    assert subtask.tell(triggered(barrier(2)))[0] == CancelSnapshot(2)
    assert subtask.tell(triggered(barrier(3)))[0] == CancelSnapshot(3)


def test_a_repeated_abort_takes_no_second_place() -> None:
    subtask = Subtask(max_remembered_aborts=2)
    subtask.tell(aborted(1), aborted(2), aborted(2))
    assert subtask.tell(triggered(barrier(1)))[0] == CancelSnapshot(1)


def test_an_abort_of_an_id_that_is_already_past_is_not_remembered() -> None:
    subtask = Subtask(max_remembered_aborts=1)
    subtask.tell(aborted(9), triggered(barrier(3)))
    subtask.tell(aborted(2))
    assert subtask.tell(triggered(barrier(9)))[0] == CancelSnapshot(9)


def test_an_abort_cancels_what_is_being_written() -> None:
    subtask = Subtask()
    subtask.tell(triggered(barrier(1)), SynchronousPartFinished(1, 2))
    assert subtask.tell(aborted(1)) == [CancelSnapshot(1), NotifyOperatorsAborted(1)]
    assert subtask.tell(written(1), InputsFinished(1, METRICS), OutputsFinished(1)) == []


@pytest.mark.parametrize(
    "before",
    [[], [SynchronousPartFinished(1, 2)], [SynchronousPartFinished(1, 2), written(1)]],
    ids=["triggered", "writing", "written"],
)
def test_an_abort_is_possible_until_the_acknowledgement(before: list[SubtaskEvent]) -> None:
    subtask = Subtask()
    subtask.tell(triggered(barrier(1)), *before)
    assert subtask.tell(aborted(1))[0] == CancelSnapshot(1)
    assert subtask.tell(SynchronousPartFinished(1, 2)) == []
    assert subtask.life() is Life.RUNNING


def test_after_the_acknowledgement_an_abort_only_tells_the_operators() -> None:
    subtask = Subtask()
    subtask.acknowledge(1)
    assert subtask.tell(aborted(1)) == [NotifyOperatorsAborted(1)]


@pytest.mark.parametrize(
    ("reason", "failure"),
    [
        (AbortReason.CANCELLED, FailureReason.CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER),
        (AbortReason.SUBSUMED, FailureReason.CHECKPOINT_DECLINED_SUBSUMED),
        (AbortReason.END_OF_STREAM, FailureReason.CHECKPOINT_DECLINED_INPUT_END_OF_STREAM),
    ],
)
def test_a_handlers_abort_is_declined_and_cancelled_downstream(reason: AbortReason, failure: FailureReason) -> None:
    subtask = Subtask()
    assert subtask.tell(HandlerAborted(1, reason)) == [declined(1, failure), BroadcastCancelMarker(1)]
    assert subtask.tell(triggered(barrier(1))) == []


def test_a_handlers_abort_cancels_a_triggered_snapshot_first() -> None:
    subtask = Subtask()
    subtask.tell(triggered(barrier(1, UNALIGNED)), SynchronousPartFinished(1, 2))
    assert subtask.tell(HandlerAborted(1, AbortReason.CANCELLED)) == [
        CancelSnapshot(1),
        declined(1, FailureReason.CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER),
        BroadcastCancelMarker(1),
    ]
    assert subtask.tell(written(1)) == []


def test_a_handlers_abort_of_an_older_id_leaves_a_newer_one_alone() -> None:
    subtask = Subtask()
    subtask.tell(triggered(barrier(5)), InputsFinished(5, METRICS), SynchronousPartFinished(5, 2))
    subtask.tell(HandlerAborted(4, AbortReason.SUBSUMED))
    (acknowledgement,) = subtask.tell(written(5))
    assert isinstance(acknowledgement, Acknowledge)


def test_a_handlers_abort_makes_room_among_the_remembered_aborts() -> None:
    subtask = Subtask(max_remembered_aborts=1)
    subtask.tell(aborted(1), HandlerAborted(1, AbortReason.CANCELLED), aborted(2))
    assert subtask.tell(triggered(barrier(2)))[0] == CancelSnapshot(2)


# --- failures --------------------------------------------------------------------------------------------------------


def test_a_failure_in_the_asynchronous_part_declines_and_the_task_goes_on() -> None:
    subtask = Subtask()
    subtask.tell(triggered(barrier(1)), SynchronousPartFinished(1, 2))
    assert subtask.tell(AsynchronousPartFailed(1, "disk full")) == [
        CancelSnapshot(1),
        declined(1, FailureReason.CHECKPOINT_ASYNC_EXCEPTION, "disk full"),
    ]
    assert subtask.tell(InputsFinished(1, METRICS), AsynchronousPartFailed(1, "again")) == []
    assert subtask.life() is Life.RUNNING
    assert subtask.tell(triggered(barrier(2)))[0] == PrepareSnapshot(2)


def test_parts_out_of_turn_are_a_defect_and_change_nothing() -> None:
    subtask = Subtask()
    subtask.tell(triggered(barrier(1)), InputsFinished(1, METRICS))
    with pytest.raises(IllegalTransitionError):
        subtask.tell(written(1))
    (effect,) = subtask.tell(SynchronousPartFinished(1, 2))
    assert effect == WriteSnapshot(1)
    with pytest.raises(IllegalTransitionError):
        subtask.tell(SynchronousPartFinished(1, 2))


def test_a_part_cannot_fail_out_of_turn() -> None:
    subtask = Subtask()
    subtask.tell(triggered(barrier(1)))
    with pytest.raises(IllegalTransitionError):
        subtask.tell(AsynchronousPartFailed(1, "nothing is being written"))
    assert subtask.life() is Life.RUNNING


@pytest.mark.parametrize(
    "event",
    [
        InputsFinished(4, METRICS),
        OutputsFinished(4),
        SynchronousPartFinished(4, 1),
        written(4),
        AsynchronousPartFailed(4, "x"),
        OutputTimerFired(4),
    ],
)
def test_words_about_a_checkpoint_nobody_works_on_change_nothing(event: SubtaskEvent) -> None:
    subtask = Subtask()
    assert subtask.tell(event) == []
    assert subtask.life() is Life.RUNNING


# --- notifications ---------------------------------------------------------------------------------------------------


def test_operators_hear_of_a_completion_once() -> None:
    subtask = Subtask()
    subtask.acknowledge(2)
    assert subtask.tell(completed(2, subsumed_id=1)) == [NotifyOperatorsCompleted(2), NotifyOperatorsSubsumed(1)]
    assert subtask.tell(completed(2, subsumed_id=1), completed(1)) == []
    assert subtask.tell(completed(3)) == [NotifyOperatorsCompleted(3)]


def test_a_completed_checkpoint_ends_older_ones_even_if_the_notice_of_their_abort_is_lost() -> None:
    subtask = Subtask()
    subtask.tell(triggered(barrier(1)), SynchronousPartFinished(1, 2))
    subtask.acknowledge(2)
    assert subtask.tell(completed(2)) == [CancelSnapshot(1), NotifyOperatorsAborted(1), NotifyOperatorsCompleted(2)]
    assert [(item.checkpoint_id, item.metrics.aborted) for item in subtask.measured] == [(1, True)]
    assert subtask.tell(AsynchronousPartFinished(1, STATE, 1, 1, 1)) == []


def test_a_completed_checkpoint_does_not_end_an_older_savepoint() -> None:
    subtask = Subtask()
    savepoint = Barrier(1, 100, snapshot=SnapshotKind.SAVEPOINT)
    subtask.tell(triggered(savepoint), InputsFinished(1, METRICS), SynchronousPartFinished(1, 2))
    subtask.acknowledge(2)
    assert subtask.tell(completed(2)) == [NotifyOperatorsCompleted(2)]
    assert isinstance(subtask.tell(AsynchronousPartFinished(1, STATE, 1, 1, 1))[0], Acknowledge)


def test_a_checkpoint_that_is_given_up_shows_how_far_it_came() -> None:
    subtask = Subtask()
    subtask.tell(CheckpointTriggered(barrier(1), 40), SynchronousPartFinished(1, 2), aborted(1))
    subtask.tell(CheckpointTriggered(barrier(2), 50), SynchronousPartFinished(2, 3))
    subtask.tell(InputsFinished(2, METRICS, persisted_bytes=9), AsynchronousPartFailed(2, "disk full"))
    subtask.tell(aborted(3), CheckpointTriggered(barrier(3), 700))
    unknown = SubtaskMetrics(-1, -1, -1, -1, -1, 0, -1, aborted=True)
    assert [(item.execution, item.checkpoint_id, item.metrics) for item in subtask.measured] == [
        (ME, 1, replace(unknown, sync_ms=2, start_delay_ms=40)),
        (
            ME,
            2,
            replace(
                unknown,
                sync_ms=3,
                start_delay_ms=50,
                alignment_ms=5,
                processed_bytes=11,
                persisted_bytes=9,
                unaligned=True,
            ),
        ),
        (ME, 3, replace(unknown, start_delay_ms=700)),
    ], "the barrier of the third came too late"


@pytest.mark.parametrize(
    "execution",
    [
        ExecutionId(SubtaskId("map", 1), ATTEMPT - 1),
        ExecutionId(SubtaskId("map", 1), ATTEMPT + 1),
        ExecutionId(SubtaskId("map", 0), ATTEMPT),
        ExecutionId(SubtaskId("sink", 1), ATTEMPT),
    ],
    ids=str,
)
def test_messages_to_another_execution_are_ignored(execution: ExecutionId) -> None:
    subtask = Subtask(has_inputs=False)
    subtask.acknowledge(1)
    assert subtask.tell(TriggerCheckpoint(execution, barrier(2))) == []
    assert subtask.tell(CheckpointCompleted(execution, 1)) == []
    assert subtask.tell(CheckpointAborted(execution, 2)) == []
    assert subtask.tell(TriggerCheckpoint(ME, barrier(2)))[0] == PrepareSnapshot(2)
    assert subtask.tell(completed(1)) == [NotifyOperatorsCompleted(1)]


# --- the end ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", list(permutations([completed(2), PartitionsEnded(), OutputsConsumed()])))
def test_an_ended_subtask_leaves_when_its_last_checkpoint_is_complete_and_nobody_needs_it(
    order: tuple[SubtaskEvent, ...],
) -> None:
    subtask = Subtask()
    subtask.tell(DataEnded())
    subtask.acknowledge(2)
    assert FinishTask() not in subtask.tell(*order[:-1])
    assert subtask.tell(order[-1])[-1] == FinishTask()
    assert subtask.life() is Life.FINISHED


def test_a_subtask_answers_every_checkpoint_it_has_begun_before_it_leaves() -> None:
    subtask = Subtask(has_inputs=False, has_outputs=False)
    subtask.tell(DataEnded())
    subtask.acknowledge(1)
    subtask.tell(triggered(barrier(2)), SynchronousPartFinished(2, 0))
    assert FinishTask() not in subtask.tell(completed(1)), "all others would wait for its answer to checkpoint 2"
    effects = subtask.tell(AsynchronousPartFinished(2, {}, 0, 0, 0))
    assert isinstance(effects[0], Acknowledge)
    assert effects[-1] == FinishTask()


@pytest.mark.parametrize("end", [AsynchronousPartFailed(2, "full"), CheckpointAborted(ME, 2)])
def test_a_subtask_leaves_once_the_last_checkpoint_it_has_begun_is_given_up(end: SubtaskEvent) -> None:
    subtask = Subtask(has_inputs=False, has_outputs=False)
    subtask.tell(DataEnded())
    subtask.acknowledge(1)
    subtask.tell(triggered(barrier(2)), SynchronousPartFinished(2, 0), completed(1))
    assert subtask.tell(end)[-1] == FinishTask()


def test_a_checkpoint_that_began_before_the_end_of_data_is_not_the_last_one() -> None:
    subtask = Subtask(has_inputs=False, has_outputs=False)
    subtask.acknowledge(1)
    assert subtask.tell(DataEnded()) == []
    assert subtask.tell(completed(1)) == [NotifyOperatorsCompleted(1)]
    assert subtask.life() is Life.ENDED
    subtask.acknowledge(2)
    assert subtask.tell(completed(2)) == [NotifyOperatorsCompleted(2), FinishTask()]


def test_nobody_takes_a_checkpoint_for_its_last_that_those_upstream_do_not() -> None:
    subtask = Subtask()
    subtask.acknowledge(1)
    assert subtask.tell(DataEnded(final_from=4)) == [BroadcastEndOfData(4)]
    subtask.tell(OutputsConsumed(), PartitionsEnded())
    for checkpoint_id, is_last in ((3, False), (4, True)):
        effects = subtask.tell(triggered(barrier(checkpoint_id)))
        assert effects[-1] == TakeSnapshot(barrier(checkpoint_id), ended=is_last)
        assert (FinishTask() in subtask.tell(completed(checkpoint_id))) is is_last


def test_a_late_end_upstream_does_not_bring_the_last_checkpoint_forward() -> None:
    subtask = Subtask()
    subtask.acknowledge(5)
    assert subtask.tell(DataEnded(final_from=4)) == [BroadcastEndOfData(6)]


def test_without_inputs_and_outputs_there_is_nobody_else_to_wait_for() -> None:
    alone = Subtask(has_inputs=False, has_outputs=False, final_checkpoint=False)
    assert alone.tell(DataEnded()) == [FinishTask()]
    source = Subtask(has_inputs=False, final_checkpoint=False)
    assert source.tell(DataEnded()) == [BroadcastEndOfData(NO_CHECKPOINT)]
    assert source.tell(OutputsConsumed()) == [FinishTask()]
    sink = Subtask(has_outputs=False, final_checkpoint=False)
    assert sink.tell(DataEnded()) == []
    assert sink.tell(PartitionsEnded()) == [FinishTask()]


def test_what_was_consumed_before_the_end_of_data_is_not_all() -> None:
    source = Subtask(has_inputs=False, final_checkpoint=False)
    assert source.tell(OutputsConsumed(), DataEnded()) == [BroadcastEndOfData(NO_CHECKPOINT)]
    assert source.tell(OutputsConsumed()) == [FinishTask()]


def test_a_subtask_that_is_about_to_leave_still_takes_part_in_checkpoints() -> None:
    subtask = Subtask(final_checkpoint=False)
    subtask.tell(DataEnded())
    assert subtask.life() is Life.LEAVING
    subtask.acknowledge(1)
    assert subtask.tell(completed(1)) == [NotifyOperatorsCompleted(1)]
    assert subtask.tell(triggered(barrier(2)))[-1] == TakeSnapshot(barrier(2), ended=True)


def test_an_ended_subtask_goes_on_after_a_failed_last_checkpoint() -> None:
    subtask = Subtask(has_outputs=False)
    subtask.tell(DataEnded(), PartitionsEnded(), triggered(barrier(1)), SynchronousPartFinished(1, 2))
    subtask.tell(AsynchronousPartFailed(1, "disk full"), aborted(1))
    assert subtask.life() is Life.ENDED
    subtask.acknowledge(2)
    assert subtask.tell(completed(2))[-1] == FinishTask()


def test_the_last_checkpoint_may_complete_unheard_and_a_later_one_is_as_good() -> None:
    subtask = Subtask(has_outputs=False)
    subtask.tell(DataEnded(), PartitionsEnded())
    subtask.acknowledge(1)
    subtask.acknowledge(2)
    assert subtask.tell(completed(2))[-1] == FinishTask()


def test_a_subtask_whose_inputs_have_ended_is_triggered_by_the_coordinator_and_waits_for_no_inputs() -> None:
    subtask = Subtask()
    *_, acknowledgement = subtask.tell(
        DataEnded(),
        PartitionsEnded(),
        TriggerCheckpoint(ME, barrier(1)),
        SynchronousPartFinished(1, 2),
        written(1),
    )
    assert isinstance(acknowledgement, Acknowledge)
    assert acknowledgement.metrics.alignment_ms == 0


def test_data_ends_only_once() -> None:
    subtask = Subtask()
    subtask.tell(DataEnded())
    with pytest.raises(EngineError, match="ended twice"):
        subtask.tell(DataEnded())


def test_stop_with_savepoint_lets_the_task_leave_when_it_is_complete() -> None:
    subtask = Subtask()
    *_, acknowledgement = subtask.tell(
        triggered(stop_barrier(4)), InputsFinished(4, METRICS), SynchronousPartFinished(4, 2), written(4)
    )
    assert isinstance(acknowledgement, Acknowledge)
    assert subtask.tell(completed(3)) == [NotifyOperatorsCompleted(3)]
    assert subtask.life() is Life.STOPPING
    assert subtask.tell(completed(4)) == [NotifyOperatorsCompleted(4)]
    assert subtask.life() is Life.LEAVING
    assert subtask.tell(PartitionsEnded()) == [FinishTask()]


def test_a_source_that_stops_leaves_first() -> None:
    source = Subtask(has_inputs=False)
    source.tell(TriggerCheckpoint(ME, stop_barrier(4)), SynchronousPartFinished(4, 2), written(4))
    assert source.tell(completed(4)) == [NotifyOperatorsCompleted(4), FinishTask()]


@pytest.mark.parametrize("complete_first", [False, True])
def test_a_drained_subtask_leaves_when_all_it_sent_has_been_taken_in(complete_first: bool) -> None:
    subtask = Subtask(final_checkpoint=False)
    subtask.tell(triggered(stop_barrier(1, drain=True)))
    events: list[SubtaskEvent] = [DataEnded(), completed(1)]
    assert FinishTask() not in subtask.tell(*(reversed(events) if complete_first else events))
    assert subtask.tell(PartitionsEnded()) == []
    assert subtask.tell(OutputsConsumed()) == [FinishTask()]


@pytest.mark.parametrize("drain", [False, True])
def test_to_a_subtask_past_its_end_a_stop_is_one_more_checkpoint(drain: bool) -> None:
    subtask = Subtask(has_outputs=False)
    subtask.tell(DataEnded(), PartitionsEnded())
    assert subtask.tell(triggered(stop_barrier(2, drain=drain)))[0] == PrepareSnapshot(2)
    assert subtask.tell(aborted(2)) == [CancelSnapshot(2), NotifyOperatorsAborted(2)]
    subtask.acknowledge(3)
    assert subtask.tell(completed(3))[-1] == FinishTask()


@pytest.mark.parametrize("acknowledged", [False, True])
def test_after_an_aborted_stop_with_savepoint_the_job_goes_on(acknowledged: bool) -> None:
    subtask = Subtask()
    subtask.tell(triggered(stop_barrier(2)))
    if acknowledged:
        subtask.tell(InputsFinished(2, METRICS), SynchronousPartFinished(2, 2), written(2))
    *cancelled, resumed, notified = subtask.tell(aborted(2))
    assert cancelled == ([] if acknowledged else [CancelSnapshot(2)])
    assert (resumed, notified) == (ResumeSources(), NotifyOperatorsAborted(2))
    assert subtask.life() is Life.RUNNING
    assert TakeSnapshot(barrier(3)) in subtask.tell(triggered(barrier(3)))


def test_an_aborted_stop_with_drain_fails_the_task() -> None:
    subtask = Subtask()
    subtask.tell(triggered(stop_barrier(2, drain=True)))
    assert subtask.tell(aborted(2))[-1] == FailTask("stop with savepoint 2 failed")
    assert subtask.life() is Life.FAILED


def test_the_abort_of_another_checkpoint_does_not_fail_a_task_that_stops() -> None:
    subtask = Subtask()
    subtask.tell(triggered(barrier(1)), triggered(stop_barrier(2)))
    assert subtask.tell(aborted(1)) == [CancelSnapshot(1), NotifyOperatorsAborted(1)]
    assert subtask.life() is Life.STOPPING


def test_an_abort_that_comes_after_the_completion_of_a_stop_changes_nothing() -> None:
    subtask = Subtask()
    subtask.tell(triggered(stop_barrier(2)), completed(2), aborted(2))
    assert subtask.life() is Life.LEAVING


def test_a_stop_with_savepoint_that_was_aborted_before_its_barrier_is_skipped() -> None:
    subtask = Subtask()
    subtask.tell(aborted(2))
    assert subtask.tell(triggered(stop_barrier(2))) == [CancelSnapshot(2), BroadcastCancelMarker(2)]
    assert subtask.life() is Life.RUNNING


def test_a_checkpoint_behind_a_stop_with_savepoint_means_that_it_failed() -> None:
    subtask = Subtask()
    subtask.tell(triggered(stop_barrier(2)))
    effects = subtask.tell(triggered(barrier(3)))
    assert (effects[0], effects[-1]) == (ResumeSources(), TakeSnapshot(barrier(3)))
    drained = Subtask()
    drained.tell(triggered(stop_barrier(2, drain=True)))
    assert drained.tell(triggered(barrier(3))) == [FailTask("stop with savepoint 2 failed")]


@pytest.mark.parametrize("life", [Life.FINISHED, Life.FAILED])
def test_after_the_end_a_trigger_is_declined_and_all_else_ignored(life: Life) -> None:
    subtask = Subtask(final_checkpoint=False)
    if life is Life.FINISHED:
        subtask.tell(DataEnded(), OutputsConsumed(), PartitionsEnded())
    else:
        subtask.tell(triggered(stop_barrier(1, drain=True)), aborted(1))
    assert subtask.life() is life
    assert subtask.tell(TriggerCheckpoint(ME, barrier(2))) == [
        declined(2, FailureReason.CHECKPOINT_DECLINED_TASK_CLOSING, "map/1#3 has ended")
    ]
    assert subtask.tell(TriggerCheckpoint(ME._replace(attempt=ATTEMPT - 1), barrier(2))) == []
    ignored: list[SubtaskEvent] = [
        triggered(barrier(3)),
        completed(2),
        aborted(2),
        HandlerAborted(3, AbortReason.CANCELLED),
        written(1),
        AsynchronousPartFailed(1, "x"),
        DataEnded(),
        PartitionsEnded(),
        OutputsConsumed(),
    ]
    assert subtask.tell(*ignored) == []
    assert subtask.life() is life


def test_a_subtask_that_failed_acknowledges_nothing_it_was_writing() -> None:
    subtask = Subtask()
    subtask.tell(triggered(barrier(1)), InputsFinished(1, METRICS), SynchronousPartFinished(1, 2))
    subtask.tell(triggered(stop_barrier(2, drain=True)), aborted(2))
    assert subtask.tell(written(1)) == []


def test_a_subtask_with_unfinished_work_stays_and_takes_part_in_checkpoints() -> None:
    subtask = Subtask(has_inputs=False, has_outputs=False)
    subtask.tell(WorkChanged(True), DataEnded())
    subtask.acknowledge(1)
    assert subtask.tell(completed(1)) == [NotifyOperatorsCompleted(1)]
    assert subtask.life() is Life.LEAVING
    subtask.acknowledge(2)
    assert subtask.tell(WorkChanged(False)) == [FinishTask()]
