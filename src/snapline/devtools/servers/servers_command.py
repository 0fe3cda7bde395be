"""Gets the servers that the tests need: `python -m snapline.devtools.servers`."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from snapline.devtools.servers.chromium import PACKAGES, chromium_program
from snapline.devtools.servers.flink_dashboard import flink_dashboard_jar
from snapline.devtools.servers.kafka_server import kafka_jars
from snapline.devtools.servers.postgres_server import postgres_programs
from snapline.devtools.servers.server_process import java
from snapline.devtools.servers.spark_classes import ensure_classes_archive
from snapline.errors import ConfigurationError

REQUIRE = "SNAPLINE_REQUIRE_SERVERS"
"""The environment variable that makes a missing server an error, if it is 1."""
INSTALL_TIMEOUT_S = 600.0
TAIL_CHARACTERS = 1500
CLUSTERS = Path("/etc/postgresql-common/createcluster.conf")
"""Tells Debian's packages whether to create a database and start it."""

# Another apt-get may be at work on a machine that has just started.
_WAIT = ("-o", "DPkg::Lock::Timeout=120")


def main() -> int:
    """Fetch and install what is missing, as far as possible, and print what remains.

    Returns 1 if something is missing that SNAPLINE_REQUIRE_SERVERS=1 requires, else 0.
    """
    steps: dict[str, Callable[[], object]] = {
        "Java": java,
        "Spark": ensure_classes_archive,
        "Kafka": kafka_jars,
        "PostgreSQL": ensure_postgres,
        "Flink's dashboard": flink_dashboard_jar,
        "Chromium": ensure_chromium,
    }
    missing = 0
    for name, step in steps.items():
        try:
            step()
        except ConfigurationError as error:
            missing += 1
            print(f"{name} is missing, and tests that need it are left out: {error}")
    return 1 if missing and os.environ.get(REQUIRE) == "1" else 0


def ensure_postgres() -> Path:
    """The folder of PostgreSQL's programs; installs them if they are missing and we are root on a Debian.

    Raises ConfigurationError if they are missing and cannot be installed.
    """
    try:
        return postgres_programs()
    except ConfigurationError:
        apt = _apt_get()
        if apt is None:
            raise
    if not CLUSTERS.exists():
        # The tests start databases of their own; the package would start another one on its well-known port.
        CLUSTERS.parent.mkdir(parents=True, exist_ok=True)
        CLUSTERS.write_text("create_main_cluster = false\n", encoding="utf-8")
    _install(apt, "postgresql")
    return postgres_programs()


def ensure_chromium() -> str:
    """The path of the browser; the same for it."""
    try:
        return chromium_program()
    except ConfigurationError:
        apt = _apt_get()
        if apt is None:
            raise
    _install(apt, *PACKAGES)
    return chromium_program()


def _apt_get() -> str | None:
    return shutil.which("apt-get") if os.geteuid() == 0 else None


def _install(apt: str, *packages: str) -> None:
    print(f"installing {packages[0]}")
    # The lists of packages may be too old or not there at all.
    _run(apt, "update", *_WAIT, "-q")
    _run(apt, "install", *_WAIT, "-q", "-y", "--no-install-recommends", *packages)


def _run(*command: str) -> None:
    # No questions, and our file with settings of clusters stays as it is.
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "UCF_FORCE_CONFFOLD": "1"}
    written = " ".join(command)
    try:
        made = subprocess.run(  # noqa: S603  # our own
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=INSTALL_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ConfigurationError(f"`{written}` did not end within {INSTALL_TIMEOUT_S:g} s; run it by hand") from error
    if made.returncode:
        tail = made.stdout.decode(errors="replace")[-TAIL_CHARACTERS:]
        raise ConfigurationError(f"`{written}` failed; run it by hand:\n{tail}")
