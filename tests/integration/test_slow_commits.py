"""A sink whose commits cannot keep up slows its job down: what waits for them does not grow without limit."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from tests.integration.runtime.runtime_kit import wait_until

import snapline as sl
from snapline.testing import ThreadCluster

pytestmark = pytest.mark.slow

TIMEOUT = "120s"


class Gate:
    """What holds commits up, and what they have committed. One process, so class attributes are shared."""

    is_open: ClassVar[threading.Event] = threading.Event()
    committed: ClassVar[list[int]] = []


class Writer(sl.SinkWriter):
    def __init__(self) -> None:
        self._rows: list[int] = []

    def write(self, batch: pa.RecordBatch) -> None:
        self._rows += batch.column(0).to_pylist()

    def prepare(self, checkpoint_id: int) -> Sequence[Any]:
        del checkpoint_id
        rows, self._rows = self._rows, []
        return [rows] if rows else []

    def commit(self, committable: sl.Committable, permit: sl.Permit) -> sl.CommitResult:
        del permit
        Gate.is_open.wait()
        Gate.committed += committable.payload
        return sl.CommitResult.COMMITTED


class GlobalCommitter(sl.GlobalCommitter):
    def commit(self, committable: sl.Committable, permit: sl.Permit) -> sl.CommitResult:
        del permit
        Gate.is_open.wait()
        Gate.committed += [row for rows in committable.payload for row in rows]
        return sl.CommitResult.COMMITTED


class HeldUp(sl.Sink):
    def __init__(self, scope: sl.CommitScope) -> None:
        self.commit_scope = scope

    def writer(self, context: sl.SinkContext) -> sl.SinkWriter:
        del context
        return Writer()

    def global_committer(self, context: sl.SinkContext) -> sl.GlobalCommitter:
        del context
        return GlobalCommitter()


@pytest.mark.parametrize("scope", [sl.CommitScope.SUBTASK, sl.CommitScope.JOB])
def test_commits_that_do_not_return_hold_the_job_up(tmp_path: Path, scope: sl.CommitScope) -> None:
    Gate.is_open = threading.Event()
    Gate.committed = []
    rows = 100_000
    job = sl.Job(
        "held up",
        checkpoints=sl.Checkpoints(interval="50ms", storage=tmp_path / "checkpoints"),
        execution=sl.Execution(metrics_interval="50ms"),
    )
    job.source(sl.sources.Rate(20_000, rows=rows), uid="rows").select("value").sink(HeldUp(scope), uid="out")
    handle = job.start(ThreadCluster())
    try:
        wait_until(lambda: waiting(handle) >= 3, "output of several checkpoints waits for its commit")
        if scope is sl.CommitScope.SUBTASK:
            wait_until(Still(handle), "the sink takes no more rows")
        else:
            wait_until(lambda: age_ms(handle) > 1000, "the next checkpoint waits behind what is not taken")
        assert waiting(handle) <= 4, "one more may have been under way"
        assert not Gate.committed
    finally:
        Gate.is_open.set()
    assert handle.wait(TIMEOUT) is sl.JobStatus.FINISHED
    assert len(Gate.committed) == rows
    durations = [
        subtask.commit_ms
        for record in handle.checkpoints().history
        for vertex in record.vertices
        for subtask in vertex.subtasks
    ]
    assert max(durations, default=-1) > 0, "the statistics say how long commits took"


def test_checkpoints_go_on_while_a_subtask_that_has_ended_waits_for_its_last_commit(tmp_path: Path) -> None:
    Gate.is_open = threading.Event()
    Gate.committed = []
    job = sl.Job("early end", checkpoints=sl.Checkpoints(interval="50ms", storage=tmp_path / "checkpoints"))
    short = job.source(sl.sources.Rate(20_000, rows=100), uid="short")
    short.select("value").sink(HeldUp(sl.CommitScope.SUBTASK), uid="held-up")
    job.source(sl.sources.Rate(1_000), uid="endless").sink(sl.sinks.Files(tmp_path / "rows"), uid="rows")
    handle = job.start(ThreadCluster())
    try:
        wait_until(lambda: waiting(handle) >= 1, "the output of the short source waits for its commit")
        first = handle.checkpoints().counts.completed
        wait_until(lambda: handle.checkpoints().counts.completed >= first + 10, "checkpoints go on")
        assert not Gate.committed
        Gate.is_open.set()
        wait_until(lambda: len(Gate.committed) == 100, "the last rows are committed")
    finally:
        Gate.is_open.set()
        handle.cancel()


class Still:
    """Whether many reports in a row say the same number of rows, which is not all of them."""

    def __init__(self, handle: sl.JobHandle) -> None:
        self._handle = handle
        self._reports: list[sl.statistics.TaskMetrics] = []

    def __call__(self) -> bool:
        report = next(iter(self._handle.metrics().values()))
        if not self._reports or report is not self._reports[-1]:
            self._reports = [*self._reports[-19:], report]
        return len(self._reports) == 20 and len({report.rows_in for report in self._reports}) == 1


def age_ms(handle: sl.JobHandle) -> int:
    """How long the newest checkpoint has been in progress; it would take a few milliseconds."""
    newest = handle.checkpoints().history[0]
    is_over = newest.completion is not None or newest.failure is not None
    return 0 if is_over else round(time.time() * 1000) - newest.trigger_ms


def waiting(handle: sl.JobHandle) -> int:
    commits = [task.commits for task in handle.metrics().values() if task.commits is not None]
    return max((figures.waiting for figures in commits), default=0)


class RefusingWriter(Writer):
    def __init__(self, directory: Path) -> None:
        super().__init__()
        self._directory = directory

    def commit(self, committable: sl.Committable, permit: sl.Permit) -> sl.CommitResult:
        del permit
        if not (self._directory / "open").exists():
            return sl.CommitResult.RETRY_LATER
        with (self._directory / "committed").open("a") as file:
            file.write(f"{committable.checkpoint_id}\n")
        return sl.CommitResult.COMMITTED


class Refusing(sl.Sink):
    """Commits only while a file `open` is in its directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def writer(self, context: sl.SinkContext) -> sl.SinkWriter:
        del context
        return RefusingWriter(self._directory)


def test_what_was_restored_is_committed_before_anything_newer_also_after_a_rescale(tmp_path: Path) -> None:
    def start(parallelism: int) -> sl.JobHandle:
        job = sl.Job(
            "refused",
            parallelism=parallelism,
            checkpoints=sl.Checkpoints(
                interval="50ms", storage=tmp_path / "checkpoints", committer_retries=10_000, retained=1
            ),
            execution=sl.Execution(metrics_interval="50ms"),
        )
        source = job.source(sl.sources.Rate(2_000, rows=6_000), uid="rows", parallelism=1)
        source.select("value").rebalance().sink(Refusing(tmp_path), uid="out")
        return job.start(ThreadCluster())

    first = start(2)
    wait_until(lambda: waiting(first) >= 2, "output waits for its commit")
    first.suspend("120s")
    second = start(3)
    try:
        wait_until(lambda: waiting(second) >= 1, "restored output waits for its commit")
        assert second.status() is sl.JobStatus.INITIALIZING
        latest = second.checkpoints().latest.restored
        assert latest is not None
        newest = latest.id
        assert all(task.rows_in == 0 for name, task in second.metrics().items() if name.startswith("out/"))
    finally:
        (tmp_path / "open").touch()
    assert second.wait(TIMEOUT) is sl.JobStatus.FINISHED
    ids = [int(line) for line in (tmp_path / "committed").read_text().split()]
    restored = [index for index, checkpoint in enumerate(ids) if checkpoint <= newest]
    assert restored == list(range(len(restored))) != [], "all that was restored comes first"


def why(handle: sl.JobHandle) -> str:
    """Why the newest checkpoint takes so long."""
    view = handle.view()
    found = view.explanations.get(handle.checkpoints().history[0].id)
    return "" if found is None else found.sentence


class BulkyWriter(RefusingWriter):
    """What it prepares is large."""

    def prepare(self, checkpoint_id: int) -> Sequence[Any]:
        return [{"rows": rows, "rest": bytes(2 << 20)} for rows in super().prepare(checkpoint_id)]

    def commit(self, committable: sl.Committable, permit: sl.Permit) -> sl.CommitResult:
        result = super().commit(committable, permit)
        if result is sl.CommitResult.COMMITTED:
            with (self._directory / "rows").open("a") as file:
                file.writelines(f"{row}\n" for row in committable.payload["rows"])
        return result


class Bulky(Refusing):
    def writer(self, context: sl.SinkContext) -> sl.SinkWriter:
        del context
        return BulkyWriter(self._directory)


def test_what_waits_for_its_commit_is_written_once_and_survives_a_restart(tmp_path: Path) -> None:
    rows = 4_000

    def start(parallelism: int) -> sl.JobHandle:
        job = sl.Job(
            "bulky",
            parallelism=parallelism,
            checkpoints=sl.Checkpoints(
                interval="50ms",
                storage=tmp_path / "checkpoints",
                committer_retries=10_000,
                retained=1,
                compress=False,
            ),
        )
        source = job.source(sl.sources.Rate(2_000, rows=rows), uid="rows", parallelism=1)
        source.select("id").rebalance().sink(Bulky(tmp_path), uid="out")
        return job.start(ThreadCluster())

    first = start(2)
    wait_until(lambda: waiting(first) >= 3, "output waits for its commit, and no more is taken")
    sizes = [record.totals for record in first.checkpoints().history if record.completion is not None]
    assert any(size.state_bytes - size.checkpointed_bytes > 2 << 20 for size in sizes), sizes
    wait_until(lambda: "takes no more rows" in why(first), "the next checkpoint waits, and the job says for what")
    first.suspend("120s")
    (tmp_path / "open").touch()
    assert start(3).wait(TIMEOUT) is sl.JobStatus.FINISHED
    assert sorted(map(int, (tmp_path / "rows").read_text().split())) == list(range(rows))
    assert not list((tmp_path / "checkpoints").rglob("*/shared/*")), "nothing is left behind"
