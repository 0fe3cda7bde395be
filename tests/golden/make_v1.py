"""Wrote `tests/golden/v1`, the files of format version 1. Kept for reference: those files are never written again.

`python -m tests.golden.make_v1 DIRECTORY` writes the like of them into an empty directory. The content is always the
same; bytes depend on the versions of pyarrow and RocksDB.
"""

from __future__ import annotations

import datetime as dt
import pickle
import sys
import tempfile
from decimal import Decimal
from pathlib import Path
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
from snapline.state.rocksdb.rocksdb_backend import RocksDbBackend
from snapline.state.state_info import PICKLED, StateInfo, StateKind, ValueEncoding
from snapline.state.timers import TimeDomain
from snapline.state.ttl import Ttl
from snapline.storage import snapshot_metadata as metadata
from snapline.storage.objects.file_objects import FileObjects
from snapline.storage.snapshot_writer import SnapshotWriter, WriteOptions
from snapline.types import OperatorStateMode, SavepointFormat, SnapshotKind

NOON = dt.datetime(2024, 2, 29, 12, 30, 15)
BERLIN = "Europe/Berlin"

EVERY_TYPE: dict[str, tuple[pa.DataType, Any]] = {
    "int8": (pa.int8(), -128),
    "int16": (pa.int16(), -32768),
    "int32": (pa.int32(), -(2**31)),
    "int64": (pa.int64(), -(2**63)),
    "uint8": (pa.uint8(), 255),
    "uint16": (pa.uint16(), 65535),
    "uint32": (pa.uint32(), 2**32 - 1),
    "uint64": (pa.uint64(), 2**64 - 1),
    "float16": (pa.float16(), 0.5),
    "float32": (pa.float32(), 1.5),
    "float64": (pa.float64(), 0.1),
    "bool": (pa.bool_(), True),
    "string": (pa.string(), "naïve"),
    "large_string": (pa.large_string(), "large"),
    "binary": (pa.binary(), b"\x00\xff"),
    "large_binary": (pa.large_binary(), b"large"),
    "fixed_size_binary": (pa.binary(3), b"abc"),
    "date32": (pa.date32(), NOON.date()),
    "date64": (pa.date64(), NOON.date()),
    "timestamp_s": (pa.timestamp("s"), NOON),
    "timestamp_ms": (pa.timestamp("ms"), NOON),
    "timestamp_us": (pa.timestamp("us"), NOON),
    "timestamp_ns": (pa.timestamp("ns"), NOON),
    "timestamp_zone": (pa.timestamp("s", BERLIN), NOON),
    "time32_s": (pa.time32("s"), NOON.time()),
    "time32_ms": (pa.time32("ms"), NOON.time()),
    "time64_us": (pa.time64("us"), NOON.time()),
    "time64_ns": (pa.time64("ns"), NOON.time()),
    "duration_s": (pa.duration("s"), dt.timedelta(hours=-1)),
    "duration_ns": (pa.duration("ns"), dt.timedelta(hours=1)),
    "decimal128": (pa.decimal128(38, 2), Decimal("-1.23")),
    "decimal256": (pa.decimal256(70, 2), Decimal("1.23")),
    "list": (pa.list_(pa.int64()), [1, None]),
    "large_list": (pa.large_list(pa.date64()), [NOON.date()]),
    "fixed_size_list": (pa.list_(pa.int8(), 2), [1, 2]),
    "map": (pa.map_(pa.string(), pa.time32("s")), [("a", NOON.time())]),
    "struct": (pa.struct([("inner", pa.timestamp("s"))]), {"inner": NOON}),
    "dictionary": (pa.dictionary(pa.int8(), pa.string()), "word"),
    "null": (pa.null(), None),
}


def states() -> dict[str, tuple[StateInfo, pa.Table]]:
    """A state file of every kind, by name of the file."""
    arrow, pickled = ValueEncoding.ARROW, ValueEncoding.PICKLE
    groups = pa.array([0, 3, 3], pa.int32())
    keys = pa.array(["a", "b", "c"])
    composite = pa.array([{"user": "a", "day": 1}, {"user": "b", "day": 2}, {"user": "b", "day": 3}])
    windows = pa.array(
        [{"start": NOON, "end": NOON}] * 3, pa.struct([("start", pa.timestamp("s")), ("end", pa.timestamp("s"))])
    )
    every = pa.struct([(name, kind) for name, (kind, _) in EVERY_TYPE.items()])
    values = [{name: value for name, (_, value) in EVERY_TYPE.items()}, dict.fromkeys(EVERY_TYPE), None]
    pickled_key = pa.schema([pa.field("map_key", pa.binary(), metadata=PICKLED), ("value", pa.int64())])
    return {
        "value": (
            StateInfo("count", "total", StateKind.VALUE, 4, arrow),
            pa.table({"key_group": groups, "key": keys, "value": [1, None, 3]}),
        ),
        "value-ttl": (
            StateInfo("count", "recent", StateKind.VALUE, 4, arrow, 60_000),
            pa.table({"key_group": groups, "key": keys, "value": [1, 2, 3], "last_update_ms": [10, 20, 30]}),
        ),
        "value-pickle": (
            StateInfo("count", "thing", StateKind.VALUE, 4, pickled),
            pa.table({"key_group": groups, "key": keys, "value": [pickle.dumps(n, 5) for n in ({1}, "x", None)]}),
        ),
        "list": (
            StateInfo("count", "seen", StateKind.LIST, 4, arrow),
            pa.table({"key_group": groups, "key": composite, "position": [0, 0, 7], "value": ["x", "y", "z"]}),
        ),
        "map": (
            StateInfo("count", "by-day", StateKind.MAP, 4, arrow),
            pa.table(
                {"key_group": groups, "key": keys, "map_key": pa.array([NOON.date()] * 3), "value": [0.5, 1.5, 2.5]}
            ),
        ),
        "reducing": (
            StateInfo("window", "sum", StateKind.REDUCING, 4, arrow),
            pa.table({"key_group": groups, "key": keys, "namespace": windows, "value": [1, 2, 3]}),
        ),
        "aggregating": (
            StateInfo("window", "mean", StateKind.AGGREGATING, 4, arrow),
            pa.table({"key_group": groups, "key": keys, "value": [{"sum": 1.0, "count": 2}] * 3}),
        ),
        "timers": (
            StateInfo("window", "_timers", StateKind.TIMERS, 4, arrow),
            pa.table(
                {
                    "key_group": groups,
                    "key": keys,
                    "namespace": windows,
                    "time": [-1, 0, 1_709_208_000_000],
                    "domain": ["event", "processing", "event"],
                }
            ),
        ),
        "raw": (
            StateInfo("custom", "raw", StateKind.RAW, 4, arrow),
            pa.table({"key_group": groups, "data": [b"", b"\x00", b"raw"]}),
        ),
        "operator-list": (
            StateInfo("source", "offsets", StateKind.OPERATOR_LIST, None, arrow),
            pa.table({"value": [{"split": "a", "offset": 5}, None]}),
        ),
        "operator-union": (
            StateInfo("source", "all", StateKind.OPERATOR_UNION, None, pickled),
            pa.table({"value": [pickle.dumps((1, 2), 5)]}),
        ),
        "operator-broadcast": (
            StateInfo("rules", "rules", StateKind.OPERATOR_BROADCAST, None, arrow),
            pa.table({"map_key": [pickle.dumps(("r", 1), 5)], "value": [7]}, schema=pickled_key),
        ),
        "raw-operator": (
            StateInfo("custom", "raw", StateKind.RAW_OPERATOR, None, arrow),
            pa.table({"data": [b"one", b"two"]}),
        ),
        "empty": (
            StateInfo("count", "none", StateKind.VALUE, 4, arrow),
            pa.table({"key_group": groups, "key": keys, "value": keys}).slice(0, 0),
        ),
        "every-type": (
            StateInfo("types", "every", StateKind.OPERATOR_LIST, None, arrow),
            pa.table({"value": pa.array(values, every)}),
        ),
        "beyond-parquet": (
            StateInfo("types", "beyond", StateKind.OPERATOR_BROADCAST, None, arrow),
            pa.table(
                {
                    "map_key": pa.array([(1, 2, 3), None], pa.month_day_nano_interval()),
                    "value": pa.array([{}, None], pa.struct([])),
                }
            ),
        ),
    }


def _stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def checkpoint(objects: FileObjects, job: str) -> Snapshot:
    """A checkpoint with files, slices, inline and shared objects, in-flight data and files of a backend."""
    location, shared = f"{job}/chk-12", f"{job}/shared"
    files = {name: memoryview(state_files.write(*content, zstd=False)) for name, content in states().items()}

    def target(uid: str, inline_bytes: int) -> SnapshotWriter:
        options = WriteOptions(inline_bytes=inline_bytes)
        return SnapshotWriter(
            objects, location, shared, attempt=2, checkpoint_id=12, uid=uid, subtask=0, options=options
        )

    count, source = target("count", 0), target("source/1", 0)
    slices = source.write_slices("operator-state", [files["operator-list"], files["operator-union"]])
    in_flight = count.write("in-flight", _stream(pa.table({"word": ["x", "y"]})) + _stream(pa.table({"n": [1]})))
    return Snapshot(
        12,
        SnapshotKind.CHECKPOINT,
        2,
        1_709_208_000_000,
        location,
        {
            "source/1": OperatorState(
                "source/1",
                2,
                4,
                {
                    0: SubtaskState(
                        operator=(
                            OperatorPart("offsets", OperatorStateMode.SPLIT, 2, slices[0]),
                            OperatorPart("all", OperatorStateMode.UNION, 1, slices[1]),
                        )
                    ),
                    1: SubtaskState(finished=True),
                },
                StoredObject("inline:splits", 6, data=b"splits"),
            ),
            "count": OperatorState(
                "count",
                1,
                4,
                {
                    0: SubtaskState(
                        (
                            KeyedPart(
                                KeyGroupRange(0, 3),
                                (
                                    count.write("total", files["value"]),
                                    target("count", 1 << 20).write("seen", files["list"]),
                                ),
                            ),
                            KeyedPart(KeyGroupRange(0, 3), (count.write("raw", files["raw"]),), raw=True),
                        ),
                        (
                            OperatorPart(
                                "raw", OperatorStateMode.SPLIT, 2, count.write("ops", files["raw-operator"]), True
                            ),
                        ),
                        (ChannelPart("source/1->count", 1, 0, in_flight),),
                        ended=True,
                    )
                },
            ),
            "native": OperatorState("native", 1, 4, {0: SubtaskState(rocksdb(target("native", 20 << 10)))}),
            "done": OperatorState("done", 3, 128, fully_finished=True),
        },
        {"kafka": StoredObject("s3://elsewhere/hook", 4, offset=16)},
    )


def rocksdb(target: SnapshotWriter) -> tuple[KeyedPart, ...]:
    """State in RocksDB's own files, and a timer."""
    with tempfile.TemporaryDirectory() as directory:
        backend = RocksDbBackend(
            "user string, day bigint",
            max_parallelism=4,
            key_groups=KeyGroupRange(0, 3),
            clock=lambda: 1_000,
            uid="native",
            directory=Path(directory) / "db",
        )
        keys = [("a", 1), ("b", 2), ("b", 3)]
        backend.value_state("total", "struct<n:bigint,at:date>").put(keys, [{"n": n, "at": None} for n in (1, 2, 3)])
        backend.value_state("name", "string", ttl=Ttl("1d")).put(keys, ["x", "", "naïve"])
        backend.list_state("seen", "array<string>", namespace="bigint").append(keys[:1] * 2, [["p"], []], namespace=7)
        backend.map_state("things", "binary", object).put_all(keys[:1], [b"k"], [{"any": "thing"}])
        backend.timers().register_all(TimeDomain.EVENT, keys[:1], 60_000)
        snapshot = backend.snapshot()
        try:
            return snapshot.write(target)
        finally:
            snapshot.release()
            backend.close()


def savepoint(objects: FileObjects, location: str) -> Snapshot:
    """A canonical savepoint that the job stopped with."""
    target = SnapshotWriter(
        objects, location, None, attempt=1, checkpoint_id=3, uid="rules", subtask=0, options=WriteOptions(0)
    )
    rules = target.write("rules", memoryview(state_files.write(*states()["operator-broadcast"], zstd=True)))
    part = OperatorPart("rules", OperatorStateMode.BROADCAST, 1, rules)
    return Snapshot(
        3,
        SnapshotKind.SYNC_SAVEPOINT,
        1,
        1_709_208_000_001,
        location,
        {"rules": OperatorState("rules", 1, 1, {0: SubtaskState(operator=(part,))})},
        format=SavepointFormat.CANONICAL,
    )


def make(directory: Path) -> None:
    objects = FileObjects()
    for name, content in states().items():
        for zstd in (False, True):
            data = state_files.write(*content, zstd=zstd)
            objects.write(f"{directory}/states/{name}{'.zstd' if zstd else ''}.parquet", memoryview(data))
    for snapshot in (checkpoint(objects, f"{directory}/job"), savepoint(objects, f"{directory}/savepoint-7f3a01-5e")):
        objects.write(snapshot.metadata_path, metadata.encode(snapshot))


if __name__ == "__main__":
    make(Path(sys.argv[1]).absolute())
