"""Snapshots of the RocksDB backend: which files are uploaded, which are reused."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from snapline.protocol.keygroups import KeyGroupRange
from snapline.protocol.restore.restore_plan import KeyedRestore
from snapline.protocol.snapshot import KeyedPart
from snapline.state import state_files
from snapline.state.rocksdb.rocksdb_backend import RocksDbBackend
from snapline.state.rocksdb.rocksdb_files import read_state
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
    assert len(list((tmp_path / "db").glob("base-*"))) == 1, "the next snapshot may build on it"
    backend.evict()
    assert not list((tmp_path / "db").glob("base-*")), "the database has more now"
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


def logging(directory: Path, **options: Any) -> RocksDbBackend:
    """A backend that logs even a single change."""
    common: dict[str, Any] = {"max_parallelism": 8, "key_groups": KeyGroupRange(0, 7), "uid": "op"} | options
    return RocksDbBackend("bigint", clock=lambda: 0, directory=directory, least_logged=1, **common)


def restored(backend: RocksDbBackend, part: KeyedPart, objects: MemoryObjects) -> RocksDbBackend:
    shared = part.key_groups.intersection(backend.key_groups)
    backend.restore([KeyedRestore(part, shared)], SnapshotReader(objects))
    return backend


def test_changes_are_logged_on_top_of_the_last_files_and_a_restore_makes_them_again(tmp_path: Path) -> None:
    objects, backend = MemoryObjects(), logging(tmp_path / "db")
    state, lists = backend.value_state("n", "bigint"), backend.list_state("l", "string")
    state.put(list(range(100)), list(range(100)))
    lists.append([1, 1, 2], ["a", "b", "c"])
    first = save(backend, objects, 1)
    assert not (tmp_path / "db" / "db").exists(), "nothing went to the database"
    backend.confirm(1)
    state.put([1, 2], [None, 22])
    lists.delete([1])
    second = save(backend, objects, 2)
    assert (len(first.objects), reused(first)) == (2, 0)
    assert (len(second.objects), reused(second)) == (3, 1)
    again = restored(logging(tmp_path / "again"), second, objects)
    assert again.value_state("n", "bigint").take([0, 1, 2, 99, 100]).to_pylist() == [0, None, 22, 99, None]
    assert again.list_state("l", "string").take([1, 2]).to_pylist() == [[], ["c"]]
    third = save(again, objects, 3)
    assert [item.path for item in third.objects if item.path.endswith(".arrow")], "it is all in the cache, and logged"
    again.confirm(3)
    again.evict()
    fourth = save(again, objects, 4)
    assert [item.path for item in fourth.objects if item.path.endswith(".arrow")] == []
    assert again.value_state("n", "bigint").take([0, 1, 2, 99, 100]).to_pylist() == [0, None, 22, 99, None]
    for made in (backend, again):
        made.close()


def test_files_of_changes_do_not_grow_without_end(tmp_path: Path) -> None:
    objects, backend = MemoryObjects(), logging(tmp_path / "db")
    state = backend.value_state("n", "bigint")
    counts = []
    for number in range(1, 12):
        state.put(list(range(10)), [number] * 10)
        part = save(backend, objects, number)
        backend.confirm(number)
        counts.append(sum(item.path.endswith(".arrow") for item in part.objects))
    assert counts == [1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1]
    again = restored(logging(tmp_path / "again"), part, objects)
    assert again.value_state("n", "bigint").take(list(range(10))).to_pylist() == [11] * 10
    for made in (backend, again):
        made.close()


@pytest.mark.parametrize("logs", [True, False])
def test_parts_of_a_database_are_restored_and_merged(tmp_path: Path, logs: bool) -> None:
    """Two subtasks restore half of a state each, from its files, and one restores both halves again."""
    objects = MemoryObjects()
    backend = logging(tmp_path / "db")
    keys = list(range(200))
    state = backend.value_state("n", "bigint")
    state.put(keys, keys)
    if not logs:
        backend.evict()
    state.put([3, 4], [None, 44])
    expected = [None if key == 3 else 44 if key == 4 else key for key in keys]
    whole = save(backend, objects, 1)
    halves, found = [], []
    for number, groups in enumerate([KeyGroupRange(0, 3), KeyGroupRange(4, 7)]):
        half = restored(logging(tmp_path / f"half-{number}", key_groups=groups), whole, objects)
        half.evict()
        (entry,) = half.listing().states
        tables = list(read_state(half.db, entry, KeyGroupRange(0, 7)))
        for table in tables:
            found += list(zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True))
            assert all(group in groups for group in table["key_group"].to_pylist())
        halves.append(save(half, objects, 2 + number))
        half.close()
    assert sorted(found) == [(key, value) for key, value in zip(keys, expected, strict=True) if value is not None]
    merged = logging(tmp_path / "merged")
    for half_part in halves:
        restored(merged, half_part, objects)
    assert merged.value_state("n", "bigint").take(keys).to_pylist() == expected
    for made in (backend, merged):
        made.close()
