"""Replays the coordinator's policies: which request comes next, when the job fails, what is kept."""

from __future__ import annotations

import re
from typing import Any

from snapline.devtools.replay.script_fields import Fields, NotUnderstoodError, shown, text
from snapline.errors import SnaplineError
from snapline.protocol.coordinator.failure_counter import FailureCounter
from snapline.protocol.coordinator.request_decider import RequestDecider, TriggerRequest
from snapline.protocol.retention.retention_rules import StoredSnapshot, subsumed
from snapline.protocol.retention.shared_registry import PLACEHOLDER, SharedStateRegistry
from snapline.types import NO_CHECKPOINT, FailureReason, SnapshotKind

_REQUEST_KINDS = {"checkpoint": SnapshotKind.CHECKPOINT, "savepoint": SnapshotKind.SAVEPOINT}
_REASONS = {reason.name: reason for reason in FailureReason}
_STORED_KINDS = {"c": SnapshotKind.CHECKPOINT, "s": SnapshotKind.SAVEPOINT, "S": SnapshotKind.SYNC_SAVEPOINT}
_STORED_NAME = re.compile("([csS])([0-9]{1,15})")


def replay_decider(script: dict[str, Any]) -> dict[str, Any]:
    """Which request is chosen, which fail and which wait, after each request or poll."""
    fields = Fields(script)
    decider = RequestDecider(
        fields.integer("max_queued", 1000, minimum=1),
        fields.integer("max_concurrent", 1, minimum=1),
        fields.integer("min_pause_ms", 0),
    )
    steps = [Fields(step, where) for where, step in fields.array("steps")]
    fields.done()
    return {"steps": [_decide(decider, step) for step in steps]}


def _decide(decider: RequestDecider, step: Fields) -> dict[str, Any]:
    now_ms = step.integer("now", 0)
    triggering = step.flag("triggering", False)
    pending = step.integer("pending", 0)
    cleaning = step.integer("cleaning", 0)
    last_completed_ms = step.optional_integer("last_completed", None)
    is_poll = step.flag("poll", False)
    if is_poll == ("request" in step):
        raise NotUnderstoodError(f'{step.where("request")}: a step has either a request or "poll": true')
    request = None if is_poll else _request(Fields(step.value("request"), step.where("request")), now_ms)
    step.done()
    if request is None:
        decision = decider.poll(
            triggering=triggering,
            pending=pending,
            cleaning=cleaning,
            now_ms=now_ms,
            last_completed_ms=last_completed_ms,
        )
    else:
        decision = decider.offer(
            request,
            triggering=triggering,
            pending=pending,
            cleaning=cleaning,
            now_ms=now_ms,
            last_completed_ms=last_completed_ms,
        )
    return {
        "chosen": None if decision.chosen is None else decision.chosen.name,
        "failed": [{"name": failed.name, "reason": reason.name} for failed, reason in decision.failed],
        "queued": [waiting.name for waiting in decider.queued],
        "retry_in_ms": decision.retry_in_ms,
    }


def _request(fields: Fields, now_ms: int) -> TriggerRequest:
    request = TriggerRequest(
        fields.text("name"),
        fields.choice("type", _REQUEST_KINDS, "checkpoint"),
        forced=fields.flag("forced", False),
        periodic=fields.flag("periodic", True),
        timestamp_ms=now_ms,
    )
    fields.done()
    return request


def replay_failures(script: dict[str, Any]) -> dict[str, Any]:
    """Which of the events fail the job."""
    fields = Fields(script)
    counter = FailureCounter(fields.optional_integer("tolerable", 2))
    events = [Fields(event, where) for where, event in fields.array("events")]
    fields.done()
    return {"job_failed": [index for index, event in enumerate(events) if _fails_job(counter, event)]}


def _fails_job(counter: FailureCounter, event: Fields) -> bool:
    if ("fail" in event) == ("complete" in event):
        raise NotUnderstoodError(f"{event.where('fail')}: an event has either fail or complete, with a checkpoint id")
    if "complete" in event:
        completed_id = event.integer("complete")
        event.done()
        counter.completed(completed_id)
        return False
    failed_id = event.integer("fail", minimum=NO_CHECKPOINT)
    reason = event.choice("reason", _REASONS, FailureReason.CHECKPOINT_DECLINED.name)
    savepoint = event.flag("savepoint", False)
    synchronous = event.flag("synchronous", False)
    from_task = event.flag("from_task", True)
    event.done()
    return counter.failed(failed_id, reason, savepoint=savepoint, synchronous=synchronous, from_task=from_task)


def replay_retention(script: dict[str, Any]) -> dict[str, Any]:
    """Which snapshots are left after all have been added to the store in turn."""
    fields = Fields(script)
    limit = fields.integer("retain", 1, minimum=1)
    added = [_stored(text(name, where), where) for where, name in fields.array("added")]
    fields.done()
    retained: list[tuple[str, StoredSnapshot]] = []
    for named in added:
        retained.append(named)
        dropped = {id(entry) for entry in subsumed([entry for _, entry in retained], limit)}
        retained = [(name, entry) for name, entry in retained if id(entry) not in dropped]
    return {"retained": [name for name, _ in retained]}


def _stored(name: str, where: str) -> tuple[str, StoredSnapshot]:
    match = _STORED_NAME.fullmatch(name)
    if match is None:
        raise NotUnderstoodError(
            f"{where} is {shown(name)}; use c (checkpoint), s (savepoint) or S (stop-with-savepoint) and an id"
        )
    return name, StoredSnapshot(int(match[2]), _STORED_KINDS[match[1]])


def replay_shared(script: dict[str, Any]) -> dict[str, Any]:
    """What each step deletes, and which restored snapshots are still in use."""
    fields = Fields(script)
    steps = [(where, Fields(step, where)) for where, step in fields.array("steps")]
    fields.done()
    registry: SharedStateRegistry[str] = SharedStateRegistry()
    outcomes = []
    for where, step in steps:
        try:
            outcomes.append(_share(registry, step, where))
        except NotUnderstoodError:
            raise
        except SnaplineError as error:
            raise NotUnderstoodError(f"{where}: {error}") from error
    return {"steps": outcomes}


def _share(registry: SharedStateRegistry[str], step: Fields, where: str) -> dict[str, Any]:
    deleted: list[str] = []
    in_use: list[int] = []
    if [name in step for name in ("register", "restore", "unregister_unused")].count(True) != 1:
        raise NotUnderstoodError(f"{where}: a step has exactly one of register, restore and unregister_unused")
    if "register" in step:
        key = step.text("register")
        handle = step.text("handle", key)
        is_placeholder = step.flag("placeholder", False)
        checkpoint_id = step.integer("by")
        step.done()
        registry.register(key, PLACEHOLDER if is_placeholder else handle, checkpoint_id)
    elif "restore" in step:
        checkpoint_id = step.integer("restore")
        keys = [text(key, at) for at, key in step.array("keys")]
        claim = step.flag("claim", True)
        sharing = step.flag("sharing", False)
        step.done()
        registry.restored(checkpoint_id, {key: key for key in keys}, claim=claim, sharing=sharing)
    else:
        lowest_id = step.integer("unregister_unused")
        step.done()
        unused = registry.unregister_unused(lowest_id)
        deleted = [key for key, _ in unused.deleted]
        in_use = list(unused.in_use)
    return {"deleted": deleted, "in_use": in_use}
