"""One subtask: takes turns on its own thread and carries out the effects of its checkpoint machine."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from snapline.contracts.operator import Operator
from snapline.errors import PeerError, is_final
from snapline.operators.source_head import ChainMember
from snapline.protocol import messages as m
from snapline.protocol.barriers import barrier_events as b
from snapline.protocol.restore.restore_plan import SubtaskRestore
from snapline.protocol.statistics.task_metrics import TaskMetrics
from snapline.protocol.subtask import subtask_events as s
from snapline.protocol.subtask.subtask_machine import SubtaskMachine
from snapline.runtime.job_logs import JobLogger
from snapline.runtime.network.channels import OutputChannel
from snapline.runtime.scheduler.effect_queue import EffectQueue
from snapline.runtime.scheduler.mailbox import MailboxTimer
from snapline.runtime.task.coordinator_mail import CoordinatorMail
from snapline.runtime.task.input_gate import GateChannel, InputGate, idle_together, make_handler
from snapline.runtime.task.input_watermarks import InputWatermarks
from snapline.runtime.task.operator_chain import OperatorChain
from snapline.runtime.task.operator_contexts import OperatorContexts
from snapline.runtime.task.restored_inputs import RestoredInput, restored_inputs
from snapline.runtime.task.source_turns import SourceTurns
from snapline.runtime.task.subtask_snapshots import SubtaskSnapshots
from snapline.runtime.task.subtask_storage import SubtaskStorage
from snapline.runtime.task.task_environment import Reporter, TaskEnvironment, TaskPlan
from snapline.runtime.task.task_failure import trace
from snapline.runtime.task.task_meter import TaskMeter, Waiting
from snapline.runtime.task.task_outputs import OutputEdge, TaskOutputs
from snapline.runtime.task.trigger_box import TriggerBox
from snapline.runtime.task.work_pace import WorkPace
from snapline.runtime.wire.channel_items import Item, ItemKind
from snapline.state.channel_state import ChannelStates, read_channel
from snapline.text import trace_text
from snapline.types import IDLE, MAX_WATERMARK, NO_CHECKPOINT, TaskStatus

_log = JobLogger(__name__)

_NO_ROOM_PAUSE_MS = 10
"""While outputs are full, operators with a due wake-up are checked again after this time."""


class Task:
    """One execution of one subtask. Call `connect`, then `start`; it ends by itself or after `cancel`.

    Any thread may call `arrive`, `room_changed`, `barrier_left`, `end_was_read` and the methods for driver messages;
    everything else runs on the task's thread.
    """

    def __init__(
        self,
        plan: TaskPlan,
        members: Sequence[ChainMember],
        storage: SubtaskStorage,
        environment: TaskEnvironment,
        reporter: Reporter,
    ) -> None:
        threads = environment.threads
        self.execution = plan.execution
        self.status = TaskStatus.DEPLOYING
        self.has_finished = False
        self._plan = plan
        self._storage = storage
        self._environment = environment
        self.reporter = reporter
        self.clock = threads.now_ms
        self.mailbox = threads.mailbox(threads.now_ms)
        self.meter = TaskMeter(threads.time_s)
        self._outputs = TaskOutputs((), self.meter)
        self._output_channels: list[tuple[str, OutputChannel]] = []
        self._chain = OperatorChain(plan.vertex.operators, members, threads.time_s)
        self._coordinators = CoordinatorMail(plan.execution, self._chain, reporter)
        self._effects = EffectQueue()
        self._snapshots = SubtaskSnapshots(
            self._chain.uids,
            storage,
            environment.state,
            ChannelStates(environment.channels),
            self._feed,
            self.mailbox.post,
            threads.time_s,
            is_synchronous=not plan.checkpoints.asynchronous,
        )
        self._pace = WorkPace(threads.time_s, plan.settings.batch_size_bytes, slices=plan.checkpoints.unaligned)
        self._gate: InputGate | None = None
        self._watermarks: InputWatermarks | None = None
        self._source: SourceTurns | None = None
        if self._chain.source is not None:
            is_held = plan.checkpoints.pause_sources_until_first and plan.restored_id == NO_CHECKPOINT
            self._source = SourceTurns(self._chain.source, self, self._feed, is_held=is_held)
        self._replay: deque[RestoredInput] = deque()
        self._wakeup: MailboxTimer | None = None
        self._ended_inputs = 0
        self._final_from = 0
        self._unread_ends = 0
        self._end_sent = False
        self._has_work = False
        self._is_over = False
        self._is_cancelled = False
        self._triggers = TriggerBox(lambda: self.mailbox.post(self._start_checkpoint))
        self._thread = threads.thread(self._run, str(plan.execution))

    # Deployment.

    def connect(self, inputs: Sequence[GateChannel], outputs: Sequence[OutputEdge]) -> None:
        """Set the channels, before `start`."""
        self._outputs = TaskOutputs(outputs, self.meter)
        self._output_channels = [(edge.edge.id, channel) for edge in outputs for channel in edge.channels]
        if inputs:
            handler = make_handler(self._plan.checkpoints, len(inputs))
            self._watermarks = InputWatermarks(len(inputs), idle_together(inputs, self._plan.in_unison))
            self._gate = InputGate(
                inputs, handler, self._snapshots, self.mailbox, self._effects, self._feed, self.clock, self._pace
            )
        self._machine = SubtaskMachine(
            self._plan.execution,
            has_inputs=bool(inputs),
            has_outputs=bool(self._outputs.channels),
            final_checkpoint=self._plan.takes_last_checkpoint,
            max_remembered_aborts=self._plan.checkpoints.max_concurrent,
        )

    def start(self) -> None:
        self._thread.start()

    def cancel(self) -> None:
        """Stop without finishing, as soon as user code returns."""
        self._is_cancelled = True
        self.mailbox.wake()

    def join(self, timeout_s: float | None) -> bool:
        """Wait for the task's end. Returns False after the timeout."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def is_busy(self) -> bool:
        return self._chain.is_busy

    def metrics(self) -> TaskMetrics:
        source, queued_in, watermark_ms = self._source, 0, None
        if source is not None and source.watermark != IDLE:
            watermark_ms = source.watermark
        elif self._gate is not None and self._watermarks is not None:
            watermark_ms, queued_in = self._watermarks.current_ms, self._gate.queued_bytes
        queued_out, figures = self._outputs.queued_bytes, self._chain.figures
        return self.meter.read(self.execution, watermark_ms, queued_in, queued_out, *figures)

    # The thread.

    def _run(self) -> None:
        error: BaseException | None = None
        self._plan.enter_thread()
        try:
            self._open()
            self._take_turns()
        except BaseException as raised:  # the driver must hear of anything
            error = raised
            self.status = TaskStatus.FAILED
        finally:
            self._snapshots.cancel_all()
            for problem in self._chain.close():
                log = _log.warning if self.status is TaskStatus.FINISHED else _log.debug
                log("%s: closing it failed: %s", self.execution, trace_text(problem))
        if self.status is TaskStatus.FINISHED:
            self.has_finished = True
            self._outputs.send(Item(ItemKind.END_OF_PARTITION))
            # Last of all: the process may be killed once every task has finished.
            self.reporter.task_changed(self.execution, TaskStatus.FINISHED)
            for trigger in self._triggers.close():
                self._feed(trigger)  # the coordinator did not know yet, and must not wait for an answer
        if error is not None:
            self._report_failure(error)
        self._chain.join()

    def _report_failure(self, error: BaseException) -> None:
        text, shown, identity = self._chain.described(error), trace(error), self._chain.identity_of(error)
        _log.warning("%s failed: %s", self.execution, text)  # the driver shows the first traceback
        final = is_final(error)
        self.reporter.task_changed(self.execution, self.status, text, shown, is_final=final, identity=identity)

    def _open(self) -> None:
        plan = self._plan
        reader = self._storage.reader(plan.restored_id)
        uids, send_event = self._chain.uids, self._coordinators.send
        contexts = OperatorContexts(
            plan, self._environment, self.mailbox, uids, self._outputs, self.pass_on, send_event
        )
        self._chain.open(contexts.make_states, contexts.make_context, self._outputs.emit, plan.restore, reader)
        self._replay.extend(restored_inputs(self._chain.uids, plan.restore, self._gate, reader))
        for part in plan.restore.get(self._chain.uids[-1], SubtaskRestore()).outputs:
            self._outputs.restore(part, read_channel(part.part, reader))
        if self._source is not None and self._outputs.channels:
            self._source.mark_latency(plan.settings.latency_interval_ms, self._outputs.send_latency_mark)
        self.after_operators()

    # A turn: an urgent barrier, or all mail and one item, so that neither keeps the other waiting for ever.

    def _take_turns(self) -> None:
        mailbox, meter = self.mailbox, self.meter
        while not self._is_over:
            mailbox.clear()
            if self._is_cancelled:
                self.status = TaskStatus.CANCELED
                return
            if not self._turn():
                seconds = self._outputs.flush_in_pause()
                meter.begin_wait(Waiting.IDLE if self._outputs.has_room else Waiting.BACKPRESSURED)
                mailbox.wait(seconds)
                meter.end_wait()

    def _turn(self) -> bool:
        """Read an urgent barrier, or handle all mail and one item. Returns False if there was no item to read."""
        gate = self._gate
        if gate is not None:
            gate.receive()
            if gate.read_urgent():
                return True
        for mail in self.mailbox.take_mail():
            mail()
            self.after_operators()
            # It may have made a barrier urgent and captured what that overtakes: nothing of it may be read before.
            while gate is not None and not self._is_over and gate.read_urgent():
                gate.receive()
            if self._is_over:
                return True
        if self.status is TaskStatus.DEPLOYING and not (
            self._replay or self._chain.is_restoring or self._outputs.is_sending_restored()
        ):
            self.status = TaskStatus.RUNNING
            self.reporter.task_changed(self.execution, TaskStatus.RUNNING)
        return self._work()

    def _work(self) -> bool:
        has_room = self._outputs.has_room and not self._chain.is_full
        if self._replay:
            if has_room:
                self._chain.replay(*self._replay.popleft())
                self.after_operators()
            return has_room
        if self.status is TaskStatus.DEPLOYING:
            return False
        if self._source is not None:
            return has_room and not self._end_sent and self._source.take()
        assert self._gate is not None
        return self._read_channel(self._gate, has_room=has_room)

    def _read_channel(self, gate: InputGate, *, has_room: bool) -> bool:
        # The last end of data waits for the operators; an earlier one must not hold up the barriers behind it.
        may_end = self._ended_inputs + 1 < len(gate.channels) or not self._chain.is_busy
        taken = gate.take(has_room=has_room, may_end=may_end)
        if taken is None:
            return False
        channel, item = taken
        match item.kind:
            case ItemKind.DATA:
                self.meter.rows_in += item.value.num_rows
                self.meter.bytes_in += item.size
                self._pace.run(self._chain.process, item.value, channel.edge.input_index)
                self.after_operators()
            case ItemKind.WATERMARK:
                self._advance(channel.index, item.value)
            case ItemKind.LATENCY:
                self.meter.latency(self.clock() - item.value)
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
                    self.end_data()
                else:
                    self._advance(channel.index, MAX_WATERMARK)
            case ItemKind.END_OF_PARTITION:
                gate.partition_ended(channel)
        return True

    def _advance(self, channel: int, watermark: int) -> None:
        assert self._watermarks is not None
        for advanced in self._watermarks.advance(channel, watermark):
            self.pass_on(advanced)

    def pass_on(self, watermark: int, behind: Operator | None = None) -> None:
        """Pass a watermark, or `IDLE`, through the operators (`behind` one) and to the outputs."""
        goes_on = self._chain.watermark(watermark, behind)
        self.after_operators()
        if goes_on:
            self._outputs.send(Item(ItemKind.WATERMARK, watermark))

    def after_operators(self) -> None:
        """Schedule the operators' next wake-up, and note whether the subtask could leave."""
        # Once finished they must not emit any more.
        at_ms = None if self._end_sent else self._chain.next_wakeup_ms()
        if at_ms is not None and not self._outputs.has_room:
            # They may emit each time they are woken, and nothing else would slow them down.
            at_ms = max(at_ms, self.clock() + _NO_ROOM_PAUSE_MS)
        wakeup = self._wakeup
        if at_ms is not None and (wakeup is None or wakeup.at_ms > at_ms):
            if wakeup is not None:
                wakeup.cancel()
            self._wakeup = self.mailbox.at(at_ms, self._wake_operators)
        self._note_work()

    def _note_work(self) -> None:
        if self._chain.has_unfinished_work is not self._has_work:
            self._has_work = not self._has_work
            self._feed(s.WorkChanged(self._has_work))

    def _wake_operators(self) -> None:
        self._wakeup = None
        if self._outputs.has_room and not self._end_sent:  # else `after_operators` postpones it
            self._chain.wakeup(self.clock())

    # Called by channels on other threads.

    def arrive(self, channel: int, item: Item) -> None:
        self.mailbox.arrive(channel, item)

    def connection_lost(self, error: str) -> None:
        """Ignored: the process reports it to the driver, which stops all tasks."""

    def room_changed(self) -> None:
        self.mailbox.wake()

    def barrier_left(self, channel: OutputChannel, checkpoint_id: int) -> None:
        self.mailbox.post(lambda: self._snapshots.barrier_left(checkpoint_id, channel))

    def end_was_read(self, channel: OutputChannel) -> None:  # noqa: ARG002  # which one does not matter
        self.mailbox.post(self._one_end_was_read)

    def _one_end_was_read(self) -> None:
        self._unread_ends -= 1
        if self._unread_ends == 0:
            self._feed(s.OutputsConsumed())

    # Messages from the driver.

    def trigger(self, event: m.TriggerCheckpoint) -> None:
        """The coordinator starts a checkpoint here: at a source, or where the upstream has finished."""
        if not self._triggers.add(event):
            self._feed(event)

    def _start_checkpoint(self) -> None:
        event, gate = self._triggers.take(), self._gate
        if self._source is not None:
            self._source.triggered(event)
            return
        if gate is None or not gate.open_channels:
            self._feed(event)
            return
        for channel in gate.open_channels:
            gate.handle(b.BarrierReceived(channel, event.barrier, injected=True))

    def notify(self, event: m.CheckpointCompleted | m.CheckpointAborted) -> None:
        self.mailbox.post(lambda: self._feed(event))

    def coordinator_event(self, operator: str, event: Any) -> None:
        """The coordinator of an operator has sent it an event."""
        self._coordinators.arrive(operator, event)
        self.mailbox.post(self._coordinators.deliver)

    # The effects of the checkpoint machine.

    def _feed(self, event: s.SubtaskEvent) -> None:
        self._effects.add(self._carry_out, self._machine.handle(event, self.clock()))

    def _carry_out(self, effect: s.SubtaskEffect) -> None:
        match effect:
            case s.PrepareSnapshot(checkpoint_id):
                self._coordinators.deliver()
                self._chain.prepare_snapshot(checkpoint_id)
                self._note_work()
            case s.BroadcastBarrier(barrier):
                if self._snapshots.broadcast(barrier, self._output_channels):
                    self.mailbox.post(lambda: self._snapshots.finish_outputs(barrier.id))
            case s.SetOutputTimer(checkpoint_id, at_ms):
                fired = s.OutputTimerFired(checkpoint_id)
                self.mailbox.at(at_ms, lambda: self._feed(fired))
            case s.BroadcastEndOfData(final_from):
                self._outputs.send(Item(ItemKind.END_OF_DATA, final_from))
            case s.PrioritizeOutputs(checkpoint_id):
                self._snapshots.prioritize_outputs(checkpoint_id, self._output_channels)
            case s.TakeSnapshot(barrier, ended):
                pending, sync_ms = self._chain.snapshot(barrier, self._plan.checkpoints.savepoint_format, ended=ended)
                self._coordinators.taken_id = barrier.id
                has_open_inputs = self._gate is not None and bool(self._gate.open_channels)
                self._snapshots.take(barrier, pending, has_open_inputs=has_open_inputs, sync_ms=sync_ms)
            case s.WriteSnapshot(checkpoint_id):
                self._snapshots.write(checkpoint_id)
            case s.CancelSnapshot(checkpoint_id):
                self._snapshots.cancel(checkpoint_id)
            case s.BroadcastCancelMarker(checkpoint_id):
                self._outputs.send(Item(ItemKind.CANCEL, checkpoint_id))
            case m.Acknowledge() | m.Decline() | m.CheckpointMeasured():
                self.reporter.checkpoint_answered(effect)
            case s.NotifyOperatorsCompleted(checkpoint_id):
                if self._source is not None:
                    self._source.is_held = False
                self._storage.completed(checkpoint_id)
                self._chain.checkpoint_completed(checkpoint_id)
            case s.NotifyOperatorsSubsumed(checkpoint_id):
                self._chain.checkpoint_subsumed(checkpoint_id)
            case s.NotifyOperatorsAborted(checkpoint_id):
                self._storage.aborted(checkpoint_id)
                self._chain.checkpoint_aborted(checkpoint_id)
                if self._source is not None:
                    self._source.aborted(checkpoint_id)
            case s.StopSources() | s.ResumeSources():
                if self._source is not None:
                    self._source.is_stopped = isinstance(effect, s.StopSources)
            case s.EndInput():
                self.end_data()
            case s.FinishTask():
                self._is_over = True
                self.status = TaskStatus.FINISHED
            case s.FailTask(error):
                raise PeerError(error)

    # Ends.

    def end_data(self) -> None:
        if self._end_sent:
            return
        self._coordinators.end()
        self._end_sent = True
        self._unread_ends = len(self._outputs.channels)
        self.pass_on(MAX_WATERMARK)
        self._chain.finish()
        self._note_work()
        if self._gate is not None:
            self._final_from = max(self._final_from, self._gate.blurred_until + 1)
        self._feed(s.DataEnded(self._final_from))
        if self._source is not None:
            self._source.end()
        self.after_operators()
