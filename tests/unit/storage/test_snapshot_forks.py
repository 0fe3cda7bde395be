"""Which lineages began with a snapshot."""

from __future__ import annotations

import logging

import pytest

from snapline.errors import StorageError
from snapline.storage.objects.memory_objects import MemoryObjects
from snapline.storage.objects.object_store import Bytes
from snapline.storage.snapshot_forks import forks, note_fork


def test_every_start_is_noted_once() -> None:
    objects = MemoryObjects()
    objects.write("memory://a/savepoint-1/_metadata", b"x")
    assert forks(objects, "memory://a/savepoint-1") == []
    for lineage in ("job.2", "job.1", "job.2"):
        note_fork(objects, "memory://a/savepoint-1", lineage)
    assert forks(objects, "memory://a/savepoint-1") == ["job.1", "job.2"]


def test_a_directory_that_cannot_be_written_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    class ReadOnly(MemoryObjects):
        def write(self, path: str, data: Bytes) -> None:
            raise StorageError("read-only")

    with caplog.at_level(logging.WARNING):
        note_fork(ReadOnly(), "memory://a/savepoint-1", "job.1")
    assert "a second start from memory://a/savepoint-1 will not be noticed" in caplog.text
