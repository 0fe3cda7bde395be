"""The workloads in Snapline, on Spark `local[2]`: `python -m benchmarks.peers.snapline_jobs WORKLOAD --events N`.

Prints one JSON object of the form {workload: figures}. Workloads: `totals`, running aggregates; `function`, a Python
function of each row; `vectorised`, a function of whole batches; and `nexmark`, with `--sql` from its SQL texts.
"""

from __future__ import annotations

import argparse
import datetime
import json
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from benchmarks.nexmark.comparing import reduced
from benchmarks.nexmark.generator import SCHEMAS
from benchmarks.nexmark.queries import QUERIES as NEXMARK
from benchmarks.nexmark.sql_queries import SqlQueries, folded
from benchmarks.parts import Discard, processor_s, spark_session, temporary
from benchmarks.peers.checking import Row, answer, checksum, last_rows
from benchmarks.peers.nexmark_events import LONGEST_AUCTION_MS, QUERIES, columns, row_count
from benchmarks.peers.nexmark_sql import ANSWER
from benchmarks.peers.workload import KEYS, PARALLELISM, key, value

import snapline as sl
from snapline.connectors.files.file_sink import read_files
from snapline.types import JobStatus

ROWS = pa.schema([("k", pa.int64()), ("v", pa.int64())])
TOTALS = pa.schema([("k", pa.int64()), ("n", pa.int64()), ("s", pa.int64())])
WORKLOADS = ("totals", "totals by batch", "function", "vectorised")
_TEXT = frozenset({"name", "city", "state", "channel", "url", "extra", "itemName", "description"})
_TIMES = {"dateTime": "time_ms", "expires": "expires_ms"}
_POLL_S = 0.01


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("workload", choices=(*WORKLOADS, "nexmark"))
    parser.add_argument("--events", type=int, required=True)
    parser.add_argument("--keys", type=int, default=KEYS)
    parser.add_argument("--parallelism", type=int, default=PARALLELISM)
    parser.add_argument("--backend", choices=("memory", "rocksdb"), default="memory")
    parser.add_argument("--queries", default=",".join(QUERIES))
    parser.add_argument("--sql", action="store_true", help="run queries of Nexmark from their SQL texts")
    parser.add_argument("--check", action="store_true", help="read the results instead of measuring")
    options = parser.parse_args()
    names = options.queries.split(",") if options.workload == "nexmark" else [options.workload]
    spark = spark_session(f"local[{PARALLELISM}]")
    sql = SqlQueries(spark) if options.sql else None
    try:
        if options.check:
            made = {name: check(name, options.events, options.keys, spark, sql=sql) for name in names}
        else:
            made = {
                name: measure(name, options.events, options.keys, spark, options.parallelism, options.backend, sql=sql)
                for name in names
            }
    finally:
        spark.stop()
    print(json.dumps(made))


def measure(
    workload: str,
    events: int,
    keys: int,
    where: Any,
    parallelism: int = PARALLELISM,
    backend: str = "memory",
    interval: str = "1s",
    cache_entries: int = 2_000_000,
    sql: SqlQueries | None = None,
) -> dict[str, Any]:
    """Runs a job at full speed and discards its results; with `sql` a query of Nexmark from its SQL text.

    The seconds count from the first generated rows to its end; the driver learns only later that all tasks run.
    """
    with _job(workload, events, keys, Discard(), parallelism, backend, interval, cache_entries, sql) as (job, first):
        handle = job.start(where)
        while handle.status() is JobStatus.INITIALIZING:
            time.sleep(_POLL_S)
        running_s, started_cpu_s = time.time(), processor_s()
        cpu_s = started_cpu_s
        while not handle.status().is_globally_terminal:
            time.sleep(_POLL_S * 10)
            cpu_s = max(cpu_s, processor_s())  # once processes have ended, what was known
        handle.wait()
        ended_s = time.time()
        if handle.attempt != 1:
            raise RuntimeError(f"the job was restarted, and cannot be timed: {handle.cause}")
        seconds = ended_s - float(first.read_text())
    return {
        "events": events,
        "seconds": seconds,
        "events_per_second": events / seconds,
        "cpu_ns_per_event": (cpu_s - started_cpu_s) / events * 1e9,
        "version": _version(),
        "timed": "from when the first rows are made to the end of the job",
        "conditions": {
            "parallelism": parallelism,
            "backend": backend,
            "checkpoint interval": interval,
            "seconds since all tasks ran": ended_s - running_s,
            "checkpoints": handle.checkpoints().counts.completed,
            **({"emit_every": "1 s"} if workload == "totals" else {}),
        },
    }


def check(
    workload: str,
    events: int,
    keys: int,
    where: Any,
    parallelism: int = PARALLELISM,
    sql: SqlQueries | None = None,
) -> dict[str, Any]:
    """Runs a job with a readable sink and returns the checksum of its results."""
    directory = temporary()
    try:
        with _job(workload, events, keys, sl.sinks.Files(directory), parallelism, "memory", sql=sql) as (job, _):
            job.run(where)
        rows = read_files(directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    made = {"events": events, "version": _version()}
    if workload in NEXMARK:
        query = NEXMARK[workload]
        left = folded(rows) if sql else reduced(rows, query.reduction, query.key)
        return {**made, "result": answer(workload, _tuples(left, ANSWER[workload]))}
    return {**made, "result": checksum(last_rows(_tuples(rows, TOTALS.names)))}


@contextmanager
def _job(
    workload: str,
    events: int,
    keys: int,
    sink: sl.Sink,
    parallelism: int,
    backend: str,
    interval: str = "1s",
    cache_entries: int = 2_000_000,
    sql: SqlQueries | None = None,
) -> Iterator[tuple[sl.Job, Path]]:
    """Returns the job of a workload, and a file that records when its first rows were generated."""
    directory = temporary()
    first = Path(directory) / "first"
    job = sl.Job(
        f"peers {workload}",
        parallelism=parallelism,
        checkpoints=sl.Checkpoints(interval=interval, storage=str(Path(directory) / "checkpoints")),
        execution=sl.Execution(state_backend=backend, state_cache_entries=cache_entries),
    )
    try:
        _results(job, workload, events, keys, first, sql).sink(sink, uid="results")
        yield job, first
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _results(
    job: sl.Job, workload: str, events: int, keys: int, first: Path, sql: SqlQueries | None = None
) -> sl.Stream:
    if workload in NEXMARK and sql is not None:
        return sql.stream(workload, job, Events(job, events, first))
    if workload in NEXMARK:
        return NEXMARK[workload].build(Events(job, events, first))  # type: ignore[arg-type]
    source = sl.sources.Generate(partial(_keyed_rows, keys=keys, first=first), events, schema=ROWS)
    keyed = job.source(source, uid="rows").key_by("k")
    if workload == "function":
        return keyed.map_with_state(running, state=STATE, schema=TOTALS, columns=("v",), uid="function")
    if workload == "vectorised":
        return keyed.update_state(running_batch, state=STATE, schema=TOTALS, uid="function")
    every = "1s" if workload == "totals" else None
    return keyed.aggregate(n=sl.count(), s=sl.sum("v"), emit_every=every, uid="totals")


def _mark(first: Path, start: int) -> None:
    """Called before rows are generated; of several sources the first to start counts."""
    if start == 0 and not first.exists():
        first.write_text(str(time.time()))


def _keyed_rows(start: int, count: int, keys: int, first: Path) -> pa.RecordBatch:
    _mark(first, start)
    numbers = np.arange(start, start + count, dtype=np.int64)
    return pa.RecordBatch.from_arrays([pa.array(key(numbers, keys)), pa.array(value(numbers))], schema=ROWS)


STATE = pa.struct([pa.field("n", pa.int64()), pa.field("s", pa.int64())])


def running(state: Any, v: int) -> tuple[Any, tuple[int, int]]:
    """The measured function: the running count and sum of a key, one row out for each row in."""
    totals = (1, v) if state is None else (state[0] + 1, state[1] + v)
    return totals, totals


def running_batch(old: Any, groups: Any, batch: pa.RecordBatch) -> tuple[Any, pa.RecordBatch]:
    """The same for a whole batch at once: sorts rows by key and adds them up per key."""
    added = batch.column("v").to_numpy()
    group = np.arange(groups.count) if groups.indices is None else groups.indices
    order = np.argsort(group, kind="stable")
    counts = np.bincount(group, minlength=groups.count)
    ends = np.cumsum(counts)
    starts = ends - counts
    sums = np.cumsum(added[order])
    before = np.append(0, sums)[starts]
    old_n, old_s = (old.field(name).fill_null(0).to_numpy() for name in ("n", "s"))
    n, s = np.empty(len(added), dtype=np.int64), np.empty(len(added), dtype=np.int64)
    n[order] = np.arange(1, len(added) + 1) - np.repeat(starts - old_n, counts)
    s[order] = sums - np.repeat(before - old_s, counts)
    new = [pa.array(old_n + counts), pa.array(old_s + sums[ends - 1] - before)]
    made = pa.RecordBatch.from_arrays([batch.column("k"), pa.array(n), pa.array(s)], schema=TOTALS)
    return pa.StructArray.from_arrays(new, fields=list(STATE)), made


class Events:
    """Nexmark sources for `benchmarks.nexmark.queries`, with the events that Flink SQL can also generate."""

    def __init__(self, job: sl.Job, events: int, first: Path) -> None:
        self._job = job
        self._events = events
        self._first = first

    def persons(self, *names: str) -> sl.Stream:
        return self._stream("person", names or ("id", "name", "city", "state", "dateTime"))

    def auctions(self, *names: str) -> sl.Stream:
        return self._stream("auction", names or SCHEMAS["auction"].names)

    def bids(self, *names: str) -> sl.Stream:
        return self._stream("bid", names or ("auction", "bidder", "price", "channel", "url", "dateTime", "extra"))

    @property
    def longest_auction(self) -> datetime.timedelta:
        """No auction is open for longer."""
        return datetime.timedelta(milliseconds=LONGEST_AUCTION_MS)

    def _stream(self, kind: str, names: Sequence[str]) -> sl.Stream:
        schema = pa.schema([(name, _type(name)) for name in names])
        function = partial(event_rows, kind, schema, self._first)
        source = sl.sources.Generate(function, row_count(kind, self._events), schema=schema)
        watermarks = sl.Watermarks("dateTime") if "dateTime" in names else None
        return self._job.source(source, uid=f"{kind}s", watermarks=watermarks)


def event_rows(kind: str, schema: pa.Schema, first: Path, start: int, count: int) -> pa.RecordBatch:
    """Returns some columns of a range of events of a kind."""
    _mark(first, start)
    makers = columns(kind, np.arange(start, start + count, dtype=np.int64))
    arrays = []
    for name in schema.names:
        if name in _TIMES:
            arrays.append(pa.array(makers[_TIMES[name]]().view("datetime64[ms]")))
        else:
            made = makers[name]()
            arrays.append(made if isinstance(made, pa.Array) else pa.array(made))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _type(name: str) -> pa.DataType:
    if name in _TIMES:
        return pa.timestamp("ms")
    return pa.string() if name in _TEXT else pa.int64()


def _tuples(rows: pa.Table, names: Sequence[str]) -> list[Row]:
    if not rows.num_rows:
        return []
    return list(zip(*(map(_plain, rows.column(name).to_pylist()) for name in names), strict=True))


def _plain(item: Any) -> Any:
    """Formats times as SQL does."""
    return item.isoformat(" ", "milliseconds") if isinstance(item, datetime.datetime) else item


def _version() -> str:
    from importlib.metadata import version

    return f"snapline {version('snapline')} on pyspark {version('pyspark')}"


if __name__ == "__main__":
    main()
