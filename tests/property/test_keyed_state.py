"""Properties of keyed state: whatever its keys and values, it survives snapshots and restores at any parallelism."""

from __future__ import annotations

import datetime
import itertools
import math
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snapline.protocol.keygroups import key_group_range, owner
from snapline.protocol.restore.restore_plan import RestoreVertex, plan_restore
from snapline.protocol.snapshot import KeyedPart, OperatorState, Snapshot, SubtaskState
from snapline.state import state_files
from snapline.state.batch_keys import KeyTypes
from snapline.state.keyed_backend import KeyedBackend
from snapline.state.memory_backend import MemoryBackend
from snapline.state.operator_state import OperatorStates
from snapline.state.rocksdb.rocksdb_backend import RocksDbBackend
from snapline.state.stable_hash import hash_columns, key_groups
from snapline.state.timers import TIMERS_STATE, TimeDomain
from snapline.storage.objects.memory_objects import MemoryObjects
from snapline.storage.snapshot_reader import SnapshotReader
from snapline.storage.snapshot_writer import SnapshotWriter, WriteOptions
from snapline.types import SnapshotKind, SubtaskId

UID = "op"
UTC = datetime.UTC
EPOCH = datetime.datetime(1970, 1, 1)

# --- keys ------------------------------------------------------------------------------------------------------------


def integers(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)


def aware(moments: st.SearchStrategy[datetime.datetime]) -> st.SearchStrategy[datetime.datetime]:
    return moments.map(lambda moment: moment.replace(tzinfo=UTC))


text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
zeros_and_nans = st.sampled_from([0.0, -0.0, math.nan, -math.nan, math.inf])
moments = st.datetimes(datetime.datetime(1700, 1, 1), datetime.datetime(2250, 1, 1))
seconds = st.builds(lambda count: EPOCH + datetime.timedelta(seconds=count), st.integers(-(10**10), 10**10))
PAIR = pa.struct([("a", pa.string()), ("b", pa.int64())])
TRIPLE = pa.struct([("x", pa.float64()), ("y", pa.date32()), ("z", pa.binary())])
STAMPED = pa.struct([("at", pa.timestamp("ms", tz="UTC")), ("flag", pa.bool_())])

KEYS: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int8(): integers(8),
    pa.int16(): integers(16),
    pa.int32(): integers(32),
    pa.int64(): integers(64) | st.integers(-5, 5),
    pa.uint8(): st.integers(0, 2**8 - 1),
    pa.uint16(): st.integers(0, 2**16 - 1),
    pa.uint32(): st.integers(0, 2**32 - 1),
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.float32(): st.floats(width=32) | zeros_and_nans,
    pa.float64(): st.floats() | zeros_and_nans,
    pa.string(): text,
    pa.large_string(): text,
    pa.binary(): st.binary(max_size=20),
    pa.large_binary(): st.binary(max_size=20),
    pa.bool_(): st.booleans(),
    pa.date32(): st.dates(),
    pa.date64(): st.dates(),
    pa.timestamp("s"): seconds,
    pa.timestamp("ms"): seconds,
    pa.timestamp("us"): moments,
    pa.timestamp("ns"): moments,
    pa.timestamp("s", tz="Asia/Tokyo"): aware(seconds),
    pa.timestamp("us", tz="UTC"): aware(moments),
    pa.timestamp("ns", tz="Europe/Berlin"): aware(moments),
    PAIR: st.fixed_dictionaries({"a": st.sampled_from(["", "a", "a\0", "b"]), "b": st.integers(-2, 2)}),
    TRIPLE: st.fixed_dictionaries({"x": st.floats() | zeros_and_nans, "y": st.dates(), "z": st.binary(max_size=3)}),
    STAMPED: st.fixed_dictionaries({"at": aware(seconds), "flag": st.booleans()}),
}


def identity(key: Any) -> Any:
    """The identity of a key: all NaNs are one key, and so are both zeros."""
    if isinstance(key, dict):
        return tuple(identity(value) for value in key.values())
    if isinstance(key, float):
        return "nan" if math.isnan(key) else key + 0.0
    return key


# --- values ----------------------------------------------------------------------------------------------------------

small_objects = st.recursive(
    st.none() | st.integers() | text | st.binary(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner) | st.dictionaries(text, inner, max_size=2),
    max_leaves=4,
)
VALUES: dict[Any, st.SearchStrategy[Any]] = {
    "tinyint": integers(8),
    "bigint": integers(64),
    "double": st.floats(allow_nan=False),
    "boolean": st.booleans(),
    "timestamp": aware(moments),
    "string": text,
    "binary": st.binary(max_size=5),
    "decimal(20,3)": st.decimals(-(10**9), 10**9, places=3),
    "array<bigint>": st.lists(integers(64) | st.none(), max_size=3),
    "map<string,boolean>": st.dictionaries(text, st.booleans() | st.none(), max_size=2),
    "a int, b date": st.fixed_dictionaries({"a": integers(32) | st.none(), "b": st.dates() | st.none()}),
    "a int, b string": st.fixed_dictionaries({"a": integers(32) | st.none(), "b": text | st.none()}),
    "n struct<x:int>, s array<string>": st.fixed_dictionaries(
        {
            "n": st.none() | st.fixed_dictionaries({"x": st.none() | integers(32)}),
            "s": st.none() | st.lists(text | st.none(), max_size=2),
        }
    ),
    object: small_objects.filter(lambda value: value is not None),
}


class Average:
    """Sum and count of the values."""

    def create(self) -> dict[str, int]:
        return {"sum": 0, "count": 0}

    def add(self, accumulator: dict[str, int], value: int) -> dict[str, int]:
        return {"sum": accumulator["sum"] + value, "count": accumulator["count"] + 1}

    def result(self, accumulator: dict[str, int]) -> tuple[int, int]:
        return accumulator["sum"], accumulator["count"]

    def merge(self, one: dict[str, int], other: dict[str, int]) -> dict[str, int]:
        return {name: one[name] + other[name] for name in one}


# --- a job -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shape:
    """The types of a job's state."""

    key: pa.DataType
    value: Any
    max_parallelism: int


@dataclass(frozen=True)
class Stage:
    """How a job runs until its next restart. `rows` are numbers of keys, each with a value and a small number."""

    parallelism: int
    backend: str
    rows: list[tuple[int, Any, int]]
    elements: list[int]


@dataclass(frozen=True)
class Case:
    shape: Shape
    keys: list[Any]
    stages: list[Stage]
    canonical: list[bool]
    inline: bool


@st.composite
def cases(draw: st.DrawFn, backends: Sequence[str], max_subtasks: int = 8) -> Case:
    shape = Shape(
        draw(st.sampled_from(list(KEYS))),
        draw(st.sampled_from(list(VALUES))),
        draw(st.integers(1, 300), label="groups"),
    )
    keys = draw(st.lists(KEYS[shape.key], min_size=1, max_size=12, unique_by=identity))
    row = st.tuples(st.integers(0, len(keys) - 1), VALUES[shape.value], st.integers(0, 3))
    parallelisms = st.integers(1, min(max_subtasks, shape.max_parallelism))
    stages = [
        Stage(
            draw(parallelisms),
            draw(st.sampled_from(backends)),
            draw(st.lists(row, max_size=10)) if number < 2 else [],
            draw(st.lists(st.integers(0, 99), max_size=5)) if number == 0 else [],
        )
        for number in range(3)
    ]
    canonical = [draw(st.booleans()) or is_memory(one) != is_memory(other) for one, other in itertools.pairwise(stages)]
    return Case(shape, keys, stages, canonical, draw(st.booleans()))


def is_memory(stage: Stage) -> bool:
    return stage.backend == "memory"


@dataclass
class Expected:
    """The state of all subtasks together, by the number of the key."""

    values: dict[int, Any] = field(default_factory=dict)
    lists: dict[int, list[Any]] = field(default_factory=dict)
    maps: dict[int, dict[str, Any]] = field(default_factory=dict)
    spaced: dict[tuple[int, int], Any] = field(default_factory=dict)
    sums: dict[int, int] = field(default_factory=dict)
    averages: dict[int, tuple[int, int]] = field(default_factory=dict)
    timers: set[tuple[int, int, int]] = field(default_factory=set)
    elements: list[int] = field(default_factory=list)

    def add(self, rows: Sequence[tuple[int, Any, int]], elements: Sequence[int]) -> None:
        self.elements += elements
        for number, value, small in rows:
            self.values[number] = value
            self.lists.setdefault(number, []).append(value)
            self.maps.setdefault(number, {})[f"entry {small}"] = value
            self.spaced[number, small] = value
            self.sums[number] = self.sums.get(number, 0) + small
            total, count = self.averages.get(number, (0, 0))
            self.averages[number] = total + small, count + 1
            self.timers.add((number, small, 1000 + small))

    def entries(self) -> Counter[str]:
        """The number of rows of each state in the open format."""
        return Counter(
            {
                "value": len(self.values),
                "list": sum(map(len, self.lists.values())),
                "map": sum(map(len, self.maps.values())),
                "spaced": len(self.spaced),
                "sum": len(self.sums),
                "average": len(self.averages),
                TIMERS_STATE: len(self.timers),
            }
        )


class Subtask:
    """One subtask: its backend with all kinds of state, and its operator state."""

    def __init__(self, shape: Shape, backend: KeyedBackend, operator: OperatorStates) -> None:
        self.backend = backend
        self.value = backend.value_state("value", shape.value)
        self.elements = backend.list_state("list", shape.value)
        self.entries = backend.map_state("map", "string", shape.value)
        self.spaced = backend.value_state("spaced", shape.value, namespace="int")
        self.sum = backend.reducing_state("sum", "bigint", "sum")
        self.average = backend.aggregating_state("average", Average(), "sum bigint, count bigint")
        self.timers = backend.timers("int")
        self.operator = operator
        self.split = operator.list_state("split", "bigint")
        self.union = operator.union_list_state("union", "bigint")
        self.rules = operator.broadcast_state("rules", "string", "bigint")


class Job:
    """The subtasks of one operator. Rows go where the runtime would send them."""

    def __init__(self, shape: Shape, keys: list[Any], subtasks: list[Subtask]) -> None:
        self.shape = shape
        self.subtasks = subtasks
        self.keys = pa.array(keys, shape.key)
        groups = key_groups(hash_columns(KeyTypes(shape.key).columns(self.keys)), shape.max_parallelism)
        self.owners = [owner(int(group), len(subtasks), shape.max_parallelism) for group in groups]

    def process(self, stage: Stage) -> None:
        for index, subtask in enumerate(self.subtasks):
            rows = [row for row in stage.rows if self.owners[row[0]] == index]
            self._process_keyed(subtask, rows)
            elements = stage.elements[index :: len(self.subtasks)]
            subtask.split.extend(elements)
            subtask.union.extend(elements)
            for element in stage.elements:
                subtask.rules.put(f"rule {element}", element)

    def _process_keyed(self, subtask: Subtask, rows: list[tuple[int, Any, int]]) -> None:
        numbers, values, small = ([row[at] for row in rows] for at in range(3))
        keys = subtask.backend.keys(self.keys.take(pa.array(numbers, pa.int64())))
        subtask.value.put(keys, values)
        subtask.elements.append(keys, values)
        subtask.entries.put_all(keys, [f"entry {number}" for number in small], values)
        subtask.spaced.put(keys, values, small)
        subtask.sum.add_all(keys, pa.array(small, pa.int64()))
        subtask.average.add_all(keys, small)
        subtask.timers.register_all(TimeDomain.EVENT, keys, [1000 + number for number in small], small)

    def check(self, expected: Expected) -> None:
        """Every key has the expected state in the subtask that gets its rows."""
        for index, subtask in enumerate(self.subtasks):
            numbers = [number for number, at in enumerate(self.owners) if at == index]
            self._check_keyed(subtask, numbers, expected)
        for number, index in enumerate(self.owners[:2]):
            self._check_one(self.subtasks[index], number, expected)

    def _check_keyed(self, subtask: Subtask, numbers: list[int], expected: Expected) -> None:
        keys = subtask.backend.keys(self.keys.take(pa.array(numbers, pa.int64())))
        assert plain(subtask.value.take(keys)) == [expected.values.get(number) for number in numbers]
        assert plain(subtask.elements.take(keys)) == [expected.lists.get(number, []) for number in numbers]
        assert plain(subtask.sum.take(keys)) == [expected.sums.get(number) for number in numbers]
        assert subtask.average.take(keys) == [expected.averages.get(number) for number in numbers]
        for small in range(4):
            held = [expected.spaced.get((number, small)) for number in numbers]
            assert plain(subtask.spaced.take(keys, small)) == held
        found: dict[int, dict[str, Any]] = {}
        rows, map_keys, values = subtask.entries.entries(keys)
        for row, key, value in zip(rows.tolist(), plain(map_keys), plain(values), strict=True):
            entries = found.setdefault(numbers[row], {})
            assert key not in entries
            entries[key] = value
        assert found == {number: expected.maps[number] for number in numbers if number in expected.maps}

    def _check_one(self, subtask: Subtask, number: int, expected: Expected) -> None:
        subtask.backend.select(subtask.backend.keys(self.keys.slice(number, 1)), 0)
        assert subtask.value.get() == expected.values.get(number)
        assert subtask.elements.get() == expected.lists.get(number, [])
        assert dict(subtask.entries.items()) == expected.maps.get(number, {})
        assert subtask.average.get() == expected.averages.get(number)

    def check_operator_state(self, expected: Expected) -> None:
        """Each element is in one subtask, or in all."""
        split = [element for subtask in self.subtasks for element in subtask.split.get()]
        assert Counter(split) == Counter(expected.elements)
        for subtask in self.subtasks:
            assert Counter(subtask.union.get()) == Counter(expected.elements)
            assert dict(subtask.rules.items()) == {f"rule {element}": element for element in expected.elements}
        for subtask in self.subtasks[1:]:
            subtask.union.clear()

    def check_timers(self, expected: Expected) -> None:
        """All timers fire, each once, in the subtask that owns them, and are gone afterwards."""
        numbers = {identity(key): number for number, key in enumerate(self.keys.to_pylist())}
        fired = []
        for index, subtask in enumerate(self.subtasks):
            due = subtask.timers.due(TimeDomain.EVENT, 5000)
            if due is not None:
                keys = [numbers[identity(key)] for key in due.keys.to_pylist()]
                assert {self.owners[number] for number in keys} == {index}
                fired += list(zip(keys, plain(due.namespaces), due.times.tolist(), strict=True))
        assert sorted(fired) == sorted(expected.timers)


def plain(values: Any) -> list[Any]:
    return values if isinstance(values, list) else list(values.to_pylist(maps_as_pydicts="strict"))


class Cluster:
    """Storage and settings that jobs share, one after the other."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._numbers = itertools.count(1)
        self.objects = MemoryObjects()
        self.backends: list[KeyedBackend] = []

    def start(self, case: Case, stage: Stage, snapshot: Snapshot | None) -> Job:
        shape, subtasks = case.shape, []
        plan = None
        if snapshot is not None:
            vertex = RestoreVertex("v", stage.parallelism, (UID,), shape.max_parallelism)
            plan = plan_restore(snapshot, [vertex], []).subtasks
        for index in range(stage.parallelism):
            backend, operator = self._backend(shape, stage, index), OperatorStates(UID, index)
            restored = None if plan is None else plan[SubtaskId("v", index)].get(UID)
            if restored is not None:
                backend.restore(restored.keyed, SnapshotReader(self.objects))
                operator.restore(restored.operator, SnapshotReader(self.objects))
            subtasks.append(Subtask(shape, backend, operator))
        return Job(shape, case.keys, subtasks)

    def _backend(self, shape: Shape, stage: Stage, index: int) -> KeyedBackend:
        options: dict[str, Any] = {
            "max_parallelism": shape.max_parallelism,
            "key_groups": key_group_range(shape.max_parallelism, stage.parallelism, index),
            "clock": lambda: 0,
            "uid": UID,
        }
        backend: KeyedBackend
        if is_memory(stage):
            backend = MemoryBackend(shape.key, **options)
        else:
            options |= {"max_cached_entries": 3} if stage.backend == "tiny cache" else {"least_logged": 1}
            backend = RocksDbBackend(shape.key, directory=self._directory / f"db-{next(self._numbers)}", **options)
        self.backends.append(backend)
        return backend

    def stop(self, case: Case, job: Job, *, canonical: bool) -> Snapshot:
        """A snapshot of a job whose state changes before the snapshot is written."""
        checkpoint_id = next(self._numbers)
        taken = [
            (subtask.backend.snapshot(canonical=canonical), subtask.operator.snapshot()) for subtask in job.subtasks
        ]
        for subtask in job.subtasks:
            self._disturb(subtask, job)
        parts = {}
        for index, (keyed, operator) in enumerate(taken):
            target = SnapshotWriter(
                self.objects,
                f"/chk-{checkpoint_id}",
                None if canonical else "/shared",
                attempt=1,
                checkpoint_id=checkpoint_id,
                uid=UID,
                subtask=index,
                options=WriteOptions() if case.inline else WriteOptions(inline_bytes=0),
            )
            parts[index] = SubtaskState(keyed=keyed.write(target), operator=operator.write(target))
            keyed.release()
        state = OperatorState(UID, len(job.subtasks), case.shape.max_parallelism, parts)
        return Snapshot(checkpoint_id, SnapshotKind.CHECKPOINT, 1, 0, f"/chk-{checkpoint_id}", {UID: state})

    def _disturb(self, subtask: Subtask, job: Job) -> None:
        index = job.subtasks.index(subtask)
        mine = [number for number, at in enumerate(job.owners) if at == index]
        keys = subtask.backend.keys(job.keys.take(pa.array(mine, pa.int64())))
        subtask.value.delete(keys)
        subtask.elements.delete(keys)
        subtask.entries.delete(keys)
        subtask.sum.add_all(keys, [1] * len(mine))
        subtask.timers.due(TimeDomain.EVENT, 5000)
        subtask.split.clear()


@contextmanager
def cluster() -> Iterator[Cluster]:
    with tempfile.TemporaryDirectory() as directory:
        made = Cluster(Path(directory))
        try:
            yield made
        finally:
            for backend in made.backends:
                backend.close()


def run(case: Case) -> None:
    """Run one stage after the other, and check that nothing is lost."""
    expected = Expected()
    with cluster() as machines:
        snapshot = None
        for stage, canonical in zip(case.stages, [*case.canonical, True], strict=True):
            job = machines.start(case, stage, snapshot)
            job.check(expected)
            job.check_operator_state(expected)
            job.process(stage)
            expected.add(stage.rows, stage.elements)
            job.check(expected)
            snapshot = machines.stop(case, job, canonical=canonical)
        assert snapshot is not None
        check_files(case, snapshot, expected, machines.objects)
        job = machines.start(case, case.stages[0], snapshot)
        job.check(expected)
        job.check_timers(expected)


def check_files(case: Case, snapshot: Snapshot, expected: Expected, objects: MemoryObjects) -> None:
    """In the open format every entry is stored once, by the subtask that owns its key group."""
    found: Counter[str] = Counter()
    keyed: list[KeyedPart] = [part for state in snapshot.operators[UID].subtasks.values() for part in state.keyed]
    kinds = KeyTypes(case.shape.key)
    for part in keyed:
        for item in part.objects:
            with SnapshotReader(objects).open(item) as file:
                info = state_files.describe(file).info
                for table in state_files.iterate(file, part.key_groups):
                    groups = table.column("key_group").to_pylist()
                    assert groups == sorted(groups)
                    hashes = hash_columns(kinds.columns(table.column("key")))
                    assert groups == key_groups(hashes, case.shape.max_parallelism).tolist()
                    assert all(group in part.key_groups for group in groups)
                    found[info.state] += table.num_rows
    assert +found == +expected.entries()


# --- the properties --------------------------------------------------------------------------------------------------

MEMORY = ["memory"]
ROCKSDB = ["tiny cache", "large cache"]


@settings(max_examples=5)
@given(cases(MEMORY))
def test_every_key_has_its_state_once_after_restores_at_any_parallelism(case: Case) -> None:
    run(case)


@pytest.mark.slow
@settings(max_examples=3)
@given(cases(ROCKSDB, max_subtasks=3))
def test_so_has_every_key_in_rocksdb(case: Case) -> None:
    run(case)


@settings(max_examples=3)
@given(cases(MEMORY + ROCKSDB, max_subtasks=3))
def test_state_moves_from_one_backend_to_the_other(case: Case) -> None:
    run(case)


@pytest.mark.slow
@settings(max_examples=20)
@given(cases(MEMORY))
def test_every_key_has_its_state_once_with_many_examples(case: Case) -> None:
    run(case)


@pytest.mark.slow
@settings(max_examples=8)
@given(cases(MEMORY + ROCKSDB + ROCKSDB))
def test_state_moves_between_all_backends_at_any_parallelism(case: Case) -> None:
    run(case)


def edges(kind: pa.DataType) -> list[Any]:
    if pa.types.is_struct(kind):
        columns = [edges(kind.field(index).type) for index in range(kind.num_fields)]
        names = [kind.field(index).name for index in range(kind.num_fields)]
        rows = itertools.islice(itertools.product(*columns), 12)
        return [dict(zip(names, row, strict=True)) for row in rows]
    if pa.types.is_boolean(kind):
        return [True, False]
    if pa.types.is_signed_integer(kind):
        return [0, -1, 1, 2 ** (kind.bit_width - 1) - 1, -(2 ** (kind.bit_width - 1))]
    if pa.types.is_unsigned_integer(kind):
        return [0, 1, 2**kind.bit_width - 1, 2 ** (kind.bit_width - 1)]
    if pa.types.is_floating(kind):
        return [-0.0, math.nan, 0.5, math.inf, -math.inf]
    if pa.types.is_timestamp(kind):
        return [moment.replace(tzinfo=UTC if kind.tz else None) for moment in (EPOCH, datetime.datetime(1700, 1, 1))]
    if pa.types.is_date(kind):
        return [datetime.date(1, 1, 1), datetime.date(1970, 1, 1), datetime.date(9999, 12, 31)]
    words = ["", "\0", "\0\0", "a", "a\0", "x" * 8, "x" * 9, "é" * 20]
    return words if "string" in str(kind) else [word.encode() for word in words]


def move(kind: pa.DataType, backend: str) -> None:
    """From two subtasks to three and one, with the keys that are most likely to go wrong."""
    keys = {identity(key): key for key in edges(kind)}
    rows: list[tuple[int, Any, int]] = [(number, f"value {number}", number % 4) for number in range(len(keys))]
    stages = [Stage(2, backend, rows, [1, 2, 3]), Stage(3, backend, rows[:2], []), Stage(1, backend, [], [])]
    run(Case(Shape(kind, "string", 7), list(keys.values()), stages, [False, True], False))


@pytest.mark.parametrize("kind", [TRIPLE], ids=str)
def test_keys_at_the_edge_move(kind: pa.DataType) -> None:
    move(kind, "tiny cache")


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["memory", "tiny cache"])
@pytest.mark.parametrize("kind", KEYS, ids=str)
def test_every_type_of_key_moves(kind: pa.DataType, backend: str) -> None:
    move(kind, backend)
