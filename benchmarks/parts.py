"""Shared by the benchmarks of the runtime: Spark, sources at full speed, sinks that measure."""

from __future__ import annotations

import contextlib
import itertools
import os
import platform
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from benchmarks.exchange_ceiling import make_batch

from snapline.api.job_handle import JobHandle
from snapline.contracts.operator import Operator
from snapline.contracts.sink import CommitResult, Committable, Permit, Sink, SinkContext, SinkWriter
from snapline.contracts.source import Position, ReaderContext, Source, SourceReader, Split, Wait
from snapline.devtools.kit.processes import operator_processes


def spark_session(master: str, **settings: str) -> Any:
    """Returns a quiet session whose tasks run this interpreter, with this directory's modules."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    # The processes that run the tasks must find this package too.
    root = str(Path(__file__).resolve().parent.parent)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH", ""))))
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master).appName("snapline-benchmark")
    quiet = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR"}
    for name, value in {**quiet, **settings}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


def conditions() -> dict[str, Any]:
    """Returns where and with which versions a benchmark ran."""
    import pyspark

    return {
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "pyarrow": pa.__version__,
        "pyspark": pyspark.__version__,
    }


class Prebuilt(Source):
    """Repeats a few batches of eight columns for `seconds`, as fast as they are taken, or `rows_per_s` in all."""

    def __init__(self, seconds: float, rows: int = 8192, rows_per_s: int | None = None) -> None:
        self._seconds = seconds
        self._rows = rows
        self._rows_per_s = rows_per_s

    @property
    def schema(self) -> pa.Schema:
        return make_batch(rows=1).schema

    @property
    def is_bounded(self) -> bool:
        return True

    def splits(self, parallelism: int) -> Sequence[Split]:
        return list(range(parallelism))

    def reader(self, context: ReaderContext) -> SourceReader:
        pause_s = 0.0 if self._rows_per_s is None else self._rows * context.parallelism / self._rows_per_s
        return _PrebuiltReader(self._seconds, self._rows, context.subtask, pause_s)


class _PrebuiltReader(SourceReader):
    def __init__(self, seconds: float, rows: int, subtask: int, pause_s: float) -> None:
        self._seconds = seconds
        self._pause_s = pause_s
        self._next_s = 0.0
        self._batches = [make_batch(rows=rows, seed=10 * subtask + number) for number in range(4)]
        self._splits: dict[Any, int] = {}
        self._end_s = 0.0
        self._turn = 0

    def add_split(self, split: Split, position: Position) -> None:
        self._splits[split] = position or 0
        self._end_s = time.monotonic() + self._seconds

    def read(self) -> pa.RecordBatch | Wait | None:
        if not self._splits or time.monotonic() >= self._end_s:
            self._splits.clear()
            return None
        if self._pause_s:
            now_s = time.monotonic()
            self._next_s = self._next_s or now_s
            if now_s < self._next_s:
                return Wait(self._next_s - now_s)
            self._next_s += self._pause_s
        self._turn += 1
        return self._batches[self._turn % len(self._batches)]

    def positions(self, checkpoint_id: int) -> Sequence[tuple[Split, Position]]:
        return list(self._splits.items())


STAMPED = pa.schema([("key", pa.int64()), ("value", pa.int64()), ("made_ns", pa.int64())])


class Stamped(Source):
    """Emits a fixed number of rows per second, each with its creation time, in ticks of a few milliseconds."""

    def __init__(self, rows_per_second: int, seconds: float, keys: int = 10_000, tick_ms: int = 2) -> None:
        self._rows_per_second = rows_per_second
        self._seconds = seconds
        self._keys = keys
        self._tick_ms = tick_ms

    @property
    def schema(self) -> pa.Schema:
        return STAMPED

    @property
    def is_bounded(self) -> bool:
        return True

    def splits(self, parallelism: int) -> Sequence[Split]:
        return [[number, parallelism] for number in range(parallelism)]

    def reader(self, context: ReaderContext) -> SourceReader:
        return _StampedReader(self._rows_per_second, self._seconds, self._keys, self._tick_ms, context.subtask)


class _StampedReader(SourceReader):
    def __init__(self, rows_per_second: int, seconds: float, keys: int, tick_ms: int, subtask: int) -> None:
        self._rows_per_second = rows_per_second
        self._seconds = seconds
        self._tick_s = tick_ms / 1000
        self._keys = np.random.default_rng(subtask).integers(0, keys, 1 << 20)
        self._splits: list[Any] = []
        self._start_s = 0.0
        self._made = 0

    def add_split(self, split: Split, position: Position) -> None:
        del position
        self._splits.append(split)
        self._start_s = time.monotonic()
        self._made = 0

    def read(self) -> pa.RecordBatch | Wait | None:
        now_s = time.monotonic()
        if not self._splits or now_s - self._start_s >= self._seconds:
            self._splits.clear()
            return None
        rate = self._rows_per_second / self._splits[0][1]
        due = int((now_s - self._start_s) * rate) - self._made
        if due < rate * self._tick_s:
            return Wait(self._tick_s)
        positions = np.arange(self._made, self._made + due) % len(self._keys)
        self._made += due
        keys = self._keys[positions]
        made_ns = np.full(due, time.time_ns())
        return pa.record_batch([pa.array(keys), pa.array(keys % 100), pa.array(made_ns)], schema=STAMPED)

    def positions(self, checkpoint_id: int) -> Sequence[tuple[Split, Position]]:
        return [(split, None) for split in self._splits]


class Discard(Sink):
    """Takes rows and drops them; commits nothing.

    If the rows have a column `made_ns`, writes the age of each batch on arrival to a file in `directory`.
    """

    def __init__(self, directory: str | None = None) -> None:
        self._directory = directory

    def writer(self, context: SinkContext) -> SinkWriter:
        return _Discarding(self._directory, context)


class _Discarding(SinkWriter):
    def __init__(self, directory: str | None, context: SinkContext) -> None:
        self._file = None if directory is None else Path(directory) / f"{context.attempt}-{context.subtask}.npy"
        self._latencies_ms: list[Any] = []

    def write(self, batch: pa.RecordBatch) -> None:
        if self._file is not None:
            self._latencies_ms.append((time.time_ns() - batch.column("made_ns").to_numpy()) / 1e6)

    def prepare(self, checkpoint_id: int) -> Sequence[Any]:
        del checkpoint_id
        return ()

    def commit(self, committable: Committable, permit: Permit) -> CommitResult:
        del committable, permit
        return CommitResult.COMMITTED

    def abort_newer(self, checkpoint_id: int) -> None:
        """Does nothing: this sink never prepares anything."""

    def close(self) -> None:
        if self._file is not None and self._latencies_ms:
            np.save(self._file, np.concatenate(self._latencies_ms))


class LastMade(Operator):
    """Keeps a count per key, and passes rows on with their creation time."""

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        del input_index
        backend = self.context.states.keyed
        assert backend is not None
        keys = backend.keys([batch.column("key")])
        backend.reducing_state("count", pa.int64(), "sum").add_all(keys, batch.column("value"))
        self.context.emit(batch)


class Rates(NamedTuple):
    """What goes into a vertex each second, and how many cores its operator processes keep busy meanwhile."""

    rows_per_s: float
    bytes_per_s: float
    cores: float


def rates(handle: JobHandle, vertex: str, subtasks: int) -> Rates:
    """Returns the rates of a vertex, from its first metrics to its last; waits for the job's end."""
    seen: list[tuple[float, int, int, float]] = []
    while not handle.status().is_globally_terminal:
        time.sleep(0.1)
        tasks = [task for name, task in handle.metrics().items() if name.startswith(vertex)]
        if len(tasks) == subtasks:
            rows, size = sum(task.rows_in for task in tasks), sum(task.bytes_in for task in tasks)
            used_s = max(processor_s(), seen[-1][3] if seen else 0.0)  # once processes have ended, what was known
            seen.append((time.monotonic(), rows, size, used_s))
    handle.wait()
    changes = [point for before, point in itertools.pairwise(seen) if point[1] != before[1]]
    elapsed_s, *others = (end - start for start, end in zip(changes[0], changes[-1], strict=True))
    return Rates(*(other / elapsed_s for other in others))


def processor_s() -> float:
    """The processor time that the operator processes of this program have used."""
    total = 0
    for process in operator_processes(os.getpid()):
        with contextlib.suppress(OSError):  # it has just ended
            fields = Path(f"/proc/{process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
            total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


def latencies_ms(directory: str) -> Any:
    """Returns all ages that sinks have written, without the first second."""
    parts = [np.load(path) for path in sorted(Path(directory).glob("*.npy"))]
    return np.concatenate([part[len(part) // 10 :] for part in parts])


def temporary() -> str:
    return tempfile.mkdtemp(prefix="snapline-benchmark-")
