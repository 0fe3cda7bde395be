"""Drivers that are killed, replaced, or come back late: the job goes on, and every row counts exactly once."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.runtime.runtime_kit import (
    RESTART,
    Start,
    child_pids,
    settings,
    small,
    wait_for_checkpoints,
    wait_until,
)

from snapline.devtools.kit.exactly_once import NumberingJob, numbering_job, prove
from snapline.testing.clusters import ProcessCluster
from snapline.types import JobStatus

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).parent / "driver_script.py"
ROWS = 24_000


class Drivers:
    """Driver processes with their operator processes."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._started: list[subprocess.Popen[str]] = []
        self._workers: set[int] = set()

    def start(self, mode: str = "aligned") -> subprocess.Popen[str]:
        driver = subprocess.Popen(
            [sys.executable, str(SCRIPT), str(self._directory), mode, str(ROWS)], stdout=subprocess.PIPE, text=True
        )
        self._started.append(driver)
        return driver

    def workers(self, driver: subprocess.Popen[str]) -> set[int]:
        found = child_pids(driver.pid)
        self._workers |= found
        return found

    def wait_for_output(self, driver: subprocess.Popen[str]) -> None:
        """Wait until it has committed rows that were not there before."""
        output = self._directory / "out"
        before = len(_files(output))
        wait_until(lambda: driver.poll() is not None or len(_files(output)) > before, "rows are committed")
        assert driver.poll() is None, "the job was to run still"

    def close(self) -> None:
        for driver in self._started:
            self.workers(driver)
            for pid in (driver.pid, *self._workers):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            driver.wait(120)
            assert driver.stdout is not None
            driver.stdout.close()


@pytest.fixture
def drivers(nothing_left: Path, tmp_path: Path) -> Iterator[Drivers]:
    started = Drivers(tmp_path)
    yield started
    started.close()


def _files(directory: Path) -> list[Path]:
    return list(directory.glob("*.parquet"))


def same_job(directory: Path, mode: str = "aligned") -> NumberingJob:
    """The job of the script, to be driven by this process."""
    return numbering_job(
        "driven",
        directory,
        id="driven",
        rows=ROWS,
        rows_per_second=6_000,
        checkpoints=settings(mode),
        restart=RESTART,
        execution=small(),
    )


@pytest.mark.parametrize("mode", ["aligned"])
def test_a_killed_driver_is_replaced(start: Start, drivers: Drivers, tmp_path: Path, mode: str) -> None:
    first = drivers.start(mode)
    drivers.wait_for_output(first)
    workers = drivers.workers(first)
    assert len(workers) == 2
    first.kill()
    first.wait(120)
    # operator processes die with their driver
    wait_until(
        lambda: not any(Path(f"/proc/{pid}/stat").exists() for pid in workers), "its processes have ended", 120.0
    )
    job = same_job(tmp_path, mode)
    handle = start(job.job, ProcessCluster())
    wait_for_checkpoints(handle, 1)
    assert handle.checkpoints().latest.restored is not None
    assert handle.wait("120s") is JobStatus.FINISHED
    assert handle.attempt == 2
    assert job.prove().problems == ()


def test_a_driver_that_finds_the_job_ended_does_nothing(start: Start, drivers: Drivers, tmp_path: Path) -> None:
    first = drivers.start()
    out, _ = first.communicate(timeout=120)
    assert out.split() == ["started", "FINISHED"]
    job = same_job(tmp_path)
    assert start(job.job, ProcessCluster()).wait("120s") is JobStatus.FINISHED
    assert job.prove().problems == ()


def test_of_two_drivers_the_older_is_fenced(start: Start, drivers: Drivers, tmp_path: Path) -> None:
    older = drivers.start()
    drivers.wait_for_output(older)
    job = same_job(tmp_path)
    handle = start(job.job, ProcessCluster())
    out, _ = older.communicate(timeout=120)
    assert out.split() == ["started", "SUSPENDED"]
    assert handle.wait("120s") is JobStatus.FINISHED
    assert handle.attempt == 2
    assert job.prove().problems == ()


@pytest.mark.parametrize("mode", ["unaligned"])
def test_a_frozen_driver_comes_back_after_another_took_over(
    start: Start, drivers: Drivers, tmp_path: Path, mode: str
) -> None:
    """It and its operator processes go on where they stood: with commits, checkpoints and open files of before."""
    older = drivers.start(mode)
    drivers.wait_for_output(older)
    frozen = [older.pid, *drivers.workers(older)]
    for pid in frozen:
        os.kill(pid, signal.SIGSTOP)
    job = same_job(tmp_path, mode)
    handle = start(job.job, ProcessCluster())
    wait_for_checkpoints(handle, 2)
    for pid in reversed(frozen):
        os.kill(pid, signal.SIGCONT)
    out, _ = older.communicate(timeout=120)
    assert out.split() == ["started", "SUSPENDED"]
    assert handle.wait("120s") is JobStatus.FINISHED
    assert handle.attempt == 2
    assert prove(job.output, ROWS).problems == ()
