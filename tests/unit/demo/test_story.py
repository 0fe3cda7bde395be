"""The demo's view of the events and metrics of its job."""

from __future__ import annotations

from pathlib import Path

from tests.unit.demo.committed_files import commit

from snapline.demo.results import Results
from snapline.demo.story import CheckpointLine, Story
from snapline.protocol.statistics.checkpoint_records import CheckpointStatus, SubtaskMetrics
from snapline.protocol.statistics.checkpoint_statistics import CheckpointStatistics
from snapline.protocol.statistics.task_metrics import TaskMetrics
from snapline.types import ExecutionId, JobStatus, SnapshotKind, SubtaskId


def _task(attempt: int, rows: int, index: int = 0, vertex: str = "clicks") -> TaskMetrics:
    return TaskMetrics(ExecutionId(SubtaskId(vertex, index), attempt), rows, rows, 0, 0, 250, 0, 250, 0, 0, 0)


def test_a_kill_is_followed_from_the_failure_to_the_recovery() -> None:
    story = Story(1000, started_ms=10_000)
    events = [(10_100, "attempt 1 starts from the beginning"), (11_000, "attempt 1 runs")]
    story.follow(events)
    story.killed(20_000, 4711, "a worker", "all is gone")
    recovering = [story.is_recovering]
    events += [
        (20_050, "RUNNING -> FAILING"),
        (20_050, "attempt 1 failed: slot 0 is lost"),
        (20_300, "attempt 2 starts from /somewhere/chk/clicks/chk-14"),
    ]
    story.follow(events)
    recovering.append(story.is_recovering)
    events.append((21_500, "attempt 2 runs"))
    story.follow(events)
    story.follow(events)
    assert [*recovering, story.is_recovering] == [True, True, False]
    (restart,) = story.restarts
    assert (restart.victim, restart.checkpoint_id, restart.recovery_s) == ("a worker", 14, 1.5)
    assert [moment.text for moment in story.moments] == [
        "the job runs",
        "kill -9 4711: a worker; all is gone",
        "attempt 1 has failed: slot 0 is lost",
        "attempt 2 starts from checkpoint 14: its counts, and its place in the clicks",
        "running again after 1.5 s",
    ]
    assert [moment.at_ms for moment in story.moments] == [1000, 10_000, 10_050, 10_300, 11_500]


def test_a_failure_that_nobody_caused_is_told_too() -> None:
    story = Story(1000, started_ms=0)
    story.follow(
        [
            (5, "attempt 1 starts from the beginning"),
            (10, "attempt 1 runs"),
            (1000, "attempt 1 failed: " + "long " * 200),
            (1200, "attempt 2 starts from the beginning"),
            (3000, "attempt 2 runs"),
        ]
    )
    (restart,) = story.restarts
    assert (restart.victim, restart.checkpoint_id, restart.recovery_s) == (None, None, 2.0)
    assert all(len(moment.text) < 200 for moment in story.moments)


def test_the_count_of_clicks_goes_back_to_the_checkpoint_with_a_restart(tmp_path: Path) -> None:
    commit(tmp_path, 1, 0, {"ada": [*range(1, 101)]})
    commit(tmp_path, 2, 0, {"ada": [*range(101, 301)]})
    results = Results(tmp_path)
    results.refresh()
    statistics = CheckpointStatistics().snapshot()
    story = Story(1000, started_ms=0)
    events = [(0, "attempt 1 starts from the beginning"), (0, "attempt 1 runs")]
    story.follow(events)

    def rows(metrics: dict[str, TaskMetrics], status: JobStatus = JobStatus.RUNNING) -> int:
        return story.view(1000, status, statistics, metrics, results).rows

    of_both = {"clicks/0": _task(1, 200), "clicks/1": _task(1, 150, 1), "counts/0": _task(1, 340, vertex="counts")}
    assert rows(of_both) == 350
    events += [(500, "attempt 1 failed: killed"), (600, "attempt 2 starts from /d/chk-1")]
    story.follow(events)
    assert rows(of_both, JobStatus.INITIALIZING) == 100, "what the old attempt said counts no more"
    story.follow([*events, (700, "attempt 2 runs")])
    assert rows({"clicks/0": _task(2, 30)}) == 130
    assert rows({}) == 130
    assert rows({}, JobStatus.FINISHED) == 1000


def test_the_rate_is_that_of_the_last_seconds(tmp_path: Path) -> None:
    results, statistics = Results(tmp_path), CheckpointStatistics().snapshot()
    story = Story(1_000_000, started_ms=0)
    story.follow([(0, "attempt 1 starts from the beginning")])
    rates = [
        story.view(now_ms, JobStatus.RUNNING, statistics, {"clicks/0": _task(1, rows)}, results).rows_per_second
        for now_ms, rows in ((0, 0), (1000, 100), (2000, 1100), (3000, 2100))
    ]
    assert rates == [0, 100, 550, 1000]


def test_checkpoints_are_shown_newest_first_with_time_and_size(tmp_path: Path) -> None:
    statistics = CheckpointStatistics()
    for number in (1, 2):
        statistics.created(number, SnapshotKind.CHECKPOINT, None, 1000, {"clicks": 1}, unaligned=False)
    statistics.acknowledged(1, "clicks", 0, 1040, SubtaskMetrics(checkpointed_bytes=77))
    statistics.completed(1, 1050, "/d/chk-1")
    view = Story(1, 0).view(0, JobStatus.RUNNING, statistics.snapshot(), {}, Results(tmp_path))
    assert view.checkpoints == (
        CheckpointLine(2, CheckpointStatus.IN_PROGRESS),
        CheckpointLine(1, CheckpointStatus.COMPLETED, 40, 77),
    )
    assert view.completed == 1
