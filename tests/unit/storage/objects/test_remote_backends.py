"""Schemes that lack a package or `create`; `tests/contract/test_object_stores.py` covers the rest."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from snapline.errors import ConfigurationError, ObjectNotFoundError
from snapline.storage.objects.file_objects import FileObjects
from snapline.storage.objects.object_store import ObjectInfo


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from fsspec.registry import _registry

    monkeypatch.delitem(_registry, "s3", raising=False)
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'snapline\[s3\]'"):
        FileObjects().read("s3://bucket/object")


def test_hdfs_without_its_library_is_a_matter_of_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow.fs

    def missing(*_: Any, **__: Any) -> None:
        raise OSError("Unable to load libhdfs: ./libhdfs.so: cannot open shared object file")

    monkeypatch.setattr(pyarrow.fs, "HadoopFileSystem", missing)
    with pytest.raises(ConfigurationError, match="install a Hadoop client"):
        FileObjects().read("hdfs://host/object")


def test_a_scheme_without_exclusive_create_says_so_and_does_the_rest(tmp_path: Path) -> None:
    objects = FileObjects(options={"local": {"auto_mkdir": True}})
    root = f"local://{tmp_path}/store"
    with pytest.raises(ConfigurationError, match="local:// cannot create an object only if none exists"):
        objects.create(f"{root}/object", b"data")
    objects.write(f"{root}/dir/object", b"data")
    assert objects.read(f"{root}/dir/object", 1, 2) == b"at"
    assert objects.list(root) == [ObjectInfo(f"{root}/dir/object", 4)]
    objects.upload(tmp_path / "store" / "dir" / "object", f"{root}/dir/copy")
    objects.download(f"{root}/dir/copy", tmp_path / "target")
    assert (tmp_path / "target").read_bytes() == b"data"
    objects.delete_tree(f"{root}/dir")
    assert objects.list(root) == []
    with pytest.raises(ObjectNotFoundError):
        objects.open(f"{root}/dir/object")
