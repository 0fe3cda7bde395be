"""Rows as the text of COPY, and how the server reads them."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from snapline.connectors.postgres.copy_text import copy_text
from snapline.connectors.postgres.postgres_connection import PostgresAddress
from snapline.connectors.postgres.postgres_table import CopyTarget, PostgresTable, quote
from snapline.connectors.postgres.postgres_types import PostgresColumn, check_columns

NASTY = ["plain", "", None, "tab\there", "line\nend\r\n", "back\\slash \\N \\.", "\n\\.\n", '"quoted", {x}', "ünï 🎈"]
UTC = dt.UTC
MOMENT = dt.datetime(2024, 2, 29, 12, 30, 1, 123456)
IDENTIFIER = uuid.UUID(int=0x1234567890ABCDEF)


def text(array: pa.Array, kind: str = "text", category: str = "S") -> str:
    batch = pa.record_batch([array], names=["c"])
    return str(copy_text(batch, [PostgresColumn("c", kind, kind, category)]).to_pybytes(), "utf-8")


def test_special_characters_are_escaped() -> None:
    assert text(pa.array(["a\tb\\", None, "c\nd"])) == "a\\tb\\\\\n\\N\nc\\nd\n"


def test_a_slice_of_a_batch_is_just_that() -> None:
    batch = pa.record_batch({"x": [1, 2, 3], "b": [b"a", b"b", None], "l": [[1], [2], None]}).slice(1)
    columns = [
        PostgresColumn("x", "int8", "bigint", "N"),
        PostgresColumn("b", "bytea", "bytea"),
        PostgresColumn("l", "_int8", "bigint[]", "A"),
    ]
    assert copy_text(batch, columns).to_pybytes() == b"2\t\\\\x62\t{2}\n3\t\\N\t\\N\n"


VALUES: list[tuple[str, pa.Array, list[Any]]] = [
    ("text", pa.array(NASTY), NASTY),
    ("varchar(40)", pa.array(NASTY, pa.large_string()), NASTY),
    ("text", pa.array(["a", "b", "a", None]).dictionary_encode(), ["a", "b", "a", None]),
    ("smallint", pa.array([1, None, -5], pa.int8()), [1, None, -5]),
    ("integer", pa.array([1, 65535], pa.uint16()), [1, 65535]),
    ("bigint", pa.array([-(2**63), 2**63 - 1]), [-(2**63), 2**63 - 1]),
    ("numeric", pa.array([2**64 - 1], pa.uint64()), [Decimal(2**64 - 1)]),
    ("real", pa.array([1.5, None], pa.float16()), [1.5, None]),
    ("double precision", pa.array([0.1, 1e300, float("inf")]), [0.1, 1e300, float("inf")]),
    ("boolean", pa.array([True, False, None]), [True, False, None]),
    ("bytea", pa.array([b"\x00\xff\\", b"", None]), [b"\x00\xff\\", b"", None]),
    ("uuid", pa.array([IDENTIFIER.bytes, None], pa.binary(16)), [IDENTIFIER, None]),
    ("uuid", pa.array([str(IDENTIFIER)]), [IDENTIFIER]),
    ("timestamp", pa.array([MOMENT, None], pa.timestamp("us")), [MOMENT, None]),
    ("timestamp", pa.array([MOMENT], pa.timestamp("us")).cast(pa.timestamp("ns")), [MOMENT]),
    (
        "timestamptz",
        pa.array([MOMENT.replace(tzinfo=UTC)], pa.timestamp("us", "America/New_York")),
        [MOMENT.replace(tzinfo=UTC)],
    ),
    ("date", pa.array([dt.date(2024, 2, 29)]), [dt.date(2024, 2, 29)]),
    ("date", pa.array([dt.date(1024, 2, 29)], pa.date64()), [dt.date(1024, 2, 29)]),
    ("time", pa.array([dt.time(1, 2, 3, 4)]), [dt.time(1, 2, 3, 4)]),
    ("interval", pa.array([dt.timedelta(days=1, microseconds=5)]), [dt.timedelta(days=1, microseconds=5)]),
    ("numeric(10, 2)", pa.array([Decimal("12345.67"), None]), [Decimal("12345.67"), None]),
    ("bigint[]", pa.array([[1, None], [], None]), [[1, None], [], None]),
    ("text[]", pa.array([NASTY, ["NULL", None]]), [NASTY, ["NULL", None]]),
    ("timestamp[]", pa.array([[MOMENT]], pa.list_(pa.timestamp("us"))), [[MOMENT]]),
    ("jsonb", pa.array([{"a": 1, "b": ["x", None]}, None]), [{"a": 1, "b": ["x", None]}, None]),
    ("json", pa.array([[("k", 1.5)]], pa.map_(pa.string(), pa.float64())), [{"k": 1.5}]),
    ("jsonb", pa.array([[1, 2]]), [[1, 2]]),
    ("jsonb", pa.array(['{"a": "tab\\t"}']), [{"a": "tab\t"}]),
]


@pytest.mark.parametrize(("declared", "array", "expected"), VALUES, ids=[f"{v[0]} {v[1].type}" for v in VALUES])
def test_the_server_reads_what_was_meant(database: str, declared: str, array: pa.Array, expected: list[Any]) -> None:
    table = PostgresTable("Postgres('odd')", PostgresAddress("Postgres('odd')", database), "odd", "commits")
    name = 'a "column"'
    with psycopg.connect(database) as connection:
        connection.execute("SET timezone = 'UTC'")
        connection.execute(f"CREATE TABLE odd ({quote(name)} {declared}, n serial)".encode())
        batch = pa.record_batch([array], names=[name])
        columns = table.columns(connection)
        check_columns("call", "odd", batch.schema, columns)
        target = CopyTarget(table.quoted, batch.schema, columns)
        with connection.cursor() as cursor, cursor.copy(target.statement.encode()) as copy:
            target.write(copy, batch)
        assert [row[0] for row in connection.execute("SELECT * FROM odd ORDER BY n").fetchall()] == expected
