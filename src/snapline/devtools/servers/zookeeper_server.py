"""A ZooKeeper server for tests, run from PySpark's jars. It can be killed, frozen and restarted."""

from __future__ import annotations

import importlib.util
import socket
from pathlib import Path

from snapline.devtools.servers.server_process import LOOPBACK, ServerProcess, free_port, java
from snapline.errors import ConfigurationError

ANSWER_TIMEOUT_S = 2.0

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


class ZooKeeperServer(ServerProcess):
    """A server on 127.0.0.1 with its data in `directory`. A context manager: leaving it kills the process."""

    name = "ZooKeeper"

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._port = 0

    @property
    def hosts(self) -> str:
        """The address for clients."""
        return f"{LOOPBACK}:{self._port}"

    def _take_ports(self) -> None:
        self._port = free_port()

    def _command(self) -> list[str]:
        config = self._directory / "zoo.cfg"
        config.write_text(_CONFIG.format(data=self._directory / "data", port=self._port), encoding="utf-8")
        return [java(), "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", _jars(), _MAIN, str(config)]

    def _answers(self) -> bool:
        try:
            with socket.create_connection((LOOPBACK, self._port), timeout=ANSWER_TIMEOUT_S) as connection:
                connection.sendall(b"srvr")
                answer = b""
                while part := connection.recv(4096):
                    answer += part
        except OSError:
            return False
        return b"Mode: standalone" in answer


def _jars() -> str:
    """The class path. PySpark is located but not imported, which would take seconds."""
    spec = importlib.util.find_spec("pyspark")
    directory = Path(spec.origin).parent / "jars" if spec is not None and spec.origin is not None else None
    found = [] if directory is None else [path for name in _JARS for path in sorted(directory.glob(f"{name}.jar"))]
    if not any(path.name.startswith("zookeeper-") for path in found):
        raise ConfigurationError("no ZooKeeper among the jars of PySpark; pip install 'snapline[spark]'")
    return ":".join(map(str, found))
