"""Arguments of `transform_with_state`, and what it adds to a job."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# the names are PySpark's
from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType
from tests.unit.spark.stateful import processors as p
from tests.unit.spark.stateful.processor_kit import COUNTS, INPUT

import snapline as sl
from snapline.errors import ConfigurationError
from snapline.testing import ThreadCluster

TIMED = pa.schema([("user", pa.string()), ("at", pa.timestamp("us", tz="UTC"))])


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
        ({"event_time_column": "user"}, "has no watermarks"),
        ({"conf": {"spark.sql.execution.arrow.maxRecordsPerBatch": "x"}}, "maxRecordsPerBatch='x' is wrong"),
        ({"schema": "user STRNG"}, "the schema of transform_with_state\\(RunningCount\\)"),
        ({"processor": 5}, "give an object whose class is"),
    ],
)
def test_wrong_arguments_are_refused_when_the_job_is_built(options: dict[str, Any], message: str) -> None:
    values = {"processor": p.RunningCount(), "schema": "user STRING, n BIGINT", "uid": "x", **options}
    with pytest.raises(ConfigurationError, match=message):
        stream().transform_with_state(values.pop("processor"), values.pop("schema"), **values)


def test_the_event_time_of_the_output_must_be_a_column_of_times() -> None:
    rate = sl.sources.Rate(10, rows=10, users=2)
    keyed = sl.Job("test").source(rate, uid="rate", watermarks=sl.Watermarks("time")).key_by("user")
    for column in ("n", "nothing"):
        with pytest.raises(ConfigurationError, match="give a column of times that the processor returns"):
            keyed.transform_with_state(p.RunningCount(), COUNTS, event_time_column=column, uid="x")


def test_columns_that_may_not_be_null_are_refused_with_avro_when_the_job_is_built() -> None:
    avro = {"spark.sql.streaming.stateStore.encodingFormat": "avro"}
    strict = _Declares(lambda handle: handle.getValueState("x", "n INT NOT NULL"))
    stream().transform_with_state(strict, "user STRING", uid="x")
    with pytest.raises(ConfigurationError, match="column family x must be nullable"):
        stream().transform_with_state(strict, "user STRING", conf=avro, uid="x")


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


def test_the_event_time_of_the_output_is_known_behind_it() -> None:
    rate = sl.sources.Rate(10, rows=10, users=2)
    keyed = sl.Job("test").source(rate, uid="rate", watermarks=sl.Watermarks("time")).key_by("user")
    made = keyed.transform_with_state(p.Clock(), TIMED, time_mode="event_time", event_time_column="at", uid="x")
    made.key_by("user").window(sl.Tumbling("1s")).aggregate(n=sl.count(), uid="n")
    assert made._event_time == frozenset({"at"})


def test_null_keys_are_a_group_if_asked_for() -> None:
    rows = [{"user": user, "n": 1} for user in ("a", None, "", None, "a", None)]
    initial = pa.table({"user": pa.array([None, "a"], pa.string()), "n": [10, 20]})
    for format, processor in (("rows", p.RunningCount()), ("pandas", p.PandasCount())):
        schema = "user STRING, n BIGINT" if format == "rows" else "user STRING, n BIGINT, m BIGINT"
        job = sl.Job("nulls", parallelism=2)
        keyed = job.source(sl.sources.Iterator(rows, schema="user STRING, n BIGINT"), uid="rows").key_by("user")
        counts = keyed.transform_with_state(
            processor, schema, format=format, initial_state=initial, null_keys=True, uid="counts"
        )
        latest = {row["user"]: row["n"] for row in counts.collect(ThreadCluster()).to_pylist()}
        assert latest[None] - latest["a"] == 1 - 10, latest
        assert latest[""] == 1


def test_states_are_counted_when_the_job_is_built() -> None:
    made = stream().transform_with_state(p.RunningCount(), "user STRING, n BIGINT", uid="x")
    assert made._inputs[0].node.operator.state_counts == {"numValueStateVars": 1}
