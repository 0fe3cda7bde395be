"""In-flight data of unaligned checkpoints: collected by the task, written in the background, read on restore.

All channels of a subtask share one file. The slice of each channel holds its record batches in order, as one Arrow IPC
stream for every run of batches with the same schema.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

import pyarrow as pa

from snapline.errors import DamagedError, EngineError, StorageError
from snapline.protocol.snapshot import ChannelPart
from snapline.storage.snapshot_reader import SnapshotReader
from snapline.storage.snapshot_writer import SnapshotCancelledError, SnapshotWriter

MAX_BYTES = 512 << 20
"""How many bytes of in-flight data a subtask may put into one checkpoint."""

MAX_CHECKPOINTS = 1000
"""How many checkpoints may be written at once."""

_FILE = "in-flight"


class ChannelParts(NamedTuple):
    """The stored in-flight data of a subtask."""

    inputs: tuple[ChannelPart, ...]
    outputs: tuple[ChannelPart, ...]


class ChannelSide(Enum):
    """Where in-flight data was captured: at the inputs or the outputs of the subtask."""

    INPUT = "input"
    OUTPUT = "output"


@dataclass(frozen=True, slots=True)
class Channel:
    """A channel of `edge` between two subtasks, seen from one of its sides."""

    side: ChannelSide
    edge: str
    upstream: int
    downstream: int


class ChannelStateWriter:
    """Collects the in-flight data of one subtask for one checkpoint, then writes it.

    Batches are not copied: they are immutable. For one thread at a time, except that `abort` may be called from any.
    """

    def __init__(self, target: SnapshotWriter, *, max_bytes: int = MAX_BYTES) -> None:
        self._target = target
        self._max_bytes = max_bytes
        self._batches: dict[Channel, list[pa.RecordBatch]] = {}
        self._bytes = dict.fromkeys(ChannelSide, 0)

    def collected_bytes(self, side: ChannelSide) -> int:
        """Bytes collected on one side, uncompressed."""
        return self._bytes[side]

    def add(self, channel: Channel, batch: pa.RecordBatch) -> None:
        """Append a batch to those of a channel.

        Raises `StorageError` above the limit, `SnapshotCancelledError` after `abort`; the checkpoint has failed.
        """
        self._target.check()
        if sum(self._bytes.values()) + batch.nbytes > self._max_bytes:
            raise StorageError(
                f"checkpoint {self._target.checkpoint_id} of {self._target.uid}[{self._target.subtask}] has more than "
                f"{self._max_bytes} bytes of in-flight data; let barriers align for longer before they overtake, make "
                "channels shorter, or raise the limit"
            )
        self._bytes[channel.side] += batch.nbytes
        self._batches.setdefault(channel, []).append(batch)

    def finish(self) -> ChannelParts:
        """Write everything, once. Raises what storage raises, or `SnapshotCancelledError`."""
        channels, pieces = list(self._batches), []
        for channel in channels:
            self._target.check()
            pieces.append(memoryview(_encoded(self._batches.pop(channel, []), zstd=self._target.options.zstd)))
        self._target.check()
        objects = self._target.write_slices(_FILE, pieces) if pieces else ()
        parts: dict[ChannelSide, list[ChannelPart]] = {side: [] for side in ChannelSide}
        for channel, item in zip(channels, objects, strict=True):
            parts[channel.side].append(ChannelPart(channel.edge, channel.upstream, channel.downstream, item))
        return ChannelParts(tuple(parts[ChannelSide.INPUT]), tuple(parts[ChannelSide.OUTPUT]))

    def abort(self) -> None:
        """Cancel the target and drop what was collected: the checkpoint has failed."""
        self._target.cancel()
        self._batches.clear()


@dataclass(slots=True)
class _Ongoing:
    """A checkpoint whose data is being collected, or written once no side is `unfinished`."""

    writer: ChannelStateWriter
    result: Future[ChannelParts] = field(default_factory=Future)
    unfinished: set[ChannelSide] = field(default_factory=lambda: set(ChannelSide))
    is_aborted: bool = False


class ChannelStates:
    """The in-flight data of all checkpoints of a subtask. Every method may be called from any thread.

    For each checkpoint: `start`, then any number of `add_input` and `add_output`, then `finish_input` and
    `finish_output` once each in any order; `abort` at any time, even before `start`. Failures end the future that
    `start` returned; nothing else raises them. Calls for an aborted or failed checkpoint are ignored. Calls for a
    checkpoint that was never started, or for a finished side, raise `EngineError`.
    """

    def __init__(self, executor: Executor, *, max_bytes: int = MAX_BYTES) -> None:
        self._executor = executor
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._ongoing: dict[int, _Ongoing] = {}
        self._given_up: set[int] = set()
        self._given_up_before = 0

    def start(self, checkpoint_id: int, target: SnapshotWriter) -> Future[ChannelParts]:
        """Begin a checkpoint. The future ends when nothing more is written for it.

        Its result is what was written, or the error: `SnapshotCancelledError` after `abort`. The owner of the target
        discards what a failed checkpoint wrote.
        """
        entry = _Ongoing(ChannelStateWriter(target, max_bytes=self._max_bytes))
        entry.result.set_running_or_notify_cancel()
        with self._lock:
            is_given_up = self._is_given_up(checkpoint_id)
            if not is_given_up:
                if checkpoint_id in self._ongoing:
                    raise EngineError(f"in-flight data of checkpoint {checkpoint_id} was started twice")
                if len(self._ongoing) >= MAX_CHECKPOINTS:
                    raise EngineError(f"in-flight data of {MAX_CHECKPOINTS} checkpoints at once, and none of them ends")
                self._ongoing[checkpoint_id] = entry
        if is_given_up:
            entry.writer.abort()
            entry.result.set_exception(_cancelled(checkpoint_id))
        return entry.result

    def add_input(self, checkpoint_id: int, edge: str, upstream: int, downstream: int, batch: pa.RecordBatch) -> None:
        """Add a batch that arrived on an input channel before the barrier."""
        self._add(checkpoint_id, Channel(ChannelSide.INPUT, edge, upstream, downstream), batch)

    def add_output(self, checkpoint_id: int, edge: str, upstream: int, downstream: int, batch: pa.RecordBatch) -> None:
        """Add a batch that the barrier overtook in an output channel."""
        self._add(checkpoint_id, Channel(ChannelSide.OUTPUT, edge, upstream, downstream), batch)

    def finish_input(self, checkpoint_id: int) -> int:
        """Call when all barriers have arrived. Returns the bytes of input collected. The second side starts writing."""
        return self._finish(checkpoint_id, ChannelSide.INPUT)

    def finish_output(self, checkpoint_id: int) -> int:
        """Call when all barriers have left. Returns the bytes of output collected. The second side starts writing."""
        return self._finish(checkpoint_id, ChannelSide.OUTPUT)

    def abort(self, checkpoint_id: int) -> None:
        """Abort a checkpoint. Does nothing if it is already written."""
        with self._lock:
            entry = self._ongoing.get(checkpoint_id)
            self._give_up(checkpoint_id)
            if entry is None:
                return
            entry.is_aborted = True
            entry.writer.abort()
            is_being_written = not entry.unfinished
        if not is_being_written:
            self._fail(checkpoint_id, entry, _cancelled(checkpoint_id))

    def _add(self, checkpoint_id: int, channel: Channel, batch: pa.RecordBatch) -> None:
        with self._lock:
            entry = self._collecting(checkpoint_id, channel.side)
            if entry is None:
                return
            try:
                entry.writer.add(channel, batch)
                return
            except (StorageError, SnapshotCancelledError) as error:
                failure = error
                self._give_up(checkpoint_id)
                entry.writer.abort()
        self._fail(checkpoint_id, entry, failure)

    def _finish(self, checkpoint_id: int, side: ChannelSide) -> int:
        with self._lock:
            entry = self._collecting(checkpoint_id, side)
            if entry is None:
                return 0
            entry.unfinished.remove(side)
            is_last = not entry.unfinished
            collected = entry.writer.collected_bytes(side)
        if is_last:
            try:
                self._executor.submit(self._write, checkpoint_id, entry)
            except RuntimeError as error:
                self._fail(checkpoint_id, entry, StorageError(f"in-flight data can no longer be written: {error}"))
        return collected

    def _write(self, checkpoint_id: int, entry: _Ongoing) -> None:
        try:
            parts = entry.writer.finish()
        except BaseException as error:  # any error: somebody waits for the future
            self._fail(checkpoint_id, entry, _cancelled(checkpoint_id) if entry.is_aborted else error)
            return
        with self._lock:
            is_aborted = entry.is_aborted
            del self._ongoing[checkpoint_id]
        if is_aborted:
            entry.result.set_exception(_cancelled(checkpoint_id))
        else:
            entry.result.set_result(parts)

    def _fail(self, checkpoint_id: int, entry: _Ongoing, error: BaseException) -> None:
        """End a checkpoint. Not with the lock held: callbacks of the future may call this object."""
        with self._lock:
            self._give_up(checkpoint_id)
            is_first = self._ongoing.pop(checkpoint_id, None) is not None
        if is_first:
            entry.result.set_exception(error)

    def _collecting(self, checkpoint_id: int, side: ChannelSide) -> _Ongoing | None:
        if self._is_given_up(checkpoint_id):
            return None
        entry = self._ongoing.get(checkpoint_id)
        if entry is None:
            raise EngineError(
                f"in-flight data of checkpoint {checkpoint_id}, which was not started or is already written"
            )
        if side not in entry.unfinished:
            raise EngineError(f"the {side.value} side of checkpoint {checkpoint_id} is finished; nothing can be added")
        return entry

    def _is_given_up(self, checkpoint_id: int) -> bool:
        is_forgotten = checkpoint_id < self._given_up_before and checkpoint_id not in self._ongoing
        return checkpoint_id in self._given_up or is_forgotten

    def _give_up(self, checkpoint_id: int) -> None:
        self._given_up.add(checkpoint_id)
        if len(self._given_up) > MAX_CHECKPOINTS:
            oldest = min(self._given_up)
            self._given_up.remove(oldest)
            self._given_up_before = max(self._given_up_before, oldest + 1)


def read_channel(part: ChannelPart, source: SnapshotReader) -> Iterator[pa.RecordBatch]:
    """The batches of one channel, in order. Raises `DamagedError` if they are not what was written."""
    data = pa.py_buffer(source.read(part.object))
    stream = pa.BufferReader(data)
    try:
        while stream.tell() < data.size:
            yield from pa.ipc.open_stream(stream)
    except (pa.ArrowException, OSError) as error:
        raise DamagedError(f"in-flight data in {part.object.path} is damaged: {error}") from error


def _encoded(batches: list[pa.RecordBatch], *, zstd: bool) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd" if zstd else None)
    start = 0
    while start < len(batches):
        schema = batches[start].schema
        with pa.ipc.new_stream(sink, schema, options=options) as stream:
            while start < len(batches) and batches[start].schema.equals(schema, check_metadata=True):
                stream.write_batch(batches[start])
                start += 1
    return sink.getvalue()


def _cancelled(checkpoint_id: int) -> SnapshotCancelledError:
    return SnapshotCancelledError(f"checkpoint {checkpoint_id} was aborted while its in-flight data was written")
