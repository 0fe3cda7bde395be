"""Starts and stops the tasks of an attempt in their slots."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from snapline.graph.job_spec import JobSpec
from snapline.runtime.master.job_recovery import Recovery
from snapline.runtime.master.slots import Slots
from snapline.runtime.scheduler.scheduler import Cancellable, Scheduler
from snapline.runtime.wire.control_messages import Cancel, Deploy, Message, TaskDeployment
from snapline.types import ExecutionId, SubtaskId


class Deployment:
    """The tasks of the newest attempt. Calls `stopped(attempt)` when none of an attempt runs any more."""

    def __init__(
        self, spec: JobSpec, scheduler: Scheduler, slots: Slots, shared: str | None, stopped: Callable[[int], None]
    ) -> None:
        self._plan = spec.plan
        self._scheduler = scheduler
        self._slots = slots
        self._shared = shared
        self._cancel_timeout_s = spec.execution.cancel_timeout_ms / 1000
        self._stopped = stopped
        self._recovery: Recovery | None = None
        self._subtasks: Collection[SubtaskId] = ()
        self._cancelling: int | None = None
        self._waiting: set[int] = set()
        self._timer: Cancellable | None = None

    def deploy(self, recovery: Recovery, subtasks: Collection[SubtaskId]) -> None:
        """Start these subtasks once all slots are ready; all others have finished and only end their outputs."""
        self._recovery, self._subtasks = recovery, frozenset(subtasks)
        self._slots.acquire()

    def slots_ready(self, addresses: Sequence[tuple[str, int]]) -> None:
        recovery, self._recovery = self._recovery, None
        if recovery is None:
            return
        plan = recovery.plan
        for slot in range(self._plan.slots):
            tasks = [
                TaskDeployment(
                    ExecutionId(subtask, recovery.attempt), dict(plan.subtasks[subtask]), subtask not in self._subtasks
                )
                for subtask in (SubtaskId(vertex.id, slot) for vertex in self._plan.vertices)
                if subtask in plan.subtasks
            ]
            self._slots.send(
                slot,
                Deploy(
                    attempt=recovery.attempt,
                    peers=list(addresses),
                    max_parallelism=dict(plan.max_parallelism),
                    tasks=tasks,
                    restored_id=recovery.restored_id,
                    prepared_until=recovery.prepared_until,
                    shared=self._shared,
                ),
            )

    def send(self, execution: ExecutionId, message: Message) -> bool:
        """Send a message to a subtask. Returns False if it has no process."""
        return self._slots.send(execution.subtask.index, message)

    # Stopping.

    def cancel(self, attempt: int) -> None:
        """Stop this and older attempts; kills processes that do not stop in time."""
        self._recovery = None
        self._slots.give_up()
        self._cancelling = attempt
        self._waiting = set(self._slots.live_processes)
        for slot in self._waiting:
            self._slots.send(slot, Cancel(attempt))
        self._cancel_timer()
        self._timer = self._scheduler.call_later(self._cancel_timeout_s, self._cancel_timed_out, attempt)
        self._report_if_stopped()

    def tasks_cancelled(self, slot: int, attempt: int) -> None:
        if self._cancelling is not None and attempt >= self._cancelling:
            self._waiting.discard(slot)
            self._report_if_stopped()

    def process_gone(self, slot: int) -> None:
        self._waiting.discard(slot)
        self._report_if_stopped()

    def close(self) -> None:
        self._cancelling = None
        self._cancel_timer()

    def _cancel_timed_out(self, attempt: int) -> None:
        if self._cancelling == attempt:
            for slot in list(self._waiting):
                self._slots.kill_process(slot)
            self._waiting.clear()
            self._report_if_stopped()

    def _report_if_stopped(self) -> None:
        if self._cancelling is not None and not self._waiting:
            attempt, self._cancelling = self._cancelling, None
            self._cancel_timer()
            self._slots.idle()
            self._stopped(attempt)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
