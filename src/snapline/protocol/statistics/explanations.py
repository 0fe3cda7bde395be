"""Explanations of a job's latest checkpoints, made when they end, while the figures of the tasks are still those."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TypeAlias

from snapline.protocol.statistics.checkpoint_records import CheckpointRecord
from snapline.protocol.statistics.explanation import Explanation
from snapline.protocol.statistics.job_view import PlanView, SubtaskView
from snapline.protocol.statistics.slow_checkpoint import explain
from snapline.protocol.statistics.slow_commit import waiting_commits
from snapline.protocol.statistics.state_writes import SEARCHED
from snapline.types import SubtaskId

MAX_KEPT = 10_000
"""Explanations of ended checkpoints that are remembered."""

REVISED = 5
"""The newest checkpoints: reports about them may still come, so they are explained anew when one has."""

AT_ONCE = 20
"""Older checkpoints without an explanation, as after a restart of the driver, that one call explains."""

LOOKED_THROUGH = 1_000
"""How far back such checkpoints are looked for."""

Tasks: TypeAlias = Mapping[SubtaskId, SubtaskView]


class Explanations:
    """Remembers how the tasks were when a checkpoint ended, and what was said about it."""

    def __init__(self, plan: PlanView) -> None:
        self._plan = plan
        self._tasks: OrderedDict[int, Tasks] = OrderedDict()
        self._said: dict[int, Explanation] = {}
        self._basis: dict[int, tuple[CheckpointRecord, object]] = {}
        self._inherited: frozenset[int] = frozenset()

    def preceded_by(self, said: Mapping[int, Explanation]) -> None:
        """What an earlier driver said, who had seen the tasks, stands."""
        self._inherited = self._inherited.union(said)
        self._said = {**said, **self._said}

    def ended(
        self, checkpoint_id: int, history: Sequence[CheckpointRecord], tasks: Tasks, now_ms: int
    ) -> Explanation | None:
        """A checkpoint has ended; `tasks` are as they are now. None if the history, newest first, does not hold it."""
        self._tasks[checkpoint_id] = tasks
        while len(self._tasks) > REVISED:
            self._tasks.popitem(last=False)
        place = next((place for place, record in enumerate(history) if record.id == checkpoint_id), None)
        return None if place is None else self._explained(place, history, tasks, now_ms, _commits_of(tasks))

    def of(self, history: Sequence[CheckpointRecord], tasks: Tasks, now_ms: int) -> Mapping[int, Explanation]:
        """An explanation for each checkpoint of the history, newest first, that is in progress or remembered."""
        commits, left = _commits_of(tasks), AT_ONCE
        newest: dict[int, Explanation] = {}
        for place, record in enumerate(islice(history, LOOKED_THROUGH)):
            if place < REVISED or not _has_ended(record):
                newest[record.id] = self._explained(place, history, tasks, now_ms, commits)
            elif record.id not in self._said and left:
                left -= 1
                self._explained(place, history, tasks, now_ms, commits)
        self._forget(history)
        return {**self._said, **newest}

    def _explained(
        self, place: int, history: Sequence[CheckpointRecord], tasks: Tasks, now_ms: int, commits: object
    ) -> Explanation:
        record = history[place]
        basis, known = (record, commits), self._said.get(record.id)
        before = self._basis.get(record.id)
        is_same = before is not None and before[0] is record and before[1] == commits
        if known is not None and (is_same or record.id in self._inherited):
            return known
        then = self._tasks.get(record.id)
        shown = tasks if then is None else _with_commits(then, tasks)
        said = explain(record, self._plan, shown, history[place + 1 : place + 1 + SEARCHED], now_ms)
        if _has_ended(record):
            self._said[record.id], self._basis[record.id] = said, basis
        return said

    def _forget(self, history: Sequence[CheckpointRecord]) -> None:
        if len(self._said) > len(history):
            known = {record.id for record in history}
            self._said = {id: said for id, said in self._said.items() if id in known}
        if len(self._said) > MAX_KEPT + REVISED:
            self._said = {id: self._said[id] for id in sorted(self._said)[-MAX_KEPT:]}
        if len(self._basis) > REVISED:
            newest = {record.id for record in islice(history, REVISED)}
            self._basis = {id: basis for id, basis in self._basis.items() if id in newest}


def _has_ended(record: CheckpointRecord) -> bool:
    return record.completion is not None or record.failure is not None


def _commits_of(tasks: Tasks) -> object:
    """What explanations of ended checkpoints depend on: commits that wait, and for how many seconds."""
    return tuple(
        (commit.id, commit.figures.waiting, commit.figures.retries, commit.figures.waiting_ms // 1000)
        for commit in waiting_commits(tasks)
    )


def _with_commits(then: Tasks, now: Tasks) -> Tasks:
    """The tasks as they were, with the commits as they are."""
    changed = {}
    for id, view in now.items():
        before = then.get(id)
        if view.metrics is None or view.metrics.commits is None:
            continue
        if before is None or before.metrics is None:
            changed[id] = view
        elif before.metrics.commits != view.metrics.commits:
            changed[id] = replace(before, metrics=replace(before.metrics, commits=view.metrics.commits))
    return {**then, **changed} if changed else then
