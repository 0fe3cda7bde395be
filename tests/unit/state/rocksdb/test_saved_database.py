"""Reading states from the files of a snapshot, with the changes that were logged."""

from __future__ import annotations

from pathlib import Path

import pytest

from snapline.protocol.keygroups import KeyGroupRange
from snapline.state.rocksdb.rocksdb_backend import RocksDbBackend
from snapline.state.rocksdb.rocksdb_files import decode_listing, read_state
from snapline.state.rocksdb.saved_database import saved_database
from snapline.storage.objects.memory_objects import MemoryObjects
from snapline.storage.snapshot_reader import SnapshotReader
from snapline.storage.snapshot_writer import SnapshotWriter

ALL = KeyGroupRange(0, 7)


@pytest.mark.parametrize("ttl", [None, "1h"])
def test_changes_are_part_of_the_saved_state(tmp_path: Path, ttl: str | None) -> None:
    backend = RocksDbBackend(
        "string", max_parallelism=8, key_groups=ALL, clock=lambda: 7, directory=tmp_path / "db", least_logged=1
    )
    objects = MemoryObjects()
    state = backend.value_state("n", "string", ttl=ttl)
    state.put(["a", "b", "c"], ["1", "", "3"])
    for number, (keys, values) in enumerate([(["a"], [None]), (["c", "d"], ["33", "4"])]):
        target = SnapshotWriter(
            objects, f"/chk-{number}", "/shared", attempt=1, checkpoint_id=number, uid="", subtask=0
        )
        (part,) = backend.snapshot().write(target)
        state.put(keys, values)
    (part,) = backend.snapshot().write(
        SnapshotWriter(objects, "/chk-9", "/shared", attempt=1, checkpoint_id=9, uid="", subtask=0)
    )
    backend.close()
    source = SnapshotReader(objects)
    listing = decode_listing(source.read(part.objects[0]), "listing")
    assert len(listing.changes) == 3
    with saved_database(listing, part.objects[1:], source) as database:
        (table,) = read_state(database, listing.states[0], ALL)
    pairs = zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True)
    assert dict(pairs) == {"b": "", "c": "33", "d": "4"}
    assert ttl is None or table["last_update_ms"].to_pylist() == [7, 7, 7]
