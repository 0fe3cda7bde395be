"""`snapline status`."""

from __future__ import annotations

import pytest
from tests.unit.cli.cli_kit import StubServer, Terminal, address_of, job_now, leave_in_home


@pytest.fixture
def unhealthy(server: StubServer) -> None:
    note = {
        "level": "bad",
        "issue": "no checkpoint",
        "text": "no checkpoint for 1 min",
        "advice": "look at the storage",
    }
    health = {"level": "bad", "line": "no checkpoint for 1 min", "notes": [note]}
    job = job_now(server, health=health)
    server.serve(job)
    leave_in_home(address_of(job))


def test_a_healthy_job(server: StubServer, terminal: Terminal) -> None:
    job = job_now(server)
    server.serve(job)
    leave_in_home(address_of(job))
    assert terminal.run("status", "clicks", "--check") == 0
    assert terminal.out.startswith(f"clicks: RUNNING for 60 s\n{job['url']}\nhealthy\n")
    assert terminal.json("status", "clicks") == job


@pytest.mark.usefixtures("unhealthy")
def test_only_a_check_fails_because_of_the_health(terminal: Terminal) -> None:
    assert terminal.run("status", "clicks") == 0
    assert "bad: no checkpoint for 1 min\n  - no checkpoint for 1 min -> look at the storage\n" in terminal.out
    assert terminal.run("status", "clicks", "--check") == 1
    assert terminal.json("status", "clicks", "--check", code=1)["health"]["level"] == "bad"


def test_no_such_job(terminal: Terminal) -> None:
    assert terminal.run("status", "clicks", "--json") == 3
    assert terminal.out == ""
    assert terminal.err.startswith("snapline: no job of yours on this machine is called 'clicks'")
