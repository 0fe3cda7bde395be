"""Whole jobs that write to PostgreSQL: whatever dies, the table is exact, and readers never see anything else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from tests.servers_kit import or_skip

import snapline as sl
from snapline.devtools.kit.exactly_once import NUMBERED, Numbering
from snapline.devtools.servers.postgres_server import PostgresServer
from snapline.testing import ProcessCluster, ThreadCluster

pytestmark = pytest.mark.slow

DEADLINE_S = 120.0
ROWS, USERS = 6_000, 20
MODES = ("prepared", "commit_table", "upsert")
TABLE = 'CREATE TABLE numbered (id bigint, "user" text, number bigint)'


def numbered_job(dsn: str, directory: Path, mode: str) -> sl.Job:
    """Numbers the rows of each user; with "upsert" the table has the last one of each."""
    job = sl.Job(
        f"to-postgres-{mode.replace('_', '-')}",
        parallelism=2,
        checkpoints=sl.Checkpoints(interval="100ms", storage=str(directory / "chk")),
        restart=sl.FixedDelay(attempts=100, delay="100ms"),
    )
    source = sl.sources.Rate(2000, rows=ROWS, users=USERS, batch_rows=200)
    numbered = (
        job.source(source, uid="rows").key_by("user").apply(Numbering(), uid="numbers", schema=NUMBERED, has_state=True)
    )
    numbered.sink(sl.sinks.Postgres(dsn, "numbered", mode=mode, key=["user"] if mode == "upsert" else []), uid="out")
    return job


def wait_until(condition: Callable[[], object], what: str) -> None:
    deadline_s = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline_s, f"not in time: {what}"
        time.sleep(0.02)


@contextmanager
def watched(dsn: str, mode: str) -> Iterator[list[str]]:
    """A reader that looks at the table all the time, and what it finds wrong."""
    problems: list[str] = []
    stop = threading.Event()

    def watch() -> None:
        before: dict[str, int] = {}
        while not stop.is_set():
            try:
                with psycopg.connect(dsn, autocommit=True) as connection:
                    while not stop.is_set():
                        found = connection.execute(
                            'SELECT "user", count(*), count(DISTINCT number), max(number) FROM numbered GROUP BY 1'
                        ).fetchall()
                        for user, rows, numbers, last in found:
                            # Whole checkpoints only: no gap and nothing twice.
                            if mode != "upsert" and not rows == numbers == last:
                                problems.append(f"{user}: {rows} rows, {numbers} different, the last {last}")
                            if last < before.get(user, 0):
                                problems.append(f"{user}: {last} after {before[user]}")
                            before[user] = last
            except psycopg.OperationalError:
                time.sleep(0.05)  # the server is away

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield problems
    finally:
        stop.set()
        thread.join()


def check_content(dsn: str, mode: str) -> None:
    with psycopg.connect(dsn) as connection:
        counts: dict[str, int] = dict(
            connection.execute('SELECT "user", max(number) FROM numbered GROUP BY 1').fetchall()
        )
        rows, ids = connection.execute("SELECT count(*), count(DISTINCT id) FROM numbered").fetchall()[0]
        left = connection.execute("SELECT gid FROM pg_prepared_xacts WHERE database = current_database()").fetchall()
        commits = connection.execute("SELECT count(*) FROM snapline_commits").fetchall()[0][0]
    assert counts == sl.sources.Rate(rows=ROWS, users=USERS).expected_counts()
    assert (rows, ids) == ((USERS, USERS) if mode == "upsert" else (ROWS, ROWS))
    assert left == []
    assert commits < 40, "the table of commits grows"


def test_killed_operator_processes(database: str, tmp_path: Path) -> None:
    """Rows that replace earlier ones; `test_sink_kills.py` has those that are added, in every mode."""
    mode = "upsert"
    with psycopg.connect(database) as connection:
        connection.execute(TABLE + ' ; ALTER TABLE numbered ADD PRIMARY KEY ("user")')
    cluster = ProcessCluster()
    with watched(database, mode) as problems:
        handle = numbered_job(database, tmp_path, mode).start(cluster)
        for _ in range(2):
            attempt, done = handle.attempt, handle.checkpoints().counts.completed
            wait_until(lambda: handle.checkpoints().counts.completed > done, "another checkpoint")  # noqa: B023
            os.kill(cluster.worker_pids()[0], signal.SIGKILL)
            wait_until(lambda: handle.attempt > attempt, "a restart")  # noqa: B023
        assert handle.wait("120s") is sl.JobStatus.FINISHED
    assert problems == []
    check_content(database, mode)


@pytest.mark.parametrize("mode", MODES)
def test_a_server_that_is_killed_and_comes_back(tmp_path: Path, mode: str) -> None:
    with or_skip(PostgresServer(tmp_path / "server")) as server:
        with psycopg.connect(server.dsn) as connection:
            connection.execute(TABLE + (' ; ALTER TABLE numbered ADD PRIMARY KEY ("user")' if mode == "upsert" else ""))
        with watched(server.dsn, mode) as problems:
            handle = numbered_job(server.dsn, tmp_path, mode).start(ThreadCluster())
            wait_until(lambda: handle.checkpoints().counts.completed, "a checkpoint")
            server.kill()
            time.sleep(0.5)  # as long as it is away
            server.start()
            assert handle.wait("120s") is sl.JobStatus.FINISHED
        assert problems == []
        check_content(server.dsn, mode)


def test_the_example(database: str) -> None:
    root = Path(__file__).parents[3]
    command = [sys.executable, str(root / "examples" / "postgres.py"), database]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=True)
    lines = ["customer-0 1000 1501500", "customer-1 1000 1499500", "customer-2 1000 1500500"]
    assert done.stdout.splitlines() == ["JobStatus.FINISHED", *lines]
