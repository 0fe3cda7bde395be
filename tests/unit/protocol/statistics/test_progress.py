"""How far a job has come, in figures and in one line."""

from __future__ import annotations

import pytest

from snapline.protocol.statistics.checkpoint_records import StatisticsSnapshot, SubtaskMetrics
from snapline.protocol.statistics.checkpoint_statistics import CheckpointStatistics
from snapline.protocol.statistics.progress import MAX_CAUSE_CHARACTERS, Progress, RateMeter, progress_of
from snapline.protocol.statistics.task_metrics import TaskMetrics
from snapline.types import MAX_WATERMARK, ExecutionId, FailureReason, JobStatus, SnapshotKind, SubtaskId


def task(vertex: str, index: int, rows: int, watermark_ms: int | None = None, attempt: int = 1) -> TaskMetrics:
    execution = ExecutionId(SubtaskId(vertex, index), attempt)
    return TaskMetrics(execution, rows, rows, 0, 0, 1000, 0, 1000, 0, 0, 0, watermark_ms)


def statistics(*, failed_after: bool = False, failed_before: bool = False) -> StatisticsSnapshot:
    it = CheckpointStatistics()

    def fail(checkpoint_id: int) -> None:
        it.created(checkpoint_id, SnapshotKind.CHECKPOINT, None, 1000, {"v": 1}, unaligned=False)
        it.failed(checkpoint_id, 2000, FailureReason.CHECKPOINT_EXPIRED, "too slow")

    if failed_before:
        fail(6)
    it.created(7, SnapshotKind.CHECKPOINT, None, 1000, {"v": 1}, unaligned=False)
    it.acknowledged(7, "v", 0, 1140, SubtaskMetrics(checkpointed_bytes=1_200_000))
    it.completed(7, 1200, "/chk-7")
    if failed_after:
        fail(8)
    return it.snapshot()


def look(*tasks: TaskMetrics, of: StatisticsSnapshot | None = None) -> Progress:
    return progress_of(JobStatus.RUNNING, 1, "", tasks, {"read"}, of or StatisticsSnapshot())


def test_rows_are_those_that_sources_read() -> None:
    """Also those of a region that has not restarted with the newest attempt."""
    progress = look(task("read", 0, 10), task("read", 1, 5, attempt=0), task("map", 0, 15))
    assert progress.rows == 15


def test_event_time_is_that_of_the_task_that_is_furthest_behind() -> None:
    assert look(task("read", 0, 1, 5000), task("map", 0, 1, 3000), task("out", 0, 1)).event_time_ms == 3000
    assert look(task("read", 0, 1)).event_time_ms is None
    assert look(task("read", 0, 1, MAX_WATERMARK)).event_time_ms is None, "all data has ended"


def test_only_a_failure_after_the_last_completed_checkpoint_counts() -> None:
    assert look(of=statistics(failed_before=True)).failed is None
    failed = look(of=statistics(failed_after=True)).failed
    assert failed is not None
    assert failed.id == 8


def test_a_running_job_is_one_line() -> None:
    progress = look(task("read", 0, 10, 58_000), of=statistics(failed_after=True))
    assert progress.line(61_200, 20_134.4) == (
        "RUNNING, 20,134 rows/s, event time 1970-01-01T00:00:58Z (3 s ago), "
        "checkpoint 7 60 s ago (took 140 ms, 1.2 MB), checkpoint 8 failed: CHECKPOINT_EXPIRED"
    )
    assert look().line(0, 0) == "RUNNING, 0 rows/s, no checkpoint yet"


def test_a_job_that_does_not_run_says_why() -> None:
    progress = progress_of(JobStatus.RESTARTING, 2, "boom\nand more", [], set(), StatisticsSnapshot())
    assert progress.line(0, 0) == "RESTARTING after: boom and more"
    long = progress_of(JobStatus.RESTARTING, 2, "x" * 1000, [], set(), StatisticsSnapshot()).line(0, 0)
    assert len(long) == len("RESTARTING after: ") + MAX_CAUSE_CHARACTERS
    starting = progress_of(JobStatus.INITIALIZING, 0, "", [], set(), StatisticsSnapshot())
    assert starting.line(0, 0) == "INITIALIZING"


def test_the_rate_is_that_of_the_window() -> None:
    meter = RateMeter(3000)
    assert meter.rows_per_second == 0
    for second, rows in enumerate((0, 100, 200, 300, 1300)):
        meter.add(second * 1000, rows)
    assert meter.rows_per_second == pytest.approx(400)


def test_a_step_of_the_counts_does_not_make_the_rate_fluctuate() -> None:
    meter = RateMeter(10_000)
    for now_ms, rows in ((0, 0), (1000, 100), (1300, 100), (1600, 100)):
        meter.add(now_ms, rows)
    assert meter.rows_per_second == 100
    meter.add(2000, 100)
    assert meter.rows_per_second == 50, "it has come to a stop"


def test_another_attempt_starts_over() -> None:
    meter = RateMeter(3000)
    meter.add(0, 1000, attempt=1)
    meter.add(1000, 2000, attempt=1)
    meter.add(2000, 10, attempt=2)
    assert meter.rows_per_second == 0
    meter.add(3000, 30, attempt=2)
    assert meter.rows_per_second == 20
    meter.clear()
    assert meter.rows_per_second == 0


def test_statistics_are_shown_in_one_line() -> None:
    shown = statistics(failed_after=True)
    assert repr(shown) == (
        "<Checkpoints: 1 completed, 1 failed, 0 in progress; last <Checkpoint 7 COMPLETED, 1 of 1 subtasks, 140 ms, "
        "1.2 MB>>"
    )
    assert repr(shown.latest.failed) == ("<Checkpoint 8 FAILED: CHECKPOINT_EXPIRED, 0 of 1 subtasks, 1 s, 0 B>")
    assert repr(StatisticsSnapshot()) == "<Checkpoints: 0 completed, 0 failed, 0 in progress>"
    assert repr(shown.history[1].vertices[0]) == "<v: 1 of 1 subtasks, 1.2 MB>"
    assert repr(shown.summary.checkpointed_bytes) == (
        "<Summary of 1: min 1200000, median 1.2e+06, p99 1.2e+06, max 1200000>"
    )
