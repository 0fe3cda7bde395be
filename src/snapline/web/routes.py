"""All routes of the REST interface."""

from __future__ import annotations

from snapline.web import flink_handlers, flink_operation_handlers, own_handlers
from snapline.web.dashboard_routes import DASHBOARD_ROUTES
from snapline.web.flink_checkpoint_types import (
    Checkpoint,
    CheckpointConfiguration,
    CheckpointingStatistics,
    CheckpointOperation,
    CheckpointRequest,
    CompletedCheckpoint,
    DisposalOperation,
    DisposalRequest,
    FailedCheckpoint,
    SavepointOperation,
    SavepointRequest,
    StopRequest,
    TaskCheckpointDetails,
    Triggered,
)
from snapline.web.flink_types import (
    ApplicationDetails,
    ApplicationsOverview,
    ClusterOverview,
    DashboardConfiguration,
    JobDetails,
    JobExceptions,
    JobIds,
    JobsOverview,
    Nothing,
    VertexDetails,
)
from snapline.web.metrics_page import CONTENT_TYPE, metrics
from snapline.web.own_checkpoint_types import CheckpointDetails, CheckpointRows
from snapline.web.own_types import (
    Accepted,
    CancelCommand,
    CheckpointCommand,
    Configuration,
    Events,
    JobNow,
    JobRows,
    OperationRow,
    SavepointCommand,
    ServerHealth,
    StopCommand,
)
from snapline.web.rest_route import Parameter, Route

MAX_PAGE = 10_000
"""Most checkpoints in one answer."""

_OWN = "Snapline"

_MAX_EXCEPTIONS = Parameter("maxExceptions", "How many failures to show.", True, least=0, most=1000, default=16)
_MODE = Parameter("mode", "What to do with the job.", default="cancel", values=("cancel",))
_LIMIT = Parameter("limit", "How many checkpoints to show.", True, least=0, most=MAX_PAGE, default=100)
_BEFORE = Parameter("before", "Only checkpoints with a smaller id.", True)
_AFTER = Parameter("after", "Only events after this time, in epoch milliseconds.", True, default=-1)

FLINK_ROUTES = (
    Route(
        "GET", "/config", flink_handlers.dashboard_configuration, "Settings of the dashboard", DashboardConfiguration
    ),
    Route("GET", "/overview", flink_handlers.cluster_overview, "All jobs, counted", ClusterOverview),
    Route("GET", "/jobs", flink_handlers.job_ids, "The ids of all jobs", JobIds),
    Route("GET", "/jobs/overview", flink_handlers.jobs_overview, "All jobs in short", JobsOverview),
    Route(
        "GET",
        "/applications/overview",
        flink_handlers.applications_overview,
        "All applications; every job is one",
        ApplicationsOverview,
    ),
    Route("GET", "/applications/{application}", flink_handlers.application, "An application", ApplicationDetails),
    Route("GET", "/jobs/{job}", flink_handlers.job, "A job with its vertices and its plan", JobDetails),
    Route("GET", "/jobs/{job}/vertices/{vertex}", flink_handlers.vertex, "A vertex with its subtasks", VertexDetails),
    Route(
        "GET",
        "/jobs/{job}/exceptions",
        flink_handlers.exceptions,
        "The latest failures of a job",
        JobExceptions,
        query=(_MAX_EXCEPTIONS,),
    ),
    Route(
        "GET",
        "/jobs/{job}/checkpoints",
        flink_handlers.checkpoints,
        "All checkpoints that are remembered",
        CheckpointingStatistics,
    ),
    Route(
        "GET",
        "/jobs/{job}/checkpoints/config",
        flink_handlers.checkpoint_configuration,
        "How a job takes checkpoints",
        CheckpointConfiguration,
    ),
    Route(
        "GET",
        "/jobs/{job}/checkpoints/details/{checkpoint}",
        flink_handlers.checkpoint_details,
        "A checkpoint with the parts of all vertices",
        Checkpoint | CompletedCheckpoint | FailedCheckpoint,
    ),
    Route(
        "GET",
        "/jobs/{job}/checkpoints/details/{checkpoint}/subtasks/{vertex}",
        flink_handlers.checkpoint_subtasks,
        "The part of a vertex in a checkpoint",
        TaskCheckpointDetails,
    ),
    Route(
        "POST",
        "/jobs/{job}/checkpoints",
        flink_operation_handlers.trigger_checkpoint,
        "Take a checkpoint",
        Triggered,
        202,
        CheckpointRequest,
        changes=True,
    ),
    Route(
        "GET",
        "/jobs/{job}/checkpoints/{trigger}",
        flink_operation_handlers.checkpoint_outcome,
        "What has become of a checkpoint that was asked for",
        CheckpointOperation,
    ),
    Route(
        "POST",
        "/jobs/{job}/savepoints",
        flink_operation_handlers.trigger_savepoint,
        "Take a savepoint, and cancel the job if asked to",
        Triggered,
        202,
        SavepointRequest,
        changes=True,
    ),
    Route(
        "POST",
        "/jobs/{job}/stop",
        flink_operation_handlers.stop,
        "End a job with a savepoint",
        Triggered,
        202,
        StopRequest,
        changes=True,
    ),
    Route(
        "GET",
        "/jobs/{job}/savepoints/{trigger}",
        flink_operation_handlers.savepoint_outcome,
        "What has become of a savepoint or stop",
        SavepointOperation,
    ),
    Route(
        "PATCH",
        "/jobs/{job}",
        flink_operation_handlers.cancel,
        "Cancel a job",
        Nothing,
        202,
        query=(_MODE,),
        changes=True,
    ),
    Route(
        "GET",
        "/jobs/{job}/yarn-cancel",
        flink_operation_handlers.cancel,
        "Cancel a job; for the dashboard, which can only get",
        Nothing,
        202,
        changes=True,
    ),
    Route(
        "POST",
        "/savepoint-disposal",
        flink_operation_handlers.dispose,
        "Delete a savepoint",
        Triggered,
        202,
        DisposalRequest,
        changes=True,
    ),
    Route(
        "GET",
        "/savepoint-disposal/{trigger}",
        flink_operation_handlers.disposal_outcome,
        "What has become of a deletion",
        DisposalOperation,
    ),
)

OWN_ROUTES = (
    Route("GET", "/snapline/health", own_handlers.server_health, "Whether the server answers", ServerHealth, tag=_OWN),
    Route("GET", "/snapline/jobs", own_handlers.jobs, "All jobs of the program", JobRows, tag=_OWN),
    Route("GET", "/snapline/jobs/{job}", own_handlers.job, "A job at this moment", JobNow, tag=_OWN),
    Route(
        "GET",
        "/snapline/jobs/{job}/checkpoints",
        own_handlers.checkpoints,
        "A page of the history of checkpoints, newest first",
        CheckpointRows,
        query=(_LIMIT, _BEFORE),
        tag=_OWN,
    ),
    Route(
        "GET",
        "/snapline/jobs/{job}/checkpoints/{checkpoint}",
        own_handlers.checkpoint,
        "A checkpoint with its critical path, vertices and subtasks",
        CheckpointDetails,
        tag=_OWN,
    ),
    Route(
        "GET",
        "/snapline/jobs/{job}/events",
        own_handlers.job_events,
        "The latest events of a job, oldest first",
        Events,
        query=(_AFTER,),
        tag=_OWN,
    ),
    Route(
        "GET",
        "/snapline/jobs/{job}/configuration",
        own_handlers.job_configuration,
        "The settings that a job runs with",
        Configuration,
        tag=_OWN,
    ),
    Route(
        "POST",
        "/snapline/jobs/{job}/checkpoint",
        own_handlers.take_checkpoint,
        "Take a checkpoint",
        Accepted,
        202,
        CheckpointCommand,
        changes=True,
        tag=_OWN,
    ),
    Route(
        "POST",
        "/snapline/jobs/{job}/savepoint",
        own_handlers.take_savepoint,
        "Take a savepoint",
        Accepted,
        202,
        SavepointCommand,
        changes=True,
        tag=_OWN,
    ),
    Route(
        "POST",
        "/snapline/jobs/{job}/stop",
        own_handlers.stop,
        "End a job with a savepoint",
        Accepted,
        202,
        StopCommand,
        changes=True,
        tag=_OWN,
    ),
    Route(
        "POST",
        "/snapline/jobs/{job}/cancel",
        own_handlers.cancel,
        "Cancel a job",
        Accepted,
        202,
        CancelCommand,
        changes=True,
        tag=_OWN,
    ),
    Route(
        "GET",
        "/snapline/operations/{trigger}",
        own_handlers.operation,
        "What has become of an operation",
        OperationRow,
        tag=_OWN,
    ),
    Route("GET", "/metrics", metrics, "Metrics for Prometheus", tag=_OWN, media=CONTENT_TYPE),
)

ROUTES = (*FLINK_ROUTES, *DASHBOARD_ROUTES, *OWN_ROUTES)
