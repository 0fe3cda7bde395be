"""Answers to the calls under `/snapline`."""

from __future__ import annotations

from typing import Any

from snapline.protocol.statistics.checkpoint_records import CheckpointRecord
from snapline.web.flink_handlers import found_record
from snapline.web.job_board import JobAnswers, encode
from snapline.web.job_requests import begin_cancel, begin_checkpoint, begin_savepoint, begin_stop
from snapline.web.operations import Operation
from snapline.web.own_checkpoint_types import CheckpointRows, LatestRows
from snapline.web.own_checkpoints import (
    checkpoint_details,
    checkpoint_row,
    completed_summary_row,
    counts_row,
    failure_row,
    restored_row,
)
from snapline.web.own_shapes import events, job_now, job_row
from snapline.web.own_types import (
    Accepted,
    CheckpointCommand,
    JobRows,
    OperationRow,
    SavepointCommand,
    ServerHealth,
    StopCommand,
)
from snapline.web.rest_errors import not_found
from snapline.web.rest_route import Answer, Call, json_answer
from snapline.web.settings_shape import configuration


async def server_health(call: Call) -> Answer:
    del call
    return json_answer(ServerHealth("ok"))


async def jobs(call: Call) -> Answer:
    board = call.server.board
    answers = await board.all_answers()
    return Answer(
        board.combined("own/jobs", answers, lambda: encode(JobRows([job_row(item.view) for item in answers])))
    )


async def job(call: Call) -> Answer:
    answers = await call.answers()
    can_change = call.job.can_change and not call.server.access.read_only
    latest = answers.view.statistics.latest

    def make() -> Any:
        return job_now(
            answers.view,
            can_change=can_change,
            last_completed=_row(answers, latest.completed),
            last_failed=_row(answers, latest.failed),
        )

    return Answer(answers.encoded("own/job", make))


async def checkpoints(call: Call) -> Answer:
    answers = await call.answers()
    limit, before = call.query["limit"], call.query["before"]
    return Answer(answers.encoded(f"own/checkpoints/{limit}/{before}", lambda: _page(answers, limit, before)))


async def checkpoint(call: Call) -> Answer:
    answers = await call.answers()
    record = found_record(call, answers)
    explanation = answers.view.explanations.get(record.id)
    return Answer(answers.details.get("own", record, explanation, lambda: checkpoint_details(record, explanation)))


async def job_events(call: Call) -> Answer:
    answers = await call.answers()
    return json_answer(events(answers.view, call.query["after"]))


async def job_configuration(call: Call) -> Answer:
    answers = await call.answers()
    return Answer(answers.encoded("own/configuration", lambda: configuration(answers.view)))


async def take_checkpoint(call: Call) -> Answer:
    command: CheckpointCommand = call.body
    return _accepted(await begin_checkpoint(call, command.scope))


async def take_savepoint(call: Call) -> Answer:
    command: SavepointCommand = call.body
    return _accepted(await begin_savepoint(call, command.directory, command.format))


async def stop(call: Call) -> Answer:
    command: StopCommand = call.body
    return _accepted(await begin_stop(call, command.directory, command.format, drain=command.drain))


async def cancel(call: Call) -> Answer:
    return _accepted(await begin_cancel(call))


async def operation(call: Call) -> Answer:
    given = call.path["trigger"]
    found = call.server.operations.find(given)
    if found is None:
        raise not_found(f"there is no operation {given[:100]!r} here; outcomes are kept for some minutes only")
    error = found.error
    status = "running" if found.is_running else "done" if error is None else "failed"
    return json_answer(
        OperationRow(
            found.request_id,
            found.kind.value,
            status,
            found.location,
            found.checkpoint_id,
            None if error is None else str(error) or type(error).__name__,
        )
    )


def _accepted(begun: Operation) -> Answer:
    return json_answer(Accepted(begun.request_id), 202)


def _row(answers: JobAnswers, record: CheckpointRecord | None) -> Any:
    return None if record is None else checkpoint_row(record, answers.view.explanations.get(record.id))


def _page(answers: JobAnswers, limit: int, before: int | None) -> CheckpointRows:
    view, snapshot = answers.view, answers.view.statistics
    latest, history = snapshot.latest, snapshot.history
    answers.rows.prune(history)
    older = history if before is None else [record for record in history if record.id < before]
    return CheckpointRows(
        counts_row(snapshot.counts),
        completed_summary_row(snapshot.summary),
        restored_row(latest.restored),
        LatestRows(_row(answers, latest.completed), _row(answers, latest.savepoint), _row(answers, latest.failed)),
        failure_row(latest.not_started),
        answers.rows.own(older[:limit], view.explanations),
        len(older) > limit,
    )
