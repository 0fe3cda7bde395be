"""Drivers of databases: how they write parameters, what their errors mean, which connections will not do."""

from __future__ import annotations

import datetime as dt
import sqlite3
from contextlib import closing
from typing import Any

import pyarrow as pa
import pytest

from snapline.connectors.database.database_driver import DatabaseDriver, column_name, insert, table_name
from snapline.errors import ConfigurationError, TransientError, UserCodeError


def driver(connect: Any = lambda: sqlite3.connect(":memory:"), style: str | None = None) -> DatabaseDriver:
    return DatabaseDriver("Database('t')", connect, style)


class Foreign:
    """A connection of a driver that says nothing of itself."""

    autocommit = False

    def cursor(self) -> Any: ...
    def commit(self) -> None: ...
    def rollback(self) -> None: ...
    def close(self) -> None: ...


def test_markers_are_those_of_the_module() -> None:
    with closing(driver().connect()) as connection:
        assert driver().markers(connection)(2) == ["?", "?"]
        assert driver(style="format").markers(connection)(2) == ["%s", "%s"]
        assert driver(style="numeric").markers(connection)(2) == [":1", ":2"]
    with pytest.raises(ConfigurationError, match="give parameter_style="):
        driver().markers(Foreign())


@pytest.mark.parametrize(
    ("connect", "complaint"),
    [
        (lambda: 3, "returned a int; it must return a DB-API connection"),
        (lambda: sqlite3.connect(":memory:", isolation_level=None), "leave out isolation_level=None"),
    ],
)
def test_a_connection_that_will_not_do(connect: Any, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        driver(connect).connect()


def test_a_database_that_is_away_may_come_back() -> None:
    with pytest.raises(TransientError, match="is the database there"):
        driver(lambda: sqlite3.connect("/nowhere/at/all.db")).connect()


def test_errors_are_told_apart() -> None:
    with closing(driver().connect()) as connection:
        assert isinstance(driver().explained(connection, sqlite3.OperationalError("locked"), "it"), TransientError)
        assert isinstance(driver().explained(connection, sqlite3.DataError("no"), "it"), UserCodeError)
        assert driver().is_integrity_error(connection, sqlite3.IntegrityError())
        assert not driver().is_integrity_error(connection, sqlite3.DataError())


def test_rows_are_inserted_with_their_types() -> None:
    batch = pa.record_batch(
        {"x": [1, None], "a b": ["it's", ""], "blob": [b"\x00", None], "real": [1.5, None], "yes": [True, False]}
    )
    with closing(driver().connect()) as connection:
        connection.execute('CREATE TABLE t (x INTEGER, "a b" TEXT, blob BLOB, real REAL, yes INTEGER)')
        insert(connection, "t", [batch, batch], lambda count: ["?"] * count)
        expected = [(1, "it's", b"\x00", 1.5, 1), (None, "", None, None, 0)]
        assert connection.execute("SELECT * FROM t").fetchall() == expected * 2


def test_adbc_takes_rows_as_arrow() -> None:
    taken: list[Any] = []

    class Cursor:
        def adbc_ingest(self, name: str, data: pa.Table, mode: str, **place: str) -> None:
            taken.append((name, data.num_rows, mode, place))

        def close(self) -> None: ...

    class Connection(Foreign):
        def cursor(self) -> Any:
            return Cursor()

    batch = pa.record_batch({"time": pa.array([dt.datetime(2024, 1, 1)], pa.timestamp("ns"))})
    insert(Connection(), 'lake."rows"', [batch], lambda count: ["?"] * count)
    assert taken == [("rows", 1, "append", {"db_schema_name": "lake"})]


def test_names() -> None:
    assert table_name("call", 'a."b c"') == 'a."b c"'
    for wrong in ("a; DROP TABLE b", "", "a..b", "a b"):
        with pytest.raises(ConfigurationError, match="is not the name of a table"):
            table_name("call", wrong)
    assert [column_name(name) for name in ("plain", 'odd "one"')] == ["plain", '"odd ""one"""']
