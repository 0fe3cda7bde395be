"""What the operators of one subtask get in `open`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextvars import copy_context
from typing import Any, Protocol

import pyarrow as pa

from snapline.contracts.operator import Operator, OperatorContext
from snapline.graph.execution_plan import PlannedOperator
from snapline.operators.source_head import ChainMember, SourceHead
from snapline.runtime.scheduler.mailbox import Mailbox
from snapline.runtime.task.operator_chain import Emit
from snapline.runtime.task.task_environment import TaskEnvironment, TaskPlan
from snapline.runtime.task.task_outputs import TaskOutputs
from snapline.state.subtask_states import SubtaskStates


class PassOn(Protocol):
    """Passes a watermark on from an operator."""

    def __call__(self, watermark: int, behind: Operator | None) -> None: ...


class SendEvent(Protocol):
    """Sends an event of an operator to its coordinator."""

    def __call__(self, operator: str, event: Any, *, is_repeated: bool) -> None: ...


class OperatorContexts:
    """Creates the states and contexts of the operators in one execution."""

    def __init__(
        self,
        plan: TaskPlan,
        environment: TaskEnvironment,
        mailbox: Mailbox,
        uids: Sequence[str],
        outputs: TaskOutputs,
        pass_on: PassOn,
        send_event: SendEvent,
    ) -> None:
        self._plan = plan
        self._environment = environment
        self._mailbox = mailbox
        self._uids = uids
        self._outputs = outputs
        self._pass_on = pass_on
        self._send_event = send_event
        self._clock = environment.threads.now_ms

    def make_states(self, planned: PlannedOperator) -> SubtaskStates:
        plan = self._plan
        return self._environment.make_states(
            planned,
            subtask=plan.execution.subtask.index,
            parallelism=plan.vertex.parallelism,
            max_parallelism=plan.max_parallelism,
            execution=plan.settings,
            directory=lambda: plan.directory() / f"{self._uids.index(planned.uid)}",
            clock=self._clock,
        )

    def make_context(
        self, planned: PlannedOperator, member: ChainMember, states: SubtaskStates, emit: Emit
    ) -> OperatorContext:
        plan, is_last = self._plan, planned.uid == self._uids[-1]
        behind = None if isinstance(member, SourceHead) else member
        events = {"send_event": self._event_sender(planned.uid, member)} if planned.has_coordinator else {}
        return OperatorContext(
            job_id=plan.job_id,
            uid=planned.uid,
            subtask=plan.execution.subtask.index,
            parallelism=plan.vertex.parallelism,
            max_parallelism=plan.max_parallelism,
            attempt=plan.execution.attempt,
            key_columns=() if planned.key is None else planned.key.columns,
            states=states,
            restored_id=plan.restored_id,
            prepared_until=plan.prepared_until,
            lineage=plan.lineage,
            committer_retries=plan.checkpoints.committer_retries,
            takes_last_checkpoint=plan.takes_last_checkpoint,
            clock=self._clock,
            emit=emit,
            emit_to=(lambda output, batch: self._outputs.emit(batch, output)) if is_last else _drop,
            emit_watermark=lambda watermark: self._pass_on(watermark, behind),
            background=self._in_background,
            post=self._mailbox.post,
            call_later=self._call_later,
            **events,
        )

    def _event_sender(self, uid: str, member: ChainMember) -> Callable[[Any], None]:
        # A source asks for splits again after a restore.
        is_repeated = isinstance(member, SourceHead) or member.repeats_events
        return lambda event: self._send_event(uid, event, is_repeated=is_repeated)

    def _call_later(self, delay_ms: int, call: Callable[[], None]) -> None:
        self._mailbox.at(self._clock() + delay_ms, call)

    def _in_background(self, call: Callable[[], Any], done: Callable[[Future[Any]], None]) -> None:
        # In the task's context, which says whether messages may show values.
        future = self._environment.background.submit(copy_context().run, call)
        future.add_done_callback(lambda ended: self._mailbox.post(lambda: done(ended)))


def _drop(output: str, batch: pa.RecordBatch) -> None:
    """Nobody reads the side outputs of an operator inside a chain."""
