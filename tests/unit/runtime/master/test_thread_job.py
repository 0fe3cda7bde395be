"""A running job as the web server sees it: nothing waits, everything answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import snapline as sl
from snapline.api.job_handle import SnapshotFailedError
from snapline.errors import ConfigurationError, TransientError
from snapline.graph.planner import make_spec
from snapline.runtime.master.job_storage import open_storage
from snapline.runtime.master.master_handle import MasterHandle
from snapline.runtime.master.master_thread import MasterThread
from snapline.runtime.master.thread_job import ThreadJob
from snapline.testing import ThreadCluster
from snapline.types import CheckpointScope, JobStatus

WAIT_S = 20.0


def job(directory: Path) -> sl.Job:
    checkpoints = sl.Checkpoints(storage=directory / "storage", savepoint_dir=directory / "savepoints")
    made = sl.Job("clicks", id="clicks", checkpoints=checkpoints)
    made.source(sl.sources.Rate(500), uid="clicks").sink(sl.sinks.Files(directory / "out"), uid="out")
    return made


def wait_until(condition: Callable[[], object]) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


@pytest.fixture
def handle(tmp_path: Path) -> Iterator[MasterHandle]:
    handle = job(tmp_path).start(ThreadCluster())
    assert isinstance(handle, MasterHandle)
    wait_until(lambda: handle.status() is JobStatus.RUNNING)
    yield handle
    handle.cancel("20s")


@pytest.fixture
def seen(handle: MasterHandle) -> ThreadJob:
    return ThreadJob(handle._thread)


def test_names_and_views(seen: ThreadJob) -> None:
    assert (seen.job_id, seen.name, seen.can_change) == ("clicks", "clicks", True)
    view = seen.view().result(WAIT_S)
    assert (view.job_id, view.status, view.is_live) == ("clicks", JobStatus.RUNNING, True)


def test_checkpoints_and_savepoints_answer_with_their_paths(seen: ThreadJob, tmp_path: Path) -> None:
    assert seen.checkpoint(CheckpointScope.FULL).result(WAIT_S).endswith("/chk-1")
    path = seen.savepoint(None, None).result(WAIT_S)
    assert Path(path).parent == tmp_path / "savepoints"
    assert Path(path, "_metadata").exists()
    seen.dispose(path).result(WAIT_S)
    assert not Path(path).exists()
    asked_for = seen.savepoint(str(tmp_path / "asked for"), None).result(WAIT_S)
    seen.dispose(asked_for).result(WAIT_S)
    assert not Path(asked_for).exists(), "a directory that only the request named"


def test_requests_that_cannot_be_made_fail_with_what_to_do(seen: ThreadJob, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="relative"):
        seen.savepoint("here", None).result(WAIT_S)
    with pytest.raises(ConfigurationError, match="directory"):
        seen.savepoint(" ", None).result(WAIT_S)
    with pytest.raises(ConfigurationError, match="in no directory of this job"):
        seen.dispose(str(tmp_path / "elsewhere")).result(WAIT_S)


def test_stopping_answers_with_the_savepoint_and_the_last_view_stays(
    handle: MasterHandle, seen: ThreadJob, tmp_path: Path
) -> None:
    path = seen.stop(str(tmp_path / "savepoints"), None, drain=False).result(WAIT_S)
    assert Path(path, "_metadata").exists()
    handle.wait("20s")
    view = seen.view().result(WAIT_S)
    assert view.status is JobStatus.FINISHED
    assert view.ended_ms is not None
    assert seen.view().result(WAIT_S).statistics.latest.savepoint is not None
    for late in (seen.checkpoint(CheckpointScope.FULL), seen.savepoint("/d", None)):
        with pytest.raises(SnapshotFailedError, match="has ended"):
            late.result(WAIT_S)


def test_cancelling_answers_once_the_job_has_ended(handle: MasterHandle, seen: ThreadJob) -> None:
    seen.cancel().result(WAIT_S)
    assert handle.status() is JobStatus.CANCELED
    seen.cancel().result(WAIT_S)


def test_a_job_that_is_not_started_yet_says_so(tmp_path: Path) -> None:
    spec = make_spec(job(tmp_path))
    storage = open_storage(spec, None, None)
    thread = MasterThread(spec, ThreadCluster().provider(), storage)
    try:
        with pytest.raises(TransientError, match="ask again"):
            ThreadJob(thread).view().result(0)
    finally:
        thread._loop.close()
        storage.close()
