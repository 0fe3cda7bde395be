"""Objects as local files, where the file system gets in the way."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from snapline.errors import StorageError
from snapline.storage.objects.file_objects import FileObjects


def test_a_link_that_worked_but_was_reported_as_failed_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = os.link

    def lost_answer(source: str, target: str) -> None:
        link(source, target)
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)

    monkeypatch.setattr(os, "link", lost_answer)
    assert FileObjects().create(str(tmp_path / "object"), b"data")


def test_a_directory_or_a_file_in_the_way_is_an_error_not_an_object(tmp_path: Path) -> None:
    objects = FileObjects()
    (tmp_path / "directory").mkdir()
    (tmp_path / "file").touch()
    for path in (tmp_path / "directory", tmp_path / "file" / "object"):
        with pytest.raises(StorageError):
            objects.create(str(path), b"data")
        with pytest.raises(StorageError):
            objects.write(str(path), b"data")
        assert objects.size_bytes(str(path)) is None
    assert sorted(os.listdir(tmp_path)) == ["directory", "file"]


def test_a_symbolic_link_in_a_tree_is_deleted_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "kept").touch()
    (tmp_path / "tree" / "sub").mkdir(parents=True)
    (tmp_path / "tree" / "sub" / "link").symlink_to(tmp_path / "outside")
    FileObjects().delete_tree(str(tmp_path / "tree"))
    assert os.listdir(tmp_path) == ["outside"]
    assert os.listdir(tmp_path / "outside") == ["kept"]


def test_a_directory_that_cannot_be_listed_is_an_error_not_an_empty_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refusing(_: str) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(os, "scandir", refusing)
    with pytest.raises(StorageError, match="cannot list"):
        FileObjects().list(str(tmp_path))
