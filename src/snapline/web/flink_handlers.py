"""Answers to the calls that Flink's clients make: what is read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from snapline.protocol.statistics.checkpoint_records import CheckpointRecord
from snapline.protocol.statistics.job_view import JobView
from snapline.web import flink_checkpoints, flink_shapes
from snapline.web.flink_checkpoint_types import CheckpointingStatistics, LatestCheckpoints
from snapline.web.flink_types import ApplicationsOverview, JobIds, JobsOverview
from snapline.web.job_board import JobAnswers
from snapline.web.rest_errors import not_found
from snapline.web.rest_ids import is_named
from snapline.web.rest_route import Answer, Call, Handler, json_answer


async def dashboard_configuration(call: Call) -> Answer:
    return json_answer(flink_shapes.dashboard_configuration(can_cancel=not call.server.access.read_only))


async def cluster_overview(call: Call) -> Answer:
    return json_answer(flink_shapes.cluster_overview(await _views(call)))


async def job_ids(call: Call) -> Answer:
    return json_answer(JobIds([flink_shapes.job_id_with_status(view) for view in await _views(call)]))


async def jobs_overview(call: Call) -> Answer:
    return json_answer(JobsOverview([flink_shapes.job_summary(view) for view in await _views(call)]))


async def applications_overview(call: Call) -> Answer:
    return json_answer(ApplicationsOverview([flink_shapes.application_summary(view) for view in await _views(call)]))


async def application(call: Call) -> Answer:
    of_job = Call(call.server, {"job": call.path["application"]}, call.query)
    return await _of_view("application", flink_shapes.application_details)(of_job)


async def exceptions(call: Call) -> Answer:
    answers = await call.answers()
    return json_answer(flink_shapes.job_exceptions(answers.view, call.query["maxExceptions"]))


async def checkpoints(call: Call) -> Answer:
    answers = await call.answers()
    return Answer(answers.encoded("flink/checkpoints", lambda: _checkpoints(answers)))


async def checkpoint_details(call: Call) -> Answer:
    answers = await call.answers()
    record, plan = found_record(call, answers), answers.view.plan
    return Answer(
        answers.details.get("flink", record, plan, lambda: flink_checkpoints.checkpoint_details(record, plan.vertices))
    )


async def checkpoint_subtasks(call: Call) -> Answer:
    answers = await call.answers()
    record, vertex = found_record(call, answers), call.path["vertex"]
    known = (*(item.id for item in answers.view.plan.vertices), *(part.vertex for part in record.vertices))
    vertex_id = next((item for item in known if is_named(vertex, item)), None)
    if vertex_id is None:
        raise not_found(f"the job has no vertex {vertex[:100]!r}")
    return Answer(
        answers.details.get(
            f"flink/{vertex_id}", record, None, lambda: flink_checkpoints.vertex_part(record, vertex_id)
        )
    )


async def vertex(call: Call) -> Answer:
    answers, name = await call.answers(), call.path["vertex"]
    found = next((item for item in answers.view.plan.vertices if is_named(name, item.id)), None)
    if found is None:
        raise not_found(f"the job has no vertex {name[:100]!r}")
    return Answer(answers.encoded(f"flink/vertex/{found.id}", lambda: flink_shapes.vertex_details(answers.view, found)))


def found_record(call: Call, answers: JobAnswers) -> CheckpointRecord:
    """The checkpoint that the path names."""
    checkpoint_id = call.path["checkpoint"]
    record = answers.record(checkpoint_id)
    if record is None:
        raise not_found(
            f"checkpoint {checkpoint_id} is not remembered; Monitoring(history=...) says how many of them are"
        )
    return record


def _of_view(name: str, make: Callable[[JobView], Any]) -> Handler:
    """A handler whose answer follows from the view of the job alone."""

    async def handler(call: Call) -> Answer:
        answers = await call.answers()
        return Answer(answers.encoded(f"flink/{name}", lambda: make(answers.view)))

    return handler


job = _of_view("job", flink_shapes.job_details)
checkpoint_configuration = _of_view("configuration", flink_checkpoints.checkpoint_configuration)


async def _views(call: Call) -> list[JobView]:
    return [answers.view for answers in await call.server.board.all_answers()]


def _checkpoints(answers: JobAnswers) -> CheckpointingStatistics:
    snapshot, rows = answers.view.statistics, answers.rows
    latest = snapshot.latest
    rows.prune(snapshot.history)

    def row(record: CheckpointRecord | None) -> Any:
        return None if record is None else flink_checkpoints.checkpoint(record)

    return CheckpointingStatistics(
        flink_checkpoints.counts(snapshot),
        flink_checkpoints.completed_statistics(snapshot),
        LatestCheckpoints(
            row(latest.completed),
            row(latest.savepoint),
            row(latest.failed),
            flink_checkpoints.restored(latest.restored),
        ),
        rows.flink(snapshot.history),
    )
