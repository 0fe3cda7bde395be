"""Routes that only Flink's dashboard asks for."""

from __future__ import annotations

from snapline.web import dashboard_handlers as handlers
from snapline.web.dashboard_types import (
    AggregatedMetric,
    ApplicationExceptions,
    BackPressure,
    DriverEnvironment,
    FlameGraph,
    JobAccumulators,
    JobConfiguration,
    Metric,
    Setting,
    SubtaskAccumulators,
    TaskManagers,
    VertexAccumulators,
    VertexTaskManagers,
    VertexTimes,
)
from snapline.web.flink_types import Nothing
from snapline.web.rest_route import Parameter, Route

_GET = Parameter("get", "Names, with commas between them; without it all names are listed.")
_AGG = Parameter("agg", "Some of min, max, avg, sum and skew, with commas between them; without it all.")
_MAX_EXCEPTIONS = Parameter("maxExceptions", "How many failures to show.", True, least=0, most=1000, default=16)
_VERTEX = "/jobs/{job}/vertices/{vertex}"

DASHBOARD_ROUTES = (
    Route("GET", "/jobs/{job}/config", handlers.job_configuration, "The settings of a job", JobConfiguration),
    Route("GET", "/jobs/{job}/accumulators", handlers.job_accumulators, "Accumulators: none", JobAccumulators),
    Route(
        "GET",
        "/applications/{application}/exceptions",
        handlers.application_exceptions,
        "The latest failures of an application",
        ApplicationExceptions,
        query=(_MAX_EXCEPTIONS,),
    ),
    Route(
        "POST",
        "/applications/{application}/cancel",
        handlers.cancel_application,
        "Cancel an application",
        Nothing,
        202,
        Nothing,
        changes=True,
    ),
    Route("GET", f"{_VERTEX}/metrics", handlers.vertex_metrics, "Figures of subtasks", list[Metric], query=(_GET,)),
    Route(
        "GET",
        f"{_VERTEX}/subtasks/metrics",
        handlers.aggregated_metrics,
        "Figures over the subtasks of a vertex",
        list[AggregatedMetric],
        query=(_GET, _AGG),
    ),
    Route("GET", f"{_VERTEX}/watermarks", handlers.watermarks, "The watermarks of subtasks", list[Metric]),
    Route("GET", f"{_VERTEX}/backpressure", handlers.back_pressure, "How much subtasks are held up", BackPressure),
    Route("GET", f"{_VERTEX}/subtasktimes", handlers.vertex_times, "When subtasks took their states", VertexTimes),
    Route(
        "GET",
        f"{_VERTEX}/taskmanagers",
        handlers.vertex_task_managers,
        "A vertex by operator processes",
        VertexTaskManagers,
    ),
    Route("GET", f"{_VERTEX}/accumulators", handlers.vertex_accumulators, "Accumulators: none", VertexAccumulators),
    Route(
        "GET",
        f"{_VERTEX}/subtasks/accumulators",
        handlers.subtask_accumulators,
        "Accumulators: none",
        SubtaskAccumulators,
    ),
    Route("GET", f"{_VERTEX}/flamegraph", handlers.flame_graph, "Flame graphs: none", FlameGraph),
    Route("GET", "/taskmanagers", handlers.task_managers, "The operator processes of running jobs", TaskManagers),
    Route("GET", "/jobmanager/config", handlers.driver_settings, "Settings of the driver", list[Setting]),
    Route("GET", "/jobmanager/environment", handlers.driver_environment, "The Python of the driver", DriverEnvironment),
    Route("GET", "/jobmanager/metrics", handlers.driver_metrics, "Metrics of the driver: none here", list[Metric]),
)
