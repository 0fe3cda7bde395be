"""Rows of data sources are converted by Spark's rules, and errors say what does not fit."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Row
from pyspark.sql.datasource import DataSource
from pyspark.sql.worker.plan_data_source_read import records_to_arrow_batches

from snapline.errors import UserCodeError
from snapline.spark import data_source_types as types

ZONE = dt.timezone(dt.timedelta(hours=-3))
TIME = dt.datetime(2026, 3, 29, 2, 30, 0, 1)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("BIGINT", [1, None, -5]),
        ("TINYINT", [1, 2]),
        ("DOUBLE", [1, 2.5, None]),
        ("BOOLEAN", [True, None]),
        ("STRING", ["a", None, ""]),
        ("STRING", ["a", 1, True, 2.5, None]),
        ("STRING", [None, None]),
        ("BINARY", [b"a", None]),
        ("BINARY", [bytearray(b"a"), b"b"]),
        ("DATE", [dt.date(2026, 1, 1), None]),
        ("TIMESTAMP", [TIME, TIME.replace(tzinfo=ZONE), None]),
        ("TIMESTAMP_NTZ", [TIME, None]),
        ("DECIMAL(10, 2)", [Decimal("1.5"), Decimal("NaN"), None]),
        ("ARRAY<STRING>", [["a", None], [], None]),
        ("ARRAY<STRUCT<a: INT>>", [[Row(a=1), (2,), {"a": 3}]]),
        ("MAP<STRING, DATE>", [{"a": dt.date(2026, 1, 1)}, {}, None]),
        ("STRUCT<a: INT, b: STRING>", [Row(a=1, b="x"), (2, "y"), {"a": 3}, None]),
    ],
)
def test_values_become_what_spark_makes_of_them(kind: str, values: list[Any]) -> None:
    schema, struct = types.schemas(f"x {kind}", "it")
    rows = [(value,) for value in values]
    ours = types.RowConverter(schema, struct, "read()").batch(rows)
    (theirs,) = records_to_arrow_batches(iter(rows), 1000, struct, DataSource({}))
    assert ours.equals(theirs)


def test_fields_of_rows_are_taken_by_name() -> None:
    schema, struct = types.schemas("a INT, b STRING", "it")
    convert = types.RowConverter(schema, struct, "read()")
    assert convert.batch([Row(b="x", a=1), Row(a=2, b="y"), (3, "z"), Row("a", "b")(4, "w")]).to_pylist() == [
        {"a": 1, "b": "x"},
        {"a": 2, "b": "y"},
        {"a": 3, "b": "z"},
        {"a": 4, "b": "w"},
    ]
    with pytest.raises(UserCodeError, match=r"read\(\) gave a Row with a, c; the schema has a, b"):
        convert.batch([Row(a=1, c=2)])


@pytest.mark.parametrize(
    ("kind", "row", "says"),
    [
        ("INT", ("text",), "gave the column 'x' other values than its schema says, int32"),
        ("TINYINT", (1000,), "gave the column 'x' other values"),
        ("TIMESTAMP", (5,), "gave the column 'x' other values"),
        ("INT NOT NULL", (None,), "gave None for 'x', which its schema says has no nulls"),
        ("INT", (1, 2), "a row with 2 values; the schema has 1: x"),
        ("INT", {"x": 1}, "a row must be a tuple, a list or a Row"),
    ],
)
def test_what_does_not_fit_is_an_error(kind: str, row: Any, says: str) -> None:
    schema, struct = types.schemas(f"x {kind}", "it")
    with pytest.raises(UserCodeError, match=says):
        types.RowConverter(schema, struct, "read()").batch([row])


def test_both_schemas_agree() -> None:
    text = "a BIGINT NOT NULL, t TIMESTAMP, n TIMESTAMP_NTZ, l ARRAY<STRING>, m MAP<STRING, INT>"
    arrow, struct = types.schemas(text, "it")
    assert types.schemas(struct, "it") == (arrow, struct)
    written, _ = types.written_schemas(pa.schema([("x", pa.uint16())]), "it")
    assert written == pa.schema([("x", pa.int32())])
