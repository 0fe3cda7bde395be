"""Sinks as operators: rows are prepared ahead of a barrier, and committed once the checkpoint is durable."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future

import msgspec
import pyarrow as pa

from snapline.contracts.operator import Operator, OperatorContext
from snapline.contracts.plain_data import plain_data
from snapline.contracts.sink import CommitResult, Committable, RetryWith, Sink, SinkContext, SinkWriter
from snapline.errors import SnaplineError, TransientError, UserCodeError
from snapline.protocol.commit import AbortNewer, Commit, CommitEffect, Committer, FailCommit
from snapline.state.operator_state import OperatorList
from snapline.text import error_text, shortened

_log = logging.getLogger(__name__)

_FIRST_PAUSE_MS = 50
_LONGEST_PAUSE_MS = 1000


class SinkOperator(Operator):
    """Writes rows with a sink's writer and commits what it has prepared, in order and one at a time.

    What is prepared and not known to be committed is in the state, so that whoever restores it commits it.
    """

    _writer: SinkWriter | None = None
    _committer: Committer
    _committables: OperatorList
    _orders: deque[Commit]

    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        self._is_committing = False
        self._last_id = 0

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._last_id = max(context.restored_id, context.prepared_until, 0)
        self._orders = deque()
        self._committer = Committer(context.attempt, max_retries=context.committer_retries)
        self._committables = context.states.operator.list_state("committables", bytes)
        self._writer = self.sink.writer(
            SinkContext(context.job_id, context.uid, context.subtask, context.parallelism, context.attempt)
        )
        restored = [Committable(*msgspec.msgpack.decode(entry)) for entry in self._committables]
        self._carry_out(self._committer.restored(context.restored_id, restored, prepared_until=context.prepared_until))

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        del input_index
        if batch.num_rows:
            self._opened.write(batch)

    # Checkpoints.

    def prepare_snapshot(self, checkpoint_id: int) -> None:
        self._last_id = max(self._last_id, checkpoint_id)
        context = self.context
        what = f"sink {context.uid!r} prepared something that"
        payloads = plain_data(self._opened.prepare(checkpoint_id), what)
        if payloads and not self.sink.two_phase:
            raise UserCodeError(
                f"{what} needs a commit, but its `two_phase` is False; make it True, or prepare nothing"
            )
        prefix = f"{context.job_id}/{context.uid}/{context.subtask}/{context.attempt}/{checkpoint_id}"
        committables = [
            Committable(f"{prefix}/{number}", checkpoint_id, payload) for number, payload in enumerate(payloads)
        ]
        self._committer.prepared(checkpoint_id, committables, len(committables))

    def snapshot(self, checkpoint_id: int) -> None:
        self._committables.set(
            msgspec.msgpack.encode([entry.name, entry.checkpoint_id, entry.payload])
            for entry in self._committer.snapshot(checkpoint_id)
        )

    def finish(self) -> None:
        """Without checkpoints the end of the input is what makes everything final; else the last checkpoint is."""
        if not self.context.takes_last_checkpoint:
            self.prepare_snapshot(self._last_id + 1)
            self._carry_out(self._committer.ended())

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        self._carry_out(self._committer.completed(checkpoint_id))

    @property
    def has_unfinished_work(self) -> bool:
        return self._writer is not None and bool(self._committer.pending)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()

    # Commits.

    def _carry_out(self, effects: Sequence[CommitEffect], *, is_retry: bool = False) -> None:
        for effect in effects:
            match effect:
                case AbortNewer(checkpoint_id):
                    self._opened.abort_newer(checkpoint_id)
                case Commit() if is_retry:
                    self._orders.appendleft(effect)
                case Commit():
                    self._orders.append(effect)
                case FailCommit(_, error):
                    raise TransientError(
                        f"sink {self.context.uid!r}: {error}. What was prepared is kept in the checkpoint, and the "
                        "commit is tried again after a restart: look at what is outside"
                    )
        self._commit_next()

    def _commit_next(self) -> None:
        if self._is_committing or not self._orders:
            return
        order = self._orders.popleft()
        self._is_committing = True
        retries = order.committable.retries
        if retries:
            pause_ms = min(_FIRST_PAUSE_MS * 2 ** (retries - 1), _LONGEST_PAUSE_MS)
            self.context.call_later(pause_ms, lambda: self._start(order))
        else:
            self._start(order)

    def _start(self, order: Commit) -> None:
        committable, commit = order.committable, self._opened.commit
        self.context.background(
            lambda: commit(committable, order.permit), lambda answer: self._answered(committable, answer)
        )

    def _answered(self, committable: Committable, answer: Future[CommitResult | RetryWith]) -> None:
        self._is_committing = False
        try:
            result = answer.result()
        except SnaplineError:
            raise
        except Exception as error:
            raise UserCodeError(
                f"sink {self.context.uid!r} could not commit {committable.name}: {error_text(error)}"
            ) from error
        if isinstance(result, RetryWith):
            what = f"sink {self.context.uid!r} replaced {committable.name} with something that"
            result = RetryWith(plain_data([result.payload], what)[0])
        elif not isinstance(result, CommitResult):
            raise UserCodeError(
                f"sink {self.context.uid!r}: the commit of {committable.name} gave {shortened(result)}; it must give a "
                "CommitResult, or RetryWith(payload)"
            )
        if result is CommitResult.FAILED_KNOWN:
            _log.warning(
                "sink %s: the commit of %s has failed for good, and what it holds is dropped",
                self.context.uid,
                committable.name,
            )
        effects = self._committer.answered(committable.name, result)
        self._carry_out(effects, is_retry=result is CommitResult.RETRY_LATER or isinstance(result, RetryWith))

    @property
    def _opened(self) -> SinkWriter:
        assert self._writer is not None
        return self._writer
