"""What errors of the server mean, and that no password is ever shown."""

from __future__ import annotations

import pickle
from pathlib import Path

import psycopg
import pytest
from tests.servers_kit import or_skip

from snapline.config.secret import Secret
from snapline.connectors.postgres.postgres_connection import PostgresAddress
from snapline.devtools.servers.postgres_server import PostgresServer
from snapline.devtools.servers.server_process import free_port
from snapline.errors import ConfigurationError, TransientError, UserCodeError

PASSWORD = "open-sesame-7"


def test_an_address_that_is_not_understood_is_not_repeated() -> None:
    for wrong in ("", f"postgresql://user:{PASSWORD}@host:port/x y?z"):
        with pytest.raises(ConfigurationError, match="give 'postgresql://") as error:
            PostgresAddress("Postgres('t')", wrong)
        assert PASSWORD not in str(error.value)


def test_a_server_that_is_away() -> None:
    address = PostgresAddress("Postgres('t')", f"postgresql://someone:{PASSWORD}@127.0.0.1:{free_port()}/db")
    with pytest.raises(TransientError, match=r"does not answer.*start the server") as error:
        address.connect(application="test")
    assert PASSWORD not in f"{error.value} {address!r}"


@pytest.mark.slow
def test_who_is_let_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with or_skip(PostgresServer(tmp_path, password=PASSWORD)) as server:
        open_dsn = f"host=127.0.0.1 port={server.port} user=postgres dbname=postgres"
        for dsn, password, complaint in [
            (open_dsn, "wrong-one", "give the right one with password=Secret"),
            (open_dsn, None, "give one with password=Secret"),
            (open_dsn.replace("dbname=postgres", "dbname=nothing"), PASSWORD, "create it, or name another one"),
        ]:
            with pytest.raises(ConfigurationError, match=complaint) as error:
                PostgresAddress("Postgres('t')", dsn, password).connect(application="test")
            assert PASSWORD not in str(error.value)
            assert "wrong-one" not in str(error.value)
        with pytest.raises(TransientError, match="give the right one"):  # which may be there at the next attempt
            PostgresAddress("Postgres('t')", open_dsn, "wrong-one").connect(application="test", is_running=True)
        monkeypatch.setenv("THE_PASSWORD", PASSWORD)
        address = PostgresAddress("Postgres('t')", open_dsn, Secret.env("THE_PASSWORD"))
        address.connect(application="test").close()
        assert PASSWORD.encode() not in pickle.dumps(address)


@pytest.mark.parametrize(
    ("statement", "kind", "complaint"),
    [
        ("SELECT * FROM nothing", ConfigurationError, 'relation "nothing" does not exist'),
        ("SELECT 1 / 0", UserCodeError, "the rows do not fit"),
        ("SET statement_timeout = 10; SELECT pg_sleep(10)", TransientError, "statement timeout"),
        ("SET default_transaction_read_only = on; CREATE TABLE t ()", TransientError, "read-only"),
        ("SELECT pg_terminate_backend(pg_backend_pid())", TransientError, "terminating connection"),
        ("DO $$ BEGIN RAISE EXCEPTION 'no space' USING ERRCODE = '53100'; END $$", TransientError, "make room there"),
    ],
)
def test_errors_are_told_apart(database: str, statement: str, kind: type[Exception], complaint: str) -> None:
    address = PostgresAddress("Postgres('t')", database)
    connection = address.connect(application="test", autocommit=True)
    *before, last = [statement] if statement.startswith("DO") else statement.split("; ")
    for part in before:
        connection.execute(part.encode())
    with pytest.raises(kind, match=complaint), address.errors("trying"):
        connection.execute(last.encode())
    connection.close()


def test_what_to_do_is_said_ahead_of_details(database: str) -> None:
    address = PostgresAddress("Postgres('t')", database)
    connection = address.connect(application="test")
    connection.execute("CREATE TABLE t (x int NOT NULL)")
    with pytest.raises(UserCodeError) as error, address.errors("trying"):
        connection.execute("INSERT INTO t VALUES (NULL)")
    connection.close()
    assert str(error.value).endswith(
        "not-null constraint: the rows do not fit the table; change the one or the other (DETAIL: Failing row contains "
        "(null).)"
    )


def test_what_the_user_may_not_do(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("CREATE TABLE closed (x int)")
        connection.execute("DO $$ BEGIN CREATE ROLE guest LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$")
    address = PostgresAddress("Postgres('t')", database.replace("postgres@", "guest@"))
    connection = address.connect(application="test")
    with pytest.raises(ConfigurationError, match="GRANT this user what it needs"), address.errors("reading"):
        connection.execute("SELECT * FROM closed")
    connection.close()
