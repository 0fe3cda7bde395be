"""A ZooKeeper server for tests, run from PySpark's jars. It can be killed, frozen and restarted."""

from __future__ import annotations

import importlib.util
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType

from snapline.errors import ConfigurationError, EngineError

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 20.0
ANSWER_TIMEOUT_S = 2.0
POLL_S = 0.05
START_TRIES = 3
"""How many ports to try: another process may take a free one first."""

_CONFIG = """\
dataDir={data}
clientPortAddress=127.0.0.1
clientPort={port}
tickTime=500
maxClientCnxns=0
admin.enableServer=false
4lw.commands.whitelist=srvr
"""
_JARS = ("zookeeper*", "slf4j-api*", "log4j-*", "netty-*", "metrics-core*", "snappy-java*", "commons-*")
_MAIN = "org.apache.zookeeper.server.ZooKeeperServerMain"


class ZooKeeperServer:
    """A server on 127.0.0.1 with its data in `directory`. A context manager: leaving it kills the process."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._port = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def hosts(self) -> str:
        """The address for clients."""
        return f"127.0.0.1:{self._port}"

    def __enter__(self) -> ZooKeeperServer:
        for remaining in reversed(range(START_TRIES)):
            self._port = _free_port()
            try:
                self.start()
                return self
            except EngineError:
                self.kill()
                if not remaining:
                    raise
        raise AssertionError("unreachable")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def start(self) -> None:
        """Start with the same data and port as before, and wait until the server answers."""
        assert self._process is None, "it is running"
        java, jars = _java(), _jars()
        self._directory.mkdir(parents=True, exist_ok=True)
        config = self._directory / "zoo.cfg"
        config.write_text(_CONFIG.format(data=self._directory / "data", port=self._port), encoding="utf-8")
        command = [java, "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", jars, _MAIN, str(config)]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)  # noqa: S603
        self._await_answer(self._process)

    def kill(self) -> None:
        """End the server like a power cut (SIGKILL). Does nothing if it is not running."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal.SIGKILL)
            process.wait(STOP_TIMEOUT_S)

    def freeze(self) -> None:
        """Stop the process (SIGSTOP): connections stay open and unanswered until `thaw`."""
        assert self._process is not None, "it is not running"
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Continue after `freeze`."""
        assert self._process is not None, "it is not running"
        self._process.send_signal(signal.SIGCONT)

    def restart(self) -> None:
        """Kill the server if it runs, and start it."""
        self.kill()
        self.start()

    @property
    def _log(self) -> Path:
        return self._directory / "server.log"

    def _await_answer(self, process: subprocess.Popen[bytes]) -> None:
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while not self._answers():
            if process.poll() is not None or time.monotonic() > deadline_s:
                tail = self._log.read_text(encoding="utf-8", errors="replace")[-2000:]
                raise EngineError(f"ZooKeeper on {self.hosts} does not answer; the end of {self._log}:\n{tail}")
            time.sleep(POLL_S)

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self._port), timeout=ANSWER_TIMEOUT_S) as connection:
                connection.sendall(b"srvr")
                answer = b""
                while part := connection.recv(4096):
                    answer += part
        except OSError:
            return False
        return b"Mode: standalone" in answer


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _java() -> str:
    java = shutil.which("java")
    if java is None:
        raise ConfigurationError("no `java` on the path; a ZooKeeper for tests needs one: install a JDK, 17 or later")
    return java


def _jars() -> str:
    """The class path. PySpark is located but not imported, which would take seconds."""
    spec = importlib.util.find_spec("pyspark")
    directory = Path(spec.origin).parent / "jars" if spec is not None and spec.origin is not None else None
    found = [] if directory is None else [path for name in _JARS for path in sorted(directory.glob(f"{name}.jar"))]
    if not any(path.name.startswith("zookeeper-") for path in found):
        raise ConfigurationError("no ZooKeeper among the jars of PySpark; pip install 'snapline[spark]'")
    return ":".join(map(str, found))
