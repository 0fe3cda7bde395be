"""The turns of a subtask with a source: reading, requesting splits, waiting, being idle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import pyarrow as pa

from snapline.contracts.source import CheckpointLine
from snapline.operators.source_head import SourceHead
from snapline.protocol.messages import TriggerCheckpoint
from snapline.runtime.scheduler.mailbox import Mailbox, MailboxTimer
from snapline.runtime.task.checkpoint_lines import CheckpointLines
from snapline.runtime.task.input_watermarks import NOTHING_YET
from snapline.runtime.task.task_environment import Reporter
from snapline.runtime.task.task_meter import TaskMeter
from snapline.types import IDLE, ExecutionId

_LONGEST_WAIT_MS = 100
"""A source with nothing to read is checked again after this time: it may have become idle."""


class SourceTask(Protocol):
    """The task as its source sees it."""

    execution: ExecutionId
    reporter: Reporter
    meter: TaskMeter
    mailbox: Mailbox
    clock: Callable[[], int]

    @property
    def is_busy(self) -> bool:
        """Whether operators are still working on rows: the end of data waits for them."""

    def after_operators(self) -> None: ...

    def pass_on(self, watermark: int) -> None:
        """Pass a watermark, `IDLE`, or that a source without watermarks is no longer idle (`NOTHING_YET`)."""

    def end_data(self) -> None: ...


class SourceTurns:
    """Reads one batch of a source per turn. Used by the task's thread only.

    `is_held` until the first checkpoint of the job has completed, `is_stopped` while the job stops with a savepoint.
    `start` takes the trigger of a checkpoint that begins now.
    """

    def __init__(
        self, source: SourceHead, task: SourceTask, start: Callable[[TriggerCheckpoint], None], *, is_held: bool
    ) -> None:
        self._start = start
        self._lines = CheckpointLines(start) if source.draws_lines else None
        self._has_ended = False
        self.is_held = is_held
        self.is_stopped = False
        self.watermark: int | None = None
        self._source = source
        self._task = task
        self._timer: MailboxTimer | None = None

    def take(self) -> bool:
        """Read once. Returns False if there is nothing to read now."""
        if self.is_stopped or self.is_held or (self._lines is not None and self._lines.is_waiting):
            return False
        source, task = self._source, self._task
        if source.wants_split:
            source.ask()
        if self.watermark == IDLE:
            self._be_idle_or_not()  # it may have been given a split, and counts before its first row
        result = source.read()
        if isinstance(result, pa.RecordBatch):
            task.meter.rows_in += result.num_rows
            task.meter.bytes_in += result.nbytes
            source.context.emit(result)
            task.after_operators()
            self._advance(source.watermark_ms)
            return True
        if isinstance(result, CheckpointLine):
            assert self._lines is not None
            self._lines.reached(result.checkpoint_id)
            return True
        if result is None and source.has_ended:
            if task.is_busy:
                return False
            task.end_data()
            task.reporter.source_ended(task.execution)
            return True
        wait_ms = _LONGEST_WAIT_MS if result is None else round(result.seconds * 1000)
        if self._timer is not None:
            self._timer.cancel()
        self._timer = task.mailbox.at(task.clock() + min(max(wait_ms, 1), _LONGEST_WAIT_MS), _nothing)
        self._be_idle_or_not()
        return False

    def _be_idle_or_not(self) -> None:
        is_idle = self._source.is_idle(self._task.clock())
        self._advance(IDLE if is_idle else self._source.watermark_ms)

    def end(self) -> None:
        """All data has been read."""
        self._has_ended = True
        self._source.end()
        if self._lines is not None:
            self._lines.end()

    # Checkpoints.

    def triggered(self, trigger: TriggerCheckpoint) -> None:
        """The driver starts a checkpoint: it begins now, or where the source draws its line."""
        if self._lines is None:
            if not self._has_ended:
                self._be_idle_or_not()  # what is known of event time goes before the barrier
            self._start(trigger)
        else:
            self._lines.triggered(trigger)

    def aborted(self, checkpoint_id: int) -> None:
        if self._lines is not None:
            self._lines.aborted(checkpoint_id)

    def mark_latency(self, interval_ms: int, send: Callable[[int], None]) -> None:
        """Send the time to the outputs again and again, until all data has been read; 0 sends none."""
        if interval_ms > 0:
            self._task.mailbox.at(self._task.clock() + interval_ms, lambda: self._send_mark(interval_ms, send))

    def _send_mark(self, interval_ms: int, send: Callable[[int], None]) -> None:
        if not self._has_ended:
            send(self._task.clock())
            self.mark_latency(interval_ms, send)

    def _advance(self, watermark: int | None) -> None:
        if watermark is None and self.watermark == IDLE:
            self.watermark = None
            self._task.pass_on(NOTHING_YET)
        elif watermark is not None and watermark != self.watermark:
            self.watermark = watermark
            self._task.pass_on(watermark)


def _nothing() -> None:
    """The timer only has to wake the task."""
