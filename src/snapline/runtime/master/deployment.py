"""Starts and stops the tasks of regions in their slots."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from snapline.graph.job_spec import JobSpec
from snapline.runtime.master.job_recovery import Recovery
from snapline.runtime.master.slots import Slots
from snapline.runtime.scheduler.scheduler import Cancellable, Scheduler
from snapline.runtime.wire.control_messages import Cancel, Deploy, Message, TaskDeployment
from snapline.types import ExecutionId, SubtaskId


class DeploymentOwner(Protocol):
    """The user of a deployment. Called on the loop."""

    def tasks_stopped(self, attempt: int) -> None:
        """Nothing that was cancelled runs any more."""

    def process_killed(self, slot: int) -> None:
        """A process did not cancel its tasks in time. Whatever else ran there is gone too. `tasks_stopped` follows."""


class Deployment:
    """The tasks of a job. Used on the loop only."""

    def __init__(
        self,
        spec: JobSpec,
        scheduler: Scheduler,
        slots: Slots,
        shared: str | None,
        owner: DeploymentOwner,
    ) -> None:
        self._plan = spec.plan
        self._regions = spec.regions
        self._scheduler = scheduler
        self._slots = slots
        self._shared = shared
        self._cancel_timeout_s = spec.execution.cancel_timeout_ms / 1000
        self._owner = owner
        self._recovery: Recovery | None = None
        self._subtasks: Collection[SubtaskId] = ()
        self._cancelling: int | None = None
        self._waiting: set[tuple[int, int]] = set()
        self._is_whole = True
        self._timer: Cancellable | None = None

    def deploy(self, recovery: Recovery, subtasks: Collection[SubtaskId]) -> None:
        """Start these subtasks once all slots are ready; all others of their regions only end their outputs."""
        self._recovery, self._subtasks = recovery, frozenset(subtasks)
        self._slots.acquire()

    def slots_ready(self, addresses: Sequence[tuple[str, int]]) -> None:
        recovery, self._recovery = self._recovery, None
        if recovery is None:
            return
        for region in sorted(self._regions.all if recovery.regions is None else recovery.regions):
            vertices = self._regions.vertices({region})
            for slot in range(self._plan.slots):
                subtasks = [SubtaskId(vertex.id, slot) for vertex in self._plan.vertices if vertex.id in vertices]
                self._deploy(recovery, region, slot, subtasks, addresses)

    def _deploy(
        self,
        recovery: Recovery,
        region: int,
        slot: int,
        subtasks: Sequence[SubtaskId],
        addresses: Sequence[tuple[str, int]],
    ) -> None:
        plan = recovery.plan
        tasks = [
            TaskDeployment(
                ExecutionId(subtask, recovery.attempt), dict(plan.subtasks[subtask]), subtask not in self._subtasks
            )
            for subtask in subtasks
            if subtask in plan.subtasks
        ]
        if tasks:
            message = Deploy(
                attempt=recovery.attempt,
                peers=list(addresses),
                max_parallelism=dict(plan.max_parallelism),
                tasks=tasks,
                restored_id=recovery.restored_id,
                prepared_until=recovery.prepared_until,
                lineage=recovery.lineage.id,
                shared=self._shared,
                region=region,
            )
            self._slots.send(slot, message)

    def send(self, execution: ExecutionId, message: Message) -> bool:
        """Send a message to a subtask. Returns False if it has no process."""
        return self._slots.send(execution.subtask.index, message)

    # Stopping.

    def cancel(self, attempt: int, regions: frozenset[int] | None = None) -> None:
        """Stop this and older attempts, or only these regions; kills processes that do not stop in time.

        What a cancellation before is still waiting for has to stop as well.
        """
        self._recovery = None
        self._slots.give_up()
        if self._cancelling is None:
            self._waiting.clear()
            self._is_whole = False
        self._cancelling = attempt
        self._is_whole = self._is_whole or regions is None
        live, named = self._slots.live_processes, self._regions.all if regions is None else regions
        self._waiting.update((slot, region) for slot in live for region in named)
        for slot in live:
            self._slots.send(slot, Cancel(attempt, None if regions is None else sorted(regions)))
        self._cancel_timer()
        self._timer = self._scheduler.call_later(self._cancel_timeout_s, self._cancel_timed_out, attempt)
        self._report_if_stopped()

    def tasks_cancelled(self, slot: int, attempt: int, regions: Collection[int] | None = None) -> None:
        if self._cancelling is not None and attempt >= self._cancelling:
            self._waiting -= {(slot, region) for region in (self._regions.all if regions is None else regions)}
            self._report_if_stopped()

    def process_gone(self, slot: int) -> None:
        self._waiting = {entry for entry in self._waiting if entry[0] != slot}
        self._report_if_stopped()

    def close(self) -> None:
        self._cancelling = None
        self._cancel_timer()

    def _cancel_timed_out(self, attempt: int) -> None:
        if self._cancelling == attempt:
            slots, self._waiting = sorted({slot for slot, _ in self._waiting}), set()
            for slot in slots:
                self._slots.kill_process(slot)
                self._owner.process_killed(slot)
            self._report_if_stopped()

    def _report_if_stopped(self) -> None:
        if self._cancelling is not None and not self._waiting:
            attempt, self._cancelling = self._cancelling, None
            self._cancel_timer()
            if self._is_whole:
                self._slots.idle()
            self._owner.tasks_stopped(attempt)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
