"""Looking into snapshots: what is at a path, the facts of a snapshot, and the rows of its states."""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from snapline.devtools.kit.faulty_objects import FaultyObjects
from snapline.errors import ConfigurationError, DamagedError, ObjectNotFoundError, RestoreError, StorageError
from snapline.protocol.journal import Journal
from snapline.protocol.keygroups import KeyGroupRange
from snapline.protocol.snapshot import (
    ChannelPart,
    KeyedPart,
    OperatorPart,
    OperatorState,
    Snapshot,
    StoredObject,
    SubtaskState,
)
from snapline.state import state_files as state_format
from snapline.state.inspection import (
    Condition,
    EdgeFacts,
    FileFacts,
    JobFacts,
    NativeFacts,
    StateFacts,
    SubtaskFacts,
    find,
    rows,
    select,
    snapshot_facts,
)
from snapline.state.rocksdb_files import Listing, StateEntry, encode_listing
from snapline.state.state_files import StateInfo, StateKind, ValueEncoding
from snapline.storage import snapshot_metadata as metadata
from snapline.storage.journals.journal_store import ObjectJournal
from snapline.storage.memory_objects import MemoryObjects
from snapline.storage.snapshot_reader import SnapshotReader
from snapline.storage.snapshot_writer import SnapshotWriter, WriteOptions
from snapline.types import OperatorStateMode, SnapshotKind

JOB = "memory://d/job"
RANGES = (KeyGroupRange(0, 4), KeyGroupRange(5, 9))


def _keyed(uid: str, name: str, key_groups: list[int], value: object = 1) -> Any:
    info = StateInfo(uid, name, StateKind.VALUE, 10, ValueEncoding.ARROW)
    keys = [f"k{key_group}" for key_group in key_groups]
    columns = {"key_group": pa.array(key_groups, pa.int32()), "key": keys, "value": [value] * len(keys)}
    return memoryview(state_format.write(info, pa.table(columns), zstd=False))


def _list(uid: str, name: str, values: list[Any]) -> Any:
    info = StateInfo(uid, name, StateKind.OPERATOR_LIST, None, ValueEncoding.ARROW)
    return memoryview(state_format.write(info, pa.table({"value": values}), zstd=False))


LISTING = encode_listing(Listing([], 0), ["000001.sst"])
NAMES = StoredObject("inline:names", len(LISTING), data=LISTING)


def _write(objects: MemoryObjects, number: int = 7, *, inline_bytes: int = 0) -> Snapshot:
    """A checkpoint with an operator `a/b` of two subtasks, one `native` in files of RocksDB, one that has finished."""
    location = f"{JOB}/chk-{number}"
    subtasks = {}
    for index, key_groups in enumerate(RANGES):
        target = SnapshotWriter(
            objects,
            location,
            f"{JOB}/shared",
            attempt=1,
            checkpoint_id=number,
            uid="a/b",
            subtask=index,
            options=WriteOptions(inline_bytes=inline_bytes),
        )
        one = target.write("one", _keyed("a/b", "one", [key_groups.start, key_groups.end]))
        two = target.write("x/two", _keyed("a/b", "x/two", [key_groups.start] if index else []))
        lists = target.write_slices("lists", [_list("a/b", "seen", [index, index]), _list("a/b", "one", ["x"])])
        channel = target.write("channel", b"12345")
        subtasks[index] = SubtaskState(
            (KeyedPart(key_groups, (one, two)),),
            tuple(
                OperatorPart(name, OperatorStateMode.SPLIT, 2, item)
                for name, item in zip(("seen", "one"), lists, strict=True)
            ),
            (ChannelPart("s->b", 0, index, channel),),
            ended=index == 1,
        )
    sst = StoredObject(f"{JOB}/shared/a1-native-0-1.sst", 3, shared_key="a1-native-0-1.sst")
    objects.write(sst.path, b"sst")
    native = KeyedPart(RANGES[0], (NAMES, sst), native="rocksdb")
    snapshot = Snapshot(
        number,
        SnapshotKind.CHECKPOINT,
        1,
        1_700_000_000_000 + number,
        location,
        {
            "a/b": OperatorState("a/b", 2, 10, subtasks, StoredObject("inline:c", 1, data=b"c")),
            "native": OperatorState("native", 2, 10, {0: SubtaskState((native,)), 1: SubtaskState(finished=True)}),
            "done": OperatorState("done", 1, 1, fully_finished=True),
        },
        {"hook": StoredObject("inline:h", 4, data=b"hook")},
    )
    objects.write(snapshot.metadata_path, metadata.encode(snapshot))
    return snapshot


@pytest.fixture
def objects() -> MemoryObjects:
    return MemoryObjects()


@pytest.mark.parametrize("path", [f"{JOB}/chk-7", f"{JOB}/chk-7/", f"{JOB}/chk-7/_metadata"])
def test_a_snapshot_is_found_by_its_directory_and_its_metadata(objects: MemoryObjects, path: str) -> None:
    snapshot = _write(objects)
    assert find(objects, path) == snapshot


@pytest.mark.parametrize("inline_bytes", [0, 1 << 20])
def test_the_facts_of_a_snapshot(objects: MemoryObjects, inline_bytes: int) -> None:
    snapshot = _write(objects, inline_bytes=inline_bytes)
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


def _shown(snapshot: Snapshot, objects: MemoryObjects, name: str, **filters: Any) -> list[tuple[int, Any]]:
    source = SnapshotReader(objects)
    operator, state = select(snapshot, source, name)
    return [
        (part.subtask, row.get("key", row["value"]))
        for part in rows(operator, state, source, **filters)
        for row in part.table.to_pylist()
    ]


def test_the_rows_of_a_state(objects: MemoryObjects) -> None:
    snapshot = _write(objects)
    assert _shown(snapshot, objects, "a/b/one") == [(0, "k0"), (0, "k4"), (0, "x"), (1, "k5"), (1, "k9"), (1, "x")]
    assert _shown(snapshot, objects, "a/b/x/two") == [(1, "k5")]
    assert _shown(snapshot, objects, "a/b/one", subtask=1) == [(1, "k5"), (1, "k9"), (1, "x")]
    assert _shown(snapshot, objects, "a/b/one", key_groups=KeyGroupRange(4, 5)) == [(0, "k4"), (1, "k5")]
    assert _shown(snapshot, objects, "a/b/seen") == [(0, 0), (0, 0), (1, 1), (1, 1)]


def test_a_state_that_is_not_there_is_answered_with_what_is(objects: MemoryObjects) -> None:
    snapshot = _write(objects)
    with pytest.raises(ConfigurationError, match="the uids are: a/b, done, native"):
        _shown(snapshot, objects, "other/one")
    with pytest.raises(ConfigurationError, match="there is: a/b/one, a/b/seen, a/b/x/two"):
        _shown(snapshot, objects, "a/b/other")
    with pytest.raises(ConfigurationError, match="no subtask 2, but 0 to 1"):
        _shown(snapshot, objects, "a/b/one", subtask=2)
    with pytest.raises(ConfigurationError, match="there is: none"):
        _shown(snapshot, objects, "native/any")


def test_damage_is_reported_with_the_path(objects: MemoryObjects) -> None:
    snapshot = _write(objects)
    item = snapshot.operators["a/b"].subtasks[1].keyed[0].objects[0]
    data = bytearray(objects.read(item.path))
    data[-1] ^= 1
    objects.write(item.path, data)
    with pytest.raises(DamagedError, match=item.path):
        snapshot_facts(snapshot, SnapshotReader(objects))
    with pytest.raises(DamagedError, match=item.path):
        _shown(snapshot, objects, "a/b/one")
    objects.delete([item.path])
    with pytest.raises(ObjectNotFoundError):
        snapshot_facts(snapshot, SnapshotReader(objects))


def test_a_store_that_does_not_answer_is_not_taken_for_damage(objects: MemoryObjects) -> None:
    for number in (7, 8):
        _write(objects, number)
    calls = FaultyObjects(objects)
    find(calls, JOB)
    for fail_at in range(1, len(calls.calls) + 1):
        with pytest.raises(StorageError, match="injected"):
            find(FaultyObjects(objects, fail_at), JOB)


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


def _job(objects: MemoryObjects) -> JobFacts:
    found = find(objects, JOB)
    assert isinstance(found, JobFacts)
    return found


def test_a_job_directory_says_which_checkpoint_to_take(objects: MemoryObjects) -> None:
    for number in (7, 8, 9, 10):
        _write(objects, number)
    objects.write(f"{JOB}/chk-9/_metadata", b"{}")
    objects.delete([f"{JOB}/chk-10/_metadata"])
    job = _job(objects)
    assert [(it.id, it.condition) for it in job.checkpoints] == [
        (7, Condition.COMPLETE),
        (8, Condition.COMPLETE),
        (9, Condition.DAMAGED),
        (10, Condition.HALF_WRITTEN),
    ]
    assert job.restore_from == f"{JOB}/chk-8"
    assert "no journal" in job.note
    whole = objects.read(f"{JOB}/chk-8/a1-a%2Fb-1-one")
    objects.write(f"{JOB}/chk-8/a1-a%2Fb-1-one", whole[:-1])
    job = _job(objects)
    assert job.checkpoints[1].condition is Condition.DAMAGED
    assert job.checkpoints[1].problem == f"1 of its files are cut off, {JOB}/chk-8/a1-a%2Fb-1-one among them"
    assert job.restore_from == f"{JOB}/chk-7"
    objects.delete([f"{JOB}/chk-8/a1-a%2Fb-1-one"])
    job = _job(objects)
    assert job.checkpoints[1].condition is Condition.FILES_MISSING
    assert job.checkpoints[1].problem == f"1 of its files are not there, {JOB}/chk-8/a1-a%2Fb-1-one among them"
    assert job.restore_from == f"{JOB}/chk-7"
    objects.delete([f"{JOB}/chk-7/_metadata"])
    assert _job(objects).restore_from is None


def test_a_job_directory_with_a_journal_says_what_was_published(objects: MemoryObjects) -> None:
    old, new = _write(objects, 7), _write(objects, 8)
    journal = ObjectJournal(objects, f"{JOB}/journal")
    journal.create(Journal().take_over("me"))
    assert _job(objects).note == "the newest complete one; the journal lists none"
    journal.create(journal.read().publish(old, "me"))
    job = _job(objects)
    assert [it.is_published for it in job.checkpoints] == [True, False]
    assert job.restore_from == old.location
    stop = replace(new, id=9, kind=SnapshotKind.SYNC_SAVEPOINT, location="s3://savepoints/savepoint-1")
    journal.create(journal.read().publish(stop, "me"))
    assert _job(objects).restore_from == "s3://savepoints/savepoint-1"
    objects.write(f"{JOB}/journal/claims/{1:019d}", b"damaged")
    job = _job(objects)
    assert job.restore_from == new.location
    assert "the journal cannot be read" in job.note


def test_what_is_no_snapshot_is_told_apart(objects: MemoryObjects) -> None:
    with pytest.raises(RestoreError, match="there is nothing at memory://d/nothing"):
        find(objects, "memory://d/nothing")
    objects.write("memory://d/half/a1-x", b"x")
    with pytest.raises(RestoreError, match="has no _metadata: half-written or never completed"):
        find(objects, "memory://d/half")
    _write(objects)
    with pytest.raises(RestoreError, match="memory://d holds the jobs job; name"):
        find(objects, "memory://d")
