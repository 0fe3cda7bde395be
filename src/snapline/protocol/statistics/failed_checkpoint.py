"""Why a checkpoint has failed, or is not complete yet: which subtask it waits for, and why that does not answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from snapline.protocol.statistics.barrier_wait import explain_wait, is_busy, is_held_up
from snapline.protocol.statistics.checkpoint_records import NO_ACK, CheckpointRecord, SubtaskStatistics
from snapline.protocol.statistics.critical_path import missing
from snapline.protocol.statistics.explanation import Explanation, SlowCause
from snapline.protocol.statistics.failure_sentences import WORDS, advice_on
from snapline.protocol.statistics.job_view import PlanView, SubtaskView
from snapline.protocol.statistics.slow_commit import waiting_commits
from snapline.text import fine_duration_text, size_text
from snapline.types import SubtaskId

HUNG_MS = 3_000
"""A subtask that a checkpoint waits for hangs if it has been inside one call for this long, and half of the wait."""

MAX_MESSAGE_CHARACTERS = 300
MAX_NAMES = 5


def explain_failure(record: CheckpointRecord, plan: PlanView, late: Explanation | None) -> Explanation:
    """Why a checkpoint has failed; `late` is why it was not complete in time, if that is how it failed."""
    failure = record.failure
    assert failure is not None
    words, advice = WORDS[failure.reason], advice_on(failure.reason)
    if late is None or late.cause is SlowCause.NOTHING:
        text = _short(failure.message)
        vertex, subtask = _decliner(failure.message, plan) or ("", None)
        sentence = f"{words}{text and f' ({text})'}"
        return Explanation(record.id, SlowCause.FAILED, sentence, advice, vertex, subtask)
    took, totals = fine_duration_text(record.end_to_end_duration_ms), record.totals
    absent = totals.subtasks - totals.acknowledged
    answers = f", {absent} of {totals.subtasks} subtasks had not answered" if absent else ""
    sentence = f"{late.sentence}; {words} ({took}){answers}"
    return Explanation(record.id, late.cause, sentence, late.advice or advice, late.vertex, late.subtask)


def explain_unfinished(
    record: CheckpointRecord,
    plan: PlanView,
    tasks: Mapping[SubtaskId, SubtaskView],
    earlier: Sequence[CheckpointRecord],
    took_ms: int,
) -> tuple[SubtaskId | None, Explanation]:
    """The subtask that a checkpoint waits for, or waited for when it failed, and why. None if it is the driver."""
    absent = missing(record)
    has_begun = record.started_ms != NO_ACK or any(subtask.metrics is not None for _, subtask in absent)
    if not absent or not has_begun:
        return None, _on_driver(record, took_ms, is_triggered=has_begun)
    hung = [view for id, _ in absent if (view := tasks.get(id)) is not None and _hangs(view, took_ms)]
    if hung:
        view = max(hung, key=lambda view: view.stuck_ms)
        return view.id, _hung(record, view)
    order = {vertex.id: number for number, vertex in enumerate(plan.vertices)}
    absent.sort(key=lambda part: (order.get(part[0].vertex, 0), part[0].index))
    reported = any(subtask.metrics is not None for _, subtask in absent)
    waiting = [id for id, subtask in absent if not _has_barrier(subtask)]
    held = [id for id in waiting if is_busy(tasks.get(id)) or is_held_up(tasks.get(id))]
    if held or (reported and waiting):
        id = held[0] if held else waiting[0]
        return id, explain_wait(record, plan, tasks, id, took_ms, is_over=False)
    if commits := waiting_commits({id: tasks[id] for id in waiting if id in tasks}):
        # A sink whose commits are behind takes no rows, and so no barriers.
        commit, waited = commits[0], fine_duration_text(took_ms)
        sentence = f"subtask {commit.id.index} of `{commit.id.vertex}` has waited {waited} for its last barrier"
        text = f"{sentence}, and takes no more rows: {commit.text}"
        return commit.id, Explanation(record.id, SlowCause.FAILING_COMMITS, text, commit.advice, *commit.id)
    return absent[0][0], _still_writing(record, [id for id, _ in absent], earlier, took_ms)


def _on_driver(record: CheckpointRecord, took_ms: int, *, is_triggered: bool) -> Explanation:
    took = fine_duration_text(took_ms)
    if is_triggered:
        sentence = (
            f"all subtasks have answered, but the driver could not complete it within {took}: metadata and journal"
        )
        advice = "look at the checkpoint storage as the driver sees it, and at the driver's load"
    else:
        sentence = (
            f"the driver has not triggered the tasks within {took}: a master hook or an operator coordinator is slow"
        )
        advice = "make the snapshots of master hooks and operator coordinators quick: they delay every checkpoint"
    return Explanation(record.id, SlowCause.DRIVER, sentence, advice)


def _hangs(view: SubtaskView, took_ms: int) -> bool:
    return view.stuck_ms >= max(HUNG_MS, took_ms / 2)


def _hung(record: CheckpointRecord, view: SubtaskView) -> Explanation:
    vertex, index = view.id
    sentence = hung_text(view)
    advice = hung_advice(vertex)
    return Explanation(
        record.id, SlowCause.HUNG_OPERATOR, f"{sentence}; the barrier waits for it", advice, vertex, index
    )


def hung_text(view: SubtaskView) -> str:
    """What a subtask that is inside one call does."""
    stuck = fine_duration_text(view.stuck_ms)
    return (
        f"subtask {view.id.index} of `{view.id.vertex}` has been inside one call for {stuck} without taking or "
        "emitting a row"
    )


def hung_advice(vertex: str) -> str:
    return (
        f"find the call in `{vertex}` that does not return (py-spy dump shows it): give calls to other systems a "
        "timeout, or make them with async_map"
    )


def _has_barrier(subtask: SubtaskStatistics) -> bool:
    """Whether the last barrier is known to have arrived: the synchronous part is over, and no barrier is missing."""
    metrics = subtask.metrics
    return metrics is not None and metrics.sync_ms >= 0 and metrics.alignment_ms >= 0


def _still_writing(
    record: CheckpointRecord, absent: Sequence[SubtaskId], earlier: Sequence[CheckpointRecord], took_ms: int
) -> Explanation:
    id, others = absent[0], len(absent) - 1
    and_others = f" and {others} other{'s' if others > 1 else ''}" if others else ""
    before = next((_write_before(other, id) for other in earlier), "")
    sentence = (
        f"{fine_duration_text(took_ms)} were not enough for subtask {id.index} of `{id.vertex}`{and_others} to write "
        f"state, though neither rows nor barriers hold it up: storage does not answer{before}"
    )
    advice = "look at the checkpoint storage and the network to it, and at the log of these subtasks"
    return Explanation(record.id, SlowCause.SLOW_STORAGE, sentence, advice, *id)


def _write_before(record: CheckpointRecord, id: SubtaskId) -> str:
    vertex = record.vertex(id.vertex)
    metrics = None if vertex is None or id.index >= len(vertex.subtasks) else vertex.subtasks[id.index].metrics
    if metrics is None or metrics.async_ms < 0:
        return ""
    size = size_text(max(metrics.checkpointed_bytes, 0))
    return f"; in checkpoint {record.id} it wrote {size} in {fine_duration_text(metrics.async_ms)}"


def _decliner(message: str, plan: PlanView) -> SubtaskId | None:
    """The subtask that a message begins with, as in `vertex/3#1 declined`."""
    name = message.partition("#")[0]
    vertex, _, index = name.rpartition("/")
    return SubtaskId(vertex, int(index)) if plan.vertex(vertex) is not None and index.isdecimal() else None


def _short(message: str) -> str:
    line = " ".join(message.split())
    return line if len(line) <= MAX_MESSAGE_CHARACTERS else f"{line[: MAX_MESSAGE_CHARACTERS - 1]}…"
