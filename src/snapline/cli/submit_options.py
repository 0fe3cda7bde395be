"""The options of spark-submit that `snapline run` takes before the program."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

from snapline.cli.usage import UsageError

SubmitOption: TypeAlias = tuple[str, str | None]
"""Name and value; a switch has no value."""

_VALUES = {
    "--master": ("URL", "spark://host:port, yarn, k8s://host:port, local[4]"),
    "--deploy-mode": ("MODE", "client only: the driver is this process"),
    "--name": ("NAME", "the name of the application"),
    "--conf": ("NAME=VALUE", "a setting of Spark; repeatable"),
    "--properties-file": ("FILE", "a file with settings of Spark"),
    "--py-files": ("FILES", "modules for executors and driver: .py, .zip, .egg, separated by commas"),
    "--files": ("FILES", "files for the working directory of each executor"),
    "--archives": ("FILES", "archives to unpack there"),
    "--jars": ("FILES", "jars for driver and executors"),
    "--packages": ("COORDINATES", "Maven coordinates of jars"),
    "--exclude-packages": ("COORDINATES", "what to leave out of those"),
    "--repositories": ("URLS", "where else to look for those"),
    "--driver-memory": ("SIZE", "memory of the driver's JVM, such as 1g"),
    "--driver-java-options": ("OPTIONS", "options of the driver's JVM"),
    "--driver-library-path": ("PATHS", "library path of the driver's JVM"),
    "--driver-class-path": ("PATHS", "class path of the driver's JVM"),
    "--driver-cores": ("N", "cores of the driver, in cluster mode"),
    "--executor-memory": ("SIZE", "memory of each executor's JVM, such as 1g"),
    "--executor-cores": ("N", "cores of each executor"),
    "--total-executor-cores": ("N", "cores of all executors, on a standalone cluster"),
    "--num-executors": ("N", "how many executors"),
    "--proxy-user": ("USER", "whom to act for"),
    "--principal": ("NAME", "of Kerberos"),
    "--keytab": ("FILE", "of Kerberos"),
    "--queue": ("NAME", "of YARN"),
}
_SHORT = {"--conf": "-c", "--verbose": "-v"}
_SWITCHES = {"--verbose": "let spark-submit say more", "--load-spark-defaults": "read spark-defaults.conf as well"}

_PROGRESS_BAR = ("--conf", "spark.ui.showConsoleProgress=false")
"""Spark's own bar, for a stage that never ends, would write over the progress of the job."""


def add_submit_options(parser: argparse.ArgumentParser) -> None:
    """Declare them. What is given is in `options.submit`, as it was given."""
    group = parser.add_argument_group("options of spark-submit")
    for name, (metavar, help) in _VALUES.items():
        group.add_argument(*_names(name), metavar=metavar, action=_Keep, dest="submit", default=[], help=help)
    for name, help in _SWITCHES.items():
        group.add_argument(*_names(name), action=_Keep, nargs=0, dest="submit", default=[], help=help)


def apply_submit_options(submit: Sequence[SubmitOption]) -> None:
    """Let every Spark that this process starts take these options: PySpark starts it with spark-submit.

    The driver is this process, as with `--deploy-mode client`. Modules of `--py-files` can be imported.
    """
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        raise UsageError("this is a program of spark-submit already; give the options to that")
    if any(name == "--deploy-mode" and value != "client" for name, value in submit):
        raise UsageError(
            "snapline run is the driver of the jobs that it shows, so --deploy-mode is client; for another one use "
            "spark-submit, and `snapline status` to look at its jobs"
        )
    words = [word for option in submit for word in option if word is not None]
    os.environ["PYSPARK_SUBMIT_ARGS"] = shlex.join([*_PROGRESS_BAR, *words, "pyspark-shell"])
    for name, value in submit:
        if name == "--py-files":
            _make_importable(str(value).split(","))


def _names(name: str) -> list[str]:
    return [short, name] if (short := _SHORT.get(name)) else [name]


def _make_importable(files: Sequence[str]) -> None:
    """As spark-submit does for the program that it runs. Those elsewhere come when Spark has started."""
    for file in filter(None, (name.strip() for name in files)):
        if "://" in file and not file.startswith("file://"):
            continue
        path = Path(file.removeprefix("file://")).absolute()
        if not path.exists():
            raise UsageError(f"--py-files: there is no file {str(path)!r}")
        sys.path.insert(0, str(path.parent if path.suffix == ".py" else path))


class _Keep(argparse.Action):
    """Keeps a `SubmitOption` in a list, in the order of the command line."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        del parser, option_string
        kept = (self.option_strings[-1], None if self.nargs == 0 else str(values))
        setattr(namespace, self.dest, [*getattr(namespace, self.dest), kept])
