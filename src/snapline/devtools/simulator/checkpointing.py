"""The shell of one attempt's checkpoint coordinator: carries out what it orders, and brings back the answers."""

from __future__ import annotations

from typing import Protocol

from snapline.devtools.simulator.archive import Archive
from snapline.devtools.simulator.deployment import Deployment
from snapline.devtools.simulator.kernel import Kernel, Process, Scheduled
from snapline.devtools.simulator.splits import Splits
from snapline.errors import StorageError
from snapline.protocol.coordinator import coordinator_events as c
from snapline.protocol.coordinator.checkpoint_coordinator import CheckpointCoordinator
from snapline.protocol.coordinator.request_decider import TriggerRequest
from snapline.protocol.journal import Journal
from snapline.protocol.snapshot import Snapshot
from snapline.protocol.subtask import subtask_events as s

HOOK_MS = 8
"""How long a master hook takes: long enough for a source to ask for its next split meanwhile."""


class Owner(Protocol):
    """A driver, as the coordinators of its attempts see it. Older attempts may speak up late."""

    def request_completed(self, request: TriggerRequest, snapshot: Snapshot) -> None:
        """A snapshot is complete."""

    def request_failed(self, request: TriggerRequest) -> None:
        """A snapshot that was asked for will never be."""

    def failure_requested(self, attempt: int, cause: str) -> None:
        """The attempt has to fail."""

    def publication_fenced(self, newest_attempt: int) -> None:
        """A snapshot could not be published, because this attempt has claimed the job."""


class Checkpointing:
    """Serves one coordinator, also after its attempt has ended: what it has begun it may have to clean up."""

    def __init__(
        self,
        kernel: Kernel,
        process: Process,
        coordinator: CheckpointCoordinator,
        archive: Archive,
        deployment: Deployment,
        splits: Splits,
        owner: Owner,
        *,
        ids_after: int,
    ) -> None:
        self.attempt = coordinator.attempt
        self._kernel = kernel
        self._process = process
        self._coordinator = coordinator
        self._archive = archive
        self._deployment = deployment
        self._splits = splits
        self._owner = owner
        self._ids_after = ids_after
        self._timers: dict[c.Timer, Scheduled] = {}

    @property
    def retained(self) -> tuple[Snapshot, ...]:
        return self._coordinator.retained.snapshots

    def feed(self, event: c.CoordinatorEvent) -> None:
        """Tell the coordinator, and do what it orders."""
        for effect in self._coordinator.handle(event, self._kernel.now_ms):
            self._carry_out(effect)

    def _carry_out(self, effect: c.CoordinatorEffect) -> None:
        archive, owner = self._archive, self._owner
        match effect:
            case c.SetTimer(timer, at_ms):
                self._set_timer(timer, at_ms)
            case c.CancelTimer(timer):
                self._cancel_timer(timer)
            case c.ReserveId(request_name):
                self._reserve_id(request_name)
            case c.CreateLocation(checkpoint_id, request):
                self._create_location(checkpoint_id, request)
            case c.SnapshotOperatorCoordinator(checkpoint_id, operator):
                state = archive.hold_inline(self.attempt, checkpoint_id, operator, self._splits.unassigned(operator))
                self.feed(c.OperatorCoordinatorSnapshotted(checkpoint_id, operator, state))
            case c.SnapshotHook(checkpoint_id, hook):
                state = archive.hold_inline(self.attempt, checkpoint_id, hook, [checkpoint_id])
                self._kernel.after(HOOK_MS, self._process, self.feed, c.HookSnapshotted(checkpoint_id, hook, state))
            case c.TriggerTask(execution, barrier, _):
                triggered = s.TriggerReceived(execution.attempt, barrier)
                self._deployment.send(execution, lambda task: task.trigger(triggered))
            case c.WriteMetadata(snapshot):
                self._write_metadata(snapshot)
            case c.Publish(snapshot):
                self._publish(snapshot)
            case c.NotifyComplete(execution, checkpoint_id, subsumed_id):
                complete = s.CompletionNotified(execution.attempt, checkpoint_id, subsumed_id)
                self._deployment.send(execution, lambda task: task.notify(complete))
            case c.NotifyAborted(execution, checkpoint_id, _):
                aborted = s.AbortNotified(execution.attempt, checkpoint_id)
                self._deployment.send(execution, lambda task: task.notify(aborted))
            case c.Discard(_, objects, location):
                archive.discard(objects, location, self.attempt)
            case c.DeleteSnapshot(snapshot):
                cleaned = c.Cleaned(snapshot.id)
                archive.delete_snapshot(snapshot, self._coordinator.retained, lambda: self.feed(cleaned))
            case c.DeleteShared(objects):
                self._kernel.cover("shared objects deleted")
                archive.delete([item.path for item in objects])
            case c.CompleteRequest(request, snapshot):
                kind = snapshot.kind.value
                self._kernel.cover(f"completed: {kind}")
                self._kernel.tell(self._process.name, "{} {} is complete", kind.lower(), snapshot.id)
                owner.request_completed(request, snapshot)
            case c.FailRequest(request, reason, message):
                self._kernel.cover(f"failed: {reason.value}")
                self._kernel.tell(self._process.name, "{} failed: {} {}", request.name, reason.value, message)
                owner.request_failed(request)
            case c.DeliverOperatorEvent():
                self._splits.deliver(self.attempt, effect, self.feed)
            case c.FailJob(cause):
                owner.failure_requested(self.attempt, cause)

    def _set_timer(self, timer: c.Timer, at_ms: int) -> None:
        self._cancel_timer(timer)
        delay_ms = max(at_ms - self._kernel.now_ms, 0)
        self._timers[timer] = self._kernel.after(delay_ms, self._process, self.feed, c.TimerFired(timer))

    def _cancel_timer(self, timer: c.Timer) -> None:
        scheduled = self._timers.pop(timer, None)
        if scheduled is not None:
            scheduled.cancel()

    def _reserve_id(self, request_name: str) -> None:
        self._archive.reserve_id(
            self.attempt,
            request_name,
            self._ids_after,
            lambda checkpoint_id: self.feed(c.IdReserved(request_name, checkpoint_id)),
            lambda error: self.feed(c.StepFailed(request_name, None, str(error))),
        )

    def _create_location(self, checkpoint_id: int, request: TriggerRequest) -> None:
        self._archive.create_location(
            checkpoint_id,
            lambda location: self.feed(c.LocationCreated(checkpoint_id, location)),
            lambda error: self.feed(c.StepFailed(request.name, checkpoint_id, str(error))),
            is_savepoint=request.kind.is_savepoint,
        )

    def _write_metadata(self, snapshot: Snapshot) -> None:
        def done(is_ours: bool) -> None:
            if is_ours:
                self.feed(c.MetadataWritten(snapshot.id, len(snapshot.operators)))
            else:
                self.feed(c.FinalizeFailed(snapshot.id, "another attempt has used this id"))

        def failed(error: StorageError) -> None:
            self.feed(c.FinalizeFailed(snapshot.id, str(error)))

        self._archive.write_metadata(snapshot, done, failed)

    def _publish(self, snapshot: Snapshot) -> None:
        def published() -> None:
            self.feed(c.Published(snapshot.id))

        def fenced(journal: Journal, was_sent: bool) -> None:
            self._kernel.cover("publication fenced")
            error = f"attempt {journal.attempt} has taken over"
            self.feed(c.FinalizeFailed(snapshot.id, error, possibly_inconsistent=was_sent))
            if not journal.owns(journal.attempt, self._process.name):
                self._owner.publication_fenced(journal.attempt)

        def failed(error: StorageError) -> None:
            self.feed(c.FinalizeFailed(snapshot.id, str(error), possibly_inconsistent=True))

        self._archive.publish(snapshot, published, fenced, failed)
