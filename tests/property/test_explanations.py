"""Whatever is measured, by whatever clocks: checkpoints are explained, jobs are judged, and paths have no gaps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.protocol.statistics.view_kit import FORWARD, HASH, TRIGGER_MS, plan_of, record_of, task_of, view_of

from snapline.protocol.statistics.checkpoint_records import (
    CheckpointRecord,
    LatestCheckpoints,
    StatisticsSnapshot,
    SubtaskMetrics,
    SubtaskStatistics,
)
from snapline.protocol.statistics.explanation import Explanation, PathPart, SlowCause
from snapline.protocol.statistics.explanations import Explanations
from snapline.protocol.statistics.health_check import job_health
from snapline.protocol.statistics.job_health import HealthLevel
from snapline.protocol.statistics.job_view import AttemptFailure, PlanView, SubtaskView
from snapline.protocol.statistics.packed_subtasks import PackedSubtasks
from snapline.protocol.statistics.slow_checkpoint import explain
from snapline.protocol.statistics.task_metrics import CommitFigures
from snapline.types import MAX_WATERMARK, FailureReason, JobStatus, SnapshotKind, SubtaskId, TaskStatus

pytestmark = pytest.mark.slow

VERTICES = ("orders", "clicks", "join", "sink")
DURATIONS = st.sampled_from((-1, 0, 1, 40, 900, 3_000, 60_000, 10**7))
SHARES = st.sampled_from((0.0, 0.1, 0.3, 0.6, 1.0))


@st.composite
def plans(draw: st.DrawFn) -> PlanView:
    parallelism = {vertex: draw(st.integers(1, 2)) for vertex in VERTICES}
    edges = [("orders", "join"), ("clicks", "join"), ("join", "sink")]
    return plan_of(parallelism, *((*edge, draw(st.sampled_from((HASH, FORWARD)))) for edge in edges))


@st.composite
def answers(draw: st.DrawFn, *, is_open: bool) -> SubtaskStatistics:
    measured: dict[str, Any] = {
        field.name: draw(st.booleans() if field.name in ("unaligned", "aborted") else DURATIONS)
        for field in fields(SubtaskMetrics)
    }
    metrics = SubtaskMetrics(**measured)
    if is_open and draw(st.booleans()):
        return SubtaskStatistics(0, metrics=draw(st.none() | st.just(metrics)))
    took_ms = max(draw(DURATIONS), 0)
    return SubtaskStatistics(0, TRIGGER_MS + took_ms, took_ms, metrics, draw(DURATIONS))


@st.composite
def records(draw: st.DrawFn, plan: PlanView, id: int) -> CheckpointRecord:
    how = draw(st.sampled_from(("completed", "failed", "in progress")))
    subtasks = {
        vertex.id: [draw(answers(is_open=how != "completed")) for _ in range(vertex.parallelism)]
        for vertex in plan.vertices
    }
    end_ms = max(draw(DURATIONS), 0)
    return record_of(
        subtasks,
        id=id,
        completed_ms=end_ms if how == "completed" else None,
        failed=(end_ms, draw(st.sampled_from(FailureReason)), "orders/0#1 declined") if how == "failed" else None,
        started_ms=draw(st.none() | DURATIONS),
        trigger_ms=TRIGGER_MS + draw(st.integers(-(10**6), 10**6)),
        kind=draw(st.sampled_from(SnapshotKind)),
    )


@st.composite
def tasks(draw: st.DrawFn, plan: PlanView) -> Mapping[SubtaskId, SubtaskView]:
    figures = st.none() | st.builds(
        CommitFigures,
        waiting=st.integers(0, 3),
        waiting_ms=DURATIONS,
        retries=st.integers(0, 5),
        dropped=st.integers(0, 1),
    )
    made = [
        task_of(
            vertex.id,
            index,
            busy=draw(SHARES),
            held_up=draw(SHARES),
            rows=draw(st.integers(0, 10**6)),
            queued_bytes=draw(st.integers(0, 10)),
            watermark_ms=draw(st.none() | st.sampled_from((0, 5, MAX_WATERMARK))),
            commits=draw(figures),
            status=draw(st.sampled_from(TaskStatus)),
            stuck_ms=max(draw(DURATIONS), 0),
            rows_since_ms=draw(st.integers(0, 3 * 10**6)),
            watermark_since_ms=draw(st.integers(0, 3 * 10**6)),
        )
        for vertex in plan.vertices
        for index in range(vertex.parallelism)
    ]
    return {task.id: task for task in made if draw(st.integers(0, 9))}


def check(explanation: Explanation, record: CheckpointRecord, plan: PlanView) -> None:
    assert explanation.checkpoint_id == record.id
    assert explanation.sentence
    is_routine = record.failure is not None and record.failure.reason.is_routine
    assert explanation.advice or explanation.cause is SlowCause.NOTHING or is_routine
    assert (record.failure is None) or explanation.cause is not SlowCause.NOTHING
    vertex = plan.vertex(explanation.vertex)
    assert (vertex is None) == (explanation.vertex == "")
    if explanation.subtask is not None:
        assert 0 <= explanation.subtask < 3
    at_ms = 0
    for step in explanation.path:
        assert step.from_ms == at_ms
        assert step.to_ms > at_ms
        assert (step.subtask is None) == (step.part in (PathPart.PREPARATION, PathPart.COMPLETION))
        at_ms = step.to_ms


def packed(record: CheckpointRecord) -> CheckpointRecord:
    vertices = (replace(vertex, subtasks=PackedSubtasks(vertex.subtasks)) for vertex in record.vertices)
    return replace(record, vertices=tuple(vertices))


def stripped(record: CheckpointRecord) -> CheckpointRecord:
    """As it is kept for long: without subtasks."""
    return replace(record, vertices=tuple(replace(vertex, subtasks=()) for vertex in record.vertices))


@given(st.data())
def test_every_checkpoint_is_explained(data: st.DataObject) -> None:
    plan = data.draw(plans())
    before = data.draw(st.just(plan) | plans())  # as after a rescale
    record, *earlier = (data.draw(records(before, id)) for id in range(3, 0, -1))
    seen, now_ms = data.draw(tasks(plan)), TRIGGER_MS + data.draw(DURATIONS)
    explanation = explain(record, plan, seen, earlier, now_ms)
    check(explanation, record, plan)
    assert explain(packed(record), plan, seen, list(map(packed, earlier)), now_ms) == explanation
    check(explain(stripped(record), plan, seen, list(map(stripped, earlier)), now_ms), record, plan)


@given(st.data())
def test_every_job_is_judged(data: st.DataObject) -> None:
    plan = data.draw(plans())
    history = tuple(data.draw(records(plan, id)) for id in range(3, 0, -1))
    seen, now_ms = data.draw(tasks(plan)), TRIGGER_MS + data.draw(DURATIONS)
    explanations = Explanations(plan).of(history, seen, now_ms)
    assert set(explanations) == {1, 2, 3}
    latest = LatestCheckpoints(
        completed=next((record for record in history if record.completion is not None), None),
        failed=next((record for record in history if record.failure is not None), None),
    )
    status = data.draw(st.sampled_from(JobStatus))
    failures = data.draw(
        st.lists(st.builds(AttemptFailure, st.integers(0, now_ms), st.just(1), st.just("why")), max_size=4)
    )
    view = view_of(
        plan,
        *seen.values(),
        status=status,
        now_ms=now_ms,
        statistics=StatisticsSnapshot(latest=latest, history=history),
        explanations=explanations,
        failures=tuple(sorted(failures, key=lambda failure: -failure.at_ms)),
        repeats=data.draw(st.integers(0, 3)),
        interval_ms=data.draw(st.none() | st.integers(10, 60_000)),
        is_live=data.draw(st.booleans()),
    )
    health = job_health(view)
    assert health.line
    assert (health.level is HealthLevel.GOOD) == (not health.notes)
    levels = [note.level for note in health.notes]
    assert levels == sorted(levels, key=[HealthLevel.BAD, HealthLevel.WARNING].index)
    assert all(note.text and note.advice for note in health.notes)
    if status in (JobStatus.FINISHED, JobStatus.CANCELED):
        assert health.level is HealthLevel.GOOD
