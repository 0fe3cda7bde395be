"""Drivers in processes of their own, and commands as a second terminal runs them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.program_kit import programs

from snapline.devtools.kit.forked_programs import ForkedProgram

DEADLINE_S = 120.0

DRIVER = """
import ctypes, os, sys

# Root may write everywhere; a driver that is to be kept from that gives up the right.
if os.environ.pop("LIMITED", "") and os.getuid() == 0:
    for capability in (1, 2):
        assert ctypes.CDLL(None).prctl(24, capability, 0, 0, 0) == 0
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])

import snapline as sl
from snapline.testing import ThreadCluster

directory, name, then, *changes = sys.argv[1:]
settings = {"interval": "200ms", "storage": f"{directory}/chk", "savepoint_dir": f"{directory}/sp"}
monitoring = {"port": None}
for change in changes:
    setting, _, value = change.partition("=")
    if setting.startswith("monitoring."):
        monitoring[setting.removeprefix("monitoring.")] = value if value != "True" else True
    else:
        settings[setting] = {"False": False}.get(value, value)
job = sl.Job(
    name, id=name, parallelism=2, checkpoints=sl.Checkpoints(**settings), monitoring=sl.Monitoring(**monitoring)
)
rows = job.source(sl.sources.Rate(2000, users=5, splits=2), uid="rows")
rows.key_by("user").aggregate(n=sl.count(), uid="counts").sink(sl.sinks.Foreach(len), uid="out")
handle = job.start(ThreadCluster())
print("started", handle.url, flush=True)
print("ended", handle.wait().value, flush=True)
if then == "stay":
    sys.stdin.read()
"""


def wait_until(condition: Callable[[], Any], what: str) -> Any:
    """The first true value of the condition."""
    deadline_s = time.monotonic() + DEADLINE_S
    while not (value := condition()):
        assert time.monotonic() < deadline_s, what
        time.sleep(0.02)
    return value


class Driver:
    """A program that runs a job; what it prints is in `out` and `err`."""

    def __init__(self, *arguments: str, environment: dict[str, str]) -> None:
        self._process = programs().start(["-c", DRIVER, *arguments], environment=environment)
        self.pid = self._process.pid
        self.out: list[str] = []
        self.err: list[str] = []
        self._threads = [
            threading.Thread(target=self._read, args=(self._process.stdout, self.out), daemon=True),
            threading.Thread(target=self._read, args=(self._process.stderr, self.err), daemon=True),
        ]
        for thread in self._threads:
            thread.start()
        wait_until(lambda: self.out or self._process.poll() is not None, "the driver starts")
        assert self.out, "".join(self.err)

    def _read(self, stream: Any, lines: list[str]) -> None:
        for line in stream:
            lines.append(line)

    @property
    def url(self) -> str:
        return self.out[0].split()[1]

    def kill(self) -> None:
        """As `kill -9` does."""
        self._process.send_signal(signal.SIGKILL)
        self.close()

    def wait(self) -> None:
        self._process.wait(DEADLINE_S)

    def close(self) -> None:
        self._process.kill()
        for thread in self._threads:
            thread.join()
        self._process.close()


@dataclass(frozen=True, slots=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Place:
    """A directory with a home in it: what drivers and commands of one test share."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.home = directory / "home"
        self.environment = {
            **os.environ,
            "SNAPLINE_HOME": str(self.home),
            "PYTHONWARNINGS": "error",
            "PYTHONUNBUFFERED": "1",
        }
        self.environment.pop("SNAPLINE_TOKEN", None)

    @contextmanager
    def driver(self, *changes: str, name: str = "clicks", then: str = "end") -> Iterator[Driver]:
        driver = Driver(str(self.directory), name, then, *changes, environment=self.environment)
        try:
            yield driver
        finally:
            driver.close()

    def start(
        self, *arguments: object, changes: Mapping[str, str] | None = None, directory: Path | None = None
    ) -> ForkedProgram:
        """A command that goes on. `changes` are variables of its environment, `directory` is where it runs."""
        environment = {**self.environment, **(changes or {})}
        command = ["-m", "snapline", *map(str, arguments)]
        return programs().start(
            command, environment=environment, directory=None if directory is None else str(directory)
        )

    def run(self, *arguments: object, changes: Mapping[str, str] | None = None, directory: Path | None = None) -> Done:
        """A command, run to its end."""
        with self.start(*arguments, changes=changes, directory=directory) as program:
            out, err = program.communicate(DEADLINE_S)
        assert program.returncode is not None
        return Done(program.returncode, out, err)

    def launch(self, *arguments: object) -> subprocess.Popen[str]:
        """A command in an interpreter of its own, for those that start Spark."""
        return subprocess.Popen(
            [sys.executable, "-m", "snapline", *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment,
        )

    def json(self, *arguments: object) -> Any:
        done = self.run(*arguments, "--json")
        assert done.code == 0, done.err
        return done.json

    def entries(self) -> list[str]:
        jobs = self.home / "jobs"
        return sorted(path.name for path in jobs.iterdir()) if jobs.exists() else []
