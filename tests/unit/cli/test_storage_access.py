"""Paths and stores that commands name."""

from __future__ import annotations

from pathlib import Path

import pytest

from snapline.cli.storage_access import open_store, s3_options, whole_path
from snapline.cli.usage import UsageError


def test_paths_are_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert whole_path("a/../b") == f"{tmp_path}/b"
    assert whole_path("s3://bucket/a") == "s3://bucket/a"
    with pytest.raises(UsageError, match="PATH is empty"):
        whole_path("")


def test_options_of_s3() -> None:
    assert s3_options([]) is None
    assert s3_options(["endpoint=http://minio:9000", "region=x"]) is not None
    for text in ("endpoint", "endpoint="):
        with pytest.raises(UsageError, match="not NAME=VALUE"):
            s3_options([text])


def test_a_store_reads_local_files(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"1")
    assert open_store([]).read(f"{tmp_path}/x") == b"1"
