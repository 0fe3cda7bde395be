"""Parsed paths and temporary names; `test_file_objects.py` has the paths that every store refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from snapline.storage.objects.object_paths import (
    canonical_scheme,
    directory_location,
    is_below,
    temporary_name,
    whole_file,
)


@pytest.mark.parametrize(
    ("path", "scheme", "authority", "parts"),
    [
        ("/data/a", "file", "", ("data", "a")),
        ("data/a/", "file", "", ("data", "a")),
        ("./data", "file", "", ("data",)),
        ("file:///data/a%20b", "file", "", ("data", "a%20b")),
        ("s3://bucket/a/b", "s3", "bucket", ("bucket", "a", "b")),
        ("S3A://bucket", "s3", "bucket", ("bucket",)),
        ("hdfs://host:8020/a", "hdfs", "host:8020", ("host:8020", "a")),
    ],
)
def test_a_path_is_parsed(path: str, scheme: str, authority: str, parts: tuple[str, ...]) -> None:
    location = directory_location(path)
    assert (location.path, location.scheme, location.authority, location.parts) == (path, scheme, authority, parts)


@pytest.mark.parametrize(
    ("path", "is_root"),
    [("/", True), ("memory://", True), ("hdfs://host/", True), ("s3://bucket", False), ("/a", False)],
)
def test_a_bucket_is_not_a_whole_file_system(path: str, is_root: bool) -> None:
    assert directory_location(path).is_root is is_root


@pytest.mark.parametrize(
    ("path", "expected"), [("a/b", True), ("", False), ("a//b", False), ("a/..", False), ("./a", False)]
)
def test_a_path_stays_below_its_base(path: str, expected: bool) -> None:
    assert is_below(path) is expected


def test_aliases_of_a_scheme() -> None:
    assert canonical_scheme("S3A") == canonical_scheme("s3") == "s3"


@pytest.mark.parametrize(
    ("name", "temporary"),
    [("chk-1/a12-op-0-s", ".tmp-a12-token"), ("a3-x", ".tmp-a3-token"), ("_metadata", ".tmp-token")],
)
def test_a_temporary_name_carries_the_attempt(name: str, temporary: str) -> None:
    assert temporary_name(name, "token") == temporary


def test_a_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "new" / "file"
    with pytest.raises(TypeError), whole_file(target) as temporary:
        temporary.write_bytes([b"half"])  # type: ignore[arg-type]
    assert list(target.parent.iterdir()) == []
    with whole_file(target) as temporary:
        temporary.write_bytes(b"whole")
        assert not target.exists()
    assert [path.name for path in target.parent.iterdir()] == ["file"]
    assert target.read_bytes() == b"whole"
