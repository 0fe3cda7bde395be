"""Rows and frames by key, and what a processor may return."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# ruff: noqa: N803  # the names are PySpark's
from __future__ import annotations

import datetime
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from tests.unit.spark.stateful import processors as p
from tests.unit.spark.stateful.processor_kit import COUNTS, Case, Subject, events

from snapline.errors import UserCodeError
from snapline.spark.stateful.processor_rows import KeyedRows, RowFormat


@pytest.mark.parametrize(
    ("columns", "groups"),
    [
        ({"a": ["x", "y", "x", "z", "y"]}, [[0, 2], [1, 4], [3]]),
        ({"a": [1, 1, 2, 1], "b": ["x", "y", "x", "x"]}, [[0, 3], [1], [2]]),
        ({"a": [0.0, -0.0, float("nan"), float("nan")]}, [[0, 1], [2, 3]]),
        ({"a": [5]}, [[0]]),
    ],
)
def test_rows_are_grouped_by_key_in_order_of_appearance(columns: dict[str, list[Any]], groups: list[list[int]]) -> None:
    batch = pa.RecordBatch.from_pydict(columns)
    keyed = KeyedRows(batch, list(columns))
    assert [keyed.order[s:e].tolist() for s, e in pairwise(keyed.starts)] == groups
    assert keyed.firsts.tolist() == [group[0] for group in groups]
    assert [len(column) for column in keyed.columns] == [len(groups)] * len(columns)
    in_order = batch.take([row for group in groups for row in group])
    assert str(keyed.grouped(batch).to_pylist()) == str(in_order.to_pylist())


def test_dictionary_columns_give_plain_keys() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array(["x", "y", "x"]).dictionary_encode()], names=["a"])
    assert RowFormat().keys(KeyedRows(batch, ["a"]).columns) == [("x",), ("y",)]


def _gives(given: Callable[[], Any]) -> type[StatefulProcessor]:
    class Giving(p.Clock):
        def handleInputRows(self, key, rows, timerValues) -> Any:
            return given()

    return Giving


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (lambda: None, "handleInputRows of Giving returned None; return an iterator"),
        (lambda: [5], "returned 5; return named rows"),
        (lambda: [Row("user", "n")], "return named rows"),
        (lambda: [Row(user="a", n="x")], "do not fit its schema, user string, n int64"),
        (lambda: [Row(user=["a"], n=1)], "do not fit its schema"),
    ],
)
def test_wrong_output_is_refused(given: Callable[[], Any], message: str) -> None:
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


def test_times_in_rows_are_in_the_zone_of_the_session() -> None:
    at = pa.array([datetime.datetime(2026, 7, 1, 12, tzinfo=datetime.UTC)], pa.timestamp("us", "UTC"))
    batch = pa.RecordBatch.from_arrays([pa.array(["x"]), at], names=["a", "at"])
    ((row,),) = RowFormat("Asia/Tokyo").parts(batch, KeyedRows(batch, ["a"]))
    assert (row.at.hour, row.at.timestamp()) == (21, at[0].as_py().timestamp())
