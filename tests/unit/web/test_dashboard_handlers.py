from __future__ import annotations

import pytest
from tests.unit.web.rest_kit import Rest

from snapline.devtools.kit.sample_views import STARTED_MS, ScriptedJob, sample_view
from snapline.web.rest_ids import hex_id

JID = hex_id("clicks")
VERTEX = f"/jobs/{JID}/vertices/{hex_id('per-user')}"


@pytest.fixture
def rest() -> Rest:
    return Rest(ScriptedJob(sample_view()))


def test_metrics_by_name(rest: Rest) -> None:
    assert len(rest.ask("GET", f"{VERTEX}/metrics").json) == 33
    assert rest.ask("GET", f"{VERTEX}/metrics?get=0.numRecordsIn,,0.no").json == [
        {"id": "0.numRecordsIn", "value": "100"}
    ]
    assert rest.ask("GET", f"{VERTEX}/metrics?get=").json == []
    path = f"{VERTEX}/subtasks/metrics"
    (found,) = rest.ask("GET", f"{path}?get=numRecordsIn").json
    assert set(found) == {"id", "min", "max", "avg", "sum", "skew"}
    assert rest.ask("GET", f"{path}?get=numRecordsIn&agg=min,max").json == [
        {"id": "numRecordsIn", "min": 100.0, "max": 102.0}
    ]
    assert {"id": "numRecordsIn"} in rest.ask("GET", path).json


def test_figures_of_a_vertex(rest: Rest) -> None:
    first = rest.ask("GET", f"{VERTEX}/watermarks").json[0]
    assert first == {"id": "0.currentInputWatermark", "value": str(STARTED_MS)}
    assert rest.ask("GET", f"{VERTEX}/backpressure").json["backpressure-level"] == "ok"
    assert len(rest.ask("GET", f"{VERTEX}/subtasktimes").json["subtasks"]) == 3
    assert len(rest.ask("GET", f"{VERTEX}/taskmanagers").json["taskmanagers"]) == 3
    other = rest.ask("GET", f"/jobs/{JID}/vertices/out/subtasktimes").json
    assert (other["id"], len(other["subtasks"])) == (hex_id("out"), 1)
    assert rest.ask("GET", f"/jobs/{JID}/vertices/none/watermarks").errors == ["the job has no vertex 'none'"]


def test_applications_are_jobs(rest: Rest) -> None:
    entries = rest.ask("GET", f"/applications/{JID}/exceptions").json["exceptionHistory"]["entries"]
    assert [entry["jobId"] for entry in entries] == [JID]
    assert rest.ask("GET", f"/applications/{JID}/exceptions?maxExceptions=0").json["exceptionHistory"]["entries"] == []


def test_an_application_is_cancelled() -> None:
    job = ScriptedJob(sample_view())
    rest = Rest(job)
    reply = rest.ask("POST", f"/applications/{JID}/cancel", {})
    assert (reply.status, reply.json) == (202, {})
    assert job.requests == [("cancel",)]
    assert rest.ask("POST", "/applications/none/cancel", {}).status == 404
    assert Rest(job, read_only=True).ask("POST", f"/applications/{JID}/cancel", {}).status == 403
    assert rest.ask("POST", f"/applications/{JID}/cancel", {}, origin="http://elsewhere").status == 403
    assert job.requests == [("cancel",)]


def test_the_machines(rest: Rest) -> None:
    assert len(rest.ask("GET", "/taskmanagers").json["taskmanagers"]) == 3
    assert {"key": "rest.port", "value": "4300"} in rest.ask("GET", "/jobmanager/config").json
    assert rest.ask("GET", "/jobmanager/environment").json["classpath"] == []
    assert rest.ask("GET", "/jobmanager/metrics?get=Status.JVM.Memory.Heap.Used").json == []
    assert rest.ask("GET", f"/jobs/{JID}/config").json["execution-config"]["job-parallelism"] == 3
    assert rest.ask("GET", f"/jobs/{JID}/accumulators").json["job-accumulators"] == []
