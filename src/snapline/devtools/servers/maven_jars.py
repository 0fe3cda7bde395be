"""Jars from Maven Central, fetched once per machine and kept in a cache outside the checkout."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import logging
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from snapline.errors import ConfigurationError

FETCH_TIMEOUT_S = 600.0
LOCK_POLL_S = 0.2
TAIL_CHARACTERS = 1500

_COORDINATES = re.compile(r"(?P<group>[\w.-]+):(?P<artifact>[\w.-]+):(?P<version>[\w.-]+)")
_POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion>
<groupId>snapline</groupId><artifactId>jars</artifactId><version>1</version>
<dependencyManagement><dependencies>{dependencies}</dependencies></dependencyManagement>
<dependencies>{dependencies}</dependencies>
</project>
"""
_DEPENDENCY = (
    "<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>{alone}"
    "</dependency>"
)
_ALONE = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
_LOG = logging.getLogger(__name__)


def maven_jars(*artifacts: str, alone: bool = False, cache: Path | None = None) -> list[Path]:
    """The jars of these artifacts ("group:artifact:version") with all they need at run time, sorted by name.

    With `alone`, without what they need. A version given here also holds where another of the artifacts asks for a
    different one. The first call fetches them with `mvn`; later ones, of other processes too, find them in `cache`.
    Raises ConfigurationError if an artifact is written wrongly, `mvn` is missing, or it cannot fetch one.
    """
    parts = [_COORDINATES.fullmatch(artifact) for artifact in artifacts]
    for artifact, match in zip(artifacts, parts, strict=True):
        if match is None:
            raise ConfigurationError(f"maven_jars({artifact!r}): write an artifact as 'group:artifact:version'")
    known = [match.groupdict() for match in parts if match is not None]
    if not known:
        raise ConfigurationError("maven_jars() needs at least one artifact, 'group:artifact:version'")
    digest = hashlib.sha256("\n".join([*artifacts, *(["alone"] if alone else [])]).encode()).hexdigest()[:8]
    directory = (cache or jar_cache()) / f"{known[0]['artifact']}-{known[0]['version']}-{digest}"
    if not directory.is_dir():
        directory.parent.mkdir(parents=True, exist_ok=True)
        with _lock(directory.with_name(f"{directory.name}.lock"), " ".join(artifacts)):
            if not directory.is_dir():
                lines = [_DEPENDENCY.format(**part, alone=_ALONE if alone else "") for part in known]
                _fetch(_POM.format(dependencies="".join(lines)), directory, " ".join(artifacts))
    return sorted(directory.glob("*.jar"))


def jar_cache() -> Path:
    """Where jars are kept: `snapline/jars` in $XDG_CACHE_HOME, or in ~/.cache."""
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "snapline" / "jars"


def _fetch(pom: str, directory: Path, artifacts: str) -> None:
    mvn = shutil.which("mvn")
    if mvn is None:
        raise ConfigurationError(f"no `mvn` on the path to fetch {artifacts}: apt-get install maven")
    # A rename makes the folder appear complete or not at all.
    with tempfile.TemporaryDirectory(dir=directory.parent, prefix=f".{directory.name}-") as name:
        place = Path(name)
        (place / "pom.xml").write_text(pom, encoding="utf-8")
        command = [mvn, "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=jars", "-DincludeScope=runtime"]
        try:
            made = subprocess.run(  # noqa: S603  # our own
                command,
                cwd=place,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=FETCH_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise ConfigurationError(
                f"mvn did not fetch {artifacts} within {FETCH_TIMEOUT_S:g} s; check the way to Maven Central"
            ) from error
        if made.returncode or not any((place / "jars").glob("*.jar")):
            tail = made.stdout.decode(errors="replace")[-TAIL_CHARACTERS:]
            raise ConfigurationError(
                f"mvn could not fetch {artifacts}; check the names and the way to Maven Central "
                f"(~/.m2/settings.xml may name a mirror):\n{tail}"
            )
        (place / "jars").rename(directory)


@contextlib.contextmanager
def _lock(path: Path, artifacts: str) -> Iterator[None]:
    """Hold the lock file; the system releases it when a process ends."""
    with path.open("w") as file:
        deadline_s = time.monotonic() + FETCH_TIMEOUT_S
        told = False
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not told:
                    _LOG.warning("another process fetches %s; waiting for it (lock %s)", artifacts, path)
                    told = True
                if time.monotonic() > deadline_s:
                    raise ConfigurationError(
                        f"another process holds {path} for more than {FETCH_TIMEOUT_S:g} s; end it, and try again"
                    ) from None
            time.sleep(LOCK_POLL_S)
        yield
