"""The shell of one subtask: takes turns, and carries out what its checkpoint machine orders."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from snapline.devtools.simulator.capturing import Snapshots
from snapline.devtools.simulator.channels import Channel, Item, ItemKind, Record
from snapline.devtools.simulator.inputs import InputGate
from snapline.devtools.simulator.kernel import Kernel, Process
from snapline.devtools.simulator.operators import Operator
from snapline.devtools.simulator.outputs import Outputs
from snapline.devtools.simulator.outside import Outside
from snapline.devtools.simulator.scenario import Role, Scenario, SimEdge, SimVertex
from snapline.devtools.simulator.sink import Sink
from snapline.devtools.simulator.source import SplitReader
from snapline.devtools.simulator.storage import SimStorage
from snapline.errors import StorageError
from snapline.protocol.barriers import barrier_events as b
from snapline.protocol.barriers.aligner import AligningHandler
from snapline.protocol.barriers.tracker import TrackingHandler
from snapline.protocol.commit import Committable
from snapline.protocol.restore.restore_plan import SubtaskRestore
from snapline.protocol.subtask import subtask_events as s
from snapline.protocol.subtask.subtask_machine import SubtaskCheckpointing
from snapline.types import ExecutionId, TaskStatus


@dataclass(slots=True)
class TaskContext:
    """What a subtask has around it."""

    kernel: Kernel
    scenario: Scenario
    storage: SimStorage
    outside: Outside
    job: str
    report: Callable[[SimTask, TaskStatus, str], None]
    to_coordinator: Callable[[SimTask, s.SendAcknowledgement | s.SendDecline], None]
    request_split: Callable[[SimTask], None]
    on_finish: Callable[[SimTask], None]


class SimTask:
    """One execution of one subtask. Starts from checkpoint `restored_id`.

    Transactions of checkpoints up to `prepared_until` are never aborted: a savepoint may hold them.
    """

    def __init__(
        self,
        context: TaskContext,
        vertex: SimVertex,
        execution: ExecutionId,
        parallelism: int,
        inputs: list[tuple[SimEdge, list[Channel]]],
        outputs: list[tuple[SimEdge, list[Channel]]],
        restored_id: int,
        prepared_until: int,
    ) -> None:
        self.context = context
        self.execution = execution
        self.process = Process(str(execution))
        self.status = TaskStatus.DEPLOYING
        self.has_finished = False
        kernel, scenario, index = context.kernel, context.scenario, execution.subtask.index
        self.operator = Operator(vertex, index, parallelism, incremental=scenario.checkpoints.incremental)
        self._kernel = kernel
        self._snapshots = Snapshots(
            kernel, context.storage, self.process, context.job, execution, self.operator, self.feed
        )
        self._outputs = Outputs(outputs, index)
        self._gate: InputGate | None = None
        if inputs:
            handler = _make_handler(scenario, vertex.id, sum(len(channels) for _, channels in inputs))
            self._gate = InputGate(kernel, self, handler, inputs, self._snapshots)
            for channel in self._gate.channels:
                channel.down = self
        for channel in self._outputs.channels:
            channel.up = self
        self._source: SplitReader | None = None
        if vertex.role is Role.SOURCE:
            self._source = SplitReader(kernel, self.process, vertex, self.operator, lambda: context.request_split(self))
        self._sink: Sink | None = None
        if vertex.role is Role.SINK:
            self._sink = Sink(
                kernel,
                context.outside,
                self.process,
                context.job,
                execution,
                max_retries=scenario.checkpoints.committer_retries,
                fail=self.fail,
                on_answer=self._finish_if_committed,
            )
        self._machine = SubtaskCheckpointing(
            execution,
            has_inputs=self._gate is not None,
            has_outputs=bool(self._outputs.channels),
            max_remembered_aborts=scenario.checkpoints.max_concurrent,
        )
        self._restored_id = restored_id
        self._prepared_until = prepared_until
        self._is_slow = vertex.id in scenario.slow_vertices
        self._mail: deque[Callable[[], None]] = deque()
        self._replay: deque[tuple[int, Record]] = deque()
        self._turn_scheduled = False
        self._has_begun = False
        self._ended_inputs = 0
        self._final_from = 0
        self._unread_ends = 0
        self._end_sent = False
        self._finish_wanted = False

    # Deployment.

    def start(self, restored: SubtaskRestore | None) -> None:
        """Read what was assigned, then begin; the coordinator hears of it once in-flight data has been replayed."""
        if restored is None:
            self._begin(None)
            return
        self.context.storage.submit(self.process, lambda: self._load(restored), self._begin)

    def deploy_finished(self) -> None:
        """The subtask had finished in the restored snapshot: run nothing, but end the partitions behind it."""
        self.has_finished = True
        self.status = TaskStatus.FINISHED
        for channel in self._outputs.channels:
            channel.send(Item(ItemKind.END_OF_DATA, 0))
            channel.send(Item(ItemKind.END_OF_PARTITION))

    def _load(self, restored: SubtaskRestore) -> list[Committable]:
        storage = self.context.storage
        committables = self.operator.restore(restored, storage, reuse=True)
        for part in restored.inputs:
            assert self._gate is not None
            edge_number = self._gate.edge_number(part.part.edge)
            for record in storage.read(part.part.object.path):
                if not part.filter or self.operator.owns(record):
                    self._replay.append((edge_number, Record(record.id, record.key)))
        for part in restored.outputs:
            self._outputs.restore(part, storage.read(part.part.object.path))
        return committables

    def _begin(self, result: list[Committable] | StorageError | None) -> None:
        if isinstance(result, StorageError):
            self.fail(f"restore failed: {result}")
            return
        self._has_begun = True
        if self._sink is not None:
            self._sink.restored(self._restored_id, result or [], self._prepared_until)
        inputs = self._gate.channels if self._gate is not None else ()
        for channel in (*inputs, *self._outputs.channels):
            channel.pump()
        self._check_recovered()
        self.wake()

    def _check_recovered(self) -> None:
        if self.status is TaskStatus.DEPLOYING and not self._replay and not self._outputs.is_sending_restored():
            self.status = TaskStatus.RUNNING
            self.context.report(self, TaskStatus.RUNNING, "")

    # Turns: one item at a time, urgent things first.

    def wake(self) -> None:
        """There may be something to do: take a turn soon."""
        if not self._turn_scheduled and self._has_begun and self.process.alive:
            self._turn_scheduled = True
            delay_ms = self._kernel.between(2, 6) if self._is_slow else self._kernel.between(0, 1)
            self._kernel.after(delay_ms, self.process, self._turn)

    def post(self, call: Callable[[], None]) -> None:
        """Call in a turn of its own, ahead of data."""
        self._mail.append(call)
        self.wake()

    def _turn(self) -> None:
        self._turn_scheduled = False
        if self.has_finished:
            return
        if self.status is TaskStatus.DEPLOYING:
            self._check_recovered()
        if self._gate is not None and self._gate.read_urgent():
            pass
        elif self._mail:
            self._mail.popleft()()
        elif not self._work():
            return
        self.wake()

    def _work(self) -> bool:
        """Process one item; false if there is nothing to do until something arrives or leaves."""
        has_room = self._outputs.has_room
        if self._replay:
            if has_room:
                edge_number, record = self._replay.popleft()
                self._process(record, edge_number)
            return has_room
        if self.status is TaskStatus.DEPLOYING and self._outputs.is_sending_restored():
            return False
        if self._source is not None:
            return has_room and self._read_split(self._source)
        assert self._gate is not None
        return self._read_channel(self._gate, has_room=has_room)

    def _read_split(self, source: SplitReader) -> bool:
        if source.is_stopped or self._end_sent or self.status is not TaskStatus.RUNNING:
            return False
        record = source.read()
        if record is not None:
            self._outputs.emit(record)
        elif source.has_all_splits:
            self._end_data()
        return record is not None

    def _read_channel(self, gate: InputGate, *, has_room: bool) -> bool:
        taken = gate.take(has_room=has_room)
        if taken is None:
            return False
        channel, item = taken
        match item.kind:
            case ItemKind.DATA:
                edge_number, is_broadcast = gate.data_read(channel)
                if is_broadcast:
                    self.operator.broadcast.append(item.value.id)
                else:
                    self._process(item.value, edge_number)
            case ItemKind.BARRIER:
                gate.handle(b.BarrierReceived(channel.index, item.value))
            case ItemKind.CANCEL:
                gate.handle(b.CancelMarkerReceived(channel.index, item.value))
            case ItemKind.END_OF_DATA:
                self._ended_inputs += 1
                self._final_from = max(self._final_from, item.value)
                assert channel.up is not None
                channel.up.end_was_read()
                if self._ended_inputs == len(gate.channels):
                    self._end_data()
            case ItemKind.END_OF_PARTITION:
                gate.partition_ended(channel)
        return True

    def _process(self, record: Record, edge_number: int) -> None:
        self.operator.process(record, edge_number)
        if self._sink is not None:
            self._sink.write(record.id)
        else:
            self._outputs.emit(record)

    # Channels call these.

    def arrive(self, channel: Channel, item: Item) -> None:
        assert self._gate is not None
        self._gate.arrive(channel, item)

    def barrier_left(self, channel: Channel, checkpoint_id: int) -> None:
        if self._snapshots.barrier_left(checkpoint_id, channel):
            self.post(lambda: self._snapshots.finish_outputs(checkpoint_id))

    def end_was_read(self) -> None:
        self._unread_ends -= 1
        if self._unread_ends == 0 and self.process.alive:
            self.post(lambda: self.feed(s.OutputsConsumed()))

    # Messages of the driver.

    def trigger(self, event: s.TriggerReceived) -> None:
        """The coordinator starts a checkpoint at this subtask: a source, or one whose upstream has finished."""
        self.post(lambda: self._start_checkpoint(event))

    def _start_checkpoint(self, event: s.TriggerReceived) -> None:
        gate = self._gate
        channels = gate.open_channels if gate is not None else ()
        if not channels or event.attempt != self.execution.attempt:
            self.feed(event)
        if gate is not None:
            for channel in channels:
                self._kernel.cover("barrier injected")
                gate.handle(b.BarrierReceived(channel, event.barrier, injected=True))

    def notify(self, event: s.CompletionNotified | s.AbortNotified) -> None:
        """The coordinator tells how a checkpoint ended."""
        self.post(lambda: self.feed(event))

    def coordinator_event(self, split: int | None) -> None:
        """The source coordinator assigns a split, or says that there are no more."""
        source = self._source
        assert source is not None
        self.post(lambda: source.assign(split))

    # The checkpoint machine's orders.

    def feed(self, event: s.SubtaskEvent) -> None:
        """Tell the checkpoint machine, and do what it orders."""
        if not self.process.alive:
            return
        for effect in self._machine.handle(event, self._kernel.now_ms):
            self._carry_out(effect)

    def _carry_out(self, effect: s.SubtaskEffect) -> None:
        if not self.process.alive:
            return
        match effect:
            case s.PrepareSnapshot(checkpoint_id):
                if self._sink is not None:
                    self._sink.prepare(checkpoint_id)
            case s.BroadcastBarrier(barrier):
                if self._snapshots.broadcast(barrier, self._outputs.channels):
                    self._mail.append(lambda: self._snapshots.finish_outputs(barrier.id))
            case s.SetOutputTimer(checkpoint_id, at_ms):
                fired = s.OutputTimerFired(checkpoint_id)
                delay_ms = max(at_ms - self._kernel.now_ms, 0)
                self._kernel.after(delay_ms, self.process, self.post, lambda: self.feed(fired))
            case s.BroadcastEndOfData(final_from):
                self._outputs.send(Item(ItemKind.END_OF_DATA, final_from))
            case s.PrioritizeOutputs(checkpoint_id):
                self._snapshots.prioritize_outputs(checkpoint_id, self._outputs.channels)
            case s.TakeSnapshot(barrier) as order:
                committables = self._sink.snapshot(barrier.id) if self._sink is not None else ()
                has_open_inputs = self._gate is not None and bool(self._gate.open_channels)
                self._snapshots.take(order, committables, has_open_inputs=has_open_inputs)
            case s.WriteSnapshot(checkpoint_id):
                self._snapshots.write(checkpoint_id)
            case s.CancelSnapshot(checkpoint_id):
                self._snapshots.cancel(checkpoint_id)
            case s.BroadcastCancelMarker(checkpoint_id):
                self._outputs.send(Item(ItemKind.CANCEL, checkpoint_id))
            case s.SendAcknowledgement() | s.SendDecline():
                self.context.to_coordinator(self, effect)
            case s.NotifyOperatorsCompleted(checkpoint_id):
                self.operator.completed(checkpoint_id)
                if self._sink is not None:
                    self._sink.completed(checkpoint_id)
            case s.StopSources():
                self._stop_source()
            case s.ResumeSources():
                self._kernel.cover("stop given up, the job goes on")
                if self._source is not None:
                    self._source.is_stopped = False
            case s.EndInput():
                self._stop_source()
                self._end_data()
            case s.FinishTask():
                self._finish_wanted = True
                self._finish_if_committed()
            case s.FailTask(error):
                self.fail(error)
            case s.NotifyOperatorsAborted():
                pass

    # Ends.

    def _stop_source(self) -> None:
        if self._source is not None:
            self._source.is_stopped = True

    def _end_data(self) -> None:
        if self._end_sent:
            return
        self._end_sent = True
        self._unread_ends = len(self._outputs.channels)
        if self._gate is not None:
            self._final_from = max(self._final_from, self._gate.blurred_until + 1)
        self.feed(s.DataEnded(self._final_from))

    def _finish_if_committed(self) -> None:
        is_committed = self._sink is None or self._sink.is_committed
        if not self._finish_wanted or self.has_finished or not is_committed:
            return
        self.has_finished = True
        self.status = TaskStatus.FINISHED
        self._outputs.send(Item(ItemKind.END_OF_PARTITION))
        self.context.on_finish(self)
        self.context.report(self, TaskStatus.FINISHED, "")

    def fail(self, error: str) -> None:
        """Die, and let the driver know."""
        if not self.process.alive or self.has_finished:
            return
        self.status = TaskStatus.FAILED
        self.context.report(self, TaskStatus.FAILED, error)
        self.process.alive = False

    def kill(self) -> None:
        """Die without a word."""
        self.process.alive = False


def _make_handler(scenario: Scenario, vertex: str, channels: int) -> b.BarrierHandler:
    after_tasks_finish = scenario.checkpoints.after_tasks_finish
    if scenario.is_exactly_once:
        return AligningHandler(scenario.handler_of(vertex), channels, after_tasks_finish=after_tasks_finish)
    return TrackingHandler(channels, after_tasks_finish=after_tasks_finish)
