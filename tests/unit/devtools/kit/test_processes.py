"""Processes below this one: found, and ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from snapline.devtools.kit import processes


def test_processes_below_this_one_are_found_and_ended() -> None:
    script = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'input()', 'grandchild'])"
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE) as child:
        try:
            while len(found := [it for it in processes.descendants(child.pid) if "grandchild" in _command(it.pid)]) < 1:
                assert child.poll() is None
            assert child.pid in [it.pid for it in processes.descendants(os.getpid())]
            assert found[0].parent == child.pid
            assert processes.operator_processes(os.getpid()) == []
            ours = [it for it in processes.descendants(os.getpid()) if it.pid in (child.pid, found[0].pid)]
            processes.end(ours, 0)
            assert child.wait(10) == -signal.SIGKILL
            processes.end(ours, 10)
            assert not processes.descendants(child.pid)
        finally:
            child.kill()
    assert not processes.send(child.pid)


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""
