"""Where the barrier of a checkpoint waited behind rows, and which subtask could not keep up with them.

A subtask that waits for its barrier is seldom to blame. The barrier stands in a queue in front of it because it is
slow, or because it may not go on itself: then the one to blame is further downstream.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from snapline.protocol.statistics.checkpoint_records import CheckpointRecord, SubtaskStatistics
from snapline.protocol.statistics.explanation import Explanation, SlowCause
from snapline.protocol.statistics.job_view import EdgeView, PlanView, SubtaskView
from snapline.protocol.statistics.slow_commit import WaitingCommit
from snapline.protocol.statistics.summary import median
from snapline.text import fine_duration_text
from snapline.types import SubtaskId

HELD_UP = 0.2
LEAST_HELD_UP = 0.05
"""Share of recent time that a subtask could not go on, from which on it counts as back-pressured.

Less is enough for one that is even less busy.
"""

BUSY = 0.5
"""Share of recent time from which on a subtask that is not back-pressured counts as slow."""

SKEWED = 2.0
"""A subtask with this many times the rows of its siblings' median gets more than its share."""

Tasks = Mapping[SubtaskId, SubtaskView]


def is_held_up(view: SubtaskView | None) -> bool:
    if view is None:
        return False
    return view.recent_backpressured >= (HELD_UP if view.recent_busy >= view.recent_backpressured else LEAST_HELD_UP)


def is_busy(view: SubtaskView | None) -> bool:
    return view is not None and view.recent_busy >= BUSY and not is_held_up(view)


def waiting_place(record: CheckpointRecord, plan: PlanView, id: SubtaskId) -> SubtaskId:
    """The subtask before which the barrier waited longest on its way to this one, which may be itself.

    Goes upstream as long as the barrier had been late there already.
    """
    parts = {vertex.vertex: tuple(vertex.subtasks) for vertex in record.vertices}
    arrived_ms = passed_ms(parts[id.vertex][id.index])
    for _ in plan.vertices:
        before = [(passed_ms(parts[other.vertex][other.index]), other) for other in senders(record, plan, id)]
        if not before:
            break
        left_ms, latest = max(before)
        if arrived_ms - left_ms >= arrived_ms / 2:
            break
        arrived_ms, id = left_ms, latest
    return id


def senders(record: CheckpointRecord, plan: PlanView, id: SubtaskId) -> Iterable[SubtaskId]:
    """The subtasks that this one gets its barriers from."""
    for edge in plan.edges:
        source = record.vertex(edge.source) if edge.target == id.vertex else None
        if source is not None:
            parallelism = len(source.subtasks)
            is_single = edge.partitioning.is_pointwise and id.index < parallelism
            for index in [id.index] if is_single else range(parallelism):
                yield SubtaskId(edge.source, index)


def passed_ms(subtask: SubtaskStatistics) -> int:
    """When the last barrier had arrived; 0 if that was not measured."""
    metrics = subtask.metrics
    return 0 if metrics is None else max(metrics.start_delay_ms, 0) + max(metrics.alignment_ms, 0)


def bottleneck(plan: PlanView, tasks: Tasks, id: SubtaskId) -> SubtaskView | None:
    """The subtask because of which this one does not get on: the first downstream that is not held up itself.

    It may be this one; None if the figures of the tasks do not show any.
    """
    here = tasks.get(id)
    if here is None or is_busy(here):
        return here
    if not is_held_up(here):
        return here if here.metrics is not None and here.metrics.queued_in_bytes else None
    candidates: list[SubtaskView] = []
    seen, level = {id.vertex}, [here]
    while level:
        reached: dict[SubtaskId, SubtaskView] = {}
        for edge in plan.edges:
            sources = [view for view in level if view.id.vertex == edge.source]
            if sources and edge.target not in seen:
                reached.update((view.id, view) for view in _targets(edge, plan, tasks, sources))
        seen.update(view.id.vertex for view in reached.values())
        level = [view for view in reached.values() if is_held_up(view)]
        candidates += (view for view in reached.values() if not is_held_up(view))
    return max(candidates, key=_weight, default=None)


def explain_wait(
    record: CheckpointRecord, plan: PlanView, tasks: Tasks, waiting: SubtaskId, waited_ms: int, *, is_over: bool
) -> Explanation:
    """Why the barrier took so long to `waiting`; with `is_over` it has arrived."""
    place = waiting_place(record, plan, waiting) if is_over else waiting
    slow = bottleneck(plan, tasks, place)
    verb = "waited" if is_over else "has waited"
    wait = f"subtask {waiting.index} of `{waiting.vertex}` {verb} {fine_duration_text(waited_ms)} for its last barrier"
    if slow is None:
        late = "" if place == waiting else f", which came late from subtask {place.index} of `{place.vertex}`"
        sentence = f"{wait}{late}; the figures of the tasks do not show who held it up"
        advice = _advice(record, plan, place.vertex)
        return Explanation(record.id, SlowCause.BACK_PRESSURE, sentence, advice, place.vertex, place.index)
    commits = None if slow.metrics is None else slow.metrics.commits
    if commits is not None and commits.waiting and not is_busy(slow):
        commit = WaitingCommit(slow.id, commits)
        return Explanation(record.id, SlowCause.FAILING_COMMITS, f"{wait}: {commit.text}", commit.advice, *slow.id)
    vertex, index = slow.id
    load = f"{slow.recent_busy * 100:.0f} % busy" if is_busy(slow) else "rows queue up in front of it"
    siblings = [view for view in siblings_of(plan, tasks, slow.id) if view.metrics is not None]
    usual_rows = median(map(_rows, siblings))
    is_alone = sum(view.recent_busy > slow.recent_busy / 2 for view in siblings) <= len(siblings) // 2
    if siblings and is_busy(slow) and is_alone and _rows(slow) > SKEWED * usual_rows:
        sentence = (
            f"{wait}: skew, subtask {index} of `{vertex}` ({load}) has got {_rows(slow):,} rows, its siblings "
            f"{usual_rows:,.0f} (median)"
        )
        advice = (
            f"spread the rows of `{vertex}`: take a key that divides them better, or first combine by the key and a "
            "random column and then by the key alone; more subtasks do not help"
        )
        return Explanation(record.id, SlowCause.SKEW, sentence, advice, vertex, index)
    if slow.id == waiting:
        sentence = f"{wait}: back-pressure, it cannot keep up with its rows ({load})"
    else:
        sentence = f"{wait}: back-pressure from `{vertex}` (subtask {index}, {load})"
    advice = _advice(record, plan, vertex)
    return Explanation(record.id, SlowCause.BACK_PRESSURE, sentence, advice, vertex, index)


def siblings_of(plan: PlanView, tasks: Tasks, id: SubtaskId) -> list[SubtaskView]:
    """The other subtasks of the same vertex."""
    return [view for view in _of_vertex(plan, tasks, id.vertex) if view.id != id]


def _advice(record: CheckpointRecord, plan: PlanView, vertex: str) -> str:
    may_overtake = any(edge.partitioning.may_be_unaligned for edge in plan.edges)
    is_unaligned = record.starts_unaligned or record.totals.any_unaligned
    may_help = may_overtake and not is_unaligned and not record.kind.is_savepoint
    unaligned = "turn on unaligned checkpoints, or " if may_help else ""
    return f"{unaligned}make `{vertex}` faster or wider (more subtasks)"


def _targets(edge: EdgeView, plan: PlanView, tasks: Tasks, sources: Iterable[SubtaskView]) -> list[SubtaskView]:
    views = _of_vertex(plan, tasks, edge.target)
    if not edge.partitioning.is_pointwise:
        return views
    indexes = {view.id.index for view in sources}
    return [view for view in views if view.id.index in indexes]


def _of_vertex(plan: PlanView, tasks: Tasks, vertex_id: str) -> list[SubtaskView]:
    vertex = plan.vertex(vertex_id)
    ids = (SubtaskId(vertex_id, index) for index in range(0 if vertex is None else vertex.parallelism))
    return [tasks[id] for id in ids if id in tasks]


def _weight(view: SubtaskView) -> tuple[bool, float, int]:
    """Who is slow: one that is busy, or else one that waits for something outside while rows queue in front of it."""
    queued_bytes = 0 if view.metrics is None else view.metrics.queued_in_bytes
    return is_busy(view), view.recent_busy, queued_bytes


def _rows(view: SubtaskView) -> int:
    return 0 if view.metrics is None else view.metrics.rows_in
