"""Storage opened from settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from snapline.config import Checkpoints, Secret
from snapline.errors import ConfigurationError
from snapline.storage.archive import Archive
from snapline.storage.journals.journal_store import MemoryJournal
from snapline.storage.objects.file_objects import FileObjects
from snapline.storage.snapshot_writer import WriteOptions
from snapline.storage.storage_factory import check_job_id, monitor_directory, open_archive, open_objects


def test_in_the_driver() -> None:
    archive = open_archive(Checkpoints(), "job", "me")
    assert archive.location(3) == "/driver/job/chk-3"
    assert archive.claim()[1]
    # Another archive shares nothing with it.
    journal, is_ours = open_archive(Checkpoints(), "job", "other").claim()
    assert (journal.attempt, is_ours) == (1, True)


def test_in_files(tmp_path: Path) -> None:
    checkpoints = Checkpoints(storage=tmp_path / "some dir")
    archive = open_archive(checkpoints, "job-1", "me")
    assert archive.location(3) == f"{tmp_path}/some dir/job-1/chk-3"
    assert archive.claim()[1]
    assert list((tmp_path / "some dir" / "job-1" / "journal" / "claims").iterdir())
    assert open_archive(checkpoints, "job-1", "other").claim()[0].attempt == 2
    assert open_archive(checkpoints, "job-2", "other").claim()[0].attempt == 1


def test_relative_paths_mean_one_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    archive = open_archive(Checkpoints(storage="data/"), "job", "me")
    assert archive.directory == f"{tmp_path}/data/job"


def test_without_a_subdirectory(tmp_path: Path) -> None:
    checkpoints = Checkpoints(storage=f"file://{tmp_path}", create_subdirectory=False)
    one, other = (open_archive(checkpoints, name, "me") for name in ("one", "other"))
    assert one.location(1) == f"file://{tmp_path}/chk-1"
    assert one.claim()[0].attempt == other.claim()[0].attempt == 1


@pytest.mark.parametrize("job_id", ["", "a/b", "..", ".", "a b", "-x", "x" * 129, "ä", None])
def test_impossible_ids(job_id: Any) -> None:
    with pytest.raises(ConfigurationError, match="cannot be the id of a job"):
        check_job_id(job_id)


def test_settings_reach_the_writer() -> None:
    options = WriteOptions.of(Checkpoints(inline_threshold="1kb", compress=True, memory_limit="2MB"))
    assert options == WriteOptions(1024, zstd=True, memory_limit_bytes=2 << 20)
    assert WriteOptions.of(Checkpoints()) == WriteOptions()


def test_zookeeper_needs_storage(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="set `storage` too"):
        Checkpoints(zookeeper="localhost:2181")
    with pytest.raises(ConfigurationError, match="host:port"):
        Checkpoints(storage=tmp_path, zookeeper="localhost")
    archive = open_archive(Checkpoints(storage=tmp_path, zookeeper="localhost:2181"), "job", "me")
    assert isinstance(archive, Archive)


def test_the_store_of_the_settings(tmp_path: Path) -> None:
    assert isinstance(open_objects(Checkpoints(storage=tmp_path)), FileObjects)


def test_the_credential_for_zookeeper_is_resolved_by_the_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, Any] = {}

    def journal(hosts: str, path: str, **options: Any) -> Any:
        given.update(options, hosts=hosts, path=path)
        return MemoryJournal()

    monkeypatch.setattr("snapline.storage.storage_factory.ZooKeeperJournal", journal)
    file = tmp_path / "auth"
    settings = Checkpoints(
        storage=tmp_path,
        zookeeper="a:1",
        zookeeper_auth=Secret.file(file),
        zookeeper_acl="auth::cdrwa,world:anyone:r",
    )
    file.write_text("digest user:pass word\n")
    open_archive(settings, "job", "me")
    assert given == {
        "hosts": "a:1",
        "path": "/snapline/job",
        "auth": ("digest", "user:pass word"),
        "acl": "auth::cdrwa,world:anyone:r",
    }
    for text, auth in (("user:pass word", ("digest", "user:pass word")), ("x509 name", ("x509", "name"))):
        file.write_text(text)
        open_archive(settings, "job", "me")
        assert given["auth"] == auth
    for text in ("digest", "digest user", "user:", ":password"):
        file.write_text(text)
        with pytest.raises(ConfigurationError, match=r"zookeeper_auth=Secret.file\(.*\): must hold user:password"):
            open_archive(settings, "job", "me")
    file.unlink()
    with pytest.raises(ConfigurationError, match="cannot be read"):
        open_archive(settings, "job", "me")


def test_what_people_look_at_is_in_the_directory_of_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert monitor_directory(Checkpoints(storage="jobs"), "job") == f"{tmp_path}/jobs/job/monitor"
    assert monitor_directory(Checkpoints(storage="s3://bucket/jobs/"), "job") == "s3://bucket/jobs/job/monitor"
    shared = Checkpoints(storage="/jobs", create_subdirectory=False)
    assert monitor_directory(shared, "job") == "/jobs/job/monitor"
    assert monitor_directory(Checkpoints(), "job") is None
