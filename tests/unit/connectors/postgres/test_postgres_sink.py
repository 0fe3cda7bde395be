"""The PostgreSQL sink says what is wrong before anything runs, and tries again what may heal."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import cloudpickle
import psycopg
import pyarrow as pa
import pytest
from tests.servers_kit import or_skip

import snapline as sl
from snapline.connectors.database.stored_rows import StoredRows
from snapline.contracts.sink import CommitResult, Committable, Permit, SinkContext, SinkWriter
from snapline.devtools.servers.postgres_server import PostgresServer
from snapline.errors import ConfigurationError, FencedError, RestoreError, TransientError, UserCodeError

ROWS = pa.record_batch({"x": [1, 2], "name": ["a", "b"]})
NOWHERE = "postgresql://127.0.0.1:1/nothing"


def context(attempt: int = 1, lineage: str = "job.1") -> SinkContext:
    return SinkContext("job", "out", 0, 1, attempt, lineage)


def query(dsn: str, statement: str) -> list[tuple[object, ...]]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        found = connection.execute(statement.encode())
        return found.fetchall() if found.description else []


def prepared(writer: SinkWriter, checkpoint: int = 1) -> Committable:
    writer.write(ROWS)
    return Committable("name", checkpoint, writer.prepare(checkpoint)[0])


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"mode": "copy"}, "use one of 'prepared'"),
        ({"guarantee": "most"}, "use one of 'exactly_once'"),
        ({"mode": "upsert"}, "name the columns that tell rows apart"),
        ({"key": ["x"]}, 'set mode="upsert"'),
        ({"delete_column": "gone"}, 'needs mode="upsert"'),
        ({"mode": "upsert", "key": ["x"], "guarantee": "at_least_once"}, "is exactly once"),
        ({"commit_table": "a%b"}, "without"),
        ({"commit_table": "a.b.c"}, "is not the name of a table"),
        ({"columns": "x"}, "no list of names"),
    ],
)
def test_wrong_settings(settings: dict[str, object], complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        sl.sinks.Postgres(NOWHERE, "t", **settings)  # type: ignore[arg-type]


def test_the_table_is_compared_with_the_rows(database: str) -> None:
    sink = sl.sinks.Postgres(database, "t", mode="upsert", key=["x"])
    sink.check(ROWS.schema)
    with pytest.raises(ConfigurationError, match="create it, or set create_table=True"):
        sink.check_access()
    query(database, "CREATE TABLE t (x int)")
    with pytest.raises(ConfigurationError, match=r"ALTER COLUMN x TYPE bigint.*ADD COLUMN name text"):
        sink.check_access()
    query(database, "ALTER TABLE t ALTER COLUMN x TYPE bigint, ADD COLUMN name text")
    with pytest.raises(ConfigurationError, match=r"ADD PRIMARY KEY \(x\)"):
        sink.check_access()
    query(database, "ALTER TABLE t ADD PRIMARY KEY (x)")
    sink.check_access()


@pytest.mark.parametrize(
    ("definition", "settings", "complaint"),
    [
        ("TABLE t (x bigint, name text GENERATED ALWAYS AS ('a') STORED)", {}, r"computed by the server.*columns="),
        ("VIEW t AS SELECT 1::bigint AS x, ''::text AS name", {}, "is a view; name the table behind it"),
        (
            "TABLE t (x bigint UNIQUE DEFERRABLE, name text)",
            {"mode": "upsert", "key": ["x"]},
            r"partial or deferrable: ALTER TABLE t ADD PRIMARY KEY",
        ),
    ],
)
def test_tables_that_take_no_rows_are_refused(
    database: str, definition: str, settings: dict[str, Any], complaint: str
) -> None:
    query(database, f"CREATE {definition}")
    sink = sl.sinks.Postgres(database, "t", **settings)
    sink.check(ROWS.schema)
    with pytest.raises(ConfigurationError, match=complaint):
        sink.check_access()


def test_rights_are_asked_for_at_the_start(database: str) -> None:
    query(database, "CREATE TABLE t (x bigint PRIMARY KEY, name text)")
    query(database, "DO $$ BEGIN CREATE ROLE guest LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$")
    query(database, "GRANT CREATE ON SCHEMA public TO guest; GRANT INSERT (x, name) ON t TO guest")
    guest = database.replace("postgres@", "guest@")
    sink = sl.sinks.Postgres(guest, "t", mode="upsert", key=["x"])
    sink.check(ROWS.schema)
    with pytest.raises(ConfigurationError, match="GRANT SELECT, UPDATE ON t"):
        sink.check_access()
    sink = sl.sinks.Postgres(guest, "t", mode="commit_table")
    sink.check(ROWS.schema)
    sink.check_access()


def test_a_key_that_the_server_numbers_can_be_given(database: str) -> None:
    query(database, "CREATE TABLE t (x bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text)")
    sink = sl.sinks.Postgres(database, "t", mode="upsert", key=["x"])
    sink.check(ROWS.schema)
    sink.check_access()
    writer, committer = sink.writer(context()), sink.global_committer(context())
    writer.write(ROWS)
    assert committer.commit(Committable("name", 1, writer.prepare(1)), Permit(1, 1)) is CommitResult.COMMITTED
    committer.close()
    assert query(database, "SELECT x, name FROM t") == [(1, "a"), (2, "b")]


def test_time_limits_of_the_server_do_not_end_a_copy(database: str) -> None:
    name = database.rpartition("/")[2]
    query(database, "CREATE TABLE t (x bigint, name text)")
    query(database, f"ALTER DATABASE {name} SET statement_timeout = '50ms'")
    writer = sl.sinks.Postgres(database, "t").writer(context())
    writer.abort_newer(0)
    writer.write(ROWS)
    time.sleep(0.2)  # longer than a statement may take
    assert writer.commit(prepared(writer), Permit(1, 1)) is CommitResult.COMMITTED
    writer.close()


def test_a_table_is_created_for_the_rows(database: str) -> None:
    sink = sl.sinks.Postgres(database, "t", create_table=True, columns={"x": "number"})
    sink.check(ROWS.schema)
    for _ in range(2):
        sink.check_access()
    writer = sink.writer(context())
    assert writer.commit(prepared(writer), Permit(1, 1)) is CommitResult.COMMITTED
    writer.close()
    assert query(database, "SELECT number FROM t") == [(1,), (2,)]


def test_a_server_that_is_away_is_an_error_only_before_the_start(database: str) -> None:
    with pytest.raises(TransientError, match="does not answer"):
        sl.sinks.Postgres(NOWHERE, "t").check_access()
    sink = sl.sinks.Postgres(database, "t", create_table=True)
    sink.check(ROWS.schema)
    sink.check_access()
    later = cloudpickle.loads(cloudpickle.dumps(sink))
    later._table.address = sl.sinks.Postgres(NOWHERE, "t")._table.address
    later.check_access()
    with pytest.raises(TransientError, match="does not answer"):
        later.writer(context()).write(ROWS)


@pytest.mark.slow
def test_a_server_without_prepared_transactions_and_one_that_is_killed(tmp_path: Path) -> None:
    with or_skip(PostgresServer(tmp_path / "0", max_prepared_transactions=0)) as server:
        with pytest.raises(ConfigurationError, match=r'max_prepared_transactions.*mode="commit_table"'):
            sl.sinks.Postgres(server.dsn, "t").check_access()
        sl.sinks.Postgres(server.dsn, "t", mode="commit_table").check_access()
    with or_skip(PostgresServer(tmp_path / "1")) as server:
        query(server.dsn, "CREATE TABLE t (x bigint, name text)")
        for mode in ("prepared", "commit_table"):
            sink = sl.sinks.Postgres(server.dsn, "t", mode=mode)
            sink.check_access()
            writer = sink.writer(context(lineage=mode))
            first, second = prepared(writer, 1), prepared(writer, 2)
            assert writer.commit(first, Permit(1, 1)) is CommitResult.COMMITTED
            server.kill()
            assert writer.commit(second, Permit(1, 2)) is CommitResult.RETRY_LATER
            with pytest.raises(TransientError):
                sink.writer(context(lineage=mode)).abort_newer(2)
            server.start()
            assert writer.commit(second, Permit(1, 2)) is CommitResult.COMMITTED
            writer.close()
        assert query(server.dsn, "SELECT count(*) FROM t") == [(8,)]


def test_a_transaction_that_somebody_rolled_back_is_a_loss(database: str) -> None:
    sink = sl.sinks.Postgres(database, "t", create_table=True)
    sink.check(ROWS.schema)
    sink.check_access()
    writer = sink.writer(context())
    committable = prepared(writer)
    query(database, f"ROLLBACK PREPARED '{committable.payload['gid']}'")
    with pytest.raises(RestoreError, match="rows are lost"):
        writer.commit(committable, Permit(1, 1))
    strange = Committable("name", 1, {**committable.payload, "gid": "somebody's"})
    with pytest.raises(RestoreError, match="does not name a transaction of this sink"):
        writer.commit(strange, Permit(1, 1))
    writer.close()


def test_an_older_attempt_can_no_longer_write(database: str) -> None:
    sink = sl.sinks.Postgres(database, "t", create_table=True)
    sink.check(ROWS.schema)
    sink.check_access()
    old, late = sink.writer(context(1)), sink.writer(context(1))
    old.write(ROWS)
    sink.writer(context(2)).abort_newer(-1)
    with pytest.raises(TransientError):
        old.prepare(1)
    with pytest.raises(FencedError, match="attempt 2 of the job writes now"):
        late.write(ROWS)
    for writer in (old, late):
        writer.close()


def test_prepared_transactions_of_other_starts_are_named(database: str, caplog: pytest.LogCaptureFixture) -> None:
    sink = sl.sinks.Postgres(database, "t", create_table=True)
    sink.check(ROWS.schema)
    sink.check_access()
    first = sink.writer(context(lineage="job.1"))
    gid = prepared(first).payload["gid"]
    sink.writer(context(lineage="job.2")).abort_newer(-1)
    assert gid in caplog.text
    assert query(database, "SELECT gid FROM pg_prepared_xacts WHERE database = current_database()") == [(gid,)]
    query(database, f"ROLLBACK PREPARED '{gid}'")
    first.close()


def test_rows_that_the_table_refuses(database: str) -> None:
    query(database, "CREATE TABLE t (x bigint CHECK (x < 2), name text)")
    for mode in ("prepared", "commit_table"):
        sink = sl.sinks.Postgres(database, "t", mode=mode)
        sink.check_access()
        writer = sink.writer(context(lineage=mode))
        with pytest.raises(UserCodeError, match="violates check constraint"):
            writer.commit(prepared(writer), Permit(1, 1))
        writer.close()
    assert query(database, "SELECT * FROM t") == []


def test_rows_that_an_older_version_kept_as_arrow_are_committed(database: str) -> None:
    sink = sl.sinks.Postgres(database, "t", mode="commit_table", create_table=True)
    sink.check(ROWS.schema)
    sink.check_access()
    stored = StoredRows()
    stored.add(ROWS)
    row = ["job.1", "out", 0, 1, 7, 0]
    writer = sink.writer(context(attempt=2))
    committable = Committable("name", 7, {"row": row, "rows": stored.take()[0]})
    assert writer.commit(committable, Permit(2, 7)) is CommitResult.COMMITTED
    assert writer.commit(committable, Permit(2, 7)) is CommitResult.ALREADY_COMMITTED
    assert query(database, "SELECT * FROM t") == [(1, "a"), (2, "b")]
    writer.close()


def test_one_row_of_commits_stands_for_all_of_a_writer(database: str) -> None:
    sink = sl.sinks.Postgres(database, "t", mode="commit_table", create_table=True)
    sink.check(ROWS.schema)
    sink.check_access()
    writer = sink.writer(context())
    writer.abort_newer(-1)
    kept = [prepared(writer, number) for number in (1, 2, 3)]
    assert [writer.commit(each, Permit(1, 3)) for each in kept] == [CommitResult.COMMITTED] * 3
    rows = query(database, "SELECT checkpoint_id, all_before FROM snapline_commits WHERE subtask >= 0")
    assert rows == [(3, 1)]
    assert [writer.commit(each, Permit(1, 3)) for each in kept] == [CommitResult.ALREADY_COMMITTED] * 3
    assert query(database, "SELECT count(*) FROM t") == [(6,)]
    writer.close()


def test_at_least_once_commits_at_the_barrier(database: str) -> None:
    sink = sl.sinks.Postgres(database, "t", create_table=True, guarantee="at_least_once")
    assert not sink.two_phase
    sink.check(ROWS.schema)
    sink.check_access()
    writer = sink.writer(context())
    writer.write(ROWS)
    assert query(database, "SELECT x FROM t") == []
    assert writer.prepare(1) == ()
    assert query(database, "SELECT x FROM t") == [(1,), (2,)]
    writer.close()


def test_upserts_and_deletions(database: str) -> None:
    sink = sl.sinks.Postgres(database, "t", mode="upsert", key=["x"], delete_column="gone", create_table=True)
    schema = pa.schema([("x", pa.int64()), ("v", pa.string()), ("gone", pa.bool_())])
    sink.check(schema)
    sink.check_access()
    writer, committer = sink.writer(context()), sink.global_committer(context())
    steps: list[list[tuple[int, str | None, bool | None]]] = [
        [(1, "a", False), (2, "b", False), (1, "c", None)],
        [(2, None, True), (3, "d", False)],
    ]
    for checkpoint, rows in enumerate(steps, start=1):
        batch = pa.RecordBatch.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)
        writer.write(batch)
        committable = Committable("name", checkpoint, list(writer.prepare(checkpoint)))
        assert committer.commit(committable, Permit(1, checkpoint)) is CommitResult.COMMITTED
    assert query(database, "SELECT * FROM t ORDER BY x") == [(1, "c"), (3, "d")]
    committer.close()
