"""Ways to hold up the golden job before its end: readers wait, operators are full, commits are postponed.

None of them leaves a trace in the state: the job without holds restores snapshots of the job with them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

import snapline as sl

HERE = Path("/proc/self/cwd")
"""The working directory under a name that is the same on every machine, since committables contain absolute paths."""

WAITING = HERE / "waiting"
TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Holds:
    """Where a run is held up, so that snapshots can be taken of it.

    rows: by source and subtask, the row counts at which a reader waits; `pass_hold(0)` lets it pass the first.
    full: by operator, the row count after which a subtask accepts no more, so that its channels fill up.
    questions: asynchronous calls for ids from this one on are never answered.
    commits: whether commits are postponed for ever, so that snapshots contain what the sinks have prepared.
    """

    rows: Mapping[str, Sequence[Sequence[int]]] = field(default_factory=dict)
    full: Mapping[str, int] = field(default_factory=dict)
    questions: int | None = None
    commits: bool = False

    def marks(self, number: int) -> set[str]:
        """Names of the files that exist once all readers wait at their hold of this number and operators are full."""
        readers = {
            f"{uid}-{subtask}-{number}"
            for uid, subtasks in self.rows.items()
            for subtask, holds in enumerate(subtasks)
            if number < len(holds)
        }
        return readers | {f"{uid}-{subtask}-full" for uid in self.full for subtask in range(2)}


def pass_hold(number: int) -> None:
    """Let all readers pass their hold of this number."""
    _mark(f"passed-{number}")


def reached(holds: Holds, number: int) -> None:
    """Wait until the job is held up by its holds of this number."""
    marks = holds.marks(number)
    wait_until(lambda: all((WAITING / mark).exists() for mark in marks), f"all of {sorted(marks)}")


def wait_until(condition: Callable[[], object], what: str) -> None:
    deadline_s = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline_s, f"not within {TIMEOUT_S:g} s: {what}"
        time.sleep(0.01)


def _mark(name: str) -> None:
    WAITING.mkdir(exist_ok=True)
    (WAITING / name).touch()


class Held(sl.Source):
    """Wraps a source so that its readers wait after some rows; the state is that of the wrapped source."""

    def __init__(self, source: sl.Source, holds: Sequence[Sequence[int]]) -> None:
        self._source = source
        self._holds = holds

    @property
    def schema(self) -> pa.Schema:
        return self._source.schema

    @property
    def is_bounded(self) -> bool:
        return self._source.is_bounded

    @property
    def in_step(self) -> bool:
        return self._source.in_step

    def splits(self, parallelism: int) -> Sequence[Any]:
        return self._source.splits(parallelism)

    def reader(self, context: sl.ReaderContext) -> sl.SourceReader:
        reader = self._source.reader(context)
        return _HeldReader(reader, self._holds[context.subtask], f"{context.uid}-{context.subtask}")


class _HeldReader(sl.SourceReader):
    def __init__(self, reader: sl.SourceReader, holds: Sequence[int], name: str) -> None:
        self._reader = reader
        self._holds = holds
        self._name = name
        self._rows = 0
        self._passed = 0

    def add_split(self, split: Any, position: Any) -> None:
        self._reader.add_split(split, position)

    def read(self) -> pa.RecordBatch | sl.Wait | None:
        if self._passed < len(self._holds) and self._rows >= self._holds[self._passed]:
            if not (WAITING / f"passed-{self._passed}").exists():
                _mark(f"{self._name}-{self._passed}")
                return sl.Wait(0.01)
            self._passed += 1
        given = self._reader.read()
        if isinstance(given, pa.RecordBatch):
            self._rows += given.num_rows
        return given

    def positions(self, checkpoint_id: int) -> Sequence[tuple[Any, Any]]:
        return self._reader.positions(checkpoint_id)


class Fillable(sl.Operator):
    """Base of operators that accept no more rows after `full_after`; None is no limit."""

    def __init__(self, full_after: int | None) -> None:
        self._full_after = full_after
        self._rows = 0

    @property
    def is_full(self) -> bool:
        return self._full_after is not None and self._rows >= self._full_after

    def count(self, batch: pa.RecordBatch) -> None:
        self._rows += batch.num_rows
        if self.is_full:
            _mark(f"{self.context.uid}-{self.context.subtask}-full")


class Uncommitted(sl.Sink):
    """Wraps a sink so that its commits are postponed; the state is that of the wrapped sink."""

    def __init__(self, sink: sl.Sink) -> None:
        self._sink = sink

    def check(self, schema: pa.Schema) -> None:
        self._sink.check(schema)

    def writer(self, context: sl.SinkContext) -> sl.SinkWriter:
        return _UncommittedWriter(self._sink.writer(context))


class _UncommittedWriter(sl.SinkWriter):
    def __init__(self, writer: sl.SinkWriter) -> None:
        self._writer = writer

    def write(self, batch: pa.RecordBatch) -> None:
        self._writer.write(batch)

    def prepare(self, checkpoint_id: int) -> Sequence[Any]:
        return self._writer.prepare(checkpoint_id)

    def commit(self, committable: sl.Committable, permit: sl.Permit) -> sl.CommitResult:
        del committable, permit
        return sl.CommitResult.RETRY_LATER

    def abort_newer(self, checkpoint_id: int) -> None:
        self._writer.abort_newer(checkpoint_id)

    def close(self) -> None:
        self._writer.close()
