"""The start of a checkpoint: id, location, operator coordinators, hooks, and then the barrier at the tasks."""

from __future__ import annotations

from snapline.config import Checkpoints
from snapline.protocol.barriers.barrier_events import barrier_kind, new_barrier
from snapline.protocol.coordinator import coordinator_events as c
from snapline.protocol.coordinator.checkpoint_plan import CheckpointPlan
from snapline.protocol.coordinator.operator_events import OperatorEvents
from snapline.protocol.coordinator.pending_checkpoint import PendingCheckpoint, PendingPhase
from snapline.protocol.coordinator.request_decider import TriggerRequest
from snapline.protocol.coordinator.task_board import JobShape
from snapline.protocol.executions import Executions
from snapline.protocol.messages import TriggerCheckpoint
from snapline.protocol.snapshot import StoredObject
from snapline.protocol.statistics.checkpoint_records import SubtaskMetrics
from snapline.protocol.statistics.checkpoint_statistics import CheckpointStatistics
from snapline.types import BarrierKind, CheckpointScope


class StartSequence:
    """Starts one checkpoint at a time.

    `pending` and `effects` are the coordinator's own dict and list. A method that takes the last step returns the
    checkpoint whose tasks it has triggered, else None. `full_until_complete` forbids the reuse of older objects.
    """

    def __init__(
        self,
        executions: Executions,
        config: Checkpoints,
        shape: JobShape,
        statistics: CheckpointStatistics,
        events: OperatorEvents,
        pending: dict[int, PendingCheckpoint],
        effects: list[c.CoordinatorEffect],
        *,
        full_until_complete: bool,
    ) -> None:
        self.full_until_complete = full_until_complete
        self._executions = executions
        self._config = config
        self._shape = shape
        self._coordinators = tuple(shape.coordinators())
        self._statistics = statistics
        self._events = events
        self._pending = pending
        self._effects = effects
        self._request: TriggerRequest | None = None
        self._plan: CheckpointPlan | None = None
        self._checkpoint_id: int | None = None

    @property
    def is_busy(self) -> bool:
        return self._request is not None

    def begin(self, request: TriggerRequest, plan: CheckpointPlan) -> None:
        self._request, self._plan, self._checkpoint_id = request, plan, None
        self._effects.append(c.ReserveId(request.name))

    def is_reserving(self, name: str) -> bool:
        """Whether the request of this name waits for its id."""
        return self._request is not None and self._request.name == name and self._checkpoint_id is None

    def drop(self) -> TriggerRequest | None:
        """Gives up. Returns the request if it has no checkpoint yet, else None."""
        request, self._request = self._request, None
        return request if self._checkpoint_id is None else None

    def aborted(self, checkpoint_id: int) -> None:
        """A checkpoint has failed, possibly the one that is being started."""
        if self._checkpoint_id == checkpoint_id:
            self._request = None

    def id_reserved(self, name: str, checkpoint_id: int, now_ms: int, wall_ms: int) -> None:
        request, plan = self._request, self._plan
        if request is None or plan is None or not self.is_reserving(name):
            return
        self._checkpoint_id = checkpoint_id
        self._pending[checkpoint_id] = PendingCheckpoint(
            checkpoint_id,
            request,
            plan,
            timestamp_ms=wall_ms,
            coordinators=self._coordinators,
            hooks=self._shape.hooks,
        )
        self._statistics.created(
            checkpoint_id,
            kind=request.kind,
            savepoint_format=request.format,
            trigger_ms=now_ms,
            subtasks={vertex.id: vertex.parallelism for vertex in self._shape.vertices},
            unaligned=barrier_kind(self._config, request.kind) is BarrierKind.UNALIGNED,
        )
        for subtask in plan.finished_subtasks:
            self._statistics.acknowledged(checkpoint_id, subtask.vertex, subtask.index, now_ms, SubtaskMetrics())
        self._effects.append(c.CreateLocation(checkpoint_id, request))

    def location_created(self, checkpoint_id: int, location: str, is_inline: bool) -> PendingCheckpoint | None:
        pending = self._pending.get(checkpoint_id)
        if pending is None:
            self._effects.append(c.Discard(checkpoint_id, (), location))
            return None
        pending.location, pending.is_inline = location, is_inline
        pending.step("location created")
        self._events.keep(checkpoint_id)
        for operator in self._coordinators:
            self._effects.append(c.SnapshotOperatorCoordinator(checkpoint_id, operator))
        return self._after_coordinators(pending)

    def coordinator_snapshotted(
        self, checkpoint_id: int, operator: str, state: StoredObject | None
    ) -> PendingCheckpoint | None:
        pending = self._pending.get(checkpoint_id)
        if pending is None or not pending.acknowledge_coordinator(operator, state):
            return None
        pending.unconfirmed_events |= self._events.snapshotted(operator, checkpoint_id)
        return self._after_coordinators(pending)

    def event_confirmed(self, sequence: int) -> PendingCheckpoint | None:
        """An operator event has arrived; the checkpoint being started may have waited for it."""
        self._effects.extend(self._events.confirmed(sequence))
        for pending in self._pending.values():
            if sequence in pending.unconfirmed_events:
                pending.unconfirmed_events.discard(sequence)
                return self._after_coordinators(pending)
        return None

    def hook_snapshotted(self, checkpoint_id: int, hook: str, state: StoredObject | None) -> PendingCheckpoint | None:
        pending = self._pending.get(checkpoint_id)
        if pending is None or not pending.acknowledge_hook(hook, state):
            self._effects.append(c.Discard(checkpoint_id, () if state is None else (state,)))
            return None
        return self._after_hooks(pending)

    def _after_coordinators(self, pending: PendingCheckpoint) -> PendingCheckpoint | None:
        if pending.phase is not PendingPhase.COORDINATORS or not pending.coordinators_done:
            return None
        pending.step("coordinators snapshotted")
        for hook in self._shape.hooks:
            self._effects.append(c.SnapshotHook(pending.id, hook))
        return self._after_hooks(pending)

    def _after_hooks(self, pending: PendingCheckpoint) -> PendingCheckpoint | None:
        if pending.phase is not PendingPhase.HOOKS or not pending.hooks_done:
            return None
        assert pending.location is not None
        pending.step("hooks snapshotted")
        request = pending.request
        barrier = new_barrier(
            self._config,
            pending.id,
            pending.timestamp_ms,
            request.kind,
            drain=request.drain,
            full=self._must_be_full(request),
            location=None if pending.is_inline else pending.location,
            format=request.format if request.kind.is_savepoint else None,
            alone=self._must_stand_alone(request),
        )
        for subtask in pending.plan.trigger:
            self._effects.append(TriggerCheckpoint(self._executions.of(subtask), barrier))
        self._statistics.started(pending.id)
        self._request = None
        return pending

    def _must_stand_alone(self, request: TriggerRequest) -> bool:
        """Whether nothing of older checkpoints may be reused."""
        return self.full_until_complete or request.kind.is_savepoint or request.scope is CheckpointScope.FULL

    def _must_be_full(self, request: TriggerRequest) -> bool:
        """Whether keyed state is written anew."""
        if self._must_stand_alone(request):
            return True
        return request.scope is CheckpointScope.CONFIGURED and not self._config.incremental
