"""A job whose output proves whether every row counted exactly once, in the state and in the output.

The job numbers the rows of each user in the order they arrive, and keeps the numbers in state. The output must contain
every id once, and the numbers 1, 2, 3 and so on for each user: a row that was lost, written twice, or counted twice in
the state shows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from snapline.api.job import Job
from snapline.config import Checkpoints, Execution, RestartStrategy
from snapline.connectors.files.file_sink import Files, read_files
from snapline.connectors.rate import Rate
from snapline.contracts.operator import Operator, OperatorContext

NUMBERED = pa.schema([("id", pa.int64()), ("user", pa.string()), ("number", pa.int64())])


class Numbering(Operator):
    """Numbers the rows of each key in the order they arrive."""

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        keyed = context.states.keyed
        assert keyed is not None
        self._backend = keyed
        self._counts = keyed.reducing_state("numbered", pa.int64(), "sum")

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        del input_index
        users = batch.column("user")
        keys = self._backend.keys([users])
        before = pc.fill_null(self._counts.take(keys), 0).to_numpy(zero_copy_only=False)
        self._counts.add_all(keys, pa.array(np.ones(batch.num_rows, dtype=np.int64)))
        codes = users.dictionary_encode().indices.to_numpy()
        order = np.argsort(codes, kind="stable")
        ordered = codes[order]
        is_first = np.append(True, ordered[1:] != ordered[:-1])
        starts = np.flatnonzero(is_first)
        rank = np.empty(len(codes), dtype=np.int64)
        rank[order] = np.arange(len(codes)) - np.repeat(starts, np.diff(np.append(starts, len(codes)))) + 1
        numbers = before + rank
        columns = [batch.column("id"), users, pa.array(numbers)]
        self.context.emit(pa.RecordBatch.from_arrays(columns, schema=NUMBERED))


class Slow(Operator):
    """Passes batches on, after a pause of `seconds_per_thousand` for every thousand rows."""

    def __init__(self, seconds_per_thousand: float) -> None:
        self._seconds_per_row = seconds_per_thousand / 1000

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        del input_index
        time.sleep(self._seconds_per_row * batch.num_rows)
        self.context.emit(batch)


class FailOnce(Operator):
    """Raises once in the life of the job, after `after_rows` rows. The file `marker` remembers that it has."""

    def __init__(self, after_rows: int, marker: str) -> None:
        self._left = after_rows
        self._marker = Path(marker)

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        del input_index
        self._left -= batch.num_rows
        if self._left <= 0 and not self._marker.exists():
            self._marker.touch()
            raise ValueError("user code fails on purpose")
        self.context.emit(batch)


class FailOnDemand(Operator):
    """Raises once each time the file is created, and removes it."""

    def __init__(self, file: str) -> None:
        self._file = Path(file)

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        del input_index
        if self._file.exists():
            try:
                self._file.unlink()
            except FileNotFoundError:  # another subtask was faster
                pass
            else:
                raise ValueError("user code fails on demand")
        self.context.emit(batch)


@dataclass(frozen=True, slots=True)
class Proof:
    """What the output proves. `problems` is empty if every row counted exactly once."""

    rows: int
    problems: tuple[str, ...]

    @property
    def is_exactly_once(self) -> bool:
        return not self.problems


@dataclass(frozen=True, slots=True)
class NumberingJob:
    """The job, and the proof of its output. `output` is the directory it writes to."""

    job: Job
    source: Rate
    rows: int
    output: str

    def prove(self) -> Proof:
        """Check the output. Call it when the job has ended."""
        return prove(self.output, self.rows)


def numbering_job(
    name: str,
    directory: str | PathLike[str],
    *,
    rows: int,
    rows_per_second: float | None = None,
    users: int = 100,
    parallelism: int = 2,
    checkpoints: Callable[[str], Checkpoints] | None = None,
    execution: Execution | None = None,
    restart: RestartStrategy | None = None,
    slow: float = 0.0,
    fail_after_rows: int | None = None,
    fail_file: str | None = None,
    id: str | None = None,
    splits: int | None = None,
    batch_rows: int = 1000,
    earlier_outputs: Sequence[str] = (),
) -> NumberingJob:
    """A job under `directory`: `chk` for checkpoints, `out` for output; it may be restored from one with another.

    `checkpoints` makes the settings for a storage directory. `slow` is how many seconds a thousand rows take before the
    sink, which puts everything upstream under back-pressure. User code raises once after `fail_after_rows`, and each
    time `fail_file` is created.
    """
    root = Path(directory)
    make = checkpoints or (lambda storage: Checkpoints(interval="200ms", storage=storage))
    job = Job(
        name,
        id=id,
        parallelism=parallelism,
        checkpoints=make(str(root / "chk")),
        execution=execution,
        restart=restart,
    )
    source = Rate(rows_per_second, rows=rows, users=users, splits=splits, batch_rows=batch_rows)
    stream = job.source(source, uid="rows").rebalance()
    if fail_after_rows is not None:
        failing = FailOnce(fail_after_rows, str(root / "has-failed"))
        stream = stream.apply(failing, uid="failing", schema=stream.schema)
    if fail_file is not None:
        stream = stream.apply(FailOnDemand(fail_file), uid="failing-on-demand", schema=stream.schema)
    numbered = stream.key_by("user").apply(Numbering(), uid="numbering", schema=NUMBERED, has_state=True)
    if slow:
        numbered = numbered.rebalance().apply(Slow(slow), uid="slow", schema=NUMBERED)
    numbered.sink(Files(root / "out", earlier_directories=earlier_outputs), uid="out")
    return NumberingJob(job, source, rows, str(root / "out"))


def prove(output: str | PathLike[str], rows: int, *, at_least_once: bool = False) -> Proof:
    """Check that the output has every id below `rows` exactly once, numbered without a gap; or at least once."""
    table = read_files(output)
    ids = table["id"].to_numpy() if table.num_rows else np.array([], dtype=np.int64)
    problems: list[str] = []
    found = np.unique(ids)
    if len(found) != rows or (rows and (found[0] != 0 or found[-1] != rows - 1)):
        problems.append(f"{rows - len(found)} of {rows} rows are missing")
    if at_least_once:
        return Proof(len(ids), tuple(problems))
    if len(found) != len(ids):
        problems.append(f"{len(ids) - len(found)} rows are there more than once")
    if table.num_rows:
        counted = table.group_by("user").aggregate(
            [("number", "count"), ("number", "max"), ("number", "count_distinct")]
        )
        for user, count, highest, distinct in zip(
            *(counted[name].to_pylist() for name in ("user", "number_count", "number_max", "number_count_distinct")),
            strict=True,
        ):
            if not count == highest == distinct:
                problems.append(f"{user}: {count} rows, {distinct} different numbers, the highest {highest}")
    return Proof(len(ids), tuple(problems))
