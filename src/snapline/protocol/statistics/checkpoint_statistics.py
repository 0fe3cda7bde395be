"""The statistics of a job's checkpoints, for the monitoring page and the REST interface.

They decide nothing: a fact that comes late, twice, or about something unknown changes nothing and returns False.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from itertools import chain

from snapline.errors import EngineError
from snapline.protocol.statistics.checkpoint_records import (
    CheckpointCounts,
    CheckpointRecord,
    CheckpointStatus,
    CompletedSummary,
    Completion,
    Failure,
    LatestCheckpoints,
    RestoredCheckpoint,
    StatisticsSnapshot,
    SubtaskMetrics,
    SubtaskStatistics,
    Totals,
    VertexStatistics,
    duration_ms,
)
from snapline.protocol.statistics.packed_subtasks import PackedSubtasks
from snapline.protocol.statistics.summary import Tally
from snapline.types import NO_CHECKPOINT, FailureReason, SavepointFormat, SnapshotKind

MAX_IN_PROGRESS = 10_000
"""Checkpoints in progress at once. The coordinator's own limits are far below."""

MAX_SUBTASKS = 1_000_000
"""Subtasks of one checkpoint."""

MAX_MESSAGE_CHARACTERS = 4_000
"""Longer failure messages are cut: they may hold stack traces, and a history keeps many."""


UNPACKED = 10
"""The newest checkpoints, whose subtasks are kept as they are: reports about them may still come."""


class CheckpointStatistics:
    """Follows the checkpoints of one job over all its attempts.

    The coordinator's thread reports facts in order and takes the snapshots, which any thread may read. `history` is
    the number of checkpoints kept in detail; percentiles are over the latest `percentile_window` completed ones.
    """

    def __init__(self, *, history: int = 10, percentile_window: int = 10_000) -> None:
        if history < 0 or percentile_window < 1:
            raise EngineError(f"history {history} or percentile window {percentile_window} is too small")
        self._restored_count = self._completed_count = self._failed_count = 0
        self._failures: Counter[FailureReason] = Counter()
        self._now_ms = self._wall_ahead_ms = 0
        self._in_progress: dict[int, _Checkpoint] = {}
        self._history: deque[_Checkpoint] = deque(maxlen=history)
        self._latest: dict[str, _Checkpoint] = {}
        self._restored: RestoredCheckpoint | None = None
        self._not_started: Failure | None = None
        self._tallies = {field.name: Tally(percentile_window) for field in fields(CompletedSummary)}
        self._snapshot: StatisticsSnapshot | None = StatisticsSnapshot()

    def clock(self, now_ms: int, wall_ms: int) -> None:
        """The time of what is reported next, by the clock of `now_ms` and by the wall clock, which people see.

        A checkpoint goes by the wall clock of its trigger: its durations are right even if that is set meanwhile.
        """
        self._now_ms, self._wall_ahead_ms = now_ms, wall_ms - now_ms

    def created(
        self,
        checkpoint_id: int,
        kind: SnapshotKind,
        savepoint_format: SavepointFormat | None,
        trigger_ms: int,
        subtasks: Mapping[str, int],
        *,
        unaligned: bool,
    ) -> None:
        """A checkpoint has begun. `subtasks` gives the parallelism of every vertex of the job, finished or not.

        Report an acknowledgement with empty metrics at once for subtasks that had already finished. `unaligned` says
        whether barriers start unaligned.
        """
        if checkpoint_id in self._in_progress:
            raise EngineError(f"checkpoint {checkpoint_id} was created twice")
        if len(self._in_progress) >= MAX_IN_PROGRESS:
            raise EngineError(f"more than {MAX_IN_PROGRESS} checkpoints are in progress")
        if any(count < 1 for count in subtasks.values()) or sum(subtasks.values()) > MAX_SUBTASKS:
            raise EngineError(f"checkpoint {checkpoint_id} has a vertex without subtasks, or more than {MAX_SUBTASKS}")
        trigger_ms += self._wall_ahead_ms
        vertices = {vertex: _Vertex(vertex, trigger_ms, count) for vertex, count in subtasks.items()}
        statistics = tuple(vertex.statistics for vertex in vertices.values())
        totals = Totals(sum(subtasks.values()))
        checkpoint = _Checkpoint(
            CheckpointRecord(checkpoint_id, kind, savepoint_format, trigger_ms, unaligned, totals, statistics),
            vertices,
            self._wall_ahead_ms,
        )
        self._in_progress[checkpoint_id] = checkpoint
        self._history.append(checkpoint)
        if len(self._history) > UNPACKED:
            self._history[-UNPACKED - 1].pack()
        self._snapshot = None

    def started(self, checkpoint_id: int) -> bool:
        """The tasks of a checkpoint are triggered, at the time of `clock`. False if it is not in progress."""
        checkpoint = self._in_progress.get(checkpoint_id)
        if checkpoint is None:
            return False
        checkpoint.start(self._now_ms)
        self._snapshot = None
        return True

    def acknowledged(self, checkpoint_id: int, vertex: str, index: int, now_ms: int, metrics: SubtaskMetrics) -> bool:
        """A subtask has acknowledged. False if the checkpoint has ended, or the subtask is unknown or a repeat."""
        checkpoint = self._in_progress.get(checkpoint_id)
        if checkpoint is None or not checkpoint.acknowledge(vertex, index, now_ms, metrics):
            return False
        self._snapshot = None
        return True

    def measured(self, checkpoint_id: int, vertex: str, index: int, metrics: SubtaskMetrics) -> bool:
        """What a subtask has measured of a checkpoint that it gave up, usually after the checkpoint has failed.

        False if the checkpoint is complete or no longer remembered, or the subtask is unknown or has acknowledged.
        """
        known = self._in_progress.get(checkpoint_id) or next(self._remembered(checkpoint_id), None)
        if known is None or not known.measure(vertex, index, metrics):
            return False
        self._snapshot = None
        return True

    def committed(self, checkpoint_id: int, vertex: str, index: int, commit_ms: int) -> bool:
        """A subtask has committed its output of a completed checkpoint, `commit_ms` after it completed.

        False if the checkpoint is not remembered as completed, or the subtask is unknown.
        """
        known = next(self._remembered(checkpoint_id), None)
        if known is None or not known.commit(vertex, index, commit_ms):
            return False
        self._snapshot = None
        return True

    def completed(self, checkpoint_id: int, now_ms: int, external_path: str | None, *, metadata_bytes: int = 0) -> bool:
        """A checkpoint has completed. False if it is not in progress."""
        checkpoint = self._in_progress.pop(checkpoint_id, None)
        if checkpoint is None:
            return False
        checkpoint.end(completion=Completion(checkpoint.wall_ms(now_ms), external_path, metadata_bytes))
        record = checkpoint.record
        self._note_latest("savepoint" if record.kind.is_savepoint else "completed", checkpoint)
        for name, tally in self._tallies.items():
            tally.add(_measured(record, name))
        self._completed_count += 1
        self._snapshot = None
        return True

    def failed(
        self,
        checkpoint_id: int | None,
        now_ms: int,
        reason: FailureReason,
        message: str = "",
        *,
        kind: SnapshotKind = SnapshotKind.CHECKPOINT,
    ) -> bool:
        """A checkpoint has failed, or, with None, a request of this `kind` before its creation.

        Returns False if it is not in progress.
        """
        message = _shortened(message)
        if checkpoint_id is None:
            wall_ms = now_ms + self._wall_ahead_ms
            self._not_started = failure = Failure(wall_ms, reason, message)
            if not reason.is_routine:
                record = CheckpointRecord(NO_CHECKPOINT, kind, None, wall_ms, False, Totals(0), (), failure=failure)
                self._latest["failed"] = _Checkpoint(record, {}, self._wall_ahead_ms)
        else:
            checkpoint = self._in_progress.pop(checkpoint_id, None)
            if checkpoint is None:
                return False
            checkpoint.end(failure=Failure(checkpoint.wall_ms(now_ms), reason, message))
            self._note_latest("failed", checkpoint)
        self._failed_count += 1
        self._failures[reason] += 1
        self._snapshot = None
        return True

    def discarded(self, checkpoint_id: int) -> bool:
        """The files of a completed checkpoint are deleted. False if it is no longer remembered."""
        if not any(known.discard() for known in self._remembered(checkpoint_id)):
            return False
        self._snapshot = None
        return True

    def restored(
        self,
        checkpoint_id: int,
        wall_ms: int,
        *,
        is_savepoint: bool,
        external_path: str | None,
        left_behind: tuple[str, ...] = (),
    ) -> None:
        """An attempt has started from a snapshot."""
        self._restored = RestoredCheckpoint(checkpoint_id, wall_ms, is_savepoint, external_path, left_behind)
        self._restored_count += 1
        self._snapshot = None

    def preceded_by(self, past: StatisticsSnapshot, totals: Mapping[str, int]) -> None:
        """Take over what an earlier driver has counted of the same job; `totals` are those of its statistics.

        What it had in progress stays so until it is reported as completed or failed.
        """
        earlier = [_Checkpoint(record, {}, 0) for record in reversed(past.history)]
        open_before = [known for known in earlier if known.record.status is CheckpointStatus.IN_PROGRESS]
        self._history = deque((*earlier, *self._history), self._history.maxlen)
        self._in_progress = {**{known.id: known for known in open_before}, **self._in_progress}
        for kind in ("completed", "savepoint", "failed"):
            record: CheckpointRecord | None = getattr(past.latest, kind)
            if record is not None and kind not in self._latest:
                known = next((known for known in earlier if known.id == record.id), None)
                self._latest[kind] = known or _Checkpoint(record, {}, 0)
        self._restored = self._restored or past.latest.restored
        self._not_started = self._not_started or past.latest.not_started
        self._restored_count += past.counts.restored
        self._completed_count += past.counts.completed
        self._failed_count += past.counts.failed + past.counts.in_progress - len(open_before)
        self._failures.update(past.failures_by_reason)
        completed = [known.record for known in earlier if known.record.completion is not None]
        for name, tally in self._tallies.items():
            summary = getattr(past.summary, name)
            values = [value for record in completed if (value := _measured(record, name)) >= 0]
            total = totals.get(name, summary.avg * summary.count)
            tally.preceded_by(summary, total, values[max(len(values) - summary.count, 0) :])
        self._snapshot = None

    @property
    def totals(self) -> Mapping[str, int]:
        """The sum of each measurement of the summary over all completed checkpoints."""
        return {name: tally.total for name, tally in self._tallies.items()}

    def snapshot(self) -> StatisticsSnapshot:
        """The statistics as they are now; the same object until something changes."""
        if self._snapshot is None:
            in_progress, completed, failed = len(self._in_progress), self._completed_count, self._failed_count
            self._snapshot = StatisticsSnapshot(
                CheckpointCounts(
                    self._restored_count, in_progress + completed + failed, in_progress, completed, failed
                ),
                LatestCheckpoints(
                    restored=self._restored,
                    not_started=self._not_started,
                    **{name: checkpoint.record for name, checkpoint in self._latest.items()},
                ),
                tuple(checkpoint.record for checkpoint in reversed(self._history)),
                CompletedSummary(**{name: tally.summary() for name, tally in self._tallies.items()}),
                dict(self._failures),
            )
        return self._snapshot

    def _remembered(self, checkpoint_id: int) -> Iterator[_Checkpoint]:
        candidates = chain(reversed(self._history), self._latest.values())
        return (known for known in candidates if known.id == checkpoint_id)

    def _note_latest(self, kind: str, checkpoint: _Checkpoint) -> None:
        # A savepoint may end after one that was started later, and then is not the latest.
        if kind not in self._latest or checkpoint.id >= self._latest[kind].id:
            self._latest[kind] = checkpoint


class _Checkpoint:
    """One checkpoint in progress; its record is rebuilt only after a change."""

    __slots__ = ("_record", "_totals", "_vertices", "_wall_ahead_ms")

    def __init__(self, record: CheckpointRecord, vertices: Mapping[str, _Vertex], wall_ahead_ms: int) -> None:
        self._wall_ahead_ms = wall_ahead_ms
        self._record = record
        self._totals = record.totals
        self._vertices = vertices

    @property
    def id(self) -> int:
        return self._record.id

    @property
    def record(self) -> CheckpointRecord:
        if self._record.totals is not self._totals:
            vertices = tuple(vertex.statistics for vertex in self._vertices.values())
            self._record = replace(self._record, totals=self._totals, vertices=vertices)
        return self._record

    def wall_ms(self, now_ms: int) -> int:
        return now_ms + self._wall_ahead_ms

    def start(self, now_ms: int) -> None:
        self._record = replace(self._record, started_ms=self.wall_ms(now_ms))

    def acknowledge(self, vertex: str, index: int, now_ms: int, metrics: SubtaskMetrics) -> bool:
        known, ack_ms = self._vertices.get(vertex), self.wall_ms(now_ms)
        if known is None or not known.acknowledge(index, ack_ms, metrics):
            return False
        self._totals = self._totals.with_ack(ack_ms, metrics)
        return True

    def measure(self, vertex: str, index: int, metrics: SubtaskMetrics) -> bool:
        """Whether this was not known."""
        known = self._vertices.get(vertex)
        if known is None or not known.measure(index, metrics):
            return False
        vertices = tuple(vertex.statistics for vertex in self._vertices.values())
        self._record = replace(self._record, totals=self._totals, vertices=vertices)
        return True

    def commit(self, vertex: str, index: int, commit_ms: int) -> bool:
        """Whether this is a completed checkpoint with such a subtask."""
        record = self._record
        known = record.vertex(vertex)
        if record.completion is None or known is None or not 0 <= index < len(known.subtasks):
            return False
        subtasks = list(known.subtasks)
        subtasks[index] = replace(subtasks[index], commit_ms=commit_ms)
        changed = replace(known, subtasks=tuple(subtasks))
        vertices = tuple(changed if item is known else item for item in record.vertices)
        self._record = replace(record, vertices=vertices)
        return True

    def pack(self) -> None:
        """Keep the subtasks in less memory, once the checkpoint has ended."""
        record = self._record
        if record.completion is None and record.failure is None:
            return
        self._vertices = {}
        vertices = (replace(item, subtasks=PackedSubtasks(item.subtasks)) for item in record.vertices)
        self._record = replace(record, vertices=tuple(vertices))

    def end(self, *, completion: Completion | None = None, failure: Failure | None = None) -> None:
        self._record = replace(self.record, completion=completion, failure=failure)
        if completion is not None:
            self._vertices = {}

    def discard(self) -> bool:
        """Whether it was completed and not yet discarded."""
        completion = self._record.completion
        if completion is None or completion.discarded:
            return False
        self._record = replace(self._record, completion=replace(completion, discarded=True))
        return True


class _Vertex:
    __slots__ = ("_statistics", "_subtasks", "_totals", "_trigger_ms")

    def __init__(self, vertex: str, trigger_ms: int, count: int) -> None:
        self._trigger_ms = trigger_ms
        self._totals = Totals(count)
        self._subtasks = [SubtaskStatistics(index) for index in range(count)]
        self._statistics = VertexStatistics(vertex, trigger_ms, self._totals, tuple(self._subtasks))

    @property
    def statistics(self) -> VertexStatistics:
        if self._statistics.totals is not self._totals:
            self._statistics = replace(self._statistics, totals=self._totals, subtasks=tuple(self._subtasks))
        return self._statistics

    def measure(self, index: int, metrics: SubtaskMetrics) -> bool:
        if not 0 <= index < len(self._subtasks) or self._subtasks[index].is_acknowledged:
            return False
        self._subtasks[index] = SubtaskStatistics(index, metrics=metrics)
        self._statistics = replace(self._statistics, totals=self._totals, subtasks=tuple(self._subtasks))
        return True

    def acknowledge(self, index: int, ack_ms: int, metrics: SubtaskMetrics) -> bool:
        if not 0 <= index < len(self._subtasks) or self._subtasks[index].is_acknowledged:
            return False
        self._subtasks[index] = SubtaskStatistics(index, ack_ms, duration_ms(self._trigger_ms, ack_ms), metrics)
        self._totals = self._totals.with_ack(ack_ms, metrics)
        return True


def _measured(record: CheckpointRecord, name: str) -> int:
    """One measurement of the summary."""
    value: int = getattr(record if name == "end_to_end_duration_ms" else record.totals, name)
    return value


def _shortened(message: str) -> str:
    return message if len(message) <= MAX_MESSAGE_CHARACTERS else message[: MAX_MESSAGE_CHARACTERS - 1] + "…"
