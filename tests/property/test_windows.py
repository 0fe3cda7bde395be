"""Windows and running aggregates against plain Python: any rows, batches, watermarks, restores and parallelisms."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import snapline as sl
from snapline.contracts.operator import Operator, OperatorContext
from snapline.protocol.keygroups import KeyGroupRange, key_group_range
from snapline.protocol.restore.restore_plan import RestoreVertex, plan_restore
from snapline.protocol.snapshot import OperatorState, Snapshot
from snapline.state.memory_backend import MemoryBackend
from snapline.state.operator_state import OperatorStates
from snapline.state.stable_hash import hash_columns, key_groups
from snapline.state.subtask_states import SubtaskStates
from snapline.storage.objects.memory_objects import MemoryObjects
from snapline.storage.snapshot_reader import SnapshotReader
from snapline.storage.snapshot_writer import SnapshotWriter
from snapline.types import MAX_WATERMARK, SnapshotKind, SubtaskId

SCHEMA = pa.schema([("key", pa.string()), ("time", pa.int64()), ("value", pa.int64())])
GROUPS = 128
Row = tuple[str, int, "int | None"]


class NoRows(sl.Source):
    @property
    def schema(self) -> pa.Schema:
        return SCHEMA

    @property
    def is_bounded(self) -> bool:
        return True

    def splits(self, parallelism: int) -> list[Any]:
        return []

    def reader(self, context: sl.ReaderContext) -> sl.SourceReader:
        raise AssertionError("never read")


def keyed() -> sl.KeyedStream:
    source = sl.Job("test").source(NoRows(), "rows", watermarks=sl.Watermarks("time"))
    return source.key_by("key")


def _nothing(*_: Any) -> None:
    pass


class Subtasks:
    """An operator in some subtasks, which can be saved and restored at another parallelism."""

    def __init__(self, stream: sl.Stream) -> None:
        self._pickled = pickle.dumps(stream._inputs[0].node.operator)
        self._emitted: list[pa.RecordBatch] = []
        self._late: list[pa.RecordBatch] = []
        self._number = 0
        self._objects = MemoryObjects()
        self._start(1, None)

    def _start(self, parallelism: int, snapshot: Snapshot | None) -> None:
        self._subtasks: list[tuple[Operator, SubtaskStates, KeyGroupRange]] = []
        for subtask in range(parallelism):
            groups = key_group_range(GROUPS, parallelism, subtask)
            backend = MemoryBackend("string", max_parallelism=GROUPS, key_groups=groups, clock=lambda: 0, uid="it")
            states = SubtaskStates(OperatorStates("it", subtask), backend)
            if snapshot is not None:
                plan = plan_restore(snapshot, [RestoreVertex("it", parallelism, ("it",), GROUPS)], [])
                states.restore(plan.subtasks[SubtaskId("it", subtask)]["it"], SnapshotReader(self._objects))
            operator: Operator = pickle.loads(self._pickled)
            operator.open(self._context(states, subtask, parallelism))
            self._subtasks.append((operator, states, groups))

    def _context(self, states: SubtaskStates, subtask: int, parallelism: int) -> OperatorContext:
        # What is not used here does nothing.
        values: dict[str, Any] = {item.name: _nothing for item in fields(OperatorContext)}
        values |= {
            "job_id": "job",
            "uid": "it",
            "subtask": subtask,
            "parallelism": parallelism,
            "key_columns": ("key",),
            "states": states,
            "clock": lambda: 0,
            "emit": self._emitted.append,
            "emit_to": lambda _, batch: self._late.append(batch),
        }
        return OperatorContext(**values)

    def process(self, rows: list[Row]) -> None:
        columns = [list(column) for column in zip(*rows, strict=True)] or [[], [], []]
        batch = pa.record_batch([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)
        owners = key_groups(hash_columns([batch.column("key")]), GROUPS)
        for operator, _, groups in self._subtasks:
            operator.process(batch.filter(pa.array((owners >= groups.start) & (owners <= groups.end))), 0)

    def watermark(self, timestamp_ms: int) -> None:
        for operator, _, _ in self._subtasks:
            operator.watermark(timestamp_ms)

    def restart(self, parallelism: int) -> None:
        self._number += 1
        parts = {}
        for subtask, (operator, states, _) in enumerate(self._subtasks):
            operator.prepare_snapshot(self._number)
            target = SnapshotWriter(
                self._objects,
                "/job/chk",
                "/job/shared",
                attempt=self._number,
                checkpoint_id=self._number,
                uid="it",
                subtask=subtask,
            )
            operator.snapshot(self._number)
            parts[subtask] = states.snapshot().write(target).state
        state = OperatorState("it", parallelism=len(self._subtasks), max_parallelism=GROUPS, subtasks=parts)
        snapshot = Snapshot(self._number, SnapshotKind.CHECKPOINT, 1, 0, "/job/chk", {"it": state})
        self._start(parallelism, snapshot)

    def finish(self) -> None:
        for operator, _, _ in self._subtasks:
            operator.finish()

    def emitted(self) -> list[dict[str, Any]]:
        rows = [row for batch in self._emitted for row in batch.to_pylist()]
        self._emitted.clear()
        return rows

    def late(self) -> list[Row]:
        rows = [tuple(row.values()) for batch in self._late for row in batch.to_pylist()]
        self._late.clear()
        return rows

    def timers_left(self) -> int:
        """How many timers there are still."""
        count = 0
        for _, states, _ in self._subtasks:
            assert states.keyed is not None
            count += len(states.keyed.timers(pa.int64()))
        return count


class Squares:
    """The sum of squares, in an accumulator that is changed in place."""

    def create(self) -> list[int]:
        return [0]

    def add(self, accumulator: list[int], value: int) -> list[int]:
        accumulator[0] += value * value
        return accumulator

    def merge(self, accumulator: list[int], other: list[int]) -> list[int]:
        other[0] += accumulator[0]
        return other

    def result(self, accumulator: list[int]) -> int:
        return accumulator[0]


# What is in a window, in plain Python.

AGGREGATES = {
    "n": sl.count(),
    "valid": sl.count("value"),
    "total": sl.sum("value"),
    "least": sl.min("value"),
    "most": sl.max("value", where=pc.field("value") < 5),
    "average": sl.mean("value"),
    "different": sl.count_distinct("value"),
    "best": sl.top_n("value", 2),
    "small": sl.count(where=pc.field("value") < 3),
    "squares": sl.aggregate(Squares(), "value", type=pa.int64()),
    "everything": sl.collect("value"),
}
IN_ORDER = {"first": sl.first("value"), "last": sl.last("value"), "some": sl.collect("value", 3)}


def expected(values: list[int | None], names: Iterable[str]) -> dict[str, Any]:
    valid = [value for value in values if value is not None]
    below = [value for value in valid if value < 5]
    found = {
        "squares": sum(value * value for value in valid) if valid else None,
        "everything": valid,
        "n": len(values),
        "valid": len(valid),
        "total": sum(valid) if valid else None,
        "least": min(valid, default=None),
        "most": max(below, default=None),
        "average": sum(valid) / len(valid) if valid else None,
        "different": len(set(valid)),
        "best": sorted(valid, reverse=True)[:2],
        "small": sum(value < 3 for value in valid),
        "first": valid[0] if valid else None,
        "last": valid[-1] if valid else None,
        "some": valid[:3],
    }
    return {name: found[name] for name in names}


@dataclass
class Window:
    start: int
    end: int
    values: list[int | None] = field(default_factory=list)
    has_fired: bool = False


@dataclass
class Model:
    """Windows of keys. `merges` for sessions."""

    assign: Callable[[int], list[tuple[int, int]]]
    names: list[str]
    lateness: int = 0
    merges: bool = False
    watermark: int = -MAX_WATERMARK
    windows: dict[str, list[Window]] = field(default_factory=dict)

    def process(self, rows: list[Row]) -> tuple[list[dict[str, Any]], list[Row]]:
        late, touched = [], []
        for key, time, value in rows:
            known = self.windows.setdefault(key, [])
            spans = self.assign(time)
            open_spans = [span for span in spans if span[1] - 1 + self.lateness > self.watermark]
            if spans and not open_spans:
                late.append((key, time, value))
            for span in open_spans:
                window = self._find(known, span)
                window.values.append(value)
                touched.append((key, window))
        fired = []
        for key, windows in self.windows.items():
            for window in windows:
                if any(item[1] is window for item in touched):
                    window.has_fired = window.end - 1 <= self.watermark
                    if window.has_fired:
                        fired.append(self._row(key, window))
        return fired, late

    def _find(self, known: list[Window], span: tuple[int, int]) -> Window:
        start, end = span
        if self.merges:
            alike = [window for window in known if window.start <= end and start <= window.end]
        else:
            alike = [window for window in known if (window.start, window.end) == span]
        merged = Window(min([start, *(w.start for w in alike)]), max([end, *(w.end for w in alike)]))
        merged.values = [value for window in alike for value in window.values]
        for window in alike:
            known.remove(window)
        known.append(merged)
        return merged

    def advance(self, watermark: int) -> list[dict[str, Any]]:
        self.watermark = watermark
        fired = []
        for key, windows in self.windows.items():
            for window in windows:
                if window.end - 1 <= watermark and not window.has_fired:
                    window.has_fired = True
                    fired.append(self._row(key, window))
            windows[:] = [window for window in windows if window.end - 1 + self.lateness > watermark]
        return fired

    def _row(self, key: str, window: Window) -> dict[str, Any]:
        return {
            "key": key,
            "window_start": window.start,
            "window_end": window.end,
            **expected(window.values, self.names),
        }


def sliding(size: int, every: int) -> Callable[[int], list[tuple[int, int]]]:
    def assign(time: int) -> list[tuple[int, int]]:
        last = time - time % every
        starts = range(last, time - size, -every)
        return [(start, start + size) for start in starts]

    return assign


rows = st.lists(st.tuples(st.sampled_from("abcde"), st.integers(-30, 60), st.none() | st.integers(-2, 9)), max_size=12)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("rows"), rows),
        st.tuples(st.just("watermark"), st.integers(1, 25)),
        st.tuples(st.just("restart"), st.integers(1, 3)),
    ),
    max_size=14,
)


def as_counter(found: list[dict[str, Any]]) -> Counter[str]:
    """Rows in any order. Of slices and sessions values do not come in order, so that of `everything` is left out."""
    return Counter(repr(sorted((row | {"everything": sorted(row["everything"])}).items())) for row in found)


def check(windowed: sl.WindowedStream, model: Model, aggregates: dict[str, Any], todo: list[Any]) -> None:
    subtasks = Subtasks(windowed.late_output("late").aggregate(uid="w", **aggregates))
    now, is_restarted = -30, False
    for step, argument in todo:
        if step == "rows":
            # Until the first watermark after a restart only rows that were not late before it tell the same.
            batch = [row for row in argument if not is_restarted or row[1] > now]
            subtasks.process(batch)
            fired, late = model.process(batch)
            assert as_counter(subtasks.emitted()) == as_counter(fired)
            assert sorted(map(repr, subtasks.late())) == sorted(map(repr, late))
        elif step == "watermark":
            now, is_restarted = now + argument, False
            subtasks.watermark(now)
            assert as_counter(subtasks.emitted()) == as_counter(model.advance(now))
        else:
            subtasks.restart(argument)
            is_restarted = model.watermark > -MAX_WATERMARK
    subtasks.watermark(MAX_WATERMARK)
    assert as_counter(subtasks.emitted()) == as_counter(model.advance(MAX_WATERMARK))
    assert subtasks.timers_left() == 0


@pytest.mark.slow
@settings(max_examples=15)
@given(st.integers(1, 25), st.sampled_from([0, 0, 7, 40]), steps)
def test_tumbling_windows(size: int, lateness: int, todo: list[Any]) -> None:
    windowed = keyed().window(sl.Tumbling(f"{size}ms")).allowed_lateness(f"{lateness}ms")
    aggregates = AGGREGATES | IN_ORDER
    check(windowed, Model(sliding(size, size), list(aggregates), lateness), aggregates, todo)


@pytest.mark.slow
@settings(max_examples=25)
@given(st.integers(1, 20), st.integers(1, 12), st.sampled_from([0, 0, 7, 40]), st.booleans(), steps)
def test_sliding_windows(size: int, every: int, lateness: int, is_copied: bool, todo: list[Any]) -> None:
    windowed = keyed().window(sl.Sliding(f"{size}ms", every=f"{every}ms")).allowed_lateness(f"{lateness}ms")
    if is_copied:
        windowed = windowed.trigger(sl.WhenComplete(early_rows=1000))
    check(windowed, Model(sliding(size, every), list(AGGREGATES), lateness), AGGREGATES, todo)


@pytest.mark.slow
@settings(max_examples=25)
@given(st.integers(1, 12), st.sampled_from([0, 0, 7, 40]), steps)
def test_sessions(gap: int, lateness: int, todo: list[Any]) -> None:
    windowed = keyed().window(sl.Session(f"{gap}ms")).allowed_lateness(f"{lateness}ms")
    model = Model(lambda time: [(time, time + gap)], list(AGGREGATES), lateness, merges=True)
    check(windowed, model, AGGREGATES, todo)


@pytest.mark.slow
@settings(max_examples=20)
@given(st.booleans(), steps)
def test_running_aggregates(is_at_intervals: bool, todo: list[Any]) -> None:
    aggregates: dict[str, Any] = AGGREGATES | IN_ORDER
    stream = keyed().aggregate(uid="a", emit_every="1s" if is_at_intervals else None, **aggregates)
    subtasks = Subtasks(stream)
    values: dict[str, list[int | None]] = {}
    changed: set[str] = set()

    def check_changed() -> None:
        found = subtasks.emitted()
        assert as_counter(found) == as_counter([{"key": key, **expected(values[key], aggregates)} for key in changed])
        changed.clear()

    for step, argument in todo:
        if step == "rows":
            subtasks.process(argument)
            for key, _, value in argument:
                values.setdefault(key, []).append(value)
                changed.add(key)
            if is_at_intervals:
                assert subtasks.emitted() == []
            else:
                check_changed()
        elif step == "restart":
            subtasks.restart(argument)
            check_changed()
    subtasks.finish()
    check_changed()


def test_the_model_itself() -> None:
    model = Model(sliding(10, 5), ["n"])
    assert sorted(sliding(10, 5)(12)) == [(5, 15), (10, 20)]
    assert model.process([("a", 12, 1)]) == ([], [])
    assert model.advance(14) == [{"key": "a", "window_start": 5, "window_end": 15, "n": 1}]
    assert model.process([("a", 3, 1)]) == ([], [("a", 3, 1)])
