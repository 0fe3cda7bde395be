from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from snapline.devtools.kit.sample_views import STARTED_MS, sample_view
from snapline.types import JobStatus, TaskStatus
from snapline.web import flink_shapes
from snapline.web.job_board import encode
from snapline.web.rest_ids import hex_id

_PROCESS = f"host-0-{hex_id('clicks')[:8]}-slot-0"


def shape(value: Any) -> Any:
    return json.loads(encode(value))


def test_the_dashboard_starts() -> None:
    found = shape(flink_shapes.dashboard_configuration(can_cancel=True))
    assert set(found) == {
        "refresh-interval",
        "timezone-name",
        "timezone-offset",
        "flink-version",
        "flink-revision",
        "features",
    }
    assert found["features"] == {"web-submit": False, "web-cancel": True, "web-rescale": False, "web-history": False}


def test_the_overview_counts_jobs_by_their_end() -> None:
    ends = (JobStatus.FINISHED, JobStatus.CANCELED, JobStatus.FAILED, JobStatus.FAILED)
    suspended = replace(sample_view(), status=JobStatus.SUSPENDED, ended_ms=5)
    found = shape(
        flink_shapes.cluster_overview([sample_view(), suspended, *(sample_view(status=status) for status in ends)])
    )
    assert {name: value for name, value in found.items() if not name.startswith("flink")} == {
        "taskmanagers": 3,
        "slots-total": 3,
        "slots-available": 0,
        "jobs-running": 1,
        "jobs-finished": 1,
        "jobs-cancelled": 1,
        "jobs-failed": 2,
    }


def test_a_job_in_a_list() -> None:
    found = shape(flink_shapes.job_summary(sample_view()))
    assert found["tasks"]["total"] == found["tasks"]["running"] == 6
    assert found["tasks"]["failed"] == 0
    assert (found["jid"], found["jobType"], found["schedulerType"]) == (hex_id("clicks"), "STREAMING", "Default")
    assert (found["start-time"], found["end-time"], found["duration"]) == (STARTED_MS, -1, 60_000)
    assert (found["state"], found["last-modification"]) == ("RUNNING", STARTED_MS + 500)
    ended = shape(flink_shapes.job_summary(sample_view(status=JobStatus.FINISHED)))
    assert ended["end-time"] == STARTED_MS + 60_000
    assert shape(flink_shapes.job_id_with_status(sample_view())) == {"id": hex_id("clicks"), "status": "RUNNING"}


def test_every_job_is_an_application() -> None:
    assert shape(flink_shapes.application_summary(sample_view()))["jobs"] == {"RUNNING": 1}
    details = shape(flink_shapes.application_details(sample_view()))
    assert details["jobs"][0]["jid"] == details["id"] == hex_id("clicks")
    assert details["timestamps"]["RUNNING"] == STARTED_MS + 500


def test_a_job_with_its_vertices_and_plan() -> None:
    found = shape(flink_shapes.job_details(sample_view()))
    assert found["timestamps"]["FAILED"] == found["timestamps"]["RECONCILING"] == 0
    assert found["status-counts"]["RUNNING"] == 3
    assert (found["isStoppable"], found["stream-graph"], found["application-id"]) == (False, None, hex_id("clicks"))
    clicks = found["vertices"][0]
    assert (clicks["id"], clicks["status"], clicks["end-time"]) == (hex_id("clicks"), "RUNNING", -1)
    assert clicks["duration"] == 59_600
    assert clicks["metrics"] == {
        "read-bytes": 2000,
        "read-bytes-complete": True,
        "write-bytes": 1800,
        "write-bytes-complete": True,
        "read-records": 201,
        "read-records-complete": True,
        "write-records": 181,
        "write-records-complete": True,
        "accumulated-backpressured-time": 2000,
        "accumulated-idle-time": 6000,
        "accumulated-busy-time": 12000,
    }
    nodes = found["plan"]["nodes"]
    assert nodes[1]["inputs"] == [
        {
            "num": 0,
            "id": hex_id("clicks"),
            "ship_strategy": "HASH",
            "exchange": "pipelined_bounded",
            "local_strategy": None,
            "caching": None,
        }
    ]
    assert nodes[0]["description"] == "clicks &lt;b&gt;", "the dashboard shows it as HTML"


def test_a_vertex_with_its_subtasks() -> None:
    view = sample_view()
    failed = replace(view.subtasks[1], status=TaskStatus.FAILED, metrics=None, host="")
    view = replace(view, subtasks=(view.subtasks[0], failed, *view.subtasks[2:]))
    found = shape(flink_shapes.vertex_details(view, view.plan.vertices[0]))
    first, second = found["subtasks"]
    assert (first["subtask"], first["endpoint"], first["taskmanager-id"]) == (0, "host-0", _PROCESS)
    assert first["start-time"] == first["start_time"] == STARTED_MS + 400
    assert (first["status-duration"]["RUNNING"], first["status-duration"]["FAILED"]) == (59_500, -1)
    assert (second["endpoint"], second["end-time"], second["duration"]) == ("(unassigned)", STARTED_MS + 500, 100)
    assert second["metrics"]["read-bytes-complete"] is False
    assert found["aggregated"]["metrics"]["read-records"]["sum"] == 100
    assert found["aggregated"]["status-duration"]["RUNNING"]["max"] == 59_500


def test_failures_newest_first() -> None:
    view = sample_view()
    first = view.failures[0]
    view = replace(view, failures=(first, replace(first, cause="it broke", subtask=None, trace="")), failed_attempts=3)
    found = shape(flink_shapes.job_exceptions(view, 16))["exceptionHistory"]
    assert found["truncated"] is True
    assert found["entries"] == [
        {
            "exceptionName": "ValueError",
            "stacktrace": "trace",
            "timestamp": STARTED_MS + 100,
            "taskName": "clicks/0",
            "endpoint": "host-0",
            "taskManagerId": _PROCESS,
            "failureLabels": {},
            "concurrentExceptions": [],
        },
        {
            "exceptionName": "Failure",
            "stacktrace": "it broke",
            "timestamp": STARTED_MS + 100,
            "taskName": None,
            "endpoint": None,
            "taskManagerId": None,
            "failureLabels": {},
            "concurrentExceptions": [],
        },
    ]
    assert flink_shapes.job_exceptions(view, 0).exception_history.entries == []
    of_task = replace(view, failures=(replace(first, cause="per-user/0#2: UserCodeError: map raised ValueError"),))
    assert flink_shapes.job_exceptions(of_task, 1).exception_history.entries[0].exception_name == "UserCodeError"
