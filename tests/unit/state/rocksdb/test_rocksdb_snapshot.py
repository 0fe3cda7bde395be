"""Snapshots of the RocksDB backend: which files are uploaded, which are reused."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest

from snapline.protocol.keygroups import KeyGroupRange
from snapline.protocol.snapshot import KeyedPart
from snapline.state import state_files
from snapline.state.rocksdb.rocksdb_backend import RocksDbBackend
from snapline.storage.objects.memory_objects import MemoryObjects
from snapline.storage.snapshot_reader import SnapshotReader
from snapline.storage.snapshot_writer import SnapshotCancelledError, SnapshotWriter


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[RocksDbBackend]:
    made = RocksDbBackend(
        "bigint",
        max_parallelism=8,
        key_groups=KeyGroupRange(0, 7),
        clock=lambda: 0,
        directory=tmp_path / "db",
        uid="op",
    )
    made.value_state("n", "bigint").put([1, 2], [10, 20])
    yield made
    made.close()


def target(objects: MemoryObjects, number: int) -> SnapshotWriter:
    return SnapshotWriter(
        objects, f"memory://j/chk-{number}", "memory://j/shared", attempt=1, checkpoint_id=number, uid="op", subtask=0
    )


def save(backend: RocksDbBackend, objects: MemoryObjects, number: int, *, full: bool = False) -> KeyedPart:
    snapshot = backend.snapshot(full=full)
    try:
        (part,) = snapshot.write(target(objects, number))
    finally:
        snapshot.release()
    return part


def reused(part: KeyedPart) -> int:
    return sum(item.reused for item in part.objects)


def test_files_are_reused_once_their_checkpoint_is_complete(backend: RocksDbBackend) -> None:
    objects = MemoryObjects()
    first = save(backend, objects, 1)
    tables = sum(item.shared_key is not None for item in first.objects)
    assert tables > 0
    assert reused(save(backend, objects, 2)) == 0, "checkpoint 1 is not complete"
    backend.confirm(1)
    assert reused(save(backend, objects, 3)) == tables
    assert reused(save(backend, objects, 4, full=True)) == 0


def test_files_of_an_aborted_checkpoint_are_not_reused(backend: RocksDbBackend) -> None:
    objects = MemoryObjects()
    save(backend, objects, 1)
    backend.abort(1)
    backend.confirm(1)
    assert reused(save(backend, objects, 2)) == 0


def test_a_cancelled_snapshot_leaves_its_changes_in_the_database(backend: RocksDbBackend, tmp_path: Path) -> None:
    snapshot = backend.snapshot()
    cancelled = target(MemoryObjects(), 1)
    cancelled.cancel()
    with pytest.raises(SnapshotCancelledError):
        snapshot.write(cancelled)
    snapshot.release()
    assert not list((tmp_path / "db").glob("links-*"))
    backend.evict()
    assert backend.value_state("n", "bigint").take([1, 2]).to_pylist() == [10, 20]


def test_a_canonical_snapshot_is_one_state_file_per_state(backend: RocksDbBackend) -> None:
    objects = MemoryObjects()
    snapshot = backend.snapshot(canonical=True)
    (part,) = snapshot.write(target(objects, 1))
    snapshot.release()
    assert part.native is None
    (item,) = part.objects
    info, table = state_files.read(BytesIO(SnapshotReader(objects).read(item)))
    assert (info.uid, info.state) == ("op", "n")
    assert sorted(zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True)) == [(1, 10), (2, 20)]
