"""Launches and watches the operator process of a slot, for its supervisor."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from snapline.errors import EngineError
from snapline.runtime.slot.bootstrap import Bootstrap

MAX_LOG_LINES = 100
MAX_LINE_BYTES = 2000
"""Longer lines are kept in pieces."""

KILL_TIMEOUT_S = 10.0
MAX_REASON_CHARACTERS = 500

_EXIT_POLL_S = 0.1
_READ_BYTES = 1 << 16
_WRITE_BYTES = 1 << 16

Ended: TypeAlias = Callable[[int, str, str], None]
"""Called with the incarnation, what happened, and the last lines of output."""


class Child(Protocol):
    """What a supervisor started in a slot."""

    @property
    def incarnation(self) -> int: ...

    def kill(self) -> None:
        """End it and wait for its end, which is not reported unless it came first."""


StartChild: TypeAlias = Callable[[Bootstrap, Ended], Child]
"""Starts a child; any thread calls `ended` when the child ends by itself."""


class LaunchedProcess:
    """A process in a process group of its own that dies with the thread that created this object.

    One thread writes the bootstrap, copies the output to our own standard error, waits for the end, and then kills
    what the process left in its group.
    """

    def __init__(self, bootstrap: Bootstrap, ended: Ended, command: Sequence[str] | None = None) -> None:
        self._incarnation = bootstrap.incarnation
        self._ended = ended
        self._tail = LogTail()
        self._guard = threading.Lock()
        self._killed = False
        self._reaped = False
        environment = dict(os.environ, PYTHONPATH=os.pathsep.join(filter(None, bootstrap.sys_path)))
        self._process = subprocess.Popen(  # noqa: S603  # our own interpreter
            [sys.executable, "-P", "-u", "-m", "snapline.runtime.slot.operator_process"]
            if command is None
            else list(command),
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
            process_group=0,  # an interrupt at the terminal is for the driver only
        )
        self._thread = threading.Thread(
            target=self._attend, args=(bootstrap.encoded(),), name=f"operator-process-{self.pid}", daemon=True
        )
        self._thread.start()

    @property
    def incarnation(self) -> int:
        return self._incarnation

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return not self._reaped

    def kill(self) -> None:
        with self._guard:
            self._killed = True
            self._kill_group()
        self._thread.join(KILL_TIMEOUT_S)
        if self._thread.is_alive():
            raise EngineError(f"operator process {self.pid} does not end although it was killed; is its disk hung?")

    def _kill_group(self) -> None:
        # Until it is reaped no other process can have its pid.
        if not self._reaped:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)

    def _attend(self, to_send: bytes) -> None:
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        with process.stdin, process.stdout, selectors.DefaultSelector() as selector:
            os.set_blocking(process.stdin.fileno(), False)
            os.set_blocking(process.stdout.fileno(), False)
            selector.register(process.stdin, selectors.EVENT_WRITE)
            selector.register(process.stdout, selectors.EVENT_READ)
            unsent = memoryview(to_send)
            while not _has_exited(self.pid):
                for key, _ in selector.select(_EXIT_POLL_S):
                    if key.fileobj is process.stdin:
                        try:
                            unsent = unsent[os.write(process.stdin.fileno(), unsent[:_WRITE_BYTES]) :]
                        except BrokenPipeError:
                            unsent = unsent[:0]  # the exit status says more
                        if not unsent:
                            selector.unregister(process.stdin)
                    elif not self._take_output():
                        selector.unregister(process.stdout)
                if process.stdout not in selector.get_map() and process.stdin not in selector.get_map():
                    os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
            with self._guard:
                self._kill_group()
                status = process.wait()
                self._reaped = True
                killed = self._killed
            self._take_output()
        if not killed:
            self._ended(self._incarnation, describe_exit(status, self._tail.text()), self._tail.text())

    def _take_output(self) -> bool:
        """Keep what was printed and copy it to our standard error. Returns whether more may come."""
        assert self._process.stdout is not None
        while True:
            try:
                data = os.read(self._process.stdout.fileno(), _READ_BYTES)
            except BlockingIOError:
                return True
            if not data:
                return False
            self._tail.add(data)
            with contextlib.suppress(OSError, ValueError):  # a closed standard error must not cost the slot
                sys.stderr.write(data.decode(errors="replace"))
                sys.stderr.flush()


class LogTail:
    """The last lines a process printed, limited in number and length."""

    def __init__(self) -> None:
        self._lines: deque[bytes] = deque(maxlen=MAX_LOG_LINES)
        self._rest = b""

    def add(self, data: bytes) -> None:
        *lines, rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._lines.extend(_pieces(line))
        *full, self._rest = _pieces(rest)
        self._lines.extend(full)

    def text(self) -> str:
        lines = [*self._lines, self._rest] if self._rest else [*self._lines]
        return "\n".join(line.decode(errors="replace") for line in lines[-MAX_LOG_LINES:])


def describe_exit(status: int, output: str = "") -> str:
    """Describes the result of `Popen.wait`, with the last line of output if the process gave up by itself."""
    if status < 0:
        return f"killed by signal {-status}"
    last = _message(output.strip().rpartition("\n")[2].strip()) if status else ""
    return f"exited with status {status}{last and ': '}{last[:MAX_REASON_CHARACTERS]}"


def _message(line: str) -> str:
    """The message of a line that is a log record in JSON; else the line."""
    if not line.startswith("{"):
        return line
    try:
        return str(json.loads(line)["message"])
    except (ValueError, LookupError):
        return line


def _pieces(line: bytes) -> list[bytes]:
    return [line[start : start + MAX_LINE_BYTES] for start in range(0, len(line), MAX_LINE_BYTES)] or [b""]


def _has_exited(pid: int) -> bool:
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
