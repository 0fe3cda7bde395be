from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import msgspec
import pytest
from tests.unit.web.rest_kit import HOST, Rest

from snapline.devtools.kit.sample_views import ScriptedJob, sample_view
from snapline.errors import ConfigurationError
from snapline.types import CheckpointScope, JobStatus, SavepointFormat
from snapline.web.openapi import ALL_ROUTES
from snapline.web.rest_app import MAX_BODY_BYTES
from snapline.web.rest_ids import hex_id

JID = hex_id("clicks")
PATHS = {
    "{job}": JID,
    "{application}": JID,
    "{vertex}": hex_id("per-user"),
    "{checkpoint}": "1",
}
READS = [route for route in ALL_ROUTES if not route.changes and "{trigger}" not in route.path]


def rest(**options: Any) -> tuple[Rest, ScriptedJob]:
    job = ScriptedJob(sample_view(checkpoints=4))
    return Rest(job, **options), job


def path_of(path: str, **values: str) -> str:
    for name, value in {**PATHS, **values}.items():
        path = path.replace(name, value)
    return path


@pytest.mark.parametrize("route", READS, ids=lambda route: route.path)
def test_every_answer_has_the_shape_that_is_described(route: Any) -> None:
    app, _ = rest()
    for prefix in ("", "/v1"):
        reply = app.ask("GET", prefix + path_of(route.path))
        assert reply.status == 200, reply.body
        assert reply.headers["content-type"] == route.media
        assert reply.headers["content-length"] == str(len(reply.body))
        if route.answer is not None:
            found = msgspec.json.decode(reply.body, type=route.answer, strict=True)
            assert json.loads(msgspec.json.encode(found)) == reply.json
    head = app.ask("HEAD", path_of(route.path))
    assert (head.status, head.body) == (200, b"")


@pytest.mark.parametrize("route", READS, ids=lambda route: route.path)
def test_what_is_not_there_is_not_found(route: Any) -> None:
    app, _ = rest()
    for name in ("{job}", "{application}", "{vertex}", "{checkpoint}"):
        if name in route.path:
            reply = app.ask("GET", path_of(route.path, **{name: "99"}))
            assert reply.status == 404
            assert reply.errors


def test_ids_may_be_plain() -> None:
    job = ScriptedJob(sample_view("odd/ id"))
    app = Rest(job)
    assert app.ask("GET", "/jobs/odd%2F%20id").json["jid"] == hex_id("odd/ id")
    assert app.ask("GET", "/jobs/odd%2F%20id/vertices/per-user").json["id"] == hex_id("per-user")
    assert app.ask("GET", "/jobs/odd/%20id").status == 404


def test_a_page_of_the_history() -> None:
    app, _ = rest()
    page = app.ask("GET", f"/snapline/jobs/{JID}/checkpoints?limit=2").json
    assert ([row["id"] for row in page["history"]], page["more"]) == ([4, 3], True)
    page = app.ask("GET", f"/snapline/jobs/{JID}/checkpoints?limit=2&before=3").json
    assert ([row["id"] for row in page["history"]], page["more"]) == ([2, 1], False)
    assert page["history"][1]["explanation"]["cause"] == "skew"
    assert page["latest"]["savepoint"]["id"] == 2
    assert app.ask("GET", f"/snapline/jobs/{JID}/checkpoints?limit=x").status == 400
    assert app.ask("GET", f"/snapline/jobs/{JID}/checkpoints?limit=-1").status == 400


def test_the_history_in_flinks_shape() -> None:
    app, _ = rest()
    found = app.ask("GET", f"/jobs/{JID}/checkpoints").json
    assert [row["id"] for row in found["history"]] == [4, 3, 2, 1]
    assert [row["className"] for row in found["history"]] == ["in_progress", "completed", "completed", "failed"]
    assert found["latest"]["completed"]["id"] == 3
    assert found["latest"]["restored"]["id"] == 7


def test_wrong_methods_are_refused() -> None:
    app, _ = rest()
    for route in ALL_ROUTES:
        reply = app.ask("DELETE", path_of(route.path, **{"{trigger}": "0" * 32}))
        assert reply.status == 405
        assert route.method in reply.headers["allow"]
        assert reply.errors
    assert app.ask("POST", "/index.html").status == 405


def test_checkpoints_are_operations() -> None:
    async def use() -> None:
        app, job = rest()
        begun = await app.asked("POST", f"/jobs/{JID}/checkpoints", {"checkpointType": "FULL"})
        assert begun.status == 202
        trigger = begun.json["request-id"]
        path = f"/jobs/{JID}/checkpoints/{trigger}"
        assert (await app.asked("GET", path)).json == {"status": {"id": "IN_PROGRESS"}, "operation": None}
        running = (await app.asked("GET", f"/snapline/operations/{trigger}")).json
        assert (running["what"], running["status"]) == ("checkpoint", "running")
        job.futures[0].set_result("/data/clicks/chk-9")
        done = (await app.asked("GET", path)).json
        assert done == {"status": {"id": "COMPLETED"}, "operation": {"checkpointId": 9}}
        assert (await app.asked("GET", f"/snapline/operations/{trigger}")).json == {
            "request_id": trigger,
            "what": "checkpoint",
            "status": "done",
            "location": "/data/clicks/chk-9",
            "checkpoint_id": 9,
            "error": None,
        }
        assert job.requests == [("checkpoint", CheckpointScope.FULL)]
        assert (await app.asked("GET", f"/jobs/{JID}/savepoints/{trigger}")).status == 404

    asyncio.run(use())


def test_savepoints_and_stops_are_operations() -> None:
    async def use() -> None:
        app, job = rest()
        trigger = "ab" * 16
        body = {"target-directory": "/data/sp", "formatType": "NATIVE", "triggerId": trigger}
        for _ in range(2):
            assert (await app.asked("POST", f"/jobs/{JID}/savepoints", body)).json == {"request-id": trigger}
        stop = (await app.asked("POST", f"/jobs/{JID}/stop", {"drain": True})).json["request-id"]
        assert job.requests == [
            ("savepoint", "/data/sp", SavepointFormat.NATIVE),
            ("stop", None, None, True),
        ]
        job.futures[0].set_result("/data/sp/1")
        job.futures[1].set_exception(ConfigurationError("no room"))
        assert (await app.asked("GET", f"/jobs/{JID}/savepoints/{trigger}")).json["operation"] == {
            "location": "/data/sp/1"
        }
        failed = (await app.asked("GET", f"/jobs/{JID}/savepoints/{stop}")).json
        assert failed["status"] == {"id": "COMPLETED"}
        assert failed["operation"]["failure-cause"] == {
            "class": "snapline.errors.ConfigurationError",
            "stack-trace": "ConfigurationError: no room",
        }
        own = (await app.asked("GET", f"/snapline/operations/{stop}")).json
        assert (own["what"], own["status"], own["error"]) == ("stop", "failed", "no room")

    asyncio.run(use())


def test_a_savepoint_may_cancel_the_job() -> None:
    async def use() -> None:
        app, job = rest()
        begun = await app.asked("POST", f"/jobs/{JID}/savepoints", {"cancel-job": True})
        job.futures[0].set_result("/data/sp/1")
        assert job.requests == [("savepoint", None, None), ("cancel",)]
        path = f"/jobs/{JID}/savepoints/{begun.json['request-id']}"
        assert (await app.asked("GET", path)).json["status"] == {"id": "IN_PROGRESS"}
        job.futures[1].set_result(None)
        assert (await app.asked("GET", path)).json["operation"] == {"location": "/data/sp/1"}

    asyncio.run(use())


def test_commands_of_our_own() -> None:
    async def use() -> None:
        app, job = rest()
        for what, body in (
            ("checkpoint", {"scope": "INCREMENTAL"}),
            ("savepoint", {"directory": "s3://b/d", "format": "CANONICAL"}),
            ("stop", {"drain": False}),
            ("cancel", {}),
        ):
            reply = await app.asked("POST", f"/snapline/jobs/clicks/{what}", body)
            assert reply.status == 202
            found = (await app.asked("GET", f"/snapline/operations/{reply.json['request_id']}")).json
            assert (found["what"], found["status"]) == (what, "running")
        assert job.requests == [
            ("checkpoint", CheckpointScope.INCREMENTAL),
            ("savepoint", "s3://b/d", SavepointFormat.CANONICAL),
            ("stop", None, None, False),
            ("cancel",),
        ]

    asyncio.run(use())


def test_jobs_are_cancelled_as_flinks_clients_do() -> None:
    app, job = rest()
    for method, path in (
        ("PATCH", f"/jobs/{JID}"),
        ("PATCH", f"/jobs/{JID}?mode=cancel"),
        ("GET", f"/jobs/{JID}/yarn-cancel"),
    ):
        reply = app.ask(method, path)
        assert (reply.status, reply.json) == (202, {})
    assert job.requests == [("cancel",)] * 3
    assert app.ask("PATCH", f"/jobs/{JID}?mode=stop").status == 400


def test_savepoints_are_disposed_of_by_the_job_that_has_them() -> None:
    async def use() -> None:
        first, second = ScriptedJob(sample_view("first")), ScriptedJob(sample_view("second"))
        app = Rest(first, second)
        begun = await app.asked("POST", "/savepoint-disposal", {"savepoint-path": "/data/sp/1"})
        path = f"/savepoint-disposal/{begun.json['request-id']}"
        first.futures[0].set_exception(ConfigurationError("not mine"))
        assert (await app.asked("GET", path)).json == {"status": {"id": "IN_PROGRESS"}, "operation": None}
        second.futures[0].set_result(None)
        assert (await app.asked("GET", path)).json == {"status": {"id": "COMPLETED"}, "operation": {}}
        assert second.requests == [("dispose", "/data/sp/1")]
        assert (await app.asked("GET", f"/savepoint-disposal/{'0' * 32}")).status == 404

    asyncio.run(use())


def test_jobs_that_have_ended_are_shown_and_left_alone() -> None:
    job = ScriptedJob(sample_view(status=JobStatus.FINISHED))
    app = Rest(job)

    async def use() -> None:
        assert (await app.asked("GET", f"/jobs/{JID}")).json["state"] == "FINISHED"
        for path, body in (
            (f"/jobs/{JID}/savepoints", {}),
            (f"/snapline/jobs/{JID}/cancel", {}),
            ("/savepoint-disposal", {"savepoint-path": "/a"}),
        ):
            assert (await app.asked("POST", path, body)).status == 409
        assert job.requests == []

    asyncio.run(use())


def test_a_cancelled_job_may_be_cancelled_again() -> None:
    app = Rest(ScriptedJob(sample_view(status=JobStatus.CANCELED)))
    assert app.ask("PATCH", f"/jobs/{JID}").status == 202


def test_jobs_that_are_only_read_cannot_be_changed() -> None:
    job = ScriptedJob(sample_view())
    job.can_change = False
    app = Rest(job)
    assert app.ask("POST", f"/jobs/{JID}/stop", {}).status == 409
    assert app.ask("GET", f"/snapline/jobs/{JID}").json["can_change"] is False


def test_bad_bodies_are_refused() -> None:
    app, job = rest()
    path = f"/jobs/{JID}/savepoints"
    json_type = {"content_type": "application/json; charset=utf-8"}
    for body, status in (
        (b"{", 400),
        (b"[]", 400),
        (b'{"none": 1}', 400),
        (b'{"cancel-job": "yes"}', 400),
        (b'{"triggerId": "mine"}', 400),
        (b'{"target-directory": " "}', 400),
        (b'{"target-directory": "here"}', 400),
        (b'{"target-directory": "/a\\n"}', 400),
        (b'{"target-directory": "/' + b"x" * 5000 + b'"}', 400),
        (b'{"target-directory": "/a\\u0000b"}', 400),
        (b" " * (MAX_BODY_BYTES + 1), 413),
    ):
        reply = app.ask("POST", path, body, **json_type)
        assert reply.status == status, body[:50]
        assert reply.errors
    assert app.ask("POST", path, b"{}", content_type="application/x-www-form-urlencoded").status == 415
    assert app.ask("POST", path, b"{}").status == 415
    assert app.ask("POST", path, b"", content_length="99999999").status == 413
    assert app.ask("POST", "/savepoint-disposal", b"{}", **json_type).status == 400
    assert app.ask("GET", "/jobs", b"{}", **json_type).status == 400
    assert app.ask("GET", f"/jobs/{JID}?{'&'.join(f'a{n}=1' for n in range(60))}").status == 400
    assert app.ask("GET", "/jobs?a=%ff").status == 400
    assert job.requests == []


def test_pages_from_elsewhere_change_nothing() -> None:
    app, job = rest()
    browser = {"user_agent": "Mozilla/5.0", "origin": "http://evil.example", "sec_fetch_site": "cross-site"}
    for route in ALL_ROUTES:
        if route.changes:
            reply = app.ask(route.method, path_of(route.path), {} if route.body else None, **browser)
            assert reply.status == 403
            assert reply.errors
    assert job.requests == []
    assert app.ask("GET", "/jobs", **browser).status == 200
    assert "access-control-allow-origin" not in app.ask("GET", "/jobs", **browser).headers
    own = {"user_agent": "Mozilla/5.0", "origin": f"http://{HOST}", "sec_fetch_site": "same-origin"}
    assert app.ask("POST", f"/snapline/jobs/{JID}/checkpoint", {}, **own).status == 202


def test_a_read_only_server_refuses_every_change() -> None:
    app, job = rest(read_only=True)
    for route in ALL_ROUTES:
        if route.changes:
            assert app.ask(route.method, path_of(route.path), {} if route.body else None).status == 403
    assert job.requests == []
    assert app.ask("GET", f"/snapline/jobs/{JID}").json["can_change"] is False
    assert app.ask("GET", "/config").json["features"]["web-cancel"] is False


def test_other_names_than_this_machines_are_refused() -> None:
    app, _ = rest()
    for path in ("/", "/jobs", "/none"):
        assert app.ask("GET", path, host="evil.example:4300").status == 403


def test_every_path_needs_the_token() -> None:
    app, _ = rest(token="s3cret")
    for route in ALL_ROUTES:
        path = path_of(route.path)
        assert app.ask(route.method, path).status == 401
        assert app.ask(route.method, path, authorization="Bearer wrong").status == 401
    for path in ("/", "/index.html", "/api.js", "/none", "/?token=wrong"):
        reply = app.ask("GET", path)
        assert reply.status == 401
        assert reply.errors
    assert app.ask("GET", "/jobs", authorization="Bearer s3cret").status == 200


def test_a_browser_gets_a_cookie_for_the_token() -> None:
    app, job = rest(token="s3cret")
    asked = app.ask("GET", "/", accept="text/html,*/*")
    assert (asked.status, asked.headers["content-type"]) == (401, "text/html; charset=utf-8")
    assert b"<form" in asked.body
    let_in = app.ask("GET", "/?token=s3cret")
    assert (let_in.status, let_in.headers["location"]) == (303, "./")
    cookie = let_in.headers["set-cookie"].partition(";")[0]
    assert app.ask("GET", "/jobs", cookie=cookie).status == 200
    path = f"/jobs/{JID}/yarn-cancel"
    assert app.ask("GET", path, cookie=cookie).status == 403
    assert app.ask("GET", path, cookie=cookie, sec_fetch_site="same-origin").status == 202
    assert job.requests == [("cancel",)]


def test_headers_keep_others_out() -> None:
    app, _ = rest()
    data, page = app.ask("GET", "/jobs"), app.ask("GET", "/")
    for reply in (data, page, app.ask("GET", "/none")):
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["referrer-policy"] == "no-referrer"
        assert "frame-ancestors 'none'" in reply.headers["content-security-policy"]
    assert data.headers["cache-control"] == "no-store"
    assert "default-src 'none'; script-src 'self'" in page.headers["content-security-policy"]


def test_files_of_the_page() -> None:
    app, _ = rest()
    page = app.ask("GET", "/")
    assert page.status == 200
    assert page.body.startswith(b"<!doctype html>")
    again = app.ask("GET", "/", if_none_match=f'"other", W/{page.headers["etag"]}')
    assert (again.status, again.body, again.headers["etag"]) == (304, b"", page.headers["etag"])
    assert app.ask("GET", "/none.js").status == 404
    assert app.ask("GET", "/%2e%2e/rest_app.py").status == 404
    assert app.ask("GET", "/..%2frest_app.py").status == 404


def test_large_answers_come_in_parts() -> None:
    job = ScriptedJob(sample_view(checkpoints=500))
    found = Rest(job).ask("GET", f"/jobs/{JID}/checkpoints")
    assert len(found.body) > 200_000
    assert len(found.json["history"]) == 500


def test_a_defect_is_told_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    job = ScriptedJob(sample_view())
    job.shown = ZeroDivisionError("private")
    app = Rest(job)
    with caplog.at_level(logging.ERROR):
        for _ in range(5):
            reply = app.ask("GET", f"/jobs/{JID}")
            assert reply.status == 500
            assert "ZeroDivisionError" in reply.errors[0]
            assert b"private" not in reply.body
    assert len(caplog.records) == 1


def test_websockets_are_not_spoken() -> None:
    app, _ = rest()
    asyncio.run(app.app({"type": "websocket"}, None, None))  # type: ignore[arg-type]
