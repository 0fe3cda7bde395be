"""Spark in a JVM that this process starts and stops, with its output in a file."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from snapline.errors import ConfigurationError

JAVA_VERSION = 17
"""Oldest Java that Spark 4 runs on."""

JAVA_TIMEOUT_S = 20.0
STOP_TIMEOUT_S = 5.0

_INSTALL = (
    f"install Java {JAVA_VERSION} or newer (on Debian and Ubuntu: apt install default-jre-headless; on macOS: "
    f"brew install openjdk@{JAVA_VERSION}), or point JAVA_HOME at one"
)
# Settings of another Spark installation, which would leak into this one.
_FOREIGN = ("SPARK_HOME", "SPARK_CONF_DIR", "SPARK_REMOTE", "PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT", "MASTER")


class EmbeddedSpark:
    """One application with `cores` task slots. Spark's files are in `directory`, its output in `log`.

    Runs in one JVM, unless `master` names a cluster. `settings` are additional Spark settings. Raises
    `ConfigurationError` without a suitable Java.
    """

    def __init__(
        self,
        cores: int,
        directory: Path,
        log: Path,
        *,
        master: str | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        check_java(os.environ)
        self.master = master or f"local[{cores}]"
        self._settings = dict(settings or {})
        self._directory = directory
        self._log = log
        self._gateway: Any = None
        self._context: SparkContext | None = None

    def start(self) -> SparkSession:
        """Start Spark, which takes some seconds. Raises `ConfigurationError` if it does not start."""
        for name in _FOREIGN:
            os.environ.pop(name, None)
        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
        self._directory.mkdir(parents=True, exist_ok=True)
        settings = {
            "spark.master": self.master,
            "spark.app.name": "snapline",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.local.dir": str(self._directory),
            "spark.sql.warehouse.dir": str(self._directory / "warehouse"),
            # This JVM lives for minutes: what makes one fast in the long run only delays its start.
            "spark.driver.extraJavaOptions": (
                f'"-Djava.io.tmpdir={self._directory}" -XX:-UsePerfData -XX:TieredStopAtLevel=1'
            ),
            **self._settings,
        }
        conf = SparkConf(loadDefaults=False)
        for name, value in settings.items():
            conf.set(name, value)
        try:
            with open(self._log, "ab") as log:
                # In its own session: signals of the terminal are for this process, which ends the JVM.
                pipes = {"stdout": log, "stderr": log, "start_new_session": True}
                self._gateway = launch_gateway(conf, pipes)  # type: ignore[no-untyped-call]
            self._context = SparkContext(conf=conf, gateway=self._gateway)
            return SparkSession(self._context)
        except Exception as error:
            raise ConfigurationError(f"Spark does not start: {error}; see its output in {self._log}") from error

    def stop(self) -> None:
        """Stop the application and its JVM, if running. Never raises."""
        context, self._context = self._context, None
        gateway, self._gateway = self._gateway, None
        if context is not None:
            with contextlib.suppress(Exception):  # the JVM is stopped below in any case
                SparkSession(context).stop()
        if gateway is None:
            return
        with contextlib.suppress(Exception):
            gateway.shutdown()
        with SparkContext._lock:  # allows this process to start Spark again
            SparkContext._gateway = SparkContext._jvm = None
        process: subprocess.Popen[bytes] = gateway.proc
        if process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def check_java(environment: Mapping[str, str]) -> None:
    """Raises `ConfigurationError` if the Java that Spark would use is missing or too old."""
    home = environment.get("JAVA_HOME")
    program = f"{home}/bin/java" if home else shutil.which("java", path=environment.get("PATH"))
    if program is None:
        raise ConfigurationError(f"Spark needs Java, and there is no `java` in PATH: {_INSTALL}")
    try:
        done = subprocess.run(  # noqa: S603  # the same program that Spark runs
            [program, "-version"], capture_output=True, text=True, timeout=JAVA_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        where = f"{program} (from JAVA_HOME)" if home else program
        raise ConfigurationError(f"Spark needs Java, and {where} does not run: {_INSTALL}") from error
    version = java_version(done.stderr + done.stdout)
    if version is None:
        raise ConfigurationError(f"Spark needs Java, and {program} does not report its version: {_INSTALL}")
    if version < JAVA_VERSION:
        raise ConfigurationError(f"Spark needs Java {JAVA_VERSION}, and {program} is Java {version}: {_INSTALL}")


def java_version(output: str) -> int | None:
    """Returns the major version in the output of `java -version`, or None; 8 for the old style 1.8."""
    match = re.search(r'version "(?:1\.)?(\d+)', output)
    return None if match is None else int(match[1])
