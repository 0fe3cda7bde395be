"""Its life is tested in tests/integration/servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from snapline.devtools.servers import postgres_server
from snapline.devtools.servers.postgres_server import PostgresServer, postgres_programs
from snapline.errors import ConfigurationError


def test_the_newest_programs_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(postgres_server, "PROGRAMS", tmp_path)
    with pytest.raises(ConfigurationError, match="apt-get install postgresql"):
        postgres_programs()
    for version in ("9.6", "15", "17"):
        folder = tmp_path / version / "bin"
        folder.mkdir(parents=True)
        (folder / "initdb").touch()
        if version != "17":
            (folder / "postgres").touch()
    assert postgres_programs() == tmp_path / "15" / "bin"


def test_addresses_are_quoted(tmp_path: Path) -> None:
    server = PostgresServer(tmp_path, password="a b/c")
    assert server.dsn == "postgresql://postgres:a%20b%2Fc@127.0.0.1:0/postgres"
    assert server.dsn_of("x", user="u@v", password="p") == "postgresql://u%40v:p@127.0.0.1:0/x"
    assert PostgresServer(tmp_path).dsn == "postgresql://postgres@127.0.0.1:0/postgres"
