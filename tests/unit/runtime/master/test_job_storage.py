"""Checkpoints in the driver's memory beside savepoints in files."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.runtime.master.master_kit import make_spec

from snapline.config import Checkpoints
from snapline.errors import ObjectNotFoundError, RestoreError, StorageError
from snapline.runtime.master.job_storage import DriverObjects, absolute, open_storage
from snapline.storage.objects.file_objects import FileObjects
from snapline.types import JobStatus


def test_only_the_jobs_own_directory_is_in_memory(tmp_path: Path) -> None:
    objects = DriverObjects("/driver/job", FileObjects())
    inside, outside = "/driver/job/chk-1/_metadata", f"{tmp_path}/saved/_metadata"
    for path in (inside, outside):
        assert objects.create(path, b"1")
        assert not objects.create(path, b"2")
        objects.write(path, b"23")
        assert objects.read(path, 1) == b"3"
        assert objects.size_bytes(path) == 2
        with objects.open(path) as file:
            assert file.read() == b"23"
        objects.download(path, tmp_path / "copy")
        objects.upload(tmp_path / "copy", f"{path}-copy")
    assert [info.path for info in objects.list("/driver/job")] == [inside, f"{inside}-copy"]
    assert not Path("/driver/job").exists()
    assert Path(outside).exists()
    objects.sweep("/driver/job", lambda _: True)
    objects.delete([inside, outside])
    objects.delete_tree("/driver/job")
    objects.delete_tree(f"{tmp_path}/saved")
    for path in (inside, outside):
        with pytest.raises(ObjectNotFoundError):
            objects.read(path)
    assert objects.list("/driver/job") == objects.list(f"{tmp_path}/saved") == []


def test_paths_mean_the_same_in_every_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert absolute("saved/") == f"{tmp_path}/saved"
    assert absolute("../saved") == f"{tmp_path.parent}/saved"
    assert absolute("s3://bucket/saved/") == "s3://bucket/saved"


def test_a_zookeeper_that_is_down_is_noticed_before_the_job_starts(tmp_path: Path) -> None:
    spec = make_spec(checkpoints=Checkpoints(storage=tmp_path, zookeeper="127.0.0.1:1"))
    with pytest.raises(StorageError, match=r"no ZooKeeper at 127\.0\.0\.1:1 .*Connection refused.*was not started"):
        open_storage(spec, None, None)


def test_a_directory_for_savepoints_is_tried_before_the_job_starts(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for directory, is_good in (("savepoints", True), ("file/savepoints", False)):
        checkpoints = Checkpoints(storage=tmp_path / "checkpoints", savepoint_dir=tmp_path / directory)
        if is_good:
            open_storage(make_spec(checkpoints=checkpoints), None, None).close()
            assert list((tmp_path / directory).iterdir()) == []
            continue
        with pytest.raises(StorageError, match=r"savepoints cannot be kept in .*; name a directory in `savepoint_dir`"):
            open_storage(make_spec(checkpoints=checkpoints), None, None)


@pytest.mark.parametrize("ended", [None, JobStatus.FINISHED, JobStatus.FAILED])
def test_a_job_that_is_over_needs_no_snapshot_to_start_from(tmp_path: Path, ended: JobStatus | None) -> None:
    """It may have claimed that one and deleted it at its end, which another driver comes to hear of."""
    spec = make_spec(checkpoints=Checkpoints(storage=tmp_path, restore_from=str(tmp_path / "other/chk-1")))
    storage = open_storage(make_spec(checkpoints=Checkpoints(storage=tmp_path)), None, None)
    if ended is not None:
        journal, _ = storage.archive.claim()
        storage.archive.finish(journal.attempt, ended, spec.checkpoints.externalized, limit=1)
    storage.close()
    if ended is JobStatus.FINISHED:
        assert open_storage(spec, None, None).given is None
        return
    with pytest.raises(RestoreError, match="no checkpoint there"):
        open_storage(spec, None, None)
