"""Joins, deduplicate and top-n against plain Python: any rows, cut anywhere, with restores in between."""

from __future__ import annotations

import itertools
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import cloudpickle
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snapline.contracts.operator import Operator, OperatorContext
from snapline.operators.deduplication import KeepFirst, KeepLast
from snapline.operators.joins.interval_join import Interval, JoinIntervals
from snapline.operators.joins.join_rows import JoinLayout
from snapline.operators.joins.lookup_join import LookUp, StaticTable
from snapline.operators.joins.regular_join import JoinStreams
from snapline.operators.joins.window_join import JoinWindows
from snapline.operators.kept_rows import RowType
from snapline.operators.top_rows import TopRows
from snapline.operators.windows.window_assigners import FixedAssigner
from snapline.protocol.keygroups import KeyGroupRange
from snapline.protocol.restore.restore_plan import RestoreVertex, plan_restore
from snapline.protocol.snapshot import OperatorState, Snapshot
from snapline.state.keyed_backend import KeyedBackend
from snapline.state.memory_backend import MemoryBackend
from snapline.state.operator_state import OperatorStates
from snapline.state.rocksdb.rocksdb_backend import RocksDbBackend
from snapline.state.subtask_states import SubtaskStates
from snapline.storage.objects.memory_objects import MemoryObjects
from snapline.storage.snapshot_reader import SnapshotReader
from snapline.storage.snapshot_writer import SnapshotWriter
from snapline.types import MAX_WATERMARK, SnapshotKind, SubtaskId

UID = "it"
ALL_GROUPS = KeyGroupRange(0, 127)
HOWS = {"inner": (False, False), "left": (True, False), "right": (False, True), "full": (True, True)}
BACKENDS = ("memory", pytest.param("rocksdb", marks=pytest.mark.slow))
CASES = (*((how, "memory") for how in HOWS), pytest.param("full", "rocksdb", marks=pytest.mark.slow))

KEY = pa.string()
LEFT = pa.schema([("k", KEY), ("t", pa.int64()), ("v", pa.int64())])
RIGHT = pa.schema([("k", KEY), ("t", pa.timestamp("us")), ("name", pa.string())])

EXAMPLES = 8

Event = tuple[Any, ...]
Row = tuple[Any, ...]


@dataclass
class Running:
    """An operator the way a task runs it, on one backend; `restart` lets a copy go on from a snapshot."""

    operator: Operator
    backend: str
    directory: Path
    emitted: list[pa.RecordBatch] = field(default_factory=list)
    watermarks: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._objects = MemoryObjects()
        self._numbers = itertools.count(1)
        self._pristine = cloudpickle.dumps(self.operator)
        self._open(SubtaskStates(OperatorStates(UID, 0), self._keyed()))

    def process(self, batch: pa.RecordBatch, side: int = 0) -> None:
        self.operator.process(batch, side)

    def rows(self) -> list[Row]:
        """What was emitted since the last call."""
        rows = [tuple(row.values()) for batch in self.emitted for row in batch.to_pylist()]
        self.emitted.clear()
        return rows

    def restart(self) -> None:
        number = next(self._numbers)
        self.operator.prepare_snapshot(number)
        self.operator.snapshot(number)
        target = SnapshotWriter(
            self._objects, f"/chk-{number}", "/shared", attempt=1, checkpoint_id=number, uid=UID, subtask=0
        )
        written = self._states.snapshot().write(target)
        state = OperatorState(UID, parallelism=1, max_parallelism=128, subtasks={0: written.state})
        snapshot = Snapshot(number, SnapshotKind.CHECKPOINT, 1, 0, f"/chk-{number}", {UID: state})
        self.close()
        states = SubtaskStates(OperatorStates(UID, 0), self._keyed())
        plan = plan_restore(snapshot, [RestoreVertex(UID, 1, (UID,))], [])
        states.restore(plan.subtasks[SubtaskId(UID, 0)][UID], SnapshotReader(self._objects))
        self.operator = cloudpickle.loads(self._pristine)
        self._open(states)

    def timers_left(self) -> int:
        assert self._states.keyed is not None
        return len(self._states.keyed.timers(namespace=pa.int64()))

    def close(self) -> None:
        self.operator.close()
        self._states.close()

    def _keyed(self) -> KeyedBackend:
        options: dict[str, Any] = {"max_parallelism": 128, "key_groups": ALL_GROUPS, "clock": lambda: 0, "uid": UID}
        if self.backend == "memory":
            return MemoryBackend(KEY, **options)
        return RocksDbBackend(
            KEY, directory=self.directory / f"{next(self._numbers)}", max_cached_entries=10, **options
        )

    def _open(self, states: SubtaskStates) -> None:
        self._states = states
        values: dict[str, Any] = {
            **{item.name: None for item in fields(OperatorContext)},
            "uid": UID,
            "key_columns": ("k",),
            "states": states,
            "emit": self.emitted.append,
            "emit_to": lambda output, batch: None,
            "emit_watermark": self.watermarks.append,
        }
        self.operator.open(OperatorContext(**values))


@contextmanager
def running(operator: Operator, backend: str) -> Iterator[Running]:
    with tempfile.TemporaryDirectory() as directory:
        one = Running(operator, backend, Path(directory))
        try:
            yield one
        finally:
            one.close()


keys = st.sampled_from("abc")
times = st.integers(-300, 900)
left_rows = st.lists(st.tuples(keys, times, st.integers(0, 3)), max_size=6)
right_rows = st.lists(st.tuples(keys, times, st.sampled_from(["x", "y", None])), max_size=6)
restarts = st.just(("restart",))
batches = st.one_of(st.tuples(st.just(0), left_rows), st.tuples(st.just(1), right_rows))
timeless = st.lists(st.one_of(batches, batches, batches, restarts), max_size=12)
timed = st.lists(
    st.one_of(batches, batches, batches, st.tuples(st.just("watermark"), st.integers(-400, 1000)), restarts),
    max_size=14,
)


def batch_of(side: int, rows: list[Row]) -> pa.RecordBatch:
    schema = RIGHT if side else LEFT
    columns: list[Any] = [list(column) for column in zip(*rows, strict=True)] or [[], [], []]
    if side:
        columns[1] = pa.array([time * 1000 for time in columns[1]], pa.int64()).view(pa.timestamp("us"))
    return pa.RecordBatch.from_arrays(
        [pa.array(column, kind.type) for column, kind in zip(columns, schema, strict=True)], schema=schema
    )


def layout(*added: pa.Field) -> JoinLayout:
    schema = pa.schema([*LEFT, ("t_right", pa.timestamp("us")), ("name", pa.string()), *added])
    return JoinLayout((RowType(LEFT, ("k",)), RowType(RIGHT, ("k",))), schema, tuple(range(len(schema))))


def plain(row: Row) -> Row:
    """Right times as the numbers they were made of."""
    time = row[3]
    return (*row[:3], None if time is None else round(time.timestamp() * 1000), *row[4:])


def joined(left: Row | None, right: Row | None) -> Row:
    key = left[0] if left else right[0] if right else None
    return (key, *(left[1:] if left else (None, None)), *(right[1:] if right else (None, None)))


def expected(how: str, lefts: list[Row], rights: list[Row], matches: Callable[[Row, Row], bool]) -> Counter[Row]:
    """All pairs, and those rows without one that are to come out too."""
    result: Counter[Row] = Counter()
    met: set[int] = set()
    for left in lefts:
        found = [number for number, right in enumerate(rights) if left[0] == right[0] and matches(left, right)]
        result.update(joined(left, rights[number]) for number in found)
        met.update(found)
        if HOWS[how][0] and not found:
            result[joined(left, None)] += 1
    if HOWS[how][1]:
        result.update(joined(None, right) for number, right in enumerate(rights) if number not in met)
    return result


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> None:
    """Timestamps without a zone are read as UTC."""
    monkeypatch.setenv("TZ", "UTC")


CONDITION = (pc.field("v") > 0) & (pc.field("name") == "x")


@pytest.mark.parametrize("where", [None, CONDITION])
@pytest.mark.parametrize(("how", "backend"), CASES)
@given(events=timeless)
@settings(max_examples=EXAMPLES)
def test_joins_of_all_rows(how: str, where: Any, backend: str, events: list[Event]) -> None:
    padded = HOWS[how]
    added = [pa.field("change", pa.string())] if any(padded) else []
    result: Counter[Row] = Counter()
    seen: tuple[list[Row], list[Row]] = [], []

    def matches(left: Row, right: Row) -> bool:
        return where is None or (left[2] > 0 and right[2] == "x")

    with running(JoinStreams(layout(*added), padded, where=where), backend) as join:
        for event in events:
            if event == ("restart",):
                join.restart()
                continue
            side, rows = event
            join.process(batch_of(side, rows), side)
            seen[side].extend(rows)
            for row in map(plain, join.rows()):
                if added and row[-1] == "delete":
                    assert result[row[:-1]] > 0, "what was never there is taken back"
                    result[row[:-1]] -= 1
                else:
                    result[row[:-1] if added else row] += 1
            # At each moment, not only in the end.
            assert +result == expected(how, *seen, matches)


@pytest.mark.parametrize(("how", "backend"), CASES)
@given(events=timed, bounds=st.tuples(st.integers(-300, 300), st.integers(-300, 300)).map(sorted))
@settings(max_examples=EXAMPLES)
def test_interval_joins(how: str, backend: str, events: list[Event], bounds: list[int]) -> None:
    lower, upper = bounds
    result: Counter[Row] = Counter()
    seen: tuple[list[Row], list[Row]] = [], []
    watermark = -MAX_WATERMARK
    operator = JoinIntervals(layout(), Interval(lower, upper), ("t", "t"), HOWS[how])
    with running(operator, backend) as join:
        for event in [*events, ("watermark", MAX_WATERMARK)]:
            if event == ("restart",):
                join.restart()
                continue
            gone_on = max(join.watermarks, default=-MAX_WATERMARK)
            if event[0] == "watermark":
                watermark = max(watermark, event[1])
                join.operator.watermark(watermark)
            else:
                side, rows = event
                join.process(batch_of(side, rows), side)
                seen[side].extend(row for row in rows if row[1] > watermark)
            for row in map(plain, join.rows()):
                result[row] += 1
                assert min(time for time in (row[1], row[3]) if time is not None) > gone_on, "late behind the join"
        assert result == expected(how, *seen, lambda left, right: lower <= right[1] - left[1] <= upper)
        join.restart()
        assert join.timers_left() == 0, "something was not forgotten"


@pytest.mark.parametrize(("how", "backend"), CASES[:-1])
@given(events=timed, window=st.sampled_from([(100, 100, 0), (200, 100, 50), (250, 100, 0), (100, 150, 7)]))
@settings(max_examples=EXAMPLES)
def test_window_joins(how: str, backend: str, events: list[Event], window: tuple[int, int, int]) -> None:
    size, every, offset = window
    bounds = [pa.field("window_start", pa.int64()), pa.field("window_end", pa.int64())]
    windows: dict[int, tuple[list[Row], list[Row]]] = {}
    result: Counter[Row] = Counter()
    watermark = -MAX_WATERMARK
    operator = JoinWindows(layout(*bounds), FixedAssigner(size, every, offset), ("t", "t"), HOWS[how])
    with running(operator, backend) as join:
        for event in [*events, ("watermark", MAX_WATERMARK)]:
            if event == ("restart",):
                join.restart()
                continue
            if event[0] == "watermark":
                watermark = max(watermark, event[1])
                join.operator.watermark(watermark)
            else:
                side, rows = event
                join.process(batch_of(side, rows), side)
                for row in rows:
                    first = -2000 // every * every + offset
                    for start in range(first, 2000, every):
                        if start <= row[1] < start + size and start + size - 1 > watermark:
                            windows.setdefault(start, ([], []))[side].append(row)
            result.update(map(plain, join.rows()))
    total: Counter[Row] = Counter()
    for start, sides in windows.items():
        inside = expected(how, *sides, lambda left, right: True)
        total.update({(*row, start, start + size): count for row, count in inside.items()})
    assert result == total


numbered = st.lists(st.tuples(keys, st.one_of(st.none(), times), st.integers(0, 3)), max_size=8)
batches_of_one = st.lists(st.one_of(st.tuples(st.just(0), numbered), restarts), max_size=8)


@given(events=batches_of_one)
@settings(max_examples=EXAMPLES)
def test_the_first_row_of_each_key(events: list[Event]) -> None:
    seen: set[str] = set()
    with running(KeepFirst(), "memory") as first:
        for event in events:
            if event == ("restart",):
                first.restart()
                continue
            first.process(batch_of(0, event[1]))
            wanted = []
            for row in event[1]:
                if row[0] not in seen:
                    seen.add(row[0])
                    wanted.append(row)
            assert first.rows() == wanted


@pytest.mark.parametrize("by", ["t", "tv", "vt", ""])
@given(events=batches_of_one)
@settings(max_examples=EXAMPLES)
def test_the_newest_row_of_each_key(by: str, events: list[Event]) -> None:
    newest: dict[str, Row] = {}
    result: dict[str, Row] = {}
    with running(KeepLast([LEFT.field(name) for name in by]), "memory") as last:
        for event in events:
            if event == ("restart",):
                last.restart()
                continue
            last.process(batch_of(0, event[1]))
            for row in event[1]:
                before = newest.get(row[0])
                if before is None or _times(row, by) >= _times(before, by):
                    newest[row[0]] = row
            rows = last.rows()
            assert len({row[0] for row in rows}) == len(rows)
            result.update({row[0]: row for row in rows})
            assert result == newest


def _times(row: Row, by: str) -> list[float]:
    values = [row[LEFT.names.index(name)] for name in by]
    return [float("-inf") if value is None else float(value) for value in values]


@pytest.mark.parametrize("backend", BACKENDS)
@given(events=batches_of_one, count=st.integers(1, 4), down=st.tuples(st.booleans(), st.booleans()))
@settings(max_examples=EXAMPLES)
def test_the_best_rows_of_each_key(backend: str, events: list[Event], count: int, down: tuple[bool, bool]) -> None:
    schema = LEFT.append(pa.field("rank", pa.int64()))
    operator = TopRows(count, [("v", down[0]), ("t", down[1])], RowType(LEFT, ("k",)), schema, "rank")
    seen: dict[str, list[Row]] = {}
    result: dict[tuple[str, int], Row] = {}

    def order(row: Row) -> tuple[Any, ...]:
        time = (1, 0) if row[1] is None else (0, -row[1] if down[1] else row[1])
        return (-row[2] if down[0] else row[2], *time)

    with running(operator, backend) as top:
        for event in events:
            if event == ("restart",):
                top.restart()
                continue
            top.process(batch_of(0, event[1]))
            for row in event[1]:
                seen.setdefault(row[0], []).append(row)
            rows = top.rows()
            assert len({(row[0], row[-1]) for row in rows}) == len(rows)
            result.update({(row[0], row[-1]): row[:-1] for row in rows})
            assert result == {
                (key, rank): row
                for key, of_key in seen.items()
                for rank, row in enumerate(sorted(of_key, key=order)[:count], 1)
            }


nullable_rows = st.lists(st.tuples(st.one_of(st.none(), keys), times, st.integers(0, 3)), max_size=8)


@pytest.mark.parametrize("keeps_all", [False, True])
@given(rows=nullable_rows, table=nullable_rows)
def test_lookups(keeps_all: bool, rows: list[Row], table: list[Row]) -> None:
    static = StaticTable(pa.Table.from_batches([batch_of(0, table)]), ["k"])
    schema = pa.schema([*LEFT, ("t_right", pa.int64()), ("v_right", pa.int64())])
    with running(LookUp(static, ["k"], schema, keeps_all=keeps_all), "memory") as lookup:
        lookup.process(batch_of(0, rows))
        result = Counter(lookup.rows())
    wanted: Counter[Row] = Counter()
    for row in rows:
        found = [(*row, *other[1:]) for other in table if row[0] is not None and other[0] == row[0]]
        wanted.update(found or ([(*row, None, None)] if keeps_all else []))
    assert result == wanted
