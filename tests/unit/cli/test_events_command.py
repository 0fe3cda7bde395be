"""`snapline events`."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.unit.cli.cli_kit import Answer, StubServer, Terminal, address_of, job_now, leave_in_home

from snapline.cli import events_command


def events(*pairs: tuple[int, str]) -> Answer:
    return 200, {"events": [{"at_ms": at_ms, "text": text} for at_ms, text in pairs]}


@pytest.fixture
def job(server: StubServer, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr(events_command, "POLL_S", 0.001)
    job = job_now(server)
    server.serve(job)
    leave_in_home(address_of(job))
    return job


@pytest.mark.usefixtures("job")
def test_events_so_far(server: StubServer, terminal: Terminal) -> None:
    server.answers["GET /snapline/jobs/clicks/events"] = events((1000, "CREATED -> INITIALIZING"), (2000, "it\x1bruns"))
    assert terminal.run("events", "clicks") == 0
    assert terminal.out.splitlines() == [
        "1970-01-01T00:00:01.000Z  CREATED -> INITIALIZING",
        "1970-01-01T00:00:02.000Z  it\\x1bruns",
    ]
    assert terminal.json("events", "clicks")["events"][1]["at_ms"] == 2000


def test_following_shows_each_once_until_the_job_ends(
    server: StubServer, terminal: Terminal, job: dict[str, Any]
) -> None:
    running, ended = (200, job), (200, {**job, "status": "FINISHED"})
    statuses: list[Answer] = [running, running, running, ended]
    server.answers["GET /snapline/jobs/clicks"] = lambda _: statuses.pop(0)
    answers = [
        events((1, "a"), (2, "b")),
        events((2, "b"), (2, "c"), (3, "d")),
        events((3, "d")),
        events((3, "d"), (4, "e")),
    ]
    server.answers["GET /snapline/jobs/clicks/events"] = lambda _: answers.pop(0)
    assert terminal.run("events", "clicks", "--follow", "--json") == 0
    assert [json.loads(line)["text"] for line in terminal.out.splitlines()] == ["a", "b", "c", "d", "e"]
    asked = [path for _, path, *_ in server.asked if "events" in path]
    assert [path.partition("after=")[2] for path in asked] == ["", "1", "2", "2"]


@pytest.mark.usefixtures("job")
def test_following_ends_with_the_driver(server: StubServer, terminal: Terminal) -> None:
    answers: list[Answer] = [events((1, "a")), (404, {"errors": ["gone"]})]
    server.answers["GET /snapline/jobs/clicks/events"] = lambda _: answers.pop(0)
    assert terminal.run("events", "clicks", "-f") == 0
    assert terminal.out == "1970-01-01T00:00:00.001Z  a\n"
