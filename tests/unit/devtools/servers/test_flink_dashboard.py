from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from snapline.devtools.servers import flink_dashboard
from snapline.devtools.servers.flink_dashboard import flink_dashboard_files, flink_dashboard_jar
from snapline.errors import ConfigurationError


def packed(path: Path, *names: str) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, name)
    return path


def test_files_are_those_of_the_dashboard_alone(tmp_path: Path) -> None:
    jar = packed(tmp_path / "a.jar", "META-INF/NOTICE", "web/", "web/index.html", "web/assets/logo.svg")
    assert flink_dashboard_files(jar) == {
        "index.html": b"web/index.html",
        "assets/logo.svg": b"web/assets/logo.svg",
    }


def test_a_jar_without_a_dashboard_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="holds no dashboard; remove its folder"):
        flink_dashboard_files(packed(tmp_path / "a.jar", "META-INF/NOTICE"))


def test_the_jar_comes_without_flink(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[tuple[str, ...], bool]] = []

    def fetched(*artifacts: str, alone: bool) -> list[Path]:
        asked.append((artifacts, alone))
        return [tmp_path / "a.jar"]

    monkeypatch.setattr(flink_dashboard, "maven_jars", fetched)
    assert flink_dashboard_jar() == tmp_path / "a.jar"
    assert asked == [((f"org.apache.flink:flink-runtime-web:{flink_dashboard.VERSION}",), True)]
