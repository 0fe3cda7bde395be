"""What `TwsTester` does not know: time to live, ends of data, mistakes, and how keys and batches go together."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# ruff: noqa: N803  # the names are PySpark's
from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import LongType, StringType, StructField, StructType
from tests.unit.spark import processors as p
from tests.unit.spark.processor_kit import COUNTS, INPUT, PAIRS, WORDS, Case, Subject, events

import snapline as sl
from snapline.errors import ConfigurationError, UserCodeError
from snapline.spark.stateful.processor_rows import KeyedRows
from snapline.types import MAX_WATERMARK


class Expiring(StatefulProcessor):
    """All kinds of state with a time to live of a second; gives how much is left of each."""

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


def test_what_an_older_version_kept_is_deleted() -> None:
    class Old(p.RunningCount):
        def init(self, handle) -> None:
            super().init(handle)
            self.old = handle.getValueState("old", "word STRING")

        def handleInputRows(self, key, rows, timerValues) -> Iterator[Row]:
            self.old.update(("x",))
            return super().handleInputRows(key, rows, timerValues)

    class Newer(p.WithoutOld):
        def init(self, handle) -> None:
            super().init(handle)
            self.old = handle.getValueState("old", "n BIGINT")  # of another type, which it could not be read as

        def handleInputRows(self, key, rows, timerValues) -> Iterator[Row]:
            assert not self.old.exists()
            return super().handleInputRows(key, rows, timerValues)

    subject = Subject(Case(Old, COUNTS, []))
    subject.step(events("a", "b", "a"))
    subject.restore(Newer())
    assert subject.step(events("a")) == [{"user": "a", "n": 3}]


def test_the_initial_state_of_a_key_is_used_once() -> None:
    case = Case(p.RunningCount, COUNTS, [], initial={"a": [10], "b": [20]})
    subject = Subject(case)
    assert subject.step(events("a")) == [{"user": "a", "n": 11}]
    case.initial["c"] = [30]  # a newer version of the job knows of one more
    subject.restore()
    assert subject.step(events("a", "b", "c")) == [{"user": u, "n": n} for u, n in (("a", 12), ("b", 21), ("c", 31))]


def test_timers_of_event_time_fire_when_the_data_end_and_a_periodic_one_does_not_go_on_for_ever() -> None:
    subject = Subject(Case(p.Downtime, PAIRS, [], "event_time"))
    subject.step(events("a@1000", "b@5000"))
    subject.step(2_000)
    rows = subject.step(MAX_WATERMARK)
    assert rows == [{"user": "a", "n": 10_000, "m": 11_000}, {"user": "b", "n": 10_000, "m": 15_000}]


def test_timers_that_are_due_fire_although_no_row_comes() -> None:
    subject = Subject(Case(p.Session, PAIRS, [], "processing_time"))
    operator = subject.harness.operator
    assert operator.next_wakeup_ms() is None
    subject.step(events("a"))
    assert operator.next_wakeup_ms() == 10_000
    assert subject.step(10_000) == [{"user": "a", "n": 1, "m": 10_000}]
    assert operator.next_wakeup_ms() is None


def test_late_rows_stay_late_after_a_restore_and_rows_without_a_time_are_never_late() -> None:
    subject = Subject(Case(p.RunningCount, COUNTS, [], "event_time"))
    assert subject.step(5_000) == []
    subject.restore()
    rows = events("a@5000", "a@5001", "b@4999", "c@1")
    rows[3]["ts"] = None
    assert subject.step(rows) == [{"user": "a", "n": 1}, {"user": "c", "n": 1}]


def test_processors_are_closed_once_and_only_if_they_were_opened() -> None:
    closed: list[int] = []

    class Closing(p.RunningCount):
        def close(self) -> None:
            closed.append(1)

    subject = Subject(Case(Closing, COUNTS, []))
    subject.harness.operator.close()
    subject.harness.operator.close()
    assert closed == [1]


@pytest.mark.parametrize(
    ("columns", "groups"),
    [
        ({"a": ["x", "y", "x", "z", "y"]}, [[0, 2], [1, 4], [3]]),
        ({"a": [1, 1, 2, 1], "b": ["x", "y", "x", "x"]}, [[0, 3], [1], [2]]),
        ({"a": [0.0, -0.0, float("nan"), float("nan")]}, [[0, 1], [2, 3]]),
        ({"a": [5]}, [[0]]),
    ],
)
def test_rows_are_grouped_by_key_in_the_order_in_which_keys_come(
    columns: dict[str, list[Any]], groups: list[list[int]]
) -> None:
    batch = pa.RecordBatch.from_pydict(columns)
    keyed = KeyedRows(batch, list(columns))
    assert [keyed.order[s:e].tolist() for s, e in pairwise(keyed.starts)] == groups
    assert keyed.firsts.tolist() == [group[0] for group in groups]
    assert len(keyed.keys) == len(groups)


def test_dictionaries_are_keys_like_what_is_in_them() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array(["x", "y", "x"]).dictionary_encode()], names=["a"])
    assert KeyedRows(batch, ["a"]).keys == [("x",), ("y",)]


def _gives(given: Callable[[], Any]) -> type[StatefulProcessor]:
    class Giving(p.Clock):
        def handleInputRows(self, key, rows, timerValues) -> Any:
            return given()

    return Giving


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (lambda: None, "handleInputRows of Giving gave None; it must give an iterator"),
        (lambda: [5], "gave 5; give rows with names"),
        (lambda: [Row("user", "n")], "give rows with names"),
        (lambda: [Row(user="a", n="x")], "do not fit its schema, user string, n int64"),
        (lambda: [Row(user=["a"], n=1)], "do not fit its schema"),
    ],
)
def test_what_a_processor_gives_wrongly_is_told(given: Callable[[], Any], message: str) -> None:
    subject = Subject(Case(_gives(given), COUNTS, []))
    with pytest.raises(UserCodeError, match=message):
        subject.step(events("a"))


def test_rows_without_a_column_have_nulls_there_as_in_spark() -> None:
    subject = Subject(Case(_gives(lambda: [Row(n=1, more=2, user="a"), Row(user="b")]), COUNTS, []))
    assert subject.step(events("a")) == [{"user": "a", "n": 1}, {"user": "b", "n": None}]
    strict = pa.schema([pa.field("user", pa.string()), pa.field("n", pa.int64(), nullable=False)])
    subject = Subject(Case(_gives(lambda: [Row(user="b")]), strict, []))
    with pytest.raises(UserCodeError, match="nulls in the column 'n'"):
        subject.step(events("a"))


def test_frames_that_do_not_fit_are_told() -> None:
    import pandas

    for frame, message in (
        (pandas.DataFrame({"user": ["a"]}), "without the column 'n'"),
        (pandas.DataFrame({"user": ["a"], "n": ["x"]}), "do not fit its schema"),
        (Row(user="a", n=1), "with format='pandas' give pandas.DataFrame"),
    ):
        subject = Subject(Case(_gives(partial(list, [frame])), COUNTS, [], format="pandas"))
        with pytest.raises(UserCodeError, match=message):
            subject.step(events("a"))
    unnamed = pandas.DataFrame([["a", 1], ["b", 2]])
    subject = Subject(Case(_gives(lambda: [unnamed]), COUNTS, [], format="pandas"))
    assert subject.step(events("a")) == [{"user": "a", "n": 1}, {"user": "b", "n": 2}]


def test_times_in_frames_are_those_of_utc() -> None:
    import pandas

    schema = pa.schema([("user", pa.string()), ("at", pa.timestamp("us", tz="UTC"))])
    seen: list[Any] = []

    class Later(p.Clock):
        def handleInputRows(self, key, rows, timerValues) -> Any:
            for frame in rows:
                seen.append(frame["ts"].dtype.kind)
                yield pandas.DataFrame({"user": frame["user"], "at": frame["ts"] + pandas.Timedelta(seconds=1)})

    subject = Subject(Case(Later, schema, [], format="pandas"))
    (row,) = subject.step(events("a@5000"))
    assert row["at"].timestamp() == 6.0
    assert seen == ["M"]


class UsesState(p.Clock):
    """Does something with its states for the first row."""

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


def test_a_timer_that_is_late_already_is_refused() -> None:
    subject = Subject(Case(UsesState, WORDS, [], "event_time"), UsesState(lambda it: it.handle.registerTimer(5_000)))
    subject.step(5_000)
    with pytest.raises(UserCodeError, match="the watermark is at 5000 already"):
        subject.step(events("a@6000"))


def test_what_state_takes_and_gives() -> None:
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


# Building a job.


class _Declares(p.Clock):
    def __init__(self, declare: Callable[[Any], Any]) -> None:
        self._declare = declare

    def init(self, handle) -> None:
        self._declare(handle)


def stream() -> Any:
    return sl.Job("test").source(sl.sources.Rate(10, rows=10, users=2), uid="rate").key_by("user")


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (lambda handle: handle.getValueState("x", "n BIGNIT"), "the schema of value state 'x'"),
        (lambda handle: handle.getValueState("x", "bigint"), "write it as columns"),
        (lambda handle: handle.getMapState("x", "a ARRAY<INT>", "n INT"), "cannot be the key of a map here"),
        (lambda handle: handle.getValueState("_x", "n INT"), "begin with '_' are reserved"),
        (lambda handle: handle.getValueState("x", "n INT", 5), "goes by processing time"),
        (lambda handle: (handle.getValueState("x", "n INT"), handle.deleteIfExists("x")), "declared in this init"),
        (lambda handle: handle.registerTimer(1), "there are no timers"),
    ],
)
def test_wrong_declarations_are_told_when_the_job_is_put_together(declare: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        stream().transform_with_state(_Declares(declare), "user STRING", uid="x")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"time_mode": "sometimes"}, "use 'none', 'processing_time' or 'event_time'"),
        ({"time_mode": "event_time"}, "has no watermarks"),
        ({"output_mode": "complete"}, "use 'append' or 'update'"),
        ({"format": "polars"}, "use 'rows'"),
        ({"initial_state": 5}, "give a Spark DataFrame"),
        ({"initial_state": pa.table({"n": [1]})}, "has no column 'user'"),
        ({"initial_state": pa.table({"user": [[1]]})}, "the key column 'user' does not fit"),
        ({"initial_state": pa.table({"user": pa.array([None], pa.string())})}, "has nulls"),
        ({"schema": "user STRNG"}, "the schema of transform_with_state\\(RunningCount\\)"),
        ({"processor": 5}, "give an object whose class is"),
    ],
)
def test_wrong_arguments_are_told_when_the_job_is_put_together(options: dict[str, Any], message: str) -> None:
    values = {"processor": p.RunningCount(), "schema": "user STRING, n BIGINT", "uid": "x", **options}
    with pytest.raises(ConfigurationError, match=message):
        stream().transform_with_state(values.pop("processor"), values.pop("schema"), **values)


def test_pandas_is_needed_by_those_alone_who_ask_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.import_module

    def without_pandas(name: str) -> Any:
        if name == "pandas":
            raise ImportError(name)
        return real(name)

    monkeypatch.setattr(importlib, "import_module", without_pandas)
    stream().transform_with_state(p.RunningCount(), "user STRING, n BIGINT", uid="x")
    with pytest.raises(ConfigurationError, match="needs pandas, which cannot be imported here"):
        stream().transform_with_state(p.PandasCount(), "user STRING, n BIGINT", format="pandas", uid="x")


def test_schemas_of_spark_are_schemas_of_streams() -> None:
    declared = StructType([StructField("user", StringType(), False), StructField("n", LongType())])
    made = stream().transform_with_state(p.RunningCount(), declared, time_mode="ProcessingTime", uid="x")
    assert made.schema == pa.schema([pa.field("user", pa.string(), nullable=False), ("n", pa.int64())])
    assert INPUT.names[0] == "user"
