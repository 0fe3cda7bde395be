"""The critical path of a checkpoint: the way of the subtask that answered last, and what the driver did then.

Durations of a subtask are measured with one clock. Its start delay is not: the trigger was on another machine. So the
path ends at the acknowledgement, which the driver saw, and the start delay gets no more than is left.
"""

from __future__ import annotations

from collections.abc import Iterable

from snapline.protocol.statistics.checkpoint_records import (
    NO_ACK,
    CheckpointRecord,
    SubtaskMetrics,
    SubtaskStatistics,
)
from snapline.protocol.statistics.explanation import PathPart, PathStep
from snapline.types import SubtaskId

FINISHED = SubtaskMetrics()
"""What is reported for subtasks that had finished before the checkpoint."""


def had_finished(subtask: SubtaskStatistics) -> bool:
    """Whether a subtask had finished before the checkpoint: it counts as acknowledged at once."""
    return subtask.end_to_end_duration_ms == 0 and subtask.metrics == FINISHED


def last_answer(record: CheckpointRecord) -> tuple[SubtaskId, SubtaskStatistics] | None:
    """The subtask that acknowledged last, or None if none has, or the record has no subtasks any more."""
    answered = [vertex for vertex in record.vertices if vertex.totals.acknowledged and len(vertex.subtasks)]
    if not answered:
        return None
    latest = max(answered, key=lambda vertex: vertex.totals.latest_ack_ms)
    subtask = max(latest.subtasks, key=lambda subtask: subtask.ack_ms)
    return SubtaskId(latest.vertex, subtask.index), subtask


def last_commit(record: CheckpointRecord) -> tuple[SubtaskId, int] | None:
    """The subtask that committed last, and how long after the completion; None if none has."""
    commits = [
        (subtask.commit_ms, SubtaskId(vertex.vertex, subtask.index))
        for vertex in record.vertices
        for subtask in vertex.subtasks
        if subtask.commit_ms != NO_ACK
    ]
    if not commits:
        return None
    commit_ms, id = max(commits)
    return id, commit_ms


def missing(record: CheckpointRecord) -> list[tuple[SubtaskId, SubtaskStatistics]]:
    """The subtasks that have not acknowledged, vertex by vertex."""
    return [
        (SubtaskId(vertex.vertex, subtask.index), subtask)
        for vertex in record.vertices
        if vertex.totals.acknowledged < vertex.totals.subtasks
        for subtask in vertex.subtasks
        if not subtask.is_acknowledged
    ]


def preparation_ms(record: CheckpointRecord) -> int:
    """How long the driver took until it triggered the tasks; 0 if that is not known."""
    return 0 if record.started_ms == NO_ACK else max(record.started_ms - record.trigger_ms, 0)


def path_of(record: CheckpointRecord) -> tuple[PathStep, ...]:
    """The critical path of a completed checkpoint, up to its last commit; empty if no subtask has answered."""
    found = last_answer(record)
    if found is None:
        return ()
    id, subtask = found
    steps = _answered(record, id, subtask)
    if record.completion is not None:
        steps.append(PathPart.COMPLETION, None, record.completion.completed_ms - record.trigger_ms)
        commit = last_commit(record)
        if commit is not None:
            steps.append(PathPart.COMMIT, commit[0], steps.at_ms + commit[1])
    return steps.all()


def open_path(record: CheckpointRecord, id: SubtaskId | None, end_ms: int) -> tuple[PathStep, ...]:
    """The path of a checkpoint that is not complete at `end_ms`, from its trigger on, because of this subtask.

    None if all subtasks have answered, and the driver has still to complete it.
    """
    if id is None:
        found = last_answer(record)
        steps = _Steps(0) if found is None else _answered(record, *found)
        begins = record.started_ms == NO_ACK and found is None
        steps.append(PathPart.PREPARATION if begins else PathPart.COMPLETION, None, end_ms)
        return steps.all()
    steps = _Steps(min(preparation_ms(record), end_ms))
    vertex = record.vertex(id.vertex)
    metrics = None if vertex is None else vertex.subtasks[id.index].metrics
    measured = () if metrics is None else _measured(metrics)
    if metrics is not None and metrics.sync_ms >= 0:
        steps.append(PathPart.START_DELAY, id, min(metrics.start_delay_ms, end_ms))
        for part, duration_ms in measured:
            steps.append(part, id, min(steps.at_ms + duration_ms, end_ms))
        waits_for_barriers = metrics.alignment_ms < 0
        steps.append(PathPart.ALIGNMENT if waits_for_barriers else PathPart.ASYNCHRONOUS, id, end_ms)
    else:
        steps.append(PathPart.START_DELAY, id, end_ms)
    return steps.all()


class _Steps:
    """Steps one after another; what has no duration is left out."""

    def __init__(self, preparation_ms: int) -> None:
        self.at_ms = 0
        self._steps: list[PathStep] = []
        self.append(PathPart.PREPARATION, None, preparation_ms)

    def append(self, part: PathPart, id: SubtaskId | None, to_ms: int) -> None:
        if to_ms <= self.at_ms:
            return
        vertex, index = ("", None) if id is None else id
        self._steps.append(PathStep(part, vertex, index, self.at_ms, to_ms))
        self.at_ms = to_ms

    def all(self) -> tuple[PathStep, ...]:
        return tuple(self._steps)


def _answered(record: CheckpointRecord, id: SubtaskId, subtask: SubtaskStatistics) -> _Steps:
    end_ms, metrics = subtask.end_to_end_duration_ms, subtask.metrics or FINISHED
    prepared_ms = min(preparation_ms(record), end_ms)
    steps, measured = _Steps(prepared_ms), _measured(metrics)
    left_ms = max(end_ms - sum(duration_ms for _, duration_ms in measured), prepared_ms)
    is_delay_known = metrics.start_delay_ms >= 0
    steps.append(PathPart.START_DELAY, id, min(metrics.start_delay_ms, left_ms) if is_delay_known else left_ms)
    for part, duration_ms in measured:
        steps.append(part, id, min(steps.at_ms + duration_ms, end_ms))
    steps.append(PathPart.ACKNOWLEDGEMENT, id, end_ms)
    return steps


def _measured(metrics: SubtaskMetrics) -> list[tuple[PathPart, int]]:
    """What a subtask did behind the first barrier, in order.

    Where barriers overtake, state is written during the alignment, and what they overtook behind it.
    """
    alignment_ms, sync_ms = max(metrics.alignment_ms, 0), max(metrics.sync_ms, 0)
    async_ms = max(metrics.async_ms, 0)
    if not metrics.unaligned:
        return [(PathPart.ALIGNMENT, alignment_ms), (PathPart.SYNCHRONOUS, sync_ms), (PathPart.ASYNCHRONOUS, async_ms)]
    if 2 * alignment_ms < sync_ms + async_ms:
        return [(PathPart.SYNCHRONOUS, sync_ms), (PathPart.ASYNCHRONOUS, async_ms)]
    return [(PathPart.ALIGNMENT, alignment_ms), (PathPart.ASYNCHRONOUS, max(sync_ms + async_ms - alignment_ms, 0))]


def longest(steps: Iterable[PathStep]) -> PathStep | None:
    """The step that took longest, or None without any."""
    return max(steps, key=lambda step: step.duration_ms, default=None)
