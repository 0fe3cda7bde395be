"""The address of a job is written, replaced and removed, and nothing of that can fail a job."""

from __future__ import annotations

import logging
import os
import threading
from pathlib import Path

import pytest
from tests.unit.runtime.master.master_kit import make_spec

from snapline.config import Checkpoints
from snapline.graph.job_spec import JobSpec
from snapline.runtime.master import address_files
from snapline.runtime.master.address_files import AddressFiles, storage_root
from snapline.runtime.master.job_address import JobAddress
from snapline.storage.objects.file_objects import FileObjects
from snapline.storage.objects.memory_objects import MemoryObjects
from snapline.storage.objects.object_store import Bytes

URL = "http://127.0.0.1:4300/#/jobs/00"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SNAPLINE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def spec_in(storage: object) -> JobSpec:
    return make_spec(checkpoints=Checkpoints(storage=str(storage)))


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_it_is_written_for_its_owner_only_and_removed(home: Path, tmp_path: Path) -> None:
    files = AddressFiles(spec_in(tmp_path / "chk"), FileObjects(), URL, "/tokens/t")
    files.write()
    local, stored = home / "jobs" / f"job@{os.getpid()}.json", tmp_path / "chk" / "job" / "monitor" / "address.json"
    assert local.read_bytes() == stored.read_bytes()
    address = JobAddress.decode(stored.read_bytes())
    assert address is not None
    assert (address.url, address.token_file, address.pid) == (URL, "/tokens/t", os.getpid())
    assert address.storage == str(tmp_path / "chk")
    assert (mode(home), mode(home / "jobs"), mode(local), mode(stored)) == (0o700, 0o700, 0o600, 0o600)
    files.remove()
    assert not local.exists()
    assert not stored.exists()
    files.remove()


def test_what_an_earlier_driver_left_is_replaced_and_what_a_later_one_wrote_stays(tmp_path: Path) -> None:
    spec, objects = spec_in(tmp_path / "chk"), FileObjects()
    first, second = AddressFiles(spec, objects, URL, None), AddressFiles(spec, objects, f"{URL}1", None)
    first.write()
    second.write()
    first.remove()
    stored = tmp_path / "chk" / "job" / "monitor" / "address.json"
    address = JobAddress.decode(stored.read_bytes())
    assert address is not None
    assert address.url == f"{URL}1"
    second.remove()
    assert not stored.exists()


def test_a_job_without_storage_is_only_in_the_home(home: Path) -> None:
    objects = MemoryObjects()
    AddressFiles(make_spec(), objects, URL, None).write()
    (local,) = (home / "jobs").iterdir()
    address = JobAddress.decode(local.read_bytes())
    assert address is not None
    assert address.storage is None


def test_stores_that_are_no_files(tmp_path: Path) -> None:
    objects = MemoryObjects()
    files = AddressFiles(spec_in("memory://chk"), objects, URL, None)
    files.write()
    assert [info.path for info in objects.list("memory://chk")] == ["memory://chk/job/monitor/address.json"]
    files.remove()
    assert objects.list("memory://chk") == []


def test_a_failure_is_a_warning(home: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    home.write_text("a file, no directory")
    (tmp_path / "chk").write_text("another")
    with caplog.at_level(logging.WARNING):
        files = AddressFiles(spec_in(tmp_path / "chk"), FileObjects(retries=0), URL, None)
        files.write()
        files.remove()
    assert [record.levelname for record in caplog.records] == ["WARNING"] * len(caplog.records)
    first, second, *_ = (record.getMessage() for record in caplog.records)
    assert str(home) in first
    assert str(tmp_path / "chk") in second
    assert all(f"Commands find the job by its URL, {URL}" in record.getMessage() for record in caplog.records)


def test_storage_that_hangs_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    released = threading.Event()

    class Hanging(FileObjects):
        def write(self, path: str, data: Bytes) -> None:
            released.wait(30)

    monkeypatch.setattr(address_files, "PATIENCE_S", 0.01)
    with caplog.at_level(logging.WARNING):
        AddressFiles(spec_in(tmp_path), Hanging(), URL, None).write()
    released.set()
    assert "does not answer" in caplog.text


def test_the_storage_of_a_job() -> None:
    assert storage_root(make_spec()) is None
    assert storage_root(spec_in("chk/")) == os.path.abspath("chk")
    assert storage_root(spec_in("s3://bucket/chk/")) == "s3://bucket/chk"
