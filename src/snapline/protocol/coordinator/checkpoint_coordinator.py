"""The checkpoint coordinator of one attempt: triggers, collects, completes, aborts and cleans up."""

from __future__ import annotations

from collections.abc import Mapping

from snapline.config import Checkpoints
from snapline.protocol.coordinator import coordinator_events as c
from snapline.protocol.coordinator.aborted_checkpoints import AbortedCheckpoints
from snapline.protocol.coordinator.activity import ACTIVITY, Activity
from snapline.protocol.coordinator.attempt_tasks import AttemptTasks
from snapline.protocol.coordinator.carryover import Carryover
from snapline.protocol.coordinator.checkpoint_plan import PlanFailure
from snapline.protocol.coordinator.notices import Notices
from snapline.protocol.coordinator.pending_checkpoint import PendingCheckpoint, PendingPhase
from snapline.protocol.coordinator.request_decider import TriggerRequest, was_dropped
from snapline.protocol.coordinator.request_queue import RequestQueue
from snapline.protocol.coordinator.start_sequence import StartSequence
from snapline.protocol.coordinator.task_board import JobShape
from snapline.protocol.machine import Story, recorded
from snapline.protocol.messages import (
    Acknowledge,
    CheckpointMeasured,
    Decline,
    EventToCoordinator,
    OperatorEventReceived,
)
from snapline.protocol.retention.retained_snapshots import RetainedSnapshots
from snapline.protocol.snapshot import Snapshot, SubtaskState
from snapline.types import NO_CHECKPOINT, FailureReason, SnapshotKind, SubtaskId, TaskStatus


class CheckpointCoordinator:
    """Turns requests into checkpoints for one attempt of a job.

    `retained` holds the snapshot that the attempt was restored from, and other checkpoints that are still kept. With
    `full_until_complete` checkpoints are full until one is complete, so that none depends on the restored snapshot.
    `tasks` may have begun in an attempt before, or have finished there; without them all are new.
    """

    def __init__(
        self,
        attempt: int,
        config: Checkpoints,
        shape: JobShape,
        carryover: Carryover,
        retained: RetainedSnapshots,
        *,
        full_until_complete: bool = False,
        tasks: AttemptTasks | None = None,
    ) -> None:
        self.attempt = attempt
        self.activity = ACTIVITY.initial
        self.story = Story()
        self.retained = retained
        self._shape = shape
        self._carryover = carryover
        self._statistics = carryover.statistics
        self._failures = carryover.failures
        self.tasks = tasks or AttemptTasks(attempt, shape, allow_finished=config.after_tasks_finish)
        self._tasks, self._events, self._executions = self.tasks.board, self.tasks.events, self.tasks.executions
        self._coordinators = shape.coordinators()
        self._effects: list[c.CoordinatorEffect] = []
        self._notices = Notices(self.tasks, self._effects)
        self._pending: dict[int, PendingCheckpoint] = {}
        self._cleaning: set[int] = set()
        self._timeout_ms = config.timeout_ms
        self._aborted = AbortedCheckpoints(config.remembered_expired)
        self._stop_request: str | None = None
        self._requests = RequestQueue(attempt, config, carryover, self._effects)
        self._starting = StartSequence(
            self._executions,
            config,
            shape,
            carryover.statistics,
            self._events,
            self._pending,
            self._effects,
            full_until_complete=full_until_complete,
        )

    @recorded
    def handle(self, event: c.CoordinatorEvent, now_ms: int, wall_ms: int | None = None) -> list[c.CoordinatorEffect]:
        """Takes an event and returns the effects that follow, to be carried out in order.

        `now_ms` never goes back; `wall_ms` is the time that people see, if it differs.
        """
        wall_ms = now_ms if wall_ms is None else wall_ms
        self._statistics.clock(now_ms, wall_ms)
        match event:
            case Acknowledge():
                self._on_acknowledgement(event, now_ms)
            case Decline():
                self._on_decline(event, now_ms)
            case c.TaskStatusChanged(subtask, status):
                self._on_task_status(subtask, status, now_ms)
            case c.TimerFired(timer):
                self._on_timer(timer, now_ms)
            case c.CheckpointRequested(request):
                self._on_request(request, now_ms)
            case c.IdReserved(request_name, checkpoint_id):
                self._starting.id_reserved(request_name, checkpoint_id, now_ms, wall_ms)
            case c.StepFailed():
                self._on_step_failed(event, now_ms)
            case c.LocationCreated(checkpoint_id, location, is_inline):
                self._on_started(self._starting.location_created(checkpoint_id, location, is_inline), now_ms)
            case c.OperatorCoordinatorSnapshotted(checkpoint_id, operator, state):
                self._on_started(self._starting.coordinator_snapshotted(checkpoint_id, operator, state), now_ms)
            case c.HookSnapshotted(checkpoint_id, hook, hook_state):
                self._on_started(self._starting.hook_snapshotted(checkpoint_id, hook, hook_state), now_ms)
            case c.MetadataWritten(checkpoint_id, size_bytes):
                self._on_metadata_written(checkpoint_id, size_bytes)
            case c.Published(checkpoint_id):
                self._on_published(checkpoint_id, now_ms)
            case c.FinalizeFailed():
                self._on_finalize_failed(event, now_ms)
            case c.Cleaned(checkpoint_id):
                self._cleaning.discard(checkpoint_id)
                self._statistics.discarded(checkpoint_id)
                self._poll(now_ms)
            case c.OperatorEventSent(operator, index, operator_event):
                self._effects.extend(self._events.send(operator, index, operator_event))
            case OperatorEventReceived(attempt, sequence):
                if self._events.is_expected(sequence, attempt):
                    self._on_started(self._starting.event_confirmed(sequence), now_ms)
            case c.OperatorEventLost(sequence):
                self._effects.extend(self._events.lost(sequence))
            case EventToCoordinator():
                self._effects.extend(self._events.received(event))
            case CheckpointMeasured((subtask, _) as execution, checkpoint_id, metrics):
                if self._executions.is_current(execution):
                    self._statistics.measured(checkpoint_id, subtask.vertex, subtask.index, metrics)
            case c.BacklogReported(source, has_backlog):
                self._requests.backlog_changed(source, has_backlog, now_ms)
            case c.HeartbeatDue():
                self._notices.repeat()
            case c.JobRunning(chance, hold_ms):
                self._step("all tasks running")
                self._notices.running()
                self._requests.start(now_ms, chance, hold_ms)
            case c.JobLeftRunning(shutdown):
                self._on_left_running(shutdown, now_ms)
        effects = list(self._effects)
        self._effects.clear()
        return effects

    def _on_task_status(self, subtask: SubtaskId, status: TaskStatus, now_ms: int) -> None:
        self._tasks.update(subtask, status)
        if status is TaskStatus.RUNNING:
            self._effects.extend(self._events.started(subtask))
        elif status is TaskStatus.FINISHED:
            for sequence in self._events.finished(subtask):
                self._on_started(self._starting.event_confirmed(sequence), now_ms)

    # Requests.

    def _on_timer(self, timer: c.Timer, now_ms: int) -> None:
        if timer.kind is c.TimerKind.TIMEOUT:
            self._on_timeout(timer.request, now_ms)
        elif (request := self._requests.timer_fired(now_ms)) is not None:
            self._start_next(now_ms, request)

    def _on_timeout(self, name: str, now_ms: int) -> None:
        reason = FailureReason.CHECKPOINT_EXPIRED
        begin = f"not complete within {self._timeout_ms / 1000:g} s; it waited for"
        pending = next((pending for pending in self._pending.values() if pending.request.name == name), None)
        if pending is not None:
            # Nobody knows yet whether the record gets into the journal.
            is_unclear = pending.phase is PendingPhase.PUBLISHING
            self._abort(pending, reason, f"{begin} {pending.waits_for}", now_ms, keep=is_unclear)
            self._complete_next(now_ms)
        elif self._starting.is_reserving(name):
            self._drop_start(reason, f"{begin} an id from the journal", now_ms)
            self._poll(now_ms)
        elif (request := self._requests.take(name)) is not None:
            self._fail_request(request, reason, f"{begin} its turn", now_ms)

    def _on_request(self, request: TriggerRequest, now_ms: int) -> None:
        if self.activity is Activity.CLOSED:
            self._fail_request(request, FailureReason.CHECKPOINT_COORDINATOR_SHUTDOWN, "the job is not running", now_ms)
        elif self.activity is Activity.STOPPING:
            message = "the job is being stopped with a savepoint"
            self._fail_request(request, FailureReason.CHECKPOINT_COORDINATOR_SUSPEND, message, now_ms)
        elif not request.kind.is_synchronous:
            self._start_next(now_ms, request)
        elif self.activity is Activity.WAITING:
            reason, message = FailureReason.NOT_ALL_REQUIRED_TASKS_RUNNING, "the job does not run yet"
            self._fail_request(request, reason, message, now_ms)
        else:
            self._stop_scheduler(FailureReason.CHECKPOINT_COORDINATOR_SUSPEND, "checkpoints are suspended", now_ms)
            self._step("stop with savepoint")
            self._stop_request = request.name
            self._start_next(now_ms, request)

    def _stop_scheduler(self, reason: FailureReason, message: str, now_ms: int) -> None:
        for request in self._requests.stop():
            self._fail_request(request, reason, message, now_ms)
        for pending in list(self._pending.values()):
            if not pending.is_final:
                self._abort(pending, reason, message, now_ms, poll=False)
        self._drop_start(reason, message, now_ms)

    def _poll(self, now_ms: int) -> None:
        if self.activity is not Activity.CLOSED:
            self._start_next(now_ms)

    def _start_next(self, now_ms: int, offered: TriggerRequest | None = None) -> None:
        """Start the next request, after `offered` has joined the queue. One that cannot start now fails."""
        while True:
            decision = self._requests.decide(
                offered,
                now_ms,
                triggering=self._starting.is_busy,
                pending=len(self._pending),
                cleaning=len(self._cleaning),
            )
            offered = None
            for request, reason in decision.failed:
                self._fail_request(request, reason, "the request was dropped", now_ms)
            if decision.retry_in_ms is not None:
                self._requests.postpone(now_ms, decision.retry_in_ms)
            if decision.chosen is None:
                return
            plan = self._tasks.plan()
            if not isinstance(plan, PlanFailure):
                self._starting.begin(decision.chosen, plan)
                return
            self._fail_request(decision.chosen, plan.reason, plan.message, now_ms)

    def _fail_request(self, request: TriggerRequest, reason: FailureReason, message: str, now_ms: int) -> None:
        """A request failed before it had a checkpoint."""
        if not was_dropped(request, reason):
            self._statistics.failed(None, now_ms, reason, message, kind=request.kind)
        self._requests.ended(request)
        self._effects.append(c.FailRequest(request, reason, message))
        self._count_failure(NO_CHECKPOINT, request.kind, reason, message, from_task=False)
        self._stop_failed(request, now_ms)

    def _count_failure(
        self, checkpoint_id: int, kind: SnapshotKind, reason: FailureReason, message: str, *, from_task: bool
    ) -> None:
        must_fail = self._failures.failed(
            checkpoint_id,
            reason,
            savepoint=kind.is_savepoint,
            synchronous=kind.is_synchronous,
            from_task=from_task,
        )
        if must_fail:
            self._effects.append(c.FailJob(f"checkpoint {checkpoint_id} failed ({reason.name}): {message}"))

    def _stop_failed(self, request: TriggerRequest, now_ms: int) -> None:
        if self.activity is Activity.STOPPING and request.name == self._stop_request:
            self._step("savepoint failed")
            self._requests.start(now_ms, 0.0)

    # The start.

    def _on_started(self, pending: PendingCheckpoint | None, now_ms: int) -> None:
        """`pending` is the checkpoint whose tasks were just triggered, or None if its start goes on."""
        if pending is not None:
            self._complete_if_acknowledged(pending, now_ms)
            self._poll(now_ms)

    def _on_step_failed(self, event: c.StepFailed, now_ms: int) -> None:
        unknown = FailureReason.IO_EXCEPTION if event.io else FailureReason.TRIGGER_CHECKPOINT_FAILURE
        reason = event.reason if event.reason is not None and not event.io else unknown
        if event.checkpoint_id is not None:
            pending = self._pending.get(event.checkpoint_id)
            if pending is not None and not pending.is_final:
                self._abort(pending, reason, event.error, now_ms)
        elif self._starting.is_reserving(event.request):
            self._drop_start(reason, event.error, now_ms)
            self._poll(now_ms)

    def _drop_start(self, reason: FailureReason, message: str, now_ms: int) -> None:
        if (request := self._starting.drop()) is not None:
            self._fail_request(request, reason, message, now_ms)

    # Acknowledgements and completion.

    def _on_acknowledgement(self, event: Acknowledge, now_ms: int) -> None:
        subtask, is_current = event.execution.subtask, self._executions.is_current(event.execution)
        pending = self._pending.get(event.checkpoint_id)
        # A repeated acknowledgement of a complete checkpoint must not register objects that have been deleted since.
        kind = self._aborted.kind(event.checkpoint_id) if pending is None else pending.request.kind
        is_sharing = kind is SnapshotKind.CHECKPOINT
        if is_current and is_sharing:
            missing = self.retained.register_all(event.state.values(), event.checkpoint_id)
            if missing is not None and pending is not None and not pending.is_final:
                reason = FailureReason.TASK_CHECKPOINT_FAILURE
                message = f"{event.execution} refers to {missing}, which is no longer there"
                self._discard_state(event.checkpoint_id, event.state)
                self._abort(pending, reason, message, now_ms, from_task=True)
                return
        if pending is None or not is_current or pending.is_final:
            # A message may come twice: delete only what cannot be in a complete checkpoint. The rest is left to the
            # sweep of the next attempt, which knows what is canonical.
            is_waste = kind is not None if pending is None else subtask not in pending.plan.wait
            if is_current and is_waste:
                self._discard_state(event.checkpoint_id, event.state)
            return
        result = pending.acknowledge(subtask, event.state)
        if result is c.AckResult.UNKNOWN:
            self._discard_state(event.checkpoint_id, event.state)
        if result is not c.AckResult.SUCCESS:
            return
        self._statistics.acknowledged(pending.id, subtask.vertex, subtask.index, now_ms, event.metrics)
        for operator, vertex in self._coordinators.items():
            if vertex.id == subtask.vertex:
                self._effects.extend(self._events.acknowledged(operator, subtask.index, pending.id))
        self._complete_if_acknowledged(pending, now_ms)

    def _discard_state(self, checkpoint_id: int, state: Mapping[str, SubtaskState]) -> None:
        own = tuple(item for part in state.values() for item in part.objects() if item.shared_key is None)
        if own:
            self._effects.append(c.Discard(checkpoint_id, own))

    def _complete_if_acknowledged(self, pending: PendingCheckpoint, now_ms: int) -> None:
        if pending.phase is not PendingPhase.COLLECTING or not pending.is_fully_acknowledged:
            return
        if any(other.is_final for other in self._pending.values()):
            return  # one at a time, so that no checkpoint becomes canonical after a newer one
        if vertex := pending.breaks_union_state(self._shape.vertices):
            reason = FailureReason.CHECKPOINT_DECLINED_TASK_CLOSING
            message = (
                f"union list state of {vertex} would be incomplete: some of its subtasks have ended, others not; "
                "checkpoints go on once all have (give a source that never ends a split for every subtask)"
            )
            self._abort(pending, reason, message, now_ms)
            return
        pending.step("fully acknowledged")
        in_flight = self._events.in_flight(pending.id)
        pending.snapshot = pending.to_snapshot(self._shape.vertices, self.attempt, in_flight, self._shape.lineage)
        self._effects.append(c.WriteMetadata(pending.snapshot))

    def _on_metadata_written(self, checkpoint_id: int, size_bytes: int) -> None:
        pending = self._pending.get(checkpoint_id)
        if pending is None or pending.phase is not PendingPhase.WRITING_METADATA:
            if (location := self._aborted.location(checkpoint_id)) is not None:
                self._effects.append(c.Discard(checkpoint_id, (), location))
            return
        pending.metadata_bytes = size_bytes
        pending.step("metadata written")
        assert pending.snapshot is not None
        self._effects.append(c.Publish(pending.snapshot))

    def _on_published(self, checkpoint_id: int, now_ms: int) -> None:
        pending = self._pending.get(checkpoint_id)
        if pending is None or pending.phase is not PendingPhase.PUBLISHING:
            return
        pending.step("published")
        self._complete(pending, now_ms)

    def _complete(self, pending: PendingCheckpoint, now_ms: int) -> None:
        snapshot = pending.snapshot
        assert snapshot is not None
        kind, metadata_bytes = snapshot.kind, pending.metadata_bytes
        del self._pending[pending.id]
        self._requests.ended(pending.request)
        self._failures.completed(pending.id)
        self._carryover.last_completed_ms = now_ms
        subsumed_id = NO_CHECKPOINT
        if not kind.is_savepoint:
            self._starting.full_until_complete = False
            subsumed_id = self._retain(snapshot)
        self._statistics.completed(pending.id, now_ms, external_path=snapshot.location, metadata_bytes=metadata_bytes)
        self._effects.append(c.CompleteRequest(pending.request, snapshot))
        self._effects.extend(self._events.released(pending.id))
        if kind is not SnapshotKind.SAVEPOINT:
            for older in [other for other in self._pending.values() if other.id < pending.id]:
                if not older.request.kind.is_savepoint:
                    message = f"checkpoint {pending.id} completed first"
                    self._abort(older, FailureReason.CHECKPOINT_SUBSUMED, message, now_ms, poll=False)
            self._notices.completed(pending.id, subsumed_id, pending.plan.commit)
        self._complete_next(now_ms)
        self._poll(now_ms)

    def _complete_next(self, now_ms: int) -> None:
        for pending in sorted(self._pending.values(), key=lambda pending: pending.id):
            self._complete_if_acknowledged(pending, now_ms)

    def _retain(self, snapshot: Snapshot) -> int:
        retirement = self.retained.add(snapshot)
        for old in retirement.delete:
            self._cleaning.add(old.id)
            self._effects.append(c.DeleteSnapshot(old))
        if retirement.shared:
            self._effects.append(c.DeleteShared(retirement.shared))
        return retirement.subsumed_id

    # Failure.

    def _on_decline(self, event: Decline, now_ms: int) -> None:
        pending = self._pending.get(event.checkpoint_id)
        if pending is None or not self._executions.is_current(event.execution) or pending.is_final:
            return
        message = f"{event.execution} declined" + (f": {event.message}" if event.message else "")
        self._abort(pending, event.reason, message, now_ms, from_task=True)

    def _on_finalize_failed(self, event: c.FinalizeFailed, now_ms: int) -> None:
        pending = self._pending.get(event.checkpoint_id)
        if pending is not None:
            reason = FailureReason.FINALIZE_CHECKPOINT_FAILURE
            self._abort(pending, reason, event.error, now_ms, keep=event.possibly_inconsistent)
            self._complete_next(now_ms)

    def _abort(
        self,
        pending: PendingCheckpoint,
        reason: FailureReason,
        message: str,
        now_ms: int,
        *,
        from_task: bool = False,
        keep: bool = False,
        poll: bool = True,
    ) -> None:
        """Give up a checkpoint. With `keep` its state stays: only the journal knows whether it is canonical."""
        del self._pending[pending.id]
        pending.step("aborted")
        self._starting.aborted(pending.id)
        self._requests.ended(pending.request)
        self._statistics.failed(pending.id, now_ms, reason, message)
        if not keep:
            self._aborted.add(pending.id, pending.request.kind, pending.location)
            own = tuple(item for item in pending.objects() if item.shared_key is None)
            self._effects.append(c.Discard(pending.id, own, pending.location))
        elif pending.snapshot is not None and not pending.request.kind.is_savepoint:
            self.retained.add_unclear(pending.snapshot)
        self._effects.append(c.FailRequest(pending.request, reason, message, pending.id))
        self._notices.aborted(pending.id, pending.plan.commit)
        self._effects.extend(self._events.released(pending.id))
        self._count_failure(pending.id, pending.request.kind, reason, message, from_task=from_task)
        self._stop_failed(pending.request, now_ms)
        if poll:
            self._poll(now_ms)

    def _on_left_running(self, shutdown: bool, now_ms: int) -> None:
        self._step("job left running")
        reasons = FailureReason.CHECKPOINT_COORDINATOR_SUSPEND, FailureReason.CHECKPOINT_COORDINATOR_SHUTDOWN
        reason, message = reasons[shutdown], "the job left the running state"
        self._stop_scheduler(reason, message, now_ms)
        # Metadata that is being written or published stays: the next attempt learns from the journal how it ended.
        for pending in list(self._pending.values()):
            self._abort(pending, reason, message, now_ms, keep=True, poll=False)

    def _step(self, cause: str) -> None:
        self.activity = ACTIVITY.step(self.activity, cause)
