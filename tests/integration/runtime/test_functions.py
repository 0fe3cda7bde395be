"""Functions with state, timers, broadcast state and answers from elsewhere, each with a failure on the way."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.integration.runtime.runtime_kit import (
    RESTART,
    Start,
    Tagged,
    Uneven,
    completed,
    settings,
    small,
    wait_for_checkpoints,
    wait_for_restart,
    wait_until,
)

import snapline as sl
from snapline.connectors.files.file_sink import Files, read_files
from snapline.devtools.kit.exactly_once import NUMBERED, prove
from snapline.runtime.master.master_handle import MasterHandle
from snapline.testing.clusters import ThreadCluster
from snapline.types import JobStatus

pytestmark = pytest.mark.slow

Row = dict[str, Any]


def new_job(directory: Path, mode: str = "aligned", parallelism: int = 2) -> sl.Job:
    checkpoints = settings(mode, "50ms")(str(directory / "chk"))
    return sl.Job("functions", parallelism=parallelism, checkpoints=checkpoints, restart=RESTART, execution=small())


def run_with_failure(start: Start, job: sl.Job) -> MasterHandle:
    """Lose a slot after the first checkpoints, and let the job go on to its end."""
    cluster = ThreadCluster()
    handle = start(job, cluster)
    wait_for_checkpoints(handle, 2)
    cluster.lose_slot(0)
    wait_for_restart(handle, 1)
    assert handle.wait("120s") is JobStatus.FINISHED
    assert handle.attempt > 1
    return handle


class NumberedLater(sl.ProcessFunction):
    """Numbers the rows of each key, each when event time has come 100 ms further than the row."""

    def open(self, context: sl.ProcessContext) -> None:
        self.number = context.value_state("number", int, default=0)

    def process(self, row: Row, context: sl.ProcessContext) -> None:
        assert context.timestamp_ms == row["id"]
        context.set_event_timer(row["id"] + 100)

    def on_timer(self, time_ms: int, context: sl.ProcessContext) -> None:
        self.number.set(self.number.get() + 1)
        context.emit({"id": time_ms - 100, "user": context.key, "number": self.number.get()})


def test_every_timer_fires_once(tmp_path: Path, start: Start) -> None:
    job = new_job(tmp_path)
    stream = job.source(Uneven([1500, 1000], batch_rows=20), "rows", watermarks=sl.Watermarks("id"))
    numbered = stream.key_by("user").process(NumberedLater(), schema=NUMBERED, uid="later")
    numbered.sink(Files(tmp_path / "out"), uid="out")
    run_with_failure(start, job)
    assert prove(tmp_path / "out", 2500).problems == ()


def numbered(state: int | None, id: int) -> tuple[int, tuple[int, int]]:
    number = (state or 0) + 1
    return number, (id, number)


def test_map_with_state_counts_every_row_once(tmp_path: Path, start: Start) -> None:
    job = new_job(tmp_path, "unaligned")
    stream = job.source(Uneven([1500, 1000], batch_rows=20), "rows").rebalance().key_by("user")
    counted = stream.map_with_state(numbered, state=int, schema=NUMBERED, columns=("id",), uid="numbers")
    counted.sink(Files(tmp_path / "out"), uid="out")
    run_with_failure(start, job)
    assert prove(tmp_path / "out", 2500).problems == ()


class Ruled(sl.CoProcessFunction):
    """Numbers the rows of each key; at the end it tells for each key how many rules there are."""

    def open(self, context: sl.ProcessContext) -> None:
        self.rules = context.broadcast_state("rules", int, str)
        self.number = context.value_state("number", int, default=0)

    def process_first(self, row: Row, context: sl.ProcessContext) -> None:
        self.number.set(self.number.get() + 1)
        context.emit({"id": row["id"], "user": context.key, "number": self.number.get()})
        context.set_event_timer(10**12)

    def process_second(self, row: Row, context: sl.ProcessContext) -> None:
        self.rules.put(row["id"], row["user"])

    def on_timer(self, time_ms: int, context: sl.ProcessContext) -> None:
        assert context.has_ended
        context.emit_to("rules", {"user": context.key, "rules": len(self.rules)})


def test_broadcast_state_is_the_same_everywhere_after_a_failure(tmp_path: Path, start: Start) -> None:
    job = new_job(tmp_path)
    rows = job.source(Uneven([1500, 1000], batch_rows=20), "rows", watermarks=sl.Watermarks("id"))
    rules = job.source(Uneven([7], batch_rows=1), "rules", watermarks=sl.Watermarks("id"), parallelism=1)
    ruled = (
        rows.key_by("user")
        .connect(rules.broadcast())
        .process(Ruled(), schema=NUMBERED, side_outputs={"rules": "user STRING, rules BIGINT"}, uid="ruled")
    )
    ruled.sink(Files(tmp_path / "out"), uid="out")
    ruled.side_output("rules").sink(Files(tmp_path / "told"), uid="told")
    run_with_failure(start, job)
    assert prove(tmp_path / "out", 2500).problems == ()
    told = read_files(tmp_path / "told").to_pylist()
    assert sorted(row["user"] for row in told) == [f"user-{number}" for number in range(10)]
    assert {row["rules"] for row in told} == {7}


asked: Counter[int] = Counter()
may_answer = threading.Event()


async def answered(row: Row) -> Row:
    asked[row["id"]] += 1
    await asyncio.sleep(0.002 + row["id"] % 7 / 1000)
    return row


class NotLate(sl.Operator):
    """Fails if a row comes behind a watermark that says it cannot, or behind one with a greater id if it is ordered."""

    def __init__(self, *, ordered: bool) -> None:
        self._ordered = ordered
        self._watermark_ms = self._last = -1

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        del input_index
        for id in batch.column("id").to_pylist():
            assert id > self._watermark_ms, f"{id} comes behind the watermark {self._watermark_ms}"
            assert not self._ordered or id > self._last, f"{id} comes behind {self._last}"
            self._last = id
        self.context.emit(batch)

    def watermark(self, timestamp_ms: int) -> None:
        self._watermark_ms = timestamp_ms

    def finish(self) -> None:
        assert self._watermark_ms > 0


@pytest.mark.parametrize(("mode", "ordered"), [("aligned", True), ("unaligned", False)])
def test_answers_come_out_once_although_some_rows_are_asked_for_again(
    tmp_path: Path, start: Start, mode: str, ordered: bool
) -> None:
    asked.clear()
    job = new_job(tmp_path, mode, parallelism=1)
    rows = job.source(Uneven([1500], batch_rows=20), "rows", watermarks=sl.Watermarks("id"))
    (
        rows.async_map(answered, schema=rows.schema, ordered=ordered, capacity=15, uid="answers")
        .apply(NotLate(ordered=ordered), uid="not-late", schema=rows.schema)
        .key_by("user")
        .map_with_state(numbered, state=int, schema=NUMBERED, columns=("id",), uid="numbers")
        .sink(Files(tmp_path / "out"), uid="out")
    )
    run_with_failure(start, job)
    assert prove(tmp_path / "out", 1500).problems == ()
    assert max(asked.values()) > 1


def blocking(row: Row) -> Row:
    asked[row["id"]] += 1
    assert may_answer.wait(30)
    return row


@pytest.mark.parametrize(("mode", "is_chained"), [("aligned", True), ("unaligned", False)])
def test_checkpoints_complete_while_nothing_is_answered(
    tmp_path: Path, start: Start, mode: str, is_chained: bool
) -> None:
    asked.clear()
    may_answer.clear()
    job = new_job(tmp_path, mode, parallelism=1)
    rows = job.source(Uneven([60], batch_rows=20, gap=0.001), "rows")
    rows = rows if is_chained else rows.rebalance()
    rows.async_map(blocking, schema=rows.schema, capacity=8, uid="answers").sink(Files(tmp_path / "out"), uid="out")
    handle = start(job, ThreadCluster())
    wait_until(lambda: len(asked) >= 8, "as many rows are asked for as may be")
    before = completed(handle)
    wait_until(lambda: completed(handle) >= before + 3, "checkpoints complete")
    assert len(asked) == 8
    may_answer.set()
    assert handle.wait("120s") is JobStatus.FINISHED
    assert read_files(tmp_path / "out")["id"].to_pylist() == list(range(60))
    assert handle.attempt == 1


def test_rows_that_wait_for_answers_go_to_more_subtasks(tmp_path: Path, start: Start) -> None:
    """Nothing is answered in the first run: all that comes out in the second was asked for again, or not read yet."""
    asked.clear()
    may_answer.clear()
    path: str | None = None
    for run, parallelism in enumerate((1, 3)):
        job = sl.Job(
            "answers",
            id=f"run-{run}",
            parallelism=parallelism,
            checkpoints=settings("aligned", restore_from=path)(str(tmp_path / "chk")),
            execution=small(),
        )
        rows = job.source(Uneven([400], batch_rows=300, gap=0.001), "rows")
        waiting = rows.async_map(blocking, schema=rows.schema, capacity=8, uid="answers")
        waiting.apply(Tagged(), uid="tagged", schema=Tagged.schema).sink(Files(tmp_path / "out"), uid="out")
        handle = start(job, ThreadCluster())
        if path is None:
            wait_until(lambda: len(asked) >= 8, "as many rows are asked for as may be")
            path = handle.savepoint(tmp_path / "savepoints", timeout="120s")
            handle.cancel("120s")
        else:
            assert handle.wait("120s") is JobStatus.FINISHED
        may_answer.set()
    made = read_files(tmp_path / "out").to_pylist()
    assert sorted(row["id"] for row in made) == list(range(400))
    assert len({row["subtask"] for row in made}) == 3
