"""The modes of the PostgreSQL sink keep the contract of sinks, with a real server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

import snapline as sl
from snapline.testing import SinkContract

pytestmark = pytest.mark.slow


class TestPostgresSink(SinkContract):
    @pytest.fixture(autouse=True, params=["prepared", "commit_table", "upsert"])
    def _connected(self, request: pytest.FixtureRequest, database: str) -> Iterator[None]:
        self._mode = request.param
        self._dsn = database
        with psycopg.connect(database, autocommit=True) as self._connection:
            self._connection.execute("CREATE TABLE numbers (x bigint PRIMARY KEY)")
            yield
            left = self._connection.execute("SELECT gid FROM pg_prepared_xacts WHERE database = current_database()")
            assert left.fetchall() == []

    def make_sink(self, directory: Path) -> sl.Sink:
        key = ["x"] if self._mode == "upsert" else []
        return sl.sinks.Postgres(self._dsn, "numbers", mode=self._mode, key=key)

    def visible_numbers(self, directory: Path) -> list[int]:
        return [row[0] for row in self._connection.execute("SELECT x FROM numbers").fetchall()]
