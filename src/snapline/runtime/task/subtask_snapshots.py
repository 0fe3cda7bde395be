"""The checkpoints a subtask is taking: what each captured on both sides, and writing it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

import pyarrow as pa

from snapline.errors import SnaplineError, StorageError
from snapline.protocol.barriers.barrier_events import AlignmentMetrics
from snapline.protocol.snapshot import SubtaskState
from snapline.protocol.subtask import subtask_events as s
from snapline.runtime.job_logs import JobLogger
from snapline.runtime.network.channels import OutputChannel
from snapline.state.channel_state import ChannelParts, ChannelStates
from snapline.state.subtask_states import PendingSnapshot, WrittenSnapshot
from snapline.storage.snapshot_writer import SUBTASK_INLINE_BYTES, SnapshotWriter
from snapline.types import Barrier

_log = JobLogger(__name__)

IN_FLIGHT = "in-flight"
"""Part of the object names of in-flight data."""

Post = Callable[[Callable[[], None]], None]
T = TypeVar("T")


class Storage(Protocol):
    def writer(self, uid: str, barrier: Barrier) -> SnapshotWriter: ...


@dataclass(slots=True)
class _Snapshotting:
    """A checkpoint in progress: acknowledged once its state and both sides are complete and written."""

    barrier: Barrier
    has_in_flight: bool = False
    in_flight: Future[ChannelParts] | None = None
    in_flight_writer: SnapshotWriter | None = None
    input_bytes: int = 0
    output_bytes: int = 0
    waiting_outputs: set[OutputChannel] = field(default_factory=set)
    inputs_done: bool = False
    outputs_done: bool = False
    pending: dict[str, PendingSnapshot] = field(default_factory=dict)
    writers: list[SnapshotWriter] = field(default_factory=list)
    written: Future[dict[str, WrittenSnapshot]] | None = None
    started_s: float = 0.0
    written_s: float | None = None
    is_cancelled: bool = False


class SubtaskSnapshots:
    """All checkpoints one subtask is taking. Used by the task's thread only.

    `feed` passes events to the checkpoint machine, `post` runs a call on the task's thread. Methods ignore unknown
    checkpoints: the coordinator may have aborted them. With `is_synchronous` the task's own thread writes state.
    """

    def __init__(
        self,
        uids: Sequence[str],
        storage: Storage,
        executor: Executor,
        channel_states: ChannelStates,
        feed: Callable[[s.SubtaskEvent], None],
        post: Post,
        time_s: Callable[[], float],
        *,
        is_synchronous: bool = False,
    ) -> None:
        self._is_synchronous = is_synchronous
        self._uids = uids
        self._storage = storage
        self._executor = executor
        self._channel_states = channel_states
        self._feed = feed
        self._post = post
        self._time_s = time_s
        self._open: dict[int, _Snapshotting] = {}

    def start(self, barrier: Barrier) -> None:
        """Does nothing if the checkpoint has started."""
        if barrier.id not in self._open:
            self._open[barrier.id] = _Snapshotting(barrier)

    def cancel(self, checkpoint_id: int) -> None:
        """Forget the checkpoint and delete what was written for it."""
        snapshot = self._open.pop(checkpoint_id, None)
        if snapshot is None:
            return
        snapshot.is_cancelled = True
        for writer in snapshot.writers:
            writer.cancel()
        if snapshot.has_in_flight:
            self._channel_states.abort(checkpoint_id)
        if snapshot.written is None:
            for pending in snapshot.pending.values():
                pending.release()

    def cancel_all(self) -> None:
        for checkpoint_id in tuple(self._open):
            self.cancel(checkpoint_id)

    # The two sides.

    def capture_input(
        self, checkpoint_id: int, edge: str, upstream: int, downstream: int, batches: Iterable[pa.RecordBatch]
    ) -> None:
        snapshot = self._open.get(checkpoint_id)
        if snapshot is None:
            return
        for batch in batches:
            self._begin_in_flight(snapshot, self._uids[0])
            snapshot.input_bytes += batch.nbytes
            self._channel_states.add_input(checkpoint_id, edge, upstream, downstream, batch)

    def finish_inputs(self, checkpoint_id: int, metrics: AlignmentMetrics) -> None:
        """All barriers have arrived: no more input follows."""
        snapshot = self._open.get(checkpoint_id)
        persisted = 0
        if snapshot is not None:
            snapshot.inputs_done = True
            persisted = snapshot.input_bytes
            self._finish_in_flight(snapshot)
        self._feed(s.InputsFinished(checkpoint_id, metrics, persisted))
        self._finish_if_done(checkpoint_id)

    def broadcast(self, barrier: Barrier, outputs: Sequence[tuple[str, OutputChannel]]) -> bool:
        """Send the barrier and capture what it overtakes. Returns True if only `finish_outputs` is left to do."""
        self.start(barrier)
        snapshot = self._open[barrier.id]
        may_wait = barrier.is_timeoutable
        if may_wait:
            # Before sending: another thread may take the barrier from its queue at once.
            snapshot.waiting_outputs.update(channel for _, channel in outputs if channel.may_be_unaligned)
        for edge, channel in outputs:
            self._capture_output(snapshot, edge, channel, channel.send_barrier(barrier))
        if not barrier.may_capture or not outputs:
            snapshot.outputs_done = True
            self._finish_in_flight(snapshot)
            return False
        return not snapshot.waiting_outputs

    def barrier_left(self, checkpoint_id: int, channel: OutputChannel) -> None:
        """The barrier left the queue of this channel and need not overtake."""
        snapshot = self._open.get(checkpoint_id)
        if snapshot is None or channel not in snapshot.waiting_outputs:
            return
        snapshot.waiting_outputs.discard(channel)
        if not snapshot.waiting_outputs:
            self.finish_outputs(checkpoint_id)

    def prioritize_outputs(self, checkpoint_id: int, outputs: Iterable[tuple[str, OutputChannel]]) -> None:
        """Let the barrier overtake where it still waits, and capture what it overtakes."""
        snapshot = self._open.get(checkpoint_id)
        if snapshot is None or snapshot.outputs_done:
            return
        for edge, channel in outputs:
            if channel in snapshot.waiting_outputs:
                self._capture_output(snapshot, edge, channel, channel.prioritize(checkpoint_id))
        snapshot.waiting_outputs.clear()
        self.finish_outputs(checkpoint_id)

    def finish_outputs(self, checkpoint_id: int) -> None:
        """All barriers have left: no more output follows."""
        snapshot = self._open.get(checkpoint_id)
        if snapshot is None or snapshot.outputs_done:
            return
        snapshot.outputs_done = True
        self._finish_in_flight(snapshot)
        self._feed(s.OutputsFinished(checkpoint_id, snapshot.output_bytes))
        self._finish_if_done(checkpoint_id)

    def _capture_output(
        self, snapshot: _Snapshotting, edge: str, channel: OutputChannel, batches: Iterable[pa.RecordBatch]
    ) -> None:
        for batch in batches:
            self._begin_in_flight(snapshot, self._uids[-1])
            snapshot.output_bytes += batch.nbytes
            checkpoint_id = snapshot.barrier.id
            self._channel_states.add_output(checkpoint_id, edge, channel.upstream, channel.downstream, batch)

    def _begin_in_flight(self, snapshot: _Snapshotting, uid: str) -> None:
        if not snapshot.has_in_flight:
            snapshot.has_in_flight = True
            snapshot.in_flight_writer = self._storage.writer(f"{uid}.{IN_FLIGHT}", snapshot.barrier)
            snapshot.writers.append(snapshot.in_flight_writer)
            snapshot.in_flight = self._channel_states.start(snapshot.barrier.id, snapshot.in_flight_writer)

    def _finish_in_flight(self, snapshot: _Snapshotting) -> None:
        """Write in-flight data once it is complete."""
        checkpoint_id, in_flight = snapshot.barrier.id, snapshot.in_flight
        if in_flight is None or not (snapshot.inputs_done and snapshot.outputs_done):
            return
        self._channel_states.finish_input(checkpoint_id)
        self._channel_states.finish_output(checkpoint_id)
        in_flight.add_done_callback(lambda _: self._written(snapshot, lambda: self._finish_if_done(checkpoint_id)))

    # State and writing.

    def take(
        self, barrier: Barrier, pending: dict[str, PendingSnapshot], *, has_open_inputs: bool, sync_ms: int
    ) -> None:
        """Take over the operators' state. Without open inputs it waits for none."""
        self.start(barrier)
        snapshot = self._open[barrier.id]
        snapshot.pending = pending
        if not has_open_inputs:
            snapshot.inputs_done = True
            self._finish_in_flight(snapshot)
        self._feed(s.SynchronousPartFinished(barrier.id, sync_ms))

    def write(self, checkpoint_id: int) -> None:
        """Write the state in the background, or at once if snapshots are synchronous."""
        snapshot = self._open[checkpoint_id]
        snapshot.started_s = self._time_s()
        writers = {uid: self._storage.writer(uid, snapshot.barrier) for uid in self._uids}
        snapshot.writers.extend(writers.values())
        if self._is_synchronous:
            snapshot.written = _done(lambda: _write_all(snapshot.pending, writers))
        else:
            snapshot.written = self._executor.submit(_write_all, snapshot.pending, writers)
        snapshot.written.add_done_callback(lambda _: self._written(snapshot, lambda: self._state_written(snapshot)))

    def _written(self, snapshot: _Snapshotting, then: Callable[[], None]) -> None:
        """Part of it is written. Any thread: the task's own may be inside a call, which is no time of writing."""
        snapshot.written_s = self._time_s()
        self._post(then)

    def _state_written(self, snapshot: _Snapshotting) -> None:
        if snapshot.is_cancelled:
            self._discard(snapshot)
        else:
            self._finish_if_done(snapshot.barrier.id)

    def _finish_if_done(self, checkpoint_id: int) -> None:
        snapshot = self._open.get(checkpoint_id)
        if snapshot is None or snapshot.written is None:
            return
        parts = (snapshot.written, snapshot.in_flight) if snapshot.in_flight is not None else (snapshot.written,)
        errors = [error for part in parts if part.done() and (error := part.exception()) is not None]
        if errors:
            del self._open[checkpoint_id]
            snapshot.is_cancelled = True
            for writer in snapshot.writers:
                writer.cancel()
            if snapshot.has_in_flight:
                self._channel_states.abort(checkpoint_id)
            if snapshot.written.done():
                self._discard(snapshot)
            self._feed(s.AsynchronousPartFailed(checkpoint_id, f"{type(errors[0]).__name__}: {errors[0]}"))
            return
        if not (snapshot.inputs_done and snapshot.outputs_done and all(part.done() for part in parts)):
            return
        del self._open[checkpoint_id]
        self._feed(self._finished(snapshot))

    def _finished(self, snapshot: _Snapshotting) -> s.AsynchronousPartFinished:
        assert snapshot.written is not None
        written = snapshot.written.result()
        states: dict[str, SubtaskState] = {uid: part.state for uid, part in written.items()}
        new_bytes = sum(part.new_bytes for part in written.values())
        state_bytes = sum(part.state_bytes for part in written.values())
        if snapshot.in_flight is not None:
            parts = snapshot.in_flight.result()
            head, tail = self._uids[0], self._uids[-1]
            states[head] = replace(states[head], inputs=parts.inputs)
            states[tail] = replace(states[tail], outputs=parts.outputs)
            in_flight_bytes = sum(part.object.size_bytes for part in (*parts.inputs, *parts.outputs))
            new_bytes += in_flight_bytes
            state_bytes += in_flight_bytes
        # The last part may be written, and its time not noted yet.
        written_s = self._time_s() if snapshot.written_s is None else snapshot.written_s
        duration_ms = max(round((written_s - snapshot.started_s) * 1000), 0)
        return s.AsynchronousPartFinished(snapshot.barrier.id, states, new_bytes, state_bytes, duration_ms)

    def _discard(self, snapshot: _Snapshotting) -> None:
        writers = tuple(snapshot.writers)
        self._executor.submit(_discard_all, writers)


def _done(call: Callable[[], T]) -> Future[T]:
    """A future of a call that is made now."""
    future: Future[T] = Future()
    try:
        future.set_result(call())
    except Exception as error:  # reported as that of a background call would be
        future.set_exception(error)
    return future


def _write_all(pending: dict[str, PendingSnapshot], writers: dict[str, SnapshotWriter]) -> dict[str, WrittenSnapshot]:
    written: dict[str, WrittenSnapshot] = {}
    try:
        for uid, snapshot in pending.items():
            written[uid] = snapshot.write(writers[uid])
    finally:
        for snapshot in pending.values():
            snapshot.release()
    _check_inline(written)
    return written


def _check_inline(written: dict[str, WrittenSnapshot]) -> None:
    """Refuse what would not fit the message to the driver."""
    sizes = {
        uid: sum(item.size_bytes for item in part.state.objects() if item.is_inline) for uid, part in written.items()
    }
    total = sum(sizes.values())
    if total > SUBTASK_INLINE_BYTES:
        largest = max(sizes, key=sizes.__getitem__)
        raise StorageError(
            f"the subtask's snapshot would send {total} bytes to the driver, most of them of {largest!r}, and "
            f"{SUBTASK_INLINE_BYTES} are allowed; set `storage` to a directory that all machines reach, or lower "
            "`inline_threshold`"
        )


def _discard_all(writers: Sequence[SnapshotWriter]) -> None:
    for writer in writers:
        try:
            writer.discard()
        except SnaplineError as error:
            number = writer.checkpoint_id
            _log.warning("the next sweep has to delete the rest of checkpoint %d: %s", number, error, checkpoint=number)
