"""What an operator is: the contract between the runtime and everything that processes data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from snapline.state.subtask_states import SubtaskStates


@dataclass(frozen=True, slots=True)
class OperatorContext:
    """What one operator of one subtask has around it, from `open` on. Only its task's thread uses it.

    `states` is its state; `states.keyed` is none unless its input is keyed by `key_columns`. `emit` passes a batch on,
    with the schema the operator declares, and `emit_to` to one of its side outputs, where it is dropped if nobody
    reads it. `emit_watermark` is for operators that make watermarks. `background(call, done)` runs a blocking call on
    another thread, then `done` with its future on the task's thread; after the task has ended `done` is not called.
    `post(call)`, the only one that other threads may use, has a call made on the task's thread, unless that has ended.
    `restored_id` is the checkpoint the subtask was restored from, -1 for none, and what was prepared for checkpoints up
    to `prepared_until` may be restored by somebody still. `takes_last_checkpoint` says that a checkpoint follows the
    end of the data; if none does, `finish` is where what was written becomes final. `clock` gives processing time in
    milliseconds.
    """

    job_id: str
    uid: str
    subtask: int
    parallelism: int
    max_parallelism: int
    attempt: int
    key_columns: tuple[str, ...]
    states: SubtaskStates
    restored_id: int
    prepared_until: int
    committer_retries: int
    takes_last_checkpoint: bool
    clock: Callable[[], int]
    emit: Callable[[pa.RecordBatch], None]
    emit_to: Callable[[str, pa.RecordBatch], None]
    emit_watermark: Callable[[int], None]
    background: Callable[[Callable[[], Any], Callable[[Future[Any]], None]], None]
    post: Callable[[Callable[[], None]], None]


class Operator(ABC):
    """One operator. It is pickled with the job, and every subtask works with a copy of its own.

    All calls come from one thread, `open` first and `close` last; `close` comes also after a failure, and then perhaps
    without `open`. What raises fails the task, and the job starts again from its last checkpoint.
    """

    context: OperatorContext

    makes_watermarks = False
    """Whether watermarks that come in end here, but for the last of all, and only those it emits itself go on."""

    late_rows = 0
    """How many rows came too late so far, dropped or sent to a side output; the figures of its task show it."""

    def open(self, context: OperatorContext) -> None:
        """Begin; state is restored and may be declared. Overriding it, call this first."""
        self.context = context

    @abstractmethod
    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        """Take in a batch that came on one of the operator's inputs; an only input is number 0.

        Where one batch ends and the next begins means nothing: rows are cut and put together on their way.
        """

    def watermark(self, timestamp_ms: int) -> None:
        """No row older than this will come, as far as anybody knows. It is passed on afterwards.

        The greatest there is, `MAX_WATERMARK`, says that there are no more rows at all.
        """

    def idle(self) -> bool:
        """Nobody in front is to be waited for until the next watermark; whether that is passed on at once.

        If not, because rows are on their way out that have to be waited for, it is passed on with
        `emit_watermark(IDLE)` behind them.
        """
        return True

    def next_wakeup_ms(self) -> int | None:
        """When, in processing time, `wakeup` has to be called next; asked for after every call."""
        return None

    def wakeup(self, now_ms: int) -> None:
        """Processing time has come as far as `next_wakeup_ms` said."""

    def prepare_snapshot(self, checkpoint_id: int) -> None:
        """The barrier comes next: emit or flush what has to be ahead of it."""

    def snapshot(self, checkpoint_id: int) -> None:
        """The synchronous part: put into state what is not there yet. It must be quick, and may not emit."""

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        """The checkpoint is durable, and all older ones are as good as that. Not every one is told of."""

    def checkpoint_aborted(self, checkpoint_id: int) -> None:
        """The checkpoint will never be."""

    def finish(self) -> None:
        """All input has ended: emit what is left. Snapshots and notifications may still follow, wakeups do not."""

    @property
    def is_full(self) -> bool:
        """Whether no more rows may come for now, since as many as can be are worked on elsewhere.

        Looked at before every read; barriers, mail and wakeups still come. Something posted has to make an end to it.
        """
        return False

    @property
    def is_busy(self) -> bool:
        """Whether rows are worked on elsewhere that have not been emitted: the end of all data waits for them."""
        return False

    @property
    def has_unfinished_work(self) -> bool:
        """Whether the subtask must not leave yet although its last checkpoint is complete: commits are on their way.

        Looked at after every call.
        """
        return False

    def close(self) -> None:
        """Release everything outside; nothing may be emitted, committed or flushed here."""
