"""A job of two pipelines that no edge connects: what fails in one leaves the other alone."""

from __future__ import annotations

import os
import signal
import time
import uuid
from collections import Counter
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import pytest
from tests.integration.runtime.runtime_kit import DEADLINE_S, MODES, Start, wait_until

from snapline.api.job import Job
from snapline.config import Checkpoints, Execution, FixedDelay
from snapline.connectors.files.file_sink import Files, read_files
from snapline.connectors.generate import Generate
from snapline.contracts.master_hook import MasterHook
from snapline.contracts.operator import Operator, OperatorContext
from snapline.runtime.master.master_handle import MasterHandle
from snapline.testing.clusters import ProcessCluster, ThreadCluster
from snapline.types import JobStatus

pytestmark = pytest.mark.slow

Kind: TypeAlias = type[ThreadCluster] | type[ProcessCluster]
SCHEMA = pa.schema([("id", pa.int64())])
RATE = 1000


def numbers(start: int, count: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(range(start, start + count), pa.int64())], SCHEMA)


class Witness(Operator):
    """Notes each `open` and `finish` in a directory, and raises once when it is told to."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._note("open")

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        for order in ("raise", "hang"):
            path = self._directory / order
            if self.context.subtask == 0 and path.exists():
                path.unlink()
                time.sleep(600 if order == "hang" else 0)
                raise RuntimeError("ordered")
        self.context.emit(batch)

    def finish(self) -> None:
        self._note("finish")

    def _note(self, what: str) -> None:
        context = self.context
        note = f"{what} {context.subtask} {context.attempt} {os.getpid()} {uuid.uuid4().hex}"
        (self._directory / note).touch()


class Pipeline:
    """What one of the pipelines has done."""

    def __init__(self, job: Job, directory: Path, name: str, rows: int, parallelism: int) -> None:
        self.name = name
        self.rows = rows
        self._notes = directory / f"{name}-notes"
        self._output = directory / f"{name}-out"
        self._notes.mkdir()
        source = Generate(numbers, rows, schema=SCHEMA, rows_per_second=RATE)
        stream = job.source(source, uid=name, parallelism=parallelism).rebalance()
        seen = stream.apply(Witness(self._notes), schema=SCHEMA, uid=f"{name}-seen", parallelism=parallelism)
        seen.sink(Files(self._output), uid=f"{name}-out", parallelism=parallelism)

    def opened(self) -> Counter[tuple[int, int]]:
        """How often each subtask was opened in each attempt."""
        return Counter((subtask, attempt) for subtask, attempt, _ in self._noted("open"))

    def pid(self, subtask: int) -> int:
        """The process that a subtask was last opened in."""
        return max((attempt, pid) for index, attempt, pid in self._noted("open") if index == subtask)[1]

    def has_finished(self) -> bool:
        return bool(self._noted("finish"))

    def _noted(self, what: str) -> list[tuple[int, int, int]]:
        notes = [path.name.split() for path in self._notes.glob(f"{what} *")]
        return [(int(subtask), int(attempt), int(pid)) for _, subtask, attempt, pid, _ in notes]

    def fail(self) -> None:
        (self._notes / "raise").touch()

    def hang(self) -> None:
        (self._notes / "hang").touch()
        wait_until(lambda: not (self._notes / "hang").exists(), "it hangs")

    def check_output(self) -> None:
        assert sorted(read_files(self._output)["id"].to_pylist()) == list(range(self.rows))


def make_job(directory: Path, *, delay: str = "10ms", mode: str = "aligned", hooks: tuple[MasterHook, ...] = ()) -> Job:
    return Job(
        "regions",
        checkpoints=Checkpoints(interval="50ms", storage=directory / "checkpoints", **MODES[mode]),
        execution=Execution(metrics_interval="50ms", heartbeat_interval="100ms", cancel_timeout="1s"),
        restart=FixedDelay(attempts=10, delay=delay),
        hooks=hooks,
    )


def completed(handle: MasterHandle) -> int:
    return handle.checkpoints().counts.completed


def await_checkpoints(handle: MasterHandle, count: int = 2) -> None:
    before = completed(handle)
    wait_until(lambda: completed(handle) >= before + count, "checkpoints", DEADLINE_S)


def texts(handle: MasterHandle) -> list[str]:
    return [text for _, text in handle.events()]


@pytest.mark.parametrize(("kind", "mode"), [(ThreadCluster, "aligned"), (ProcessCluster, "unaligned")])
def test_an_error_restarts_only_its_own_region(kind: Kind, mode: str, tmp_path: Path, start: Start) -> None:
    job = make_job(tmp_path, delay="2s", mode=mode)
    steady, shaky = Pipeline(job, tmp_path, "steady", 15_000, 2), Pipeline(job, tmp_path, "shaky", 15_000, 2)
    handle = start(job, kind())
    await_checkpoints(handle)

    def steady_rows() -> int:
        return sum(task.rows_in for name, task in handle.metrics().items() if name.startswith("steady/"))

    for failures in (1, 2):
        shaky.fail()
        wait_until(lambda: handle.status() is JobStatus.RESTARTING, "the error")
        enough = steady_rows() + RATE // 10
        wait_until(lambda enough=enough: steady_rows() > enough, "rows of the region that goes on")  # type: ignore[misc]
        assert handle.status() is JobStatus.RESTARTING, "they came while the other region waited for its restart"
        await_checkpoints(handle)
        assert shaky.opened()[(0, failures + 1)] == 1
    assert handle.wait("120s") is JobStatus.FINISHED
    assert handle.attempt == 3
    assert steady.opened() == {(0, 1): 1, (1, 1): 1}
    assert shaky.opened() == {(subtask, attempt): 1 for subtask in (0, 1) for attempt in (1, 2, 3)}
    assert "restarting 4 of 8 subtasks: region of 'shaky'" in texts(handle)
    steady.check_output()
    shaky.check_output()


def test_a_killed_process_restarts_the_regions_it_ran(tmp_path: Path, start: Start) -> None:
    job = make_job(tmp_path)
    wide, narrow = Pipeline(job, tmp_path, "wide", 6000, 2), Pipeline(job, tmp_path, "narrow", 6000, 1)
    handle = start(job, ProcessCluster())
    await_checkpoints(handle)
    os.kill(wide.pid(1), signal.SIGKILL)
    wait_until(lambda: (1, 2) in wide.opened(), "the restart of one region")
    await_checkpoints(handle)
    assert narrow.opened() == {(0, 1): 1}
    os.kill(narrow.pid(0), signal.SIGKILL)
    wait_until(lambda: (0, 3) in narrow.opened() and (0, 3) in wide.opened(), "the restart of both regions")
    assert handle.wait("120s") is JobStatus.FINISHED
    assert narrow.opened() == {(0, 1): 1, (0, 3): 1}
    wide.check_output()
    narrow.check_output()


def test_a_lost_slot_restarts_everything(tmp_path: Path, start: Start) -> None:
    job = make_job(tmp_path)
    wide, narrow = Pipeline(job, tmp_path, "wide", 4000, 2), Pipeline(job, tmp_path, "narrow", 4000, 1)
    cluster = ProcessCluster()
    handle = start(job, cluster)
    await_checkpoints(handle)
    wide.fail()
    wait_until(lambda: (0, 2) in wide.opened(), "the restart of one region")
    await_checkpoints(handle)
    cluster.lose_slot(1)
    wait_until(lambda: (0, 3) in narrow.opened(), "the restart of both regions")
    assert handle.wait("120s") is JobStatus.FINISHED
    assert narrow.opened() == {(0, 1): 1, (0, 3): 1}
    wide.check_output()
    narrow.check_output()


def test_a_region_that_has_finished_is_not_run_again(tmp_path: Path, start: Start) -> None:
    job = make_job(tmp_path)
    short, long = Pipeline(job, tmp_path, "short", 50, 2), Pipeline(job, tmp_path, "long", 4000, 1)
    handle = start(job, ThreadCluster())
    wait_until(short.has_finished, "the end of the short one")
    await_checkpoints(handle, 3)
    for attempt in (2, 3):
        long.fail()
        wait_until(lambda attempt=attempt: (0, attempt) in long.opened(), "the restart")  # type: ignore[misc]
        await_checkpoints(handle)
    assert handle.wait("120s") is JobStatus.FINISHED
    assert short.opened() == {(0, 1): 1, (1, 1): 1}
    short.check_output()
    long.check_output()


def test_a_task_that_does_not_stop_takes_the_regions_in_its_process_along(tmp_path: Path, start: Start) -> None:
    job = make_job(tmp_path)
    hung, other = Pipeline(job, tmp_path, "hung", 3000, 2), Pipeline(job, tmp_path, "other", 3000, 1)
    handle = start(job, ProcessCluster())
    await_checkpoints(handle)
    hung.hang()
    os.kill(hung.pid(1), signal.SIGKILL)
    wait_until(lambda: (0, 2) in other.opened(), "the restart of both")
    assert handle.wait("120s") is JobStatus.FINISHED
    hung.check_output()
    other.check_output()


class Audit(MasterHook):
    """Goes back with the whole job."""

    name = "audit"

    def snapshot(self, checkpoint_id: int) -> bytes:
        return str(checkpoint_id).encode()

    def restore(self, checkpoint_id: int, state: bytes | None) -> None:
        """Nothing to do."""


def test_master_hooks_couple_all_regions(tmp_path: Path, start: Start) -> None:
    job = make_job(tmp_path, hooks=(Audit(),))
    steady, shaky = Pipeline(job, tmp_path, "steady", 2000, 1), Pipeline(job, tmp_path, "shaky", 2000, 1)
    handle = start(job, ThreadCluster())
    await_checkpoints(handle)
    shaky.fail()
    assert handle.wait("120s") is JobStatus.FINISHED
    assert steady.opened() == shaky.opened() == {(0, 1): 1, (0, 2): 1}
    assert "restarting all 4 subtasks of 2 regions, because master hooks belong to the whole job" in texts(handle)
    steady.check_output()
    shaky.check_output()
