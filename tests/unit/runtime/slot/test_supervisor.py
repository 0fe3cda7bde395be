"""A supervisor against a scripted driver, with small programs in place of the operator process."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from snapline.config import Encryption
from snapline.devtools.kit.processes import descendants
from snapline.errors import PeerError
from snapline.runtime.slot import bootstrap as boot
from snapline.runtime.slot import control_link
from snapline.runtime.slot.bootstrap import Bootstrap
from snapline.runtime.slot.process_launcher import (
    MAX_LINE_BYTES,
    MAX_LOG_LINES,
    LaunchedProcess,
    LogTail,
    describe_exit,
)
from snapline.runtime.slot.slot_provider import SlotOrder
from snapline.runtime.slot.supervisor import Supervisor
from snapline.runtime.wire import control_messages as m
from snapline.runtime.wire.credentials import Credentials
from snapline.runtime.wire.frames import ControlConnection
from snapline.runtime.wire.secured_socket import SecuredSocket, server_handshake

DEADLINE_S = 10.0
CREDENTIALS = Credentials(secrets.token_bytes(32), Encryption.MAC)


def eventually(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline_s, "it did not happen in time"
        time.sleep(0.005)


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def shell(script: str) -> list[str]:
    return ["sh", "-c", script]


class Driver:
    """The other end of one supervisor, which runs on a thread as it would on the main thread of Spark's worker."""

    def __init__(
        self,
        command: list[str],
        *,
        timeout_ms: int = 5000,
        credentials: Credentials = CREDENTIALS,
        port: int = 0,
        local_copies: str | None = None,
    ) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self._server.settimeout(DEADLINE_S)
        self.order = SlotOrder(
            job_id="j",
            job_name="job",
            generation=7,
            slots=1,
            host="127.0.0.1",
            port=port or self._server.getsockname()[1],
            credentials=credentials,
            shipment=b"s" * 200_000,
            heartbeat_interval_ms=20,
            heartbeat_timeout_ms=timeout_ms,
            slot_host=None,
            local_copies=local_copies,
        )
        self.supervisor = Supervisor(
            self.order, 3, "127.0.0.1", 99, start_child=partial(LaunchedProcess, command=command)
        )
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.supervisor.run()
        except PeerError as error:
            self.error = error

    def accept(self) -> m.ToMaster:
        sock, _ = self._server.accept()
        self._connection: ControlConnection | None = None
        try:
            secured = SecuredSocket(sock)
            server_handshake(secured, CREDENTIALS, "control", DEADLINE_S)
        except PeerError:
            sock.close()
            raise
        self._connection = ControlConnection(secured)
        self.send(m.Heartbeat())
        return self.receive()

    def send(self, message: m.Message) -> None:
        assert self._connection is not None
        self._connection.send(m.encode(message))

    def receive(self) -> m.ToMaster:
        assert self._connection is not None
        data = self._connection.receive()
        assert data is not None
        return m.decode_to_master(data)

    def died(self) -> m.ProcessDied:
        while not isinstance(message := self.receive(), m.ProcessDied):
            assert isinstance(message, m.Heartbeat)
        return message

    def hang_up(self) -> None:
        assert self._connection is not None
        self._connection.close()

    def ended(self) -> BaseException | None:
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive()
        return self.error

    def close(self) -> None:
        self._server.close()
        self.supervisor.give_up("the test is over")
        if getattr(self, "_connection", None) is not None:
            self.hang_up()
        self.ended()


@contextmanager
def driving(command: list[str], **options: Any) -> Iterator[Driver]:
    """And nothing may be left behind: no thread, process or open file."""
    threads, files = set(threading.enumerate()), len(os.listdir("/proc/self/fd"))
    children = descendants(os.getpid())
    driver = Driver(command, **options)
    try:
        yield driver
    finally:
        driver.close()
    assert set(threading.enumerate()) <= threads
    if "confluent_kafka" not in sys.modules:  # clients that other tests have left connect as they please
        assert len(os.listdir("/proc/self/fd")) == files
    deadline_s = time.monotonic() + DEADLINE_S
    while not set(descendants(os.getpid())) <= set(children):  # what is killed takes a moment to go
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


def test_it_says_who_it_is_and_sends_heartbeats_until_it_is_drained() -> None:
    with driving(shell("sleep 60")) as driver:
        hello = driver.accept()
        assert hello == m.SupervisorHello(7, 3, "127.0.0.1", os.getpid(), sys.executable, 99)
        assert driver.receive() == m.Heartbeat()
        assert driver.receive() == m.Heartbeat()
        driver.send(m.Drain())
        assert driver.ended() is None


@pytest.mark.parametrize("has_ended", [True, False])
def test_local_copies_go_with_the_job_and_stay_for_the_next_driver(tmp_path: Path, has_ended: bool) -> None:
    copies = tmp_path / "job"
    (copies / "a-0").mkdir(parents=True)
    with driving(shell("sleep 60"), local_copies=str(copies)) as driver:
        driver.accept()
        driver.send(m.Drain(has_ended))
        assert driver.ended() is None
    assert copies.exists() is not has_ended


def test_what_a_process_said_before_it_exited_is_reported() -> None:
    with driving(shell("echo out; echo err >&2; exit 3")) as driver:
        driver.accept()
        driver.send(m.StartProcess(1))
        assert driver.died() == m.ProcessDied(1, "exited with status 3: err", "out\nerr")


def test_a_killed_process_is_reported(tmp_path: Path) -> None:
    with driving(shell(f"echo $$ > {tmp_path}/pid.tmp; mv {tmp_path}/pid.tmp {tmp_path}/pid; exec sleep 60")) as driver:
        driver.accept()
        driver.send(m.StartProcess(1))
        eventually((tmp_path / "pid").exists)
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
        assert driver.died() == m.ProcessDied(1, "killed by signal 9", "")


def test_a_process_gets_its_bootstrap_through_the_pipe_and_nowhere_else(tmp_path: Path) -> None:
    program = (
        "import os, sys, time\n"
        "from snapline.runtime.slot import bootstrap\n"
        "b = bootstrap.read(sys.stdin.buffer)\n"
        "assert b.parent_pid == os.getppid() and len(b.shipment) == 200_000\n"
        "held = open('/proc/self/environ', 'rb').read() + open('/proc/self/cmdline', 'rb').read()\n"
        "secret = b.credentials.secret\n"
        "assert secret not in held and secret.hex().encode() not in held\n"
        "print(b.job_id, b.generation, b.slot, b.incarnation, b.host, b.heartbeat_interval_ms, b)\n"
        "sys.exit(5)\n"
    )
    with driving([sys.executable, "-c", program]) as driver:
        driver.accept()
        driver.send(m.StartProcess(4))
        died = driver.died()
        assert died.log == "j 7 3 4 127.0.0.1 20 Bootstrap('j', slot=3, incarnation=4)"
        assert died.error == f"exited with status 5: {died.log}"


def test_a_process_that_is_killed_on_order_is_not_reported(tmp_path: Path) -> None:
    with driving(shell(f"echo $$ >> {tmp_path}/pids; exec sleep 60")) as driver:
        driver.accept()
        driver.send(m.StartProcess(1))
        driver.send(m.KillProcess(1))
        driver.send(m.KillProcess(8))
        driver.send(m.StartProcess(2))
        driver.send(m.StartProcess(3))
        # The one that is to be killed may have been the only one so far.
        eventually(lambda: sum(map(is_alive, _pids(tmp_path / "pids", "sleep"))) == 1)
        pids = _pids(tmp_path / "pids", "sleep")
        driver.send(m.Drain())
        while driver._connection is not None and (data := driver._connection.receive()) is not None:
            assert m.decode_to_master(data) == m.Heartbeat()
        assert driver.ended() is None
        assert not any(map(is_alive, pids))


def _pids(path: Path, name: str) -> list[int]:
    """Those written to a file, once the last of them is the program `name`; earlier ones may not have come to that."""
    found: list[int] = []

    def is_last_up() -> bool:
        found[:] = [int(line) for line in path.read_text().split()] if path.exists() else []
        alive = [pid for pid in found if is_alive(pid)]
        try:
            return len(alive) == 1 and Path(f"/proc/{alive[0]}/comm").read_text().strip() == name
        except (FileNotFoundError, ProcessLookupError):
            return False  # killed in between

    eventually(is_last_up)
    return found


def test_what_a_process_leaves_behind_dies_with_it(tmp_path: Path) -> None:
    with driving(shell(f"sleep 61 & echo $! > {tmp_path}/pid.tmp; mv {tmp_path}/pid.tmp {tmp_path}/pid")) as driver:
        driver.accept()
        driver.send(m.StartProcess(1))
        assert driver.died().error == "exited with status 0"
        left = int((tmp_path / "pid").read_text())
        eventually(lambda: not is_alive(left))


def test_a_process_that_does_not_read_can_be_killed_and_heartbeats_go_on() -> None:
    with driving(shell("kill -STOP $$")) as driver:
        driver.accept()
        driver.send(m.StartProcess(1))
        for _ in range(3):
            assert driver.receive() == m.Heartbeat()
        driver.send(m.Drain())
        assert driver.ended() is None


def test_a_program_that_is_not_there_is_reported() -> None:
    with driving(["/does/not/exist"]) as driver:
        driver.accept()
        driver.send(m.StartProcess(1))
        died = driver.died()
        assert died.incarnation == 1
        assert "cannot be started" in died.error


def test_the_process_dies_when_the_driver_hangs_up(tmp_path: Path) -> None:
    with driving(shell(f"echo $$ > {tmp_path}/pids; exec sleep 60")) as driver:
        driver.accept()
        driver.send(m.StartProcess(1))
        (pid,) = _pids(tmp_path / "pids", "sleep")
        driver.hang_up()
        assert isinstance(driver.ended(), PeerError)
        assert not is_alive(pid)


def test_the_process_dies_when_the_driver_falls_silent(tmp_path: Path) -> None:
    with driving(shell(f"echo $$ > {tmp_path}/pids; exec sleep 60"), timeout_ms=300) as driver:
        driver.accept()
        driver.send(m.StartProcess(1))
        error = driver.ended()
        assert "has not heard from the driver for 0.3 s" in str(error)
        assert not any(is_alive(int(pid)) for pid in (tmp_path / "pids").read_text().split())


def test_the_driver_must_know_the_secret() -> None:
    with driving(shell("sleep 60"), credentials=Credentials(b"another", Encryption.MAC)) as driver:
        with pytest.raises(PeerError):
            driver.accept()
        assert "secret" in str(driver.ended())


def test_a_driver_that_is_not_reached_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_link, "CONNECT_TIMEOUT_S", 0.2)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        port = taken.getsockname()[1]
        with driving(shell("sleep 60"), port=port) as driver:
            error = str(driver.ended())
    assert f"slot 3 on 127.0.0.1 cannot reach the driver at 127.0.0.1:{port}" in error
    assert "spark.driver.host" in error


def test_the_last_lines_are_kept_within_limits() -> None:
    tail = LogTail()
    for number in range(1000):
        tail.add(f"line {number}\nhal".encode())
        tail.add(b"f\n")
    lines = tail.text().split("\n")
    assert len(lines) == MAX_LOG_LINES
    assert lines[-2:] == ["line 999", "half"]
    tail.add(b"x" * (MAX_LINE_BYTES * MAX_LOG_LINES * 3))
    assert len(tail.text()) <= (MAX_LINE_BYTES + 1) * MAX_LOG_LINES
    assert LogTail().text() == ""


# The bootstrap.


def make_bootstrap() -> Bootstrap:
    return Bootstrap(
        job_id="j",
        generation=1,
        slot=2,
        incarnation=3,
        driver_host="d",
        driver_port=4,
        credentials=Credentials(b"hidden", Encryption.MAC),
        host="h",
        heartbeat_interval_ms=5,
        heartbeat_timeout_ms=6,
        parent_pid=7,
        sys_path=["a"],
        shipment=b"s",
    )


def test_a_bootstrap_is_read_as_it_was_written() -> None:
    stream = BytesIO()
    make_bootstrap().write(stream)
    stream.seek(0)
    assert boot.read(stream) == make_bootstrap()
    assert "hidden" not in repr(make_bootstrap())


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"", "ended after 0 of 8"),
        (make_bootstrap().encoded()[:-1], "ended after"),
        (b"\xff" * 8, "announces"),
        (b"\0" * 7 + b"\1\xc0", "cannot be decoded"),
    ],
)
def test_a_damaged_bootstrap_is_refused(data: bytes, complaint: str) -> None:
    with pytest.raises(PeerError, match=complaint):
        boot.read(BytesIO(data))


def test_the_end_of_the_pipe_is_noticed() -> None:
    reading, writing = os.pipe()
    gone = threading.Event()
    with os.fdopen(reading, "rb") as stream:
        thread = boot.watch_parent(stream, gone.set)
        os.write(writing, b"more")
        os.close(writing)
        assert gone.wait(DEADLINE_S)
        thread.join(DEADLINE_S)


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM])
def test_a_process_dies_with_its_parent_even_if_nobody_watches_the_pipe(sent: signal.Signals) -> None:
    child = (
        "import os, time; from snapline.runtime.slot.bootstrap import die_with_parent; die_with_parent(os.getppid()); "
        "print(os.getpid(), flush=True); time.sleep(60)"
    )
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        process.send_signal(sent)
        eventually(lambda: not is_alive(pid))


@pytest.mark.slow
def test_a_process_whose_parent_is_gone_already_ends_at_once() -> None:
    program = "from snapline.runtime.slot.bootstrap import die_with_parent; die_with_parent(1 << 30); print('lives')"
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, timeout=DEADLINE_S)
    assert (done.returncode, done.stdout) == (1, b"")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"level": "ERROR", "message": "it ends"}', "it ends"),
        ('{"level": "ERROR"}', '{"level": "ERROR"}'),
        ("{not json", "{not json"),
    ],
)
def test_the_last_line_is_the_reason_also_if_lines_are_json(line: str, reason: str) -> None:
    assert describe_exit(3, f"before\n{line}\n") == f"exited with status 3: {reason}"
