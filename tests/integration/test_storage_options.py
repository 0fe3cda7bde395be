"""Whole jobs whose checkpoints are on S3 and whose journal is in ZooKeeper, with credentials by reference."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.integration.storage_kit import KEY, SECRET, DriverProcess, GuardedS3, eventually

import snapline as sl
from snapline import cli
from snapline.connectors.files.file_sink import read_files
from snapline.devtools.kit.exactly_once import NumberingJob, numbering_job, prove
from snapline.devtools.kit.processes import send
from snapline.devtools.servers.zookeeper_server import ZooKeeperServer
from snapline.graph.planner import make_spec
from snapline.storage.objects.file_objects import FileObjects
from snapline.testing.clusters import ProcessCluster, ThreadCluster

ROWS = 20_000
PASSWORD = "pa55-of-the-j0urnal"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def s3() -> Iterator[GuardedS3]:
    with GuardedS3([KEY]) as server:
        yield server


@pytest.fixture
def bucket(s3: GuardedS3) -> str:
    name = f"bucket-{uuid.uuid4().hex}"
    s3.keys = {KEY}
    s3.client().call_s3("create_bucket", Bucket=name)
    return name


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text(f"{SECRET}\n")
    return path


def nodes(client: Any, path: str) -> Iterator[tuple[str, bytes]]:
    yield path, client.get(path)[0]
    for child in client.get_children(path):
        yield from nodes(client, f"{path}/{child}")


@pytest.mark.parametrize("journal", ["s3", "zookeeper"])
def test_a_job_on_s3_survives_kills_and_tells_nobody_its_secrets(
    journal: str, s3: GuardedS3, bucket: str, secret: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    server: ZooKeeperServer | None = request.getfixturevalue("zookeeper") if journal == "zookeeper" else None
    settings: dict[str, Any] = {
        "directory": str(tmp_path),
        "rows": ROWS,
        "rows_per_second": 300,  # more than the driver that is killed gets to see
        "storage": f"s3://{bucket}/jobs",
        "endpoint": s3.endpoint,
        "secret": str(secret),
        "zookeeper": server and server.hosts,
    }
    user = f"user-{uuid.uuid4().hex}"
    environment = {"STORE_KEY": KEY, "JOURNAL_AUTH": f"{user}:{PASSWORD}"}
    driver = DriverProcess(tmp_path, settings, environment)
    try:
        attempt = driver.wait_for_checkpoints(2)["attempt"]
        send(driver.operators[0])
        driver.wait_for(lambda it: it["attempt"] > attempt and it["status"] == "RUNNING", "the job runs again")
        driver.wait_for_checkpoints(2)
        driver.kill()
        client = s3.client()
        stored = b"".join(name.encode() + client.cat_file(name) for name in client.find(bucket))
        driver = DriverProcess(tmp_path, {**settings, "rows_per_second": None}, environment)
        driver.wait_for(lambda it: it["status"] == "FINISHED", "the end of the job")
        assert driver.wait() == 0
    finally:
        driver.close()
    proof = prove(tmp_path / "out", ROWS)
    assert proof.is_exactly_once, proof.problems
    assert b"_metadata" in stored
    assert (b"/journal/" in stored) == (server is None)
    if server is not None:
        stored += journal_content(server, user)
    told = driver.log + stored.decode(errors="replace")
    for value in (SECRET, PASSWORD):
        assert value not in told
    assert KEY not in stored.decode(errors="replace")


def journal_content(server: ZooKeeperServer, user: str) -> bytes:
    """All records of the job; checks that nobody else can read or change them."""
    from kazoo.client import KazooClient
    from kazoo.exceptions import NoAuthError
    from kazoo.security import OPEN_ACL_UNSAFE

    found = b""
    for auth, is_ours in (
        ([("digest", f"{user}:{PASSWORD}")], True),
        ([("digest", f"{user}:wrong")], False),
        ([], False),
    ):
        client = KazooClient(server.hosts, auth_data=auth)
        client.start()
        try:
            if is_ours:
                found = b"".join(path.encode() + data for path, data in nodes(client, "/snapline/stored"))
                continue
            with pytest.raises(NoAuthError):
                client.get("/snapline/stored/claims")
            with pytest.raises(NoAuthError):
                client.create("/snapline/stored/claims/mine", b"")
            with pytest.raises(NoAuthError):
                client.set("/snapline/stored", b"mine")
            with pytest.raises(NoAuthError):
                client.set_acls("/snapline/stored", OPEN_ACL_UNSAFE)
        finally:
            client.stop()
            client.close()
    assert b"/claims/" in found
    return found


def made(
    directory: Path, storage: str, s3: sl.S3, *, rows: int = ROWS, rate: float | None = 5000, **checkpoints: Any
) -> NumberingJob:
    return numbering_job(
        "stored",
        directory,
        rows=rows,
        rows_per_second=rate,
        checkpoints=lambda _: sl.Checkpoints(
            interval="200ms", storage=storage, storage_options=s3, **{"timeout": "30s", **checkpoints}
        ),
        restart=sl.FixedDelay(attempts=50, delay="50ms"),
    )


def test_rotated_credentials_are_found_while_the_job_runs(
    s3: GuardedS3, bucket: str, secret: Path, tmp_path: Path
) -> None:
    key = tmp_path / "key"
    key.write_text(KEY)
    options = sl.S3(endpoint=s3.endpoint, key=sl.Secret.file(key), secret=sl.Secret.file(secret))
    job = made(tmp_path, f"s3://{bucket}/jobs", options, rows=40_000)
    cluster = ProcessCluster()
    handle = job.job.start(cluster)
    eventually(lambda: handle.checkpoints().counts.completed >= 1, "a checkpoint")
    # The old key is withdrawn before the new one is there: checkpoints fail, and the job goes on.
    s3.keys = {"AKIA-another", "the-test"}
    refused = s3.refused
    eventually(lambda: s3.refused > refused and handle.checkpoints().counts.failed >= 1, "a failed checkpoint")
    assert handle.attempt == 1
    # A restart in the meantime has to wait for the storage.
    send(cluster.worker_pids()[0])
    key.write_text("AKIA-another")
    completed = handle.checkpoints().counts.completed
    eventually(lambda: handle.checkpoints().counts.completed > completed, "a checkpoint with the new key")
    assert handle.wait("180s") is sl.JobStatus.FINISHED, handle.cause
    assert job.prove().problems == ()


def test_what_is_wrong_with_the_storage_is_said_at_the_start(
    s3: GuardedS3, bucket: str, secret: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STORE_KEY", KEY)
    monkeypatch.setenv("WRONG_KEY", "AKIA-wrong")
    monkeypatch.delenv("NO_KEY", raising=False)
    known = sl.Secret.file(secret)

    def complaint(storage: str, *, key: str = "STORE_KEY", endpoint: str = s3.endpoint) -> str:
        options = sl.S3(endpoint=endpoint, key=sl.Secret.env(key), secret=known)
        with pytest.raises(sl.SnaplineError) as caught:
            made(tmp_path, storage, options).job.start(ProcessCluster())
        assert SECRET not in str(caught.value)
        return str(caught.value)

    there = f"s3://{bucket}/jobs"
    wrong = complaint(there, key="WRONG_KEY")
    assert "The access key you gave is not known" in wrong
    assert f"check the permissions and credentials; it was given key=Secret.env('WRONG_KEY'), secret={known}" in wrong
    assert "Secret.env('NO_KEY') is not set; set it for the driver and every executor" in complaint(there, key="NO_KEY")
    assert "create the bucket or directory first" in complaint("s3://no-such-bucket/jobs")
    assert "check the endpoint in `storage_options`" in complaint(there, endpoint="http://127.0.0.1:1")


def test_a_secret_that_an_executor_lacks_is_named(s3: GuardedS3, bucket: str, secret: Path, tmp_path: Path) -> None:
    driver = os.getpid()

    def only_here() -> str:
        if os.getpid() != driver:
            raise sl.ConfigurationError("no credentials on this machine")
        return KEY

    options = sl.S3(endpoint=s3.endpoint, key=sl.Secret.call(only_here), secret=sl.Secret.file(secret))
    handle = made(tmp_path, f"s3://{bucket}/jobs", options).job.start(ProcessCluster())
    with pytest.raises(sl.JobFailedError, match="no credentials on this machine"):
        handle.wait("180s")


def test_a_wrong_credential_for_the_journal_is_refused(
    s3: GuardedS3,
    bucket: str,
    zookeeper: ZooKeeperServer,
    secret: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("STORE_KEY", KEY)
    options = sl.S3(endpoint=s3.endpoint, key=sl.Secret.env("STORE_KEY"), secret=sl.Secret.file(secret))
    storage = f"s3://{bucket}/jobs"
    for number, password in enumerate((PASSWORD, "wr0ng-password")):
        monkeypatch.setenv("JOURNAL_AUTH", f"somebody:{password}")
        auth = sl.Secret.env("JOURNAL_AUTH")
        job = made(tmp_path / str(number), storage, options, rows=10, zookeeper=zookeeper.hosts, zookeeper_auth=auth)
        job.job.id = "guarded"
        if password == PASSWORD:
            assert job.job.run(ThreadCluster()) is sl.JobStatus.FINISHED
            continue
        with pytest.raises(
            sl.StorageError, match=r"NoAuthError.*created with the same credentials.*not started"
        ) as caught:
            job.job.start(ProcessCluster())
        assert password not in str(caught.value)


def test_a_job_as_it_is_sent_holds_references_only(
    secret: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STORE_KEY", KEY)
    options = sl.S3(key=sl.Secret.env("STORE_KEY"), secret=sl.Secret.file(secret))
    auth = sl.Secret.file(secret)
    job = made(tmp_path, "s3://bucket/jobs", options, zookeeper="a:1", zookeeper_auth=auth)
    job.job.id = "given"
    job.job.checkpoints.storage_options.check()
    shipment = make_spec(job.job).shipment
    assert b"STORE_KEY" in shipment
    for value in (KEY, SECRET):
        assert value.encode() not in shipment
        assert value not in repr(job.job.checkpoints)


def test_files_are_read_with_options_of_their_own(
    s3: GuardedS3, bucket: str, secret: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STORE_KEY", KEY)
    client = s3.client()
    client.pipe_file(f"{bucket}/in/a.csv", b"user,n\nann,1\nbob,2\n")
    client.pipe_file(f"{bucket}/in/b.csv", b"user,n\nann,3\n")
    options = sl.S3(endpoint=s3.endpoint, key=sl.Secret.env("STORE_KEY"), secret=sl.Secret.file(secret))
    job = sl.Job("read", parallelism=2)
    files = sl.sources.Files(f"s3://{bucket}/in/*.csv", format="csv", storage_options=options)
    job.source(files, uid="in").sink(sl.sinks.Files(tmp_path / "out"), uid="out")
    assert SECRET.encode() not in make_spec(job).shipment
    assert job.run(ThreadCluster()) is sl.JobStatus.FINISHED
    assert sorted(row["n"] for row in read_files(tmp_path / "out").to_pylist()) == [1, 2, 3]


def test_not_even_the_logs_of_libraries_show_secrets(
    s3: GuardedS3, bucket: str, secret: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(1)
    options = sl.S3(endpoint=s3.endpoint, key=KEY, secret=sl.Secret.file(secret), token="t0ken-of-the-session")
    objects = FileObjects(options=options)
    objects.write(f"s3://{bucket}/object", b"content")
    assert objects.read(f"s3://{bucket}/object") == b"content"
    assert "botocore" in caplog.text
    assert SECRET not in caplog.text
    assert "t0ken-of-the-session" not in caplog.text


def test_savepoints_restores_and_the_command_line_reach_it_too(
    s3: GuardedS3,
    bucket: str,
    secret: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("STORE_KEY", KEY)
    options = sl.S3(endpoint=s3.endpoint, key=sl.Secret.env("STORE_KEY"), secret=sl.Secret.file(secret))
    storage = f"s3://{bucket}/jobs"
    local = tmp_path / "local"
    first = made(tmp_path, storage, options, rate=500, savepoint_dir=f"s3://{bucket}/saved", local_directory=local)
    handle = first.job.start(ThreadCluster())
    eventually(lambda: handle.checkpoints().counts.completed >= 1, "a checkpoint")
    savepoint = handle.stop()
    assert savepoint is not None
    assert savepoint.startswith(f"s3://{bucket}/saved/")
    given = [f"endpoint={s3.endpoint}", "key=env:STORE_KEY", f"secret=file:{secret}"]
    assert cli.main(["inspect", savepoint, *(part for it in given for part in ("--s3", it))]) == 0
    said = capsys.readouterr()
    assert "Operator numbering" in said.out
    assert SECRET not in said.out + said.err
    second = made(tmp_path, storage, options, rate=None, restore_from=savepoint)
    second.job.id = "second"
    assert second.job.run(ThreadCluster()) is sl.JobStatus.FINISHED
    assert second.prove().problems == ()
