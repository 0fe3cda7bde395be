"""`snapline demo` as people run it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from snapline.devtools.kit import processes

pytestmark = pytest.mark.slow

DEADLINE_S = 300.0


class _Demo:
    """The demo in a process group of its own, without a terminal; every process it starts is remembered."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        self._output = directory / "printed"
        environment = {**os.environ, "TMPDIR": str(directory)}
        with open(self._output, "wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "snapline", "demo", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                process_group=0,
            )
        self._seen: set[processes.Process] = set()
        self._deadline_s = time.monotonic() + DEADLINE_S

    @property
    def printed(self) -> str:
        return self._output.read_text()

    def wait_for(self, pattern: str) -> None:
        while not re.search(pattern, self.printed):
            assert self._look() is None, self.printed

    def interrupt(self) -> None:
        self._look()
        os.killpg(self._process.pid, signal.SIGINT)

    def wait(self) -> int:
        while (status := self._look()) is None:
            pass
        return status

    def left(self) -> list[processes.Process]:
        """Processes that it has started and that still run, each told from a later one by when it started."""
        now = {(it.pid, it.started) for it in processes.descendants(1)}
        return [it for it in self._seen if (it.pid, it.started) in now]

    def end(self) -> None:
        if self._process.poll() is None:
            self._seen.update(processes.descendants(self._process.pid))
            self._process.kill()
            self._process.wait()
        processes.end(sorted(self._seen), 0)

    def _look(self) -> int | None:
        assert time.monotonic() < self._deadline_s, self.printed
        self._seen.update(processes.descendants(self._process.pid))
        try:
            return self._process.wait(0.1)
        except subprocess.TimeoutExpired:
            return None


def test_the_demo_kills_recovers_proves_and_keeps_what_it_is_told_to(tmp_path: Path) -> None:
    temporary, kept = tmp_path / "temporary", tmp_path / "kept"
    temporary.mkdir()
    demo = _Demo(temporary, "--duration", "8s", "--rows-per-second", "5000", "--keep", str(kept))
    try:
        status = demo.wait()
        printed = demo.printed
        assert status == 0, printed
        assert re.search(r"^watch it at http://127\.0\.0\.1:\d+/", printed, re.MULTILINE), printed
        assert "Not one event was lost or counted twice." in printed
        assert "40,000 clicks came in, 40,000 rows are in the output" in printed
        assert len(re.findall(r"\*\*\* kill -9 \d+: ", printed)) == 2, printed
        assert len(re.findall(r"\*\*\* attempt \d has failed", printed)) == 2, printed
        assert len(re.findall(r"kill -9 of .*: running again after [\d.]+ s, from checkpoint \d+", printed)) == 2
        assert not re.search(r"WARN|ERROR|Traceback|Stage|\x1b", printed), printed
        assert demo.left() == []
        assert [path.name for path in temporary.iterdir()] == ["printed"], "nothing is left of temporary files"
        assert sorted(path.name for path in kept.iterdir()) == ["checkpoints", "logs", "output"]
        assert list((kept / "output").glob("*.parquet"))
    finally:
        demo.end()


def test_without_kills_and_without_a_place_nothing_is_killed_and_nothing_is_left(tmp_path: Path) -> None:
    demo = _Demo(tmp_path, "--duration", "1s", "--rows-per-second", "500", "--no-kill")
    try:
        assert demo.wait() == 0, demo.printed
        assert "kill -9" not in demo.printed
        assert [path.name for path in tmp_path.iterdir()] == ["printed"]
    finally:
        demo.end()


@pytest.mark.parametrize("moment", ["Starting Spark", r"\*\*\* kill -9"])
def test_an_interrupt_ends_everything(tmp_path: Path, moment: str) -> None:
    demo = _Demo(tmp_path, "--duration", "16s")
    try:
        demo.wait_for(moment)
        demo.interrupt()
        assert demo.wait() == 130, demo.printed
        assert "Traceback" not in demo.printed
        assert demo.left() == []
        assert [path.name for path in tmp_path.iterdir()] == ["printed"]
    finally:
        demo.end()
