"""Long synchronous parts of checkpoints: at the subtask that answered last, or at one that let others wait."""

from __future__ import annotations

from collections.abc import Mapping

from snapline.protocol.statistics.barrier_wait import is_busy, is_held_up, passed_ms, senders, waiting_place
from snapline.protocol.statistics.checkpoint_records import CheckpointRecord
from snapline.protocol.statistics.critical_path import FINISHED, had_finished
from snapline.protocol.statistics.explanation import Explanation, SlowCause
from snapline.protocol.statistics.job_view import PlanView, SubtaskView
from snapline.protocol.statistics.state_writes import SKEWED
from snapline.protocol.statistics.summary import median
from snapline.text import fine_duration_text, size_text
from snapline.types import SubtaskId


def late_sender(
    record: CheckpointRecord, plan: PlanView, tasks: Mapping[SubtaskId, SubtaskView], waiting: SubtaskId
) -> SubtaskId | None:
    """The subtask that sent the barrier late, because preparing its snapshot took long; None if rows held it up.

    Operators prepare a snapshot before the barrier goes on: what they still emit belongs before it.
    """
    place = waiting_place(record, plan, waiting)
    view = tasks.get(place)
    if is_busy(view) or is_held_up(view):
        return None
    parts = {vertex.vertex: tuple(vertex.subtasks) for vertex in record.vertices}
    arrived_ms = passed_ms(parts[place.vertex][place.index])
    for sender in senders(record, plan, place):
        subtask = parts[sender.vertex][sender.index]
        sync_ms = 0 if subtask.metrics is None else subtask.metrics.sync_ms
        if sync_ms > (arrived_ms - passed_ms(subtask)) / 2 and sync_ms > arrived_ms / 2:
            return sender
    return None


def explain_synchronous(record: CheckpointRecord, plan: PlanView, id: SubtaskId) -> Explanation:
    """Why this subtask stood still for long."""
    vertex = record.vertex(id.vertex)
    assert vertex is not None
    subtasks = tuple(vertex.subtasks)
    metrics = subtasks[id.index].metrics or FINISHED
    siblings = [subtask for subtask in subtasks if subtask.index != id.index and not had_finished(subtask)]
    others = [subtask.metrics for subtask in siblings if subtask.metrics is not None]
    usual_ms = median(max(other.sync_ms, 0) for other in others)
    usual_bytes = median(max(other.state_bytes, 0) for other in others)
    took = fine_duration_text(metrics.sync_ms)
    sentence = f"subtask {id.index} of `{id.vertex}` processed nothing for {took} while it took its snapshot"
    if others and metrics.sync_ms >= SKEWED * usual_ms and metrics.state_bytes >= SKEWED * usual_bytes > 0:
        sizes = f"{size_text(metrics.state_bytes)} of state, its siblings {size_text(round(usual_bytes))} (median)"
        advice = f"spread the state of `{id.vertex}`: take a key that divides it better, or keep less for large keys"
        return Explanation(record.id, SlowCause.SKEW, f"{sentence}: skew, it has {sizes}", advice, *id)
    shown = plan.vertex(id.vertex)
    uids = [id.vertex] if shown is None else [operator.uid for operator in shown.operators]
    advice = (
        f"make prepare_snapshot, snapshot, and the prepare of a sink quicker in {', '.join(f'`{uid}`' for uid in uids)}"
        ": write or flush as rows arrive, and keep large state in keyed state, which is written beside the rows"
    )
    cause = SlowCause.LONG_SYNCHRONOUS_PART
    return Explanation(record.id, cause, f"{sentence} (the synchronous part)", advice, *id)
