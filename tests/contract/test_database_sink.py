"""The sink for any database keeps the contract of sinks: with SQLite, and with PostgreSQL as just another driver."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

import snapline as sl
from snapline.testing import SinkContract


def sqlite(path: str) -> Callable[[], Any]:
    def connect() -> sqlite3.Connection:
        return sqlite3.connect(path, timeout=10)

    return connect


class TestSqlite(SinkContract):
    def make_sink(self, directory: Path) -> sl.Sink:
        self._connect = sqlite(str(directory / "rows.db"))
        with closing(self._connect()) as connection:
            connection.execute("CREATE TABLE numbers (x INTEGER)")
        return sl.sinks.Database(self._connect, "numbers")

    def visible_numbers(self, directory: Path) -> list[int]:
        with closing(self._connect()) as connection:
            return [row[0] for row in connection.execute("SELECT x FROM numbers")]


class TestPostgresByItsDriver(SinkContract):
    @pytest.fixture(autouse=True)
    def _database(self, database: str) -> None:
        self._dsn = database

    def make_sink(self, directory: Path) -> sl.Sink:
        dsn = self._dsn
        with psycopg.connect(dsn) as connection:
            connection.execute("CREATE TABLE numbers (x bigint)")
        return sl.sinks.Database(lambda: psycopg.connect(dsn), "numbers")

    def visible_numbers(self, directory: Path) -> list[int]:
        with psycopg.connect(self._dsn) as connection:
            return [row[0] for row in connection.execute("SELECT x FROM numbers").fetchall()]
