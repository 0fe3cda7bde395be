"""What is special about objects in memory; `tests/contract/test_object_stores.py` covers the rest."""

from __future__ import annotations

import pytest

from snapline.errors import ConfigurationError, StorageError
from snapline.storage.objects.memory_objects import MemoryObjects
from snapline.storage.objects.object_store import ObjectInfo


def test_memory_is_limited_and_says_what_to_do() -> None:
    objects = MemoryObjects(limit_bytes=10)
    objects.write("memory://a", b"12345")
    objects.write("memory://a", b"1234567890")
    for change in (objects.create, objects.write):
        with pytest.raises(StorageError, match=r"11 bytes, more than the limit of 10.*set `storage` to a directory"):
            change("memory://b", b"1")
    assert objects.size_bytes("memory://b") is None
    objects.delete(["memory://a", "memory://a"])
    assert objects.create("memory://b", b"1234567890")
    assert objects.list("memory://") == [ObjectInfo("memory://b", 10)]
    with pytest.raises(ConfigurationError, match="use 0 or more"):
        MemoryObjects(limit_bytes=-1)


def test_memory_is_private_to_the_instance() -> None:
    one, two = MemoryObjects(), MemoryObjects()
    one.write("memory://a", b"1")
    assert two.size_bytes("memory://a") is None
