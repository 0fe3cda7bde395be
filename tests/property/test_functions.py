"""Functions with state against a plain model, whatever the batches: results depend on the rows alone."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any
from unittest import mock

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.operators.conftest import Harness

import snapline as sl
from snapline.operators.process_functions import FunctionInput, FunctionOutputs, Process
from snapline.state import map_tables, selection
from snapline.state.groups import Groups
from snapline.types import MAX_WATERMARK

ROWS = pa.schema([("user", pa.string()), ("value", pa.int64())])
OUT = pa.schema([("user", pa.string()), ("n", pa.int64())])

Event = tuple[str, int]
events = st.lists(st.tuples(st.sampled_from("abcde"), st.integers(-50, 50)), max_size=40)
cuts = st.lists(st.integers(0, 40), max_size=8)


def batches(items: Sequence[Event], at: Sequence[int]) -> list[pa.RecordBatch]:
    """The rows, cut into batches at these places."""
    arrays = [pa.array([user for user, _ in items], pa.string()), pa.array([value for _, value in items], pa.int64())]
    whole = pa.RecordBatch.from_arrays(arrays, schema=ROWS)
    places = sorted({0, len(items), *(place for place in at if place < len(items))})
    return [whole.slice(start, end - start) for start, end in pairwise(places)]


@contextmanager
def fetching(keys: int) -> Iterator[None]:
    """Fetch the states of so many keys at once, and only of maps and lists that are no longer than that."""
    with (
        mock.patch.object(selection, "_FIRST_PREFETCHED", keys),
        mock.patch.object(selection, "_MOST_PREFETCHED", keys),
        mock.patch.object(map_tables, "MOST_STEPS", keys),
    ):
        yield


def keyed() -> sl.KeyedStream:
    return sl.Job("states").source(sl.sources.Generate(lambda start, count: None, schema=ROWS), "rows").key_by("user")


def operator_of(stream: sl.Stream) -> Any:
    return stream._inputs[0].node.operator


def emitted(operator: Any, parts: Sequence[pa.RecordBatch]) -> list[tuple[Any, ...]]:
    harness = Harness(operator, key="string", key_columns=("user",))
    harness.open()
    for batch in parts:
        operator.process(batch, 0)
    operator.watermark(MAX_WATERMARK)
    return [tuple(row.values()) for row in harness.rows()]


def step(state: int | None, value: int) -> tuple[int | None, int | None]:
    """A total that is forgotten once it is above 60; odd ones are not told."""
    total = (state or 0) + value
    return (None if total > 60 else total), (None if total % 2 else total)


def modelled(items: Sequence[Event]) -> list[tuple[str, int]]:
    states: dict[str, int | None] = {}
    made = []
    for user, value in items:
        states[user], told = step(states.get(user), value)
        if told is not None:
            made.append((user, told))
    return made


@settings(deadline=None, max_examples=50)
@given(items=events, at=cuts)
def test_map_with_state_is_a_dict_of_states(items: list[Event], at: list[int]) -> None:
    def by_row(state: int | None, row: dict[str, Any]) -> Any:
        new, told = step(state, row["value"])
        return new, None if told is None else {"user": row["user"], "n": told}

    rows = operator_of(keyed().map_with_state(by_row, state=int, schema=OUT))
    columns = operator_of(keyed().map_with_state(step, state=int, schema=OUT, columns=("value",)))
    expected = modelled(items)
    assert emitted(rows, batches(items, at)) == expected
    assert emitted(columns, batches(items, at)) == expected


class Stepping(sl.ProcessFunction):
    """The same, by state; and a timer for each value above 0, which tells how often it was set and not deleted."""

    def open(self, context: sl.ProcessContext) -> None:
        self.total = context.value_state("total", int)
        self.times = context.map_state("times", int, int)

    def process(self, row: dict[str, Any], context: sl.ProcessContext) -> None:
        value = row["value"]
        new, told = step(self.total.get(), value)
        self.total.set(new)
        if told is not None:
            context.emit({"user": row["user"], "n": told})
        if value > 0:
            context.set_event_timer(value)
            self.times.put(value, self.times.get(value, 0) + 1)
        else:
            context.delete_event_timer(-value)

    def on_timer(self, time_ms: int, context: sl.ProcessContext) -> None:
        context.emit({"user": f"{context.key} {time_ms}", "n": self.times.get(time_ms)})
        if time_ms < 100:
            self.times.put(time_ms + 70, 1)
            context.set_event_timer(time_ms + 70)
            context.delete_event_timer(time_ms + 1)


def fired(items: Sequence[Event]) -> list[tuple[int, str, int]]:
    """The time, key and count of each timer that fires at the end, by time."""
    made = []
    counts: dict[str, dict[int, int]] = defaultdict(dict)
    timers: dict[str, set[int]] = defaultdict(set)
    for user, value in items:
        if value > 0:
            timers[user].add(value)
            counts[user][value] = counts[user].get(value, 0) + 1
        else:
            timers[user].discard(-value)
    for user, times in timers.items():
        while times:
            time = min(times)
            times.remove(time)
            made.append((time, user, counts[user][time]))
            if time < 100:
                counts[user][time + 70] = 1
                times.add(time + 70)
                times.discard(time + 1)
    return sorted(made)


@settings(deadline=None, max_examples=50)
@given(items=events, at=cuts, keys_at_once=st.sampled_from([1, 5, 64]))
def test_process_is_a_model_with_states_and_timers(items: list[Event], at: list[int], keys_at_once: int) -> None:
    operator = Process(
        Stepping(), [FunctionInput(("user",), None)], FunctionOutputs(OUT, {}), has_uid=True, has_event_time=True
    )
    with fetching(keys_at_once):
        made = emitted(operator, batches(items, at))
    expected = modelled(items)
    assert made[: len(expected)] == expected
    by_timer = [(int(name.split()[1]), name.split()[0], count) for name, count in made[len(expected) :]]
    assert [time for time, _, _ in by_timer] == sorted(time for time, _, _ in by_timer)
    assert sorted(by_timer) == fired(items)


@settings(deadline=None, max_examples=30)
@given(items=events, at=cuts)
def test_update_state_sums(items: list[Event], at: list[int]) -> None:
    def summed(old: pa.Array, groups: Groups, batch: pa.RecordBatch) -> tuple[pa.Array, None]:
        return groups.sum(batch.column("value"), onto=old), None

    operator = operator_of(keyed().update_state(summed, state=int, schema=OUT))
    assert emitted(operator, batches(items, at)) == []
    totals: dict[str, int] = defaultdict(int)
    for user, value in items:
        totals[user] += value
    found = operator._state.take(list(totals)).to_pylist() if totals else []
    assert found == list(totals.values())


def risky(value: int) -> int:
    """Fails for some values."""
    return 60 // (value % 7) - 60 // (value % 5)


class RiskyTotal(sl.ProcessFunction):
    """Adds up what can be computed; emits before it knows whether it can."""

    def open(self, context: sl.ProcessContext) -> None:
        self.total = context.value_state("total", int, default=0)

    def process(self, row: dict[str, Any], context: sl.ProcessContext) -> None:
        for part in (1, 2):
            context.emit({"user": row["user"], "n": part * (self.total.get() + row["value"])})
        added = risky(row["value"])
        self.total.set(self.total.get() + added)


@settings(deadline=None, max_examples=50)
@given(items=events, at=cuts)
def test_rows_that_fail_take_nothing_else_along_whatever_the_batches(items: list[Event], at: list[int]) -> None:
    """Functions with on_error are the model without the rows that it fails for."""
    totals: dict[str, int] = defaultdict(int)
    by_row, processed, bad = [], [], []
    for user, value in items:
        try:
            added = risky(value)
        except ZeroDivisionError:
            bad.append({"user": user, "value": value})
            continue
        processed += [(user, part * (totals[user] + value)) for part in (1, 2)]
        totals[user] += added
        by_row.append((user, totals[user]))

    def summed(state: int | None, row: dict[str, Any]) -> Any:
        total = (state or 0) + risky(row["value"])
        return total, {"user": row["user"], "n": total}

    def batch_summed(old: pa.Array, groups: Groups, batch: pa.RecordBatch) -> Any:
        added = pa.array([risky(value) for value in batch["value"].to_pylist()], pa.int64())
        return groups.sum(added, onto=old), None

    options: dict[str, Any] = {"schema": OUT, "on_error": "dead_letter"}
    for expected, stream in (
        (by_row, keyed().map_with_state(summed, state=int, **options)),
        (processed, keyed().process(RiskyTotal(), **options)),
        ([], keyed().update_state(batch_summed, state="bigint", **options)),
    ):
        for cache in (1, 1000):
            with fetching(cache):
                harness = Harness(operator_of(stream), key="string", key_columns=("user",))
                harness.open()
                for batch in batches(items, at):
                    harness.operator.process(batch, 0)
            assert [tuple(row.values()) for row in harness.rows()] == expected
            letters = [json.loads(letter["row"]) for letter in harness.side_rows("dead_letters")]
            assert letters == bad
            assert harness.operator.bad_rows == len(bad)
            harness.operator.bad_rows = 0
            harness.operator.close()
