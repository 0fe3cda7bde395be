"""Explanations are made once, when a checkpoint ends, and made anew only when more becomes known."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from tests.unit.protocol.statistics.view_kit import TRIGGER_MS, answer, plan_of, record_of, silence, task_of, tasks_of

from snapline.protocol.statistics import explanations as module
from snapline.protocol.statistics.checkpoint_records import CheckpointRecord
from snapline.protocol.statistics.explanation import Explanation, SlowCause
from snapline.protocol.statistics.explanations import AT_ONCE, REVISED, Explanations
from snapline.protocol.statistics.task_metrics import CommitFigures

PLAN = plan_of({"source": 1, "sink": 1}, ("source", "sink"))
BUSY = tasks_of(task_of("source", held_up=0.9), task_of("sink", busy=0.9))
QUIET = tasks_of(task_of("source"), task_of("sink"))


def late(id: int) -> CheckpointRecord:
    parts = {"source": [answer(5)], "sink": [answer(3000, start_delay_ms=2950)]}
    return record_of(parts, id=id, completed_ms=3010, trigger_ms=TRIGGER_MS + 10_000 * id)


def late_ones(count: int) -> tuple[CheckpointRecord, ...]:
    """A history, newest first."""
    return tuple(late(id) for id in range(count, 0, -1))


def test_the_tasks_count_as_they_were_at_the_end() -> None:
    explanations, history = Explanations(PLAN), late_ones(1)
    said = explanations.ended(1, history, BUSY, 0)
    assert said is not None
    assert "90 % busy" in said.sentence
    assert explanations.of(history, QUIET, 0) == {1: said}


def test_one_that_the_history_does_not_hold_is_not_explained() -> None:
    assert Explanations(PLAN).ended(4, late_ones(2), BUSY, 0) is None


def test_what_has_ended_is_explained_once(monkeypatch: pytest.MonkeyPatch) -> None:
    explanations, history = Explanations(PLAN), late_ones(3)
    first = explanations.of(history, BUSY, 0)
    monkeypatch.setattr(module, "explain", lambda *_: pytest.fail("explained again"))
    assert explanations.of(history, QUIET, 1_000) == first


def test_more_that_is_reported_leads_to_another_explanation() -> None:
    explanations, record = Explanations(PLAN), record_of({"sink": [answer(20)]}, completed_ms=30)
    assert explanations.of([record], QUIET, TRIGGER_MS)[7].cause is SlowCause.NOTHING
    committed = record_of({"sink": [answer(20, commit_ms=4000)]}, completed_ms=30)
    assert explanations.of([committed], QUIET, TRIGGER_MS)[7].cause is SlowCause.FAILING_COMMITS


def test_commits_are_seen_as_they_are_now() -> None:
    explanations, record = Explanations(PLAN), record_of({"source": [answer(5)], "sink": [answer(20)]}, completed_ms=30)
    explanations.ended(7, [record], QUIET, TRIGGER_MS)
    waiting = tasks_of(task_of("sink", commits=CommitFigures(waiting=1, waiting_ms=3000, retries=2)))
    said = explanations.of([record], waiting, TRIGGER_MS + 3030)[7]
    assert (said.cause, said.vertex) == (SlowCause.FAILING_COMMITS, "sink")
    done = explanations.of([record], QUIET, TRIGGER_MS + 4000)[7]
    assert done.cause is SlowCause.NOTHING


def test_one_in_progress_is_explained_each_time() -> None:
    explanations, record = Explanations(PLAN), record_of({"source": [answer(5)], "sink": [silence()]})
    assert explanations.of([record], BUSY, TRIGGER_MS + 100)[7].cause is SlowCause.NOTHING
    assert explanations.of([record], BUSY, TRIGGER_MS + 5000)[7].cause is SlowCause.BACK_PRESSURE
    done = replace(late(7), id=7)
    assert explanations.of([done], QUIET, 0)[7].path[-1].to_ms == 3010


def test_what_an_earlier_driver_said_stands() -> None:
    explanations, history = Explanations(PLAN), late_ones(3)
    said = {2: Explanation(2, SlowCause.SKEW, "as it was")}
    explanations.preceded_by(said)
    found = explanations.of(history, QUIET, 0)
    assert (found[2], set(found)) == (said[2], {1, 2, 3})


def test_what_leaves_the_history_is_forgotten() -> None:
    explanations, history = Explanations(PLAN), late_ones(20)
    assert set(explanations.of(history, QUIET, 0)) == set(range(1, 21))
    assert set(explanations.of(history[:4], QUIET, 0)) == {17, 18, 19, 20}
    assert explanations.of((), QUIET, 0) == {}


def test_the_number_of_explanations_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_KEPT", 8)
    explanations, history = Explanations(PLAN), late_ones(20)
    assert set(explanations.of(history, QUIET, 0)) <= set(range(1, 21))
    assert len(explanations.of(history, QUIET, 0)) <= 8 + REVISED


def test_a_long_past_is_explained_bit_by_bit() -> None:
    explanations, history = Explanations(PLAN), late_ones(100)
    assert len(explanations.of(history, QUIET, 0)) == REVISED + AT_ONCE
    for _ in range(5):
        found = explanations.of(history, QUIET, 0)
    assert set(found) == set(range(1, 101))


def test_a_history_of_ten_thousand_costs_little() -> None:
    explanations, history = Explanations(PLAN), late_ones(10_000)
    explanations.preceded_by({record.id: Explanation(record.id, SlowCause.NOTHING, "") for record in history})
    explanations.of(history, QUIET, 0)
    times = []
    for _ in range(5):
        started_s = time.perf_counter()
        assert len(explanations.of(history, QUIET, 0)) == 10_000
        times.append(time.perf_counter() - started_s)
    assert min(times) < 0.05
