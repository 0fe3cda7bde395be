"""Operators: the contract between the runtime and everything that processes data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from snapline.contracts.operator_coordinator import OperatorCoordinator
from snapline.errors import ConfigurationError, UserCodeError
from snapline.protocol.statistics.task_metrics import CommitFigures
from snapline.state.subtask_states import SubtaskStates
from snapline.text import shortened


def _no_coordinator(event: Any) -> None:
    del event
    raise ConfigurationError("send_event: this operator has no coordinator; return one from make_coordinator()")


@dataclass(frozen=True, slots=True)
class OperatorContext:
    """What the runtime offers one operator of one subtask, from `open` on. Only the task's thread uses it.

    `states` is its state; `states.keyed` is None unless its input is keyed by `key_columns`. `emit` passes on a batch
    with the operator's declared schema; `emit_to` passes one to a side output, where it is dropped if nothing reads it.
    `emit_watermark` is for operators that make watermarks. `background(call, done)` runs a blocking call on another
    thread, then `done` with its future on the task's thread, unless the task has ended. `post(call)`, the only field
    that other threads may use, runs a call on the task's thread, unless the task has ended; `call_later(delay_ms,
    call)` does so after a delay.

    `restored_id` is the checkpoint the subtask was restored from, -1 if none. What was prepared for checkpoints up to
    `prepared_until` may still be restored. `lineage` names the line of checkpoints that the job goes on with: output
    of this job under another lineage is from another start. `takes_last_checkpoint` says that a checkpoint follows the
    end of the data; without one, `finish` makes the output final. `clock` returns processing time in milliseconds.
    `send_event` sends plain data to the operator's coordinator, which handles the events of each subtask in order.
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
    lineage: str
    committer_retries: int
    takes_last_checkpoint: bool
    clock: Callable[[], int]
    emit: Callable[[pa.RecordBatch], None]
    emit_to: Callable[[str, pa.RecordBatch], None]
    emit_watermark: Callable[[int], None]
    background: Callable[[Callable[[], Any], Callable[[Future[Any]], None]], None]
    post: Callable[[Callable[[], None]], None]
    call_later: Callable[[int, Callable[[], None]], None]
    send_event: Callable[[Any], None] = _no_coordinator


class Operator(ABC):
    """An operator. It is pickled with the job, and every subtask runs its own copy.

    All calls come from one thread, `open` first, `close` and `join` last; these two are also called after a failure,
    even if `open` was not. An exception fails the task, and the job restarts from its last checkpoint.
    """

    context: OperatorContext

    makes_watermarks = False
    """Whether incoming watermarks stop here, except for the final one, and only its own are passed on."""

    late_rows = 0
    """Rows that came too late so far, dropped or sent to a side output; shown in the metrics of its task."""

    bad_rows = 0
    """Rows that could not be processed so far, dropped or sent to dead letters; shown in the metrics of its task."""

    repeats_events = False
    """Whether it sends the events for its coordinator again after a restore, so that checkpoints need not keep them."""

    handles_events_after_end = False
    """Whether events of its coordinator reach it even when all input has ended; they may not emit then."""

    last_bad_row = ""
    """What was wrong with the last of them."""

    def make_coordinator(self) -> OperatorCoordinator | None:
        """Returns a new coordinator for all subtasks of this operator, or None if it needs none.

        Called on the driver: while the job is planned, and for each attempt. An operator with a coordinator needs a
        uid.
        """
        return None

    def open(self, context: OperatorContext) -> None:
        """Start; state is restored and may be declared. An override calls this first."""
        self.context = context

    @abstractmethod
    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        """Process a batch from one of the operator's inputs; a single input has index 0.

        Batch boundaries carry no meaning: batches are split and merged on their way.
        """

    def watermark(self, timestamp_ms: int) -> None:
        """No row older than this is expected. The watermark is passed on afterwards.

        `MAX_WATERMARK` says that there are no more rows at all.
        """

    def idle(self) -> bool:
        """All inputs are idle until the next watermark. Returns whether to pass that on at once.

        An operator that still has rows to emit returns False, and calls `emit_watermark(IDLE)` after them.
        """
        return True

    def next_wakeup_ms(self) -> int | None:
        """Returns the processing time at which to call `wakeup`, or None. Called after every other call."""
        return None

    def wakeup(self, now_ms: int) -> None:
        """Processing time has reached `next_wakeup_ms`."""

    def handle_event(self, event: Any) -> None:
        """The operator's coordinator has sent this to this subtask. May emit, and change state, as `process` may."""
        raise UserCodeError(
            f"the coordinator of {type(self).__name__} has sent {shortened(event)}, but the operator has no method "
            "handle_event"
        )

    def prepare_snapshot(self, checkpoint_id: int) -> None:
        """A barrier comes next: emit or flush what must precede it."""

    def snapshot(self, checkpoint_id: int) -> None:
        """The synchronous part: write to state what is not there yet. Must be quick, and may not emit."""

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        """The checkpoint is durable, which settles all older ones too. Not every checkpoint is reported."""

    def checkpoint_aborted(self, checkpoint_id: int) -> None:
        """The checkpoint will never complete. May be reported twice."""

    def checkpoint_subsumed(self, checkpoint_id: int) -> None:
        """A newer checkpoint has replaced this one and all before it: the job will not go back to them.

        Comes after `checkpoint_completed` of the newer one. Not every checkpoint is reported.
        """

    def finish(self) -> None:
        """All input has ended: emit what is left. Snapshots and notifications may follow, wakeups do not."""

    @property
    def is_restoring(self) -> bool:
        """Whether what the restored checkpoint holds has to be made final before any row comes or a checkpoint starts.

        Checked after every call; no operator coordinator can send anything before.
        """
        return False

    @property
    def is_full(self) -> bool:
        """Whether to hold back rows, because the most that may be in flight elsewhere are.

        Checked before every read; barriers, mail and wakeups still arrive. A posted call must end this state.
        """
        return False

    def commit_figures(self) -> CommitFigures | None:
        """How the commits of a sink get on, also before it is opened; None for any other operator. Any thread."""
        return None

    @property
    def is_busy(self) -> bool:
        """Whether rows in flight elsewhere have not been emitted yet: the end of the data waits for them."""
        return False

    @property
    def has_unfinished_work(self) -> bool:
        """Whether the subtask must stay although its last checkpoint is complete: commits are in progress.

        Checked after every call. As long as it stays, it takes part in checkpoints.
        """
        return False

    def close(self) -> None:
        """Release external resources; do not emit, commit or flush anything here."""

    def join(self) -> None:
        """Wait, after `close`, for threads of the operator that cannot be interrupted.

        The task has reported its end before. If this does not return within `cancel_timeout`, a restart of the job
        kills the process, because nothing else ends such threads.
        """
