"""The chained operators of one subtask and their state."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, TypeAlias

import pyarrow as pa

from snapline.contracts.operator import Operator, OperatorContext
from snapline.errors import DamagedError, SnaplineError
from snapline.graph.execution_plan import PlannedOperator
from snapline.operators.row_batches import row_at
from snapline.operators.source_head import ChainMember, SourceHead
from snapline.protocol.error_identity import ErrorIdentity
from snapline.protocol.restore.restore_plan import SubtaskRestore
from snapline.protocol.statistics.task_metrics import CommitFigures
from snapline.runtime.task.input_watermarks import NOTHING_YET
from snapline.runtime.task.task_failure import one_line
from snapline.state.subtask_states import PendingSnapshot, SubtaskStates
from snapline.storage.snapshot_reader import SnapshotReader
from snapline.text import for_batch
from snapline.types import IDLE, MAX_WATERMARK, Barrier, SavepointFormat

Emit: TypeAlias = Callable[[pa.RecordBatch], None]


class OperatorChain:
    """The operators of a subtask from head to tail, perhaps behind a source. Used by the task's thread only."""

    def __init__(
        self,
        planned: Sequence[PlannedOperator],
        members: Sequence[ChainMember],
        time_s: Callable[[], float] = time.monotonic,
    ) -> None:
        head = members[0]
        self.uids = [operator.uid for operator in planned]
        self.source = head if isinstance(head, SourceHead) else None
        self.operators = [member for member in members if not isinstance(member, SourceHead)]
        self._planned = planned
        self._members = list(zip(self.uids, members, strict=True))
        self._by_uid = dict(self._members)
        self._time_s = time_s
        self._prepared_s = 0.0
        self._states: dict[str, SubtaskStates] = {}

    def open(
        self,
        make_states: Callable[[PlannedOperator], SubtaskStates],
        make_context: Callable[[PlannedOperator, ChainMember, SubtaskStates, Emit], OperatorContext],
        emit: Emit,
        restore: dict[str, SubtaskRestore],
        reader: SnapshotReader,
    ) -> None:
        """Create and restore all state, then open the operators from tail to head; the last one emits to `emit`."""
        for planned in self._planned:
            states = make_states(planned)
            self._states[planned.uid] = states
            part = restore.get(planned.uid)
            if part is not None:
                states.restore(part, reader)
        for planned, (uid, member) in zip(reversed(self._planned), reversed(self._members), strict=True):
            member.open(make_context(planned, member, self._states[uid], emit))
            self._states[uid].operator.opened()
            if not isinstance(member, SourceHead):
                emit = _input_of(member)

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        self.operators[0].process(batch, input_index)

    def replay(self, uid: str, batch: pa.RecordBatch, input_index: int) -> None:
        """Process restored in-flight data: input of the head, or of an operator that was not chained before."""
        member = dict(self._members)[uid]
        assert isinstance(member, Operator)
        member.process(batch, input_index)

    def watermark(self, timestamp_ms: int, behind: Operator | None = None) -> bool:
        """Pass a watermark, or `IDLE`, through the operators (`behind` one). Returns False if one of them holds it.

        `NOTHING_YET`, the end of being idle without a watermark, says nothing to them.
        """
        start = 0 if behind is None else self.operators.index(behind) + 1
        if timestamp_ms == NOTHING_YET:
            return not any(operator.makes_watermarks for operator in self.operators[start:])
        if timestamp_ms == IDLE:
            return all(operator.idle() for operator in self.operators[start:])
        for operator in self.operators[start:]:
            operator.watermark(timestamp_ms)
            if operator.makes_watermarks and timestamp_ms != MAX_WATERMARK:
                return False
        return True

    def next_wakeup_ms(self) -> int | None:
        return min((at for operator in self.operators if (at := operator.next_wakeup_ms()) is not None), default=None)

    def wakeup(self, now_ms: int) -> None:
        for operator in self.operators:
            at_ms = operator.next_wakeup_ms()
            if at_ms is not None and at_ms <= now_ms:
                operator.wakeup(now_ms)

    def handle_event(self, uid: str, event: Any) -> None:
        """Pass an event of its coordinator to an operator or the source."""
        self._by_uid[uid].handle_event(event)

    def handles_events_after_end(self, uid: str) -> bool:
        member = self._by_uid[uid]
        return isinstance(member, Operator) and member.handles_events_after_end

    def finish(self) -> None:
        for operator in self.operators:
            operator.finish()

    @property
    def figures(self) -> tuple[int, int, str, str, CommitFigures | None]:
        """The numbers of late and of bad rows so far, what was wrong with the last bad row of the last operator, the
        split that holds event time back, and how the commits of the sink get on. Any thread.
        """
        members = [member for _, member in self._members]
        late = sum(operator.late_rows for operator in self.operators)
        said = [member.last_bad_row for member in members if member.bad_rows]
        slowest_split = "" if self.source is None else self.source.slowest_split
        commits = (operator.commit_figures() for operator in self.operators)
        committing = next((figures for figures in commits if figures is not None), None)
        return late, sum(member.bad_rows for member in members), said[-1] if said else "", slowest_split, committing

    @property
    def is_restoring(self) -> bool:
        return any(operator.is_restoring for operator in self.operators)

    @property
    def is_full(self) -> bool:
        return any(operator.is_full for operator in self.operators)

    @property
    def is_busy(self) -> bool:
        return any(operator.is_busy for operator in self.operators)

    @property
    def has_unfinished_work(self) -> bool:
        return any(operator.has_unfinished_work for operator in self.operators)

    # Checkpoints.

    def prepare_snapshot(self, checkpoint_id: int) -> None:
        """Goes from head to tail: the next operator still processes what one emits."""
        started_s = self._time_s()
        for operator in self.operators:
            operator.prepare_snapshot(checkpoint_id)
        self._prepared_s = self._time_s() - started_s

    def snapshot(
        self, barrier: Barrier, default_format: SavepointFormat, *, ended: bool
    ) -> tuple[dict[str, PendingSnapshot], int]:
        """Run the synchronous part, from tail to head. Returns what to write and the duration in milliseconds.

        Preparing belongs to it: the task processes nothing meanwhile.
        """
        started_s, self._prepared_s = self._time_s() - self._prepared_s, 0.0
        is_savepoint = barrier.snapshot.is_savepoint
        is_canonical = is_savepoint and (barrier.format or default_format) is SavepointFormat.CANONICAL
        pending: dict[str, PendingSnapshot] = {}
        try:
            for uid, member in reversed(self._members):
                member.snapshot(barrier.id)
                pending[uid] = self._states[uid].snapshot(
                    full=barrier.full or is_savepoint, alone=barrier.alone, canonical=is_canonical, ended=ended
                )
        except BaseException:
            for snapshot in pending.values():
                snapshot.release()
            raise
        return pending, round((self._time_s() - started_s) * 1000)

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        for uid, member in self._members:
            self._states[uid].confirm(checkpoint_id)
            member.checkpoint_completed(checkpoint_id)

    def checkpoint_subsumed(self, checkpoint_id: int) -> None:
        for operator in self.operators:
            operator.checkpoint_subsumed(checkpoint_id)

    def checkpoint_aborted(self, checkpoint_id: int) -> None:
        for uid in self.uids:
            self._states[uid].abort(checkpoint_id)
        for _, member in self._members:
            member.checkpoint_aborted(checkpoint_id)

    def described(self, error: BaseException) -> str:
        """Describe an error in one line, with the operator that raised it."""
        message, (found, rows) = one_line(error), self._raised_in(error)
        if isinstance(error, DamagedError):
            message += "; restore it from a backup, or start under a new id from another checkpoint or a savepoint"
        where = "" if found is None or repr(found) in message else f" (in the operator {found!r})"
        # Our own errors say which row they are about.
        return f"{message}{where}{'' if isinstance(error, SnaplineError) else rows}"

    def identity_of(self, error: BaseException) -> ErrorIdentity | None:
        """What tells whether the same error happens again; None if the environment failed."""
        return ErrorIdentity.of(error, self._raised_in(error)[0] or "")

    def _raised_in(self, error: BaseException) -> tuple[str | None, str]:
        """The uid of the operator that raised an error, or None, and the rows that it was given, for the message."""
        found, rows = None, ""
        for frame, _ in traceback.walk_tb(error.__traceback__):
            caller = frame.f_locals.get("self")
            uid = next((uid for uid, member in self._members if member is caller), None)
            if uid is not None:
                # The innermost counts: an operator that emits calls the next.
                found, rows = uid, _rows_of(frame) or (rows if uid == found else "")
        return found, rows

    def close(self) -> list[Exception]:
        """Close everything. Returns the errors."""
        errors: list[Exception] = []
        for close in (
            *(member.close for _, member in self._members),
            *(part.close for part in self._states.values()),
        ):
            try:
                close()
            except Exception as error:  # the others must be closed too; the task logs it
                errors.append(error)
        return errors

    def join(self) -> None:
        """Wait for threads of closed operators that cannot be interrupted."""
        for operator in self.operators:
            operator.join()


def _rows_of(frame: FrameType) -> str:
    """The end of a message about the batch that a call of `process` was given."""
    code = frame.f_code
    batch = frame.f_locals.get(code.co_varnames[1]) if code.co_name == "process" and code.co_argcount > 1 else None
    if not isinstance(batch, pa.RecordBatch):
        return ""
    return for_batch(batch.num_rows, row_at(batch, 0) if batch.num_rows else None)


def _input_of(operator: Operator) -> Callable[[pa.RecordBatch], None]:
    def take(batch: pa.RecordBatch) -> None:
        operator.process(batch, 0)

    return take
