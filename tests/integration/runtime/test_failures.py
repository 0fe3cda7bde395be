"""Whatever fails, and in whatever mode checkpoints are taken: every row counts exactly once."""

from __future__ import annotations

import itertools
import os
import random
import signal
import time
from pathlib import Path

import pytest
from tests.integration.runtime.runtime_kit import (
    HEARTBEATS,
    MODES,
    RESTART,
    Harm,
    Start,
    completed,
    has_ended,
    is_full_matrix,
    runs,
    settings,
    small,
    wait_for_checkpoints,
    wait_for_restart,
    wait_until,
)

from snapline.devtools.kit.exactly_once import NumberingJob, numbering_job, prove
from snapline.runtime.master.master_handle import MasterHandle
from snapline.testing.clusters import ProcessCluster, ThreadCluster
from snapline.types import JobStatus

pytestmark = pytest.mark.slow

HARMS = ("raise", "kill", "lose_slot", "freeze")
CHOSEN = [
    ("raise", "aligned", False),
    ("raise", "timeout", True),
    ("kill", "aligned", True),
    ("kill", "unaligned", True),
    ("lose_slot", "unaligned", False),
    ("lose_slot", "timeout", True),
    ("freeze", "aligned", False),
    ("freeze", "unaligned", True),
]
COMBINATIONS = list(itertools.product(HARMS, MODES, (False, True))) if is_full_matrix else CHOSEN


def pressed(name: str, directory: Path, mode: str, **options: object) -> NumberingJob:
    """A job whose sink is far slower than its source."""
    return numbering_job(
        name,
        directory,
        rows=20_000,
        slow=0.1,
        users=50,
        checkpoints=settings(mode),
        restart=RESTART,
        execution=small(**HEARTBEATS),
        **options,  # type: ignore[arg-type]
    )


def at_ease(name: str, directory: Path, mode: str, **options: object) -> NumberingJob:
    """A job whose source is the slowest part."""
    return numbering_job(
        name,
        directory,
        rows=20_000,
        rows_per_second=15_000,
        checkpoints=settings(mode),
        restart=RESTART,
        execution=small(**HEARTBEATS),
        **options,  # type: ignore[arg-type]
    )


def is_pressed(handle: MasterHandle) -> bool:
    """Whether a source waits for those behind it most of the time."""
    return any(
        name.startswith("rows/") and figures.backpressured_ms > figures.interval_ms / 2
        for name, figures in handle.metrics().items()
    )


@pytest.mark.parametrize(("harm", "mode", "slow"), COMBINATIONS)
def test_exactly_once_after_a_failure(start: Start, tmp_path: Path, harm: str, mode: str, slow: bool) -> None:
    make = pressed if slow else at_ease
    job = make("harmed", tmp_path, mode, fail_after_rows=5000 if harm == "raise" else None)
    cluster = ProcessCluster()
    handle = start(job.job, cluster)
    if slow:
        wait_until(lambda: is_pressed(handle), "back-pressure")
    if harm == "raise":
        wait_until(lambda: handle.attempt > 1, "the failure")
    else:
        wait_for_checkpoints(handle)
        getattr(Harm(cluster), harm)(handle)
        wait_for_restart(handle, 1)
    assert handle.wait("120s") is JobStatus.FINISHED
    assert handle.attempt > 1
    assert job.prove().problems == ()
    summary = handle.checkpoints().summary
    if slow and mode != "aligned":
        assert summary.persisted_bytes.max > 0
    if mode == "aligned":
        assert summary.persisted_bytes.max == 0


@pytest.mark.parametrize("slow", [False, True])
def test_at_least_once_loses_nothing(start: Start, tmp_path: Path, slow: bool) -> None:
    job = numbering_job(
        "at-least",
        tmp_path,
        rows=20_000,
        rows_per_second=None if slow else 15_000,
        slow=0.1 if slow else 0.0,
        checkpoints=settings("at-least-once"),
        restart=RESTART,
        execution=small(**HEARTBEATS),
    )
    cluster = ProcessCluster()
    handle = start(job.job, cluster)
    wait_for_checkpoints(handle)
    Harm(cluster).kill(handle)
    assert handle.wait("120s") is JobStatus.FINISHED
    assert handle.attempt > 1
    assert prove(job.output, job.rows, at_least_once=True).problems == ()


@pytest.mark.parametrize(
    ("mode", "seed"), list(itertools.product(MODES, range(3))) if is_full_matrix else [("unaligned", 1), ("aligned", 2)]
)
def test_exactly_once_after_many_failures_at_random_moments(start: Start, tmp_path: Path, mode: str, seed: int) -> None:
    job = pressed("chaos", tmp_path, mode)
    cluster = ProcessCluster()
    handle = start(job.job, cluster)
    chance, harm = random.Random(seed), Harm(cluster, seed)
    for _ in range(5):
        attempt = handle.attempt
        wait_until(lambda: has_ended(handle) or runs(handle), "the job runs")
        time.sleep(chance.uniform(0, 0.5))
        if has_ended(handle):
            break
        harm.any(handle)
        wait_for_restart(handle, attempt)
    assert handle.wait("120s") is JobStatus.FINISHED
    assert handle.attempt > 2
    assert job.prove().problems == ()


@pytest.mark.parametrize("mode", list(MODES) if is_full_matrix else ["timeout"])
def test_exactly_once_after_failures_during_recovery(start: Start, tmp_path: Path, mode: str) -> None:
    job = pressed("recovering", tmp_path, mode)
    cluster = ProcessCluster()
    handle = start(job.job, cluster)
    wait_for_checkpoints(handle, 1)
    killed: set[int] = set()
    for _ in range(3):
        wait_until(lambda: len(set(cluster.worker_pids()) - killed) == 2, "a process in each slot")
        victim = min(set(cluster.worker_pids()) - killed)
        killed.add(victim)
        os.kill(victim, signal.SIGKILL)
    assert handle.wait("120s") is JobStatus.FINISHED
    # One that dies before anything is deployed to it is replaced without another attempt, but not in silence.
    assert handle.attempt >= 2
    assert sum("killed by signal 9" in text or "is lost" in text for _, text in handle.events()) >= len(killed)
    assert job.prove().problems == ()


@pytest.mark.parametrize("mode", list(MODES) if is_full_matrix else ["aligned", "unaligned"])
def test_exactly_once_after_failures_during_checkpoints(start: Start, tmp_path: Path, mode: str) -> None:
    job = pressed("checkpointing", tmp_path, mode)
    cluster = ProcessCluster()
    handle = start(job.job, cluster)
    harm = Harm(cluster)
    for _ in range(3):
        wait_for_checkpoints(handle, 1)
        attempt = handle.attempt
        wait_until(lambda: has_ended(handle) or handle.checkpoints().counts.in_progress > 0, "a checkpoint begins")
        harm.kill(handle)
        wait_for_restart(handle, attempt)
    assert handle.wait("120s") is JobStatus.FINISHED
    assert handle.attempt > 1
    assert job.prove().problems == ()


def test_failures_one_after_the_other_within_threads(start: Start, tmp_path: Path) -> None:
    """In one process, where whatever an attempt leaves behind is there for the next one to stumble over."""
    job = at_ease("threads", tmp_path, "unaligned")
    cluster = ThreadCluster()
    handle = start(job.job, cluster)
    for slot in (0, 1, 0):
        before = completed(handle)
        wait_for_checkpoints(handle, 1)
        assert completed(handle) > before
        attempt = handle.attempt
        cluster.lose_slot(slot)
        wait_for_restart(handle, attempt)
    assert handle.wait("120s") is JobStatus.FINISHED
    assert job.prove().problems == ()
