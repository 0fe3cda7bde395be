"""Processes as /proc shows them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from snapline.devtools.kit.processes import descendants, end, executor_above, look, operator_processes, send


def test_a_process_without_an_executor_above_it() -> None:
    assert executor_above(os.getpid()) is None
    assert operator_processes(os.getpid()) == []
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        [found] = [process for process in descendants(os.getpid()) if process.pid == child.pid]
        assert (found.pid, found.parent) == (child.pid, os.getpid())
        assert send(child.pid, signal.SIGKILL)
    assert look(child.pid) is None
    assert not found.is_running
    assert not send(child.pid, signal.SIGKILL)


def test_what_does_not_end_in_time_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        end([process for process in descendants(os.getpid()) if process.pid == child.pid], 0)
        assert child.wait(60) == -signal.SIGKILL
