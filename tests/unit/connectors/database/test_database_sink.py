"""The sink for any database says what is wrong before anything runs, and tries again what may heal."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import snapline as sl
from snapline.contracts.sink import CommitResult, Committable, Permit, SinkContext
from snapline.errors import ConfigurationError, TransientError, UserCodeError
from snapline.testing import ThreadCluster

ROWS = pa.record_batch({"x": [1, 2]})


def sink(path: Path, table: str = "t") -> sl.sinks.Database:
    return sl.sinks.Database(lambda: sqlite3.connect(path, timeout=0), table)


def run(path: Path, *statements: str) -> list[Any]:
    with closing(sqlite3.connect(path)) as connection, connection:
        return [connection.execute(statement).fetchall() for statement in statements][-1]


def test_what_is_wrong_is_said_before_anything_runs(tmp_path: Path) -> None:
    path = tmp_path / "rows.db"
    made = sink(path)
    made.check(ROWS.schema)
    with pytest.raises(ConfigurationError, match="create it with these columns"):
        made.check_access()
    run(path, "CREATE TABLE t (y INTEGER)")
    with pytest.raises(ConfigurationError, match="no such column: x"):
        made.check_access()
    with pytest.raises(ConfigurationError, match="rename the column to '\"order\"'"):
        made.check_access()
    with pytest.raises(ConfigurationError, match="is nested"):
        made.check(pa.schema([("l", pa.list_(pa.int64()))]))
    with pytest.raises(TransientError, match="unable to open"):
        sink(tmp_path / "nowhere" / "rows.db").check_access()


def test_a_connection_that_commits_by_itself_is_found_out(tmp_path: Path) -> None:
    class Hasty:
        """Commits each statement, and does not say so."""

        def __init__(self) -> None:
            self._inner = sqlite3.connect(tmp_path / "rows.db", isolation_level=None)
            self.cursor, self.close = self._inner.cursor, self._inner.close
            self.commit = self.rollback = lambda: None

    made = sl.sinks.Database(Hasty, "t", parameter_style="qmark")
    with pytest.raises(ConfigurationError, match="a rollback does not take back"):
        made.check_access()
    assert run(tmp_path / "rows.db", "SELECT * FROM snapline_commits") == []


def test_a_locked_database_is_tried_again(tmp_path: Path) -> None:
    path = tmp_path / "rows.db"
    run(path, "CREATE TABLE t (x INTEGER)")
    made = sink(path)
    made.check_access()
    writer = made.writer(SinkContext("job", "out", 0, 1, 1, "job.1"))
    writer.write(ROWS)
    committable = Committable("name", 1, writer.prepare(1)[0])
    with closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert writer.commit(committable, Permit(1, 1)) is CommitResult.RETRY_LATER
    assert writer.commit(committable, Permit(1, 1)) is CommitResult.COMMITTED
    assert run(path, "SELECT x FROM t") == [(1,), (2,)]


def test_rows_that_the_table_refuses_end_the_commit(tmp_path: Path) -> None:
    path = tmp_path / "rows.db"
    run(path, "CREATE TABLE t (x INTEGER UNIQUE)", "INSERT INTO t VALUES (2)")
    made = sink(path)
    made.check_access()
    writer = made.writer(SinkContext("job", "out", 0, 1, 1, "job.1"))
    writer.write(ROWS)
    with pytest.raises(UserCodeError, match="UNIQUE constraint failed"):
        writer.commit(Committable("name", 1, writer.prepare(1)[0]), Permit(1, 1))
    assert run(path, "SELECT x FROM t") == [(2,)]
    assert made.committed_until("job.1", "out") is None


def test_a_job(tmp_path: Path) -> None:
    path = tmp_path / "rows.db"
    run(path, "CREATE TABLE t (id INTEGER, user TEXT, value INTEGER, time TEXT)")
    job = sl.Job("to-sqlite", parallelism=2, checkpoints=sl.Checkpoints(interval="50ms", storage=str(tmp_path / "chk")))
    made = sl.sinks.Database(lambda: sqlite3.connect(path, timeout=10), "t")
    stream = job.source(sl.sources.Rate(rows=3000, users=3), uid="rows")
    stream.select("id", "user", "value").sink(made, uid="out")
    assert job.run(ThreadCluster()) is sl.JobStatus.FINISHED
    assert run(path, "SELECT count(*), count(DISTINCT id) FROM t") == [(3000, 3000)]
