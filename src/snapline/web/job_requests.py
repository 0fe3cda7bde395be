"""Requests that change a job, passed on to it as operations."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future

from snapline.types import CheckpointScope, JobStatus, SavepointFormat
from snapline.web.job_board import BoardJob
from snapline.web.monitored_job import MonitoredJob
from snapline.web.operations import Operation, OperationKind, cancel_after, first_of
from snapline.web.rest_errors import RestError
from snapline.web.rest_route import Call


async def begin_checkpoint(call: Call, scope: CheckpointScope, given_id: str | None = None) -> Operation:
    return await _begin(call, OperationKind.CHECKPOINT, given_id, lambda job: job.checkpoint(scope))


async def begin_savepoint(
    call: Call,
    directory: str | None,
    format: SavepointFormat | None,
    *,
    cancel: bool = False,
    given_id: str | None = None,
) -> Operation:

    def start(job: MonitoredJob) -> Future[str]:
        savepoint = job.savepoint(directory, format)
        return cancel_after(savepoint, job.cancel) if cancel else savepoint

    return await _begin(call, OperationKind.SAVEPOINT, given_id, start)


async def begin_stop(
    call: Call, directory: str | None, format: SavepointFormat | None, *, drain: bool, given_id: str | None = None
) -> Operation:
    return await _begin(call, OperationKind.STOP, given_id, lambda job: job.stop(directory, format, drain=drain))


async def begin_cancel(call: Call) -> Operation:
    """Cancel the job. One that is cancelled already stays so; one that has ended otherwise cannot be."""
    answers = await call.answers()
    if call.job.has_ended and answers.view.status is JobStatus.CANCELED:
        ended: Future[None] = Future()
        ended.set_result(None)
        return call.server.operations.begin(OperationKind.CANCEL, call.job.job_id, None, lambda: ended)
    return await _begin(call, OperationKind.CANCEL, None, lambda job: job.cancel())


def begin_disposal(call: Call, path: str, given_id: str | None) -> Operation:
    """Delete a savepoint, with the job in whose directories it is."""
    jobs = [item.job for item in call.server.board.jobs if item.job is not None and item.can_change]
    if not jobs:
        raise RestError(409, "no job of this server runs; delete the savepoint with `snapline dispose`")

    def attempt(job: MonitoredJob) -> Callable[[], Future[None]]:
        return lambda: job.dispose(path)

    attempts = [attempt(job) for job in jobs]
    return call.server.operations.begin(OperationKind.DISPOSE, "", given_id, lambda: first_of(attempts))


async def _begin(
    call: Call, kind: OperationKind, given_id: str | None, start: Callable[[MonitoredJob], Future[str] | Future[None]]
) -> Operation:
    board_job = call.job
    await board_job.answers()  # finds out whether the job has ended
    return call.server.operations.begin(kind, board_job.job_id, given_id, lambda: start(_changeable(board_job)))


def _changeable(board_job: BoardJob) -> MonitoredJob:
    if not board_job.can_change:
        raise RestError(409, f"job {board_job.job_id} is only read from its storage; start it to change it")
    if board_job.job is None:
        raise RestError(409, f"job {board_job.job_id} has ended")
    return board_job.job
