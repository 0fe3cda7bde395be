"""The shell of one attempt's checkpoint coordinator: carries out its effects and feeds back the results."""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

from snapline.contracts.operator_coordinator import MAX_EVENT_BYTES
from snapline.errors import FencedError, PeerError, SnaplineError, StorageError, StorageLostError
from snapline.graph.job_spec import JobSpec
from snapline.protocol.coordinator import coordinator_events as c
from snapline.protocol.coordinator.activity import Activity
from snapline.protocol.coordinator.attempt_tasks import AttemptTasks
from snapline.protocol.coordinator.checkpoint_coordinator import CheckpointCoordinator
from snapline.protocol.coordinator.request_decider import TriggerRequest
from snapline.protocol.error_identity import ErrorIdentity
from snapline.protocol.messages import (
    CheckpointAborted,
    CheckpointCompleted,
    EventToCoordinator,
    OperatorEvent,
    TriggerCheckpoint,
)
from snapline.protocol.retention.retained_snapshots import RetainedSnapshots
from snapline.protocol.snapshot import Snapshot
from snapline.runtime.job_logs import JobLogger
from snapline.runtime.master.deployment import Deployment
from snapline.runtime.master.job_storage import MasterStorage
from snapline.runtime.master.master_calls import MasterCalls
from snapline.runtime.master.operator_coordinators import OperatorCoordinators, inline, snapshot_hook
from snapline.runtime.scheduler.call_watch import CallWatch
from snapline.runtime.scheduler.effect_queue import EffectQueue
from snapline.runtime.scheduler.named_timers import NamedTimers
from snapline.runtime.scheduler.scheduler import Scheduler
from snapline.storage.cleaner import Cleaner, Done
from snapline.storage.journals.journal_client import PublicationFencedError
from snapline.types import FailureReason, SubtaskId

_log = JobLogger(__name__)


class Owner(Protocol):
    """The master as the coordinators of its attempts see it. Coordinators of older attempts may call late."""

    def request_completed(self, request: TriggerRequest, snapshot: Snapshot) -> None: ...

    def request_failed(self, failed: c.FailRequest) -> None: ...

    def failure_requested(
        self, attempt: int, cause: str, identity: ErrorIdentity | None = None, vertex: str | None = None
    ) -> None:
        """The job has to fail over, or only the region of `vertex`."""

    def storage_lost(self, attempt: int, cause: str) -> None:
        """The checkpoints of this attempt were deleted; `cause` says what to do."""

    def publication_fenced(self, newest_attempt: int) -> None:
        """A snapshot was not published, because another driver has claimed the job with this attempt."""


class CoordinatorShell:
    """Serves one coordinator, even after its attempt has ended: it may still have to clean up."""

    def __init__(
        self,
        spec: JobSpec,
        coordinator: CheckpointCoordinator,
        coordinators: OperatorCoordinators,
        storage: MasterStorage,
        cleaner: Cleaner,
        scheduler: Scheduler,
        calls: MasterCalls,
        effects: EffectQueue,
        deployment: Deployment,
        owner: Owner,
    ) -> None:
        self.attempt = coordinator.attempt
        self._spec = spec
        self._coordinator = coordinator
        self._coordinators = coordinators
        self._storage = storage
        self._archive = storage.archive
        self._cleaner = cleaner
        self._scheduler = scheduler
        self._calls = calls
        self._effects = effects
        self._deployment = deployment
        self._owner = owner
        self._ids_after = 0 if storage.given is None else storage.given.id
        self._timers = NamedTimers(scheduler)
        self._draining: list[TriggerRequest] = []
        self._catching_up: list[Future[bool]] = []

    @property
    def retained(self) -> RetainedSnapshots:
        return self._coordinator.retained

    @property
    def tasks(self) -> AttemptTasks:
        return self._coordinator.tasks

    @property
    def is_stopping(self) -> bool:
        """Whether the job stops with a savepoint, or gets ready to."""
        return self._coordinator.activity is Activity.STOPPING or bool(self._draining)

    def hand_over(self, coordinators: OperatorCoordinators, vertices: Collection[str]) -> None:
        """Another attempt begins with these vertices; operator coordinators of others go on in it."""
        coordinators.keep(self._coordinators, vertices)
        self._coordinators.close(finish=False, vertices=vertices)
        self._timers.cancel_all()

    def start(self) -> None:
        """Let the operator coordinators work: what they have sent by now waits for its subtasks."""
        self._coordinators.attach(self._send_event, self._failed, self._backlog)

    def feed(self, event: c.CoordinatorEvent) -> None:
        if isinstance(event, c.CheckpointRequested) and event.request.drain:
            self._drain(event.request)
            return
        self._decide(event)
        if isinstance(event, c.JobLeftRunning):
            self._give_up_draining()
            self._give_up_catching_up()
            self._coordinators.close(finish=event.shutdown, vertices=event.vertices)

    def _decide(self, event: c.CoordinatorEvent) -> None:
        self._effects.add(self._carry_out, self._coordinator.handle(event, self._now_ms(), self._scheduler.wall_ms()))

    # A job that is drained first lets its coordinators hand out what is there: a source all its splits.

    def _drain(self, request: TriggerRequest) -> None:
        self._draining.append(request)
        if len(self._draining) == 1:
            self._coordinators.drain(self._drained)

    def _drained(self) -> None:
        requests, self._draining = self._draining, []
        for request in requests:
            # Reading may have taken long; only now does its time begin.
            self._decide(c.CheckpointRequested(replace(request, timestamp_ms=self._now_ms())))

    def _give_up_draining(self) -> None:
        requests, self._draining = self._draining, []
        reason = FailureReason.CHECKPOINT_COORDINATOR_SUSPEND
        message = "the job stopped running before it had read everything"
        for request in requests:
            self._owner.request_failed(c.FailRequest(request, reason, message))

    # Others wait until everything is read that there is now, while the job goes on.

    def catch_up(self, answer: Future[bool]) -> None:
        """`answer` says whether everything that there is now was read; not if the attempt is over before."""
        self._catching_up.append(answer)
        self._coordinators.catch_up(lambda: self._caught_up(answer))

    def _caught_up(self, answer: Future[bool]) -> None:
        if answer in self._catching_up:
            self._catching_up.remove(answer)
            answer.set_result(True)

    def _give_up_catching_up(self) -> None:
        answers, self._catching_up = self._catching_up, []
        for answer in answers:
            answer.set_result(False)

    # Events.

    def event_received(self, message: EventToCoordinator) -> None:
        """A subtask has sent an event. Raises `PeerError` if it does not run the operator or sends too much."""
        operator, subtask = message.operator, message.execution.subtask
        if self._coordinators.vertices.get(operator) != subtask.vertex:
            raise PeerError(f"{subtask} sends an event to the coordinator of {operator!r}, which it does not run")
        if len(message.event) > MAX_EVENT_BYTES:
            raise PeerError(f"{subtask} sends an event of {len(message.event)} bytes; at most {MAX_EVENT_BYTES} may be")
        self.feed(message)

    def subtask_failed(self, subtask: SubtaskId, cause: str) -> None:
        self._coordinators.subtask_failed(subtask, cause)

    def slot_lost(self, slot: int) -> None:
        self._coordinators.slot_lost(slot, f"the operator process of slot {slot} is gone")

    def _send_event(self, operator: str, subtask: int, event: Any) -> None:
        self.feed(c.OperatorEventSent(operator, subtask, event))

    def _backlog(self, operator: str, has_backlog: bool) -> None:
        self.feed(c.BacklogReported(operator, has_backlog))

    def _failed(self, operator: str, error: Exception) -> None:
        vertex = self._coordinators.vertices[operator]
        self._owner.failure_requested(self.attempt, _text(error), ErrorIdentity.of(error, "driver"), vertex)

    @property
    def coordinators_closed(self) -> list[Future[None]]:
        return self._coordinators.closed

    def close(self) -> None:
        self._coordinators.close(finish=False)
        self._timers.cancel_all()

    def _carry_out(self, effect: c.CoordinatorEffect) -> None:
        owner = self._owner
        match effect:
            case c.SetTimer(timer, at_ms):
                self._timers.set(timer, at_ms - self._now_ms(), self.feed, c.TimerFired(timer))
            case c.CancelTimer(timer):
                self._timers.cancel(timer)
            case c.ReserveId(request_name):
                self._reserve_id(request_name)
            case c.CreateLocation(checkpoint_id, request):
                self._create_location(checkpoint_id, request)
            case c.SnapshotOperatorCoordinator(checkpoint_id, operator):
                self._snapshot_coordinator(checkpoint_id, operator)
            case c.DeliverEvent(operator, subtask, event):
                self._coordinators.handle_event(operator, subtask, event)
            case c.NotifyCoordinatorsCompleted(checkpoint_id, subsumed_id):
                self._coordinators.checkpoint_completed(checkpoint_id, subsumed_id)
            case c.NotifyCoordinatorsAborted(checkpoint_id):
                self._coordinators.checkpoint_aborted(checkpoint_id)
            case c.SnapshotHook(checkpoint_id, hook):
                self._snapshot_hook(checkpoint_id, hook)
            case TriggerCheckpoint() | CheckpointCompleted() | CheckpointAborted():
                self._deployment.send(effect.execution, effect)
            case c.WriteMetadata(snapshot):
                self._write_metadata(snapshot)
            case c.Publish(snapshot):
                self._publish(snapshot)
            case c.Discard() | c.DeleteSnapshot() | c.DeleteShared():
                self._clean(effect)
            case c.CompleteRequest(request, snapshot):
                kind = snapshot.kind.value.lower()
                _log.debug("%s %d is complete: %s", kind, snapshot.id, snapshot.location, checkpoint=snapshot.id)
                owner.request_completed(request, snapshot)
            case c.FailRequest(request):
                owner.request_failed(effect)
                if request.drain:
                    self._coordinators.resume()
            case OperatorEvent():
                if not self._deployment.send(effect.execution, effect):
                    self.feed(c.OperatorEventLost(effect.sequence))
            case c.FailJob(cause, vertex):
                owner.failure_requested(self.attempt, cause, vertex=vertex)

    def _now_ms(self) -> int:
        return self._scheduler.now_ms()

    # The start of a checkpoint.

    def _reserve_id(self, request_name: str) -> None:
        def failed(error: Exception) -> None:
            self.feed(c.StepFailed(request_name, None, _text(error), io=_is_storage(error)))
            self._check_lost(error)

        self._calls.journal.run(
            lambda: self._archive.reserve_id(self.attempt, request_name, self._ids_after),
            lambda checkpoint_id: self.feed(c.IdReserved(request_name, checkpoint_id)),
            failed,
            self._named(f"reserving a checkpoint id in {self._archive.directory}"),
        )

    def _create_location(self, checkpoint_id: int, request: TriggerRequest) -> None:
        if not request.kind.is_savepoint:
            location, is_inline = self._archive.location(checkpoint_id), self._storage.is_in_driver
            created = c.LocationCreated(checkpoint_id, location, is_inline)
            self._scheduler.post(self.feed, created)
            return
        target = str(request.target)
        self._calls.storage.run(
            lambda: self._archive.savepoint_location(target, self._spec.job_id),
            lambda location: self.feed(c.LocationCreated(checkpoint_id, location)),
            lambda error: self.feed(c.StepFailed(request.name, checkpoint_id, _text(error), io=_is_storage(error))),
            self._named(f"looking for a directory in {target}"),
        )

    def _snapshot_coordinator(self, checkpoint_id: int, operator: str) -> None:
        def done(data: bytes | None) -> None:
            state = None if data is None else inline(operator, self.attempt, checkpoint_id, data)
            self.feed(c.OperatorCoordinatorSnapshotted(checkpoint_id, operator, state))

        self._coordinators.snapshot(
            operator,
            checkpoint_id,
            done,
            lambda error: self.feed(c.StepFailed("", checkpoint_id, _text(error), io=False)),
        )

    def _snapshot_hook(self, checkpoint_id: int, hook: str) -> None:
        def done(data: bytes | None) -> None:
            state = None if data is None else inline(f"hook-{hook}", self.attempt, checkpoint_id, data)
            self.feed(c.HookSnapshotted(checkpoint_id, hook, state))

        self._calls.hooks.run(
            lambda: snapshot_hook(self._spec, hook, checkpoint_id),
            done,
            lambda error: self.feed(c.StepFailed("", checkpoint_id, _text(error), io=False)),
            self._named(f"snapshot of the master hook {hook!r} for checkpoint {checkpoint_id}"),
        )

    # Its end.

    def _write_metadata(self, snapshot: Snapshot) -> None:
        self._calls.storage.run(
            lambda: self._archive.write_metadata(snapshot),
            lambda size_bytes: self.feed(c.MetadataWritten(snapshot.id, size_bytes)),
            lambda error: self.feed(c.FinalizeFailed(snapshot.id, _text(error))),
            self._named(f"writing {snapshot.metadata_path}"),
        )

    def _publish(self, snapshot: Snapshot) -> None:
        def failed(error: Exception) -> None:
            is_unclear = error.possibly_inconsistent if isinstance(error, PublicationFencedError) else True
            self.feed(c.FinalizeFailed(snapshot.id, _text(error), possibly_inconsistent=is_unclear))
            if isinstance(error, PublicationFencedError) and not error.is_own:
                self._owner.publication_fenced(error.current)
            self._check_lost(error)

        self._calls.journal.run(
            lambda: self._archive.publish(snapshot),
            lambda _: self.feed(c.Published(snapshot.id)),
            failed,
            self._named(f"recording {snapshot.location} in the journal"),
        )

    def _check_lost(self, error: Exception) -> None:
        if isinstance(error, StorageLostError):
            self._owner.storage_lost(self.attempt, str(error))

    def _clean(self, effect: c.Discard | c.DeleteSnapshot | c.DeleteShared) -> None:
        archive, retained = self._archive, self._coordinator.retained
        match effect:
            case c.Discard(checkpoint_id, objects, location):
                name = f"the rest of checkpoint {checkpoint_id}"
                operation = partial(archive.discard, objects, location, self.attempt)
                self._cleaner.submit(name, operation, self._deletion(name))
            case c.DeleteShared(objects):
                name, operation = "shared objects", partial(archive.delete_shared, objects, retained)
                self._cleaner.submit(name, operation, self._deletion(name))
            case c.DeleteSnapshot(snapshot):
                done = self._deletion(f"snapshot {snapshot.id}", c.Cleaned(snapshot.id))
                self._cleaner.delete_snapshot(snapshot, retained, done)

    def _deletion(self, name: str, cleaned: c.Cleaned | None = None) -> Done:
        """Watches a deletion that begins now. Returns what to call at its end, on any thread."""
        watch = CallWatch(self._scheduler, self._named(f"deleting {name}"))

        def ended() -> None:
            watch.end()
            if cleaned is not None:
                self.feed(cleaned)

        # Failed deletions count too: the cleaner has logged them, and the next recovery sweeps them.
        return lambda _: self._scheduler.post(ended)

    def _named(self, what: str) -> str:
        return f"job {self._spec.name}: {what}"


def _is_storage(error: Exception) -> bool:
    return isinstance(error, StorageError | FencedError)


def _text(error: Exception) -> str:
    if isinstance(error, SnaplineError):
        return str(error)
    _log.error("a step of a checkpoint failed unexpectedly", exc_info=error)
    return f"{type(error).__name__}: {error}"
