"""Under back-pressure a job takes no more memory the longer it runs."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from tests.integration.runtime.runtime_kit import (
    RESTART,
    Start,
    is_full_matrix,
    resident_bytes,
    settings,
    small,
    wait_for_checkpoints,
)

from snapline.devtools.kit.exactly_once import numbering_job
from snapline.testing.clusters import ProcessCluster

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("launched_operators")]

SECONDS = 20.0 if is_full_matrix else 5.0


def test_memory_stays_bounded_under_back_pressure(start: Start, tmp_path: Path) -> None:
    job = numbering_job(
        "pressed",
        tmp_path,
        rows=100_000_000,
        slow=0.02,
        checkpoints=settings("unaligned"),
        restart=RESTART,
        execution=small(channel_memory="256KB", batch_size="64KB"),
    )
    cluster = ProcessCluster()
    handle = start(job.job, cluster)
    wait_for_checkpoints(handle, 10)
    pids = cluster.worker_pids()
    first = {pid: resident_bytes(pid) for pid in pids}
    deadline_s = time.monotonic() + SECONDS
    highest = dict(first)
    while time.monotonic() < deadline_s:
        wait_for_checkpoints(handle, 2)
        highest = {pid: max(highest[pid], resident_bytes(pid)) for pid in pids}
    assert cluster.worker_pids() == pids
    assert handle.attempt == 1
    assert handle.checkpoints().summary.persisted_bytes.max > 0
    assert set(handle.memory_bytes()) == {0, 1}
    handle.cancel("120s")
    for pid in pids:
        assert highest[pid] - first[pid] < 64 << 20, f"from {first[pid] >> 20} MB to {highest[pid] >> 20} MB"
