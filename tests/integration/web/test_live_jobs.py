"""Jobs that run, looked at and steered over HTTP."""

from __future__ import annotations

import logging
from pathlib import Path

import msgspec
import pytest
from tests.integration.runtime.runtime_kit import wait_until
from tests.integration.web.live_kit import Client, Start, clicks, started

import snapline as sl
from snapline.testing.clusters import ProcessCluster
from snapline.web.openapi import ALL_ROUTES
from snapline.web.rest_ids import hex_id
from snapline.web.web_server import close_all

pytestmark = pytest.mark.slow

ANY = sl.Monitoring(port=None)


def test_everything_there_is_to_see(start: Start, tmp_path: Path) -> None:
    handle = start(clicks("clicks", tmp_path, ANY), ProcessCluster())
    client = Client(handle.url)
    jid = started(client, "clicks")
    client.until(f"/snapline/jobs/{jid}", lambda now: now["vertices"]["clicks"]["rows_out"] > 0)
    latest = client.get(f"/jobs/{jid}/checkpoints")["latest"]["completed"]["id"]
    names = {"{job}": jid, "{application}": jid, "{vertex}": hex_id("out"), "{checkpoint}": str(latest)}
    for route in ALL_ROUTES:
        if route.changes or "{trigger}" in route.path:
            continue
        path = route.path
        for name, value in names.items():
            path = path.replace(name, value)
        reply = client.ask("GET", f"/v1{path}")
        assert reply.status == 200, (path, reply.body)
        if route.answer is not None:
            msgspec.json.decode(reply.body, type=route.answer)
    now = client.get(f"/snapline/jobs/{jid}")
    assert now["url"] == handle.url
    assert {vertex["id"] for vertex in now["plan"]["vertices"]} == {"clicks", "out"}
    details = client.get(f"/jobs/{jid}/checkpoints/details/{latest}")
    assert set(details["tasks"]) == {vertex["id"] for vertex in client.get(f"/jobs/{jid}")["vertices"]}
    configured = client.get(f"/snapline/jobs/{jid}/configuration")
    assert configured["checkpoints"]["storage"] == str(tmp_path / "checkpoints")
    sample = b'snapline_task_rows_out_total{job="clicks",subtask="0",vertex="clicks"}'
    wait_until(lambda: sample in client.ask("GET", "/metrics").body, "subtask 0 has reported too")
    assert client.ask("GET", "/").headers["content-type"].startswith("text/html")


def test_a_job_is_steered_as_flinks_clients_do(start: Start, tmp_path: Path) -> None:
    handle = start(clicks("clicks", tmp_path, ANY))
    client = Client(handle.url)
    jid = started(client, "clicks")
    trigger = "0123456789abcdef" * 2
    asked = {"checkpointType": "FULL", "triggerId": trigger}
    assert client.ask("POST", f"/jobs/{jid}/checkpoints", asked).json == {"request-id": trigger}
    done = client.until(f"/jobs/{jid}/checkpoints/{trigger}", lambda found: found["status"]["id"] == "COMPLETED")
    assert done["operation"]["checkpointId"] > 2
    taken = client.ask("POST", f"/jobs/{jid}/savepoints", {"formatType": "CANONICAL"})
    path = f"/jobs/{jid}/savepoints/{taken.json['request-id']}"
    savepoint = client.until(path, lambda found: found["status"]["id"] == "COMPLETED")["operation"]["location"]
    assert (Path(savepoint) / "_metadata").exists()
    outside = client.ask("POST", "/savepoint-disposal", {"savepoint-path": "/etc"}).json["request-id"]
    refused = client.until(f"/savepoint-disposal/{outside}", lambda found: found["status"]["id"] == "COMPLETED")
    assert "no directory of this job" in refused["operation"]["failure-cause"]["stack-trace"]
    disposal = client.ask("POST", "/savepoint-disposal", {"savepoint-path": savepoint}).json["request-id"]
    gone = client.until(f"/savepoint-disposal/{disposal}", lambda found: found["status"]["id"] == "COMPLETED")
    assert gone["operation"] == {}
    assert not Path(savepoint).exists()
    relative = client.ask("POST", f"/jobs/{jid}/savepoints", {"target-directory": "here"})
    assert relative.status == 400
    stopped = client.ask("POST", f"/jobs/{jid}/stop", {"drain": False}).json["request-id"]
    path = f"/jobs/{jid}/savepoints/{stopped}"
    assert "location" in client.until(path, lambda found: found["status"]["id"] == "COMPLETED")["operation"]
    assert handle.wait("60s") is sl.JobStatus.FINISHED
    assert client.until(f"/jobs/{jid}", lambda found: found["state"] == "FINISHED")["end-time"] > 0
    assert client.ask("POST", f"/jobs/{jid}/checkpoints", {}).status == 409


def test_a_savepoint_that_cancels(start: Start, tmp_path: Path) -> None:
    handle = start(clicks("clicks", tmp_path, ANY))
    client = Client(handle.url)
    jid = started(client, "clicks")
    taken = client.ask("POST", f"/jobs/{jid}/savepoints", {"cancel-job": True}).json["request-id"]
    path = f"/jobs/{jid}/savepoints/{taken}"
    done = client.until(path, lambda found: found["status"]["id"] == "COMPLETED")
    assert Path(done["operation"]["location"]).exists()
    assert handle.wait("60s") is sl.JobStatus.CANCELED
    assert client.ask("PATCH", f"/jobs/{jid}?mode=cancel").status == 202


@pytest.mark.parametrize(("method", "path"), [("PATCH", "/jobs/{}?mode=cancel"), ("GET", "/jobs/{}/yarn-cancel")])
def test_a_job_is_cancelled(start: Start, tmp_path: Path, method: str, path: str) -> None:
    handle = start(clicks("clicks", tmp_path, ANY))
    client = Client(handle.url)
    path = path.format(started(client, "clicks"))
    stranger = client.ask(method, path, Origin="http://evil.example", User_Agent="Mozilla/5.0")
    assert stranger.status == 403
    assert handle.status() is sl.JobStatus.RUNNING
    assert client.ask(method, path).status == 202
    assert handle.wait("60s") is sl.JobStatus.CANCELED


def test_commands_of_our_own(start: Start, tmp_path: Path) -> None:
    handle = start(clicks("clicks", tmp_path, ANY))
    client = Client(handle.url)
    started(client, "clicks")
    own = "/snapline/jobs/clicks"
    taken = client.outcome(client.ask("POST", f"{own}/checkpoint", {"scope": "FULL"}).json["request_id"])
    assert (taken["status"], taken["what"]) == ("done", "checkpoint")
    assert taken["location"].endswith(f"chk-{taken['checkpoint_id']}")
    saved = client.outcome(client.ask("POST", f"{own}/savepoint", {"format": "NATIVE"}).json["request_id"])
    assert saved["location"].startswith(str(tmp_path / "savepoints"))
    page = client.until(f"{own}/checkpoints?limit=1", lambda found: found["latest"]["savepoint"])
    assert page["latest"]["savepoint"]["savepoint_format"] == "NATIVE"
    assert (len(page["history"]), page["more"]) == (1, True)
    stopped = client.outcome(client.ask("POST", f"{own}/stop", {"drain": True}).json["request_id"])
    assert stopped["status"] == "done"
    assert handle.wait("60s") is sl.JobStatus.FINISHED


def test_several_jobs_share_a_port_and_stay_when_they_have_ended(start: Start, tmp_path: Path) -> None:
    first = start(clicks("first", tmp_path, ANY))
    second = start(clicks("second", tmp_path, ANY))
    client = Client(first.url)
    assert Client(second.url).port == client.port
    for name in ("first", "second"):
        started(client, name)
    first.cancel()
    rows = client.until("/snapline/jobs", lambda found: found["jobs"][0]["status"] == "CANCELED")["jobs"]
    assert [(row["name"], row["status"]) for row in rows] == [("first", "CANCELED"), ("second", "RUNNING")]
    overview = client.get("/overview")
    assert (overview["jobs-running"], overview["jobs-cancelled"]) == (1, 1)
    second.cancel()
    close_all()
    with pytest.raises(ConnectionRefusedError):
        client.ask("GET", "/jobs")


def test_a_job_for_others_asks_for_its_token(start: Start, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        handle = start(clicks("clicks", tmp_path, sl.Monitoring(host="0.0.0.0", port=None)))
        (file,) = (tmp_path / "home" / "tokens").iterdir()
        token = file.read_text()
        stranger, wrong, client = Client(handle.url), Client(handle.url, token + "x"), Client(handle.url, token)
        jid = started(client, "clicks")
        for other in (stranger, wrong):
            for path in ("/jobs", f"/jobs/{jid}", "/metrics", "/openapi.json", "/", "/api.js"):
                assert other.ask("GET", path).status == 401
            assert other.ask("POST", f"/jobs/{jid}/stop", {}).status == 401
        let_in = stranger.ask("GET", f"/?token={token}")
        cookie = let_in.headers["set-cookie"].partition(";")[0]
        assert stranger.ask("GET", "/jobs", Cookie=cookie).status == 200
        assert handle.status() is sl.JobStatus.RUNNING
        handle.cancel()
    assert token not in caplog.text
    assert str(file) in caplog.text


def test_a_read_only_server(start: Start, tmp_path: Path) -> None:
    handle = start(clicks("clicks", tmp_path, sl.Monitoring(port=None, read_only=True)))
    client = Client(handle.url)
    jid = started(client, "clicks")
    assert client.ask("POST", f"/jobs/{jid}/stop", {}).status == 403
    assert client.ask("GET", f"/jobs/{jid}/yarn-cancel").status == 403
    assert client.get(f"/snapline/jobs/{jid}")["can_change"] is False


def test_a_job_runs_without_its_page_if_the_port_is_taken(
    start: Start, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = start(clicks("first", tmp_path, ANY))
    taken = Client(first.url).port
    with caplog.at_level(logging.WARNING):
        second = start(clicks("second", tmp_path, sl.Monitoring(port=taken)))
    assert second.url == ""
    assert f"job second has no page: Monitoring(port='{taken}')" in caplog.text
    second.checkpoint()


def test_a_failing_job_shows_why(start: Start, tmp_path: Path) -> None:
    job = sl.Job(
        "broken",
        parallelism=1,
        checkpoints=sl.Checkpoints(interval="200ms", storage=tmp_path),
        restart=sl.FixedDelay(attempts=1, delay="10ms"),
        monitoring=ANY,
    )
    rows = job.source(sl.sources.Rate(1000, users=5), uid="rows")
    rows.map(lambda row: {"n": 1 // (row["id"] - row["id"])}, schema="n BIGINT", uid="divide").sink(
        sl.sinks.Files(tmp_path / "out"), uid="out"
    )
    handle = start(job)
    with pytest.raises(sl.JobFailedError):
        handle.wait("60s")
    client = Client(handle.url)
    found = client.until("/jobs/broken/exceptions", lambda found: len(found["exceptionHistory"]["entries"]) == 2)
    newest = found["exceptionHistory"]["entries"][0]
    assert newest["exceptionName"] == "UserCodeError"
    assert "ZeroDivisionError" in newest["stacktrace"]
    now = client.get("/snapline/jobs/broken")
    assert (now["status"], now["failed_attempts"]) == ("FAILED", 2)
    assert "ZeroDivisionError" in now["failures"][0]["cause"]
