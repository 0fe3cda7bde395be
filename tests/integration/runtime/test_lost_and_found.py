"""What breaks between processes that live, and what is away only for a while."""

from __future__ import annotations

import gc
import os
import signal
import time
from pathlib import Path

import pyarrow as pa
import pytest
from tests.integration.runtime.runtime_kit import (
    RESTART,
    ROWS,
    Pass,
    Start,
    Uneven,
    runs,
    settings,
    small,
    wait_for_checkpoints,
    wait_until,
)

from snapline.api.job import Job
from snapline.connectors.files.file_sink import Files, read_files
from snapline.contracts.operator import Operator
from snapline.devtools.kit.exactly_once import numbering_job
from snapline.runtime.network.data_connection import DataConnection
from snapline.runtime.slot.attempt import Attempt
from snapline.testing.clusters import ProcessCluster, ThreadCluster
from snapline.types import JobStatus

pytestmark = pytest.mark.slow


class HeldAtFirst(Operator):
    """Holds each batch back in the first attempt, until it is released; for a while only, so that barriers come by."""

    def __init__(self, released: Path) -> None:
        self._released = released

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        del input_index
        deadline_s = time.monotonic() + 0.5
        while self.context.attempt == 1 and time.monotonic() < deadline_s and not self._released.exists():
            time.sleep(0.005)
        self.context.emit(batch)


class SlowAtFirst(Operator):
    """Takes its time in the first attempt."""

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        del input_index
        if self.context.attempt == 1:
            time.sleep(0.2)
        self.context.emit(batch)


class EmitsWhenWoken(Operator):
    """Wants to be woken all the time once it has seen a row, and emits each time."""

    _batch: pa.RecordBatch | None = None

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        del input_index
        self._batch = batch

    def next_wakeup_ms(self) -> int | None:
        return None if self._batch is None else self.context.clock()

    def wakeup(self, now_ms: int) -> None:
        del now_ms
        assert self._batch is not None
        self.context.emit(self._batch)


def running() -> list[Attempt]:
    return [found for found in gc.get_objects() if isinstance(found, Attempt) and not found.is_given_up]


def test_a_connection_that_breaks_after_the_sources_have_finished(start: Start, tmp_path: Path) -> None:
    released = tmp_path / "released"
    job = Job(
        "broken",
        checkpoints=settings("unaligned")(str(tmp_path / "chk")),
        restart=RESTART,
        execution=small(channel_memory="1MB", batch_size="1KB"),
        parallelism=2,
    )
    stream = job.source(Uneven([4000, 4000], gap=0.0), uid="rows").rebalance()
    stream = stream.apply(Pass(), "pass", schema=ROWS).rebalance()
    stream = stream.apply(HeldAtFirst(released), "held", schema=ROWS).rebalance()
    stream.sink(Files(tmp_path / "out"), uid="out")
    handle = start(job, ThreadCluster())
    wait_until(lambda: len(running()) == 2, "the attempt runs in both slots")
    attempts = running()  # looking for them again and again takes longer than the moment lasts

    def have_sources_finished() -> bool:
        tasks = [task for attempt in attempts for task in attempt.tasks.values()]
        return {str(task.execution.subtask) for task in tasks if task.has_finished} == {"rows/0", "rows/1"}

    wait_until(have_sources_finished, "the sources, and nobody else, have finished")
    for connection in [found for found in gc.get_objects() if isinstance(found, DataConnection)]:
        connection._secured.shutdown()
    released.touch()
    assert handle.wait("120s") is JobStatus.FINISHED
    assert handle.attempt > 1
    assert sorted(read_files(tmp_path / "out")["id"].to_pylist()) == list(range(8000))


def test_storage_that_is_away_while_a_process_is_replaced(start: Start, tmp_path: Path) -> None:
    job = numbering_job(
        "away",
        tmp_path,
        rows=20_000,
        rows_per_second=15_000,
        checkpoints=settings("aligned"),
        restart=RESTART,
        execution=small(),
    )
    cluster = ProcessCluster()
    handle = start(job.job, cluster)
    wait_for_checkpoints(handle, 1)
    (shared,) = (tmp_path / "chk").glob("*/shared")
    moved = shared.rename(shared.with_name("moved"))
    shared.touch()
    os.kill(cluster.worker_pids()[0], signal.SIGKILL)
    wait_until(lambda: "cannot write checkpoints" in handle.cause, "the storage is missed")
    shared.unlink()
    moved.rename(shared)
    wait_until(lambda: runs(handle) or handle.status().is_globally_terminal, "it is found")
    assert handle.wait("120s") is JobStatus.FINISHED
    assert job.prove().problems == ()


def test_operators_are_not_woken_while_there_is_no_room(start: Start, tmp_path: Path) -> None:
    job = Job("woken", checkpoints=settings(interval=None)(str(tmp_path / "chk")), execution=small(), parallelism=1)
    stream = job.source(Uneven([100], silent={0: 100.0}), uid="rows").rebalance()
    stream = stream.apply(EmitsWhenWoken(), "woken", schema=ROWS).rebalance()
    stream.apply(SlowAtFirst(), "slow", schema=ROWS).sink(Files(tmp_path / "out"), uid="out")
    handle = start(job, ThreadCluster())
    wait_until(lambda: "slow/0" in handle.metrics() and handle.metrics()["slow/0"].rows_in > 500, "many rows came")
    assert handle.metrics()["woken/0"].queued_out_bytes < 100_000
    handle.cancel("120s")
