"""A pending checkpoint: what has been acknowledged and collected, and what is missing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum

from snapline.protocol.coordinator.checkpoint_plan import CheckpointPlan
from snapline.protocol.coordinator.coordinator_events import AckResult
from snapline.protocol.coordinator.coordinator_state import InFlightEvent, with_events
from snapline.protocol.coordinator.request_decider import TriggerRequest
from snapline.protocol.lineage import Lineage
from snapline.protocol.machine import TransitionTable
from snapline.protocol.snapshot import OperatorState, Snapshot, StoredObject, SubtaskState, VertexInfo
from snapline.types import SubtaskId

MAX_NAMES = 5
"""How many names a message lists."""


class PendingPhase(Enum):
    """The state of a checkpoint in the coordinator."""

    LOCATING = "LOCATING"
    COORDINATORS = "COORDINATORS"
    HOOKS = "HOOKS"
    COLLECTING = "COLLECTING"
    WRITING_METADATA = "WRITING_METADATA"
    PUBLISHING = "PUBLISHING"
    COMPLETED = "COMPLETED"
    ABORTED = "ABORTED"


_P = PendingPhase
PENDING = TransitionTable(
    "One checkpoint in the coordinator",
    "Each step waits for the one before. A published checkpoint is canonical, even if the driver fails right after.",
    _P.LOCATING,
    [
        (_P.LOCATING, "location created", _P.COORDINATORS),
        (_P.COORDINATORS, "coordinators snapshotted", _P.HOOKS),
        (_P.HOOKS, "hooks snapshotted", _P.COLLECTING),
        (_P.COLLECTING, "fully acknowledged", _P.WRITING_METADATA),
        (_P.WRITING_METADATA, "metadata written", _P.PUBLISHING),
        (_P.PUBLISHING, "published", _P.COMPLETED),
        *((phase, "aborted", _P.ABORTED) for phase in _P if phase not in (_P.COMPLETED, _P.ABORTED)),
    ],
)


class PendingCheckpoint:
    """Collects the parts of one checkpoint of one attempt."""

    def __init__(
        self,
        checkpoint_id: int,
        request: TriggerRequest,
        plan: CheckpointPlan,
        *,
        timestamp_ms: int,
        coordinators: Iterable[str],
        hooks: Iterable[str],
    ) -> None:
        self.id = checkpoint_id
        self.request = request
        self.plan = plan
        self.timestamp_ms = timestamp_ms
        self.phase = PENDING.initial
        self.location: str | None = None
        self.is_inline = False
        self.metadata_bytes = 0
        self.snapshot: Snapshot | None = None
        self.unconfirmed_events: set[int] = set()
        self._missing_tasks = set(plan.wait)
        self._missing_coordinators = set(coordinators)
        self._missing_hooks = set(hooks)
        self._tasks: dict[SubtaskId, Mapping[str, SubtaskState]] = {}
        self._coordinators: dict[str, StoredObject] = {}
        self._hooks: dict[str, StoredObject] = {}

    @property
    def is_final(self) -> bool:
        """Whether all parts are in, so that only its metadata can still fail."""
        return self.phase in (PendingPhase.WRITING_METADATA, PendingPhase.PUBLISHING)

    @property
    def waits_for(self) -> str:
        """What its next step waits for, in words."""
        match self.phase:
            case PendingPhase.COORDINATORS:
                missing = self._missing_coordinators or ("events that are not confirmed",)
                return f"operator coordinators: {_listed(missing)}"
            case PendingPhase.HOOKS:
                return f"master hooks: {_listed(self._missing_hooks)}"
            case PendingPhase.COLLECTING:
                return f"{len(self._missing_tasks)} of {len(self.plan.wait)} subtasks: {_listed(self._missing_tasks)}"
            case PendingPhase.LOCATING:
                return "its directory"
            case PendingPhase.WRITING_METADATA:
                return "its metadata to be written"
            case _:
                return "its record in the journal"

    @property
    def coordinators_done(self) -> bool:
        return not self._missing_coordinators and not self.unconfirmed_events

    @property
    def hooks_done(self) -> bool:
        return not self._missing_hooks

    @property
    def is_fully_acknowledged(self) -> bool:
        return not self._missing_tasks and self.coordinators_done and self.hooks_done

    def step(self, cause: str) -> None:
        self.phase = PENDING.step(self.phase, cause)

    def acknowledge(self, subtask: SubtaskId, state: Mapping[str, SubtaskState]) -> AckResult:
        if subtask in self._tasks:
            return AckResult.DUPLICATE
        if subtask not in self._missing_tasks:
            return AckResult.UNKNOWN
        self._missing_tasks.discard(subtask)
        self._tasks[subtask] = state
        return AckResult.SUCCESS

    def acknowledge_coordinator(self, operator: str, state: StoredObject | None) -> bool:
        if operator not in self._missing_coordinators:
            return False
        self._missing_coordinators.discard(operator)
        if state is not None:
            self._coordinators[operator] = state
        return True

    def acknowledge_hook(self, hook: str, state: StoredObject | None) -> bool:
        if hook not in self._missing_hooks:
            return False
        self._missing_hooks.discard(hook)
        if state is not None:
            self._hooks[hook] = state
        return True

    def objects(self) -> Iterator[StoredObject]:
        """Everything collected so far."""
        for states in self._tasks.values():
            for state in states.values():
                yield from state.objects()
        yield from self._coordinators.values()
        yield from self._hooks.values()

    def breaks_union_state(self, vertices: Iterable[VertexInfo]) -> str | None:
        """The vertex whose union list state would be incomplete, or None: some subtasks have ended, others not.

        Operators report the union lists they have declared, even empty ones.
        """
        for vertex in vertices:
            states = [self._tasks.get(subtask) for subtask in vertex.subtasks()]
            ended = [state is None or any(part.ended for part in state.values()) for state in states]
            is_split = any(ended) and (not all(ended) or None in states)
            if is_split and any(part.has_union for state in states if state is not None for part in state.values()):
                return vertex.id
        return None

    def to_snapshot(
        self,
        vertices: Iterable[VertexInfo],
        attempt: int,
        in_flight: Mapping[str, Sequence[InFlightEvent]],
        lineage: Lineage,
    ) -> Snapshot:
        """The complete snapshot, with marks for tasks and operators that had finished before.

        `in_flight` has the events on their way to operator coordinators.
        """
        assert self.location is not None
        for uid, state in self._coordinators.items():
            self._coordinators[uid] = with_events(state, in_flight.get(uid, ()))
        kind, format = self.request.kind, self.request.format
        operators = {uid: self._operator(uid, vertex) for vertex in vertices for uid in vertex.operators}
        hooks = dict(self._hooks)
        return Snapshot(self.id, kind, attempt, self.timestamp_ms, self.location, operators, hooks, format, lineage)

    def _operator(self, uid: str, vertex: VertexInfo) -> OperatorState:
        is_finished = vertex.id in self.plan.finished_vertices
        left = () if is_finished else self.plan.finished_subtasks
        subtasks = {subtask.index: SubtaskState(finished=True) for subtask in left if subtask.vertex == vertex.id}
        for subtask in vertex.subtasks():
            if subtask in self._tasks:
                subtasks[subtask.index] = self._tasks[subtask].get(uid, SubtaskState())
        coordinator = self._coordinators.get(uid)
        return OperatorState(uid, vertex.parallelism, vertex.max_parallelism, subtasks, coordinator, is_finished)


def _listed(names: Iterable[object]) -> str:
    first = sorted(map(str, names))
    return ", ".join(first[:MAX_NAMES]) + (", …" if len(first) > MAX_NAMES else "")
