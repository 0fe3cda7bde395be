"""Row functions against plain dicts: batches, timers, failures, restores, rescaling and both backends in any order.

Every row carries a little program for the states of its key; what it reads is emitted and must be what dicts would say.
"""

from __future__ import annotations

import copy
import json
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import snapline as sl
from snapline.errors import UserCodeError
from snapline.operators import row_timers
from snapline.operators.process_functions import FunctionInput, FunctionOutputs, Process
from snapline.protocol.keygroups import KeyGroupRange
from snapline.protocol.restore.restore_plan import RestoreVertex, plan_restore
from snapline.protocol.snapshot import OperatorState, Snapshot
from snapline.state import map_tables, selection
from snapline.state.keyed_backend import KeyedBackend
from snapline.state.memory_backend import MemoryBackend
from snapline.state.operator_state import OperatorStates
from snapline.state.rocksdb.rocksdb_backend import RocksDbBackend
from snapline.state.stable_hash import hash_columns, key_groups
from snapline.state.subtask_states import SubtaskStates
from snapline.storage.objects.memory_objects import MemoryObjects
from snapline.storage.snapshot_reader import SnapshotReader
from snapline.storage.snapshot_writer import SnapshotWriter
from snapline.testing import ManualClock
from snapline.testing.operator_harness import OperatorHarness
from snapline.types import SnapshotKind, SubtaskId

ROWS = pa.schema([("user", pa.string()), ("program", pa.string())])
OUT = pa.schema([("user", pa.string()), ("told", pa.string())])
TTL_MS = 100
NESTED = "x BIGINT, tags ARRAY<STRING>"
USERS = [f"user {number}" for number in range(4)]

Told = dict[str, list[Any]]


class Mean:
    def create(self) -> dict[str, int]:
        return {"n": 0, "s": 0}

    def add(self, accumulator: dict[str, int], value: int) -> dict[str, int]:
        return {"n": accumulator["n"] + 1, "s": accumulator["s"] + value}

    def result(self, accumulator: dict[str, int]) -> int:
        return accumulator["s"] // accumulator["n"]


class Programs(sl.ProcessFunction):
    """Runs the program of each row on the states of its key."""

    def open(self, context: sl.ProcessContext) -> None:
        self.number = context.value_state("number", int, default=0)
        self.nested = context.value_state("nested", NESTED)
        self.thing = context.value_state("thing")
        self.brief = context.value_state("brief", int, ttl="100ms")
        self.counts = context.map_state("counts", str, int)
        self.things = context.map_state("things", int, NESTED)
        self.briefs = context.map_state("briefs", float, str, ttl="100ms")
        self.items = context.list_state("items", int)
        self.notes = context.list_state("notes", NESTED)
        self.sum = context.reducing_state("sum", int, "sum")
        self.mean = context.aggregating_state("mean", Mean(), "n BIGINT, s BIGINT")

    def process(self, row: dict[str, Any], context: sl.ProcessContext) -> None:
        told = []
        for name, value in json.loads(row["program"]):
            if name == "fail":
                raise ValueError("as the program says")
            told.append(getattr(self, f"do_{name}")(value, context))
        context.emit({"user": row["user"], "told": json.dumps(told)})

    def on_timer(self, time_ms: int, context: sl.ProcessContext) -> None:
        self.number.set(self.number.get() + 1)
        self.counts.put("timer", self.counts.get("timer", 0) + 1)
        if time_ms % 3 == 0:
            context.set_event_timer(time_ms + 4)
        if time_ms % 5 == 0:
            context.delete_event_timer(time_ms + 1)
        context.emit({"user": context.key, "told": json.dumps([time_ms, self.number.get(), self.counts.get("timer")])})

    def do_number(self, value: int, _: Any) -> Any:
        before = self.number.get()
        self.number.set(None if value == 0 else before + value)
        return before

    def do_nested(self, value: int, _: Any) -> Any:
        before = self.nested.get() or {"x": 0, "tags": []}
        told = copy.deepcopy(before)
        before["tags"].append(str(value))
        before["x"] += value
        if value % 4:  # else the change of what was read has no effect
            self.nested.set(before)
            before["tags"].append("too late")
        return told

    def do_thing(self, value: int, _: Any) -> Any:
        before = self.thing.get()
        self.thing.set({"list": [value, before["list"][0] if before else None]})
        return None if before is None else before["list"]

    def do_brief(self, value: int, _: Any) -> Any:
        before = self.brief.get()
        if value % 2:
            self.brief.set(value)
        return before

    def do_counts(self, value: int, _: Any) -> Any:
        key = "é" * (value % 5)
        before = self.counts.get(key, -1)
        self.counts.put(key, None if value == 9 else value)
        return before

    def do_entries(self, value: int, _: Any) -> Any:
        if value == 9:
            self.counts.clear()
        if value == 8:
            self.counts.remove("é")
        return [len(self.counts), sorted(self.counts.items()), sorted(self.counts), "é" in self.counts]

    def do_things(self, value: int, _: Any) -> Any:
        before = self.things.get(value % 4)
        made: dict[str, Any] = {"x": value, "tags": [*(before["tags"] if before else []), "t"][-3:]}
        self.things.put(value % 4, made)
        made["tags"].clear()
        return before

    def do_many(self, value: int, _: Any) -> Any:
        for number in range(value * 6):
            self.things.put(number, {"x": number, "tags": []})
        return sorted(item["x"] for item in self.things.values())

    def do_briefs(self, value: int, _: Any) -> Any:
        key = (0.0, -0.0, float("nan"), 1.5)[value % 4]
        before = self.briefs.get(key)
        if value % 3:
            self.briefs.put(key, str(value))
        return [before, len(self.briefs)]

    def do_items(self, value: int, _: Any) -> Any:
        if value == 9:
            self.items.clear()
        elif value == 8:
            self.items.set(self.items.get()[-2:])
        elif value == 7:
            return [len(self.items), list(self.items)]
        else:
            self.items.extend([value] * (value % 3))
            self.items.add(value)
        return None

    def do_notes(self, value: int, _: Any) -> Any:
        note: dict[str, Any] = {"x": value, "tags": ["n"] * (value % 3)}
        self.notes.add(note)
        note["tags"].append("too late")
        return self.notes.get()[-3:]

    def do_sum(self, value: int, _: Any) -> Any:
        self.sum.add(value)
        self.mean.add(value)
        return [self.sum.get(), self.mean.get()]

    def do_batch(self, value: int, context: Any) -> Any:
        """Calls for a batch of keys, among those for one key."""
        self.number.put([context.key], [value])
        return [self.number.get(), self.counts.take([context.key], ["é"]).to_pylist()]

    def do_timer(self, value: int, context: Any) -> Any:
        context.set_event_timer(value * 3)

    def do_delete_timer(self, value: int, context: Any) -> Any:
        context.delete_event_timer(value * 3)


class Model:
    """The same in plain dicts. It is copied at a checkpoint."""

    def __init__(self) -> None:
        self.values: dict[str, dict[str, Any]] = defaultdict(dict)
        self.timers: set[tuple[int, str]] = set()
        self.watermark_ms = -1

    def run(self, user: str, program: list[tuple[str, int]], now_ms: int) -> list[Any]:
        made = [getattr(self, name)(self.values[user], value, now_ms, user) for name, value in program]
        return copy.deepcopy(made)

    def fire(self, until_ms: int) -> Iterator[tuple[str, list[Any]]]:
        self.watermark_ms = until_ms
        while due := sorted(timer for timer in self.timers if timer[0] <= until_ms):
            time_ms, user = due[0]
            self.timers.discard(due[0])
            states = self.values[user]
            states["number"] = states.get("number", 0) + 1
            counts = states.setdefault("counts", {})
            counts["timer"] = counts.get("timer", 0) + 1
            if time_ms % 3 == 0:
                self.timers.add((time_ms + 4, user))
            if time_ms % 5 == 0:
                self.timers.discard((time_ms + 1, user))
            yield user, [time_ms, states["number"], counts["timer"]]

    def number(self, states: Any, value: int, *_: Any) -> Any:
        before = states.get("number", 0)
        states["number"] = 0 if value == 0 else before + value
        return before

    def nested(self, states: Any, value: int, *_: Any) -> Any:
        before = copy.deepcopy(states.get("nested") or {"x": 0, "tags": []})
        if value % 4:
            states["nested"] = {"x": before["x"] + value, "tags": [*before["tags"], str(value)]}
        return before

    def thing(self, states: Any, value: int, *_: Any) -> Any:
        before = states.get("thing")
        states["thing"] = [value, before[0] if before else None]
        return before

    def brief(self, states: Any, value: int, now_ms: int, _: str) -> Any:
        before, at_ms = states.get("brief", (None, 0))
        if value % 2:
            states["brief"] = value, now_ms
        return before if at_ms > now_ms - TTL_MS else None

    def counts(self, states: Any, value: int, *_: Any) -> Any:
        counts, key = states.setdefault("counts", {}), "é" * (value % 5)
        before = counts.get(key, -1)
        counts.pop(key, None)
        if value != 9:
            counts[key] = value
        return before

    def entries(self, states: Any, value: int, *_: Any) -> Any:
        counts = states.setdefault("counts", {})
        if value == 9:
            counts.clear()
        if value == 8:
            counts.pop("é", None)
        return [len(counts), sorted(map(list, counts.items())), sorted(counts), "é" in counts]

    def things(self, states: Any, value: int, *_: Any) -> Any:
        things = states.setdefault("things", {})
        before = things.get(value % 4)
        things[value % 4] = {"x": value, "tags": [*(before["tags"] if before else []), "t"][-3:]}
        return before

    def many(self, states: Any, value: int, *_: Any) -> Any:
        things = states.setdefault("things", {})
        things.update({number: {"x": number, "tags": []} for number in range(value * 6)})
        return sorted(item["x"] for item in things.values())

    def briefs(self, states: Any, value: int, now_ms: int, _: str) -> Any:
        briefs, key = states.setdefault("briefs", {}), ("zero", "zero", "nan", "other")[value % 4]
        for name, (_, at_ms) in list(briefs.items()):
            if at_ms <= now_ms - TTL_MS:
                del briefs[name]
        before = briefs.get(key, (None, 0))[0]
        if value % 3:
            briefs[key] = str(value), now_ms
        return [before, len(briefs)]

    def items(self, states: Any, value: int, *_: Any) -> Any:
        items = states.setdefault("items", [])
        if value == 9:
            items.clear()
        elif value == 8:
            items[:] = items[-2:]
        elif value == 7:
            return [len(items), list(items)]
        else:
            items += [value] * (value % 3 + 1)
        return None

    def notes(self, states: Any, value: int, *_: Any) -> Any:
        notes = states.setdefault("notes", [])
        notes.append({"x": value, "tags": ["n"] * (value % 3)})
        return notes[-3:]

    def sum(self, states: Any, value: int, *_: Any) -> Any:
        numbers = states.setdefault("numbers", [])
        numbers.append(value)
        return [sum(numbers), sum(numbers) // len(numbers)]

    def batch(self, states: Any, value: int, *_: Any) -> Any:
        states["number"] = value
        return [value, [states.setdefault("counts", {}).get("é")]]

    def timer(self, states: Any, value: int, _: int, user: str) -> Any:
        self.timers.add((value * 3, user))

    def delete_timer(self, states: Any, value: int, _: int, user: str) -> Any:
        self.timers.discard((value * 3, user))


class Cluster:
    """The subtasks of the operator, and its last checkpoint."""

    def __init__(self, directory: Path) -> None:
        self.clock = ManualClock(1_000)
        self._directory = directory
        self._objects = MemoryObjects()
        self._number = 0
        self._snapshot: Snapshot | None = None
        self._is_native = False
        self.tasks: list[OperatorHarness] = []

    def start(self, parallelism: int, *, rocksdb: bool) -> None:
        """Start from the last checkpoint, if there is one."""
        self.stop()
        bounds = [128 * number // parallelism for number in range(parallelism + 1)]
        plan = None
        if self._snapshot is not None:
            plan = plan_restore(self._snapshot, [RestoreVertex("it", parallelism, ("it",))], [])
        for subtask in range(parallelism):
            self._number += 1
            groups = KeyGroupRange(bounds[subtask], bounds[subtask + 1] - 1)
            states = SubtaskStates(OperatorStates("it", subtask, parallelism), self._backend(groups, rocksdb))
            if plan is not None:
                states.restore(plan.subtasks[SubtaskId("it", subtask)]["it"], SnapshotReader(self._objects))
            operator = Process(
                Programs(),
                [FunctionInput(("user",), None)],
                FunctionOutputs(OUT, {}),
                has_uid=True,
                has_event_time=True,
            )
            options: dict[str, Any] = {"key_columns": ("user",), "subtask": subtask, "parallelism": parallelism}
            task = OperatorHarness(operator, states=states, clock=self.clock, **options)
            task.open()
            self.tasks.append(task)

    def _backend(self, groups: KeyGroupRange, rocksdb: bool) -> KeyedBackend:
        common: dict[str, Any] = {"max_parallelism": 128, "key_groups": groups, "clock": self.clock, "uid": "it"}
        if not rocksdb and not self._is_native:
            return MemoryBackend("string", **common)
        return RocksDbBackend(
            "string", directory=self._directory / f"db-{self._number}", max_cached_entries=60, **common
        )

    def checkpoint(self, *, canonical: bool) -> None:
        self._number += 1
        number, parts = self._number, {}
        for subtask, task in enumerate(self.tasks):
            task.operator.prepare_snapshot(number)
            target = SnapshotWriter(
                self._objects, f"/t/{number}", "/t/shared", attempt=1, checkpoint_id=number, uid="it", subtask=subtask
            )
            parts[subtask] = task.states.snapshot(canonical=canonical).write(target).state
            task.states.confirm(number)
            if isinstance(task.states.keyed, RocksDbBackend):
                self._is_native = not canonical
        state = OperatorState("it", parallelism=len(self.tasks), max_parallelism=128, subtasks=parts)
        self._snapshot = Snapshot(number, SnapshotKind.CHECKPOINT, 1, 0, f"/t/{number}", {"it": state})

    def process(self, rows: list[tuple[str, list[tuple[str, int]]]]) -> Told:
        users = pa.array([user for user, _ in rows])
        batch = pa.record_batch([users, pa.array([json.dumps(program) for _, program in rows])], schema=ROWS)
        groups = key_groups(hash_columns([users]), 128)
        for task in self.tasks:
            keyed = task.states.keyed
            assert keyed is not None
            mine = pa.array((groups >= keyed.key_groups.start) & (groups <= keyed.key_groups.end))
            task.operator.process(batch.filter(mine), 0)
        return self.told()

    def watermark(self, time_ms: int) -> Told:
        for task in self.tasks:
            task.operator.watermark(time_ms)
        return self.told()

    def told(self) -> Told:
        found: Told = defaultdict(list)
        for task in self.tasks:
            for row in task.rows():
                found[row["user"]].append(json.loads(row["told"]))
        return found

    def stop(self) -> None:
        for task in self.tasks:
            task.close()
        self.tasks.clear()


OPERATIONS = [name.removeprefix("do_") for name in vars(Programs) if name.startswith("do_")]
programs = st.lists(st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 9)), min_size=1, max_size=8)
rows = st.lists(st.tuples(st.sampled_from(USERS), programs), min_size=1, max_size=20)
places = st.tuples(st.sampled_from([1, 2, 4]), st.booleans())
steps = st.lists(
    st.one_of(
        st.tuples(st.just("rows"), rows),
        st.tuples(st.just("rows"), rows),
        st.tuples(st.just("watermark"), st.integers(0, 30)),
        st.tuples(st.just("checkpoint"), st.booleans()),
        st.tuples(st.just("restore"), places),
        st.tuples(st.just("failure"), st.tuples(rows, st.integers(0, 12), places)),
        st.tuples(st.just("advance"), st.integers(1, 120)),
    ),
    max_size=14,
)


@contextmanager
def limits(keys: int, steps: int, bulk: int) -> Iterator[None]:
    """How many keys are fetched at once, how long a short map is, how many timers are taken out at once."""
    with (
        mock.patch.object(selection, "_FIRST_PREFETCHED", keys),
        mock.patch.object(selection, "_MOST_PREFETCHED", keys),
        mock.patch.object(map_tables, "MOST_STEPS", steps),
        mock.patch.object(row_timers, "_LARGEST_BULK", bulk),
    ):
        yield


def expected(model: Model, batch: list[tuple[str, list[tuple[str, int]]]], now_ms: int) -> Told:
    found: Told = defaultdict(list)
    for user, program in batch:
        found[user].append(json.loads(json.dumps(model.run(user, program, now_ms))))
    return found


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(
    steps=steps,
    place=places,
    keys=st.sampled_from([1, 3, 64]),
    long=st.sampled_from([2, 32]),
    bulk=st.sampled_from([2, 4000]),
)
def test_rows_see_plain_dicts_whatever_happens(
    steps: Any, place: tuple[int, bool], keys: int, long: int, bulk: int
) -> None:
    directory = Path(tempfile.mkdtemp())
    cluster, model = Cluster(directory), Model()
    try:
        with limits(keys, long, bulk):
            cluster.start(place[0], rocksdb=place[1])
            cluster.checkpoint(canonical=False)
            saved = copy.deepcopy(model)
            for step, value in steps:
                if step == "rows":
                    assert cluster.process(value) == expected(model, value, cluster.clock.now_ms)
                elif step == "watermark":
                    wanted: Told = defaultdict(list)
                    for user, told in model.fire(model.watermark_ms + value):
                        wanted[user].append(told)
                    assert cluster.watermark(model.watermark_ms) == wanted
                elif step == "checkpoint":
                    cluster.checkpoint(canonical=value)
                    saved = copy.deepcopy(model)
                elif step == "advance":
                    cluster.clock.now_ms += value
                elif step == "restore":
                    cluster.start(value[0], rocksdb=value[1])
                    model = copy.deepcopy(saved)
                else:
                    batch, at, (parallelism, is_rocksdb) = value
                    batch.insert(at, (USERS[0], [("number", 5), ("fail", 0)]))
                    with pytest.raises(UserCodeError, match="as the program says"):
                        cluster.process(batch)
                    cluster.start(parallelism, rocksdb=is_rocksdb)
                    model = copy.deepcopy(saved)
    finally:
        cluster.stop()
        shutil.rmtree(directory)
