"""Files that are slow on purpose are files all the same."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from snapline.devtools.kit.slow_objects import SlowFiles, is_state


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> SlowFiles:
    monkeypatch.setattr(SlowFiles, "delay_s", 0.02)
    monkeypatch.setattr(SlowFiles, "bytes_per_s", 1000.0)
    return SlowFiles()


def taken_s(call: object) -> float:
    assert callable(call)
    started_s = time.monotonic()
    call()
    return time.monotonic() - started_s


def test_state_is_written_slowly_by_size(files: SlowFiles, tmp_path: Path) -> None:
    path, source = f"{tmp_path}/chk-1/part", tmp_path / "local"
    source.write_bytes(bytes(30))
    assert taken_s(lambda: files.write(path, b"x" * 30)) >= 0.05
    assert taken_s(lambda: files.upload(source, f"{path}-2")) >= 0.05
    assert taken_s(lambda: files.create(f"{path}-3", b"")) >= 0.02
    assert files.read(path) == b"x" * 30


def test_only_what_is_slow_waits(files: SlowFiles, tmp_path: Path) -> None:
    files.is_slow = lambda path: path.endswith("slow")
    assert taken_s(lambda: files.write(f"{tmp_path}/chk-1/slow", b"")) >= 0.02
    files.bytes_per_s = None
    files.delay_s = 9.0
    files.write(f"{tmp_path}/chk-1/quick", b"")


def test_metadata_and_journal_are_no_state() -> None:
    assert is_state("/data/job/chk-4/counts/0")
    assert not is_state("/data/job/chk-4/_metadata")
    assert not is_state("/data/job/journal/claims/1")
