"""What is wrong with the checkpoints of a job: they fail, stay away, wait for commits, are held up, or grow."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from snapline.protocol.statistics.checkpoint_records import CheckpointRecord, CheckpointStatus
from snapline.protocol.statistics.explanation import SlowCause
from snapline.protocol.statistics.failure_sentences import WORDS, advice_on
from snapline.protocol.statistics.job_health import HealthIssue, HealthLevel, HealthNote
from snapline.protocol.statistics.job_view import JobView
from snapline.protocol.statistics.slow_commit import waiting_commits
from snapline.text import duration_text, size_text
from snapline.types import NO_CHECKPOINT, JobStatus, TaskStatus

OVERDUE_INTERVALS = 5
LEAST_OVERDUE_MS = 5_000
"""No checkpoint for this many intervals, and this long, is worth a warning; three times that is bad."""

BAD_FAILURES_MS = 10_000
"""Checkpoints that fail are bad if none has completed for three intervals, and this long."""

MOST_PASSING = 5
"""So many checkpoints in a row that tasks decline are worth a warning."""

WAITING_COMMIT_MS = 10_000
STUCK_COMMIT_MS = 60_000
MANY_RETRIES = 3
"""Output that waits this long for its commit, or was refused this often, is worth a warning."""

HELD_UP_MS = 10_000
"""Back-pressure is worth a warning if it makes checkpoints take this long, and longer than their interval."""

LEAST_GROWTH_BYTES = 64_000_000
LEAST_GROWTH_MS = 300_000
LEAST_AGE_MS = 600_000
LEAST_GROWTH = 1.5
MOST_COMPARED = 50
LEAST_COMPARED = 8
"""State grows steadily if it does so from checkpoint to checkpoint for this long, in a job that is not new."""

MAX_MESSAGE_CHARACTERS = 300


def checkpoint_notes(view: JobView) -> Iterator[HealthNote]:
    """One is enough to say that checkpoints fail, stay away or are held up: the worst of these."""
    is_running = view.is_live and view.status is JobStatus.RUNNING
    note = _failing(view) or ((_overdue(view) or _held_up(view)) if is_running else None)
    if note is not None:
        yield note
    if is_running:
        yield from _commits(view)
        yield from _growing(view)


def _failing(view: JobView) -> HealthNote | None:
    latest = view.statistics.latest
    record = latest.failed
    failure = None if record is None else record.failure
    if record is None or failure is None or failure.reason.is_routine:
        return None
    completed = (latest.completed, latest.savepoint if record.kind.is_savepoint else None)
    ends = [other.completion.completed_ms for other in completed if other is not None and other.completion is not None]
    if ends and max(ends) >= failure.failure_ms:
        return None
    if failure.reason.is_passing and _failed_in_a_row(view) < MOST_PASSING:
        return None
    kind = "savepoint" if record.kind.is_savepoint else "checkpoint"
    explanation = view.explanations.get(record.id)
    if record.id == NO_CHECKPOINT:
        what = f"a {kind} could not start: {WORDS[failure.reason]} ({_short(failure.message)})"
    elif explanation is not None:
        what = f"{kind} {record.id} failed: {explanation.sentence}"
    else:
        what = f"{kind} {record.id} failed: {WORDS[failure.reason]} ({_short(failure.message)})"
    since_ms = _since_ms(view)
    missing_ms = view.now_ms - since_ms
    is_bad = view.interval_ms is not None and missing_ms >= max(3 * view.interval_ms, BAD_FAILURES_MS)
    level = HealthLevel.BAD if is_bad else HealthLevel.WARNING
    text = f"{what}; none has completed for {duration_text(max(missing_ms, 0))}"
    advice = advice_on(failure.reason)
    if explanation is None:
        return HealthNote(level, HealthIssue.CHECKPOINTS_FAIL, text, advice)
    vertex, subtask = explanation.vertex, explanation.subtask
    return HealthNote(level, HealthIssue.CHECKPOINTS_FAIL, text, explanation.advice or advice, vertex, subtask)


def _overdue(view: JobView) -> HealthNote | None:
    interval_ms = view.interval_ms
    if interval_ms is None or _is_ending(view):
        return None
    last = view.statistics.latest.completed
    usual_ms = 0 if last is None else last.end_to_end_duration_ms
    limit_ms = max(OVERDUE_INTERVALS * interval_ms, LEAST_OVERDUE_MS, 3 * usual_ms + interval_ms)
    missing_ms = view.now_ms - _since_ms(view)
    if missing_ms < limit_ms:
        return None
    level = HealthLevel.BAD if missing_ms >= 3 * limit_ms else HealthLevel.WARNING
    text = f"no checkpoint has completed for {duration_text(missing_ms)} ({missing_ms // interval_ms} intervals)"
    pending = next((other for other in view.statistics.history if other.status is CheckpointStatus.IN_PROGRESS), None)
    said = None if pending is None else view.explanations.get(pending.id)
    if said is None:
        advice = "look in the log for what keeps checkpoints from starting"
        return HealthNote(level, HealthIssue.NO_CHECKPOINT, text, advice)
    text += f"; checkpoint {said.checkpoint_id}: {said.sentence}"
    advice = said.advice or "wait for it, or raise the interval"
    return HealthNote(level, HealthIssue.NO_CHECKPOINT, text, advice, said.vertex, said.subtask)


def _held_up(view: JobView) -> HealthNote | None:
    for record in view.statistics.history[:2]:
        said = view.explanations.get(record.id)
        if said is None or said.cause not in (SlowCause.BACK_PRESSURE, SlowCause.SKEW):
            continue
        is_open = record.status is CheckpointStatus.IN_PROGRESS
        took_ms = view.now_ms - record.trigger_ms if is_open else record.end_to_end_duration_ms
        if took_ms >= max(HELD_UP_MS, view.interval_ms or 0):
            text, issue = f"checkpoints are held up: {said.sentence}", HealthIssue.BACK_PRESSURE
            return HealthNote(HealthLevel.WARNING, issue, text, said.advice, said.vertex, said.subtask)
    return None


def _commits(view: JobView) -> Iterator[HealthNote]:
    interval_ms = view.interval_ms or 0
    for commit in waiting_commits({task.id: task for task in view.subtasks})[:1]:
        waiting_ms = commit.figures.waiting_ms
        if waiting_ms >= max(WAITING_COMMIT_MS, 3 * interval_ms) or commit.figures.retries >= MANY_RETRIES:
            is_bad = waiting_ms >= max(STUCK_COMMIT_MS, 10 * interval_ms)
            level = HealthLevel.BAD if is_bad else HealthLevel.WARNING
            yield HealthNote(level, HealthIssue.FAILING_COMMITS, commit.text, commit.advice, *commit.id)
    for task in view.subtasks:
        commits = None if task.metrics is None else task.metrics.commits
        if commits is not None and commits.dropped:
            vertex, index = task.id
            text = (
                f"subtask {index} of `{vertex}` has dropped the output of {commits.dropped} commits that failed for "
                f"good: {commits.last_problem}"
            )
            advice = f"look in the log why `{vertex}` refused them; the rows are not written again by themselves"
            yield HealthNote(HealthLevel.BAD, HealthIssue.FAILING_COMMITS, text, advice, vertex, index)
            return


def _growing(view: JobView) -> Iterator[HealthNote]:
    completed = [
        record
        for record in view.statistics.history[:MOST_COMPARED]
        if record.completion is not None and not record.kind.is_savepoint
    ]
    running_ms = view.now_ms - view.status_times.get(JobStatus.RUNNING, view.now_ms)
    if len(completed) < LEAST_COMPARED or running_ms < LEAST_AGE_MS:
        return
    newest, oldest = completed[0], completed[-1]
    span_ms, sizes = newest.trigger_ms - oldest.trigger_ms, [record.totals.state_bytes for record in completed]
    falls = sum(later < earlier for later, earlier in pairwise(sizes))
    is_large = sizes[0] >= LEAST_GROWTH_BYTES and sizes[0] >= LEAST_GROWTH * sizes[-1]
    if not is_large or span_ms < LEAST_GROWTH_MS or falls > len(sizes) // 10:
        return
    by_minute = round((sizes[0] - sizes[-1]) * 60_000 / span_ms)
    vertex = _grown_most(newest, oldest)
    text = (
        f"state grows steadily: from {size_text(sizes[-1])} to {size_text(sizes[0])} within {duration_text(span_ms)} "
        f"({size_text(by_minute)} a minute), most of all that of `{vertex}`"
    )
    advice = f"if it is not meant to, give the state of `{vertex}` a time to live, or look for windows that never close"
    yield HealthNote(HealthLevel.WARNING, HealthIssue.GROWING_STATE, text, advice, vertex)


def _grown_most(newest: CheckpointRecord, oldest: CheckpointRecord) -> str:
    sizes = {vertex.vertex: vertex.totals.state_bytes for vertex in oldest.vertices}
    grown = {vertex.vertex: vertex.totals.state_bytes - sizes.get(vertex.vertex, 0) for vertex in newest.vertices}
    return max(grown, key=grown.__getitem__, default="")


def _since_ms(view: JobView) -> int:
    """Since when a checkpoint is missing: the last one that completed, or since the job runs."""
    last = view.statistics.latest.completed
    completed_ms = 0 if last is None or last.completion is None else last.completion.completed_ms
    return max(completed_ms, view.status_times.get(JobStatus.RUNNING, view.started_ms))


def _is_ending(view: JobView) -> bool:
    """Whether no checkpoint may be due, because tasks have finished."""
    sources = {vertex.id for vertex in view.plan.vertices if vertex.is_source}
    finished = [task for task in view.subtasks if task.status is TaskStatus.FINISHED]
    if finished and not view.checkpoints.after_tasks_finish:
        return True
    reading = [task for task in view.subtasks if task.id.vertex in sources and task.status is not TaskStatus.FINISHED]
    return bool(finished) and not reading


def _failed_in_a_row(view: JobView) -> int:
    count = 0
    for record in view.statistics.history:
        if record.failure is not None:
            count += 1
        elif record.completion is not None:
            break
    return count


def _short(message: str) -> str:
    line = " ".join(message.split())
    return line if len(line) <= MAX_MESSAGE_CHARACTERS else f"{line[: MAX_MESSAGE_CHARACTERS - 1]}…"
