"""A checkpoint to look into."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

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
from snapline.state import state_files
from snapline.state.rocksdb.rocksdb_files import Listing, encode_listing
from snapline.state.state_info import StateInfo, StateKind, ValueEncoding
from snapline.storage import snapshot_metadata as metadata
from snapline.storage.objects.memory_objects import MemoryObjects
from snapline.storage.snapshot_writer import SnapshotWriter, WriteOptions
from snapline.types import OperatorStateMode, SnapshotKind

JOB = "memory://d/job"
RANGES = (KeyGroupRange(0, 4), KeyGroupRange(5, 9))


def _keyed(uid: str, name: str, key_groups: list[int], value: object = 1) -> Any:
    info = StateInfo(uid, name, StateKind.VALUE, 10, ValueEncoding.ARROW)
    keys = [f"k{key_group}" for key_group in key_groups]
    columns = {"key_group": pa.array(key_groups, pa.int32()), "key": keys, "value": [value] * len(keys)}
    return memoryview(state_files.write(info, pa.table(columns), zstd=False))


def _list(uid: str, name: str, values: list[Any]) -> Any:
    info = StateInfo(uid, name, StateKind.OPERATOR_LIST, None, ValueEncoding.ARROW)
    return memoryview(state_files.write(info, pa.table({"value": values}), zstd=False))


LISTING = encode_listing(Listing([], 0), ["000001.sst"])
NAMES = StoredObject("inline:names", len(LISTING), data=LISTING)


def write_checkpoint(objects: MemoryObjects, number: int = 7, *, inline_bytes: int = 0) -> Snapshot:
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
