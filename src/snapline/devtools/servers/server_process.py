"""What the servers for tests have in common: a process on loopback that is started, killed, frozen and restarted."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from snapline.errors import ConfigurationError, EngineError

LOOPBACK = "127.0.0.1"
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 20.0
POLL_S = 0.05
START_TRIES = 3
"""How many ports to try: another process may take a free one first."""
TAIL_CHARACTERS = 2000


class ServerProcess(ABC):
    """A server on 127.0.0.1 that keeps its files in `directory`. A context manager: leaving it kills the process.

    Use it from one thread at a time.
    """

    name: str
    """What messages call it."""
    stop_signal = signal.SIGTERM
    """Ends the server in an orderly way."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        for remaining in reversed(range(START_TRIES)):
            self._take_ports()
            try:
                self.start()
                return self
            except BaseException as error:
                self.kill()
                if not remaining or not isinstance(error, EngineError):
                    self.close()
                    raise
        raise AssertionError("unreachable")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Kill the server if it runs, and remove what lies outside of `directory`."""
        self.kill()

    @property
    def is_running(self) -> bool:
        """Whether the process is there. A frozen one is."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start with the same data and ports as before, and wait until the server answers.

        Raises ConfigurationError if something is not installed, EngineError if the server does not answer in time.
        """
        assert self._process is None, "it is running"
        self._directory.mkdir(parents=True, exist_ok=True)
        command = self._command()
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)  # noqa: S603
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline_s:
                raise EngineError(f"{self.name} does not answer; the end of {self._log}:\n{log_tail(self._log)}")
            time.sleep(POLL_S)

    def stop(self) -> None:
        """End the server in an orderly way; one that takes too long is killed. Does nothing if it is not running."""
        if self._process is None:
            return
        self.thaw()
        self._process.send_signal(self.stop_signal)
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired as error:
            self.kill()
            raise EngineError(
                f"{self.name} was killed: it did not end within {STOP_TIMEOUT_S:g} s; "
                f"the end of {self._log}:\n{log_tail(self._log)}"
            ) from error
        self._process = None

    def kill(self) -> None:
        """End the server without warning (SIGKILL), as a crash would. Does nothing if it is not running."""
        process, self._process = self._process, None
        if process is not None:
            self._signal(process, signal.SIGKILL)
            process.wait(STOP_TIMEOUT_S)

    def freeze(self) -> None:
        """Stop the process (SIGSTOP): connections stay open and unanswered until `thaw`."""
        assert self._process is not None, "it is not running"
        self._signal(self._process, signal.SIGSTOP)

    def thaw(self) -> None:
        """Continue after `freeze`."""
        assert self._process is not None, "it is not running"
        self._signal(self._process, signal.SIGCONT)

    def restart(self) -> None:
        """Kill the server if it runs, and start it with the same data and ports."""
        self.kill()
        self.start()

    @property
    def _log(self) -> Path:
        return self._directory / "server.log"

    def _signal(self, process: subprocess.Popen[bytes], number: signal.Signals) -> None:
        process.send_signal(number)

    @abstractmethod
    def _take_ports(self) -> None:
        """Choose free ports. Called before the first start and after each start that failed."""

    @abstractmethod
    def _command(self) -> Sequence[str]:
        """Prepare the files, and return the command line of the server, which stays in the foreground."""

    @abstractmethod
    def _answers(self) -> bool:
        """Whether the server serves clients now. Returns within a few seconds."""


given_ports: set[int] = set()
"""The ports of all servers that this process has started: clients that are left may try them for long."""


def free_port() -> int:
    """A port of 127.0.0.1 that nothing listens on at this moment."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        given_ports.add(port)
        return port


def is_open(port: int) -> bool:
    """Whether something accepts connections at this port of 127.0.0.1."""
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex((LOOPBACK, port)) == 0


def java() -> str:
    """The `java` of JAVA_HOME, or else of the path. Raises ConfigurationError if there is none."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin") if home else None)
    if found is None:
        where = f"in JAVA_HOME, {home}" if home else "on the path"
        raise ConfigurationError(
            f"no `java` {where}; servers for tests need it, 17 or later: apt-get install default-jre-headless"
        )
    return found


def log_tail(path: Path) -> str:
    """The last lines of a log, or a word on why there are none."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")[-TAIL_CHARACTERS:] or "(empty)"
    except FileNotFoundError:
        return "(not written)"
