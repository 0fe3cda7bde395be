"""Checkpoints that fail, stay away, wait for commits, are held up or grow; and those with which nothing is wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.unit.protocol.statistics.view_kit import NOW_MS, answer, plan_of, record_of, silence, task_of, view_of

from snapline.config import Checkpoints
from snapline.protocol.statistics.checkpoint_health import BAD_FAILURES_MS, MOST_PASSING, checkpoint_notes
from snapline.protocol.statistics.checkpoint_records import (
    CheckpointRecord,
    Failure,
    LatestCheckpoints,
    StatisticsSnapshot,
)
from snapline.protocol.statistics.explanation import Explanation, SlowCause
from snapline.protocol.statistics.job_health import HealthIssue, HealthLevel, HealthNote
from snapline.protocol.statistics.job_view import JobView, SubtaskView
from snapline.protocol.statistics.task_metrics import CommitFigures
from snapline.types import NO_CHECKPOINT, FailureReason, JobStatus, SnapshotKind, TaskStatus

PLAN = plan_of({"source": 1, "sink": 1}, ("source", "sink"))
R = FailureReason
INTERVAL_MS = 1000


def completed(age_ms: int, id: int = 5, *, took_ms: int = 100, size: int = 0, **fields: Any) -> CheckpointRecord:
    parts = {"source": [answer(1)], "sink": [answer(took_ms, state_bytes=size)]}
    return record_of(parts, id=id, completed_ms=took_ms, trigger_ms=NOW_MS - age_ms - took_ms, **fields)


def failed(
    age_ms: int,
    reason: FailureReason = R.IO_EXCEPTION,
    id: int = NO_CHECKPOINT,
    kind: SnapshotKind = SnapshotKind.CHECKPOINT,
) -> CheckpointRecord:
    return record_of({}, id=id, failed=(0, reason, "PermissionError: no"), trigger_ms=NOW_MS - age_ms, kind=kind)


def job(
    *tasks: SubtaskView,
    latest: LatestCheckpoints | None = None,
    history: tuple[CheckpointRecord, ...] = (),
    **fields: Any,
) -> JobView:
    statistics = StatisticsSnapshot(latest=latest or LatestCheckpoints(), history=history)
    given = {"statistics": statistics, "interval_ms": INTERVAL_MS, **fields}
    return view_of(PLAN, *(tasks or (task_of("source"), task_of("sink"))), **given)


def notes(view: JobView) -> list[HealthNote]:
    return list(checkpoint_notes(view))


def the_note(view: JobView) -> HealthNote:
    (note,) = notes(view)
    assert note.advice
    return note


# Failures.


def test_one_that_could_not_start_is_told_with_reason_and_advice() -> None:
    view = job(latest=LatestCheckpoints(completed=completed(2000), failed=failed(500)))
    note = the_note(view)
    assert (note.level, note.issue) == (HealthLevel.WARNING, HealthIssue.CHECKPOINTS_FAIL)
    assert note.text == (
        "a checkpoint could not start: the checkpoint storage did not work (PermissionError: no); none has completed "
        "for 2 s"
    )
    assert "checkpoint storage" in note.advice


def test_it_gets_worse_if_none_completes() -> None:
    last = completed(BAD_FAILURES_MS)
    assert the_note(job(latest=LatestCheckpoints(completed=last, failed=failed(500)))).level is HealthLevel.BAD
    manual = job(latest=LatestCheckpoints(completed=last, failed=failed(500)), interval_ms=None)
    assert the_note(manual).level is HealthLevel.WARNING, "nobody waits for the next"


def test_the_explanation_says_more_than_the_reason() -> None:
    expired = failed(500, R.CHECKPOINT_EXPIRED, id=6)
    said = Explanation(6, SlowCause.HUNG_OPERATOR, "subtask 0 of `sink` hangs", "mend it", "sink", 0)
    latest = LatestCheckpoints(completed=completed(2000), failed=expired)
    note = the_note(job(latest=latest, explanations={6: said}))
    assert note.text.startswith("checkpoint 6 failed: subtask 0 of `sink` hangs; none has")
    assert (note.advice, note.vertex, note.subtask) == ("mend it", "sink", 0)
    assert the_note(job(latest=latest)).text.startswith("checkpoint 6 failed: it was not complete in time")


@pytest.mark.parametrize(
    "latest",
    [
        LatestCheckpoints(completed=completed(100), failed=failed(500)),
        LatestCheckpoints(completed=completed(500), failed=failed(100, R.CHECKPOINT_COORDINATOR_SUSPEND)),
        LatestCheckpoints(completed=completed(500), failed=failed(100, R.CHECKPOINT_DECLINED_TASK_CLOSING, id=6)),
        LatestCheckpoints(
            completed=completed(900),
            savepoint=completed(100, kind=SnapshotKind.SAVEPOINT),
            failed=failed(500, kind=SnapshotKind.SAVEPOINT),
        ),
        LatestCheckpoints(completed=completed(500), not_started=Failure(NOW_MS, R.PERIODIC_SCHEDULER_SHUTDOWN)),
    ],
)
def test_what_is_over_routine_or_passing_is_not_told(latest: LatestCheckpoints) -> None:
    assert notes(job(latest=latest)) == []


def test_what_may_pass_is_told_when_it_does_not() -> None:
    declined = [failed(100, R.CHECKPOINT_DECLINED_TASK_CLOSING, id=20 - number) for number in range(MOST_PASSING)]
    latest = LatestCheckpoints(completed=completed(500), failed=declined[0])
    assert notes(job(latest=latest, history=(*declined[:-1], completed(500), declined[-1]))) == []
    assert the_note(job(latest=latest, history=(*declined, completed(500)))).issue is HealthIssue.CHECKPOINTS_FAIL


def test_a_failed_savepoint_says_what_it_was() -> None:
    latest = LatestCheckpoints(completed=completed(500), failed=failed(100, id=9, kind=SnapshotKind.SAVEPOINT))
    assert the_note(job(latest=latest)).text.startswith("savepoint 9 failed")


# Checkpoints that stay away.


def test_checkpoints_that_stay_away_are_told_after_some_intervals() -> None:
    assert notes(job(latest=LatestCheckpoints(completed=completed(4_900)))) == []
    note = the_note(job(latest=LatestCheckpoints(completed=completed(6_000))))
    assert (note.level, note.issue) == (HealthLevel.WARNING, HealthIssue.NO_CHECKPOINT)
    assert note.text == "no checkpoint has completed for 6 s (6 intervals)"
    assert the_note(job(latest=LatestCheckpoints(completed=completed(15_000)))).level is HealthLevel.BAD


def test_the_one_under_way_says_what_it_waits_for() -> None:
    pending = record_of({"sink": [silence()]}, id=6, trigger_ms=NOW_MS - 7000)
    said = Explanation(6, SlowCause.BACK_PRESSURE, "`sink` is slow", "make it faster", "sink", 0)
    view = job(latest=LatestCheckpoints(completed=completed(8_000)), history=(pending,), explanations={6: said})
    note = the_note(view)
    assert note.text.endswith("; checkpoint 6: `sink` is slow")
    assert (note.advice, note.vertex, note.subtask) == ("make it faster", "sink", 0)


@pytest.mark.parametrize(
    "fields",
    [
        {"interval_ms": None},
        {"interval_ms": 60_000},
        {"is_live": False},
        {"status": JobStatus.RESTARTING},
        {"status_times": {JobStatus.RUNNING: NOW_MS - 1000}},
    ],
)
def test_a_job_in_which_none_is_due_misses_none(fields: dict[str, Any]) -> None:
    assert notes(job(latest=LatestCheckpoints(completed=completed(20_000)), **fields)) == []


def test_a_job_that_ends_misses_none() -> None:
    ended = task_of("source", status=TaskStatus.FINISHED)
    assert notes(job(ended, task_of("sink"), latest=LatestCheckpoints(completed=completed(20_000)))) == []
    no_more = Checkpoints(after_tasks_finish=False)
    view = job(task_of("source"), task_of("sink", status=TaskStatus.FINISHED), checkpoints=no_more)
    assert notes(view) == []


def test_long_checkpoints_are_given_their_time() -> None:
    slow = completed(20_000, took_ms=15_000)
    assert notes(job(latest=LatestCheckpoints(completed=slow))) == []
    assert the_note(job(latest=LatestCheckpoints(completed=completed(47_000, took_ms=15_000)))) is not None


# Commits.


@pytest.mark.parametrize(
    ("figures", "level"),
    [
        (CommitFigures(waiting=1, waiting_ms=9_000, retries=2), None),
        (CommitFigures(waiting=0, waiting_ms=0, retries=0, last_problem="once"), None),
        (CommitFigures(waiting=1, waiting_ms=10_000), HealthLevel.WARNING),
        (CommitFigures(waiting=1, waiting_ms=500, retries=3), HealthLevel.WARNING),
        (CommitFigures(waiting=1, waiting_ms=60_000, retries=30), HealthLevel.BAD),
        (CommitFigures(dropped=2, last_problem="refused"), HealthLevel.BAD),
    ],
)
def test_commits_that_fail_are_told(figures: CommitFigures, level: HealthLevel | None) -> None:
    view = job(task_of("source"), task_of("sink", commits=figures), latest=LatestCheckpoints(completed=completed(100)))
    found = notes(view)
    assert [note.level for note in found] == ([] if level is None else [level])
    for note in found:
        assert (note.issue, note.vertex, note.subtask) == (HealthIssue.FAILING_COMMITS, "sink", 0)
        assert note.advice


# Back-pressure.


@pytest.mark.parametrize(("took_ms", "is_told"), [(10_000, True), (9_000, False)])
def test_back_pressure_is_told_where_it_makes_checkpoints_slow(took_ms: int, is_told: bool) -> None:
    slow = completed(100, took_ms=took_ms)
    said = Explanation(5, SlowCause.BACK_PRESSURE, "back-pressure from `sink`", "make it faster", "sink", 0)
    view = job(latest=LatestCheckpoints(completed=slow), history=(slow,), explanations={5: said})
    assert [note.issue for note in notes(view)] == [HealthIssue.BACK_PRESSURE] * is_told
    other = {5: replace(said, cause=SlowCause.SLOW_STORAGE)}
    assert notes(job(latest=LatestCheckpoints(completed=slow), history=(slow,), explanations=other)) == []


def test_back_pressure_of_one_under_way_counts_too() -> None:
    pending = record_of({"sink": [silence()]}, id=6, trigger_ms=NOW_MS - 12_000)
    said = Explanation(6, SlowCause.SKEW, "skew", "spread the rows", "sink", 0)
    view = job(
        latest=LatestCheckpoints(completed=completed(14_000, took_ms=8_000)), history=(pending,), explanations={6: said}
    )
    assert the_note(view).issue is HealthIssue.BACK_PRESSURE


# Growth.


def growing(sizes: list[int], minutes: int = 1) -> tuple[CheckpointRecord, ...]:
    """Newest first, so many minutes apart."""
    return tuple(
        completed(number * minutes * 60_000, id=100 - number, size=size * 1_000_000)
        for number, size in enumerate(sizes)
    )


def grown(sizes: list[int], minutes: int = 1, **fields: Any) -> list[HealthNote]:
    history = growing(sizes, minutes)
    return notes(job(latest=LatestCheckpoints(completed=history[0]), history=history, **fields))


def test_state_that_grows_from_checkpoint_to_checkpoint_is_told() -> None:
    (note,) = grown([200, 180, 160, 140, 120, 110, 105, 100, 100])
    assert (note.level, note.issue, note.vertex) == (HealthLevel.WARNING, HealthIssue.GROWING_STATE, "sink")
    assert note.text == (
        "state grows steadily: from 100.0 MB to 200.0 MB within 8 min (12.5 MB a minute), most of all that of `sink`"
    )


@pytest.mark.parametrize(
    ("sizes", "fields"),
    [
        ([200, 180, 160, 140, 120, 110], {}),
        ([200, 180, 190, 140, 150, 110, 120, 100, 100], {}),
        ([130, 125, 120, 115, 110, 108, 106, 103, 100], {}),
        ([9, 8, 7, 6, 5, 4, 3, 2, 1], {}),
        ([200, 180, 160, 140, 120, 110, 105, 100, 100], {"status_times": {JobStatus.RUNNING: NOW_MS - 540_000}}),
        ([200, 180, 160, 140, 120, 110, 105, 100, 100], {"is_live": False}),
    ],
    ids=["few", "up and down", "a little", "small", "young", "stored"],
)
def test_other_growth_is_not(sizes: list[int], fields: dict[str, Any]) -> None:
    assert grown(sizes, **fields) == []


def test_savepoints_are_left_out() -> None:
    history = tuple(replace(record, kind=SnapshotKind.SAVEPOINT) for record in growing([900, 100] * 8))
    assert notes(job(latest=LatestCheckpoints(completed=completed(100)), history=history)) == []
