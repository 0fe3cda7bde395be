"""Operator processes that are forks of one interpreter: a test with real processes does not wait for their start."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading

import msgspec

from snapline.devtools.kit.forked_programs import KILL_TIMEOUT_S, ForkServer
from snapline.runtime.slot.bootstrap import Bootstrap
from snapline.runtime.slot.process_launcher import Ended, LogTail, describe_exit

_READ_BYTES = 1 << 16


class ForkedOperators:
    """In place of a `LaunchedProcess`: a process group of its own that dies with the server, and so with the tests."""

    def __init__(self, server: ForkServer, bootstrap: Bootstrap, ended: Ended) -> None:
        self._bootstrap = bootstrap
        self._ended = ended
        self._tail = LogTail()
        self._is_killed = False
        reading, writing = os.pipe()
        self._output = reading
        paths = os.pathsep.join(filter(None, bootstrap.sys_path))
        with os.fdopen(writing, "wb") as output:
            self._program = server.start(
                ["-c", "from snapline.runtime.slot.operator_process import main; main()"],
                environment=dict(os.environ, PYTHONPATH=paths),
                output=output,
                has_group=True,
            )
        parent = msgspec.structs.replace(bootstrap, parent_pid=server.pid)
        self._thread = threading.Thread(
            target=self._attend, args=(parent.encoded(),), name=f"operator-process-{self.pid}", daemon=True
        )
        self._thread.start()

    @property
    def incarnation(self) -> int:
        return self._bootstrap.incarnation

    @property
    def pid(self) -> int:
        return self._program.pid

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def kill(self) -> None:
        self._is_killed = True
        self._kill_group()
        self._thread.join(KILL_TIMEOUT_S)
        assert not self._thread.is_alive(), f"operator process {self.pid} does not end although it was killed"

    def _kill_group(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    def _attend(self, to_send: bytes) -> None:
        copying = threading.Thread(target=self._copy, name=f"output-{self.pid}", daemon=True)
        copying.start()
        with contextlib.suppress(BrokenPipeError):  # its end says more
            stdin = self._program.stdin.buffer  # type: ignore[attr-defined]
            stdin.write(to_send)
            stdin.flush()
        status = self._program.wait(None)
        self._kill_group()  # what it has left
        copying.join()
        self._program.close()
        if not self._is_killed:
            self._ended(self.incarnation, describe_exit(status, self._tail.text()), self._tail.text())

    def _copy(self) -> None:
        """Keep what it prints, and copy it to our standard error."""
        with os.fdopen(self._output, "rb", buffering=0) as output:
            while data := output.read(_READ_BYTES):
                self._tail.add(data)
                with contextlib.suppress(OSError, ValueError):
                    sys.stderr.write(data.decode(errors="replace"))
                    sys.stderr.flush()
