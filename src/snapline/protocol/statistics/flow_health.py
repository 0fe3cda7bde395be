"""What is wrong with the rows of a running job: calls that hang, event time that stands still, sources without rows."""

from __future__ import annotations

from collections.abc import Iterator

from snapline.protocol.statistics.failed_checkpoint import hung_advice, hung_text
from snapline.protocol.statistics.job_health import HealthIssue, HealthLevel, HealthNote
from snapline.protocol.statistics.job_view import JobView, PlanView, SubtaskView
from snapline.text import duration_text, time_text
from snapline.types import MAX_WATERMARK, TaskStatus

HUNG_MS = 30_000
BAD_HUNG_MS = 300_000
"""A subtask that is inside one call for this long is worth a warning, and then bad."""

STILL_MS = 120_000
"""Event time that has not moved for this long, while rows are read, stands still."""

IDLE_MS = 300_000
NEVER_READ_MS = 1_800_000
"""A source without rows for this long, while others have some, is idle; longer for one that has had none yet."""

_NO_WATERMARK = -MAX_WATERMARK - 1


def flow_notes(view: JobView) -> Iterator[HealthNote]:
    running = [task for task in view.subtasks if task.status is TaskStatus.RUNNING and task.metrics is not None]
    yield from _hung(running)
    yield from _standing_still(view, running)
    yield from _idle_sources(view, running)


def _hung(running: list[SubtaskView]) -> Iterator[HealthNote]:
    longest = max(running, key=lambda task: task.stuck_ms, default=None)
    if longest is not None and longest.stuck_ms >= HUNG_MS:
        level = HealthLevel.BAD if longest.stuck_ms >= BAD_HUNG_MS else HealthLevel.WARNING
        advice = hung_advice(longest.id.vertex)
        yield HealthNote(level, HealthIssue.HUNG_OPERATOR, hung_text(longest), advice, *longest.id)


def _standing_still(view: JobView, running: list[SubtaskView]) -> Iterator[HealthNote]:
    source_ids = {vertex.id for vertex in view.plan.vertices if vertex.is_source}
    sources = [task for task in running if task.id.vertex in source_ids]
    timed = [task for task in running if _watermark(task) != _NO_WATERMARK]
    if not timed:
        return
    still = [task for task in running if _watermark(task) < MAX_WATERMARK and _still_ms(task, view) >= STILL_MS]
    for task in sorted(still, key=_watermark):
        ancestors = _ancestors(view.plan, task.id.vertex)
        before = (
            [source for source in sources if source.id.vertex in ancestors]
            if task.id.vertex not in source_ids
            else [task]
        )
        holder = _holder(task, before, view)
        if holder is not None and any(_has_rows(source, view) for source in before):
            yield _still_note(task, holder, sources, view)
            return


def _holder(task: SubtaskView, before: list[SubtaskView], view: JobView) -> SubtaskView | None:
    """The source subtask that holds back this task: the furthest behind of those that do not move."""
    quiet = [source for source in before if _still_ms(source, view) >= STILL_MS]
    # One without a watermark may be idle, which holds back nobody who has one.
    known = [source for source in quiet if _watermark(source) != _NO_WATERMARK]
    if _watermark(task) == _NO_WATERMARK:
        known = [source for source in quiet if _watermark(source) == _NO_WATERMARK]
        is_timed = any(_watermark(source) != _NO_WATERMARK for source in before)
        return known[0] if known and is_timed else None
    return min(known, key=_watermark, default=None)


def _still_note(task: SubtaskView, holder: SubtaskView, sources: list[SubtaskView], view: JobView) -> HealthNote:
    assert holder.metrics is not None
    vertex, index = holder.id
    at_ms, still = _watermark(task), duration_text(_still_ms(task, view))
    since = f"event time has stood still for {still}" + ("" if at_ms == _NO_WATERMARK else f" at {time_text(at_ms)}")
    if at_ms == _NO_WATERMARK:
        since = f"event time has not begun within {still}"
    split = holder.metrics.slowest_split
    who = f"split {split} of subtask {index} of `{vertex}`" if split else f"subtask {index} of `{vertex}`"
    newest_ms = max(_watermark(source) for source in sources if _watermark(source) < MAX_WATERMARK)
    ahead_ms = newest_ms - at_ms if at_ms != _NO_WATERMARK else 0
    ahead = f", others are {duration_text(ahead_ms)} ahead" if ahead_ms > 0 else ""
    text = f"{since}: {who} holds it back{ahead}"
    advice = (
        "windows and timers wait for it: look why it gives no newer rows; Watermarks(idle_after=...) lets event time "
        "go on without those that are quiet"
    )
    return HealthNote(HealthLevel.WARNING, HealthIssue.EVENT_TIME_STANDS_STILL, text, advice, vertex, index)


def _idle_sources(view: JobView, running: list[SubtaskView]) -> Iterator[HealthNote]:
    sources = {
        vertex.id: [task for task in running if task.id.vertex == vertex.id]
        for vertex in view.plan.vertices
        if vertex.is_source
    }
    quiet_ms = {
        vertex: min(view.now_ms - task.rows_since_ms for task in tasks) for vertex, tasks in sources.items() if tasks
    }
    for vertex, idle_ms in sorted(quiet_ms.items(), key=lambda entry: -entry[1]):
        has_read = any(task.metrics is not None and task.metrics.rows_in for task in sources[vertex])
        others = [other_ms for other, other_ms in quiet_ms.items() if other != vertex]
        if idle_ms >= (IDLE_MS if has_read else NEVER_READ_MS) and any(other_ms < IDLE_MS / 5 for other_ms in others):
            text = f"source `{vertex}` has given no rows for {duration_text(idle_ms)}, while others do"
            advice = f"if that is not expected, look at what `{vertex}` reads: whether rows get there, and its rights"
            yield HealthNote(HealthLevel.WARNING, HealthIssue.IDLE_SOURCE, text, advice, vertex)
            return


def _watermark(task: SubtaskView) -> int:
    watermark_ms = None if task.metrics is None else task.metrics.watermark_ms
    return _NO_WATERMARK if watermark_ms is None else watermark_ms


def _still_ms(task: SubtaskView, view: JobView) -> int:
    return view.now_ms - task.watermark_since_ms


def _has_rows(task: SubtaskView, view: JobView) -> bool:
    has_any = task.metrics is not None and task.metrics.rows_in > 0
    return has_any and view.now_ms - task.rows_since_ms < STILL_MS / 2


def _ancestors(plan: PlanView, vertex: str) -> set[str]:
    found, left = {vertex}, [vertex]
    while left:
        for upstream in plan.upstream(left.pop()):
            if upstream not in found:
                found.add(upstream)
                left.append(upstream)
    return found
