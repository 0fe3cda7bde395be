from __future__ import annotations

import threading
from pathlib import Path

import pytest

from snapline.devtools.servers.maven_jars import jar_cache, maven_jars
from snapline.errors import ConfigurationError

MVN = """#!/bin/sh
echo called >> {calls}
sleep 0.2
{result}
"""
FETCH = "mkdir jars && cp pom.xml jars/b.jar && touch jars/a.jar"


@pytest.fixture
def calls(tmp_path: Path) -> Path:
    """Where the stand-in for mvn notes that it was called."""
    return tmp_path / "calls"


def install_mvn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, result: str) -> None:
    folder = tmp_path / "bin"
    folder.mkdir(exist_ok=True)
    (folder / "mvn").write_text(MVN.format(calls=tmp_path / "calls", result=result))
    (folder / "mvn").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_jars_are_fetched_once_for_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calls: Path) -> None:
    install_mvn(tmp_path, monkeypatch, FETCH)
    cache = tmp_path / "cache"
    found: list[list[Path]] = []
    threads = [
        threading.Thread(target=lambda: found.append(maven_jars("org.x:one_2.13:1.0", "org.x:two:2", cache=cache)))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert calls.read_text() == "called\n"
    assert found == [found[0]] * 3
    assert [path.name for path in found[0]] == ["a.jar", "b.jar"]
    assert found[0][0].parent.name.startswith("one_2.13-1.0-")
    assert "<groupId>org.x</groupId><artifactId>two</artifactId><version>2</version>" in found[0][1].read_text()
    maven_jars("org.x:one_2.13:1.0", cache=cache)
    assert calls.read_text() == "called\ncalled\n"
    assert not [path for path in cache.iterdir() if path.name.startswith(".")]


def test_jars_without_what_they_need_are_kept_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calls: Path
) -> None:
    install_mvn(tmp_path, monkeypatch, FETCH)
    full = maven_jars("org.x:y:1", cache=tmp_path)
    alone = maven_jars("org.x:y:1", alone=True, cache=tmp_path)
    assert calls.read_text() == "called\ncalled\n"
    assert "<exclusion>" in alone[1].read_text()
    assert "<exclusion>" not in full[1].read_text()


def test_a_fetch_that_fails_leaves_nothing_and_shows_what_mvn_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_mvn(tmp_path, monkeypatch, "mkdir jars; touch jars/half.jar; echo no such artifact; exit 1")
    for _ in range(2):
        with pytest.raises(ConfigurationError, match=r"could not fetch org\.x:y:1; (?s:.*)no such artifact"):
            maven_jars("org.x:y:1", cache=tmp_path / "cache")
    install_mvn(tmp_path, monkeypatch, FETCH)
    assert len(maven_jars("org.x:y:1", cache=tmp_path / "cache")) == 2


def test_a_missing_mvn_and_wrong_names_are_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigurationError, match=r"no `mvn` on the path to fetch org\.x:y:1: apt-get install maven"):
        maven_jars("org.x:y:1", cache=tmp_path)
    with pytest.raises(ConfigurationError, match="write an artifact as 'group:artifact:version'"):
        maven_jars("org.x:y", cache=tmp_path)
    with pytest.raises(ConfigurationError, match="at least one"):
        maven_jars(cache=tmp_path)


def test_the_cache_is_outside_of_the_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert jar_cache() == tmp_path / "snapline" / "jars"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert jar_cache() == Path.home() / ".cache" / "snapline" / "jars"
