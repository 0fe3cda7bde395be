"""The shell of one attempt's checkpoint coordinator: carries out its effects and feeds back the results."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

from snapline.errors import FencedError, PeerError, SnaplineError, StorageError, StorageLostError
from snapline.graph.job_spec import JobSpec
from snapline.protocol.coordinator import coordinator_events as c
from snapline.protocol.coordinator.checkpoint_coordinator import CheckpointCoordinator
from snapline.protocol.coordinator.request_decider import TriggerRequest
from snapline.protocol.error_identity import ErrorIdentity
from snapline.protocol.messages import CheckpointAborted, CheckpointCompleted, OperatorEvent, TriggerCheckpoint
from snapline.protocol.retention.retained_snapshots import RetainedSnapshots
from snapline.protocol.snapshot import Snapshot
from snapline.runtime.master.deployment import Deployment
from snapline.runtime.master.job_storage import MasterStorage
from snapline.runtime.master.operator_coordinators import OperatorCoordinators, inline, snapshot_hook
from snapline.runtime.master.split_discovery import Discovery
from snapline.runtime.scheduler.background_calls import BackgroundCalls
from snapline.runtime.scheduler.call_watch import CallWatch
from snapline.runtime.scheduler.effect_queue import EffectQueue
from snapline.runtime.scheduler.named_timers import NamedTimers
from snapline.runtime.scheduler.scheduler import Scheduler
from snapline.storage.cleaner import Cleaner, Done
from snapline.storage.journals.journal_client import PublicationFencedError
from snapline.types import FailureReason, SubtaskId

_log = logging.getLogger(__name__)


class Owner(Protocol):
    """The master as the coordinators of its attempts see it. Coordinators of older attempts may call late."""

    def request_completed(self, request: TriggerRequest, snapshot: Snapshot) -> None: ...

    def request_failed(self, failed: c.FailRequest) -> None: ...

    def failure_requested(self, attempt: int, cause: str, identity: ErrorIdentity | None = None) -> None: ...

    def storage_lost(self, attempt: int, cause: str) -> None:
        """The checkpoints of this attempt were deleted; `cause` says what to do."""

    def publication_fenced(self, newest_attempt: int) -> None:
        """A snapshot was not published, because another driver has claimed the job with this attempt."""


@dataclass(frozen=True, slots=True)
class MasterCalls:
    """Pools for blocking calls. The journal's appends one at a time; hooks are user code."""

    storage: BackgroundCalls
    journal: BackgroundCalls
    hooks: BackgroundCalls


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
        self._discovery = Discovery(coordinators, scheduler, calls.hooks, self._answer, self._failed)

    @property
    def retained(self) -> RetainedSnapshots:
        return self._coordinator.retained

    def feed(self, event: c.CoordinatorEvent) -> None:
        match event:
            case c.JobRunning():
                self._discovery.start()
            case c.JobLeftRunning():
                self._discovery.stop()
                self._give_up_draining()
            case c.CheckpointRequested(request) if request.drain and self._discovery.is_needed:
                self._drain(request)
                return
        self._decide(event)

    def _decide(self, event: c.CoordinatorEvent) -> None:
        self._effects.add(self._carry_out, self._coordinator.handle(event, self._now_ms(), self._scheduler.wall_ms()))

    # A job that is drained first reads all splits that were there.

    def _drain(self, request: TriggerRequest) -> None:
        self._draining.append(request)
        if len(self._draining) == 1:
            self._discovery.drain(self._drained)

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

    def split_requested(self, operator: str, subtask: SubtaskId) -> None:
        """A source subtask has read all its splits. Raises `PeerError` if it does not run this operator."""
        if self._coordinators.vertices.get(operator) != subtask.vertex:
            raise PeerError(f"{subtask} asks for splits of {operator!r}, which it does not run")
        try:
            answers = self._coordinators.assign(operator, subtask.index)
        except SnaplineError as error:
            self._failed(error)
            return
        self._answer(operator, answers)
        self._discovery.check()

    def _answer(self, operator: str, answers: Sequence[tuple[int, Any]]) -> None:
        for subtask, event in answers:
            self.feed(c.OperatorEventSent(operator, subtask, event))

    def _failed(self, error: Exception) -> None:
        self._owner.failure_requested(self.attempt, _text(error), ErrorIdentity.of(error, "driver"))

    def close(self) -> None:
        self._discovery.stop()
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
                _log.debug("%s %d is complete: %s", snapshot.kind.value.lower(), snapshot.id, snapshot.location)
                owner.request_completed(request, snapshot)
            case c.FailRequest(request):
                owner.request_failed(effect)
                if request.drain:
                    self._discovery.resume()
            case OperatorEvent():
                if not self._deployment.send(effect.execution, effect):
                    self.feed(c.OperatorEventLost(effect.sequence))
            case c.FailJob(cause):
                owner.failure_requested(self.attempt, cause)

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
        try:
            data = self._coordinators.snapshot(operator)
        except SnaplineError as error:
            self.feed(c.StepFailed("", checkpoint_id, str(error), io=False))
            return
        state = inline(operator, self.attempt, checkpoint_id, data)
        self.feed(c.OperatorCoordinatorSnapshotted(checkpoint_id, operator, state))

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
