"""Commits that fail or take long are explained; those that are done in time are not."""

from __future__ import annotations

from tests.unit.protocol.statistics.view_kit import TRIGGER_MS, answer, record_of, task_of, tasks_of

from snapline.protocol.statistics.explanation import SlowCause
from snapline.protocol.statistics.slow_commit import STALE_MS, explain_commit, waiting_commits
from snapline.protocol.statistics.task_metrics import CommitFigures
from snapline.types import SubtaskId

COMPLETED_MS = TRIGGER_MS + 100
PROBLEM = "the commit of line/sink/1/1/7/0 was asked to be tried again later"


def test_output_that_waits_is_explained_with_the_problem() -> None:
    record = record_of({"sink": [answer(80, commit_ms=5), answer(90)]}, completed_ms=100)
    figures = CommitFigures(waiting=1, waiting_ms=12_000, retries=4, last_problem=PROBLEM)
    tasks = tasks_of(task_of("sink", 0, commits=CommitFigures()), task_of("sink", 1, commits=figures))
    said = explain_commit(record, tasks, 100, COMPLETED_MS + 12_500)
    assert said is not None
    assert (said.cause, said.vertex, said.subtask) == (SlowCause.FAILING_COMMITS, "sink", 1)
    assert said.sentence == (
        f"the output of subtask 1 of `sink` has waited 12 s for its commit, which was tried 4 times: {PROBLEM}"
    )
    assert "committer_retries" in said.advice


def test_what_waits_is_not_that_of_a_checkpoint_long_before_or_one_that_is_committed() -> None:
    figures = CommitFigures(waiting=1, waiting_ms=2_000)
    tasks = tasks_of(task_of("sink", 0, commits=figures))
    open_one = record_of({"sink": [answer(80)]}, completed_ms=100)
    assert explain_commit(open_one, tasks, 100, COMPLETED_MS + 2_000 + STALE_MS) is not None
    assert explain_commit(open_one, tasks, 100, COMPLETED_MS + 2_001 + STALE_MS) is None
    committed = record_of({"sink": [answer(80, commit_ms=5)]}, completed_ms=100)
    assert explain_commit(committed, tasks, 100, COMPLETED_MS + 2_000) is None


def test_a_slow_commit_is_told_with_its_time() -> None:
    record = record_of({"sink": [answer(80, commit_ms=5), answer(90, commit_ms=2500)]}, completed_ms=100)
    tasks = tasks_of(task_of("sink", 1, commits=CommitFigures(last_problem=PROBLEM)))
    said = explain_commit(record, tasks, 100, COMPLETED_MS + 9_000)
    assert said is not None
    assert said.sentence == f"subtask 1 of `sink` took 2.5 s to commit its output: {PROBLEM}"
    other = explain_commit(record_of({"sink": record.vertices[0].subtasks}, id=8, completed_ms=100), tasks, 100, 0)
    assert other is not None
    assert other.sentence == "subtask 1 of `sink` took 2.5 s to commit its output", "the problem was another one's"


def test_a_commit_that_took_less_than_the_checkpoint_is_not_slow() -> None:
    record = record_of({"sink": [answer(80, commit_ms=2500)]}, completed_ms=100)
    assert explain_commit(record, {}, 2600, COMPLETED_MS) is None
    quick = record_of({"sink": [answer(80, commit_ms=900)]}, completed_ms=100)
    assert explain_commit(quick, {}, 100, COMPLETED_MS) is None


def test_those_that_wait_longest_come_first() -> None:
    def waiting(index: int, waiting_ms: int) -> CommitFigures:
        return CommitFigures(waiting=1 if waiting_ms else 0, waiting_ms=waiting_ms)

    tasks = tasks_of(*(task_of("sink", index, commits=waiting(index, 500 * index)) for index in range(3)))
    assert [commit.id for commit in waiting_commits(tasks)] == [SubtaskId("sink", 2), SubtaskId("sink", 1)]
    assert waiting_commits(tasks)[0].text == "the output of subtask 2 of `sink` has waited 1.0 s for its commit"
