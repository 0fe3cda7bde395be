"""A processor as an operator: restores, timers, lateness, and wrong arguments."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# ruff: noqa: N803  # the names are PySpark's
from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Row
from pyspark.sql.types import LongType, StringType, StructField, StructType
from tests.unit.spark.stateful import processors as p
from tests.unit.spark.stateful.processor_kit import COUNTS, INPUT, PAIRS, Case, Subject, events

import snapline as sl
from snapline.errors import ConfigurationError, UserCodeError
from snapline.types import MAX_WATERMARK


def test_state_of_an_older_version_is_deleted() -> None:
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


def test_timers_of_event_time_fire_at_the_end_of_the_input_and_a_periodic_one_stops() -> None:
    subject = Subject(Case(p.Downtime, PAIRS, [], "event_time"))
    subject.step(events("a@1000", "b@5000"))
    subject.step(2_000)
    rows = subject.step(MAX_WATERMARK)
    assert rows == [{"user": "a", "n": 10_000, "m": 11_000}, {"user": "b", "n": 10_000, "m": 15_000}]


def test_timers_that_are_due_fire_without_rows() -> None:
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


def test_an_error_names_the_method_and_the_key() -> None:
    class Failing(p.RunningCount):
        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
            yield from super().handleInputRows(key, rows, timerValues)
            raise ValueError("no luck")

    subject = Subject(Case(Failing, COUNTS, []))
    with pytest.raises(UserCodeError, match=r"handleInputRows of .* raised ValueError: no luck, for the key \('a',\)"):
        subject.step(events("a"))


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
        (lambda handle: handle.getValueState("x", "bigint"), "declare columns"),
        (lambda handle: handle.getMapState("x", "a ARRAY<INT>", "n INT"), "cannot be the key of a map here"),
        (lambda handle: handle.getValueState("_x", "n INT"), "begin with '_' are reserved"),
        (lambda handle: handle.getValueState("x", "n INT", 5), "needs processing time"),
        (lambda handle: (handle.getValueState("x", "n INT"), handle.deleteIfExists("x")), "declared in this init"),
        (lambda handle: handle.registerTimer(1), "there are no timers"),
    ],
)
def test_wrong_declarations_are_refused_when_the_job_is_built(declare: Callable[[Any], Any], message: str) -> None:
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
def test_wrong_arguments_are_refused_when_the_job_is_built(options: dict[str, Any], message: str) -> None:
    values = {"processor": p.RunningCount(), "schema": "user STRING, n BIGINT", "uid": "x", **options}
    with pytest.raises(ConfigurationError, match=message):
        stream().transform_with_state(values.pop("processor"), values.pop("schema"), **values)


def test_pandas_is_needed_only_for_its_format(monkeypatch: pytest.MonkeyPatch) -> None:
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
