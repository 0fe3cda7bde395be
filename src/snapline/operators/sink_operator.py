"""Sinks as operators: rows are prepared ahead of a barrier, and committed once the checkpoint is durable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa

from snapline.contracts.operator import Operator, OperatorContext
from snapline.contracts.plain_data import plain_data
from snapline.contracts.sink import CommitScope, Committable, Permit, Sink, SinkContext, SinkWriter
from snapline.errors import UserCodeError
from snapline.operators.commit_queue import Answer, CommitQueue
from snapline.protocol.statistics.task_metrics import CommitFigures
from snapline.state.operator_state import OperatorList

PREPARED_SCHEMA = pa.schema([pa.field("subtask", pa.int32(), False), pa.field("payload", pa.binary(), False)])
"""What writers send to a global committer."""

MOST_KEPT_BYTES = 64 << 20
"""While an older checkpoint is under way, no more rows are taken if the writer keeps more than this in memory.

The source would only take processor time from what writes and commits the older one. A global committer that is behind
takes no barriers, so that the writers' checkpoint stays under way.
"""


def sink_context(context: OperatorContext) -> SinkContext:
    return SinkContext(
        context.job_id, context.uid, context.subtask, context.parallelism, context.attempt, context.lineage
    )


class SinkOperator(Operator):
    """Writes rows with a sink's writer, and commits what it has prepared or sends it to the global committer."""

    _writer: SinkWriter | None = None
    _queue: CommitQueue
    _writer_states: OperatorList

    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        self.is_committing = sink.commit_scope is CommitScope.SUBTASK
        self._has_ended = False
        self._has_prepared_last = False

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        writer = self._writer = self.sink.writer(sink_context(context))
        self._writer_states = context.states.operator.list_state("writers", bytes)
        if states := [msgspec.msgpack.decode(entry) for entry in self._writer_states]:
            writer.recover(states)
        self._queue = CommitQueue(context, self._commit, writer.abort_newer)
        self._queue.restore()

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        del input_index
        if batch.num_rows:
            self._opened.write(batch)

    # Checkpoints.

    def prepare_snapshot(self, checkpoint_id: int) -> None:
        if self._has_prepared_last:
            return  # the subtask stays until that is committed
        self._has_prepared_last = self._has_ended
        what = f"sink {self.context.uid!r} prepared something that"
        payloads = plain_data(self._opened.prepare(checkpoint_id), what)
        if payloads and not self.sink.two_phase:
            raise UserCodeError(
                f"{what} needs a commit, but its `two_phase` is False; make it True, or prepare nothing"
            )
        if self.is_committing:
            self._queue.prepared(checkpoint_id, payloads)
        else:
            self._queue.sent(checkpoint_id)
            self._send(payloads)

    def snapshot(self, checkpoint_id: int) -> None:
        self._queue.snapshot(checkpoint_id)
        what = f"sink {self.context.uid!r} keeps in its state something that"
        states = plain_data(self._opened.state(checkpoint_id), what)
        self._writer_states.set(msgspec.msgpack.encode(state) for state in states)

    def finish(self) -> None:
        """Without checkpoints the end of the input is what makes everything final; else the last checkpoint is.

        A global committer hears of what is left before the end of its input, in any case.
        """
        self._has_ended = True
        if not self.is_committing or not self.context.takes_last_checkpoint:
            self.prepare_snapshot(self._queue.last_id + 1)
        if not self.context.takes_last_checkpoint:
            self._queue.ended()

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        self._queue.completed(checkpoint_id)

    def checkpoint_aborted(self, checkpoint_id: int) -> None:
        self._queue.aborted(checkpoint_id)

    @property
    def is_restoring(self) -> bool:
        """No subtask may commit newer output before all have committed what was restored: keys may have moved."""
        return self.is_committing and self._queue.is_restoring

    @property
    def is_full(self) -> bool:
        if self._queue.is_behind:
            return True
        # With a barrier still to come there may be no end to it: a sink that takes no input does not get one.
        return self._queue.will_progress and self._opened.kept_bytes > MOST_KEPT_BYTES

    def commit_figures(self) -> CommitFigures:
        return self._queue.figures() if hasattr(self, "_queue") else CommitFigures()

    @property
    def has_unfinished_work(self) -> bool:
        return self._writer is not None and not self._queue.is_empty

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()

    # Commits.

    def _commit(self, committable: Committable, permit: Permit, answer: Answer) -> None:
        commit = self._opened.commit
        self.context.background(lambda: commit(committable, permit), answer)

    def _send(self, payloads: Sequence[Any]) -> None:
        if payloads:
            subtasks = pa.array([self.context.subtask] * len(payloads), pa.int32())
            packed = pa.array(list(map(msgspec.msgpack.encode, payloads)), pa.binary())
            self.context.emit(pa.record_batch([subtasks, packed], schema=PREPARED_SCHEMA))

    @property
    def _opened(self) -> SinkWriter:
        assert self._writer is not None
        return self._writer
