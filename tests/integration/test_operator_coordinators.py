"""Coordinators of operators in whole jobs: events count once, whatever fails, and errors name their call."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import snapline as sl
from snapline.testing import ABORT, AWAIT_CHECKPOINT, ScriptedSource, ThreadCluster

ROWS = pa.schema([("n", pa.int64())])
DEADLINE_S = 120.0


class Till(sl.OperatorCoordinator):
    """Adds up what subtasks report, and gives each report a number. Writes down what a checkpoint covers."""

    def __init__(self, directory: Path, fails_in: str = "") -> None:
        self._directory = directory
        self._fails_in = fails_in
        self._total = 0
        self._numbers = 0
        self._covered: dict[int, int] = {}

    def _enter(self, call: str) -> None:
        if call == self._fails_in and not (self._directory / "failed").exists():
            (self._directory / "failed").touch()
            raise ValueError("the till is broken")

    def start(self, context: sl.CoordinatorContext) -> None:
        super().start(context)
        self._enter("start")

    def restore(self, checkpoint_id: int, state: Any) -> None:
        self._enter("restore")
        self._total, self._numbers = state

    def snapshot(self, checkpoint_id: int) -> Any:
        self._enter("snapshot")
        self._covered[checkpoint_id] = self._total
        return [self._total, self._numbers]

    def handle_event(self, subtask: int, event: Any) -> None:
        self._enter("handle_event")
        self._total += event
        self.context.send(subtask, self._numbers)
        self._numbers += 1

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        self._enter("checkpoint_completed")

    def close(self) -> None:
        (self._directory / f"closed-{self.context.attempt}").write_text(f"{self._total} {self._numbers}")


class Sales(sl.Operator):
    """Reports the sum of each batch to the till, and emits each number it gets: one for each report."""

    def __init__(self, directory: Path, fails_in: str = "") -> None:
        self._directory = directory
        self._fails_in = fails_in

    def make_coordinator(self) -> Till:
        return Till(self._directory, self._fails_in)

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        for n in batch.column("n").to_pylist():
            self.context.send_event(n)

    def handle_event(self, event: Any) -> None:
        self.context.emit(pa.record_batch([pa.array([event], pa.int64())], schema=ROWS))


def make_job(
    source: sl.Source, directory: Path, *, fails_in: str = "", parallelism: int = 2, **settings: Any
) -> sl.Job:
    job = sl.Job(
        "sales",
        parallelism=parallelism,
        restart=sl.FixedDelay(attempts=3, delay="10ms"),
        checkpoints=sl.Checkpoints(**{"interval": "50ms", "storage": directory / "checkpoints", **settings}),
    )
    (
        job.source(source, uid="rows")
        .rebalance()
        .apply(Sales(directory, fails_in), uid="sales", schema=ROWS)
        .sink(sl.sinks.Files(directory / "out"), uid="out")
    )
    return job


def closed(directory: Path, attempt: int) -> tuple[int, int]:
    deadline_s = time.monotonic() + DEADLINE_S
    while not (directory / f"closed-{attempt}").exists():
        assert time.monotonic() < deadline_s, "the coordinator was never closed"
        time.sleep(0.01)
    total, numbers = (directory / f"closed-{attempt}").read_text().split()
    return int(total), int(numbers)


def script(*, aborts: bool) -> ScriptedSource:
    steps: list[Any] = []
    for part in range(4):
        steps += [{"n": part * 50 + number} for number in range(50)]
        if part in (1, 2):
            steps += [AWAIT_CHECKPOINT, *([*({"n": 0} for _ in range(7)), ABORT] if aborts else ())]
    return ScriptedSource(steps)


@pytest.mark.slow
@pytest.mark.parametrize("unaligned", [False, True])
def test_reports_count_once_and_numbers_arrive_once_across_failures(tmp_path: Path, unaligned: bool) -> None:
    job = make_job(script(aborts=True), tmp_path, unaligned=unaligned)
    handle = job.start(ThreadCluster())
    assert handle.wait("120s") is sl.JobStatus.FINISHED
    assert handle.attempt == 3
    total, numbers = closed(tmp_path, 3)
    assert (total, numbers) == (sum(range(200)), 214), "each row is reported once, as far as the job's result goes"
    found = sl.sinks.read_files(tmp_path / "out")["n"].to_pylist()
    # An operator takes no more events once its input has ended, so the last numbers may be missing, but none is twice.
    assert len(found) == len(set(found))
    assert set(found) <= set(range(214))


@pytest.mark.slow
@pytest.mark.parametrize("call", ["handle_event", "checkpoint_completed"])
def test_an_error_fails_the_job_over_and_names_the_call(tmp_path: Path, call: str) -> None:
    handle = make_job(script(aborts=False), tmp_path, fails_in=call).start(ThreadCluster())
    assert handle.wait("120s") is sl.JobStatus.FINISHED
    assert handle.attempt == 2
    assert any(f"{call} of the coordinator of 'sales' failed: ValueError" in text for _, text in handle.events())
    assert closed(tmp_path, 2)[0] == sum(range(200))


@pytest.mark.slow
def test_an_error_in_a_snapshot_fails_the_checkpoint_only(tmp_path: Path) -> None:
    handle = make_job(script(aborts=False), tmp_path, fails_in="snapshot").start(ThreadCluster())
    assert handle.wait("120s") is sl.JobStatus.FINISHED
    assert handle.attempt == 1
    failures = [record.failure.message for record in handle.checkpoints().history if record.failure is not None]
    assert any("snapshot of the coordinator of 'sales' failed: ValueError: the till is broken" in it for it in failures)


@pytest.mark.slow
def test_a_savepoint_restores_the_coordinator_at_another_parallelism(tmp_path: Path) -> None:
    rows = [{"n": number} for number in range(100)]
    first = make_job(ScriptedSource([*rows, AWAIT_CHECKPOINT], ends=False), tmp_path, parallelism=3).start(
        ThreadCluster()
    )
    deadline_s = time.monotonic() + DEADLINE_S
    while first.checkpoints().counts.completed < 2:
        assert time.monotonic() < deadline_s
        time.sleep(0.01)
    savepoint = first.stop(tmp_path / "savepoints", timeout="120s")
    before, numbers = closed(tmp_path, 1)
    assert (before, numbers) == (sum(range(100)), 100)
    again = tmp_path / "again"
    again.mkdir()
    job = make_job(ScriptedSource([{"n": 5}]), again, parallelism=1, restore_from=savepoint)
    assert job.run(ThreadCluster()) is sl.JobStatus.FINISHED
    total, numbers = closed(again, 1)
    assert (total, numbers) in {(before, 100), (before + 5, 101)}, "the script may have been read to its end before"


@pytest.mark.slow
def test_what_a_job_without_the_coordinator_leaves_behind_is_listed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = make_job(ScriptedSource([{"n": 1}], ends=False), tmp_path).start(ThreadCluster())
    savepoint = first.stop(tmp_path / "savepoints", timeout="120s")

    def plain(**settings: Any) -> sl.Job:
        job = sl.Job("plain", checkpoints=sl.Checkpoints(restore_from=savepoint, **settings))
        job.source(ScriptedSource([{"n": 2}]), uid="rows").map(dict, schema=ROWS, uid="sales").sink(
            sl.sinks.Files(tmp_path / "plain"), uid="other"
        )
        return job

    with pytest.raises(sl.JobFailedError, match="the coordinator of 'sales', which the job does not have"):
        plain().run(ThreadCluster())
    handle = plain(allow_non_restored=True).start(ThreadCluster())
    assert handle.wait("120s") is sl.JobStatus.FINISHED
    restored = handle.checkpoints().latest.restored
    assert restored is not None
    assert "the coordinator of 'sales'" in restored.left_behind
    assert any("left behind" in text and "the coordinator of 'sales'" in text for _, text in handle.events())
    assert "leaves state behind" in caplog.text


def test_an_operator_with_a_coordinator_needs_a_uid(tmp_path: Path) -> None:
    job = sl.Job("sales")
    job.source(ScriptedSource([{"n": 1}]), uid="rows").apply(Sales(tmp_path), schema=ROWS).sink(
        sl.sinks.Files(tmp_path / "out"), uid="out"
    )
    with pytest.raises(sl.ConfigurationError, match="'Sales' needs a uid"):
        job.run(ThreadCluster())
