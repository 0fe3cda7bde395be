"""States and timers of a processor: time to live, conversions and misuse."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# ruff: noqa: N803  # the names are PySpark's
from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from tests.unit.spark.stateful import processors as p
from tests.unit.spark.stateful.processor_kit import COUNTS, PAIRS, WORDS, Case, Subject, events

from snapline.errors import RestoreError, UserCodeError


class Expiring(StatefulProcessor):
    """All kinds of state with a time to live of a second; emits what is left of each."""

    def init(self, handle) -> None:
        self.value = handle.getValueState("value", "n BIGINT", 1000)
        self.list = handle.getListState("list", "n BIGINT", 1000)
        self.map = handle.getMapState("map", "word STRING", "n BIGINT", ttlDurationMs=1000)

    def handleInputRows(self, key, rows, timerValues) -> Iterator[Row]:
        for row in rows:
            if row.word == "value":
                self.value.update((row.n,))
            elif row.word:
                self.list.appendValue((row.n,))
                self.map.updateValue((row.word,), (row.n,))
        exists = (self.value.exists(), self.list.exists(), self.map.exists())
        left: list[Any] = [(self.value.get() or (0,))[0], [n for (n,) in self.list.get()], sorted(self.map.keys())]
        assert exists == tuple(bool(item) for item in left)
        yield Row(user=key[0], word=str(left), n=0)


def test_entries_expire_a_time_after_they_were_written() -> None:
    subject = Subject(Case(Expiring, WORDS, [], "processing_time"))

    def left(at_ms: int, *rows: str) -> str:
        subject.step(at_ms)
        ((row),) = subject.step(events(*(rows or ("a",))))
        return str(row["word"])

    assert left(100, "a:value:7", "a:x:1") == "[7, [1], [('x',)]]"
    assert left(600, "a:y:2") == "[7, [1, 2], [('x',), ('y',)]]"
    assert left(1099) == "[7, [1, 2], [('x',), ('y',)]]"
    subject.restore()
    assert left(1100) == "[0, [2], [('y',)]]"
    assert left(1500, "a:value:8") == "[8, [2], [('y',)]]"
    assert left(1600) == "[8, [], []]"
    assert left(2400, "a:value:9") == "[9, [], []]"
    assert left(3399) == "[9, [], []]"
    assert left(3400) == "[0, [], []]"


def test_nothing_expires_while_a_batch_is_processed() -> None:
    class Looking(Expiring):
        def handleInputRows(self, key, rows, timerValues) -> Iterator[Row]:
            list(rows)
            if not self.value.exists():
                self.value.update((1,))
            subject.harness.now_ms += 5_000
            yield Row(user=key[0], word=str(self.value.get()), n=timerValues.getCurrentProcessingTimeInMs())

    subject = Subject(Case(Looking, WORDS, [], "processing_time"))
    assert [row["word"] for row in subject.step(events("a", "b"))] == ["(1,)", "(1,)"]
    assert [row["n"] for row in subject.step(events("a", "b"))] == [10_000, 10_000]


class UsesState(p.Clock):
    """Uses its states in the first call."""

    def __init__(self, use: Callable[[Any], Any]) -> None:
        self._use = use

    def init(self, handle) -> None:
        self.handle = handle
        self.value = handle.getValueState("value", "n BIGINT, word STRING")
        self.list = handle.getListState("list", "n BIGINT")
        self.map = handle.getMapState("map", "word STRING", "n BIGINT")
        self.times = handle.getValueState("times", "at TIMESTAMP, wall TIMESTAMP_NTZ")

    def handleInputRows(self, key, rows, timerValues) -> Iterator[Row]:
        yield Row(user=key[0], word=str(self._use(self)), n=0)


def _used(use: Callable[[Any], Any], mode: str = "none") -> str:
    case = Case(UsesState, WORDS, [], mode)
    subject = Subject(case, UsesState(use))
    (row,) = subject.step(events("a"))
    return str(row["word"])


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda it: it.value.update((1,)), "is no value of value state 'value': give a tuple of n, word"),
        (lambda it: it.value.update(5), "is no value of value state 'value'"),
        (lambda it: it.value.update(("x", "y")), "is no value of type"),
        (lambda it: it.list.put([]), "call clear\\(\\) instead"),
        (lambda it: it.list.appendList([]), "call clear\\(\\) instead"),
        (lambda it: it.map.updateValue((None,), (1,)), "has nulls"),
        (lambda it: it.handle.registerTimer(5), "there are no timers with time_mode='none'"),
        (lambda it: it.handle.listTimers(), "there are no timers"),
        (lambda it: it.handle.deleteTimer(5), "there are no timers"),
        (lambda it: it.handle.getValueState("more", "n INT"), "in init\\(\\) only"),
        (lambda it: it.handle.deleteIfExists("value"), "in init\\(\\) only"),
    ],
)
def test_states_used_wrongly(use: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(UserCodeError, match=message):
        _used(use)


@pytest.mark.parametrize("at_ms", [0, 4_000, 5_000])
def test_a_timer_at_or_behind_the_watermark_fires_after_the_rows_of_its_batch(at_ms: int) -> None:
    class Due(p.Clock):
        def init(self, handle) -> None:
            self.handle = handle

        def handleInputRows(self, key, rows, timerValues) -> Iterator[Row]:
            self.handle.registerTimer(at_ms)
            yield Row(user=key[0], n=len(list(rows)), m=0)

        def handleExpiredTimer(self, key, timerValues, expiredTimerInfo) -> Iterator[Row]:
            yield Row(user=key[0], n=-1, m=expiredTimerInfo.getExpiryTimeInMs())

    subject = Subject(Case(Due, PAIRS, [], "event_time"))
    subject.step(5_000)
    assert subject.step(events("a@6000", "b@6000")) == [
        {"user": "a", "n": 1, "m": 0},
        {"user": "b", "n": 1, "m": 0},
        {"user": "a", "n": -1, "m": at_ms},
        {"user": "b", "n": -1, "m": at_ms},
    ]
    assert subject.step(6_000) == []


def test_a_state_deleted_in_the_init_that_declared_it_cannot_be_used() -> None:
    class Deletes(p.RunningCount):
        def init(self, handle) -> None:
            super().init(handle)
            self.states = [
                handle.getValueState("value", "n INT"),
                handle.getListState("list", "n INT"),
                handle.getMapState("map", "n INT", "n INT"),
            ]
            for name in ("value", "list", "map", "never declared"):
                handle.deleteIfExists(name)
            self.again = handle.getValueState("value", "word STRING")
            self.counts = dict(handle.counts)

        def handleInputRows(self, key, rows, timerValues) -> Iterator[Row]:
            value, elements, entries = self.states
            for use in (value.exists, value.get, elements.exists, elements.clear, entries.exists, entries.clear):
                with pytest.raises(PySparkRuntimeError, match="Error checking value state exists"):
                    use()
            with pytest.raises(PySparkRuntimeError, match="the state 'map' was deleted"):
                entries.containsKey(5)
            self.again.update(("x",))
            assert self.counts == {
                "numValueStateVars": 3,
                "numListStateVars": 1,
                "numMapStateVars": 1,
                "numDeletedStateVars": 4,
            }
            return super().handleInputRows(key, rows, timerValues)

    subject = Subject(Case(Deletes, COUNTS, []))
    assert subject.step(events("a")) == [{"user": "a", "n": 1}]
    subject.restore()
    assert subject.step(events("a")) == [{"user": "a", "n": 2}]


class Versioned(StatefulProcessor):
    """Keeps the columns of a schema, and emits what it finds before it writes `value`."""

    def __init__(self, schema: str, value: tuple[Any, ...] | None = None) -> None:
        self._schema = schema
        self._value = value

    def init(self, handle) -> None:
        self.value = handle.getValueState("value", self._schema)
        self.list = handle.getListState("list", self._schema)
        self.map = handle.getMapState("map", "key INT", self._schema)

    def handleInputRows(self, key, rows, timerValues) -> Iterator[Row]:
        found = (self.value.get(), list(self.list.get()), list(self.map.values()))
        if self._value is not None:
            self.value.update(self._value)
            self.list.appendValue(self._value)
            self.map.updateValue(1, self._value)
        yield Row(user=key[0], word=str(found), n=0)


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ("id INT, name STRING", (5, "x")),
        ("id INT, name STRING, count INT, ok BOOLEAN", (5, "x", None, None)),
        ("name STRING", ("x",)),
        ("name STRING, id INT", ("x", 5)),
        ("id BIGINT, name STRING", (5, "x")),
        ("id DOUBLE, name STRING", (5.0, "x")),
        ("id FLOAT, name BINARY", (5.0, b"x")),
    ],
)
def test_columns_of_states_are_added_dropped_reordered_and_widened(schema: str, expected: tuple[Any, ...]) -> None:
    subject = Subject(Case(Versioned, WORDS, []), Versioned("id INT, name STRING", (5, "x")))
    subject.step(events("a"))
    subject.restore(Versioned(schema))
    (row,) = subject.step(events("a"))
    assert row["word"] == str((expected, [expected], [expected]))


@pytest.mark.parametrize("schema", ["id SMALLINT, name STRING", "id STRING, name STRING", "id INT, name INT"])
def test_other_changes_of_columns_are_refused_as_in_spark(schema: str) -> None:
    subject = Subject(Case(Versioned, WORDS, []), Versioned("id INT, name STRING", (5, "x")))
    subject.step(events("a"))
    with pytest.raises(
        RestoreError, match=r"STATE_STORE_INVALID_VALUE_SCHEMA_EVOLUTION.*Schema evolution is not possible"
    ):
        subject.restore(Versioned(schema))


def test_values_are_converted_both_ways() -> None:
    import datetime

    import numpy as np

    def numbers(it: Any) -> Any:
        it.value.update((np.int64(5), None))
        return it.value.get()

    assert _used(numbers) == "(5, None)"

    def times(it: Any) -> Any:
        local = datetime.datetime(2026, 1, 2, 3, 4, 5)
        it.times.update((local, local))
        first = it.times.get()
        it.times.update((local.astimezone(datetime.timezone(datetime.timedelta(hours=9))), None))
        return first == (local, local), it.times.get() == (local, None)

    assert _used(times) == "(True, True)"
