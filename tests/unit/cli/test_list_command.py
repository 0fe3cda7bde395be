"""`snapline list`."""

from __future__ import annotations

from pathlib import Path

from tests.unit.cli.cli_kit import StubServer, Terminal, address_of, job_now, leave_in_home, leave_in_storage
from tests.unit.cli.test_known_jobs import closed_url, dead_pid


def test_jobs_of_this_user_with_status(server: StubServer, terminal: Terminal) -> None:
    jobs = [job_now(server), job_now(server, "orders", status="RESTARTING", attempt=3)]
    server.serve(*jobs)
    for job in jobs:
        leave_in_home(address_of(job, storage="/chk"))
    assert terminal.run("list") == 0
    heading, first, second = terminal.out.splitlines()
    assert heading.split() == ["name", "id", "status", "for", "attempt", "health", "page"]
    assert first.split()[:3] == ["clicks", "clicks", "RUNNING"]
    assert "RESTARTING" in second
    assert jobs[1]["url"] in second
    shown = terminal.json("list")
    assert [job["job_id"] for job in shown["jobs"]] == ["clicks", "orders"]
    assert (shown["jobs"][0]["storage"], shown["jobs"][0]["problem"], shown["gone"]) == ("/chk", None, [])


def test_no_jobs(terminal: Terminal, tmp_path: Path) -> None:
    assert terminal.run("list") == 0
    assert terminal.out == "No jobs are running.\n"
    assert terminal.json("list") == {"jobs": [], "gone": []}
    assert terminal.run("list", tmp_path) == 0
    assert terminal.out == f"No jobs of {tmp_path} are running.\n"


def test_killed_drivers_are_named_once(server: StubServer, terminal: Terminal) -> None:
    leave_in_home(address_of(job_now(server), url=closed_url(), pid=dead_pid()))
    assert terminal.run("list") == 0
    assert "job 'clicks' is not running: its driver" in terminal.err
    assert terminal.run("list") == 0
    assert terminal.err == ""


def test_jobs_of_a_storage_and_of_a_server(server: StubServer, terminal: Terminal, tmp_path: Path) -> None:
    jobs = [job_now(server), job_now(server, "orders")]
    server.serve(*jobs)
    leave_in_storage(address_of(jobs[0], storage=str(tmp_path)))
    leave_in_storage(address_of(jobs[1], storage=str(tmp_path), url=closed_url(), pid=dead_pid()))
    shown = terminal.json("list", tmp_path)
    assert [job["job_id"] for job in shown["jobs"]] == ["clicks"]
    assert [job["job_id"] for job in shown["gone"]] == ["orders"]
    assert [job["job_id"] for job in terminal.json("list", server.url)["jobs"]] == ["clicks", "orders"]
    assert terminal.run("list", closed_url()) == 3


def test_a_job_that_cannot_be_asked_is_listed_with_the_reason(server: StubServer, terminal: Terminal) -> None:
    server.token = "s3cret"
    leave_in_home(address_of(job_now(server)))
    assert terminal.run("list") == 0
    assert "asks for a token" in terminal.out
