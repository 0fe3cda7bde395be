"""The files of Flink's dashboard, for tests that put it in front of our REST interface."""

from __future__ import annotations

import zipfile
from pathlib import Path

from snapline.devtools.servers.maven_jars import maven_jars
from snapline.errors import ConfigurationError

VERSION = "2.3.0"

_FOLDER = "web/"


def flink_dashboard_jar() -> Path:
    """The jar that holds the dashboard, fetched once per machine. Raises ConfigurationError if it cannot be had."""
    return maven_jars(f"org.apache.flink:flink-runtime-web:{VERSION}", alone=True)[0]


def flink_dashboard_files(jar: Path) -> dict[str, bytes]:
    """All files of the dashboard by their paths below its root: `index.html`, `assets/...`."""
    with zipfile.ZipFile(jar) as archive:
        names = [name for name in archive.namelist() if name.startswith(_FOLDER) and not name.endswith("/")]
        files = {name.removeprefix(_FOLDER): archive.read(name) for name in names}
    if "index.html" not in files:
        raise ConfigurationError(f"{jar} holds no dashboard; remove its folder, and it is fetched again")
    return files
