"""The facts of a snapshot."""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import replace

import pyarrow as pa
import pytest
from tests.unit.state.inspection.snapshot_kit import JOB, NAMES, RANGES, write_checkpoint

from snapline.errors import DamagedError, ObjectNotFoundError
from snapline.protocol.keygroups import KeyGroupRange
from snapline.protocol.snapshot import KeyedPart, OperatorState, Snapshot, StoredObject, SubtaskState
from snapline.state.inspection.snapshot_facts import (
    EdgeFacts,
    FileFacts,
    NativeFacts,
    StateFacts,
    SubtaskFacts,
    snapshot_facts,
)
from snapline.state.rocksdb.rocksdb_files import Listing, StateEntry, encode_listing
from snapline.state.state_info import StateInfo, StateKind, ValueEncoding
from snapline.storage.objects.memory_objects import MemoryObjects
from snapline.storage.snapshot_reader import SnapshotReader
from snapline.types import SnapshotKind


@pytest.fixture
def objects() -> MemoryObjects:
    return MemoryObjects()


@pytest.mark.parametrize("inline_bytes", [0, 1 << 20])
def test_the_facts_of_a_snapshot(objects: MemoryObjects, inline_bytes: int) -> None:
    snapshot = write_checkpoint(objects, inline_bytes=inline_bytes)
    facts = snapshot_facts(snapshot, SnapshotReader(objects))
    assert (facts.id, facts.kind, facts.location) == (7, SnapshotKind.CHECKPOINT, f"{JOB}/chk-7")
    assert facts.hooks == (("hook", 4),)
    assert facts.files == (1 if inline_bytes else 9)
    assert facts.shared_bytes == 3
    assert facts.inline_bytes == (facts.size_bytes - 3 if inline_bytes else 4 + NAMES.size_bytes + 1)
    first, native, done = facts.operators
    columns = (("key_group", "int32"), ("key", "string"), ("value", "int64"))
    sizes = {state.name: state.size_bytes for state in first.states if state.kind is StateKind.VALUE}
    assert first.states[0] == StateFacts(
        "one", StateKind.VALUE, ValueEncoding.ARROW, columns, None, 4, sizes["one"], (0, 1)
    )
    assert first.states[1] == StateFacts(
        "x/two", StateKind.VALUE, ValueEncoding.ARROW, columns, None, 1, sizes["x/two"], (0, 1)
    )
    assert [(state.name, state.kind, state.rows) for state in first.states[2:]] == [
        ("seen", StateKind.OPERATOR_LIST, 4),
        ("one", StateKind.OPERATOR_LIST, 2),
    ]
    assert first.in_flight == (EdgeFacts("s->b", "inputs", 2, 10),)
    assert first.coordinator_bytes == 1
    assert [it.key_groups for it in first.subtasks] == [(RANGES[0],), (RANGES[1],)]
    assert [(it.channel_bytes, it.ended) for it in first.subtasks] == [(5, False), (5, True)]
    assert native.native == (
        NativeFacts(
            0,
            "rocksdb",
            RANGES[0],
            (FileFacts("inline:names", NAMES.size_bytes, False), FileFacts(f"{JOB}/shared/a1-native-0-1.sst", 3, True)),
            (),
        ),
    )
    assert native.subtasks[1] == SubtaskFacts(1, (), 0, 0, 0, ended=False, finished=True)
    assert done.fully_finished
    assert done.size_bytes == 0


def test_damage_is_reported_with_the_path(objects: MemoryObjects) -> None:
    snapshot = write_checkpoint(objects)
    item = snapshot.operators["a/b"].subtasks[1].keyed[0].objects[0]
    data = bytearray(objects.read(item.path))
    data[-1] ^= 1
    objects.write(item.path, data)
    with pytest.raises(DamagedError, match=item.path):
        snapshot_facts(snapshot, SnapshotReader(objects))
    objects.delete([item.path])
    with pytest.raises(ObjectNotFoundError):
        snapshot_facts(snapshot, SnapshotReader(objects))


def _rocks(*files: StoredObject) -> Snapshot:
    part = KeyedPart(KeyGroupRange(0, 9), files, native="rocksdb")
    operator = OperatorState("rocks", 1, 10, {0: SubtaskState(keyed=(part,))})
    return Snapshot(1, SnapshotKind.CHECKPOINT, 1, 0, "memory://d/rocks", {"rocks": operator})


def _inline(data: bytes) -> StoredObject:
    return StoredObject("inline:listing", len(data), crc32=zlib.crc32(data), data=data)


def test_files_of_a_backend_are_looked_for(objects: MemoryObjects) -> None:
    source = SnapshotReader(objects)
    listing = _inline(encode_listing(Listing([], 0), ["1.sst"]))
    objects.write("memory://d/rocks/1.sst", b"0123456789")
    whole = StoredObject("memory://d/rocks/1.sst", 10)
    assert snapshot_facts(_rocks(listing, whole), source).files == 1
    with pytest.raises(DamagedError, match=r"1.sst has 10 bytes, not the 11"):
        snapshot_facts(_rocks(listing, replace(whole, offset=1)), source)
    with pytest.raises(ObjectNotFoundError, match=r"2.sst, a file of the snapshot, is not there"):
        snapshot_facts(_rocks(listing, replace(whole, path="memory://d/rocks/2.sst")), source)
    with pytest.raises(DamagedError, match="key groups 0 to 9, but no files"):
        snapshot_facts(_rocks(), source)
    with pytest.raises(DamagedError, match="inline:listing is damaged"):
        snapshot_facts(_rocks(replace(listing, crc32=1), whole), source)


@pytest.mark.parametrize("schema", [b"garbage", pa.schema([("a", pa.int32())]).serialize().to_pybytes()])
def test_a_listing_that_makes_no_sense_is_damage(objects: MemoryObjects, schema: bytes) -> None:
    columns = pa.schema([("key", pa.string()), ("value", pa.int64())])
    info = StateInfo("rocks", "n", StateKind.VALUE, 10, ValueEncoding.ARROW)
    listing = json.loads(encode_listing(Listing([StateEntry(0, info, columns)], 0), []))
    listing["states"][0]["schema"] = base64.b64encode(schema).decode()
    with pytest.raises(DamagedError, match="inline:listing is damaged"):
        snapshot_facts(_rocks(_inline(json.dumps(listing).encode())), SnapshotReader(objects))
