from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.web.live_kit import Start

import snapline as sl
from snapline.testing.clusters import ProcessCluster, ThreadCluster
from snapline.web.web_server import close_all


@pytest.fixture(autouse=True)
def own_servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every test has servers of its own, and no thread or socket of them is left."""
    monkeypatch.setenv("SNAPLINE_HOME", str(tmp_path / "home"))
    yield
    close_all()
    deadline_s = time.monotonic() + 10
    while any(thread.name.startswith("snapline-") for thread in threading.enumerate()):
        left = [thread.name for thread in threading.enumerate()]
        assert time.monotonic() < deadline_s, left
        time.sleep(0.01)
    sockets = [name for name in os.listdir("/proc/self/fd") if _is_socket(name)]
    assert _listening(sockets) == []


@pytest.fixture
def start(own_servers: None) -> Iterator[Start]:
    """Starts jobs, and ends those that the test has left running."""
    handles: list[sl.JobHandle] = []

    def start_job(job: sl.Job, cluster: ThreadCluster | ProcessCluster | None = None) -> sl.JobHandle:
        handles.append(job.start(cluster or ThreadCluster()))
        return handles[-1]

    yield start_job
    for handle in handles:
        if not handle.status().is_globally_terminal:
            handle.cancel("30s")


def _is_socket(name: str) -> bool:
    try:
        return os.readlink(f"/proc/self/fd/{name}").startswith("socket:")
    except FileNotFoundError:
        return False


def _listening(names: list[str]) -> list[str]:
    """Those of these sockets that listen on TCP."""
    inodes = {os.readlink(f"/proc/self/fd/{name}")[8:-1] for name in names}
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return [line[1] for line in lines if line[3] == "0A" and line[9] in inodes]
