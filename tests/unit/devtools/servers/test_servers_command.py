from __future__ import annotations

from pathlib import Path

import pytest

from snapline.devtools.servers import postgres_server, servers_command
from snapline.devtools.servers.servers_command import REQUIRE, ensure_chromium, ensure_postgres, main
from snapline.errors import ConfigurationError

APT = """#!/bin/sh
PATH=/usr/bin:/bin
echo "$@ $DEBIAN_FRONTEND" >> {root}/calls
{result}
"""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without PostgreSQL and Chromium, on which we are root."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(postgres_server, "PROGRAMS", tmp_path / "programs")
    monkeypatch.setattr(servers_command, "CLUSTERS", tmp_path / "etc" / "createcluster.conf")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    return tmp_path


def apt_get(machine: Path, result: str) -> None:
    (machine / "apt-get").write_text(APT.format(root=machine, result=result))
    (machine / "apt-get").chmod(0o755)


def test_postgres_is_installed_where_that_is_possible(machine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = machine / "programs" / "15" / "bin"
    apt_get(machine, f"test $1 = update || (mkdir -p {folder}; touch {folder}/initdb {folder}/postgres)")
    assert ensure_postgres() == folder
    update, install = (machine / "calls").read_text().splitlines()
    assert update.startswith("update")
    assert "postgresql" in install
    assert "-y" in install
    assert install.endswith("noninteractive")
    assert "create_main_cluster = false" in (machine / "etc" / "createcluster.conf").read_text()
    assert capsys.readouterr().out == "installing postgresql\n"
    ensure_postgres()
    assert len((machine / "calls").read_text().splitlines()) == 2


def test_chromium_is_installed_where_that_is_possible(machine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = machine / "chromium"
    apt_get(machine, f"test $1 = update || (touch {program}; chmod +x {program})")
    assert ensure_chromium() == str(program)
    _, install = (machine / "calls").read_text().splitlines()
    assert "--no-install-recommends chromium fonts-inter" in install
    assert capsys.readouterr().out == "installing chromium\n"
    ensure_chromium()
    assert len((machine / "calls").read_text().splitlines()) == 2


def test_an_installation_that_fails_is_shown(machine: Path) -> None:
    apt_get(machine, "echo no network; exit 100")
    with pytest.raises(ConfigurationError, match=r"apt-get update .*` failed; run it by hand:\nno network"):
        ensure_postgres()


def test_others_than_root_are_told_what_to_install(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    apt_get(machine, "exit 0")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(ConfigurationError, match="apt-get install postgresql"):
        ensure_postgres()
    with pytest.raises(ConfigurationError, match="apt-get install chromium"):
        ensure_chromium()
    assert not (machine / "calls").exists()


def test_what_is_missing_fails_only_where_it_is_required(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing() -> None:
        raise ConfigurationError("no mvn: apt-get install maven")

    monkeypatch.setattr(servers_command, "java", lambda: "java")
    monkeypatch.setattr(servers_command, "ensure_classes_archive", lambda: Path())
    monkeypatch.setattr(servers_command, "kafka_jars", missing)
    monkeypatch.setattr(servers_command, "ensure_postgres", lambda: Path())
    monkeypatch.setattr(servers_command, "flink_dashboard_jar", lambda: Path())
    monkeypatch.setattr(servers_command, "ensure_chromium", lambda: "chromium")
    monkeypatch.delenv(REQUIRE, raising=False)
    assert main() == 0
    assert "Kafka is missing, and tests that need it are left out: no mvn" in capsys.readouterr().out
    monkeypatch.setenv(REQUIRE, "1")
    assert main() == 1
    monkeypatch.setattr(servers_command, "kafka_jars", list)
    assert main() == 0
