"""Answers to the calls that Flink's clients make: what changes a job, and what has become of it."""

from __future__ import annotations

from snapline.web.flink_checkpoint_types import (
    CheckpointOperation,
    CheckpointOutcome,
    CheckpointRequest,
    DisposalOperation,
    DisposalOutcome,
    DisposalRequest,
    FailureCause,
    OperationStatus,
    SavepointOperation,
    SavepointOutcome,
    SavepointRequest,
    StopRequest,
    Triggered,
)
from snapline.web.flink_types import Nothing
from snapline.web.job_requests import begin_cancel, begin_checkpoint, begin_disposal, begin_savepoint, begin_stop
from snapline.web.operations import Operation, OperationKind
from snapline.web.rest_errors import not_found
from snapline.web.rest_route import Answer, Call, json_answer

_IN_PROGRESS = OperationStatus("IN_PROGRESS")
_COMPLETED = OperationStatus("COMPLETED")


async def trigger_checkpoint(call: Call) -> Answer:
    request: CheckpointRequest = call.body
    return _triggered(await begin_checkpoint(call, request.checkpoint_type, request.trigger_id))


async def trigger_savepoint(call: Call) -> Answer:
    request: SavepointRequest = call.body
    return _triggered(
        await begin_savepoint(
            call,
            request.target_directory,
            request.format_type,
            cancel=request.cancel_job,
            given_id=request.trigger_id,
        )
    )


async def stop(call: Call) -> Answer:
    request: StopRequest = call.body
    return _triggered(
        await begin_stop(
            call, request.target_directory, request.format_type, drain=request.drain, given_id=request.trigger_id
        )
    )


async def cancel(call: Call) -> Answer:
    await begin_cancel(call)
    return json_answer(Nothing(), 202)


async def dispose(call: Call) -> Answer:
    request: DisposalRequest = call.body
    return _triggered(begin_disposal(call, request.savepoint_path, request.trigger_id))


async def checkpoint_outcome(call: Call) -> Answer:
    operation = _found(call, OperationKind.CHECKPOINT, call.job.job_id)
    if operation.is_running:
        return json_answer(CheckpointOperation(_IN_PROGRESS, None))
    outcome = CheckpointOutcome(operation.checkpoint_id, _cause(operation.error))
    return json_answer(CheckpointOperation(_COMPLETED, outcome))


async def savepoint_outcome(call: Call) -> Answer:
    operation = _found(call, OperationKind.SAVEPOINT, call.job.job_id)
    if operation.is_running:
        return json_answer(SavepointOperation(_IN_PROGRESS, None))
    outcome = SavepointOutcome(operation.location, _cause(operation.error))
    return json_answer(SavepointOperation(_COMPLETED, outcome))


async def disposal_outcome(call: Call) -> Answer:
    operation = _found(call, OperationKind.DISPOSE, "")
    if operation.is_running:
        return json_answer(DisposalOperation(_IN_PROGRESS, None))
    return json_answer(DisposalOperation(_COMPLETED, DisposalOutcome(_cause(operation.error))))


def _triggered(operation: Operation) -> Answer:
    return json_answer(Triggered(operation.request_id), 202)


def _found(call: Call, family: OperationKind, job_id: str) -> Operation:
    given = call.path["trigger"]
    operation = call.server.operations.find(given, family, job_id)
    if operation is None:
        raise not_found(f"there is no operation {given[:100]!r} here; outcomes are kept for some minutes only")
    return operation


def _cause(error: BaseException | None) -> FailureCause | None:
    if error is None:
        return None
    kind = f"{type(error).__module__}.{type(error).__qualname__}"
    return FailureCause(kind, f"{type(error).__name__}: {error}")
