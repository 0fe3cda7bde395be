from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from snapline.config import Checkpoints, FixedDelay
from snapline.devtools.kit.sample_views import STARTED_MS, sample_view
from snapline.protocol.statistics.job_view import JobView, SubtaskView
from snapline.types import JobStatus, TaskStatus
from snapline.web import dashboard_shapes
from snapline.web.job_board import encode
from snapline.web.rest_ids import hex_id
from snapline.web.security import Access

VIEW = sample_view()
PER_USER = VIEW.plan.vertices[1]
SUBTASKS = VIEW.subtasks_of("per-user")


def shape(value: Any) -> Any:
    return json.loads(encode(value))


def process(index: int, view: JobView = VIEW) -> str:
    return f"host-{index}-{hex_id(view.job_id)[:8]}-slot-{index}"


def measured(subtask: SubtaskView, **figures: Any) -> SubtaskView:
    assert subtask.metrics is not None
    return replace(subtask, metrics=replace(subtask.metrics, **figures))


def without_report(subtasks: Sequence[SubtaskView]) -> list[SubtaskView]:
    return [replace(subtask, metrics=None) for subtask in subtasks]


def test_metrics_are_listed_then_read() -> None:
    names = [item["id"] for item in shape(dashboard_shapes.vertex_metrics(SUBTASKS, None))]
    assert len(names) == len(set(names)) == 3 * 11
    assert shape(dashboard_shapes.vertex_metrics(SUBTASKS, ["1.numRecordsIn", "0.heap", "2.busyTimeMsPerSecond"])) == [
        {"id": "1.numRecordsIn", "value": "101"},
        {"id": "2.busyTimeMsPerSecond", "value": "602"},
    ]
    assert len(dashboard_shapes.vertex_metrics(SUBTASKS, names)) == len(names)
    assert dashboard_shapes.vertex_metrics(without_report(SUBTASKS), None) == []


def test_metrics_over_all_subtasks() -> None:
    subtasks = [measured(subtask, rows_in=rows) for subtask, rows in zip(SUBTASKS, (0, 10, 20), strict=True)]
    found = dashboard_shapes.aggregated_metrics(subtasks, ["numRecordsIn", "heap"], dashboard_shapes.AGGREGATES)
    assert shape(found) == [
        {
            "id": "numRecordsIn",
            "min": 0.0,
            "max": 20.0,
            "avg": 10.0,
            "sum": 30.0,
            "skew": pytest.approx(66.667, abs=0.01),
        }
    ]
    assert shape(dashboard_shapes.aggregated_metrics(subtasks, ["numRecordsIn"], ["max", "median"])) == [
        {"id": "numRecordsIn", "max": 20.0}
    ]
    idle = [measured(subtask, rows_in=0) for subtask in SUBTASKS]
    assert dashboard_shapes.aggregated_metrics(idle, ["numRecordsIn"], ["skew"])[0].skew == 0.0
    assert dashboard_shapes.aggregated_metrics(without_report(SUBTASKS), ["numRecordsIn"], ["max"]) == []
    assert {"id": "idleTimeMsPerSecond"} in shape(dashboard_shapes.aggregated_metrics(subtasks, None, ["max"]))


def test_watermarks_of_those_that_have_reported() -> None:
    first, second, third = SUBTASKS
    early = measured(second, watermark_ms=None)
    assert shape(dashboard_shapes.watermarks([first, early, replace(third, metrics=None)])) == [
        {"id": "0.currentInputWatermark", "value": str(STARTED_MS)},
        {"id": "1.currentInputWatermark", "value": "-9223372036854775808"},
    ]


@pytest.mark.parametrize(("held_up_ms", "level"), [(100, "ok"), (101, "low"), (500, "low"), (501, "high")])
def test_back_pressure_is_that_of_the_worst_subtask(held_up_ms: int, level: str) -> None:
    subtasks = [*SUBTASKS[:2], measured(SUBTASKS[2], backpressured_ms=held_up_ms, idle_ms=50)]
    found = shape(dashboard_shapes.back_pressure(VIEW, subtasks))
    assert (found["status"], found["backpressure-level"], found["end-timestamp"]) == ("ok", level, VIEW.now_ms)
    worst = found["subtasks"][2]
    assert (worst["subtask"], worst["attempt-number"], worst["backpressureLevel"]) == (2, 1, level)
    assert (worst["ratio"], worst["idleRatio"], worst["busyRatio"]) == (held_up_ms / 1000, 0.05, 0.602)
    assert dashboard_shapes.back_pressure(VIEW, without_report(SUBTASKS)).backpressure_level == "ok"


def test_times_of_subtasks() -> None:
    failed = replace(SUBTASKS[1], status=TaskStatus.FAILED, host="")
    running, ended = shape(dashboard_shapes.vertex_times(VIEW, PER_USER, [SUBTASKS[0], failed]))["subtasks"]
    assert {state: at_ms for state, at_ms in running["timestamps"].items() if at_ms} == {
        "DEPLOYING": STARTED_MS + 400,
        "RUNNING": STARTED_MS + 500,
    }
    assert (running["host"], running["duration"]) == ("host-0", 59_600)
    assert (ended["host"], ended["duration"], ended["timestamps"]["FAILED"]) == ("(unassigned)", 100, STARTED_MS + 500)


def test_a_vertex_by_operator_processes() -> None:
    found = shape(dashboard_shapes.vertex_task_managers(VIEW, PER_USER, SUBTASKS))
    assert (found["id"], found["name"], found["now"]) == (hex_id("per-user"), "per-user <b>", VIEW.now_ms)
    second = found["taskmanagers"][1]
    assert [row["taskmanager-id"] for row in found["taskmanagers"]] == [process(0), process(1), process(2)]
    assert (second["endpoint"], second["status"], second["end-time"], second["duration"]) == (
        "host-1",
        "RUNNING",
        -1,
        59_600,
    )
    assert (second["metrics"]["read-records"], second["status-counts"]["RUNNING"]) == (101, 1)
    lost = [replace(subtask, status=TaskStatus.FAILED, host="") for subtask in SUBTASKS]
    (row,) = shape(dashboard_shapes.vertex_task_managers(VIEW, PER_USER, lost))["taskmanagers"]
    assert (row["taskmanager-id"], row["status"], row["duration"]) == ("(unassigned)", "FAILED", 100)
    assert row["status-counts"]["FAILED"] == 3


def test_there_are_no_accumulators_and_flame_graphs() -> None:
    assert shape(dashboard_shapes.job_accumulators()) == {
        "job-accumulators": [],
        "user-task-accumulators": [],
        "serialized-user-task-accumulators": {},
    }
    assert shape(dashboard_shapes.vertex_accumulators(PER_USER)) == {"id": hex_id("per-user"), "user-accumulators": []}
    assert shape(dashboard_shapes.subtask_accumulators(PER_USER)) == {
        "id": hex_id("per-user"),
        "parallelism": 3,
        "subtasks": [],
    }
    assert shape(dashboard_shapes.flame_graph()) == {"endTimestamp": -2, "data": None}


def test_the_settings_of_a_job() -> None:
    settings = Checkpoints(interval="5s", storage="/data", trusted_directories=["/old"])
    view = replace(sample_view(settings=settings), restart=FixedDelay(attempts=3, delay="2s"))
    found = shape(dashboard_shapes.job_configuration(view))
    assert (found["jid"], found["name"]) == (hex_id("clicks"), "job clicks")
    execution = found["execution-config"]
    assert execution["restart-strategy"] == "FixedDelay (attempts: 3, delay_ms: 2000)"
    assert execution["job-parallelism"] == 3
    texts = execution["user-config"]
    assert (texts["checkpoints.interval_ms"], texts["checkpoints.storage"]) == ("5000", "/data")
    assert (texts["checkpoints.trusted_directories"], texts["checkpoints.unaligned"]) == ('["/old"]', "false")
    assert "checkpoints.tolerable_failures" not in texts
    plain = dashboard_shapes.job_configuration(VIEW)
    assert plain.execution_config.restart_strategy == "NoRestart"


def test_failures_of_an_application() -> None:
    assert shape(dashboard_shapes.application_exceptions(VIEW, 16)) == {
        "exceptionHistory": {
            "entries": [
                {
                    "exceptionName": "ValueError",
                    "stacktrace": "trace",
                    "timestamp": STARTED_MS + 100,
                    "jobId": hex_id("clicks"),
                }
            ]
        }
    }
    assert dashboard_shapes.application_exceptions(VIEW, 0).exception_history.entries == []


def test_the_operator_processes_of_running_jobs() -> None:
    other, ended = sample_view("orders"), sample_view("old", status=JobStatus.FINISHED)
    waiting = [replace(subtask, host="") for subtask in other.subtasks[1:]]
    other = replace(other, subtasks=(other.subtasks[0], *waiting))
    found = shape(dashboard_shapes.task_managers([VIEW, other, ended]))["taskmanagers"]
    assert [row["id"] for row in found] == [process(0), process(1), process(2), process(0, other)]
    assert [row["assignedTasks"] for row in found] == [3, 2, 1, 1]
    assert found[1] == {
        "id": process(1),
        "path": "host-1",
        "dataPort": -1,
        "jmxPort": -1,
        "timeSinceLastHeartbeat": VIEW.now_ms,
        "slotsNumber": 1,
        "freeSlots": 0,
        "assignedTasks": 2,
        "hardware": {"cpuCores": 0, "physicalMemory": 0, "freeMemory": 2 << 20, "managedMemory": 0},
    }


def test_the_driver() -> None:
    settings = {item.key: item.value for item in dashboard_shapes.driver_settings(Access(True, 4300, True, "secret"))}
    assert (settings["rest.port"], settings["web.cancel.enable"]) == ("4300", "false")
    assert "secret" not in str(settings)
    assert shape(dashboard_shapes.driver_environment())["jvm"]["version"].startswith("CPython 3.")
