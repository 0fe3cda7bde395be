"""The PostgreSQL of the tests: prepared transactions survive `kill -9`, passwords are asked for, freezing holds."""

from __future__ import annotations

import threading
from pathlib import Path

import psycopg
import pytest
from tests.servers_kit import or_skip

from snapline.devtools.kit.processes import descendants
from snapline.devtools.servers.postgres_server import PostgresServer

DEADLINE_S = 60.0


@pytest.mark.slow
def test_every_test_has_a_database_of_its_own(postgres: PostgresServer, database: str) -> None:
    assert database != postgres.dsn
    with psycopg.connect(database) as connection:
        connection.execute("CREATE TABLE numbers (n int)")
        connection.execute("INSERT INTO numbers VALUES (1)")
        assert connection.execute("SELECT n FROM numbers").fetchall() == [(1,)]


@pytest.mark.slow
def test_a_prepared_transaction_survives_kill_9(tmp_path: Path) -> None:
    with or_skip(PostgresServer(tmp_path)) as server:
        address = server.dsn
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute("CREATE TABLE numbers (n int)")
            connection.execute("BEGIN")
            connection.execute("INSERT INTO numbers VALUES (1)")
            connection.execute("PREPARE TRANSACTION 'one'")
            server.kill()
            assert not server.is_running
            with pytest.raises(psycopg.OperationalError):
                connection.execute("SELECT 1")
        server.start()
        assert server.dsn == address
        with psycopg.connect(address, autocommit=True) as connection:
            assert connection.execute("SELECT gid FROM pg_prepared_xacts").fetchall() == [("one",)]
            connection.execute("COMMIT PREPARED 'one'")
            assert connection.execute("SELECT n FROM numbers").fetchall() == [(1,)]
        server.stop()
        server.start()
        with psycopg.connect(address) as connection:
            assert connection.execute("SELECT n FROM numbers").fetchall() == [(1,)]


@pytest.mark.slow
def test_a_frozen_server_answers_after_the_thaw(tmp_path: Path) -> None:
    with or_skip(PostgresServer(tmp_path)) as server, psycopg.connect(server.dsn) as connection:
        answers: list[object] = []
        server.freeze()
        thread = threading.Thread(target=lambda: answers.extend(connection.execute("SELECT 7").fetchall()))
        thread.start()
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(server.dsn, connect_timeout=2)
        assert not answers
        server.thaw()
        thread.join(DEADLINE_S)
        assert answers == [(7,)]


@pytest.mark.slow
def test_a_wrong_password_is_refused(tmp_path: Path) -> None:
    with or_skip(PostgresServer(tmp_path, password="right & proper", max_prepared_transactions=0)) as server:
        with psycopg.connect(server.dsn) as connection:
            assert connection.execute("SHOW max_prepared_transactions").fetchall() == [("0",)]
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(server.dsn_of("postgres", password="wrong"))


@pytest.mark.slow
def test_nothing_is_left(tmp_path: Path) -> None:
    with or_skip(PostgresServer(tmp_path)) as server:
        assert server._home is not None
        home = server._home
        assert server._process is not None
        children = descendants(server._process.pid)
        assert children
    assert not home.exists()
    assert not any(child.is_running for child in children)
