"""Frames as Spark makes them, and what a processor may return."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# ruff: noqa: N803  # the names are PySpark's
from __future__ import annotations

import datetime
import pickle
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from tests.unit.spark.stateful import processors as p
from tests.unit.spark.stateful.processor_kit import COUNTS, Case, Subject, events

from snapline.errors import ConfigurationError, UserCodeError
from snapline.spark.stateful.pandas_frames import PandasFormat, make_format
from snapline.spark.stateful.processor_rows import KeyedRows
from snapline.spark.stateful.processor_settings import ProcessorSettings

NOON = datetime.datetime(2026, 7, 1, 12, tzinfo=datetime.UTC)
ZONED = pa.timestamp("us", "UTC")
TOKYO = ProcessorSettings(time_zone="Asia/Tokyo")
NESTED = pa.struct([("n", pa.int32()), ("m", pa.map_(pa.string(), pa.int32())), ("at", ZONED)])


def _frames(columns: dict[str, Any], settings: ProcessorSettings = TOKYO) -> list[list[pd.DataFrame]]:
    """The frames of each key, which is the column k."""
    batch = pa.RecordBatch.from_pydict(columns)
    return list(PandasFormat(settings).parts(batch, KeyedRows(batch, ["k"])))


@pytest.mark.parametrize(
    ("values", "dtype", "first"),
    [
        (pa.array([1, 2], pa.int32()), "int64", 1),
        (pa.array([1, 2], pa.int8()), "int64", 1),
        (pa.array([1, None], pa.int64()), "float64", 1.0),
        (pa.array([1.5, 2], pa.float32()), "float64", 1.5),
        (pa.array([True, None]), "bool", True),
        (pa.array(["x", None]), "object", "x"),
        (pa.array([b"x", None]), "object", b"x"),
        (pa.array([Decimal("1.50"), None]), "object", Decimal("1.50")),
        (pa.array([NOON.date(), None]), "object", NOON.date()),
        (pa.array([NOON, None], ZONED), "datetime64[ns]", pd.Timestamp("2026-07-01 21:00")),
        (
            pa.array([NOON.replace(tzinfo=None), None], pa.timestamp("us")),
            "datetime64[ns]",
            pd.Timestamp("2026-07-01 12:00"),
        ),
        (pa.array([datetime.timedelta(1), None], pa.duration("us")), "timedelta64[ns]", pd.Timedelta(days=1)),
        (pa.array([[("x", 1)], None], pa.map_(pa.string(), pa.int32())), "object", {"x": 1}),
        (
            pa.array([{"n": 1, "m": [("x", 2)], "at": NOON}, None], NESTED),
            "object",
            {"n": 1, "m": {"x": 2}, "at": pd.Timestamp("2026-07-01 21:00")},
        ),
    ],
    ids=lambda value: str(getattr(value, "type", ""))[:40],
)
def test_columns_have_the_types_that_spark_gives_them(values: pa.Array, dtype: str, first: Any) -> None:
    ((frame,), (other,)) = _frames({"k": ["a", "b"], "x": values})
    assert str(frame["x"].dtype) == dtype
    assert frame["x"].tolist() == [first]
    assert list(frame.index) == list(other.index) == [0]
    assert list(frame.columns) == ["k", "x"]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (pa.array([[1, 2]], pa.list_(pa.int32())), np.array([1, 2], dtype=np.int32)),
        (pa.array([[1, None]], pa.list_(pa.int32())), np.array([1, None], dtype=object)),
        (pa.array([["x"]]), np.array(["x"], dtype=object)),
        (pa.array([[NOON]], pa.list_(ZONED)), np.array([pd.Timestamp("2026-07-01 21:00")], dtype=object)),
    ],
    ids=lambda value: str(getattr(value, "type", ""))[:40],
)
def test_arrays_are_arrays_of_numpy(values: pa.Array, expected: Any) -> None:
    ((frame,),) = _frames({"k": ["a"], "x": values})
    (given,) = frame["x"]
    assert given.dtype == expected.dtype
    assert given.tolist() == expected.tolist()


def test_keys_have_the_values_of_frames() -> None:
    form = PandasFormat(TOKYO)
    assert form.keys([pa.array([1, 2], pa.int32()), pa.array([NOON] * 2, ZONED)]) == [
        (1, pd.Timestamp("2026-07-01 21:00")),
        (2, pd.Timestamp("2026-07-01 21:00")),
    ]


def test_large_keys_come_in_several_frames() -> None:
    columns = {"k": ["a", "b", "a", "a"], "x": pa.array([1, 2, 3, 4], pa.int64())}
    by_rows = _frames(columns, ProcessorSettings(frame_rows=2))
    assert [[frame["x"].tolist() for frame in frames] for frames in by_rows] == [[[1, 3], [4]], [[2]]]
    by_bytes = _frames(columns, ProcessorSettings(frame_bytes=2))
    assert [[frame["x"].tolist() for frame in frames] for frames in by_bytes] == [[[1], [3], [4]], [[2]]]
    unlimited = _frames(columns, ProcessorSettings(frame_rows=None))
    assert [len(frames) for frames in unlimited] == [1, 1]


def _returned(frames: list[pd.DataFrame], kind: pa.DataType, settings: ProcessorSettings = TOKYO) -> list[Any]:
    values: list[Any] = PandasFormat(settings).batch(frames, pa.schema([("x", kind)]), "it").column("x").to_pylist()
    return values


def test_text_that_is_a_number_becomes_one_and_no_value_changes() -> None:
    assert _returned([pd.DataFrame({"x": ["5"]})], pa.int32()) == [5]
    assert _returned([pd.DataFrame({"x": [2.0, None]})], pa.int32()) == [2, None]
    for wrong in (["y"], [1.5], [1 << 40]):
        with pytest.raises(UserCodeError, match="Failed to convert the value of the column 'x'"):
            _returned([pd.DataFrame({"x": wrong})], pa.int32())


def test_integers_become_decimals_only_where_spark_is_told_so() -> None:
    frame = pd.DataFrame({"x": [12345]})
    with pytest.raises(UserCodeError, match="Failed to convert the value"):
        _returned([frame], pa.decimal128(10, 2))
    assert _returned([frame], pa.decimal128(10, 2), ProcessorSettings(int_to_decimal=True)) == [Decimal("12345.00")]


def test_large_integers_beside_frames_with_nulls_stay_what_they_are() -> None:
    large = (1 << 53) + 1
    frames = [pd.DataFrame({"x": [large]}), pd.DataFrame({"x": [None]}), pd.DataFrame({"x": [large]})]
    assert _returned(frames, pa.int64()) == [large, None, large]


def test_maps_and_structs_are_returned_as_dicts() -> None:
    value = {"n": 1, "m": {"x": 2}, "at": NOON}
    assert _returned([pd.DataFrame({"x": [value]})], NESTED) == [{"n": 1, "m": [("x", 2)], "at": NOON}]


def test_times_without_a_zone_are_in_that_of_the_session() -> None:
    assert _returned([pd.DataFrame({"x": [pd.Timestamp("2026-07-01 21:00")]})], ZONED) == [NOON]
    assert _returned([pd.DataFrame({"x": [pd.Timestamp(NOON)]})], ZONED) == [NOON]


def test_a_format_can_be_sent_to_executors() -> None:
    sent = pickle.loads(pickle.dumps(make_format("pandas", TOKYO)))
    assert sent.keys([pa.array([NOON], ZONED)]) == [(pd.Timestamp("2026-07-01 21:00"),)]
    with pytest.raises(ConfigurationError, match="use 'rows'"):
        make_format("polars")


def _gives(given: Callable[[], Any]) -> type[StatefulProcessor]:
    class Giving(p.Clock):
        def handleInputRows(self, key, rows, timerValues) -> Any:
            return given()

    return Giving


def test_frames_that_do_not_fit_are_refused() -> None:
    for frame, message in (
        (pd.DataFrame({"user": ["a"]}), "without the column 'n'"),
        (pd.DataFrame({"user": ["a"], "n": ["x"]}), "do not fit its schema"),
        (Row(user="a", n=1), "with format='pandas' return pandas.DataFrame"),
    ):
        subject = Subject(Case(_gives(partial(list, [frame])), COUNTS, [], format="pandas"))
        with pytest.raises(UserCodeError, match=message):
            subject.step(events("a"))
    unnamed = pd.DataFrame([["a", 1], ["b", 2]])
    subject = Subject(Case(_gives(lambda: [unnamed]), COUNTS, [], format="pandas"))
    assert subject.step(events("a")) == [{"user": "a", "n": 1}, {"user": "b", "n": 2}]


def test_times_in_frames_are_in_utc_without_a_session() -> None:
    schema = pa.schema([("user", pa.string()), ("at", pa.timestamp("us", tz="UTC"))])
    seen: list[Any] = []

    class Later(p.Clock):
        def handleInputRows(self, key, rows, timerValues) -> Any:
            for frame in rows:
                seen.append(frame["ts"].dtype.kind)
                yield pd.DataFrame({"user": frame["user"], "at": frame["ts"] + pd.Timedelta(seconds=1)})

    subject = Subject(Case(Later, schema, [], format="pandas"))
    (row,) = subject.step(events("a@5000"))
    assert row["at"].timestamp() == 6.0
    assert seen == ["M"]
