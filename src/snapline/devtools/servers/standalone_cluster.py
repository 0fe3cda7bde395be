"""A standalone Spark cluster on loopback, started from the pip package."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

LOOPBACK = "127.0.0.1"
START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 20.0
_POLL_S = 0.02


class StandaloneCluster:
    """A master and workers, each in its own process. A context manager; inside, `url` is the master's address.

    The master listens at `host`. Each of `places` is the address of a worker, and what to put before its command.
    """

    def __init__(
        self,
        directory: Path,
        *,
        host: str = LOOPBACK,
        places: Sequence[tuple[str, Sequence[str]]] = ((LOOPBACK, ()), (LOOPBACK, ())),
        cores: int = 2,
        memory: str = "2g",
    ) -> None:
        self.url = ""
        self._directory = directory
        self._host = host
        self._places = places
        self._cores = cores
        self._memory = memory
        self._processes: list[subprocess.Popen[bytes]] = []
        package = importlib.util.find_spec("pyspark")
        if package is None or package.origin is None:
            raise RuntimeError("pyspark is not installed; install snapline[spark]")
        self._home = Path(package.origin).parent

    @property
    def pids(self) -> list[int]:
        """The process ids of the master and the workers. Executors are children of the workers."""
        return [process.pid for process in self._processes]

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables that a driver of this cluster needs."""
        return {
            **os.environ,
            "SPARK_HOME": str(self._home),
            "SPARK_LOCAL_IP": self._host,
            "SPARK_DAEMON_MEMORY": "256m",
            "PYSPARK_PYTHON": sys.executable,
        }

    def __enter__(self) -> StandaloneCluster:
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _start(self) -> None:
        self._launch(
            "master", self._host, (), "org.apache.spark.deploy.master.Master", "--port", "0", "--webui-port", "0"
        )
        self.url = self._await("master", r"Starting Spark master at (spark://[\w.]+:\d+)")
        names = [f"worker-{number}" for number in range(len(self._places))]
        for name, (host, prefix) in zip(names, self._places, strict=True):
            size = ["--cores", str(self._cores), "--memory", self._memory, "--webui-port", "0"]
            place = ["--work-dir", str(self._directory / name), self.url]
            self._launch(name, host, prefix, "org.apache.spark.deploy.worker.Worker", *size, *place)
        for name in names:
            self._await(name, r"Successfully (registered) with master")

    def stop(self) -> None:
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(STOP_TIMEOUT_S)
        self._processes.clear()

    def _launch(self, name: str, host: str, prefix: Sequence[str], main: str, *arguments: str) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        command = [*prefix, str(self._home / "bin" / "spark-class"), main, "--host", host, *arguments]
        environment = {**self.environment, "SPARK_LOCAL_IP": host}
        with (self._directory / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)  # noqa: S603  # our own
        self._processes.append(process)

    def _await(self, name: str, pattern: str) -> str:
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while True:
            with contextlib.suppress(FileNotFoundError):
                text = (self._directory / f"{name}.log").read_text(encoding="utf-8", errors="replace")
                if match := re.search(pattern, text):
                    return match[1]
                if any(process.poll() is not None for process in self._processes):
                    raise RuntimeError(f"a process of the Spark cluster has ended:\n{text[-3000:]}")
                if time.monotonic() > deadline_s:
                    raise RuntimeError(f"the {name} of the Spark cluster did not start in time:\n{text[-3000:]}")
            time.sleep(_POLL_S)
