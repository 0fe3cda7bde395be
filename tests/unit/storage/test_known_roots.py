"""Which directories belong to a job."""

from __future__ import annotations

from pathlib import Path

import pytest

from snapline.config import Checkpoints
from snapline.storage.known_roots import KnownRoots, known_directories


def test_paths_in_any_spelling(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    roots = KnownRoots(["data", "s3://bucket/jobs/"])
    for path in ("data", "data/chk-1/x", f"{tmp_path}/data/x", f"file://{tmp_path}/data/x", "s3a://bucket/jobs/x"):
        assert roots.cover(path), path
    for path in ("data2/x", "/data/x", "s3://bucket/job", "s3://other/jobs/x", "memory://bucket/jobs/x"):
        assert not roots.cover(path), path
    roots.add("/elsewhere")
    assert roots.cover("/elsewhere/x")


def test_all_directories_of_the_settings_are_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert known_directories(Checkpoints()) == []
    settings = Checkpoints(storage="a", savepoint_dir="s3://b/c", restore_from="d/e", trusted_directories=["f"])
    assert known_directories(settings) == [f"{tmp_path}/a", "s3://b/c", f"{tmp_path}/f", f"{tmp_path}/d/e"]


@pytest.mark.parametrize("path", ["/jobs/one/chk-7", "/jobs/one/chk-7/", "/jobs/one/chk-7/_metadata"])
def test_a_checkpoint_may_refer_to_files_beside_it(path: str) -> None:
    assert known_directories(Checkpoints(restore_from=path)) == ["/jobs/one"]
