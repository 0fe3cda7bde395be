"""The PostgreSQL source keeps the contract of sources, with a real server."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pyarrow as pa
import pytest

import snapline as sl
from snapline.testing import SourceContract

pytestmark = pytest.mark.slow

ROWS = 2000
KINDS = {
    "primary key": "",
    "query": "",
    "ties and nulls": "x / 7",
    "text": "'key ' || x % 500",
    "times": "timestamptz '2024-01-01 00:00:00.123456+00' + x * interval '1.5 seconds'",
    "incremental": "",
    "incremental times": "timestamp '2024-01-01' + x * interval '1 second'",
}


class TestPostgresSource(SourceContract):
    quiet_s = 0.05

    @pytest.fixture(autouse=True, params=KINDS)
    def _table(self, request: pytest.FixtureRequest, database: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("snapline.connectors.postgres.postgres_reader.BATCH_ROWS", 170)
        self._dsn, self._kind = database, request.param
        order = KINDS[request.param] or "x"
        with psycopg.connect(database) as connection:
            connection.execute(
                f"CREATE TABLE numbers AS SELECT x, {order} AS o, 'row ' || x AS name "
                f"FROM generate_series(1, {ROWS}) AS x".encode()
            )
            connection.execute("ALTER TABLE numbers ADD PRIMARY KEY (x)")
            if request.param == "ties and nulls":
                connection.execute("UPDATE numbers SET o = NULL WHERE x > 1900")

    def make_source(self, directory: Path) -> sl.Source:
        kind = self._kind
        if kind == "primary key":
            return sl.sources.Postgres(self._dsn, "numbers", splits=5)
        if kind == "query":
            query = "SELECT x, o, name FROM numbers WHERE x > 0;"
            return sl.sources.Postgres(self._dsn, query=query, split_by="x", splits=3)
        if kind.startswith("incremental"):
            lag = "10ms" if kind == "incremental" else "1s"
            return sl.sources.Postgres(self._dsn, "numbers", incremental="o", poll="5ms", lag=lag)
        return sl.sources.Postgres(self._dsn, "public.numbers", split_by="o", splits=4)

    def expected_rows(self) -> pa.Table:
        with psycopg.connect(self._dsn) as connection:
            rows = connection.execute("SELECT x, o, name FROM numbers").fetchall()
        columns = list(zip(*rows, strict=True))
        kind = {
            "text": pa.string(),
            "times": pa.timestamp("us", "UTC"),
            "incremental times": pa.timestamp("us"),
        }.get(self._kind, pa.int32())
        return pa.table([pa.array(columns[0], pa.int32()), pa.array(columns[1], kind), columns[2]], ["x", "o", "name"])
