"""Every cause of a slow checkpoint, made on purpose in a real job, is told apart and blamed on the right subtask."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest

import snapline as sl
from snapline.devtools.kit.slow_objects import SlowFiles
from snapline.graph.planner import make_spec
from snapline.protocol.statistics import CheckpointRecord, CheckpointStatus, Explanation, PathPart, SlowCause
from snapline.runtime.master.start_master import start_master
from snapline.runtime.slot import operator_process
from snapline.testing import ProcessCluster, ThreadCluster

pytestmark = pytest.mark.slow

DEADLINE_S = 120.0
SMALL_BUFFERS = sl.Execution(metrics_interval="100ms", batch_size="2KB", channel_memory="8KB", cancel_timeout="500ms")
QUICK_REPORTS = sl.Execution(metrics_interval="100ms", cancel_timeout="500ms")


@contextmanager
def running(job: sl.Job, cluster: Any = None) -> Iterator[sl.JobHandle]:
    handle = job.start(cluster or ThreadCluster())
    try:
        yield handle
    finally:
        handle.cancel("120s")


def explained(
    handle: sl.JobHandle,
    cause: SlowCause,
    wanted: Callable[[CheckpointRecord], bool] = lambda record: record.status is CheckpointStatus.COMPLETED,
) -> Explanation:
    """Wait for a checkpoint that is explained with this cause."""
    deadline_s = time.monotonic() + DEADLINE_S
    said: dict[int, str] = {}
    while time.monotonic() < deadline_s:
        view = handle.view()
        for record in view.statistics.history:
            explanation = view.explanations[record.id]
            said[record.id] = f"{record!r}: {explanation.cause.value}: {explanation.sentence}"
            if explanation.cause is cause and wanted(record):
                check_path(explanation)
                return explanation
        time.sleep(0.05)
    raise AssertionError(f"no checkpoint was slow for this cause: {cause}; but:\n" + "\n".join(said.values()))


def check_path(explanation: Explanation) -> None:
    at_ms = 0
    for step in explanation.path:
        assert step.from_ms == at_ms, "each step begins where the one before ends"
        assert step.to_ms > at_ms
        at_ms = step.to_ms
    assert explanation.advice


def checkpoints(directory: Path, interval: str = "300ms", **settings: Any) -> sl.Checkpoints:
    return sl.Checkpoints(interval=interval, storage=directory / "checkpoints", **settings)


# Rows that hold barriers up.


def take_time(row: dict[str, Any]) -> None:
    del row
    time.sleep(0.002)


@pytest.mark.parametrize("kind", [ThreadCluster, ProcessCluster])
def test_back_pressure_is_blamed_on_the_sink_that_is_slow_and_not_on_those_that_wait_for_it(
    tmp_path: Path, kind: type[ThreadCluster] | type[ProcessCluster]
) -> None:
    job = sl.Job("pressure", parallelism=2, checkpoints=checkpoints(tmp_path), execution=SMALL_BUFFERS)
    rows = job.source(sl.sources.Rate(20_000, batch_rows=100), uid="source")
    counts = rows.key_by("user").aggregate(n=sl.count(), uid="per-user")
    counts.rebalance().sink(sl.sinks.Foreach(take_time), uid="sink")
    with running(job, kind()) as handle:
        under_way = explained(handle, SlowCause.BACK_PRESSURE, lambda record: record.completion is None)
        done = explained(handle, SlowCause.BACK_PRESSURE)
    for explanation in (under_way, done):
        assert explanation.vertex == "sink"
        assert explanation.subtask in (0, 1)
        assert "`sink`" in explanation.sentence
        assert explanation.advice.startswith("turn on unaligned checkpoints, or make `sink` faster or wider")
    assert {step.part for step in done.path} & {PathPart.START_DELAY, PathPart.ALIGNMENT}
    assert done.path[-1].part is PathPart.COMPLETION


class Patient(sl.ProcessFunction):
    def process(self, row: sl.Row, context: sl.ProcessContext) -> None:
        time.sleep(0.002)
        context.emit({"user": row["user"]})


def test_a_hot_key_is_skew_and_the_subtask_that_has_it_is_named(tmp_path: Path) -> None:
    job = sl.Job("hot", parallelism=2, checkpoints=checkpoints(tmp_path), execution=SMALL_BUFFERS)
    rows = job.source(sl.sources.Rate(20_000, users=1, batch_rows=100), uid="source")
    slow = rows.key_by("user").process(Patient(), uid="per-user", schema="user STRING")
    slow.sink(sl.sinks.Foreach(len), uid="sink")
    with running(job) as handle:
        explanation = explained(handle, SlowCause.SKEW)
        rows_in = {name: metrics.rows_in for name, metrics in handle.metrics().items() if name.startswith("per-user")}
    assert explanation.vertex == "per-user"
    assert rows_in[f"per-user/{explanation.subtask}"] == max(rows_in.values())
    assert "more subtasks do not help" in explanation.advice


# State.


class Hoard(sl.ProcessFunction):
    """Keeps a kilobyte for every row."""

    def open(self, context: sl.ProcessContext) -> None:
        self.kept = context.value_state("kept", bytes)

    def process(self, row: sl.Row, context: sl.ProcessContext) -> None:
        self.kept.set(row["id"].to_bytes(8, "big") * 128)


@pytest.fixture
def slow_files(monkeypatch: pytest.MonkeyPatch) -> type[SlowFiles]:
    """What subtasks write their state to."""
    monkeypatch.setattr(operator_process, "FileObjects", SlowFiles)
    monkeypatch.setattr(SlowFiles, "delay_s", 0.0)
    monkeypatch.setattr(SlowFiles, "bytes_per_s", None)
    return SlowFiles


def hoarding_job(directory: Path, *, key: str, rows: int | None, rows_per_second: float, parallelism: int) -> sl.Job:
    settings = checkpoints(directory, inline_threshold=0, compress=False)
    job = sl.Job("hoard", parallelism=parallelism, checkpoints=settings, execution=QUICK_REPORTS)
    source = job.source(sl.sources.Rate(rows_per_second, rows=rows, users=4), uid="source")
    forever = job.source(sl.sources.Rate(10), uid="forever")
    forever.sink(sl.sinks.Foreach(len), uid="elsewhere")
    source.key_by(key).process(Hoard(), uid="hoard", schema="user STRING").sink(sl.sinks.Foreach(len), uid="sink")
    return job


def test_slow_storage_is_told_with_its_speed(tmp_path: Path, slow_files: type[SlowFiles]) -> None:
    slow_files.delay_s = 1.5
    job = hoarding_job(tmp_path, key="user", rows=None, rows_per_second=100, parallelism=2)
    with running(job) as handle:
        explanation = explained(handle, SlowCause.SLOW_STORAGE)
    assert "B/s): storage" in explanation.sentence
    assert "checkpoint storage" in explanation.advice
    longest = max(explanation.path, key=lambda step: step.duration_ms)
    assert longest.part is PathPart.ASYNCHRONOUS
    assert longest.duration_ms >= 1400


def test_state_that_grows_is_told_from_storage_that_is_slow(tmp_path: Path, slow_files: type[SlowFiles]) -> None:
    slow_files.bytes_per_s = 3_000_000.0
    job = hoarding_job(tmp_path, key="id", rows=None, rows_per_second=2_000, parallelism=1)
    with running(job) as handle:
        explanation = explained(handle, SlowCause.STATE_GROWTH)
    assert (explanation.vertex, explanation.subtask) == ("hoard", 0)
    assert "state grows, from" in explanation.sentence
    assert "time to live" in explanation.advice


class OneKeyHoards(sl.ProcessFunction):
    """Keeps much for one user, little for the others."""

    def open(self, context: sl.ProcessContext) -> None:
        self.kept = context.value_state("kept", bytes)

    def process(self, row: sl.Row, context: sl.ProcessContext) -> None:
        self.kept.set(bytes(4_000_000 if row["user"] == "user-0" else 10))


def test_a_subtask_with_most_of_the_state_is_skew(tmp_path: Path, slow_files: type[SlowFiles]) -> None:
    slow_files.bytes_per_s = 2_000_000.0
    settings = checkpoints(tmp_path, inline_threshold=0, compress=False)
    job = sl.Job("hoard", parallelism=2, checkpoints=settings, execution=QUICK_REPORTS)
    rows = job.source(sl.sources.Rate(200, users=20), uid="source")
    rows.key_by("user").process(OneKeyHoards(), uid="hoard", schema="user STRING").sink(
        sl.sinks.Foreach(len), uid="sink"
    )
    with running(job) as handle:
        explanation = explained(handle, SlowCause.SKEW)
        latest = handle.checkpoints().latest.completed
    assert latest is not None
    hoard = latest.vertex("hoard")
    assert hoard is not None
    sizes = {subtask.index: subtask.metrics.state_bytes for subtask in hoard.subtasks if subtask.metrics is not None}
    assert (explanation.vertex, explanation.subtask) == ("hoard", max(sizes, key=sizes.__getitem__))
    assert "its siblings wrote" in explanation.sentence


# Operators that take their time.


class Stamp(sl.ProcessFunction):
    """Does much before each snapshot."""

    def process(self, row: sl.Row, context: sl.ProcessContext) -> None:
        context.emit({"user": row["user"]})

    def prepare_snapshot(self, checkpoint_id: int, context: sl.ProcessContext) -> None:
        time.sleep(1.3)


class SlowSnapshot(sl.Operator):
    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        self.context.emit(batch)

    def snapshot(self, checkpoint_id: int) -> None:
        time.sleep(1.3)


def stamped(rows: sl.Stream) -> sl.Stream:
    return rows.key_by("user").process(Stamp(), uid="stamp", schema="user STRING")


def snapshotted(rows: sl.Stream) -> sl.Stream:
    schema = sl.sources.Rate(1).schema
    return rows.rebalance().apply(SlowSnapshot(), uid="stamp", schema=schema, has_state=True).select("user")


@pytest.mark.parametrize("slow_part", [stamped, snapshotted])
def test_a_long_synchronous_part_is_blamed_on_its_operator(
    tmp_path: Path, slow_part: Callable[[sl.Stream], sl.Stream]
) -> None:
    settings = checkpoints(tmp_path, interval="2s")
    job = sl.Job("stamps", parallelism=2, checkpoints=settings, execution=QUICK_REPORTS)
    rows = slow_part(job.source(sl.sources.Rate(100), uid="source"))
    rows.rebalance().sink(sl.sinks.Foreach(len), uid="sink")
    with running(job) as handle:
        explanation = explained(handle, SlowCause.LONG_SYNCHRONOUS_PART)
    assert explanation.vertex == "stamp"
    assert re.search(r"processed nothing for \d", explanation.sentence)
    assert "prepare_snapshot" in explanation.advice


class Hangs(sl.ProcessFunction):
    def process(self, row: sl.Row, context: sl.ProcessContext) -> None:
        if row["id"] == 300:
            time.sleep(3600)
        context.emit({"user": row["user"]})


def test_an_operator_that_hangs_is_named_while_it_does_and_in_the_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = checkpoints(tmp_path, timeout="5s")
    job = sl.Job("hangs", parallelism=2, checkpoints=settings, execution=QUICK_REPORTS)
    rows = job.source(sl.sources.Rate(500), uid="source").key_by("user")
    rows.process(Hangs(), uid="calls", schema="user STRING").rebalance().sink(sl.sinks.Foreach(len), uid="sink")
    with running(job, ProcessCluster()) as handle:
        hanging = explained(handle, SlowCause.HUNG_OPERATOR, lambda record: record.completion is None)
        expired = explained(handle, SlowCause.HUNG_OPERATOR, lambda record: record.failure is not None)
        stuck = {str(view.id): view.stuck_ms for view in handle.view().subtasks}
        health = handle.view().health
    for explanation in (hanging, expired):
        assert explanation.vertex == "calls"
        assert stuck[f"calls/{explanation.subtask}"] > 3000
        assert "has been inside one call for" in explanation.sentence
    assert re.search(r"it was not complete in time \(\d", expired.sentence)
    name = f"subtask {expired.subtask} of `calls` has been inside one call"
    assert any("CHECKPOINT_EXPIRED" in text and name in text for text in caplog.messages), caplog.messages
    assert name in health.line


# Commits.


class Reluctant(sl.SinkWriter):
    """Refuses each commit for a while."""

    until_s: ClassVar[dict[str, float]] = {}

    def __init__(self) -> None:
        self._rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        self._rows += batch.num_rows

    def prepare(self, checkpoint_id: int) -> Sequence[Any]:
        rows, self._rows = self._rows, 0
        return [rows] if rows else []

    def commit(self, committable: sl.Committable, permit: sl.Permit) -> sl.CommitResult:
        until_s = Reluctant.until_s.setdefault(committable.name, time.monotonic() + 2.5)
        return sl.CommitResult.COMMITTED if time.monotonic() > until_s else sl.CommitResult.RETRY_LATER


class ReluctantSink(sl.Sink):
    def writer(self, context: sl.SinkContext) -> sl.SinkWriter:
        return Reluctant()


def test_commits_that_are_refused_are_blamed_on_the_sink(tmp_path: Path) -> None:
    settings = checkpoints(tmp_path, interval="1s", committer_retries=1000)
    job = sl.Job("commits", checkpoints=settings, execution=QUICK_REPORTS)
    rows = job.source(sl.sources.Rate(100), uid="source").rebalance()
    rows.sink(ReluctantSink(), uid="table")
    with running(job) as handle:
        waiting = explained(handle, SlowCause.FAILING_COMMITS)
        assert (waiting.vertex, waiting.subtask) == ("table", 0)
        assert "tried" in waiting.sentence
        assert "was asked to be tried again later" in waiting.sentence
        done = explained(
            handle,
            SlowCause.FAILING_COMMITS,
            lambda record: any(subtask.commit_ms > 2000 for vertex in record.vertices for subtask in vertex.subtasks),
        )
    assert done.path[-1].part is PathPart.COMMIT
    assert (done.path[-1].vertex, done.path[-1].subtask) == ("table", 0)
    assert done.path[-1].duration_ms > 2000


# The driver.


class SlowHook(sl.MasterHook):
    name = "slow"

    def snapshot(self, checkpoint_id: int) -> bytes | None:
        time.sleep(1.3)
        return None

    def restore(self, checkpoint_id: int, state: bytes | None) -> None:
        """Keeps nothing."""


def test_a_slow_hook_is_time_on_the_driver(tmp_path: Path) -> None:
    job = sl.Job("hooked", hooks=[SlowHook()], checkpoints=checkpoints(tmp_path), execution=QUICK_REPORTS)
    job.source(sl.sources.Rate(100), uid="source").sink(sl.sinks.Foreach(len), uid="sink")
    with running(job) as handle:
        explanation = explained(handle, SlowCause.DRIVER)
    assert "before it triggered the tasks" in explanation.sentence
    assert explanation.path[0].part is PathPart.PREPARATION


def test_slow_metadata_is_time_on_the_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SlowFiles, "delay_s", 1.3)
    objects = SlowFiles()
    objects.is_slow = lambda path: path.endswith("_metadata")
    job = sl.Job("metadata", checkpoints=checkpoints(tmp_path), execution=QUICK_REPORTS)
    job.source(sl.sources.Rate(100), uid="source").sink(sl.sinks.Foreach(len), uid="sink")
    handle = start_master(make_spec(job), ThreadCluster().provider(), objects=objects)
    try:
        explanation = explained(handle, SlowCause.DRIVER)
    finally:
        handle.cancel("120s")
    assert "to write the metadata" in explanation.sentence
    assert explanation.path[-1].part is PathPart.COMPLETION


# Nothing.


def test_a_quick_checkpoint_has_no_cause(tmp_path: Path) -> None:
    job = sl.Job("quick", parallelism=2, checkpoints=checkpoints(tmp_path), execution=QUICK_REPORTS)
    rows = job.source(sl.sources.Rate(1000), uid="source")
    rows.key_by("user").aggregate(n=sl.count(), uid="counts").sink(sl.sinks.Foreach(len), uid="sink")
    done = threading.Event()
    with running(job) as handle:
        deadline_s = time.monotonic() + DEADLINE_S
        while not done.is_set() and time.monotonic() < deadline_s:
            view = handle.view()
            quick = [
                view.explanations[record.id]
                for record in view.statistics.history
                if record.completion is not None and record.end_to_end_duration_ms < 500
            ]
            if len(quick) >= 3:
                done.set()
    assert done.is_set()
    assert {explanation.cause for explanation in quick} == {SlowCause.NOTHING}
    assert all(explanation.sentence.startswith("nothing slow: ") for explanation in quick)
    assert view.health.line == "healthy"
