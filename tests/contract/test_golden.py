"""Files of format version 1, written once and kept, stay readable. If this fails, the reader is wrong."""

from __future__ import annotations

import datetime as dt
import json
import pickle
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from snapline.protocol.keygroups import KeyGroupRange
from snapline.protocol.restore.restore_plan import KeyedRestore
from snapline.protocol.snapshot import Snapshot
from snapline.state import state_files
from snapline.state.inspection.snapshot_facts import snapshot_facts
from snapline.state.rocksdb.rocksdb_backend import RocksDbBackend
from snapline.state.stable_hash import hash_columns
from snapline.state.state_info import StateInfo, StateKind, ValueEncoding, is_pickled
from snapline.state.ttl import Ttl
from snapline.storage import snapshot_metadata as metadata
from snapline.storage.objects.file_objects import FileObjects
from snapline.storage.snapshot_reader import SnapshotReader
from snapline.types import OperatorStateMode, SavepointFormat, SnapshotKind

GOLDEN = Path(__file__).parents[1] / "golden" / "v1"

DAY = dt.date(2024, 2, 29)
NOON = dt.datetime(2024, 2, 29, 12, 30, 15)
CLOCK = dt.time(12, 30, 15)
WINDOW = {"start": NOON, "end": NOON}
ARROW, PICKLE = ValueEncoding.ARROW, ValueEncoding.PICKLE
KEYED: dict[str, list[Any]] = {"key_group": [0, 3, 3], "key": ["a", "b", "c"]}
COMPOSITE = [{"user": "a", "day": 1}, {"user": "b", "day": 2}, {"user": "b", "day": 3}]

STATES: dict[str, tuple[StateInfo, dict[str, list[Any]]]] = {
    "value": (StateInfo("count", "total", StateKind.VALUE, 4, ARROW), {**KEYED, "value": [1, None, 3]}),
    "value-ttl": (
        StateInfo("count", "recent", StateKind.VALUE, 4, ARROW, 60_000),
        {**KEYED, "value": [1, 2, 3], "last_update_ms": [10, 20, 30]},
    ),
    "value-pickle": (StateInfo("count", "thing", StateKind.VALUE, 4, PICKLE), {**KEYED, "value": [{1}, "x", None]}),
    "list": (
        StateInfo("count", "seen", StateKind.LIST, 4, ARROW),
        {"key_group": [0, 3, 3], "key": COMPOSITE, "position": [0, 0, 7], "value": ["x", "y", "z"]},
    ),
    "map": (
        StateInfo("count", "by-day", StateKind.MAP, 4, ARROW),
        {**KEYED, "map_key": [DAY] * 3, "value": [0.5, 1.5, 2.5]},
    ),
    "reducing": (
        StateInfo("window", "sum", StateKind.REDUCING, 4, ARROW),
        {**KEYED, "namespace": [WINDOW] * 3, "value": [1, 2, 3]},
    ),
    "aggregating": (
        StateInfo("window", "mean", StateKind.AGGREGATING, 4, ARROW),
        {**KEYED, "value": [{"sum": 1.0, "count": 2}] * 3},
    ),
    "timers": (
        StateInfo("window", "_timers", StateKind.TIMERS, 4, ARROW),
        {
            **KEYED,
            "namespace": [WINDOW] * 3,
            "time": [-1, 0, 1_709_208_000_000],
            "domain": ["event", "processing", "event"],
        },
    ),
    "raw": (
        StateInfo("custom", "raw", StateKind.RAW, 4, ARROW),
        {"key_group": [0, 3, 3], "data": [b"", b"\x00", b"raw"]},
    ),
    "operator-list": (
        StateInfo("source", "offsets", StateKind.OPERATOR_LIST, None, ARROW),
        {"value": [{"split": "a", "offset": 5}, None]},
    ),
    "operator-union": (StateInfo("source", "all", StateKind.OPERATOR_UNION, None, PICKLE), {"value": [(1, 2)]}),
    "operator-broadcast": (
        StateInfo("rules", "rules", StateKind.OPERATOR_BROADCAST, None, ARROW),
        {"map_key": [("r", 1)], "value": [7]},
    ),
    "raw-operator": (
        StateInfo("custom", "raw", StateKind.RAW_OPERATOR, None, ARROW),
        {"data": [b"one", b"two"]},
    ),
    "empty": (StateInfo("count", "none", StateKind.VALUE, 4, ARROW), {"key_group": [], "key": [], "value": []}),
    "beyond-parquet": (
        StateInfo("types", "beyond", StateKind.OPERATOR_BROADCAST, None, ARROW),
        {"map_key": [pa.MonthDayNano([1, 2, 3]), None], "value": [{}, None]},
    ),
}

EVERY_TYPE: dict[str, tuple[str, Any]] = {
    "int8": ("int8", -128),
    "int16": ("int16", -32768),
    "int32": ("int32", -2147483648),
    "int64": ("int64", -9223372036854775808),
    "uint8": ("uint8", 255),
    "uint16": ("uint16", 65535),
    "uint32": ("uint32", 4294967295),
    "uint64": ("uint64", 18446744073709551615),
    "float16": ("halffloat", 0.5),
    "float32": ("float", 1.5),
    "float64": ("double", 0.1),
    "bool": ("bool", True),
    "string": ("string", "naïve"),
    "large_string": ("large_string", "large"),
    "binary": ("binary", b"\x00\xff"),
    "large_binary": ("large_binary", b"large"),
    "fixed_size_binary": ("fixed_size_binary[3]", b"abc"),
    "date32": ("date32[day]", DAY),
    "date64": ("date64[ms]", DAY),
    "timestamp_s": ("timestamp[s]", NOON),
    "timestamp_ms": ("timestamp[ms]", NOON),
    "timestamp_us": ("timestamp[us]", NOON),
    "timestamp_ns": ("timestamp[ns]", NOON),
    "timestamp_zone": ("timestamp[s, tz=Europe/Berlin]", NOON.replace(tzinfo=dt.UTC)),
    "time32_s": ("time32[s]", CLOCK),
    "time32_ms": ("time32[ms]", CLOCK),
    "time64_us": ("time64[us]", CLOCK),
    "time64_ns": ("time64[ns]", CLOCK),
    "duration_s": ("duration[s]", dt.timedelta(hours=-1)),
    "duration_ns": ("duration[ns]", dt.timedelta(hours=1)),
    "decimal128": ("decimal128(38, 2)", Decimal("-1.23")),
    "decimal256": ("decimal256(70, 2)", Decimal("1.23")),
    "list": ("list<item: int64>", [1, None]),
    "large_list": ("large_list<item: date64[ms]>", [DAY]),
    "fixed_size_list": ("fixed_size_list<item: int8>[2]", [1, 2]),
    "map": ("map<string, time32[s]>", [("a", CLOCK)]),
    "struct": ("struct<inner: timestamp[s]>", {"inner": NOON}),
    "dictionary": ("dictionary<values=string, indices=int8, ordered=0>", "word"),
    "null": ("null", None),
}


def _read(name: str, key_groups: KeyGroupRange | None = None) -> tuple[StateInfo, pa.Table]:
    with (GOLDEN / "states" / f"{name}.parquet").open("rb") as file:
        return state_files.read(file, key_groups)


def _values(info: StateInfo, table: pa.Table) -> dict[str, list[Any]]:
    values: dict[str, list[Any]] = table.to_pydict()
    for field in table.schema:
        if is_pickled(info, field):
            values[field.name] = [pickle.loads(data) for data in values[field.name]]
    return values


@pytest.mark.parametrize("suffix", ["", ".zstd"])
@pytest.mark.parametrize("name", STATES)
def test_states_of_every_kind(name: str, suffix: str) -> None:
    expected, columns = STATES[name]
    info, table = _read(name + suffix)
    assert info == expected
    assert _values(info, table) == columns
    assert list(table.column_names) == list(columns)


@pytest.mark.parametrize("suffix", ["", ".zstd"])
def test_values_of_every_type(suffix: str) -> None:
    info, table = _read(f"every-type{suffix}")
    assert info == StateInfo("types", "every", StateKind.OPERATOR_LIST, None, ARROW)
    kind = table.schema.field("value").type
    fields = [kind.field(index) for index in range(kind.num_fields)]
    assert {field.name: str(field.type) for field in fields} == {name: text for name, (text, _) in EVERY_TYPE.items()}
    first, second, third = table["value"]
    found = {name: first[name] for name in EVERY_TYPE}
    # For nanoseconds pyarrow returns no Python value without pandas, and a pandas type with it.
    found["timestamp_ns"] = found["timestamp_ns"].cast(pa.timestamp("us"))
    found["duration_ns"] = found["duration_ns"].cast(pa.duration("us"))
    assert {name: value.as_py() for name, value in found.items()} == {
        name: value for name, (_, value) in EVERY_TYPE.items()
    }
    assert all(second[name].as_py() is None for name in EVERY_TYPE)
    assert not third.is_valid


def test_some_key_groups_of_a_state() -> None:
    _, table = _read("value", KeyGroupRange(1, 3))
    assert table.to_pydict() == {"key_group": [3, 3], "key": ["b", "c"], "value": [None, 3]}


def _snapshot(directory: str) -> Snapshot:
    path = GOLDEN / directory
    return metadata.decode((path / "_metadata").read_bytes(), str(path))


def test_a_checkpoint() -> None:
    snapshot = _snapshot("job/chk-12")
    assert (snapshot.id, snapshot.kind, snapshot.attempt) == (12, SnapshotKind.CHECKPOINT, 2)
    assert (snapshot.timestamp_ms, snapshot.format) == (1_709_208_000_000, None)
    assert list(snapshot.operators) == ["source/1", "count", "native", "done"]
    source, count, native, done = snapshot.operators.values()
    assert (source.parallelism, source.max_parallelism, source.subtasks[1].finished) == (2, 4, True)
    assert source.coordinator is not None
    assert source.coordinator.data == b"splits"
    first, second = source.subtasks[0].operator
    assert [(part.name, part.mode, part.elements) for part in (first, second)] == [
        ("offsets", OperatorStateMode.SPLIT, 2),
        ("all", OperatorStateMode.UNION, 1),
    ]
    assert first.object.path == second.object.path == f"{GOLDEN}/job/chk-12/a2-source%2F1-0-operator%2Dstate"
    assert (first.object.offset, second.object.offset) == (0, first.object.size_bytes)
    state = count.subtasks[0]
    assert state.ended
    assert [(part.key_groups, part.raw) for part in state.keyed] == [
        (KeyGroupRange(0, 3), False),
        (KeyGroupRange(0, 3), True),
    ]
    assert [item.is_inline for item in state.keyed[0].objects] == [False, True]
    assert state.operator[0].raw
    (channel,) = state.inputs
    assert (channel.edge, channel.upstream, channel.downstream) == ("source/1->count", 1, 0)
    part = native.subtasks[0].keyed[0]
    assert part.native == "rocksdb"
    tables = [item for item in part.objects if item.shared_key is not None]
    assert [item.path for item in tables] == [f"{GOLDEN}/job/shared/{item.shared_key}" for item in tables]
    assert (done.parallelism, done.max_parallelism, done.fully_finished) == (3, 128, True)
    hook = snapshot.hooks["kafka"]
    assert (hook.path, hook.size_bytes, hook.offset) == ("s3://elsewhere/hook", 4, 16)


def test_everything_a_checkpoint_refers_to_is_whole() -> None:
    snapshot, source = _snapshot("job/chk-12"), SnapshotReader(FileObjects())
    for item in snapshot.objects():
        if item is not snapshot.hooks["kafka"]:
            source.read(item)
    facts = snapshot_facts(snapshot, source)
    found = {(it.uid, state.name, state.kind, state.rows) for it in facts.operators for state in it.states}
    assert found == {
        ("source/1", "offsets", StateKind.OPERATOR_LIST, 2),
        ("source/1", "all", StateKind.OPERATOR_UNION, 1),
        ("count", "total", StateKind.VALUE, 3),
        ("count", "seen", StateKind.LIST, 3),
        ("count", "raw", StateKind.RAW, 3),
        ("count", "raw", StateKind.RAW_OPERATOR, 2),
        ("native", "_timers", StateKind.TIMERS, 1),
    }
    stream = pa.BufferReader(source.read(snapshot.operators["count"].subtasks[0].inputs[0].object))
    assert pa.ipc.open_stream(stream).read_all().to_pydict() == {"word": ["x", "y"]}
    assert pa.ipc.open_stream(stream).read_all().to_pydict() == {"n": [1]}


@pytest.mark.parametrize("ranges", [[KeyGroupRange(0, 3)], [KeyGroupRange(0, 1), KeyGroupRange(2, 3)]])
def test_files_of_rocksdb(tmp_path: Path, ranges: list[KeyGroupRange]) -> None:
    parts = _snapshot("job/chk-12").operators["native"].subtasks[0].keyed
    keys = [("a", 1), ("b", 2), ("b", 3)]
    groups = (hash_columns([pa.array(["a", "b", "b"]), pa.array([1, 2, 3])]) % 4).tolist()
    found: dict[Any, Any] = {}
    timers = 0
    for index, owned in enumerate(ranges):
        backend = RocksDbBackend(
            "user string, day bigint",
            max_parallelism=4,
            key_groups=owned,
            clock=lambda: 2_000,
            uid="native",
            directory=tmp_path / str(index),
        )
        backend.restore([KeyedRestore(part, owned) for part in parts], SnapshotReader(FileObjects()))
        mine = [key for key, group in zip(keys, groups, strict=True) if group in owned]
        totals = backend.value_state("total", "struct<n:bigint,at:date>").take(mine).to_pylist()
        names = backend.value_state("name", "string", ttl=Ttl("1d")).take(mine).to_pylist()
        lists = backend.list_state("seen", "array<string>", namespace="bigint").take(mine, 7).to_pylist()
        things = backend.map_state("things", "binary", object).take(mine, [b"k"] * len(mine))
        found |= {key: values for key, *values in zip(mine, totals, names, lists, things, strict=True)}
        timers += len(backend.timers())
        backend.close()
    assert found == {
        ("a", 1): [{"n": 1, "at": None}, "x", [["p"], []], {"any": "thing"}],
        ("b", 2): [{"n": 2, "at": None}, "", [], None],
        ("b", 3): [{"n": 3, "at": None}, "naïve", [], None],
    }
    assert timers == 1


def test_a_savepoint() -> None:
    snapshot = _snapshot("savepoint-7f3a01-5e")
    assert (snapshot.id, snapshot.kind, snapshot.format) == (
        3,
        SnapshotKind.SYNC_SAVEPOINT,
        SavepointFormat.CANONICAL,
    )
    (part,) = snapshot.operators["rules"].subtasks[0].operator
    assert (part.mode, part.elements) == (OperatorStateMode.BROADCAST, 1)
    with SnapshotReader(FileObjects()).open(part.object) as file:
        assert _values(*state_files.read(file)) == {"map_key": [("r", 1)], "value": [7]}


def test_the_files_have_version_1_and_are_small() -> None:
    assert json.loads((GOLDEN / "job/chk-12/_metadata").read_bytes().splitlines()[0])["version"] == 1
    assert sum(path.stat().st_size for path in GOLDEN.rglob("*") if path.is_file()) < 200_000
