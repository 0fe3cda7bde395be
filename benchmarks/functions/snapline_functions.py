"""The functions in Snapline, on Spark `local[2]`: `python -m benchmarks.functions.snapline_functions --function NAME`.

Prints one JSON object. With `--one-core` there is no Spark: the operator alone processes batches in this process, and
what counts is rows per second of CPU time, the firing of timers included.
"""

from __future__ import annotations

import argparse
import gc
import json
import shutil
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from benchmarks.functions.payments import (
    CARDS,
    COLUMNS,
    FUNCTIONS,
    GAP_MS,
    KEEP_MS,
    LARGE,
    MUCH,
    RESULT,
    TOP,
    check,
    columns,
)
from benchmarks.parts import Discard, spark_session, temporary
from benchmarks.peers.workload import PARALLELISM

import snapline as sl
from snapline.connectors.files.file_sink import read_files
from snapline.protocol.keygroups import KeyGroupRange
from snapline.state.operator_state import OperatorStates
from snapline.state.rocksdb.rocksdb_backend import RocksDbBackend
from snapline.state.subtask_states import SubtaskStates
from snapline.testing import OperatorHarness
from snapline.types import MAX_WATERMARK

PAYMENTS = pa.schema([(name, pa.int64()) for name in COLUMNS])
RESULTS = pa.schema([(name, pa.int64()) for name in RESULT])
BATCH = 8192
_GARBAGE_THRESHOLD = 100_000
"""As in the processes of a job."""

Row = dict[str, Any]


class Count(sl.ProcessFunction):
    """Number and sum of the payments of each card."""

    def open(self, context: sl.ProcessContext) -> None:
        self.totals = context.value_state("totals", "n BIGINT, s BIGINT")

    def process(self, row: Row, context: sl.ProcessContext) -> None:
        totals = self.totals.get() or {"n": 0, "s": 0}
        totals["n"] += 1
        totals["s"] += row["amount"]
        self.totals.set(totals)
        context.emit({"card": row["card"], "a": totals["n"], "b": totals["s"]})


class Sessions(sl.ProcessFunction):
    """Emits a session when a minute has passed without a payment."""

    def open(self, context: sl.ProcessContext) -> None:
        self.session = context.value_state("session", "start BIGINT, last BIGINT, n BIGINT")

    def process(self, row: Row, context: sl.ProcessContext) -> None:
        now_ms, session = row["time"], self.session.get()
        if session is not None and now_ms - session["last"] > GAP_MS:
            context.emit({"card": row["card"], "a": session["start"], "b": session["n"]})
            session = None
        if session is None:
            session = {"start": now_ms, "last": now_ms, "n": 0}
        else:
            context.delete_event_timer(session["last"] + GAP_MS + 1)
        session["last"] = now_ms
        session["n"] += 1
        self.session.set(session)
        context.set_event_timer(now_ms + GAP_MS + 1)

    def on_timer(self, time_ms: int, context: sl.ProcessContext) -> None:
        session = self.session.get()
        if session is not None and time_ms > session["last"] + GAP_MS:
            context.emit({"card": context.key, "a": session["start"], "b": session["n"]})
            self.session.clear()


class Fraud(sl.ProcessFunction):
    """Emits payments that look wrong, by those of the last ten minutes, the shops of the card and its home country."""

    def open(self, context: sl.ProcessContext) -> None:
        self.recent = context.map_state("recent", int, "amount BIGINT, country BIGINT")
        self.shops = context.map_state("shops", int, int)
        self.home = context.value_state("home", int)

    def process(self, row: Row, context: sl.ProcessContext) -> None:
        now_ms, amount, country = row["time"], row["amount"], row["country"]
        spent, countries = amount, {country}
        for at_ms, other in self.recent.items():
            if at_ms > now_ms - KEEP_MS:
                spent += other["amount"]
                countries.add(other["country"])
        self.recent.put(now_ms, {"amount": amount, "country": country})
        context.set_event_timer(now_ms + KEEP_MS)
        seen = self.shops.get(row["shop"], 0)
        self.shops.put(row["shop"], seen + 1)
        home = self.home.get()
        if home is None:
            home = country
            self.home.set(country)
        if (spent > MUCH and seen == 0) or (amount > LARGE and country != home and len(countries) > 1):
            context.emit({"card": row["card"], "a": row["n"], "b": spent})

    def on_timer(self, time_ms: int, context: sl.ProcessContext) -> None:
        self.recent.remove(time_ms - KEEP_MS)


class TopK(sl.ProcessFunction):
    """Emits a payment that is one of the ten largest of its card, with their sum."""

    def open(self, context: sl.ProcessContext) -> None:
        self.best = context.list_state("best", int)

    def process(self, row: Row, context: sl.ProcessContext) -> None:
        best, amount = self.best.get(), row["amount"]
        if len(best) < TOP or amount > best[-1]:
            best.append(amount)
            best.sort(reverse=True)
            self.best.set(best[:TOP])
            context.emit({"card": row["card"], "a": row["n"], "b": sum(best[:TOP])})


CLASSES: dict[str, Callable[[], sl.ProcessFunction]] = {
    "count": Count,
    "sessions": Sessions,
    "fraud": Fraud,
    "topk": TopK,
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--function", choices=FUNCTIONS, required=True)
    parser.add_argument("--events", type=int, required=True)
    parser.add_argument("--cards", type=int, default=CARDS)
    parser.add_argument("--backend", choices=("memory", "rocksdb"), default="memory")
    parser.add_argument("--one-core", action="store_true", help="the operator alone, by CPU time")
    parser.add_argument("--check", action="store_true", help="read the results instead of measuring")
    options = parser.parse_args()
    if options.one_core:
        print(json.dumps(one_core(options.function, options.events, options.cards, options.backend)))
        return
    spark = spark_session(f"local[{PARALLELISM}]")
    directory = temporary()
    try:
        run = checked if options.check else measured
        print(json.dumps(run(options.function, options.events, options.cards, options.backend, spark, Path(directory))))
    finally:
        spark.stop()
        shutil.rmtree(directory, ignore_errors=True)


def payments(start: int, count: int, cards: int, first: Path | None = None) -> pa.RecordBatch:
    """Rows from `start` on; writes to `first` when the first ones are made."""
    if start == 0 and first is not None and not first.exists():
        first.write_text(str(time.time()))
    numbers = np.arange(start, start + count, dtype=np.int64)
    return pa.RecordBatch.from_arrays([pa.array(column) for column in columns(numbers, cards)], schema=PAYMENTS)


def results(job: sl.Job, function: str, events: int, cards: int, first: Path) -> sl.Stream:
    # One source, so that the payments of a card keep their order.
    source = sl.sources.Generate(partial(payments, cards=cards, first=first), events, schema=PAYMENTS)
    rows = job.source(source, uid="payments", watermarks=sl.Watermarks("time"), parallelism=1)
    return rows.key_by("card").process(CLASSES[function](), schema=RESULTS, uid=function)


def _job(function: str, backend: str, directory: Path) -> sl.Job:
    return sl.Job(
        f"functions {function}",
        parallelism=PARALLELISM,
        checkpoints=sl.Checkpoints(interval="1s", storage=str(directory / "checkpoints")),
        execution=sl.Execution(state_backend=backend),
    )


def measured(function: str, events: int, cards: int, backend: str, spark: Any, directory: Path) -> dict[str, Any]:
    job, first = _job(function, backend, directory), directory / "first"
    results(job, function, events, cards, first).sink(Discard(), uid="results")
    handle = job.start(spark)
    handle.wait()
    seconds = time.time() - float(first.read_text())
    if handle.attempt != 1:
        raise RuntimeError(f"the job was restarted, and cannot be timed: {handle.cause}")
    completed = handle.checkpoints().counts.completed
    return {
        "events": events,
        "seconds": seconds,
        "events_per_second": events / seconds,
        "version": _version(),
        "timed": "from when the first rows are made to the end of the job",
        "conditions": {"backend": backend, "checkpoint interval": "1 s", "checkpoints": completed},
    }


def checked(function: str, events: int, cards: int, backend: str, spark: Any, directory: Path) -> dict[str, Any]:
    job, written = _job(function, backend, directory), str(directory / "rows")
    results(job, function, events, cards, directory / "first").sink(sl.sinks.Files(written), uid="results")
    job.run(spark)
    rows = read_files(written)
    found = list(zip(*(rows.column(name).to_pylist() for name in RESULT), strict=True)) if rows.num_rows else []
    return {"events": events, "version": _version(), "result": check(found)}


def one_core(function: str, events: int, cards: int, backend: str) -> dict[str, Any]:
    """Runs the operator alone on batches, with a watermark after each; counts CPU time and checks the results."""
    gc.set_threshold(_GARBAGE_THRESHOLD, *gc.get_threshold()[1:])
    job = sl.Job("one core")
    stream = results(job, function, events, cards, Path("unused"))
    operator: Any = stream._inputs[0].node.operator
    with tempfile.TemporaryDirectory() as directory:
        states = None
        if backend == "rocksdb":
            keyed = RocksDbBackend(
                "bigint",
                max_parallelism=128,
                key_groups=KeyGroupRange(0, 127),
                clock=int,
                directory=Path(directory) / "db",
                uid=function,
            )
            states = SubtaskStates(OperatorStates(function, 0), keyed)
        harness = OperatorHarness(operator, key="bigint", key_columns=("card",), uid=function, states=states)
        harness.open()
        rows_s, timers_s = 0.0, 0.0
        for start in range(0, events, BATCH):
            batch = payments(start, min(BATCH, events - start), cards)
            before_s = time.process_time()
            operator.process(batch, 0)
            between_s = time.process_time()
            operator.watermark(int(batch.column("time")[-1].as_py()))
            rows_s, timers_s = rows_s + between_s - before_s, timers_s + time.process_time() - between_s
        before_s = time.process_time()
        operator.watermark(MAX_WATERMARK)
        timers_s += time.process_time() - before_s
        found = [tuple(row.values()) for row in harness.rows()]
        harness.close()
    return {
        "events": events,
        "backend": backend,
        "rows_per_cpu_second": events / (rows_s + timers_s),
        "microseconds_per_row": rows_s / events * 1e6,
        "microseconds_of_timers_per_row": timers_s / events * 1e6,
        "result": check(found),
    }


def _version() -> str:
    from importlib.metadata import version

    return f"snapline {version('snapline')} on pyspark {version('pyspark')}"


if __name__ == "__main__":
    main()
