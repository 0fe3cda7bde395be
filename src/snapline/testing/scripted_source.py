"""A source that plays a script: batches, pauses, and failures at exact places."""

from __future__ import annotations

import atexit
import functools
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, Final, TypeAlias

import pyarrow as pa

from snapline.connectors.iterator import Iterator
from snapline.contracts.schemas import SchemaLike
from snapline.contracts.source import Position, ReaderContext, Source, SourceReader, Split, Wait
from snapline.errors import ConfigurationError, RestoreError, UserCodeError

CHECKPOINT_TIMEOUT_S = 60.0
"""How long `AWAIT_CHECKPOINT` waits before it fails the job."""

_POLL_S = 0.005
_SPLIT = "script"


class Marker(Enum):
    """Steps of a script that are not rows."""

    ABORT = "ABORT"
    AWAIT_CHECKPOINT = "AWAIT_CHECKPOINT"


ABORT: Final = Marker.ABORT
"""Raises once, so that the job restarts from its last checkpoint. When the script comes here again, it reads on."""

AWAIT_CHECKPOINT: Final = Marker.AWAIT_CHECKPOINT
"""Waits until a checkpoint that covers all earlier steps has completed: an `ABORT` behind it cannot undo them."""

Step: TypeAlias = Any
"""A row (dict, or tuple in the order of the schema), a list of rows or Arrow data as one batch, a `Wait`, a marker."""


class ScriptedSource(Source):
    """Reads a script step by step, in one subtask; the others have nothing to read.

    A step is a row (a dict, or a tuple in the order of the schema), a list of rows, a RecordBatch or a Table, each
    emitted as one batch; a `snapline.Wait`; or a marker, `ABORT` or `AWAIT_CHECKPOINT`. Each `ABORT` raises once per
    source object, whatever the job restores from. Rows with a time column work with `Watermarks` as from any source.

    schema: of the rows; without it that of the dicts, or of the Arrow data, in the script.
    ends: False keeps the job running behind the last step, until the test stops or cancels it.

    Raises `ConfigurationError` if a step is none of these, and `UserCodeError` if rows do not fit the schema. The job
    may run in a `ThreadCluster` or a `ProcessCluster`: which aborts are spent is kept in a temporary directory.

        script = [
            [{"user": "ann", "n": 1}, {"user": "bob", "n": 1}],
            AWAIT_CHECKPOINT,
            {"user": "ann", "n": 2},
            ABORT,  # the job restarts; the row before is read again
            {"user": "bob", "n": 2},
        ]
        job = sl.Job("counts", restart=sl.FixedDelay(delay="10ms"), checkpoints=sl.Checkpoints(interval="50ms"))
        rows = job.source(ScriptedSource(script), uid="script").key_by("user").aggregate(n=sl.count(), uid="n")
        assert rows.collect(ThreadCluster()).num_rows == 4
    """

    def __init__(self, script: Sequence[Step], schema: SchemaLike | None = None, *, ends: bool = True) -> None:
        steps = [_plain(step, number) for number, step in enumerate(script)]
        rows = [row for step in steps if isinstance(step, list) for row in step]
        self._schema = Iterator(rows, schema).schema
        self._steps = [
            _batch(step, self._schema, n) if isinstance(step, list) else step for n, step in enumerate(steps)
        ]
        self._ends = ends
        self._spent = str(_directory() / uuid.uuid4().hex)

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    @property
    def is_bounded(self) -> bool:
        return self._ends

    def splits(self, parallelism: int) -> Sequence[Split]:
        del parallelism
        return [_SPLIT]

    def reader(self, context: ReaderContext) -> SourceReader:
        return _ScriptReader(
            self._steps, self._spent, ends=self._ends, what=f"the script of the source {context.uid!r}"
        )


class _ScriptReader(SourceReader):
    """Plays the script. A position is the number of the next step."""

    def __init__(
        self,
        steps: Sequence[pa.RecordBatch | Wait | Marker],
        spent: str,
        *,
        ends: bool,
        what: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._steps = steps
        self._spent = spent
        self._ends = ends
        self._what = what
        self._clock = clock
        self._next: int | None = None
        self._since_s: float | None = None
        """When the step began that now waits; None if none does."""
        self._covered_id: int | None = None
        """The first checkpoint behind the last step."""
        self._is_confirmed = False

    def add_split(self, split: Split, position: Position) -> None:
        if split != _SPLIT or self._next is not None:
            raise RestoreError(f"{split!r} is not the script; was the snapshot taken with another source?")
        self._next = int(position or 0)

    def read(self) -> pa.RecordBatch | Wait | None:
        while self._next is not None:
            if self._next >= len(self._steps):
                if not self._ends:
                    return Wait(_POLL_S)
                self._next = None
                break
            step = self._steps[self._next]
            if isinstance(step, pa.RecordBatch):
                self._go_on()
                return step
            pause_s = self._pause_s(step, self._next)
            if pause_s > 0:
                return Wait(pause_s)
            self._go_on()
        return None

    def positions(self, checkpoint_id: int) -> Sequence[tuple[Split, Position]]:
        if self._covered_id is None:
            self._covered_id = checkpoint_id
        return [] if self._next is None else [(_SPLIT, self._next)]

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        self._is_confirmed = self._covered_id is not None and checkpoint_id >= self._covered_id

    def _go_on(self) -> None:
        assert self._next is not None
        self._next += 1
        self._since_s = None
        self._covered_id, self._is_confirmed = None, False

    def _pause_s(self, step: Wait | Marker, number: int) -> float:
        """How long to wait before the next step; 0 if it is due. Raises for an abort that is not spent."""
        if step is Marker.ABORT:
            if _is_first(f"{self._spent}-{number}"):
                raise UserCodeError(f"{self._what} aborts at step {number}, as it says")
            return 0
        now_s = self._clock()
        if self._since_s is None:
            self._since_s = now_s
        if isinstance(step, Wait):
            return self._since_s + step.seconds - now_s
        if self._is_confirmed:
            return 0
        if now_s - self._since_s > CHECKPOINT_TIMEOUT_S:
            raise UserCodeError(
                f"{self._what}: no checkpoint has completed within {CHECKPOINT_TIMEOUT_S:g} s at step {number}; give "
                "the job checkpoints=Checkpoints(interval='100ms')"
            )
        return _POLL_S


def _plain(step: Step, number: int) -> list[Any] | Wait | Marker:
    """Rows as a list, of rows or of one batch."""
    if isinstance(step, Wait | Marker | list):
        return step
    if isinstance(step, dict | tuple | pa.RecordBatch):
        return [step]
    if isinstance(step, pa.Table):
        return list(step.combine_chunks().to_batches())
    raise ConfigurationError(
        f"step {number} of the script is {step!r}; use a row, a list of rows, a RecordBatch, a Wait, ABORT or "
        "AWAIT_CHECKPOINT"
    )


def _batch(rows: list[Any], schema: pa.Schema, number: int) -> pa.RecordBatch:
    reader = Iterator(rows, schema).reader(ReaderContext("script", f"step {number}", 0, 1))
    reader.add_split([0, len(rows)], None)
    parts: list[pa.RecordBatch] = []
    while (part := reader.read()) is not None:
        if isinstance(part, pa.RecordBatch):
            parts.append(part)
    batches = pa.Table.from_batches(parts, schema).combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema)


@functools.cache
def _directory() -> Path:
    """Where spent aborts are remembered: the process that restarts the job may be another one."""
    directory = Path(tempfile.mkdtemp(prefix="snapline-script-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory


def _is_first(path: str) -> bool:
    try:
        Path(path).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True
