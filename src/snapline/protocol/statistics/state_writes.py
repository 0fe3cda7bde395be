"""Why writing the state of a checkpoint took long: one subtask has most of it, it has grown, or storage is slow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from snapline.protocol.statistics.checkpoint_records import CheckpointRecord, SubtaskMetrics, VertexStatistics
from snapline.protocol.statistics.critical_path import FINISHED, had_finished
from snapline.protocol.statistics.explanation import Explanation, SlowCause
from snapline.protocol.statistics.job_view import SubtaskView
from snapline.protocol.statistics.summary import median
from snapline.text import fine_duration_text, size_text
from snapline.types import SubtaskId

SLOW_BYTES_PER_S = 20_000_000
"""Storage that takes less than this from a subtask is slow."""

SKEWED = 3.0
"""A subtask with this many times the bytes or time of its siblings' median stands out."""

GROWN = 1.5
"""State that is this many times that of the checkpoints before has grown."""

LEAST_GROWTH_BYTES = 1_000_000
SLOWED_DOWN = 3.0
"""Storage has slowed down if it was this many times as fast in the checkpoints before."""

COMPARED = 10
"""How many earlier checkpoints this one is compared with."""

DETAILED = 3
"""How many of them are looked at in detail."""

SEARCHED = 50


def comparable(record: CheckpointRecord, earlier: Iterable[CheckpointRecord]) -> list[CheckpointRecord]:
    """The latest of the earlier checkpoints that completed and are of the same sort, newest first."""
    is_savepoint = record.kind.is_savepoint
    alike = (
        other
        for other in islice(earlier, SEARCHED)
        if other.completion is not None and other.kind.is_savepoint == is_savepoint
    )
    return list(islice(alike, COMPARED))


def explain_write(
    record: CheckpointRecord, id: SubtaskId, view: SubtaskView | None, earlier: Sequence[CheckpointRecord]
) -> Explanation:
    """Why the asynchronous part of this subtask took long. `earlier` are comparable."""
    write = _Write.of(record, id)
    skew = _skew(record, id, write)
    if skew is not None:
        return skew
    before = [speed for speed in (_speed(other, id.vertex) for other in earlier[:DETAILED]) if speed is not None]
    usual_speed = median(before)
    growth = _growth(record, id, write, earlier)
    if growth is not None and write.bytes_per_s * SLOWED_DOWN > usual_speed:
        return growth
    has_slowed_down = write.bytes_per_s * SLOWED_DOWN < usual_speed
    if has_slowed_down or write.bytes_per_s < SLOW_BYTES_PER_S:
        return _slow(record, id, write, view, usual_speed if has_slowed_down else 0.0)
    sentence = f"{write.text(id)}: there is much state, {size_text(record.totals.state_bytes)} in all"
    advice = (
        "write less: incremental checkpoints with the RocksDB backend, a time to live for state that is no longer "
        "needed; or spread it over more subtasks"
    )
    return Explanation(record.id, SlowCause.LARGE_STATE, sentence, advice, *id)


@dataclass(frozen=True, slots=True)
class _Write:
    """What one subtask wrote, and what its siblings did."""

    metrics: SubtaskMetrics
    siblings: tuple[SubtaskMetrics, ...]

    @classmethod
    def of(cls, record: CheckpointRecord, id: SubtaskId) -> _Write:
        vertex = record.vertex(id.vertex)
        assert vertex is not None
        subtasks = tuple(vertex.subtasks)
        others = (other for other in subtasks if other.index != id.index and not had_finished(other))
        siblings = tuple(other.metrics for other in others if other.metrics is not None)
        return cls(subtasks[id.index].metrics or FINISHED, siblings)

    @property
    def bytes_per_s(self) -> float:
        return max(self.metrics.checkpointed_bytes, 0) * 1000 / max(self.metrics.async_ms, 1)

    def text(self, id: SubtaskId) -> str:
        took, size = fine_duration_text(self.metrics.async_ms), size_text(max(self.metrics.checkpointed_bytes, 0))
        return (
            f"subtask {id.index} of `{id.vertex}` took {took} to write {size} of state "
            f"({size_text(round(self.bytes_per_s))}/s)"
        )


def _skew(record: CheckpointRecord, id: SubtaskId, write: _Write) -> Explanation | None:
    metrics, siblings = write.metrics, write.siblings
    if not siblings:
        return None
    usual_bytes = median(max(other.checkpointed_bytes, 0) for other in siblings)
    usual_ms = median(max(other.async_ms, 0) for other in siblings)
    if metrics.checkpointed_bytes < SKEWED * usual_bytes or metrics.async_ms < SKEWED * usual_ms:
        return None
    if metrics.checkpointed_bytes - usual_bytes < LEAST_GROWTH_BYTES:
        return None
    sentence = f"{write.text(id)}: skew, its siblings wrote {size_text(round(usual_bytes))} (median)"
    advice = (
        f"spread the state of `{id.vertex}`: take a key that divides it better, or keep less for the largest keys; "
        "more subtasks do not help if one key holds most of it"
    )
    return Explanation(record.id, SlowCause.SKEW, sentence, advice, *id)


def _growth(
    record: CheckpointRecord, id: SubtaskId, write: _Write, earlier: Sequence[CheckpointRecord]
) -> Explanation | None:
    usual_bytes = median(other.totals.state_bytes for other in earlier)
    now_bytes = record.totals.state_bytes
    if not earlier or now_bytes < GROWN * usual_bytes or now_bytes - usual_bytes < LEAST_GROWTH_BYTES:
        return None
    if record.totals.checkpointed_bytes < GROWN * median(other.totals.checkpointed_bytes for other in earlier):
        return None
    span_ms = record.trigger_ms - earlier[-1].trigger_ms
    vertex = _grown_most(record, earlier[-1]) or id.vertex
    sentence = (
        f"{write.text(id)}: state grows, from {size_text(earlier[-1].totals.state_bytes)} to {size_text(now_bytes)} "
        f"within {fine_duration_text(max(span_ms, 0))}, most of all that of `{vertex}`"
    )
    advice = (
        f"give the state of `{vertex}` a time to live, or close what it waits for sooner; if it is to grow, use "
        "incremental checkpoints with the RocksDB backend, or more subtasks"
    )
    subtask = id.index if vertex == id.vertex else _largest(record, vertex)
    return Explanation(record.id, SlowCause.STATE_GROWTH, sentence, advice, vertex, subtask)


def _slow(
    record: CheckpointRecord, id: SubtaskId, write: _Write, view: SubtaskView | None, usual_speed: float
) -> Explanation:
    usual_ms = median(max(other.async_ms, 0) for other in write.siblings)
    is_alone = bool(write.siblings) and write.metrics.async_ms >= SKEWED * usual_ms
    where = f" on {view.host}" if view is not None and view.host else ""
    why = f": storage{where} is slow"
    if is_alone:
        why = f": storage is slow for it{where}, its siblings took {fine_duration_text(usual_ms)} (median)"
    elif usual_speed:
        why += f", it took {size_text(round(usual_speed))}/s in the checkpoints before"
    advice = (
        f"look at the machine of that subtask{where}: its disk, its network, its load"
        if is_alone
        else "look at the load and the limits of the checkpoint storage and the network to it; fewer and larger files "
        "help (longer interval, higher inline_threshold), and so does writing less (incremental, compress)"
    )
    return Explanation(record.id, SlowCause.SLOW_STORAGE, f"{write.text(id)}{why}", advice, *id)


def _speed(record: CheckpointRecord, vertex_id: str) -> int | None:
    """Bytes per second of the slowest subtask that wrote anything, or None."""
    vertex = record.vertex(vertex_id)
    reported = [] if vertex is None else [subtask.metrics for subtask in vertex.subtasks if subtask.metrics is not None]
    slowest = max(reported, key=lambda metrics: metrics.async_ms, default=FINISHED)
    if slowest.checkpointed_bytes <= 0:
        return None
    return slowest.checkpointed_bytes * 1000 // max(slowest.async_ms, 1)


def _grown_most(record: CheckpointRecord, before: CheckpointRecord) -> str | None:
    sizes = {vertex.vertex: vertex.totals.state_bytes for vertex in before.vertices}

    def growth(vertex: VertexStatistics) -> int:
        return vertex.totals.state_bytes - sizes.get(vertex.vertex, 0)

    grown = max(record.vertices, key=growth, default=None)
    return None if grown is None else grown.vertex


def _largest(record: CheckpointRecord, vertex_id: str) -> int | None:
    vertex = record.vertex(vertex_id)
    sizes = (
        []
        if vertex is None
        else [
            (subtask.metrics.state_bytes, -subtask.index) for subtask in vertex.subtasks if subtask.metrics is not None
        ]
    )
    return -max(sizes)[1] if sizes else None
