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

DEADLINE_S = 150.0


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


def test_the_demo_kills_recovers_and_proves(tmp_path: Path) -> None:
    demo = _Demo(tmp_path, "--duration", "8s")
    try:
        status = demo.wait()
        printed = demo.printed
        assert status == 0, printed
        assert "Not one event was lost or counted twice." in printed
        assert "160,000 clicks came in, 160,000 rows are in the output" in printed
        assert len(re.findall(r"\*\*\* kill -9 \d+: ", printed)) == 2, printed
        assert len(re.findall(r"\*\*\* attempt \d has failed", printed)) == 2, printed
        assert len(re.findall(r"kill -9 of .*: running again after [\d.]+ s, from checkpoint \d+", printed)) == 2
        assert not re.search(r"WARN|ERROR|Traceback|Stage|\x1b", printed), printed
        assert demo.left() == []
        assert [path.name for path in tmp_path.iterdir()] == ["printed"], "nothing is left of temporary files"
    finally:
        demo.end()


def test_what_is_kept_is_the_output(tmp_path: Path) -> None:
    demo = _Demo(
        tmp_path, "--duration", "2s", "--rows-per-second", "500", "--no-kill", "--keep", str(tmp_path / "kept")
    )
    try:
        assert demo.wait() == 0, demo.printed
        assert "kill -9" not in demo.printed
        assert sorted(path.name for path in (tmp_path / "kept").iterdir()) == ["checkpoints", "logs", "output"]
        assert list((tmp_path / "kept" / "output").glob("*.parquet"))
    finally:
        demo.end()


@pytest.mark.parametrize("moment", ["Starting Spark", r"\*\*\* kill -9"])
def test_an_interrupt_ends_everything_within_seconds(tmp_path: Path, moment: str) -> None:
    demo = _Demo(tmp_path, "--duration", "20s")
    try:
        demo.wait_for(moment)
        began_s = time.monotonic()
        demo.interrupt()
        assert demo.wait() == 130, demo.printed
        assert time.monotonic() - began_s < 15
        assert "Traceback" not in demo.printed
        assert demo.left() == []
        assert [path.name for path in tmp_path.iterdir()] == ["printed"]
    finally:
        demo.end()
