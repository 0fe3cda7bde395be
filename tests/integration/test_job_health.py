"""The health of real jobs: what is wrong with them is said in a line, and nothing is said of those that are well."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest

import snapline as sl
from snapline.protocol.statistics import Health, HealthIssue, HealthLevel, HealthNote, JobView, flow_health
from snapline.testing import ThreadCluster

pytestmark = pytest.mark.slow

DEADLINE_S = 120.0
SCHEMA = pa.schema([("split", pa.string()), ("time", pa.int64())])
EXECUTION = sl.Execution(metrics_interval="100ms", cancel_timeout="500ms", same_error_limit=None)


@contextmanager
def running(job: sl.Job) -> Iterator[sl.JobHandle]:
    handle = job.start(ThreadCluster())
    try:
        yield handle
    finally:
        handle.cancel("60s")


def noted(handle: sl.JobHandle, issue: HealthIssue) -> tuple[HealthNote, JobView]:
    """Wait for a note about this."""
    deadline_s = time.monotonic() + DEADLINE_S
    view = handle.view()
    while time.monotonic() < deadline_s:
        for note in view.health.notes:
            if note.issue is issue:
                assert note.advice
                assert view.health.level is not HealthLevel.GOOD
                return note, view
        time.sleep(0.05)
        view = handle.view()
    raise AssertionError(f"nothing was said of {issue}: {view.health}")


def wait_until(condition: Callable[[], Any], what: str) -> None:
    deadline_s = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline_s, what
        time.sleep(0.02)


class Parts(sl.Source):
    """Splits by name: rows of each carry the current time, for as long as `open` has its name."""

    open: ClassVar[set[str]] = set()

    def __init__(self, *names: str) -> None:
        self.names = names

    @property
    def schema(self) -> pa.Schema:
        return SCHEMA

    @property
    def is_bounded(self) -> bool:
        return False

    @property
    def in_step(self) -> bool:
        return True

    def splits(self, parallelism: int) -> Sequence[str]:
        return self.names

    def reader(self, context: sl.ReaderContext) -> sl.SourceReader:
        return PartsReader()


class PartsReader(sl.SourceReader):
    def __init__(self) -> None:
        self.names: list[str] = []
        self.turn = 0

    def add_split(self, split: str, position: int | None) -> None:
        self.names.append(split)

    def read(self) -> Any:
        self.turn += 1
        name = self.names[self.turn // 2 % len(self.names)]
        if self.turn % 2 or name not in Parts.open:
            return sl.Wait(0.005)
        now_ms = int(time.time() * 1000)
        batch = pa.record_batch([pa.array([name]), pa.array([now_ms], pa.int64())], schema=SCHEMA)
        return sl.SplitRows(batch, [(name, 1)])

    def positions(self, checkpoint_id: int) -> Sequence[tuple[str, int]]:
        return [(name, 0) for name in self.names]


@pytest.fixture(autouse=True)
def _short_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow_health, "STILL_MS", 1500)
    monkeypatch.setattr(flow_health, "IDLE_MS", 1500)
    Parts.open = set()


@pytest.mark.parametrize("parallelism", [1, 2])
def test_event_time_that_stands_still_is_blamed_on_the_split_that_holds_it_back(parallelism: int) -> None:
    Parts.open = {"berlin", "london", "paris", "rome"}
    job = sl.Job("cities", parallelism=parallelism, execution=EXECUTION)
    source = Parts("berlin", "london", "paris", "rome")
    rows = job.source(source, "cities", watermarks=sl.Watermarks("time"))
    rows.key_by("split").window(sl.Tumbling("100ms")).aggregate(uid="counts", n=sl.count()).sink(
        sl.sinks.Foreach(len), "out"
    )
    with running(job) as handle:
        wait_until(lambda: handle.progress().event_time_ms is not None, "event time moves")
        assert handle.view().health.level is HealthLevel.GOOD
        Parts.open = {"berlin", "london", "rome"}
        note, view = noted(handle, HealthIssue.EVENT_TIME_STANDS_STILL)
        Parts.open = {"berlin", "london", "paris", "rome"}
        wait_until(lambda: handle.view().health.level is HealthLevel.GOOD, "all is well once the split goes on")
    assert note.vertex == "cities"
    assert f"split 'paris' of subtask {note.subtask} of `cities` holds it back" in note.text
    holder = next(task for task in view.subtasks_of("cities") if task.id.index == note.subtask)
    assert holder.metrics is not None
    assert holder.metrics.slowest_split == "'paris'"
    assert "idle_after" in note.advice


def test_a_source_without_rows_is_named_while_others_have_some() -> None:
    Parts.open = {"orders", "clicks"}
    job = sl.Job("two", execution=EXECUTION)
    orders, clicks = job.source(Parts("orders"), "orders"), job.source(Parts("clicks"), "clicks")
    orders.union(clicks).sink(sl.sinks.Foreach(len), "out")
    with running(job) as handle:
        wait_until(lambda: all(task.metrics and task.metrics.rows_in for task in handle.view().subtasks), "rows flow")
        assert handle.view().health.level is HealthLevel.GOOD
        Parts.open = {"clicks"}
        note, _ = noted(handle, HealthIssue.IDLE_SOURCE)
        Parts.open = set()
        wait_until(lambda: handle.view().health.level is HealthLevel.GOOD, "nothing is odd if all are quiet")
    assert note.vertex == "orders"
    assert "source `orders` has given no rows for" in note.text


def test_a_source_that_has_had_no_rows_yet_is_no_reason_to_worry() -> None:
    Parts.open = {"clicks"}
    job = sl.Job("nightly", execution=EXECUTION)
    nightly, clicks = job.source(Parts("nightly"), "nightly"), job.source(Parts("clicks"), "clicks")
    nightly.union(clicks).sink(sl.sinks.Foreach(len), "out")
    with running(job) as handle:
        started_s = time.monotonic()
        wait_until(lambda: time.monotonic() - started_s > 3 * flow_health.IDLE_MS / 1000, "time passes")
        assert handle.view().health.line == "healthy"


def fail(row: dict[str, Any]) -> None:
    raise ValueError(f"no such user: {row['user']}")


def test_a_restart_loop_is_told_with_its_error(tmp_path: Path) -> None:
    job = sl.Job(
        "loop",
        execution=EXECUTION,
        checkpoints=sl.Checkpoints(interval="200ms", storage=tmp_path),
        restart=sl.FixedDelay(attempts=1000, delay="100ms"),
    )
    job.source(sl.sources.Rate(100), uid="rows").rebalance().sink(sl.sinks.Foreach(fail), uid="out")
    with running(job) as handle:
        note, view = noted(handle, HealthIssue.RESTART_LOOP)
    assert view.health.level is HealthLevel.BAD
    assert view.health.notes[0] is note
    assert "the same error for the" in note.text
    assert "no such user" in note.text
    assert (note.vertex, note.subtask) == ("out", 0)


def test_a_bounded_job_is_well_to_its_end(tmp_path: Path) -> None:
    checkpoints = sl.Checkpoints(interval="100ms", storage=tmp_path)
    job = sl.Job("bounded", parallelism=2, execution=EXECUTION, checkpoints=checkpoints)
    rows = job.source(sl.sources.Rate(5_000, rows=15_000), uid="rows")
    rows.key_by("user").aggregate(n=sl.count(), uid="counts").sink(sl.sinks.Files(tmp_path / "out"), uid="out")
    handle = job.start(ThreadCluster())
    seen: list[Health] = []

    def has_ended() -> bool:
        seen.append(handle.view().health)
        return handle.status().is_globally_terminal

    wait_until(has_ended, "it ends")
    assert {health.level for health in seen} == {HealthLevel.GOOD}
    assert {health.line for health in seen} <= {"starting", "healthy", "finished"}
    assert handle.view().health.line == "finished"


# Storage that cannot be written to. A driver that runs as root gives up the right to write there all the same.

DRIVER = """
import ctypes, json, logging, os, sys, time

DROP_CAPABILITY, OVERRIDES_MODES, READS_ALL = 24, 1, 2
if os.getuid() == 0 and "LIMITED" not in os.environ:
    for capability in (OVERRIDES_MODES, READS_ALL):
        assert ctypes.CDLL(None).prctl(DROP_CAPABILITY, capability, 0, 0, 0) == 0
    os.environ["LIMITED"] = "yes"
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])

import snapline as sl
from snapline.testing.clusters import ProcessCluster

logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
if __name__ == "__main__":
    job = sl.Job(
        "clicks",
        id="clicks",
        parallelism=2,
        checkpoints=sl.Checkpoints(interval="1s", storage=sys.argv[1]),
        execution=sl.Execution(metrics_interval="200ms"),
        monitoring=sl.Monitoring(port=None),
    )
    rows = job.source(sl.sources.Rate(500), uid="rows")
    rows.key_by("user").aggregate(n=sl.count(), uid="counts").sink(sl.sinks.Foreach(len), uid="out")
    handle = job.start(ProcessCluster())
    while True:
        view = handle.view()
        statistics = view.statistics
        print(json.dumps({
            "status": view.status.value,
            "completed": statistics.counts.completed,
            "failed": {reason.value: count for reason, count in statistics.failures_by_reason.items()},
            "level": view.health.level.value,
            "line": view.health.line,
            "advice": [note.advice for note in view.health.notes],
            "events": [text for _, text in view.events][-5:],
        }), flush=True)
        time.sleep(0.1)
"""


class Driver:
    """A driver in a process of its own, and what it says."""

    def __init__(self, storage: Path) -> None:
        self.log: list[tuple[float, str]] = []
        self.views: list[tuple[float, dict[str, Any]]] = []
        self._environment = environment = {
            **os.environ,
            "HOME": str(storage.parent),
            "SNAPLINE_HOME": str(storage.parent / "home"),
        }
        self._process = subprocess.Popen(
            [sys.executable, "-c", DRIVER, str(storage)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=storage.parent,
            start_new_session=True,
        )
        self._threads = [
            threading.Thread(target=self._read_views, daemon=True),
            threading.Thread(target=self._read_log, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def _read_views(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.views.append((time.monotonic(), json.loads(line)))

    def _read_log(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self.log.append((time.monotonic(), line))

    @property
    def latest(self) -> dict[str, Any]:
        assert self._process.poll() is None, "".join(line for _, line in self.log)
        return self.views[-1][1] if self.views else {"completed": 0, "line": ""}

    def status(self, storage: Path) -> subprocess.CompletedProcess[str]:
        """What `snapline status` says of the job."""
        command = [sys.executable, "-m", "snapline", "status", str(storage / "clicks"), "--check"]
        return subprocess.run(command, capture_output=True, text=True, env=self._environment, check=False, timeout=60)

    def close(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for thread in self._threads:
            thread.join()
        for stream in (self._process.stdout, self._process.stderr):
            assert stream is not None
            stream.close()


def test_storage_that_becomes_unwritable_is_told_within_three_intervals(tmp_path: Path) -> None:
    storage = tmp_path / "checkpoints"
    driver = Driver(storage)
    try:
        wait_until(lambda: driver.latest["completed"] >= 2, "checkpoints complete")
        assert driver.latest["level"] == "good"
        directories = [storage, *(path for path in storage.rglob("*") if path.is_dir())]
        for directory in directories:
            directory.chmod(0o555)
        locked_s = time.monotonic()
        wait_until(lambda: driver.latest["level"] != "good", "the health says so")
        wait_until(lambda: any("PermissionError" in line for _, line in driver.log), "the log says so")
        told_s = time.monotonic()
        told = driver.latest
        status = driver.status(storage)
        wait_until(lambda: driver.latest["level"] == "bad", "it becomes worse if it lasts")
        for directory in directories:
            directory.chmod(0o755)
        wait_until(lambda: driver.latest["level"] == "good", "all is well once it can be written to again")
    finally:
        driver.close()
    assert told_s - locked_s < 6, "three intervals, and the time to hear of it"
    assert told["status"] == "RUNNING"
    assert status.returncode == 1, status.stderr
    assert "the checkpoint storage did not work" in status.stdout
    assert "check that the checkpoint storage can be reached" in status.stdout
    assert "could not start: the checkpoint storage did not work" in told["line"] or "failed" in told["line"]
    assert "none has completed for" in told["line"]
    assert told["advice"] == ["check that the checkpoint storage can be reached and written to, and is not full"]
    assert sum(told["failed"].values()) >= 1
    assert set(told["failed"]) <= {"IO_EXCEPTION", "CHECKPOINT_ASYNC_EXCEPTION", "FINALIZE_CHECKPOINT_FAILURE"}
    assert any("Permission" in event for event in told["events"])
    warnings = [
        line for _, line in driver.log if line.startswith("WARNING") and "check that the checkpoint storage" in line
    ]
    assert 1 <= len(warnings) <= 3, "not with every checkpoint"
