"""Global commits: one subtask commits, once a checkpoint, what all writers of a sink have prepared."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

import msgspec
import pyarrow as pa

from snapline.contracts.operator import Operator, OperatorContext
from snapline.contracts.operator_coordinator import CoordinatorContext, OperatorCoordinator
from snapline.contracts.sink import (
    CommitResult,
    CommitScope,
    Committable,
    GlobalCommitter,
    Permit,
    RetryWith,
    Sink,
    SinkContext,
)
from snapline.errors import SnaplineError, UserCodeError
from snapline.operators.commit_queue import Answer, CommitQueue
from snapline.operators.sink_operator import sink_context
from snapline.protocol.statistics.task_metrics import CommitFigures
from snapline.text import error_text


class GlobalCommit(Operator):
    """The one subtask behind the writers of a sink. Barriers on its inputs always align.

    So what it has received ahead of a barrier is what the writers prepared ahead of theirs. Commits run here, or on the
    driver by way of its coordinator.
    """

    repeats_events = True
    handles_events_after_end = True

    _queue: CommitQueue
    _committer: GlobalCommitter | None = None

    def __init__(self, sink: Sink, uid: str) -> None:
        self.sink = sink
        self._sink_uid = uid
        self._received: list[tuple[int, Any]] = []
        self._answer: Answer | None = None

    def make_coordinator(self) -> OperatorCoordinator | None:
        is_on_driver = self.sink.commit_scope is CommitScope.DRIVER
        return DriverCommits(self.sink, self._sink_uid) if is_on_driver else None

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        if self.sink.commit_scope is CommitScope.DRIVER:
            self._queue = CommitQueue(context, self._ask_driver, self._tell_driver)
        else:
            committer = self.sink.global_committer(_context_of(sink_context(context), self._sink_uid))
            self._committer = committer
            self._queue = CommitQueue(context, self._commit, committer.abort_newer)
        self._queue.restore()

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        del input_index
        subtasks, payloads = batch.columns
        self._received += zip(subtasks.to_pylist(), map(msgspec.msgpack.decode, payloads.to_pylist()), strict=True)

    def prepare_snapshot(self, checkpoint_id: int) -> None:
        if self._received:
            received, self._received = self._received, []
            received.sort(key=lambda entry: entry[0])
            self._queue.prepared(checkpoint_id, [[payload for _, payload in received]])

    def snapshot(self, checkpoint_id: int) -> None:
        self._queue.snapshot(checkpoint_id)

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        self._queue.completed(checkpoint_id)

    def finish(self) -> None:
        if not self.context.takes_last_checkpoint:
            self.prepare_snapshot(self._queue.last_id + 1)
            self._queue.ended()

    @property
    def is_full(self) -> bool:
        """Commits on the driver hold nothing up: their answers could not come past a barrier that waits for rows."""
        return self._committer is not None and self._queue.is_behind

    def commit_figures(self) -> CommitFigures:
        return self._queue.figures() if hasattr(self, "_queue") else CommitFigures()

    @property
    def has_unfinished_work(self) -> bool:
        return not self._queue.is_empty

    def close(self) -> None:
        if self._committer is not None:
            self._committer.close()

    # Here, or on the driver.

    def _commit(self, committable: Committable, permit: Permit, answer: Answer) -> None:
        assert self._committer is not None
        commit = self._committer.commit
        self.context.background(lambda: commit(committable, permit), answer)

    def _tell_driver(self, checkpoint_id: int) -> None:
        self.context.send_event({"abort_newer": checkpoint_id})

    def _ask_driver(self, committable: Committable, permit: Permit, answer: Answer) -> None:
        self._answer = answer
        self.context.send_event(
            {
                "name": committable.name,
                "checkpoint_id": committable.checkpoint_id,
                "payload": committable.payload,
                "retries": committable.retries,
                "permitted_id": permit.checkpoint_id,
            }
        )

    def handle_event(self, event: Mapping[str, Any]) -> None:
        """The driver's answer to the one commit that it was asked for."""
        answer, self._answer = self._answer, None
        if answer is None:
            return
        future: Future[Any] = Future()
        match event:
            case {"error": error}:
                future.set_exception(UserCodeError(error))
            case {"retry_with": payload}:
                future.set_result(RetryWith(payload))
            case {"result": result}:
                future.set_result(CommitResult(result))
        answer(future)


class DriverCommits(OperatorCoordinator):
    """Commits on the driver what its subtask asks for; the subtask keeps it until it has the answer."""

    _committer: GlobalCommitter

    def __init__(self, sink: Sink, uid: str) -> None:
        self._sink = sink
        self._uid = uid

    def start(self, context: CoordinatorContext) -> None:
        super().start(context)
        place = SinkContext(context.job_id, self._uid, 0, 1, context.attempt, context.lineage)
        self._committer = self._sink.global_committer(place)

    def handle_event(self, subtask: int, event: Any) -> None:
        if "abort_newer" in event:
            self._committer.abort_newer(event["abort_newer"])
            return
        committable = Committable(event["name"], event["checkpoint_id"], event["payload"], event["retries"])
        permit = Permit(self.context.attempt, event["permitted_id"])
        self.context.background(
            lambda: self._committer.commit(committable, permit), lambda answer: self._answer(subtask, answer)
        )

    def _answer(self, subtask: int, answer: Future[Any]) -> None:
        try:
            result = answer.result()
        except SnaplineError as error:
            self.context.send(subtask, {"error": str(error)})
            return
        except Exception as error:
            self.context.send(subtask, {"error": f"sink {self._uid!r} could not commit: {error_text(error)}"})
            return
        if isinstance(result, RetryWith):
            self.context.send(subtask, {"retry_with": result.payload})
        elif isinstance(result, CommitResult):
            self.context.send(subtask, {"result": result.value})
        else:
            wrong = f"sink {self._uid!r}: commit() gave {result!r}; it must give a CommitResult, or RetryWith(payload)"
            self.context.send(subtask, {"error": wrong})

    def snapshot(self, checkpoint_id: int) -> Any:
        return None

    def close(self) -> None:
        if hasattr(self, "_committer"):
            self._committer.close()


def _context_of(context: SinkContext, uid: str) -> SinkContext:
    """The context with the uid of the sink instead of its committer's."""
    return SinkContext(context.job_id, uid, 0, 1, context.attempt, context.lineage)
