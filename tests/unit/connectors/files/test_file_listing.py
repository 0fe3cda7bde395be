"""Which files a path selects."""

from __future__ import annotations

from pathlib import Path

import pytest

from snapline.connectors.files.file_listing import FileSet
from snapline.errors import ConfigurationError, StorageError


def write(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("", ["a.csv", "b.txt", "sub/c.csv", "sub/deep/d.csv"]),
        ("*.csv", ["a.csv"]),
        ("sub/*.csv", ["sub/c.csv"]),
        ("**/*.csv", ["a.csv", "sub/c.csv", "sub/deep/d.csv"]),
        ("s*/**", ["sub/c.csv", "sub/deep/d.csv"]),
        ("[ab].*", ["a.csv", "b.txt"]),
        ("[!a].*", ["b.txt"]),
        ("?.csv", ["a.csv"]),
        ("sub/c.csv", ["sub/c.csv"]),
        ("*.orc", []),
    ],
)
def test_a_path_means_a_file_a_directory_or_a_pattern(tmp_path: Path, pattern: str, expected: list[str]) -> None:
    for name in ("a.csv", "b.txt", "sub/c.csv", "sub/deep/d.csv", ".hidden", "_SUCCESS", ".pending/e.csv", "_x/f.csv"):
        write(tmp_path / name)
    found = FileSet(tmp_path / pattern)
    assert [f"{found.root}/{name}" for name in found.find()] == [str(tmp_path / name) for name in expected]


def test_a_single_file_and_a_remote_path_are_recognised(tmp_path: Path) -> None:
    write(tmp_path / "in" / "a.csv")
    single = FileSet(tmp_path / "in" / "a.csv")
    assert (single.is_single, single.is_local, single.root) == (True, True, str(tmp_path / "in"))
    remote = FileSet("memory://bucket/in/*.csv")
    assert (remote.is_single, remote.is_local, remote.root) == (False, False, "memory://bucket/in")


def test_a_missing_directory_is_an_error_before_and_during_the_job(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no such file or directory"):
        FileSet(tmp_path / "nowhere")
    write(tmp_path / "in" / "a.csv")
    found = FileSet(tmp_path / "in")
    (tmp_path / "in").rename(tmp_path / "elsewhere")
    with pytest.raises(StorageError, match="is gone; restore it"):
        found.find()
