"""Which job is meant: by URL, name, id or path, and what is said if it is none or several."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest
from tests.unit.cli.cli_kit import StubServer, address_of, job_now, leave_in_home, leave_in_storage, stub_server
from tests.unit.cli.test_known_jobs import closed_url, dead_pid

from snapline.cli.job_lookup import find_job, given_token
from snapline.cli.usage import UnreachableError, UsageError


def options(job: object, **changes: Any) -> argparse.Namespace:
    return argparse.Namespace(**{"job": str(job), "token_file": None, "s3": [], **changes})


def test_by_name_id_and_hex_id(server: StubServer) -> None:
    job = job_now(server, "clicks-2", name="Clicks of today/tomorrow")
    server.serve(job)
    leave_in_home(address_of(job))
    for text in ("Clicks of today/tomorrow", "clicks-2", job["jid"]):
        found = find_job(options(text))
        assert (found.job_id, found.name, found.client.base) == ("clicks-2", "Clicks of today/tomorrow", server.url)
        assert found.path == "/snapline/jobs/clicks-2"
        assert found.address is not None


def test_by_storage_and_by_directory(server: StubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = job_now(server)
    server.serve(job)
    leave_in_storage(address_of(job, storage=str(tmp_path / "chk")))
    monkeypatch.chdir(tmp_path)
    for text in (tmp_path / "chk", tmp_path / "chk" / "clicks", "chk", "chk/clicks/", f"file://{tmp_path}/chk/clicks"):
        assert find_job(options(text)).job_id == "clicks"


def test_a_name_goes_before_a_directory_of_that_name(
    server: StubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = job_now(server)
    server.serve(job)
    leave_in_home(address_of(job))
    (tmp_path / "clicks").mkdir()
    monkeypatch.chdir(tmp_path)
    assert find_job(options("clicks")).job_id == "clicks"


def test_by_url(server: StubServer) -> None:
    job, other = job_now(server), job_now(server, "orders")
    server.serve(job, other)
    for url in (job["url"], f"{server.url}/#/jobs/{job['jid']}/checkpoints", f"{server.url}/snapline/jobs/clicks"):
        assert find_job(options(url)).job_id == "clicks"
    with pytest.raises(UsageError, match=r"has several jobs; name one of them: clicks .*, orders"):
        find_job(options(server.url))
    for part in ("snapline/jobs/sales", f"#/jobs/{'0' * 32}", "jobs/x"):
        with pytest.raises(UnreachableError, match=r"has no such job; it has clicks"):
            find_job(options(f"{server.url}/{part}"))


def test_a_server_with_one_job_that_runs(server: StubServer) -> None:
    server.serve(job_now(server, "old", status="FINISHED"), job_now(server))
    assert find_job(options(server.url)).job_id == "clicks"
    server.serve(job_now(server, "old", status="FINISHED"))
    assert find_job(options(server.url)).job_id == "old"
    server.serve()
    with pytest.raises(UnreachableError, match="has no job"):
        find_job(options(server.url))


def test_a_url_takes_the_token_of_the_home(server: StubServer, home: Path) -> None:
    token = home / "tokens" / "t"
    token.parent.mkdir(parents=True)
    token.write_text("s3cret")
    token.chmod(0o600)
    server.token = "s3cret"
    job = job_now(server)
    server.serve(job)
    leave_in_home(address_of(job, token_file=str(token)))
    assert find_job(options(server.url)).job_id == "clicks"


def test_an_unknown_name_is_told_what_runs(server: StubServer) -> None:
    with pytest.raises(UnreachableError, match="no job of yours on this machine is called 'x'; none is running"):
        find_job(options("x"))
    server.serve(job_now(server), job_now(server, "orders"))
    leave_in_home(address_of(job_now(server)))
    leave_in_home(address_of(job_now(server, "orders")))
    with pytest.raises(UnreachableError, match=r"running are: clicks \(id clicks, http.*\), orders \(id orders"):
        find_job(options("x"))
    with pytest.raises(UsageError, match="JOB is empty"):
        find_job(options(" "))


def test_a_name_of_several_jobs(server: StubServer) -> None:
    with stub_server() as second:
        jobs = [job_now(server, "clicks"), job_now(second, "clicks-2", name="clicks")]
        server.serve(jobs[0])
        second.serve(jobs[1])
        for job in jobs:
            leave_in_home(address_of(job))
        with pytest.raises(UsageError, match="'clicks' can be several jobs; use the URL") as raised:
            find_job(options("clicks"))
        assert jobs[0]["url"] in str(raised.value)
        assert jobs[1]["url"] in str(raised.value)


def test_a_driver_that_was_killed_by_name_and_by_path(server: StubServer, tmp_path: Path) -> None:
    gone = address_of(job_now(server), url=closed_url(), pid=dead_pid(), storage=str(tmp_path))
    leave_in_storage(gone)
    leave_in_home(gone)
    for text in ("clicks", tmp_path, tmp_path / "clicks"):
        with pytest.raises(UnreachableError, match=r"is not running. job 'clicks': its driver .* was killed"):
            find_job(options(text))
        leave_in_home(gone)
    # Its successor writes the same place.
    job = job_now(server)
    server.serve(job)
    leave_in_storage(address_of(job, storage=str(tmp_path)))
    leave_in_home(address_of(job, storage=str(tmp_path)))
    for text in ("clicks", tmp_path, tmp_path / "clicks"):
        assert find_job(options(text)).client.base == server.url


def test_a_path_without_jobs(tmp_path: Path) -> None:
    with pytest.raises(UnreachableError, match="no running job has left its address in"):
        find_job(options(tmp_path))


def test_a_token_that_is_missing_is_asked_for(server: StubServer) -> None:
    server.token = "s3cret"
    job = job_now(server)
    server.serve(job)
    leave_in_home(address_of(job))
    with pytest.raises(UsageError, match="--token-file"):
        find_job(options("clicks"))


def test_where_a_token_comes_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert given_token(options("x")) is None
    monkeypatch.setenv("SNAPLINE_TOKEN", " from-variable ")
    assert given_token(options("x")) == "from-variable"
    file = tmp_path / "token"
    file.write_text("from-file\n")
    assert given_token(options("x", token_file=str(file))) == "from-file"
    for content in (b"", b"two\nlines", b"\xff"):
        file.write_bytes(content)
        with pytest.raises(UsageError, match="--token-file"):
            given_token(options("x", token_file=str(file)))
    with pytest.raises(UsageError, match="No such file"):
        given_token(options("x", token_file=str(tmp_path / "none")))
