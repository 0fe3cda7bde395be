"""Answers to the calls that only Flink's dashboard makes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from snapline.protocol.statistics.job_view import JobView, SubtaskView, VertexView
from snapline.web import dashboard_shapes
from snapline.web.flink_operation_handlers import cancel
from snapline.web.job_board import JobAnswers
from snapline.web.rest_errors import not_found
from snapline.web.rest_ids import is_named
from snapline.web.rest_route import Answer, Call, Handler, json_answer

_Make = Callable[[JobView, VertexView, Sequence[SubtaskView]], Any]


def _of_vertex(name: str, make: _Make) -> Handler:
    """A handler whose answer follows from one vertex alone."""

    async def handler(call: Call) -> Answer:
        answers, vertex = await _found_vertex(call)
        view = answers.view
        return Answer(answers.encoded(f"{name}/{vertex.id}", lambda: make(view, vertex, view.subtasks_of(vertex.id))))

    return handler


watermarks = _of_vertex("watermarks", lambda _view, _vertex, subtasks: dashboard_shapes.watermarks(subtasks))
back_pressure = _of_vertex("backpressure", lambda view, _, subtasks: dashboard_shapes.back_pressure(view, subtasks))
vertex_times = _of_vertex("times", dashboard_shapes.vertex_times)
vertex_task_managers = _of_vertex("taskmanagers", dashboard_shapes.vertex_task_managers)
vertex_accumulators = _of_vertex(
    "accumulators", lambda _view, vertex, _subtasks: dashboard_shapes.vertex_accumulators(vertex)
)
subtask_accumulators = _of_vertex(
    "subtasks/accumulators", lambda _view, vertex, _subtasks: dashboard_shapes.subtask_accumulators(vertex)
)
flame_graph = _of_vertex("flamegraph", lambda _view, _vertex, _subtasks: dashboard_shapes.flame_graph())


async def vertex_metrics(call: Call) -> Answer:
    answers, vertex = await _found_vertex(call)
    wanted = _listed(call.query["get"])
    return json_answer(dashboard_shapes.vertex_metrics(answers.view.subtasks_of(vertex.id), wanted))


async def aggregated_metrics(call: Call) -> Answer:
    answers, vertex = await _found_vertex(call)
    kinds = _listed(call.query["agg"]) or dashboard_shapes.AGGREGATES
    wanted, subtasks = _listed(call.query["get"]), answers.view.subtasks_of(vertex.id)
    return json_answer(dashboard_shapes.aggregated_metrics(subtasks, wanted, kinds))


async def job_accumulators(call: Call) -> Answer:
    await call.answers()
    return json_answer(dashboard_shapes.job_accumulators())


async def job_configuration(call: Call) -> Answer:
    answers = await call.answers()
    return Answer(answers.encoded("flink/config", lambda: dashboard_shapes.job_configuration(answers.view)))


async def application_exceptions(call: Call) -> Answer:
    answers = await _of_application(call).answers()
    return json_answer(dashboard_shapes.application_exceptions(answers.view, call.query["maxExceptions"]))


async def cancel_application(call: Call) -> Answer:
    return await cancel(_of_application(call))


async def task_managers(call: Call) -> Answer:
    views = [answers.view for answers in await call.server.board.all_answers()]
    return json_answer(dashboard_shapes.task_managers(views))


async def driver_settings(call: Call) -> Answer:
    return json_answer(dashboard_shapes.driver_settings(call.server.access))


async def driver_environment(call: Call) -> Answer:
    del call
    return json_answer(dashboard_shapes.driver_environment())


async def driver_metrics(call: Call) -> Answer:
    """None: `/metrics` has those of the driver."""
    del call
    return json_answer([])


def _of_application(call: Call) -> Call:
    """Every job is an application."""
    return Call(call.server, {"job": call.path["application"]}, call.query)


async def _found_vertex(call: Call) -> tuple[JobAnswers, VertexView]:
    answers, name = await call.answers(), call.path["vertex"]
    found = next((vertex for vertex in answers.view.plan.vertices if is_named(name, vertex.id)), None)
    if found is None:
        raise not_found(f"the job has no vertex {name[:100]!r}")
    return answers, found


def _listed(text: str | None) -> list[str] | None:
    """The parts of a list with commas; None without one."""
    return None if text is None else [part for part in text.split(",") if part]
