"""Rows of PostgreSQL as Arrow batches, of every type."""

from __future__ import annotations

import datetime as dt
import os
import resource
from contextlib import ExitStack, closing
from decimal import Decimal
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from snapline.connectors.postgres.copy_rows import CopiedRows, query_columns
from snapline.errors import UserCodeError

NASTY = ["plain", "", None, "tab\there", "line\nend", "\n\\.\n", '"quoted", {x}', "ünï 🎈", "t", "NULL"]
TYPES: list[tuple[str, pa.DataType, list[Any]]] = [
    ("text", pa.string(), NASTY),
    ("int2", pa.int16(), [1, None, -3]),
    ("int4", pa.int32(), [None]),
    ("int8", pa.int64(), [2**63 - 1]),
    ("float4", pa.float32(), [1.5, None]),
    ("float8", pa.float64(), [0.1, float("inf")]),
    ("bool", pa.bool_(), [True, False, None]),
    ("bytea", pa.binary(), [b"\x00\xff", b"", None]),
    ("date", pa.date32(), [dt.date(2024, 2, 29), None]),
    ("time", pa.time64("us"), [dt.time(1, 2, 3, 4), dt.time(5)]),
    ("timestamp", pa.timestamp("us"), [dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 1, 1, 1, 1, 123456), None]),
    (
        "timestamptz",
        pa.timestamp("us", "UTC"),
        [dt.datetime(2024, 1, 1, tzinfo=dt.UTC), dt.datetime(2024, 1, 1, 1, 1, 1, 123456, dt.UTC), None],
    ),
    ("numeric(10, 3)", pa.decimal128(10, 3), [Decimal("1.500"), None, Decimal("-1234567.891")]),
    ("numeric", pa.string(), ["1.5", None]),
    ("uuid", pa.string(), ["00000000-0000-0000-0000-000000000001"]),
    ("jsonb", pa.string(), ['{"a": [1, "x"]}', None]),
    ("int4[]", pa.list_(pa.int32()), [[1, None], [], None]),
    ("text[]", pa.list_(pa.string()), [["a,b", None, 'q"'], None]),
    ("numeric[]", pa.string(), ["{1.5,2}"]),
]


def read(dsn: str, select: str, most: int = 100) -> list[pa.RecordBatch]:
    with closing(psycopg.connect(dsn, autocommit=True)) as connection:
        connection.execute("SET timezone = 'UTC'")
        columns = query_columns(connection, f"({select}) AS q")
        selected = ", ".join(column.selected for column in columns)
        rows = CopiedRows(connection, f"SELECT {selected} FROM ({select}) AS q", columns, "Postgres()")
        batches = []
        while (batch := rows.read(most)) is not None:
            batches.append(batch)
        assert rows.read(most) is None or connection.execute("SELECT 1").fetchone() == (1,)
        return batches


@pytest.mark.parametrize(("declared", "kind", "values"), TYPES, ids=[entry[0] for entry in TYPES])
def test_values_come_as_they_are(database: str, declared: str, kind: pa.DataType, values: list[Any]) -> None:
    with psycopg.connect(database) as connection:
        connection.execute(f"CREATE TABLE t (v {declared}, n serial)".encode())
        for value in values:
            connection.execute("INSERT INTO t (v) VALUES (%s)", (value,))
    for select in ("SELECT v FROM t ORDER BY n", "SELECT v, n FROM t ORDER BY n"):
        (batch,) = read(database, select)
        assert batch.schema.field("v").type == kind
        assert batch.column("v").to_pylist() == values


def test_batches_have_a_limit(database: str) -> None:
    batches = read(database, "SELECT x FROM generate_series(1, 25) AS x", 10)
    assert [batch.num_rows for batch in batches] == [10, 10, 5]


def test_rows_come_in_processes_with_many_open_files(database: str) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(before[0], 2048), before[1]))
    with ExitStack() as files:
        files.callback(resource.setrlimit, resource.RLIMIT_NOFILE, before)
        for _ in range(1024):
            files.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        (batch,) = read(database, "SELECT x FROM pg_sleep(0.05), generate_series(1, 3) AS x")
    assert batch.column("x").to_pylist() == [1, 2, 3]


def test_a_value_without_a_counterpart_is_named(database: str) -> None:
    with pytest.raises(UserCodeError, match="cast its column to text in a query"):
        read(database, "SELECT 'infinity'::timestamp AS t")


def test_an_error_of_the_server_in_the_middle_is_not_the_end(database: str) -> None:
    with pytest.raises(psycopg.errors.DivisionByZero):
        read(database, "SELECT 1 / (20000 - x) AS x FROM generate_series(1, 30000) AS x", 10)
