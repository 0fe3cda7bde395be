"""The PostgreSQL source says what is wrong, and finds new rows while it runs."""

from __future__ import annotations

import time

import psycopg
import pyarrow as pa
import pytest

import snapline as sl
from snapline.contracts.source import ReaderContext, Wait
from snapline.errors import ConfigurationError, RestoreError

CONTEXT = ReaderContext("job", "rows", 0, 1)


def execute(dsn: str, statement: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(statement.encode())


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({}, "either the name of a table, or query="),
        ({"table": "t", "query": "SELECT 1"}, "either the name of a table"),
        ({"table": "t", "splits": 0}, "use 1 or more"),
        ({"table": "t", "incremental": "x", "split_by": "x"}, "leave out split_by"),
        ({"table": "t", "start_after": 3}, "needs incremental="),
        ({"table": "t", "incremental": "x", "poll": 0}, "use a pause"),
    ],
)
def test_wrong_settings(settings: dict[str, object], complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        sl.sources.Postgres("host=nowhere", **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"table": "t"}, "give split_by='column'"),
        ({"table": "missing", "split_by": "x"}, 'relation "missing" does not exist'),
        ({"table": "t", "split_by": "z"}, "no column 'z'; there are x, f"),
        ({"table": "t", "split_by": "f"}, "cannot be divided by 'f'"),
        ({"query": "SELECT interval '1 day' AS i", "split_by": "i"}, "cannot be divided by 'i', which is interval"),
        ({"query": "SELECT x, x FROM t", "split_by": "x"}, "columns have the same name|columns share a name"),
        ({"query": "SELEC", "split_by": "x"}, "syntax error"),
    ],
)
def test_what_does_not_fit_the_table(database: str, settings: dict[str, object], complaint: str) -> None:
    execute(database, "CREATE TABLE t (x int, f float8)")
    source = sl.sources.Postgres(database, **settings)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match=complaint):
        _ = source.schema


def test_a_query_may_end_in_a_comment(database: str) -> None:
    assert sl.sources.Postgres(database, query="SELECT 1 AS x -- one", split_by="x").splits(1) == [
        {"order": "x", "from": "1", "to": "1"}
    ]


def test_equal_numbers_stay_together_however_they_are_written(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("snapline.connectors.postgres.postgres_reader.BATCH_ROWS", 4)
    execute(database, "CREATE TABLE t (n numeric)")
    execute(database, "INSERT INTO t VALUES (1), (2), (2.5), (10.0), (10), (10.00), (11), (100)")
    source = sl.sources.Postgres(database, "t", split_by="n", splits=1)
    reader = source.reader(CONTEXT)
    reader.add_split(source.splits(1)[0], None)
    given: list[list[float]] = []
    while (rows := reader.read()) is not None:
        if isinstance(rows, pa.RecordBatch):
            given.append([float(value) for value in rows.column("n").to_pylist()])
    reader.close()
    assert given == [[1, 2, 2.5], [10, 10, 10, 11], [100]]


def test_an_empty_table_has_no_splits(database: str) -> None:
    execute(database, "CREATE TABLE t (x int PRIMARY KEY)")
    assert sl.sources.Postgres(database, "t").splits(2) == []


def test_new_rows_are_found_while_it_runs(database: str) -> None:
    execute(database, "CREATE TABLE t AS SELECT x FROM generate_series(1, 5) AS x")
    source = sl.sources.Postgres(database, "t", incremental="x", poll="1ms", start_after=2)
    assert not source.is_bounded
    (split,) = source.splits(3)
    reader = source.reader(CONTEXT)
    reader.add_split(split, None)
    found: list[int] = []
    deadline_s = time.monotonic() + 10
    while len(found) < 5:
        assert time.monotonic() < deadline_s
        given = reader.read()
        if isinstance(given, pa.RecordBatch):
            found += given.column("x").to_pylist()
            if found == [3, 4, 5]:
                assert reader.positions(1) == [(split, "5")]
                execute(database, "INSERT INTO t VALUES (6), (7)")
        else:
            assert isinstance(given, Wait)
    assert found == [3, 4, 5, 6, 7]
    reader.close()


def test_rows_wait_for_the_lag(database: str) -> None:
    execute(database, "CREATE TABLE t AS SELECT now() - interval '1 hour' AS at UNION ALL SELECT now()")
    source = sl.sources.Postgres(database, "t", incremental="at", poll="1ms", lag="10min")
    reader = source.reader(CONTEXT)
    reader.add_split(source.splits(1)[0], None)
    rows = 0
    for _ in range(20):
        given = reader.read()
        rows += given.num_rows if isinstance(given, pa.RecordBatch) else 0
    assert rows == 1
    reader.close()


def test_a_split_of_another_source_is_refused(database: str) -> None:
    execute(database, "CREATE TABLE t (x int PRIMARY KEY)")
    with pytest.raises(RestoreError, match="taken with another column"):
        sl.sources.Postgres(database, "t").reader(CONTEXT).add_split({"order": "y"}, None)
