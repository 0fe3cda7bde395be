"""Local copies: kept for one checkpoint each, and never a reason to fail."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from snapline.storage.local_copies import LocalCopies, remove_strangers, subtask_directory


@pytest.fixture
def copies(tmp_path: Path) -> LocalCopies:
    return LocalCopies(tmp_path / "copies" / "of" / "this" / "subtask")


def content(copies: LocalCopies, checkpoint_id: int, path: str) -> bytes | None:
    copy = copies.find(checkpoint_id, path)
    return None if copy is None else copy.read_bytes()


def test_a_copy_belongs_to_one_checkpoint_and_one_path(copies: LocalCopies) -> None:
    copies.keep(1, "s3://bucket/chk-1/a", b"a1")
    copies.keep(2, "s3://bucket/chk-1/a", memoryview(b"a2"))
    assert content(copies, 1, "s3://bucket/chk-1/a") == b"a1"
    assert content(copies, 2, "s3://bucket/chk-1/a") == b"a2"
    assert content(copies, 1, "s3://bucket/chk-1/b") is None
    assert content(copies, 3, "s3://bucket/chk-1/a") is None


def test_paths_of_any_length(copies: LocalCopies) -> None:
    copies.keep(1, "/x" * 5000, b"long")
    assert content(copies, 1, "/x" * 5000) == b"long"


def test_confirming_prunes_smaller_ids(copies: LocalCopies) -> None:
    for checkpoint_id in (1, 2, 9, 10, 11):
        copies.keep(checkpoint_id, "a", b"")
    copies.confirm(10)
    assert [number for number in range(20) if copies.find(number, "a")] == [10, 11]


def test_aborting_prunes_that_id(copies: LocalCopies) -> None:
    for checkpoint_id in (1, 2, 3):
        copies.keep(checkpoint_id, "a", b"")
    copies.abort(2)
    copies.abort(7)
    assert [number for number in range(5) if copies.find(number, "a")] == [1, 3]


@pytest.mark.parametrize(("restored", "left"), [(2, [2]), (7, []), (None, [])])
def test_only_what_a_task_is_restored_from_is_retained(
    copies: LocalCopies, restored: int | None, left: list[int]
) -> None:
    for checkpoint_id in (1, 2, 3):
        copies.keep(checkpoint_id, "a", b"")
    copies.retain_only(restored)
    assert [number for number in range(5) if copies.find(number, "a")] == left


def test_nothing_is_there_before_the_first_copy(copies: LocalCopies) -> None:
    copies.confirm(5)
    copies.retain_only(None)
    assert copies.find(1, "a") is None


def test_foreign_files_in_the_directory_are_left_alone(copies: LocalCopies, tmp_path: Path) -> None:
    copies.keep(1, "a", b"")
    other = tmp_path / "copies" / "of" / "this" / "subtask" / "chk-other"
    other.mkdir()
    copies.confirm(5)
    assert other.is_dir()


def test_a_linked_file_is_not_copied(copies: LocalCopies, tmp_path: Path) -> None:
    source = tmp_path / "000001.sst"
    source.write_bytes(b"sst")
    copies.link(1, "a", source)
    copies.link(1, "a", source)
    copy = copies.find(1, "a")
    assert copy is not None
    assert copy.samefile(source)


def test_a_copy_that_replaces_a_linked_one_does_not_change_the_file(copies: LocalCopies, tmp_path: Path) -> None:
    source = tmp_path / "000001.sst"
    source.write_bytes(b"sst")
    copies.link(1, "a", source)
    copies.keep(1, "a", b"other")
    assert source.read_bytes() == b"sst"
    assert content(copies, 1, "a") == b"other"


def test_a_file_is_copied_where_it_cannot_be_linked(
    copies: LocalCopies, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_link(*_: Any) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", no_link)
    source = tmp_path / "000001.sst"
    source.write_bytes(b"sst")
    copies.link(1, "a", source)
    assert content(copies, 1, "a") == b"sst"


def test_what_cannot_be_kept_is_logged_and_leaves_nothing(
    copies: LocalCopies, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*arguments: Any) -> None:
        Path(arguments[-1]).write_bytes(b"half of it")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "link", full)
    monkeypatch.setattr(shutil, "copyfile", full)
    source = tmp_path / "000001.sst"
    source.write_bytes(b"sst")
    copies.link(1, "s3://bucket/a", source)
    assert copies.find(1, "s3://bucket/a") is None
    assert "could not keep a local copy of s3://bucket/a" in caplog.text
    assert "No space left on device" in caplog.text


def test_a_directory_that_cannot_be_made(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_bytes(b"")
    copies = LocalCopies(tmp_path / "file")
    copies.keep(1, "a", b"")
    assert copies.find(1, "a") is None
    assert "could not keep a local copy of a" in caplog.text


def test_copies_of_subtasks_that_the_job_no_longer_has_are_removed(tmp_path: Path) -> None:
    kept = [
        subtask_directory(tmp_path, "a", 0),
        subtask_directory(tmp_path, "a", 1),
        subtask_directory(tmp_path, "x", 0),
    ]
    gone = [
        subtask_directory(tmp_path, "x", 1),
        subtask_directory(tmp_path, "b", 1),
        subtask_directory(tmp_path, "a", 2),
    ]
    for directory in (*kept, *gone):
        (directory / "chk-1").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    remove_strangers(tmp_path, {"a": 2, "b": 1}, 1)
    assert sorted(tmp_path.iterdir()) == sorted([*kept, tmp_path / "other"])
    remove_strangers(tmp_path / "nothing", {"a": 2}, 1)
