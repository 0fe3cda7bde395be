"""Whether the commits of a completed checkpoint fail or are slow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from snapline.protocol.statistics.checkpoint_records import NO_ACK, CheckpointRecord
from snapline.protocol.statistics.critical_path import last_commit
from snapline.protocol.statistics.explanation import Explanation, SlowCause
from snapline.protocol.statistics.job_view import SubtaskView
from snapline.protocol.statistics.task_metrics import CommitFigures
from snapline.text import fine_duration_text
from snapline.types import SubtaskId

SLOW_COMMIT_MS = 1_000
"""A commit is slow if it takes this long, and longer than the checkpoint."""

STALE_MS = 3_000
"""The figures of a sink are at most about this old."""


@dataclass(frozen=True, slots=True)
class WaitingCommit:
    """A subtask whose output of completed checkpoints is not committed."""

    id: SubtaskId
    figures: CommitFigures

    @property
    def text(self) -> str:
        """What is wrong, in a sentence."""
        waits = f"has waited {fine_duration_text(self.figures.waiting_ms)} for its commit"
        sentence = f"the output of subtask {self.id.index} of `{self.id.vertex}` {waits}"
        if not self.figures.retries:
            return sentence
        problem = self.figures.last_problem and f": {self.figures.last_problem}"
        return f"{sentence}, which was tried {self.figures.retries} times{problem}"

    @property
    def advice(self) -> str:
        return (
            f"look at the system that `{self.id.vertex}` writes to: until it takes the commit, nobody sees this "
            "output; the job fails over after `committer_retries` attempts"
        )


def waiting_commits(tasks: Mapping[SubtaskId, SubtaskView]) -> list[WaitingCommit]:
    """The subtasks whose output waits, the one that has waited longest first."""
    found = [
        WaitingCommit(view.id, view.metrics.commits)
        for view in tasks.values()
        if view.metrics is not None and view.metrics.commits is not None and view.metrics.commits.waiting
    ]
    return sorted(found, key=lambda commit: (-commit.figures.waiting_ms, commit.id))


def explain_commit(
    record: CheckpointRecord, tasks: Mapping[SubtaskId, SubtaskView], took_ms: int, now_ms: int
) -> Explanation | None:
    """Why the output of a completed checkpoint is not committed, or was late; None if it was not.

    `took_ms` is how long the checkpoint took. `tasks` are as they are now.
    """
    assert record.completion is not None
    waited_ms = now_ms - record.completion.completed_ms
    least_ms = max(SLOW_COMMIT_MS, took_ms)
    for waiting in waiting_commits(tasks):
        is_of_this = waited_ms <= waiting.figures.waiting_ms + STALE_MS and _is_open(record, waiting.id)
        if is_of_this and min(waited_ms, waiting.figures.waiting_ms) >= least_ms:
            sentence, advice = waiting.text, waiting.advice
            return Explanation(record.id, SlowCause.FAILING_COMMITS, sentence, advice, *waiting.id)
    commit = last_commit(record)
    if commit is None or commit[1] < least_ms:
        return None
    id, commit_ms = commit
    view = tasks.get(id)
    figures = None if view is None or view.metrics is None else view.metrics.commits
    problem = "" if figures is None else figures.last_problem
    why = f": {problem}" if f"/{record.id}/" in problem else ""
    sentence = f"subtask {id.index} of `{id.vertex}` took {fine_duration_text(commit_ms)} to commit its output{why}"
    advice = f"look at the system that `{id.vertex}` writes to: it is slow to take commits, or refuses them at first"
    return Explanation(record.id, SlowCause.FAILING_COMMITS, sentence, advice, *id)


def _is_open(record: CheckpointRecord, id: SubtaskId) -> bool:
    vertex = record.vertex(id.vertex)
    if vertex is None or id.index >= len(vertex.subtasks):
        return False
    return vertex.subtasks[id.index].commit_ms == NO_ACK
