from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from snapline.devtools.servers import server_process
from snapline.devtools.servers.server_process import LOOPBACK, ServerProcess, free_port, is_open, java, log_tail
from snapline.errors import ConfigurationError, EngineError

LISTEN = """
import signal, socket, sys
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("listening", flush=True)
while True:
    server.accept()[0].close()
"""


class Listener(ServerProcess):
    """Accepts connections, if it may."""

    name = "the listener"

    def __init__(self, directory: Path, program: str = LISTEN) -> None:
        super().__init__(directory)
        self.ports: list[int] = []
        self.program = program

    def _take_ports(self) -> None:
        self.ports.append(free_port())

    def _command(self) -> list[str]:
        return [sys.executable, "-c", self.program, str(self.ports[-1])]

    def _answers(self) -> bool:
        return is_open(self.ports[-1])


def test_a_server_is_killed_and_comes_back_at_its_port(tmp_path: Path) -> None:
    with Listener(tmp_path / "new") as server:
        server.kill()
        server.kill()
        assert not server.is_running
        assert not is_open(server.ports[0])
        server.start()
        server.restart()
        assert is_open(server.ports[0])
        server.freeze()
        server.stop()
        server.stop()
        assert not server.is_running
        server.start()
    assert not server.is_running
    assert len(server.ports) == 1


def test_a_server_that_ends_is_tried_at_other_ports_and_then_reported_with_its_log(tmp_path: Path) -> None:
    server = Listener(tmp_path, "print('no luck'); raise SystemExit(3)")
    with pytest.raises(EngineError, match=r"the listener does not answer; the end of .*server\.log:\n(?s:.*)no luck"):
        server.__enter__()
    assert len(server.ports) == server_process.START_TRIES
    assert not server.is_running


def test_a_server_that_ignores_its_signal_is_killed_and_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_process, "STOP_TIMEOUT_S", 0.2)
    with Listener(tmp_path, "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + LISTEN) as server:
        with pytest.raises(EngineError, match="was killed"):
            server.stop()
        assert not server.is_running


def test_ports_are_free_until_something_listens() -> None:
    port = free_port()
    assert not is_open(port)
    with socket.create_server((LOOPBACK, port)):
        assert is_open(port)


def test_java_is_that_of_java_home_and_a_missing_one_names_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ConfigurationError, match=r"in JAVA_HOME, .*apt-get install"):
        java()
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.touch(mode=0o755)
    assert java() == str(program)
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigurationError, match="no `java` on the path"):
        java()


def test_the_tail_of_a_log(tmp_path: Path) -> None:
    assert log_tail(tmp_path / "log") == "(not written)"
    (tmp_path / "log").write_text("a" * 3000 + "end")
    assert log_tail(tmp_path / "log").endswith("aend")
    assert len(log_tail(tmp_path / "log")) == server_process.TAIL_CHARACTERS
