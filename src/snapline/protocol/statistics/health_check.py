"""Judges the health of a job from a view of it."""

from __future__ import annotations

from collections.abc import Iterator

from snapline.protocol.statistics.checkpoint_health import checkpoint_notes
from snapline.protocol.statistics.flow_health import flow_notes
from snapline.protocol.statistics.job_health import HEALTHY, Health, HealthIssue, HealthLevel, HealthNote
from snapline.protocol.statistics.job_view import AttemptFailure, JobView
from snapline.text import duration_text
from snapline.types import JobStatus

MAX_CAUSE_CHARACTERS = 300

LONG_START_MS = 60_000
"""A job that has been starting for this long may wait for slots."""

RECENT_FAILURE_MS = 60_000
"""An error that repeats is a loop until the job has run this long, and three times as long as between the last two."""

MANY_FAILURES = 3
MANY_WITHIN_MS = 600_000
"""So many failed attempts within this time are a loop, whatever their errors."""

_BADNESS = {HealthLevel.BAD: 0, HealthLevel.WARNING: 1, HealthLevel.GOOD: 2}

_WORDS = {
    JobStatus.CREATED: "starting",
    JobStatus.INITIALIZING: "starting",
    JobStatus.CANCELLING: "being cancelled",
    JobStatus.CANCELED: "cancelled",
    JobStatus.FINISHED: "finished",
}


def job_health(view: JobView) -> Health:
    """The health of the job at the moment of the view."""
    notes = sorted(_notes(view), key=lambda note: _BADNESS[note.level])
    if not notes:
        line = _WORDS.get(view.status)
        return HEALTHY if line is None else Health(HealthLevel.GOOD, line)
    more = f" (and {len(notes) - 1} more)" if len(notes) > 1 else ""
    return Health(notes[0].level, f"{notes[0].text}{more}", tuple(notes))


def _notes(view: JobView) -> Iterator[HealthNote]:
    yield from _status_notes(view)
    if not view.status.is_globally_terminal and view.status is not JobStatus.SUSPENDED:
        yield from _restart_notes(view)
        yield from checkpoint_notes(view)
    if view.status is JobStatus.RUNNING and view.is_live:
        yield from flow_notes(view)


def _status_notes(view: JobView) -> Iterator[HealthNote]:
    status, cause = view.status, _cause(view)
    after = cause and f" after: {cause}"
    match status:
        case JobStatus.FAILED:
            advice = "mend the cause and start the job again under the same id: it goes on from its last checkpoint"
            yield _not_running(HealthLevel.BAD, f"the job has failed{cause and f': {cause}'}", advice, view)
        case JobStatus.FAILING | JobStatus.RESTARTING:
            advice = "nothing, if it runs again soon; else look at the cause"
            yield _not_running(HealthLevel.WARNING, f"the job is restarting{after}", advice, view)
        case JobStatus.SUSPENDED:
            advice = "start the job again under the same id, unless another driver runs it: it goes on where it was"
            yield _not_running(HealthLevel.WARNING, f"the job is suspended{after}", advice, view)
        case JobStatus.CREATED | JobStatus.INITIALIZING if view.is_live:
            since_ms = view.now_ms - view.status_times.get(status, view.now_ms)
            if since_ms >= LONG_START_MS:
                text = f"the job has been starting for {duration_text(since_ms)}{after}"
                advice = "look whether the cluster has free slots for it, and whether `open` of an operator takes long"
                yield _not_running(HealthLevel.WARNING, text, advice, view)


def _not_running(level: HealthLevel, text: str, advice: str, view: JobView) -> HealthNote:
    return HealthNote(level, HealthIssue.NOT_RUNNING, text, advice, *_place(view))


def _restart_notes(view: JobView) -> Iterator[HealthNote]:
    failures = view.failures
    if not failures:
        return
    if view.repeats >= 2 and _is_recent(failures, view.now_ms):
        limit = view.execution.same_error_limit
        end = f"; the job fails for good at the {limit}th time" if limit is not None else ""
        text = f"restart loop: the same error for the {_ordinal(view.repeats)} time without progress: {_cause(view)}"
        advice = f"mend the code or the rows that the error names, then start the job again{end}"
        yield HealthNote(HealthLevel.BAD, HealthIssue.RESTART_LOOP, text, advice, *_place(view))
        return
    recent = [failure for failure in failures if view.now_ms - failure.at_ms <= MANY_WITHIN_MS]
    if len(recent) >= MANY_FAILURES:
        span = duration_text(max(view.now_ms - recent[-1].at_ms, 0))
        text = f"the job has restarted {len(recent)} times within {span}, the last time after: {_cause(view)}"
        advice = "look at the causes of all attempts: machines, memory limits, systems that the job talks to"
        yield HealthNote(HealthLevel.WARNING, HealthIssue.RESTART_LOOP, text, advice, *_place(view))


def _is_recent(failures: tuple[AttemptFailure, ...], now_ms: int) -> bool:
    pause_ms = failures[0].at_ms - failures[1].at_ms if len(failures) > 1 else 0
    return now_ms - failures[0].at_ms <= max(RECENT_FAILURE_MS, 3 * pause_ms)


def _place(view: JobView) -> tuple[str, int | None]:
    subtask = view.failures[0].subtask if view.failures else None
    return ("", None) if subtask is None else subtask


def _cause(view: JobView) -> str:
    line = " ".join(view.failures[0].cause.split()) if view.failures else ""
    return line if len(line) <= MAX_CAUSE_CHARACTERS else f"{line[: MAX_CAUSE_CHARACTERS - 1]}…"


def _ordinal(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
