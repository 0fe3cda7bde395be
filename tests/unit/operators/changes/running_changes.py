"""Runs an operator of changes the way a job does: several subtasks, either backend, restarts at another parallelism."""

from __future__ import annotations

import inspect
import itertools
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from math import isnan, nan
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pyarrow as pa
from hypothesis import given, settings

from snapline.contracts.operator import Operator, OperatorContext
from snapline.operators.changes.changes import CHANGE, ChangeKind, is_changing
from snapline.operators.changes.key_layout import KeyLayout
from snapline.protocol.keygroups import KeyGroupRange, key_group_ranges
from snapline.protocol.restore.restore_plan import RestoreVertex, plan_restore
from snapline.protocol.snapshot import OperatorState, Snapshot
from snapline.state.keyed_backend import KeyedBackend
from snapline.state.memory_backend import MemoryBackend
from snapline.state.operator_state import OperatorStates
from snapline.state.rocksdb.rocksdb_backend import RocksDbBackend
from snapline.state.stable_hash import hash_columns, key_groups
from snapline.state.subtask_states import SubtaskStates
from snapline.storage.objects.memory_objects import MemoryObjects
from snapline.storage.snapshot_reader import SnapshotReader
from snapline.storage.snapshot_writer import SnapshotWriter
from snapline.types import SnapshotKind, SubtaskId

UID = "it"
GROUPS = 128

Row = tuple[Any, ...]

EXAMPLES_ON_DISK = 4
"""Opening, copying and deleting databases takes most of the time of an example, and shows little of operators."""


def given_on_disk_rarely(examples: int, **strategies: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """`given` for tests with a parameter `backend`: so many examples in memory, few on disk."""

    def decorate(body: Callable[..., None]) -> Callable[..., None]:
        in_memory = settings(max_examples=examples)(given(**strategies)(body))
        on_disk = settings(max_examples=EXAMPLES_ON_DISK)(given(**strategies)(body))

        def test(*, backend: str, **parameters: Any) -> None:
            (in_memory if backend == "memory" else on_disk)(backend=backend, **parameters)

        test.__name__, test.__doc__ = body.__name__, body.__doc__
        test.__signature__ = inspect.signature(in_memory)  # type: ignore[attr-defined]  # how pytest learns of parameters
        return test

    return decorate


class RunningChanges:
    """An operator whose inputs are keyed by `layouts`; batches are given without their key columns."""

    def __init__(self, operator: Operator, layouts: Sequence[KeyLayout], backend: str, directory: Path) -> None:
        self._layouts = layouts
        self._backend = backend
        self._directory = directory
        self._numbers = itertools.count(1)
        self._objects = MemoryObjects()
        self._pristine = cloudpickle.dumps(operator)
        self.applies = True
        """Whether emitted batches are applied to `result`, or are left in `emitted`."""
        self.emitted: list[pa.RecordBatch] = []
        self.result: Counter[Row] = Counter()
        self._open(1, None)

    def process(self, batch: pa.RecordBatch, side: int = 0) -> None:
        keyed = self._layouts[side].with_keys(batch)
        owners = self._owners(keyed.select(self._layouts[side].key_columns).columns)
        for number, operator in enumerate(self._operators):
            rows = np.flatnonzero(owners == number)
            if rows.size or not batch.num_rows:
                operator.process(keyed.take(pa.array(rows)), side)
        self._apply()

    def finish(self) -> None:
        for operator in self._operators:
            operator.finish()
        self._apply()

    def watermark(self, timestamp_ms: int) -> None:
        for operator in self._operators:
            operator.watermark(timestamp_ms)
        self._apply()

    @property
    def late_rows(self) -> int:
        """How many rows these operators have dropped since the last restart."""
        return sum(operator.late_rows for operator in self._operators)

    def restart(self, parallelism: int) -> None:
        """Take a checkpoint, and go on from it in new operators, perhaps more or fewer of them."""
        number, old = next(self._numbers), len(self._operators)
        written = {}
        for subtask, (operator, states) in enumerate(zip(self._operators, self._states, strict=True)):
            operator.prepare_snapshot(number)
            operator.snapshot(number)
            target = SnapshotWriter(
                self._objects, f"/chk-{number}", "/shared", attempt=1, checkpoint_id=number, uid=UID, subtask=subtask
            )
            written[subtask] = states.snapshot().write(target).state
        self.close()
        state = OperatorState(UID, parallelism=old, max_parallelism=GROUPS, subtasks=written)
        snapshot = Snapshot(number, SnapshotKind.CHECKPOINT, 1, 0, f"/chk-{number}", {UID: state})
        self._open(parallelism, snapshot)

    def stored_entries(self) -> dict[str, int]:
        """How many entries each state has that has any; for the memory backend."""
        counts: Counter[str] = Counter()
        for states in self._states:
            assert states.keyed is not None
            for name, state in states.keyed._states.items():
                counts[name] += int(state.values.freeze().present.sum())
        return dict(+counts)

    def close(self) -> None:
        for operator, states in zip(self._operators, self._states, strict=True):
            operator.close()
            states.close()

    def _apply(self) -> None:
        """Apply what was emitted to the result; nothing may be taken out that is not in it."""
        if self.applies:
            for batch in self.emitted:
                apply_changes(batch, self.result)
            self.emitted.clear()

    def _owners(self, columns: list[pa.Array]) -> Any:
        groups = key_groups(hash_columns(columns), GROUPS)
        owners = np.zeros(len(groups), dtype=np.int64)
        for number, held in enumerate(self._ranges):
            owners[(groups >= held.start) & (groups <= held.end)] = number
        return owners

    def _open(self, parallelism: int, snapshot: Snapshot | None) -> None:
        self._ranges = key_group_ranges(GROUPS, parallelism)
        self._states = []
        self._operators: list[Operator] = []
        plan = None
        if snapshot is not None:
            vertex = RestoreVertex(UID, parallelism, (UID,), max_parallelism=GROUPS)
            plan = plan_restore(snapshot, [vertex], [])
        for subtask, held in enumerate(self._ranges):
            states = SubtaskStates(OperatorStates(UID, subtask), self._keyed(held))
            if plan is not None:
                states.restore(plan.subtasks[SubtaskId(UID, subtask)][UID], SnapshotReader(self._objects))
            operator: Operator = cloudpickle.loads(self._pristine)
            operator.open(self._context(states, subtask, parallelism))
            self._states.append(states)
            self._operators.append(operator)

    def _context(self, states: SubtaskStates, subtask: int, parallelism: int) -> OperatorContext:
        values: dict[str, Any] = {
            **{item.name: None for item in fields(OperatorContext)},
            "uid": UID,
            "subtask": subtask,
            "parallelism": parallelism,
            "max_parallelism": GROUPS,
            "key_columns": self._layouts[0].key_columns,
            "states": states,
            "emit": self.emitted.append,
        }
        return OperatorContext(**values)

    def _keyed(self, held: KeyGroupRange) -> KeyedBackend:
        kinds = self._layouts[0].fields
        key = kinds[0].type if len(kinds) == 1 else pa.struct(kinds)
        options: dict[str, Any] = {"max_parallelism": GROUPS, "key_groups": held, "clock": lambda: 0, "uid": UID}
        if self._backend == "memory":
            return MemoryBackend(key, **options)
        return RocksDbBackend(
            key, directory=self._directory / f"{next(self._numbers)}", max_cached_entries=10, **options
        )


@contextmanager
def running(operator: Operator, layouts: Sequence[KeyLayout], backend: str = "memory") -> Iterator[RunningChanges]:
    with tempfile.TemporaryDirectory() as directory:
        one = RunningChanges(operator, layouts, backend, Path(directory))
        try:
            yield one
        finally:
            one.close()


def apply_changes(batch: pa.RecordBatch, result: Counter[Row]) -> None:
    """Apply the rows of a batch, one after the other."""
    for row in batch.to_pylist():
        kind = ChangeKind(row.pop(CHANGE, 0))
        values = tuple(_hashable(value) for value in row.values())
        if kind in (ChangeKind.UPDATE_BEFORE, ChangeKind.DELETE):
            assert result[values] > 0, f"{values} is taken back, which was never there"
            result[values] -= 1
            if not result[values]:
                del result[values]
        else:
            result[values] += 1


def _hashable(value: Any) -> Any:
    if isinstance(value, float) and isnan(value):
        return nan  # one object, which equals itself in tuples
    if isinstance(value, dict):
        value = list(value.values())
    return tuple(map(_hashable, value)) if isinstance(value, list) else value


def batch_of(schema: pa.Schema, rows: Sequence[Row]) -> pa.RecordBatch:
    """Rows as a batch; those of a changing schema end with their kind."""
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [pa.array(list(column), field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def all_gone(live: LiveRows) -> pa.RecordBatch:
    """A batch that takes out all rows that are there."""
    return live.batch([(3, (), 0)] * len(live.rows))


class LiveRows:
    """The rows of an input, as a test changes them."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.rows: list[Row] = []

    def batch(self, steps: Sequence[tuple[int, Row, int]]) -> pa.RecordBatch:
        """Apply steps and return them as a batch: each inserts a row, or takes out one that is there.

        A step is a kind of change, a row to insert, and which row to take out; inserts only, if the schema says so.
        """
        made: list[Row] = []
        for kind, row, number in steps:
            if not is_changing(self.schema):
                self.rows.append(row)
                made.append(row)
            elif kind % 2 and self.rows:
                made.append((*self.rows.pop(number % len(self.rows)), kind))
            else:
                self.rows.append(row)
                made.append((*row, kind - kind % 2))
        return batch_of(self.schema, made)
