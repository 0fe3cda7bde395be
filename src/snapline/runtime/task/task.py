"""One subtask: takes turns on a thread of its own, and carries out what its checkpoint machine orders."""

from __future__ import annotations

import logging
import threading
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

import pyarrow as pa

from snapline.config import CheckpointMode, Checkpoints
from snapline.contracts.operator import Operator, OperatorContext
from snapline.errors import ConfigurationError, RestoreError, SnaplineError
from snapline.graph.execution_plan import PlannedOperator
from snapline.operators.source_head import SourceOperator
from snapline.protocol.barriers import barrier_events as b
from snapline.protocol.barriers.aligner import AligningHandler
from snapline.protocol.barriers.tracker import TrackingHandler
from snapline.protocol.restore.restore_plan import SubtaskRestore
from snapline.protocol.subtask import subtask_events as s
from snapline.protocol.subtask.subtask_machine import SubtaskCheckpointing
from snapline.runtime.network.channels import OutputChannel
from snapline.runtime.task.input_gate import GateChannel, InputGate
from snapline.runtime.task.input_watermarks import InputWatermarks
from snapline.runtime.task.mailbox import Mailbox, Timer, wall_clock_ms
from snapline.runtime.task.operator_chain import OperatorChain, make_states
from snapline.runtime.task.subtask_snapshots import SubtaskSnapshots
from snapline.runtime.task.subtask_storage import SubtaskStorage
from snapline.runtime.task.task_environment import Executors, Reporter, TaskPlan
from snapline.runtime.task.task_meter import TaskMeter, Waiting
from snapline.runtime.task.task_outputs import OutputEdge, TaskOutputs
from snapline.runtime.wire.channel_items import Item, ItemKind
from snapline.runtime.wire.control_messages import TaskMetrics
from snapline.state.channel_state import ChannelStates, read_channel
from snapline.state.subtask_states import SubtaskStates
from snapline.types import IDLE, MAX_WATERMARK, NO_CHECKPOINT, TaskStatus

_log = logging.getLogger(__name__)

_LONGEST_WAIT_MS = 100
"""A source that has nothing to read is looked at again after this time, to see whether it has become idle."""

_NO_ROOM_PAUSE_MS = 10
"""Operators that are to be woken while outputs are full are woken later; this is how often that is looked at."""


class _Cancelled(Exception):  # noqa: N818  # not an error: the way out of a turn
    """The task is to stop now."""


class Task:
    """One execution of one subtask. `connect` comes first, then `start`; it ends by itself, or after `cancel`.

    `arrive`, `room_changed`, `barrier_left`, `end_was_read` and everything under «Messages» may be called from any
    thread; the rest happens on the task's own.
    """

    def __init__(
        self,
        plan: TaskPlan,
        operators: Sequence[Operator],
        storage: SubtaskStorage,
        executors: Executors,
        reporter: Reporter,
        clock: Callable[[], int] = wall_clock_ms,
    ) -> None:
        self.execution = plan.execution
        self.status = TaskStatus.DEPLOYING
        self.has_finished = False
        self._plan = plan
        self._storage = storage
        self._executors = executors
        self._reporter = reporter
        self._clock = clock
        self._mailbox = Mailbox(clock)
        self._meter = TaskMeter()
        self._outputs = TaskOutputs((), self._meter)
        self._output_channels: list[tuple[str, OutputChannel]] = []
        self._chain = OperatorChain(plan.vertex.operators, operators, self._emit)
        self._snapshots = SubtaskSnapshots(
            self._chain.uids,
            storage,
            executors.state,
            ChannelStates(executors.channels),
            self._feed,
            self._mailbox.post,
        )
        self._gate: InputGate | None = None
        self._valve: InputWatermarks | None = None
        self._source = operators[0] if isinstance(operators[0], SourceOperator) else None
        self._is_source_held = plan.checkpoints.pause_sources_until_first and plan.restored_id == NO_CHECKPOINT
        self._is_source_stopped = False
        self._source_timer: Timer | None = None
        self._source_watermark: int | None = None
        self._replay: deque[tuple[int, pa.RecordBatch]] = deque()
        self._wakeup: Timer | None = None
        self._ended_inputs = 0
        self._final_from = 0
        self._unread_ends = 0
        self._end_sent = False
        self._finish_wanted = False
        self._is_over = False
        self._is_cancelled = False
        self._triggers: deque[s.TriggerReceived] = deque()
        self._triggers_guard = threading.Lock()
        self._has_left = False
        self._thread = threading.Thread(target=self._run, name=str(plan.execution), daemon=True)

    # Deployment.

    def connect(self, inputs: Sequence[GateChannel], outputs: Sequence[OutputEdge]) -> None:
        """Give the task its channels, before it is started."""
        plan = self._plan
        self._outputs = TaskOutputs(outputs, self._meter)
        self._output_channels = [(edge.edge.id, channel) for edge in outputs for channel in edge.channels]
        if inputs:
            handler = _make_handler(plan.checkpoints, len(inputs))
            self._valve = InputWatermarks(len(inputs))
            self._gate = InputGate(inputs, handler, self._snapshots, self._mailbox, self._feed, self._clock)
        self._machine = SubtaskCheckpointing(
            plan.execution,
            has_inputs=bool(inputs),
            has_outputs=bool(self._outputs.channels),
            final_checkpoint=plan.takes_last_checkpoint,
            max_remembered_aborts=plan.checkpoints.max_concurrent,
        )

    def start(self) -> None:
        self._thread.start()

    def cancel(self) -> None:
        """Stop without finishing anything, as soon as user code lets go."""
        self._is_cancelled = True
        self._mailbox.wake()

    def join(self, timeout_s: float | None) -> bool:
        """Wait for the task's end; false if it has not come in time."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def metrics(self) -> TaskMetrics:
        gate, valve = self._gate, self._valve
        watermark_ms = self._source_watermark if valve is None else valve.current_ms
        if watermark_ms == IDLE:
            watermark_ms = None
        queued_in = 0 if gate is None else gate.queued_bytes
        return self._meter.read(
            self.execution, watermark_ms, queued_in, self._outputs.queued_bytes, self._chain.late_rows
        )

    # The thread.

    def _run(self) -> None:
        error: BaseException | None = None
        try:
            self._open()
            self._take_turns()
        except _Cancelled:
            self.status = TaskStatus.CANCELED
        except BaseException as raised:  # whatever it is, the driver must hear of it
            error = raised
            self.status = TaskStatus.FAILED
        finally:
            self._snapshots.cancel_all()
            for problem in self._chain.close():
                if error is None and self.status is not TaskStatus.CANCELED:
                    _log.warning("%s: closing it failed: %s", self.execution, problem, exc_info=problem)
                else:
                    _log.debug("%s: closing it failed: %s", self.execution, problem)
        if self.status is TaskStatus.FINISHED:
            self.has_finished = True
            self._outputs.send(Item(ItemKind.END_OF_PARTITION))
            # Last of all, as the process may be gone once everybody has finished.
            self._reporter.task_changed(self.execution, TaskStatus.FINISHED)
            self._decline_triggers()
        if error is not None:
            trace = "".join(traceback.format_exception(error))
            message, uid = _one_line(error), self._chain.raiser_of(error)
            if uid is not None and repr(uid) not in message:
                message = f"{message} (in the operator {uid!r})"
            _log.warning("%s failed: %s", self.execution, message, exc_info=error)
            is_final = isinstance(error, RestoreError | ConfigurationError)
            self._reporter.task_changed(self.execution, self.status, message, trace, is_final=is_final)

    def _open(self) -> None:
        plan = self._plan
        source = self._storage.source(plan.restored_id)
        head, tail = self._chain.uids[0], self._chain.uids[-1]
        self._chain.open(self._make_states, self._make_context, plan.restore, source)
        for part in plan.restore.get(head, SubtaskRestore()).inputs:
            assert self._gate is not None
            channel = next(channel for channel in self._gate.channels if channel.edge.id == part.part.edge)
            for batch in read_channel(part.part, source):
                taken = channel.partitioner.owned(batch, channel.downstream) if part.filter else batch
                if taken.num_rows:
                    self._replay.append((channel.edge.input_index, taken))
        for part in plan.restore.get(tail, SubtaskRestore()).outputs:
            self._outputs.restore(part, read_channel(part.part, source))
        interval_ms = plan.settings.latency_interval_ms
        if self._source is not None and interval_ms > 0 and self._outputs.channels:
            self._mailbox.at(self._clock() + interval_ms, self._send_latency_mark)
        self._after_operators()

    def _make_states(self, planned: PlannedOperator) -> SubtaskStates:
        plan = self._plan
        return make_states(
            planned,
            subtask=self.execution.subtask.index,
            parallelism=plan.vertex.parallelism,
            max_parallelism=plan.max_parallelism,
            execution=plan.settings,
            incremental=plan.checkpoints.incremental,
            directory=lambda: plan.directory() / f"{self._chain.uids.index(planned.uid)}",
            clock=self._clock,
        )

    def _make_context(
        self,
        planned: PlannedOperator,
        operator: Operator,
        states: SubtaskStates,
        emit: Callable[[pa.RecordBatch], None],
    ) -> OperatorContext:
        plan, is_last = self._plan, planned.uid == self._chain.uids[-1]
        return OperatorContext(
            job_id=plan.job_id,
            uid=planned.uid,
            subtask=self.execution.subtask.index,
            parallelism=plan.vertex.parallelism,
            max_parallelism=plan.max_parallelism,
            attempt=self.execution.attempt,
            key_columns=() if planned.key is None else planned.key.columns,
            states=states,
            restored_id=plan.restored_id,
            prepared_until=plan.prepared_until,
            committer_retries=plan.checkpoints.committer_retries,
            takes_last_checkpoint=plan.takes_last_checkpoint,
            clock=self._clock,
            emit=emit,
            emit_to=(lambda output, batch: self._outputs.emit(batch, output)) if is_last else _drop,
            emit_watermark=lambda watermark: self._pass_on(watermark, operator),
            background=self._in_background,
            post=self._mailbox.post,
        )

    def _in_background(self, call: Callable[[], Any], done: Callable[[Future[Any]], None]) -> None:
        future = self._executors.background.submit(call)
        future.add_done_callback(lambda ended: self._mailbox.post(lambda: done(ended)))

    # Turns: urgent things first, then mail, then one item.

    def _take_turns(self) -> None:
        mailbox, meter = self._mailbox, self._meter
        while not self._is_over:
            mailbox.clear()
            if self._is_cancelled:
                raise _Cancelled
            if not self._turn():
                meter.begin_wait(Waiting.IDLE if self._outputs.has_room else Waiting.BACKPRESSURED)
                mailbox.wait()
                meter.end_wait()

    def _turn(self) -> bool:
        """Do one thing; false if there is nothing to do until something arrives or leaves."""
        gate = self._gate
        if gate is not None:
            gate.receive()
            if gate.read_urgent():
                return True
        mail = self._mailbox.take_mail()
        if mail is not None:
            mail()
            self._after_operators()
            return True
        if self.status is TaskStatus.DEPLOYING:
            self._check_recovered()
        return self._work()

    def _check_recovered(self) -> None:
        if not self._replay and not self._outputs.is_sending_restored():
            self.status = TaskStatus.RUNNING
            self._reporter.task_changed(self.execution, TaskStatus.RUNNING)

    def _work(self) -> bool:
        has_room = self._outputs.has_room and not self._chain.is_full
        if self._replay:
            if has_room:
                input_index, batch = self._replay.popleft()
                self._process(batch, input_index)
            return has_room
        if self.status is TaskStatus.DEPLOYING:
            return False
        if self._source is not None:
            return has_room and self._read_source(self._source)
        assert self._gate is not None
        return self._read_channel(self._gate, has_room=has_room)

    def _read_channel(self, gate: InputGate, *, has_room: bool) -> bool:
        # The last end of data waits for the operators; another one does not, or barriers behind it would.
        may_end = self._ended_inputs + 1 < len(gate.channels) or not self._chain.is_busy
        taken = gate.take(has_room=has_room, may_end=may_end)
        if taken is None:
            return False
        channel, item = taken
        match item.kind:
            case ItemKind.DATA:
                self._meter.rows_in += item.value.num_rows
                self._meter.bytes_in += item.size
                self._process(item.value, channel.edge.input_index)
            case ItemKind.WATERMARK:
                self._advance(channel.index, item.value)
            case ItemKind.LATENCY:
                self._meter.latency(self._clock() - item.value)
                self._outputs.send_latency_mark(item.value)
            case ItemKind.BARRIER:
                gate.handle(b.BarrierReceived(channel.index, item.value))
            case ItemKind.CANCEL:
                gate.handle(b.CancelMarkerReceived(channel.index, item.value))
            case ItemKind.END_OF_DATA:
                self._ended_inputs += 1
                self._final_from = max(self._final_from, item.value)
                channel.port.end_read()
                if self._ended_inputs == len(gate.channels):
                    self._end_data()
                else:
                    self._advance(channel.index, MAX_WATERMARK)
            case ItemKind.END_OF_PARTITION:
                gate.partition_ended(channel)
        return True

    def _process(self, batch: pa.RecordBatch, input_index: int) -> None:
        self._chain.process(batch, input_index)
        self._after_operators()

    def _emit(self, batch: pa.RecordBatch) -> None:
        self._outputs.emit(batch)

    def _advance(self, channel: int, watermark: int) -> None:
        valve = self._valve
        assert valve is not None
        self._pass_on(valve.advance(channel, watermark))
        if valve.take_idle():
            self._pass_on(IDLE)

    def _pass_on(self, watermark: int | None, behind: Operator | None = None) -> None:
        if watermark is None:
            return
        goes_on = self._chain.watermark(watermark, behind)
        self._after_operators()
        if goes_on:
            self._outputs.send(Item(ItemKind.WATERMARK, watermark))

    def _after_operators(self) -> None:
        """Operators may want to be woken at another time now, or have done the last of their work."""
        # Once they have finished they must not emit any more.
        at_ms = None if self._end_sent else self._chain.next_wakeup_ms()
        if at_ms is not None and not self._outputs.has_room:
            # They may emit each time they are woken, and nothing else would hold them up.
            at_ms = max(at_ms, self._clock() + _NO_ROOM_PAUSE_MS)
        wakeup = self._wakeup
        if at_ms is not None and (wakeup is None or wakeup.at_ms > at_ms):
            if wakeup is not None:
                wakeup.cancel()
            self._wakeup = self._mailbox.at(at_ms, self._wake_operators)
        if self._finish_wanted:
            self._finish_if_done()

    def _wake_operators(self) -> None:
        self._wakeup = None
        if self._outputs.has_room and not self._end_sent:  # else `_after_operators` puts it off
            self._chain.wakeup(self._clock())

    def _send_latency_mark(self) -> None:
        now_ms = self._clock()
        if not self._end_sent:
            self._outputs.send_latency_mark(now_ms)
            self._mailbox.at(now_ms + self._plan.settings.latency_interval_ms, self._send_latency_mark)

    # Sources.

    def _read_source(self, source: SourceOperator) -> bool:
        if self._is_source_stopped or self._is_source_held or self._end_sent:
            return False
        if source.wants_split:
            source.asked()
            self._reporter.split_wanted(self.execution, self._chain.uids[0])
        result = source.read()
        if isinstance(result, pa.RecordBatch):
            self._meter.rows_in += result.num_rows
            self._meter.bytes_in += result.nbytes
            self._chain.emit_from_head(result)
            self._after_operators()
            self._advance_source(source.watermark_ms)
            return True
        if result is None and source.has_ended:
            if self._chain.is_busy:
                return False
            self._end_data()
            self._reporter.source_ended(self.execution)
            return True
        wait_ms = _LONGEST_WAIT_MS if result is None else round(result.seconds * 1000)
        if self._source_timer is not None:
            self._source_timer.cancel()
        at_ms = self._clock() + min(max(wait_ms, 1), _LONGEST_WAIT_MS)
        self._source_timer = self._mailbox.at(at_ms, _nothing)
        if source.is_idle(self._clock()):
            self._advance_source(IDLE)
        return False

    def _advance_source(self, watermark: int | None) -> None:
        if watermark is not None and watermark != self._source_watermark:
            self._source_watermark = watermark
            self._pass_on(watermark)

    # Channels call these, from other threads.

    def arrive(self, channel: int, item: Item) -> None:
        self._mailbox.arrive(channel, item)

    def connection_lost(self, error: str) -> None:
        """A channel is broken. The process tells the driver, which stops this task with all others."""

    def room_changed(self) -> None:
        self._mailbox.wake()

    def barrier_left(self, channel: OutputChannel, checkpoint_id: int) -> None:
        self._mailbox.post(lambda: self._snapshots.barrier_left(checkpoint_id, channel))

    def end_was_read(self, channel: OutputChannel) -> None:  # noqa: ARG002  # which one does not matter
        self._mailbox.post(self._one_end_was_read)

    def _one_end_was_read(self) -> None:
        self._unread_ends -= 1
        if self._unread_ends == 0:
            self._feed(s.OutputsConsumed())

    # Messages of the driver.

    def trigger(self, event: s.TriggerReceived) -> None:
        """The coordinator starts a checkpoint at this subtask: a source, or one whose upstream has finished."""
        with self._triggers_guard:
            self._triggers.append(event)
            if not self._has_left:
                self._mailbox.post(self._start_checkpoint)
                return
        self._decline_triggers()

    def _decline_triggers(self) -> None:
        """The task has finished: the coordinator, which did not know yet, must not wait for its answer."""
        with self._triggers_guard:
            self._has_left = True
            while self._triggers:
                self._feed(self._triggers.popleft())

    def _start_checkpoint(self) -> None:
        event = self._triggers.popleft()
        gate = self._gate
        channels = gate.open_channels if gate is not None else ()
        if not channels or event.attempt != self.execution.attempt:
            self._feed(event)
        if gate is not None:
            for channel in channels:
                gate.handle(b.BarrierReceived(channel, event.barrier, injected=True))

    def notify(self, event: s.CompletionNotified | s.AbortNotified) -> None:
        """The coordinator tells how a checkpoint ended."""
        self._mailbox.post(lambda: self._feed(event))

    def coordinator_event(self, event: Any) -> None:
        """The source's coordinator assigns splits, or says that there are no more."""
        source = self._source
        if source is not None:
            self._mailbox.post(lambda: source.assign(event))

    # The checkpoint machine's orders.

    def _feed(self, event: s.SubtaskEvent) -> None:
        for effect in self._machine.handle(event, self._clock()):
            self._carry_out(effect)

    def _carry_out(self, effect: s.SubtaskEffect) -> None:
        match effect:
            case s.PrepareSnapshot(checkpoint_id):
                self._chain.prepare_snapshot(checkpoint_id)
            case s.BroadcastBarrier(barrier):
                if self._snapshots.broadcast(barrier, self._output_channels):
                    self._mailbox.post(lambda: self._snapshots.finish_outputs(barrier.id))
            case s.SetOutputTimer(checkpoint_id, at_ms):
                fired = s.OutputTimerFired(checkpoint_id)
                self._mailbox.at(at_ms, lambda: self._feed(fired))
            case s.BroadcastEndOfData(final_from):
                self._outputs.send(Item(ItemKind.END_OF_DATA, final_from))
            case s.PrioritizeOutputs(checkpoint_id):
                self._snapshots.prioritize_outputs(checkpoint_id, self._output_channels)
            case s.TakeSnapshot(barrier, ended):
                default_format = self._plan.checkpoints.savepoint_format
                pending, sync_ms = self._chain.snapshot(barrier, default_format, ended=ended)
                has_open_inputs = self._gate is not None and bool(self._gate.open_channels)
                self._snapshots.take(barrier, pending, has_open_inputs=has_open_inputs, sync_ms=sync_ms)
            case s.WriteSnapshot(checkpoint_id):
                self._snapshots.write(checkpoint_id)
            case s.CancelSnapshot(checkpoint_id):
                self._snapshots.cancel(checkpoint_id)
            case s.BroadcastCancelMarker(checkpoint_id):
                self._outputs.send(Item(ItemKind.CANCEL, checkpoint_id))
            case s.SendAcknowledgement() | s.SendDecline():
                self._reporter.checkpoint_answered(effect)
            case s.NotifyOperatorsCompleted(checkpoint_id):
                self._is_source_held = False
                self._storage.completed(checkpoint_id)
                self._chain.checkpoint_completed(checkpoint_id)
            case s.NotifyOperatorsAborted(checkpoint_id):
                self._storage.aborted(checkpoint_id)
                self._chain.checkpoint_aborted(checkpoint_id)
            case s.NotifyOperatorsSubsumed():
                pass
            case s.StopSources():
                self._is_source_stopped = True
            case s.ResumeSources():
                self._is_source_stopped = False
            case s.EndInput():
                self._is_source_stopped = True
                self._end_data()
            case s.FinishTask():
                self._finish_wanted = True
                self._finish_if_done()
            case s.FailTask(error):
                raise SnaplineError(error)

    # Ends.

    def _end_data(self) -> None:
        if self._end_sent:
            return
        self._end_sent = True
        self._unread_ends = len(self._outputs.channels)
        self._pass_on(MAX_WATERMARK)
        self._chain.finish()
        if self._gate is not None:
            self._final_from = max(self._final_from, self._gate.blurred_until + 1)
        self._feed(s.DataEnded(self._final_from))
        self._after_operators()

    def _finish_if_done(self) -> None:
        if self._is_over or self._chain.has_unfinished_work:
            return
        self._is_over = True
        self._finish_wanted = False
        self.status = TaskStatus.FINISHED


def _make_handler(checkpoints: Checkpoints, channels: int) -> b.BarrierHandler:
    if checkpoints.mode is CheckpointMode.AT_LEAST_ONCE:
        return TrackingHandler(channels, after_tasks_finish=checkpoints.after_tasks_finish)
    mode = b.handler_mode(checkpoints)
    return AligningHandler(mode, channels, after_tasks_finish=checkpoints.after_tasks_finish)


def _one_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def _drop(output: str, batch: pa.RecordBatch) -> None:
    """A side output of an operator that is not the last of its chain, so that nobody reads it."""


def _nothing() -> None:
    """To be woken is all that is wanted."""
