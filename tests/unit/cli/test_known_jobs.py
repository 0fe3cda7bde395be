"""Addresses that drivers leave: which are believed, and how those of killed drivers are noticed."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.cli.cli_kit import StubServer, address_of, job_now, leave_in_home, leave_in_storage

from snapline.cli.known_jobs import Found, KnownJob, addresses_in, local_addresses, look, token_of
from snapline.storage.objects.file_objects import FileObjects


def dead_pid() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def closed_url() -> str:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return f"http://127.0.0.1:{taken.getsockname()[1]}"


def test_a_running_job_is_known_by_what_its_server_says(server: StubServer) -> None:
    job = job_now(server)
    server.serve(job, job_now(server, "orders"))
    entry = leave_in_home(address_of(job))
    (known,) = look(local_addresses(), None)
    assert known.row is not None
    assert (known.row["job_id"], known.row["status"], known.problem) == ("clicks", "RUNNING", "")
    assert entry.exists()


def test_each_server_is_asked_once(server: StubServer) -> None:
    jobs = [job_now(server, f"job-{number}") for number in range(5)]
    server.serve(*jobs)
    for job in jobs:
        leave_in_home(address_of(job))
    assert len([known for known in look(local_addresses(), None) if known.row]) == 5
    assert len(server.asked) == 1


def _only(known: list[KnownJob]) -> KnownJob:
    (one,) = known
    assert one.row is None
    return one


def test_a_driver_that_was_killed_is_noticed_and_its_entry_removed(server: StubServer) -> None:
    entry = leave_in_home(address_of(job_now(server), url=closed_url(), pid=dead_pid()))
    known = _only(look(local_addresses(), None))
    assert known.is_gone
    assert "it was killed" in known.problem
    assert not entry.exists()


def test_a_killed_driver_that_its_parent_has_not_noticed_is_gone(server: StubServer) -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    try:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        leave_in_home(address_of(job_now(server), url=closed_url(), pid=process.pid))
        assert "it was killed" in _only(look(local_addresses(), None)).problem
    finally:
        process.wait()


def test_a_process_that_lives_but_does_not_listen_is_another_one(server: StubServer) -> None:
    entry = leave_in_home(address_of(job_now(server), url=closed_url()))
    known = _only(look(local_addresses(), None))
    assert (known.is_gone, "does not listen" in known.problem) == (True, True)
    assert not entry.exists()


def test_a_server_that_serves_other_jobs_now(server: StubServer) -> None:
    server.serve(job_now(server, "orders"))
    entry = leave_in_home(address_of(job_now(server)))
    known = _only(look(local_addresses(), None))
    assert (known.is_gone, "serves other jobs" in known.problem) == (True, True)
    assert not entry.exists()


def test_a_driver_elsewhere_that_cannot_be_reached_may_still_run(server: StubServer) -> None:
    entry = leave_in_home(address_of(job_now(server), url=closed_url(), host="elsewhere", pid=1))
    known = _only(look(local_addresses(), None))
    assert not known.is_gone
    assert "run the command there" in known.problem
    assert entry.exists()


def test_a_server_that_only_refuses_is_not_gone(server: StubServer) -> None:
    server.token = "s3cret"
    job = job_now(server)
    server.serve(job)
    entry = leave_in_home(address_of(job))
    known = _only(look(local_addresses(), None))
    assert (known.is_gone, "asks for a token" in known.problem) == (False, True)
    assert entry.exists()
    assert look(local_addresses(), "s3cret")[0].row is not None


def test_a_new_driver_at_the_same_port_takes_the_place_of_the_killed_one(server: StubServer) -> None:
    job = job_now(server)
    server.serve(job)
    old = leave_in_home(address_of(job, pid=dead_pid(), started_ms=1))
    new = leave_in_home(address_of(job, started_ms=2))
    known = look(local_addresses(), None)
    assert sorted((it.address.started_ms, it.row is not None, it.is_gone) for it in known) == [
        (1, False, True),
        (2, True, False),
    ]
    assert (old.exists(), new.exists()) == (False, True)


def test_files_that_are_no_addresses_are_left_alone(server: StubServer, home: Path) -> None:
    good = leave_in_home(address_of(job_now(server)))
    (home / "jobs" / "torn@1.json").write_bytes(good.read_bytes()[:-5])
    (home / "jobs" / "newer@1.json").write_bytes(good.read_bytes().replace(b'"version": 1', b'"version": 2'))
    (home / "jobs" / "evil@1.json").write_bytes(good.read_bytes().replace(b"http://", b"ftp://x"))
    (home / "jobs" / "large@1.json").write_bytes(good.read_bytes() + b" " * 20_000)
    (home / "jobs" / "link@1.json").symlink_to(good)
    assert [it.entry for it in local_addresses()] == [good]


def test_no_home_is_no_job() -> None:
    assert local_addresses() == []


# In storage.


def test_jobs_of_a_storage(server: StubServer, tmp_path: Path) -> None:
    storage = str(tmp_path / "chk")
    for name in ("clicks", "orders"):
        leave_in_storage(address_of(job_now(server, name), storage=storage))
    (tmp_path / "chk" / "clicks" / "chk-1").mkdir()
    (tmp_path / "chk" / "clicks" / "chk-1" / "_metadata").touch()
    objects = FileObjects()
    assert [it.address.job_id for it in addresses_in(objects, storage)] == ["clicks", "orders"]
    assert [it.address.job_id for it in addresses_in(objects, f"{storage}/orders/")] == ["orders"]
    assert addresses_in(objects, f"{storage}/other") == []


def test_jobs_of_a_storage_that_only_the_home_knows(server: StubServer, tmp_path: Path) -> None:
    storage = str(tmp_path / "chk")
    leave_in_home(address_of(job_now(server), storage=storage))
    leave_in_home(address_of(job_now(server, "orders"), storage="/other"))
    objects = FileObjects()
    assert [it.address.job_id for it in addresses_in(objects, storage)] == ["clicks"]
    assert [it.address.job_id for it in addresses_in(objects, f"{storage}/clicks")] == ["clicks"]


# Tokens.


def _token_file(server: StubServer, home: Path) -> Path:
    path = home / "tokens" / f"host-1-{server.url.rpartition(':')[2]}"
    path.parent.mkdir(parents=True)
    path.write_text("s3cret\n")
    path.chmod(0o600)
    return path


def test_the_token_that_the_address_names_is_sent(server: StubServer, home: Path) -> None:
    server.token = "s3cret"
    job = job_now(server)
    server.serve(job)
    leave_in_home(address_of(job, token_file=str(_token_file(server, home))))
    assert look(local_addresses(), None)[0].row is not None


def test_an_address_cannot_lead_other_files_away(server: StubServer, home: Path, tmp_path: Path) -> None:
    """Whoever can write into the storage could name any file and any URL."""
    private = tmp_path / "id_rsa"
    private.write_text("private")
    private.chmod(0o600)
    job = job_now(server)

    def token(path: object, **changes: object) -> str | None:
        return token_of(Found(address_of(job, token_file=str(path), **changes)))

    good = _token_file(server, home)
    link = home / "tokens" / f"link-{good.name}"
    link.symlink_to(private)
    assert token(good) == "s3cret"
    assert token(private) is None
    assert token(link) is None
    assert token(home / "tokens" / ".." / ".." / "id_rsa") is None
    assert token(home / "tokens" / "none") is None
    port = good.name.rpartition("-")[2]
    assert token(good, url=f"http://localhost:{port}/") == "s3cret"
    assert token(good, url="http://127.0.0.1:1/") is None
    assert token(good, url=f"http://192.0.2.1:{port}/") is None
    assert token(good, url=f"http://nowhere.invalid:{port}/") is None
    assert token(good, host="elsewhere") is None
    # What is in the user's own home, which others cannot write to, may be about another machine.
    entry = leave_in_home(address_of(job, token_file=str(good), host="elsewhere"))
    assert [token_of(it) for it in local_addresses() if it.entry == entry] == ["s3cret"]
    good.chmod(0o644)
    assert token(good) is None


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
def test_files_of_others_are_not_believed(server: StubServer, home: Path) -> None:
    entry = leave_in_home(address_of(job_now(server)))
    os.chown(entry, 12345, 12345)
    assert local_addresses() == []
    token = _token_file(server, home)
    os.chown(token, 12345, 12345)
    assert token_of(Found(address_of(job_now(server), token_file=str(token)))) is None
