"""What all tests of the runtime as a whole share: whatever they do, nothing may be left behind."""

from __future__ import annotations

import gc
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

# Operator processes search the same path: this is how they find `runtime_kit`.
sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.integration.runtime.runtime_kit import (
    Start,
    child_pids,
    has_ended,
    listening_ports,
    open_files,
    ports_of_child,
    wait_until,
    wait_until_closed,
)

from snapline.api.job import Job
from snapline.devtools.servers.server_process import given_ports
from snapline.runtime.master.master_handle import MasterHandle
from snapline.testing.clusters import ProcessCluster, ThreadCluster


@pytest.fixture(scope="module", autouse=True)
def old_objects() -> None:
    """Each test collects garbage: not that of all tests before it, whose objects would take seconds each time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def nothing_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The directory for temporary files. After the test it is empty, and no thread, process or port is left."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", None)
    # Others of the same process may have a Spark or a server for all of their tests.
    children, threads, ports = set(child_pids()), set(threading.enumerate()), listening_ports()
    servers = ports.union(given_ports, *map(ports_of_child, children))
    files = open_files(servers)
    yield temporary
    wait_until(lambda: not set(child_pids()) - children, "all processes have ended")
    wait_until(lambda: not set(threading.enumerate()) - threads, "all threads have ended")
    wait_until(lambda: not listening_ports() - ports, "nobody listens any more")
    gc.collect()
    wait_until_closed(servers, files)
    assert list(temporary.iterdir()) == []


@pytest.fixture
def start(nothing_left: Path) -> Iterator[Start]:
    handles: list[MasterHandle] = []

    def start_job(job: Job, cluster: ProcessCluster | ThreadCluster) -> MasterHandle:
        handle = job.start(cluster)
        assert isinstance(handle, MasterHandle)
        handles.append(handle)
        return handle

    yield start_job
    for handle in handles:
        if not has_ended(handle):
            handle.cancel("120s")
