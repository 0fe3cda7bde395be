"""Calls of the driver that never return, storage that is deleted, and clocks that are set, under a running job."""

from __future__ import annotations

import logging
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.integration.test_master import Cluster, running, spec, wait_for

from snapline.api.job_handle import JobFailedError, SnapshotFailedError
from snapline.config import FixedDelay
from snapline.contracts.master_hook import MasterHook
from snapline.runtime.master import job_end, master_thread
from snapline.runtime.master.start_master import start_master
from snapline.runtime.scheduler import call_watch
from snapline.storage.objects.file_objects import FileObjects
from snapline.types import FailureReason, JobStatus

HOUR_NS = 3_600_000_000_000


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture(autouse=True)
def _short_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_watch, "FIRST_WARNING_S", 0.1)
    monkeypatch.setattr(master_thread, "CLOSE_TIMEOUT_S", 0.2)
    monkeypatch.setattr(job_end, "RECORD_TIMEOUT_S", 0.5)


class Gate:
    """Calls pass until it is shut; then they hang until it is opened."""

    def __init__(self) -> None:
        self._is_open = threading.Event()
        self._is_open.set()

    def shut(self) -> None:
        self._is_open.clear()

    def open(self) -> None:
        self._is_open.set()

    def pass_(self) -> None:
        self._is_open.wait()


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.open()


class Stuck(MasterHook):
    name = "ledger"

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    def snapshot(self, checkpoint_id: int) -> bytes | None:
        self._gate.pass_()
        return None

    def restore(self, checkpoint_id: int, state: bytes | None) -> None:
        """Keeps nothing."""


class GatedObjects(FileObjects):
    """Local files behind a gate."""

    def __init__(self, gate: Gate) -> None:
        super().__init__()
        self._gate = gate

    def _run(self, *arguments: Any, **options: Any) -> Any:
        self._gate.pass_()
        return super()._run(*arguments, **options)


def warnings(caplog: pytest.LogCaptureFixture) -> str:
    return "\n".join(record.getMessage() for record in list(caplog.records))


def test_a_hook_that_hangs_is_named_fails_its_checkpoint_and_does_not_hold_up_the_end(
    cluster: Cluster, gate: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    gate.shut()
    job = spec(hooks={"ledger": Stuck(gate)}, timeout="300ms")
    with caplog.at_level(logging.INFO), running(job, cluster) as handle:
        with pytest.raises(SnapshotFailedError, match=r"CHECKPOINT_EXPIRED.*it waited for master hooks: ledger"):
            handle.checkpoint(timeout="120s")
        assert "snapshot of the master hook 'ledger' for checkpoint 1 has not returned after" in warnings(caplog)
        failed = handle.checkpoints().latest.failed
        assert failed is not None
        assert failed.failure is not None
        assert failed.failure.reason is FailureReason.CHECKPOINT_EXPIRED
        assert handle.status() is JobStatus.RUNNING
        handle.cancel("120s")
        assert handle.status() is JobStatus.CANCELED
        assert "a master hook does not return" in warnings(caplog)
        gate.open()


def test_storage_that_hangs_for_ever_fails_checkpoints_and_does_not_hold_up_a_cancel(
    cluster: Cluster, gate: Gate, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        handle = start_master(spec(tmp_path, timeout="2s"), cluster, objects=GatedObjects(gate))
        wait_for(lambda: handle.status() is JobStatus.RUNNING)
        handle.checkpoint(timeout="120s")
        gate.shut()
        with pytest.raises(SnapshotFailedError, match=r"CHECKPOINT_EXPIRED.*for an id from the journal"):
            handle.checkpoint(timeout="120s")
        assert "job test: reserving a checkpoint id in" in warnings(caplog)
        with pytest.raises(SnapshotFailedError, match="CHECKPOINT_EXPIRED"):
            handle.stop(tmp_path / "savepoints", timeout="120s")
        assert handle.status() is JobStatus.RUNNING
        handle.cancel("120s")
        assert handle.status() is JobStatus.SUSPENDED
        assert "could not be recorded within 0.5 s: its storage does not answer" in handle.cause
        gate.open()


def test_a_storage_directory_that_is_deleted_ends_the_job_and_is_not_made_again(
    cluster: Cluster, tmp_path: Path
) -> None:
    job = spec(tmp_path, interval="50ms", restart=FixedDelay(attempts=100, delay="1ms"))
    handle = start_master(job, cluster)
    wait_for(lambda: handle.checkpoints().counts.completed >= 3, "checkpoints")
    shutil.rmtree(tmp_path / "checkpoints", ignore_errors=True)
    with pytest.raises(
        JobFailedError, match=r"journal in .*/checkpoints/job-1 was deleted while it ran.*Bring the directory back"
    ):
        handle.wait("120s")
    assert handle.attempt == 1, "a restart would begin anew"
    assert not list((tmp_path / "checkpoints").rglob("journal/claims/*"))


def test_a_last_checkpoint_that_is_deleted_ends_the_job(cluster: Cluster, tmp_path: Path) -> None:
    handle = start_master(spec(tmp_path), cluster)
    wait_for(lambda: handle.status() is JobStatus.RUNNING)
    location = handle.checkpoint(timeout="120s")
    shutil.rmtree(location)
    with pytest.raises(SnapshotFailedError, match=r"IO_EXCEPTION.*last checkpoint was deleted while it ran"):
        handle.checkpoint(timeout="120s")
    with pytest.raises(JobFailedError, match=r"/chk-1 is gone"):
        handle.wait("120s")


def test_checkpoints_go_on_at_their_interval_whatever_the_wall_clock_is_set_to(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    true_ns = time.time_ns

    def completed() -> int:
        return handle.checkpoints().counts.completed

    with running(spec(tmp_path, interval="100ms"), cluster) as handle:
        wait_for(lambda: completed() >= 2, "checkpoints")
        for step_ns in (-HOUR_NS, HOUR_NS):
            monkeypatch.setattr(time, "time_ns", lambda step_ns=step_ns: true_ns() + step_ns)
            before, set_s = completed(), time.monotonic()
            wait_for(lambda before=before: completed() >= before + 4, "checkpoints after the clock was set")  # type: ignore[misc]
            assert completed() - before <= (time.monotonic() - set_s) / 0.1 + 2
            latest = handle.checkpoints().latest.completed
            assert latest is not None
            assert abs(latest.trigger_ms - (true_ns() + step_ns) // 1_000_000) < 60_000, "people see the wall clock"
            assert latest.end_to_end_duration_ms < 60_000


PROGRAM = """
import sys, threading
from snapline.config import Checkpoints
from snapline.contracts.master_hook import MasterHook
from snapline.devtools.kit.exactly_once import numbering_job
from snapline.runtime.master import master_thread
from snapline.testing.clusters import ThreadCluster

master_thread.CLOSE_TIMEOUT_S = 0.2
has_begun = threading.Event()

class Stuck(MasterHook):
    name = "stuck"

    def snapshot(self, checkpoint_id):
        has_begun.set()
        threading.Event().wait()

    def restore(self, checkpoint_id, state):
        pass

made = numbering_job(
    "hangs", sys.argv[1], rows=10_000_000, rows_per_second=1_000,
    checkpoints=lambda storage: Checkpoints(interval="50ms", storage=storage),
)
made.job.hooks = (Stuck(),)
handle = made.job.start(ThreadCluster())
assert has_begun.wait(30)
"""


@pytest.mark.slow
def test_a_hook_that_hangs_does_not_keep_the_program_from_ending(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)], capture_output=True, text=True, timeout=240, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert "a master hook does not return; its thread is left behind" in ended.stderr
