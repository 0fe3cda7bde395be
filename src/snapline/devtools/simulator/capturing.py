"""The checkpoints a subtask is taking: what each has captured, on both sides of the subtask, and its writing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from snapline.devtools.simulator.channels import Channel, Record
from snapline.devtools.simulator.kernel import Kernel, Process
from snapline.devtools.simulator.operators import Captured, Operator
from snapline.devtools.simulator.storage import SimStorage, location_of
from snapline.errors import StorageError
from snapline.protocol.barriers.barrier_events import AlignmentMetrics
from snapline.protocol.commit import Committable
from snapline.protocol.subtask import subtask_events as s
from snapline.types import Barrier, ExecutionId


@dataclass(slots=True)
class Snapshotting:
    """One checkpoint on its way: written when it is wanted and both sides are done."""

    inputs: dict[Channel, list[Record]] = field(default_factory=dict)
    outputs: dict[Channel, list[Record]] = field(default_factory=dict)
    waiting_outputs: set[Channel] = field(default_factory=set)
    inputs_done: bool = False
    outputs_done: bool = False
    captured: Captured | None = None
    barrier: Barrier | None = None
    is_wanted: bool = False
    is_cancelled: bool = False

    @property
    def is_ready(self) -> bool:
        return self.is_wanted and self.inputs_done and self.outputs_done


class Snapshots:
    """All checkpoints one subtask is taking. `feed` takes what its checkpoint machine has to know of them.

    A checkpoint that is not or no longer taken is passed over: the coordinator may have given it up.
    """

    def __init__(
        self,
        kernel: Kernel,
        storage: SimStorage,
        process: Process,
        job: str,
        execution: ExecutionId,
        operator: Operator,
        feed: Callable[[s.SubtaskEvent], None],
    ) -> None:
        self._kernel = kernel
        self._storage = storage
        self._process = process
        self._job = job
        self._execution = execution
        self._operator = operator
        self._feed = feed
        self._open: dict[int, Snapshotting] = {}

    def start(self, checkpoint_id: int) -> Snapshotting:
        """The checkpoint, from now on one of those that are taken."""
        return self._open.setdefault(checkpoint_id, Snapshotting())

    def cancel(self, checkpoint_id: int) -> None:
        """Forget the checkpoint; what is being written for it is deleted again."""
        cancelled = self._open.pop(checkpoint_id, None)
        if cancelled is not None:
            cancelled.is_cancelled = True

    # The two sides.

    def capture_input(self, checkpoint_id: int, channel: Channel, records: Sequence[Record]) -> None:
        """Take in in-flight data of an input channel, unless the checkpoint has been given up."""
        snapshot = self._open.get(checkpoint_id)
        if snapshot is not None and records:
            self._kernel.cover("input captured")
            snapshot.inputs.setdefault(channel, []).extend(records)

    def finish_inputs(self, checkpoint_id: int, metrics: AlignmentMetrics) -> None:
        """All barriers have arrived: no more input will be captured."""
        snapshot = self._open.get(checkpoint_id)
        persisted = 0
        if snapshot is not None:
            snapshot.inputs_done = True
            persisted = sum(map(len, snapshot.inputs.values()))
        self._feed(s.InputsFinished(checkpoint_id, metrics, persisted))
        self._write_if_ready(checkpoint_id)

    def broadcast(self, barrier: Barrier, outputs: Sequence[Channel]) -> bool:
        """Send the barrier and capture what it overtakes; true if `finish_outputs` is all that is left to do."""
        snapshot = self.start(barrier.id)
        for channel in outputs:
            overtaken = channel.send_barrier(barrier)
            if overtaken:
                self._kernel.cover("output captured")
                snapshot.outputs[channel] = overtaken
            elif barrier.is_timeoutable and channel.may_be_unaligned:
                snapshot.waiting_outputs.add(channel)
        if not barrier.may_capture or not outputs:
            snapshot.outputs_done = True
            return False
        return not snapshot.waiting_outputs

    def barrier_left(self, checkpoint_id: int, channel: Channel) -> bool:
        """The barrier need not overtake in this channel any more; true if that was the last one."""
        snapshot = self._open.get(checkpoint_id)
        if snapshot is None or not snapshot.waiting_outputs:
            return False
        snapshot.waiting_outputs.discard(channel)
        return not snapshot.waiting_outputs

    def prioritize_outputs(self, checkpoint_id: int, outputs: Iterable[Channel]) -> None:
        """Let the barrier overtake wherever it still waits, and capture what it overtakes."""
        snapshot = self._open.get(checkpoint_id)
        if snapshot is None:
            return
        for channel in outputs:
            if channel in snapshot.waiting_outputs:
                overtaken = channel.prioritize_output(checkpoint_id)
                if overtaken:
                    self._kernel.cover("output captured after timeout")
                    snapshot.outputs[channel] = overtaken
        snapshot.waiting_outputs.clear()
        self.finish_outputs(checkpoint_id)

    def finish_outputs(self, checkpoint_id: int) -> None:
        """All barriers have left: no more output will be captured."""
        snapshot = self._open.get(checkpoint_id)
        if snapshot is None:
            return
        snapshot.outputs_done = True
        persisted = sum(map(len, snapshot.outputs.values()))
        self._feed(s.OutputsFinished(checkpoint_id, persisted))
        self._write_if_ready(checkpoint_id)

    # The state, and the writing.

    def take(self, order: s.TakeSnapshot, committables: Iterable[Committable], *, has_open_inputs: bool) -> None:
        """Copy the operator's state; where no input is open there is none to wait for."""
        barrier = order.barrier
        snapshot = self.start(barrier.id)
        snapshot.barrier = barrier
        is_full = barrier.full or barrier.snapshot.is_savepoint
        snapshot.captured = self._operator.capture(committables, full=is_full, ended=order.ended)
        if not has_open_inputs:
            snapshot.inputs_done = True
        self._feed(s.SynchronousPartFinished(barrier.id, 0))

    def write(self, checkpoint_id: int) -> None:
        """Write what was captured, as soon as both sides are done."""
        self._open[checkpoint_id].is_wanted = True
        self._write_if_ready(checkpoint_id)

    def _write_if_ready(self, checkpoint_id: int) -> None:
        snapshot = self._open.get(checkpoint_id)
        if snapshot is None or not snapshot.is_ready:
            return
        snapshot.is_wanted = False
        storage, attempt = self._storage, self._execution.attempt
        assert snapshot.captured is not None
        assert snapshot.barrier is not None
        is_savepoint = snapshot.barrier.snapshot.is_savepoint
        written = self._operator.write(
            snapshot.captured,
            checkpoint_id,
            location_of(self._job, checkpoint_id, is_savepoint=is_savepoint),
            f"{self._job}/shared" if self._operator.incremental and not is_savepoint else None,
            attempt,
            [
                (is_input, channel.edge, channel.upstream, channel.downstream, tuple(records))
                for is_input, side in ((True, snapshot.inputs), (False, snapshot.outputs))
                for channel, records in side.items()
            ],
        )

        def create() -> None:
            for path, value in written.objects.items():
                storage.create(path, value, attempt)

        def done(result: StorageError | None) -> None:
            is_failed = isinstance(result, StorageError)
            if snapshot.is_cancelled or is_failed:
                storage.submit(self._process, lambda: storage.delete_all(written.objects), _leave_to_sweep)
            if snapshot.is_cancelled:
                return
            self._open.pop(checkpoint_id, None)
            if is_failed:
                self._feed(s.AsynchronousPartFailed(checkpoint_id, str(result)))
            else:
                size = len(written.objects)
                state = {self._operator.vertex.id: written.state}
                self._feed(s.AsynchronousPartFinished(checkpoint_id, state, size, size, 1))

        storage.submit(self._process, create, done)


def _leave_to_sweep(result: object) -> None:
    """The sweep of the next attempt finds what could not be deleted."""
