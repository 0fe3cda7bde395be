"""The subtasks of a job as their reports show them: status, rates, and how long one has been inside a call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from math import exp

from snapline.protocol.statistics.job_view import SubtaskView
from snapline.protocol.statistics.task_metrics import TaskMetrics
from snapline.types import ExecutionId, SubtaskId, TaskStatus

RECENT_MS = 2_500
"""Shares of recent time weigh each report by its age: one this old counts about a third of a new one."""


class TaskHistory:
    """The newest execution of each subtask. Facts about older ones change nothing."""

    def __init__(self, subtasks: Iterable[SubtaskId], now_ms: int) -> None:
        self._views = {id: _created(id, 0, TaskStatus.CREATED, now_ms) for id in sorted(subtasks)}

    def deployed(self, attempt: int, starting: Iterable[SubtaskId], finished: Iterable[SubtaskId], now_ms: int) -> None:
        """An attempt deploys these subtasks; those that had `finished` in its checkpoint run no more."""
        done = frozenset(finished)
        for subtask in starting:
            status = TaskStatus.FINISHED if subtask in done else TaskStatus.DEPLOYING
            self._views[subtask] = _created(subtask, attempt, status, now_ms)

    def placed(self, host_of: Callable[[int], str]) -> None:
        """Slots are known: `host_of` gives the host of each."""
        self._views = {id: replace(view, host=host_of(id.index)) for id, view in self._views.items()}

    def changed(self, execution: ExecutionId, status: TaskStatus, now_ms: int) -> None:
        view = self._views.get(execution.subtask)
        if view is not None and view.attempt == execution.attempt and view.status is not status:
            self._views[execution.subtask] = replace(view, status=status, since_ms=now_ms)

    def stopped(self, now_ms: int) -> None:
        """The attempt is over: what ran is cancelled."""
        for id, view in self._views.items():
            if view.status in (TaskStatus.DEPLOYING, TaskStatus.RUNNING):
                self._views[id] = replace(view, status=TaskStatus.CANCELED, since_ms=now_ms)

    def reported(self, metrics: TaskMetrics, now_ms: int) -> None:
        view = self._views.get(metrics.execution.subtask)
        if view is None or view.attempt != metrics.execution.attempt:
            return
        before = view.metrics
        seconds = max(metrics.interval_ms, 1) / 1000
        rows_in, rows_out = (0, 0) if before is None else (before.rows_in, before.rows_out)
        is_moving = (rows_in, rows_out) != (metrics.rows_in, metrics.rows_out)
        is_inside = not is_moving and metrics.busy_ms >= metrics.interval_ms > 0
        has_moved = metrics.watermark_ms != (None if before is None else before.watermark_ms)
        self._views[view.id] = replace(
            view,
            metrics=metrics,
            rows_in_per_second=(metrics.rows_in - rows_in) / seconds,
            rows_out_per_second=(metrics.rows_out - rows_out) / seconds,
            busy_ms=view.busy_ms + metrics.busy_ms,
            idle_ms=view.idle_ms + metrics.idle_ms,
            backpressured_ms=view.backpressured_ms + metrics.backpressured_ms,
            stuck_ms=view.stuck_ms + metrics.interval_ms if is_inside else 0,
            recent_busy=_recent(view, view.recent_busy, metrics, metrics.busy_ms),
            recent_backpressured=_recent(view, view.recent_backpressured, metrics, metrics.backpressured_ms),
            rows_since_ms=now_ms if metrics.rows_in != rows_in else view.rows_since_ms,
            watermark_since_ms=now_ms if has_moved else view.watermark_since_ms,
        )

    @property
    def views(self) -> Mapping[SubtaskId, SubtaskView]:
        """All subtasks by vertex and index. A copy."""
        return dict(self._views)


def _created(id: SubtaskId, attempt: int, status: TaskStatus, now_ms: int) -> SubtaskView:
    return SubtaskView(id, attempt, status, now_ms, now_ms, rows_since_ms=now_ms, watermark_since_ms=now_ms)


def _recent(view: SubtaskView, before: float, metrics: TaskMetrics, spent_ms: int) -> float:
    """The share of recent time after another report."""
    if metrics.interval_ms <= 0:
        return before
    share = min(spent_ms / metrics.interval_ms, 1.0)
    weight = 1.0 if view.metrics is None else 1.0 - exp(-metrics.interval_ms / RECENT_MS)
    return before + weight * (share - before)
