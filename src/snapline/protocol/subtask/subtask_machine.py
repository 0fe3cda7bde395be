"""One subtask's part in checkpoints, from the barrier to the acknowledgement, and how the subtask ends."""

from __future__ import annotations

from enum import Enum

from snapline.errors import EngineError
from snapline.protocol import messages as m
from snapline.protocol.barriers.barrier_events import (
    ABORT_TO_FAILURE,
    AlignmentMetrics,
    CheckpointTriggered,
    HandlerAborted,
)
from snapline.protocol.machine import Story, TransitionTable, recorded
from snapline.protocol.statistics.checkpoint_records import SubtaskMetrics
from snapline.protocol.subtask import subtask_events as s
from snapline.types import NO_CHECKPOINT, AbortReason, Barrier, ExecutionId, FailureReason


class Life(Enum):
    """The state of the subtask as a whole."""

    RUNNING = "RUNNING"
    ENDED = "ENDED"
    STOPPING = "STOPPING"
    LEAVING = "LEAVING"
    FINISHED = "FINISHED"
    FAILED = "FAILED"


_L = Life
LIFE = TransitionTable(
    "Life of a subtask",
    "After its data has ended a subtask waits for one more complete checkpoint, which commits its last effects. Then "
    "it leaves, once everything upstream has left, everything downstream has processed what it sent, its operators "
    "have committed what they prepared, and it has answered every checkpoint it has begun. Until then it takes part in "
    "checkpoints.",
    _L.RUNNING,
    [
        (_L.RUNNING, "end of data", _L.ENDED),
        (_L.RUNNING, "end of data without final checkpoint", _L.LEAVING),
        (_L.RUNNING, "synchronous savepoint", _L.STOPPING),
        (_L.ENDED, "final checkpoint complete", _L.LEAVING),
        (_L.STOPPING, "end of data", _L.STOPPING),
        (_L.ENDED, "savepoint complete", _L.LEAVING),
        (_L.STOPPING, "savepoint complete", _L.LEAVING),
        (_L.LEAVING, "end of data", _L.LEAVING),
        (_L.LEAVING, "nothing left to do", _L.FINISHED),
        (_L.STOPPING, "savepoint aborted", _L.RUNNING),
        (_L.STOPPING, "savepoint with drain aborted", _L.FAILED),
    ],
)


class Phase(Enum):
    """The state of one checkpoint on this subtask."""

    TRIGGERED = "TRIGGERED"
    WRITING = "WRITING"
    WRITTEN = "WRITTEN"
    ACKNOWLEDGED = "ACKNOWLEDGED"
    DECLINED = "DECLINED"
    CANCELLED = "CANCELLED"


_P = Phase
SNAPSHOT = TransitionTable(
    "One checkpoint on one subtask",
    "The synchronous part stops the data, the asynchronous part does not. The acknowledgement waits for both, and for "
    "inputs and outputs.",
    _P.TRIGGERED,
    [
        (_P.TRIGGERED, "synchronous part finished", _P.WRITING),
        (_P.WRITING, "asynchronous part finished", _P.WRITTEN),
        (_P.WRITING, "asynchronous part failed", _P.DECLINED),
        (_P.WRITING, "aborted", _P.CANCELLED),
        (_P.WRITTEN, "inputs and outputs finished", _P.ACKNOWLEDGED),
        (_P.WRITTEN, "aborted", _P.CANCELLED),
        (_P.TRIGGERED, "aborted", _P.CANCELLED),
    ],
)


NOT_MEASURED = -1
"""In the metrics of a checkpoint that a subtask gave up: it had not come that far."""


class _Running:
    """A checkpoint this subtask is working on."""

    __slots__ = (
        "alignment",
        "barrier",
        "outputs_done",
        "persisted_bytes",
        "phase",
        "start_delay_ms",
        "sync_ms",
        "written",
    )

    def __init__(self, barrier: Barrier, start_delay_ms: int, *, outputs_done: bool) -> None:
        self.barrier = barrier
        self.start_delay_ms = start_delay_ms
        self.phase = Phase.TRIGGERED
        self.sync_ms = NOT_MEASURED
        self.written: s.AsynchronousPartFinished | None = None
        self.alignment: AlignmentMetrics | None = None
        self.outputs_done = outputs_done
        self.persisted_bytes = 0

    def step(self, cause: str) -> None:
        self.phase = SNAPSHOT.step(self.phase, cause)


class SubtaskMachine:
    """The checkpoint machine of one execution.

    An acknowledgement waits for inputs and outputs where the subtask has them. With `final_checkpoint` the subtask
    stays after the end of its data until a checkpoint is complete. `max_remembered_aborts` bounds how many ids are
    remembered that were aborted before their barrier arrived.
    """

    def __init__(
        self,
        execution: ExecutionId,
        *,
        has_inputs: bool,
        has_outputs: bool,
        final_checkpoint: bool = True,
        max_remembered_aborts: int = 1,
        last_checkpoint_id: int = NO_CHECKPOINT,
    ) -> None:
        self.execution = execution
        self.life = LIFE.initial
        self.story = Story()
        self._has_inputs = has_inputs
        self._has_outputs = has_outputs
        self._final_checkpoint = final_checkpoint
        self._max_remembered_aborts = max_remembered_aborts
        self._last_id = last_checkpoint_id
        self._running: dict[int, _Running] = {}
        self._aborted: list[int] = []
        self._completed_id = NO_CHECKPOINT
        self._final_from = NO_CHECKPOINT
        self._stopping_id = NO_CHECKPOINT
        self._is_draining = False
        self._partitions_ended = not has_inputs
        self._outputs_consumed = True
        self._has_work = False

    @recorded
    def handle(self, event: s.SubtaskEvent, now_ms: int) -> list[s.SubtaskEffect]:
        """Takes an event and returns the effects that follow; few do once the subtask has ended."""
        if self.life in LIFE.final_states:
            return self._handle_ended(event)
        match event:
            case CheckpointTriggered(barrier, start_delay_ms):
                return self._on_triggered(barrier, start_delay_ms, now_ms)
            case m.TriggerCheckpoint(execution, barrier):
                if execution != self.execution:
                    return []
                return self._on_triggered(barrier, max(now_ms - barrier.timestamp_ms, 0), now_ms, inputs_ended=True)
            case s.InputsFinished(checkpoint_id, metrics, persisted_bytes):
                return self._on_inputs_finished(checkpoint_id, metrics, persisted_bytes)
            case s.OutputsFinished(checkpoint_id, persisted_bytes):
                return self._on_outputs_finished(checkpoint_id, persisted_bytes)
            case HandlerAborted(checkpoint_id, reason):
                return self._on_handler_aborted(checkpoint_id, reason)
            case s.SynchronousPartFinished(checkpoint_id, duration_ms):
                return self._on_sync_finished(checkpoint_id, duration_ms)
            case s.AsynchronousPartFinished():
                return self._on_async_finished(event)
            case s.AsynchronousPartFailed(checkpoint_id, error):
                return self._on_async_failed(checkpoint_id, error)
            case s.OutputTimerFired(checkpoint_id):
                return self._on_output_timer(checkpoint_id)
            case m.CheckpointCompleted(execution, checkpoint_id, subsumed_id):
                return self._on_completed(checkpoint_id, subsumed_id) if execution == self.execution else []
            case m.CheckpointAborted(execution, checkpoint_id):
                return self._on_aborted(checkpoint_id) if execution == self.execution else []
            case s.DataEnded(final_from):
                return self._on_data_ended(final_from)
            case s.PartitionsEnded():
                self._partitions_ended = True
                return self._leave()
            case s.OutputsConsumed():
                self._outputs_consumed = True
                return self._leave()
            case s.WorkChanged(is_unfinished):
                self._has_work = is_unfinished
                return self._leave()

    def _handle_ended(self, event: s.SubtaskEvent) -> list[s.SubtaskEffect]:
        if isinstance(event, m.TriggerCheckpoint) and event.execution == self.execution:
            reason = FailureReason.CHECKPOINT_DECLINED_TASK_CLOSING
            return [m.Decline(self.execution, event.barrier.id, reason, f"{self.execution} has ended")]
        return []

    # From the barrier to the acknowledgement.

    def _on_triggered(
        self, barrier: Barrier, start_delay_ms: int, now_ms: int, *, inputs_ended: bool = False
    ) -> list[s.SubtaskEffect]:
        if barrier.id <= self._last_id:
            return []
        self._last_id = barrier.id
        resumed: list[s.SubtaskEffect] = []
        if self.life is Life.STOPPING:
            # The notice of the failed savepoint was lost: otherwise no checkpoint would follow it.
            resumed = self._on_stop_aborted()
            if self._is_draining:
                return resumed
        was_aborted = barrier.id in self._aborted
        self._aborted = [checkpoint_id for checkpoint_id in self._aborted if checkpoint_id > barrier.id]
        if was_aborted:
            measured = self._measured(barrier.id, _Running(barrier, start_delay_ms, outputs_done=False))
            return [*resumed, s.CancelSnapshot(barrier.id), measured, s.BroadcastCancelMarker(barrier.id)]
        barrier = barrier.behind_aligned_only_edge()
        effects: list[s.SubtaskEffect] = resumed
        if barrier.snapshot.is_synchronous:
            self._stopping_id = barrier.id
            self._is_draining = barrier.drain
        if barrier.snapshot.is_synchronous and self.life is Life.RUNNING:
            self._step("synchronous savepoint")
            effects.append(s.EndInput() if barrier.drain else s.StopSources())
        outputs_done = not self._has_outputs or not barrier.may_capture
        self._running[barrier.id] = running = _Running(barrier, start_delay_ms, outputs_done=outputs_done)
        if inputs_ended or not self._has_inputs:
            running.alignment = AlignmentMetrics(start_delay_ms, 0, 0)
        effects.append(s.PrepareSnapshot(barrier.id))
        effects.append(s.BroadcastBarrier(barrier))
        if barrier.is_timeoutable and self._has_outputs:
            effects.append(s.SetOutputTimer(barrier.id, barrier.times_out_ms(now_ms)))
        is_last = self.life in (Life.ENDED, Life.LEAVING) and barrier.id >= self._final_from
        effects.append(s.TakeSnapshot(barrier, ended=is_last or barrier.drain))
        return effects

    def _on_sync_finished(self, checkpoint_id: int, duration_ms: int) -> list[s.SubtaskEffect]:
        running = self._running.get(checkpoint_id)
        if running is None:
            return []
        running.step("synchronous part finished")
        running.sync_ms = duration_ms
        return [s.WriteSnapshot(checkpoint_id)]

    def _on_async_finished(self, event: s.AsynchronousPartFinished) -> list[s.SubtaskEffect]:
        running = self._running.get(event.checkpoint_id)
        if running is None:
            return []
        running.step("asynchronous part finished")
        running.written = event
        return self._acknowledge_if_done(running)

    def _on_async_failed(self, checkpoint_id: int, error: str) -> list[s.SubtaskEffect]:
        running = self._running.pop(checkpoint_id, None)
        if running is None:
            return []
        running.step("asynchronous part failed")
        reason = FailureReason.CHECKPOINT_ASYNC_EXCEPTION
        return [
            s.CancelSnapshot(checkpoint_id),
            self._measured(checkpoint_id, running),
            m.Decline(self.execution, checkpoint_id, reason, error),
            *self._leave(),
        ]

    def _on_inputs_finished(
        self, checkpoint_id: int, metrics: AlignmentMetrics, persisted_bytes: int
    ) -> list[s.SubtaskEffect]:
        running = self._running.get(checkpoint_id)
        if running is None:
            return []
        running.alignment = metrics
        running.persisted_bytes += persisted_bytes
        return self._acknowledge_if_done(running)

    def _on_outputs_finished(self, checkpoint_id: int, persisted_bytes: int) -> list[s.SubtaskEffect]:
        running = self._running.get(checkpoint_id)
        if running is None:
            return []
        running.outputs_done = True
        running.persisted_bytes += persisted_bytes
        return self._acknowledge_if_done(running)

    def _on_output_timer(self, checkpoint_id: int) -> list[s.SubtaskEffect]:
        running = self._running.get(checkpoint_id)
        return [] if running is None or running.outputs_done else [s.PrioritizeOutputs(checkpoint_id)]

    def _acknowledge_if_done(self, running: _Running) -> list[s.SubtaskEffect]:
        written, alignment = running.written, running.alignment
        if written is None or alignment is None or not running.outputs_done:
            return []
        running.step("inputs and outputs finished")
        del self._running[running.barrier.id]
        metrics = SubtaskMetrics(
            checkpointed_bytes=written.checkpointed_bytes,
            state_bytes=written.state_bytes,
            sync_ms=running.sync_ms,
            async_ms=written.duration_ms,
            alignment_ms=alignment.duration_ms,
            start_delay_ms=running.start_delay_ms,
            processed_bytes=alignment.processed_bytes,
            persisted_bytes=running.persisted_bytes,
            unaligned=running.barrier.is_unaligned or running.persisted_bytes > 0,
            aborted=False,
        )
        return [m.Acknowledge(self.execution, running.barrier.id, written.state, metrics), *self._leave()]

    # Aborts.

    def _on_handler_aborted(self, checkpoint_id: int, reason: AbortReason) -> list[s.SubtaskEffect]:
        self._last_id = max(self._last_id, checkpoint_id)
        self._aborted = [remembered for remembered in self._aborted if remembered > self._last_id]
        effects: list[s.SubtaskEffect] = self._cancel(checkpoint_id)
        effects.append(m.Decline(self.execution, checkpoint_id, ABORT_TO_FAILURE[reason]))
        effects.append(s.BroadcastCancelMarker(checkpoint_id))
        return [*effects, *self._leave()]

    def _on_aborted(self, checkpoint_id: int) -> list[s.SubtaskEffect]:
        effects = self._cancel(checkpoint_id)
        if checkpoint_id == self._stopping_id and self.life is Life.STOPPING:
            effects.extend(self._on_stop_aborted())
            if self._is_draining:
                return effects
        if checkpoint_id > self._last_id and checkpoint_id not in self._aborted:
            self._aborted = sorted([*self._aborted, checkpoint_id])[-self._max_remembered_aborts :]
        effects.append(s.NotifyOperatorsAborted(checkpoint_id))
        return [*effects, *self._leave()]

    def _on_stop_aborted(self) -> list[s.SubtaskEffect]:
        """The subtask goes on, unless its operators are finished: only a restart brings those back."""
        if self._is_draining:
            self._running.clear()
            self._step("savepoint with drain aborted")
            return [s.FailTask(f"stop with savepoint {self._stopping_id} failed")]
        self._stopping_id = NO_CHECKPOINT
        self._step("savepoint aborted")
        return [s.ResumeSources()]

    def _cancel(self, checkpoint_id: int) -> list[s.SubtaskEffect]:
        running = self._running.pop(checkpoint_id, None)
        if running is None:
            return []
        running.step("aborted")
        return [s.CancelSnapshot(checkpoint_id), self._measured(checkpoint_id, running)]

    def _measured(self, checkpoint_id: int, running: _Running) -> m.CheckpointMeasured:
        """What is known of a checkpoint that is given up. It shows how far the subtask came, and what took long."""
        written, alignment = running.written, running.alignment
        metrics = SubtaskMetrics(
            checkpointed_bytes=NOT_MEASURED if written is None else written.checkpointed_bytes,
            state_bytes=NOT_MEASURED if written is None else written.state_bytes,
            sync_ms=running.sync_ms,
            async_ms=NOT_MEASURED if written is None else written.duration_ms,
            alignment_ms=NOT_MEASURED if alignment is None else alignment.duration_ms,
            start_delay_ms=running.start_delay_ms,
            processed_bytes=NOT_MEASURED if alignment is None else alignment.processed_bytes,
            persisted_bytes=running.persisted_bytes,
            unaligned=running.barrier.is_unaligned or running.persisted_bytes > 0,
            aborted=True,
        )
        return m.CheckpointMeasured(self.execution, checkpoint_id, metrics)

    # Notices, and the end of the subtask.

    def _on_completed(self, checkpoint_id: int, subsumed_id: int) -> list[s.SubtaskEffect]:
        if checkpoint_id <= self._completed_id:
            return []
        self._completed_id = checkpoint_id
        effects = self._drop_older(checkpoint_id)
        effects.append(s.NotifyOperatorsCompleted(checkpoint_id))
        if subsumed_id != NO_CHECKPOINT:
            effects.append(s.NotifyOperatorsSubsumed(subsumed_id))
        if checkpoint_id == self._stopping_id and self.life in (Life.STOPPING, Life.ENDED):
            self._step("savepoint complete")
            effects.extend(self._leave())
        elif self.life is Life.ENDED and checkpoint_id >= self._final_from:
            self._step("final checkpoint complete")
            effects.extend(self._leave())
        return effects

    def _drop_older(self, checkpoint_id: int) -> list[s.SubtaskEffect]:
        """Older checkpoints are over with this one, even if the notice of that is lost. Savepoints are not."""
        effects: list[s.SubtaskEffect] = []
        for older_id, running in list(self._running.items()):
            if older_id < checkpoint_id and not running.barrier.snapshot.is_savepoint:
                effects += [*self._cancel(older_id), s.NotifyOperatorsAborted(older_id)]
        return effects

    def _leave(self) -> list[s.SubtaskEffect]:
        """Finish if nothing is left to do. A checkpoint that has begun is answered first: all others wait for it."""
        is_answering = any(checkpoint_id > self._completed_id for checkpoint_id in self._running)
        is_alone = self._partitions_ended and self._outputs_consumed
        if self.life is not Life.LEAVING or not is_alone or self._has_work or is_answering:
            return []
        self._step("nothing left to do")
        return [s.FinishTask()]

    def _on_data_ended(self, final_from: int) -> list[s.SubtaskEffect]:
        if self.life is Life.ENDED:
            raise EngineError(f"the data of {self.execution} has ended twice")
        self._outputs_consumed = not self._has_outputs
        effects: list[s.SubtaskEffect] = []
        if self.life is Life.STOPPING or self.life is Life.LEAVING:
            self._final_from = self._stopping_id
            self._step("end of data")
        elif self._final_checkpoint:
            self._final_from = max(self._last_id + 1, final_from)
            self._step("end of data")
        else:
            self._step("end of data without final checkpoint")
            effects.extend(self._leave())
        return [s.BroadcastEndOfData(self._final_from), *effects] if self._has_outputs else effects

    def _step(self, cause: str) -> None:
        self.life = LIFE.step(self.life, cause)
