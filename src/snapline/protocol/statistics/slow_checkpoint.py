"""Finds out why a checkpoint took its time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from snapline.protocol.statistics.barrier_wait import explain_wait, is_busy
from snapline.protocol.statistics.checkpoint_records import CheckpointRecord
from snapline.protocol.statistics.critical_path import last_answer, longest, open_path, path_of
from snapline.protocol.statistics.explanation import Explanation, PathPart, PathStep, SlowCause
from snapline.protocol.statistics.failed_checkpoint import explain_failure, explain_unfinished
from snapline.protocol.statistics.job_view import PlanView, SubtaskView
from snapline.protocol.statistics.slow_commit import explain_commit
from snapline.protocol.statistics.state_writes import comparable, explain_write
from snapline.protocol.statistics.synchronous_part import explain_synchronous, late_sender
from snapline.text import fine_duration_text, size_text
from snapline.types import FailureReason, SubtaskId

SLOW_MS = 1_000
"""A checkpoint that took less is not slow."""

OUTSTANDING = 0.4
"""A part that took less than this share of all is not what made the checkpoint slow."""

_DRIVER = (PathPart.PREPARATION, PathPart.COMPLETION)
_WAIT = (PathPart.START_DELAY, PathPart.ALIGNMENT)
_GROUPS = (_DRIVER, _WAIT, (PathPart.SYNCHRONOUS,), (PathPart.ASYNCHRONOUS,), (PathPart.ACKNOWLEDGEMENT,))

_WORDS = {
    PathPart.PREPARATION: "what the driver did before it triggered the tasks",
    PathPart.START_DELAY: "the way of the barrier to",
    PathPart.ALIGNMENT: "the alignment of",
    PathPart.SYNCHRONOUS: "the synchronous part of",
    PathPart.ASYNCHRONOUS: "the asynchronous write of",
    PathPart.ACKNOWLEDGEMENT: "the answer of",
    PathPart.COMPLETION: "its completion by the driver",
    PathPart.COMMIT: "the commit of",
}


def explain(
    record: CheckpointRecord,
    plan: PlanView,
    tasks: Mapping[SubtaskId, SubtaskView],
    earlier: Sequence[CheckpointRecord],
    now_ms: int,
) -> Explanation:
    """Why `record` took its time, or takes it; one that is not slow has the cause NOTHING.

    `tasks` are as they were at its end, but for their commits, which follow it. `earlier` are those before it, newest
    first.
    """
    if record.failure is not None:
        took_ms = record.end_to_end_duration_ms
        found, path = _unfinished(record, plan, tasks, earlier, took_ms)
        is_late = record.failure.reason is FailureReason.CHECKPOINT_EXPIRED
        return replace(explain_failure(record, plan, found if is_late else None), path=path)
    if record.completion is None:
        found, path = _unfinished(record, plan, tasks, earlier, max(now_ms - record.trigger_ms, 0))
        return replace(found, path=path)
    took_ms = max(record.completion.completed_ms - record.trigger_ms, record.end_to_end_duration_ms)
    path = path_of(record)
    found_commit = explain_commit(record, tasks, took_ms, now_ms)
    return replace(found_commit or _completed(record, plan, tasks, earlier, path, took_ms), path=path)


def _unfinished(
    record: CheckpointRecord,
    plan: PlanView,
    tasks: Mapping[SubtaskId, SubtaskView],
    earlier: Sequence[CheckpointRecord],
    took_ms: int,
) -> tuple[Explanation, tuple[PathStep, ...]]:
    waits_for, found = explain_unfinished(record, plan, tasks, comparable(record, earlier), took_ms)
    path = open_path(record, waits_for, took_ms)
    if took_ms >= SLOW_MS:
        return found, path
    totals = record.totals
    done = f"{totals.acknowledged} of {totals.subtasks} subtasks have answered"
    return _nothing(record, f"in progress for {fine_duration_text(took_ms)}, {done}"), path


def _completed(
    record: CheckpointRecord,
    plan: PlanView,
    tasks: Mapping[SubtaskId, SubtaskView],
    earlier: Sequence[CheckpointRecord],
    path: Sequence[PathStep],
    took_ms: int,
) -> Explanation:
    last = last_answer(record)
    parts = max(_GROUPS, key=lambda parts: _sum(path, parts))
    spent_ms = _sum(path, parts)
    if last is None or took_ms < SLOW_MS or spent_ms < OUTSTANDING * took_ms:
        return _nothing(record, _unremarkable(path, took_ms))
    id, _ = last
    if parts is _DRIVER:
        return _driver(record, path)
    if parts is _WAIT:
        sender = late_sender(record, plan, tasks, id)
        if sender is not None:
            return explain_synchronous(record, plan, sender)
        return explain_wait(record, plan, tasks, id, spent_ms, is_over=True)
    if PathPart.SYNCHRONOUS in parts:
        return explain_synchronous(record, plan, id)
    if PathPart.ASYNCHRONOUS in parts:
        return explain_write(record, id, tasks.get(id), comparable(record, earlier))
    return _late_answer(record, id, tasks.get(id), spent_ms)


def _driver(record: CheckpointRecord, path: Iterable[PathStep]) -> Explanation:
    before_ms, after_ms = (_sum(path, (part,)) for part in _DRIVER)
    if before_ms > after_ms:
        sentence = (
            f"the driver took {fine_duration_text(before_ms)} before it triggered the tasks: a master hook, an "
            "operator coordinator, or the directory of the checkpoint was slow"
        )
        advice = "make the snapshots of master hooks and operator coordinators quick: they delay every checkpoint"
    else:
        size = size_text(0 if record.completion is None else record.completion.metadata_bytes)
        sentence = (
            f"the driver took {fine_duration_text(after_ms)} after the last subtask had answered, to write the "
            f"metadata ({size}) and the journal"
        )
        advice = (
            "look at the checkpoint storage as the driver sees it, and at the driver's load; a lower inline_threshold "
            "makes the metadata smaller"
        )
    return Explanation(record.id, SlowCause.DRIVER, sentence, advice)


def _late_answer(record: CheckpointRecord, id: SubtaskId, view: SubtaskView | None, spent_ms: int) -> Explanation:
    late = f"subtask {id.index} of `{id.vertex}` answered {fine_duration_text(spent_ms)} after it had written its state"
    if is_busy(view):
        assert view is not None
        sentence = f"{late}: its thread was busy with rows ({view.recent_busy * 100:.0f} %)"
        advice = f"make the calls of `{id.vertex}` shorter: checkpoints wait for the end of each"
        return Explanation(record.id, SlowCause.BACK_PRESSURE, sentence, advice, *id)
    sentence = f"{late}: the network or the driver was slow, or the clocks of the machines differ"
    advice = "look at the load of the driver, and set the clocks of all machines by NTP"
    return Explanation(record.id, SlowCause.DRIVER, sentence, advice)


def _nothing(record: CheckpointRecord, sentence: str) -> Explanation:
    return Explanation(record.id, SlowCause.NOTHING, sentence)


def _unremarkable(path: Sequence[PathStep], took_ms: int) -> str:
    step = longest(step for step in path if step.part is not PathPart.COMMIT)
    took = fine_duration_text(took_ms)
    if step is None:
        return f"nothing slow: {took}"
    words = _WORDS[step.part]
    part = words if step.subtask is None else f"{words} `{step.vertex}`/{step.subtask}"
    if took_ms < SLOW_MS:
        return f"nothing slow: {took}, the longest part was {part}"
    return f"nothing stands out: {took}, the longest part was {part} ({fine_duration_text(step.duration_ms)})"


def _sum(path: Iterable[PathStep], parts: Iterable[PathPart]) -> int:
    wanted = set(parts)
    return sum(step.duration_ms for step in path if step.part in wanted)
