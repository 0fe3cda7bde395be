"""Barriers that wait behind rows: the subtask that cannot keep up is found, not those that wait for it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.unit.protocol.statistics.view_kit import FORWARD, answer, plan_of, record_of, task_of, tasks_of

from snapline.protocol.statistics.barrier_wait import bottleneck, explain_wait, siblings_of, waiting_place
from snapline.protocol.statistics.checkpoint_records import CheckpointRecord, SubtaskStatistics
from snapline.protocol.statistics.explanation import SlowCause
from snapline.protocol.statistics.job_view import SubtaskView
from snapline.protocol.statistics.task_metrics import CommitFigures
from snapline.types import SnapshotKind, SubtaskId

PLAN = plan_of({"source": 2, "per-user": 2, "sink": 2}, ("source", "per-user"), ("per-user", "sink"))


def both(subtask: SubtaskStatistics) -> Sequence[SubtaskStatistics]:
    return [subtask, subtask]


def late_record(kind: SnapshotKind = SnapshotKind.CHECKPOINT) -> CheckpointRecord:
    """Barriers reached `per-user` after 4 s, and `sink` after 8."""
    return record_of(
        {
            "source": both(answer(10, start_delay_ms=5)),
            "per-user": both(answer(4000, start_delay_ms=3000, alignment_ms=950)),
            "sink": both(answer(8200, start_delay_ms=8000, alignment_ms=150)),
        },
        completed_ms=8300,
        kind=kind,
    )


def pressed(sink_busy: float = 0.94) -> dict[SubtaskId, SubtaskView]:
    return tasks_of(
        *(task_of("source", index, held_up=0.9) for index in (0, 1)),
        *(task_of("per-user", index, busy=0.1, held_up=0.8) for index in (0, 1)),
        task_of("sink", 0, busy=sink_busy - 0.1),
        task_of("sink", 1, busy=sink_busy),
    )


@pytest.mark.parametrize("start", ["source", "per-user", "sink"])
def test_the_first_downstream_that_is_not_held_up_itself_is_the_bottleneck(start: str) -> None:
    found = bottleneck(PLAN, pressed(), SubtaskId(start, 1))
    assert found is not None
    assert found.id == ("sink", 1)


def test_only_the_subtask_behind_a_forward_edge_counts() -> None:
    plan = plan_of({"source": 2, "sink": 2}, ("source", "sink", FORWARD))
    tasks = tasks_of(
        task_of("source", 0, held_up=0.9),
        task_of("source", 1),
        task_of("sink", 0, busy=0.6),
        task_of("sink", 1, busy=1.0),
    )
    found = bottleneck(plan, tasks, SubtaskId("source", 0))
    assert found is not None
    assert found.id == ("sink", 0)


def test_a_vertex_of_which_only_another_branch_is_slow_is_not_blamed() -> None:
    plan = plan_of(
        {"source": 1, "slow": 1, "quick": 1, "elsewhere": 1},
        ("source", "slow"),
        ("source", "quick"),
        ("elsewhere", "quick"),
    )
    tasks = tasks_of(
        task_of("source", held_up=0.9),
        task_of("slow", busy=0.9),
        task_of("quick", busy=0.1),
        task_of("elsewhere", busy=1.0),
    )
    found = bottleneck(plan, tasks, SubtaskId("source", 0))
    assert found is not None
    assert found.id.vertex == "slow"


def test_one_that_waits_for_something_outside_is_found_by_the_rows_in_front_of_it() -> None:
    tasks = tasks_of(task_of("source", held_up=0.9), task_of("per-user", busy=0.02, queued_bytes=5_000))
    found = bottleneck(PLAN, tasks, SubtaskId("source", 0))
    assert found is not None
    assert found.id.vertex == "per-user"


def test_a_subtask_that_just_waits_is_no_bottleneck() -> None:
    assert bottleneck(PLAN, tasks_of(task_of("sink")), SubtaskId("sink", 0)) is None
    assert bottleneck(PLAN, {}, SubtaskId("sink", 0)) is None


def test_the_place_where_the_barrier_waited_is_looked_for_upstream() -> None:
    assert waiting_place(late_record(), PLAN, SubtaskId("sink", 0)) == ("sink", 0)
    record = record_of(
        {
            "source": both(answer(10, start_delay_ms=5)),
            "per-user": [answer(20, start_delay_ms=10), answer(7900, start_delay_ms=7000, alignment_ms=800)],
            "sink": both(answer(8200, start_delay_ms=30, alignment_ms=7950)),
        },
        completed_ms=8300,
    )
    assert waiting_place(record, PLAN, SubtaskId("sink", 0)) == ("per-user", 1)


def test_the_sentence_names_who_waited_who_is_slow_and_what_to_do() -> None:
    record = record_of(
        {"source": both(answer(10)), "per-user": both(answer(8200, start_delay_ms=8150)), "sink": both(answer(8190))},
        completed_ms=8300,
    )
    said = explain_wait(record, PLAN, pressed(), SubtaskId("per-user", 1), 8200, is_over=True)
    assert said.sentence == (
        "subtask 1 of `per-user` waited 8.2 s for its last barrier: back-pressure from `sink` (subtask 1, 94 % busy)"
    )
    assert said.advice == "turn on unaligned checkpoints, or make `sink` faster or wider (more subtasks)"
    assert (said.cause, said.vertex, said.subtask) == (SlowCause.BACK_PRESSURE, "sink", 1)


def test_one_that_is_slow_itself_is_to_blame() -> None:
    said = explain_wait(late_record(), PLAN, pressed(), SubtaskId("sink", 1), 8150, is_over=True)
    assert "back-pressure, it cannot keep up with its rows (94 % busy)" in said.sentence
    assert (said.vertex, said.subtask) == ("sink", 1)


def test_savepoints_and_unaligned_checkpoints_get_no_advice_to_overtake() -> None:
    said = explain_wait(late_record(SnapshotKind.SAVEPOINT), PLAN, pressed(), SubtaskId("sink", 1), 8150, is_over=True)
    assert said.advice == "make `sink` faster or wider (more subtasks)"


def test_many_rows_at_one_subtask_are_skew() -> None:
    tasks = tasks_of(
        task_of("source", 0, held_up=0.9),
        task_of("per-user", 0, busy=0.1, rows=300),
        task_of("per-user", 1, busy=0.97, rows=12_000),
    )
    said = explain_wait(late_record(), PLAN, tasks, SubtaskId("per-user", 1), 4000, is_over=False)
    assert (said.cause, said.vertex, said.subtask) == (SlowCause.SKEW, "per-user", 1)
    assert "has got 12,000 rows, its siblings 300 (median)" in said.sentence
    assert "has waited" in said.sentence
    assert [view.id.index for view in siblings_of(PLAN, tasks, SubtaskId("per-user", 1))] == [0]


@pytest.mark.parametrize(("rows", "busy"), [(11_000, 0.1), (300, 0.9)])
def test_one_slow_subtask_with_its_share_of_rows_is_not_skew(rows: int, busy: float) -> None:
    tasks = tasks_of(task_of("per-user", 0, busy=busy, rows=rows), task_of("per-user", 1, busy=0.97, rows=12_000))
    said = explain_wait(late_record(), PLAN, tasks, SubtaskId("per-user", 1), 4000, is_over=False)
    assert said.cause is SlowCause.BACK_PRESSURE


def test_a_sink_that_takes_no_rows_because_of_its_commits_says_so() -> None:
    commits = CommitFigures(waiting=3, waiting_ms=7000, retries=4, last_problem="the table is locked")
    tasks = tasks_of(
        *(task_of("per-user", index, held_up=0.9) for index in (0, 1)),
        task_of("sink", 0, queued_bytes=10_000, commits=commits),
    )
    said = explain_wait(late_record(), PLAN, tasks, SubtaskId("per-user", 0), 4000, is_over=False)
    assert (said.cause, said.vertex, said.subtask) == (SlowCause.FAILING_COMMITS, "sink", 0)
    assert "tried 4 times: the table is locked" in said.sentence


def test_without_figures_nobody_else_is_blamed() -> None:
    said = explain_wait(late_record(), PLAN, {}, SubtaskId("sink", 1), 8150, is_over=True)
    assert (said.cause, said.vertex, said.subtask) == (SlowCause.BACK_PRESSURE, "sink", 1)
    assert "do not show who held it up" in said.sentence
