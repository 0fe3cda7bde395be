"""The subtasks of a job as their reports show them."""

from __future__ import annotations

from typing import Any

import pytest

from snapline.protocol.statistics.job_view import SubtaskView
from snapline.protocol.statistics.task_history import RECENT_MS, TaskHistory
from snapline.protocol.statistics.task_metrics import TaskMetrics
from snapline.types import ExecutionId, SubtaskId, TaskStatus

FIRST, SECOND = SubtaskId("counts", 0), SubtaskId("counts", 1)


def metrics(rows: int = 0, *, attempt: int = 1, busy_ms: int = 0, held_up_ms: int = 0, **fields: Any) -> TaskMetrics:
    idle_ms = 1000 - busy_ms - held_up_ms
    execution = ExecutionId(FIRST, attempt)
    return TaskMetrics(execution, rows, 2 * rows, 0, 0, 1000, busy_ms, idle_ms, held_up_ms, 0, 0, **fields)


def running() -> TaskHistory:
    """An attempt that runs since time 100."""
    history = TaskHistory([SECOND, FIRST], 0)
    history.deployed(1, [FIRST, SECOND], [], 100)
    history.changed(ExecutionId(FIRST, 1), TaskStatus.RUNNING, 200)
    return history


def first(history: TaskHistory) -> SubtaskView:
    return history.views[FIRST]


def test_before_the_first_attempt_nothing_has_started() -> None:
    views = TaskHistory([SECOND, FIRST], 50).views
    assert list(views) == [FIRST, SECOND]
    assert {(view.status, view.attempt, view.since_ms) for view in views.values()} == {(TaskStatus.CREATED, 0, 50)}


def test_subtasks_of_an_attempt_are_deployed_or_had_finished() -> None:
    history = TaskHistory([FIRST, SECOND], 0)
    history.deployed(3, [FIRST, SECOND], [SECOND], 100)
    history.placed(lambda slot: f"host-{slot}")
    assert [(view.status, view.attempt, view.host) for view in history.views.values()] == [
        (TaskStatus.DEPLOYING, 3, "host-0"),
        (TaskStatus.FINISHED, 3, "host-1"),
    ]


def test_facts_about_older_executions_change_nothing() -> None:
    history = running()
    before = history.views
    history.changed(ExecutionId(FIRST, 0), TaskStatus.FAILED, 300)
    history.changed(ExecutionId(SubtaskId("other", 0), 1), TaskStatus.FAILED, 300)
    history.changed(ExecutionId(FIRST, 1), TaskStatus.RUNNING, 300)
    history.reported(metrics(attempt=0), 300)
    assert history.views == before


def test_what_ran_is_cancelled_when_the_attempt_is_over() -> None:
    history = running()
    history.changed(ExecutionId(SECOND, 1), TaskStatus.FAILED, 250)
    history.stopped(400)
    assert [(view.status, view.since_ms) for view in history.views.values()] == [
        (TaskStatus.CANCELED, 400),
        (TaskStatus.FAILED, 250),
    ]


def test_rates_are_those_of_the_last_report() -> None:
    history = running()
    history.reported(metrics(100), 1200)
    history.reported(metrics(150), 2200)
    assert (first(history).rows_in_per_second, first(history).rows_out_per_second) == (50.0, 100.0)


def test_times_add_up() -> None:
    history = running()
    history.reported(metrics(1, busy_ms=300, held_up_ms=500), 1200)
    history.reported(metrics(2, busy_ms=100), 2200)
    view = first(history)
    assert (view.busy_ms, view.backpressured_ms, view.idle_ms) == (400, 500, 1100)


def test_one_call_lasts_as_long_as_no_row_moves_and_nothing_waits() -> None:
    history = running()
    history.reported(metrics(5, busy_ms=1000), 1000)
    assert first(history).stuck_ms == 0, "rows have moved"
    history.reported(metrics(5, busy_ms=1000), 2000)
    history.reported(metrics(5, busy_ms=1000), 3000)
    assert first(history).stuck_ms == 2000
    history.reported(metrics(5, busy_ms=990), 4000)
    assert first(history).stuck_ms == 0


def test_recent_shares_follow_the_reports() -> None:
    history = running()
    history.reported(metrics(1, busy_ms=1000), 1000)
    assert first(history).recent_busy == 1.0, "the first report is all there is"
    for number in range(2, 40):
        history.reported(metrics(number, held_up_ms=800), number * 1000)
        if number == 2:
            assert 0.5 < first(history).recent_busy < 1.0
        if number * 1000 > 3 * RECENT_MS:
            assert first(history).recent_busy < 0.1
    assert first(history).recent_backpressured == pytest.approx(0.8, abs=0.01)


def test_a_report_of_no_time_changes_no_share() -> None:
    history = running()
    history.reported(metrics(1, busy_ms=600), 1000)
    empty = TaskMetrics(ExecutionId(FIRST, 1), 1, 2, 0, 0, 0, 0, 0, 0, 0, 0)
    history.reported(empty, 1001)
    assert first(history).recent_busy == 0.6


def test_it_is_known_since_when_neither_rows_nor_event_time_have_moved() -> None:
    history = running()
    view = first(history)
    assert (view.rows_since_ms, view.watermark_since_ms) == (100, 100), "since it was deployed"
    history.reported(metrics(1), 1000)
    history.reported(metrics(1, watermark_ms=7), 2000)
    history.reported(metrics(1, watermark_ms=7), 3000)
    view = first(history)
    assert (view.rows_since_ms, view.watermark_since_ms) == (1000, 2000)


def test_views_are_a_copy() -> None:
    history = running()
    before = history.views
    history.reported(metrics(1), 1000)
    assert before[FIRST].metrics is None
