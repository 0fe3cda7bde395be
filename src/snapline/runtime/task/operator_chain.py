"""The operators of one subtask, one behind the other, with their state."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa

from snapline.api.settings import Execution, StateBackend
from snapline.contracts.operator import Operator, OperatorContext
from snapline.errors import ConfigurationError
from snapline.graph.execution_plan import Key, PlannedOperator
from snapline.protocol.keygroups import KeyGroupRange, key_group_range
from snapline.protocol.restore.restore_plan import SubtaskRestore
from snapline.state.keyed_backend import KeyedBackend
from snapline.state.memory_backend import MemoryBackend
from snapline.state.operator_state import OperatorStates
from snapline.state.raw_state import RawKeyedState
from snapline.state.subtask_states import PendingSnapshot, SubtaskStates
from snapline.storage.snapshot_reader import SnapshotReader
from snapline.types import IDLE, MAX_WATERMARK, Barrier, SavepointFormat


class OperatorChain:
    """Operators from head to tail; only the task's thread uses it. What the last one emits goes to `emit`.

    Only the last one has side outputs that anybody reads.
    """

    def __init__(
        self, planned: Sequence[PlannedOperator], operators: Sequence[Operator], emit: Callable[[pa.RecordBatch], None]
    ) -> None:
        self.uids = [operator.uid for operator in planned]
        self.operators = list(operators)
        self._planned = planned
        self._emit = emit
        self._states: dict[str, SubtaskStates] = {}

    @property
    def head(self) -> Operator:
        return self.operators[0]

    def open(
        self,
        make_states: Callable[[PlannedOperator], SubtaskStates],
        make_context: Callable[
            [PlannedOperator, Operator, SubtaskStates, Callable[[pa.RecordBatch], None]], OperatorContext
        ],
        restore: dict[str, SubtaskRestore],
        source: SnapshotReader,
    ) -> None:
        """Make and restore all state, then open the operators from tail to head: whoever emits is heard."""
        for planned in self._planned:
            states = make_states(planned)
            self._states[planned.uid] = states
            part = restore.get(planned.uid)
            if part is not None:
                states.restore(part, source)
        emit = self._emit
        for planned, operator in reversed(list(zip(self._planned, self.operators, strict=True))):
            operator.open(make_context(planned, operator, self._states[planned.uid], emit))
            emit = _input_of(operator)

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        self.operators[0].process(batch, input_index)

    def emit_from_head(self, batch: pa.RecordBatch) -> None:
        """Pass on what a source has read."""
        self.operators[0].context.emit(batch)

    def watermark(self, timestamp_ms: int, behind: Operator | None = None) -> bool:
        """Pass a watermark, or `IDLE`, through the operators, all or those behind one; false if it ends in one."""
        start = 0 if behind is None else self.operators.index(behind) + 1
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

    def finish(self) -> None:
        for operator in self.operators:
            operator.finish()

    @property
    def late_rows(self) -> int:
        return sum(operator.late_rows for operator in self.operators)

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
        """From head to tail: what one emits, the next still takes in."""
        for operator in self.operators:
            operator.prepare_snapshot(checkpoint_id)

    def snapshot(
        self, barrier: Barrier, default_format: SavepointFormat, *, ended: bool
    ) -> tuple[dict[str, PendingSnapshot], int]:
        """The synchronous part, from tail to head; and how many milliseconds it took."""
        started_s = time.monotonic()
        is_savepoint = barrier.snapshot.is_savepoint
        is_canonical = is_savepoint and (barrier.format or default_format) is SavepointFormat.CANONICAL
        pending: dict[str, PendingSnapshot] = {}
        try:
            for uid, operator in reversed(list(zip(self.uids, self.operators, strict=True))):
                operator.snapshot(barrier.id)
                pending[uid] = self._states[uid].snapshot(
                    full=barrier.full or is_savepoint, canonical=is_canonical, ended=ended
                )
        except BaseException:
            for snapshot in pending.values():
                snapshot.release()
            raise
        return pending, round((time.monotonic() - started_s) * 1000)

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        for uid, operator in zip(self.uids, self.operators, strict=True):
            self._states[uid].confirm(checkpoint_id)
            operator.checkpoint_completed(checkpoint_id)

    def checkpoint_aborted(self, checkpoint_id: int) -> None:
        for uid, operator in zip(self.uids, self.operators, strict=True):
            self._states[uid].abort(checkpoint_id)
            operator.checkpoint_aborted(checkpoint_id)

    def raiser_of(self, error: BaseException) -> str | None:
        """The uid of the operator in which an error was raised; none if it was in no operator."""
        found = None
        for frame, _ in traceback.walk_tb(error.__traceback__):
            caller = frame.f_locals.get("self")
            # The innermost counts: one operator calls the next when it emits.
            found = next(
                (uid for uid, operator in zip(self.uids, self.operators, strict=True) if operator is caller), found
            )
        return found

    def close(self) -> list[Exception]:
        """Close everything, whatever goes wrong meanwhile; what did."""
        errors: list[Exception] = []
        for close in (
            *(operator.close for operator in self.operators),
            *(part.close for part in self._states.values()),
        ):
            try:
                close()
            except Exception as error:  # the others have to be closed too; the task tells of it
                errors.append(error)
        return errors


def make_states(
    planned: PlannedOperator,
    *,
    subtask: int,
    parallelism: int,
    max_parallelism: int,
    execution: Execution,
    incremental: bool,
    directory: Callable[[], Path],
    clock: Callable[[], int],
) -> SubtaskStates:
    """The empty state of an operator; `directory` gives one of its own on this machine, not there yet."""
    operator = OperatorStates(planned.uid, subtask)
    if planned.key is None:
        return SubtaskStates(operator)
    groups = key_group_range(max_parallelism, parallelism, subtask)
    keyed = _backend(planned.key, planned.uid, groups, max_parallelism, execution, incremental, directory, clock)
    return SubtaskStates(operator, keyed, RawKeyedState(planned.uid, groups, max_parallelism))


def _backend(
    key: Key,
    uid: str,
    groups: KeyGroupRange,
    max_parallelism: int,
    execution: Execution,
    incremental: bool,
    directory: Callable[[], Path],
    clock: Callable[[], int],
) -> KeyedBackend:
    if execution.state_backend is StateBackend.MEMORY:
        return MemoryBackend(key.type, max_parallelism=max_parallelism, key_groups=groups, clock=clock, uid=uid)
    try:
        from snapline.state.rocksdb_backend import RocksDbBackend
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"state_backend='rocksdb' needs the package {error.name!r}, which is not installed where the tasks run; "
            "install snapline[rocksdb] there"
        ) from error
    return RocksDbBackend(
        key.type,
        max_parallelism=max_parallelism,
        key_groups=groups,
        clock=clock,
        uid=uid,
        directory=directory(),
        incremental=incremental,
        max_cached_entries=execution.state_cache_entries,
    )


def _input_of(operator: Operator) -> Callable[[pa.RecordBatch], None]:
    def take(batch: pa.RecordBatch) -> None:
        operator.process(batch, 0)

    return take
