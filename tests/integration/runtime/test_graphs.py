"""Jobs of other shapes than a straight line, each with a failure on the way."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from tests.integration.runtime.runtime_kit import (
    RESTART,
    ROWS,
    Pass,
    Start,
    Tagged,
    Uneven,
    WatermarkLog,
    settings,
    small,
    wait_for_checkpoints,
    wait_for_restart,
    wait_until,
)

from snapline.api.job import Job
from snapline.connectors.files.file_sink import Files, read_files
from snapline.contracts.source import Watermarks
from snapline.devtools.kit.exactly_once import NUMBERED, Numbering, prove
from snapline.runtime.master.master_handle import MasterHandle
from snapline.testing.clusters import ThreadCluster
from snapline.types import JobStatus

pytestmark = pytest.mark.slow

MODES = ("aligned", "unaligned")


def new_job(
    directory: Path, mode: str = "aligned", parallelism: int = 2, *, interval: str | None = "50ms", **execution: Any
) -> Job:
    checkpoints = settings(mode, interval)(str(directory / "chk"))
    return Job("graph", parallelism=parallelism, checkpoints=checkpoints, restart=RESTART, execution=small(**execution))


def run_with_failure(start: Start, job: Job) -> MasterHandle:
    """Lose a slot after the first checkpoints, and let the job go on to its end."""
    cluster = ThreadCluster()
    handle = start(job, cluster)
    wait_for_checkpoints(handle, 2)
    cluster.lose_slot(0)
    wait_for_restart(handle, 1)
    assert handle.wait("120s") is JobStatus.FINISHED
    assert handle.attempt > 1
    return handle


def ids(directory: Path) -> list[int]:
    table = read_files(directory)
    return sorted(table["id"].to_pylist()) if table.num_rows else []


@pytest.mark.parametrize("mode", MODES)
def test_union_of_two_sources(start: Start, tmp_path: Path, mode: str) -> None:
    job = new_job(tmp_path, mode)
    one = job.source(Uneven([3000, 3000]), uid="one")
    other = job.source(Uneven([6000, 6000]), uid="other").filter(pc.field("id") >= 6000)
    numbered = one.union(other).key_by("user").apply(Numbering(), uid="numbering", schema=NUMBERED)
    numbered.sink(Files(tmp_path / "out"), uid="out")
    run_with_failure(start, job)
    assert prove(tmp_path / "out", 12_000).problems == ()


@pytest.mark.parametrize("mode", MODES)
def test_broadcast_reaches_every_subtask_once(start: Start, tmp_path: Path, mode: str) -> None:
    job = new_job(tmp_path, mode)
    stream = job.source(Uneven([4000, 4000]), uid="rows").broadcast()
    stream.apply(Tagged(), uid="tag", schema=Tagged.schema).sink(Files(tmp_path / "out"), uid="out")
    run_with_failure(start, job)
    table = read_files(tmp_path / "out")
    seen = Counter(zip(table["id"].to_pylist(), table["subtask"].to_pylist(), strict=True))
    assert set(seen) == {(id, subtask) for id in range(8000) for subtask in (0, 1)}
    assert set(seen.values()) == {1}


def test_global_goes_to_the_first(start: Start, tmp_path: Path) -> None:
    job = new_job(tmp_path, "unaligned")
    stream = job.source(Uneven([4000, 4000]), uid="rows").global_()
    stream.apply(Tagged(), uid="tag", schema=Tagged.schema).sink(Files(tmp_path / "out"), uid="out")
    run_with_failure(start, job)
    assert ids(tmp_path / "out") == list(range(8000))
    assert set(read_files(tmp_path / "out")["subtask"].to_pylist()) == {0}


@pytest.mark.parametrize("mode", MODES)
def test_diamond(start: Start, tmp_path: Path, mode: str) -> None:
    job = new_job(tmp_path, mode)
    rows = job.source(Uneven([5000, 5000]), uid="rows")
    even = rows.rebalance().filter(pc.bit_wise_and(pc.field("id"), 1) == 0, uid="even")
    odd = rows.filter(pc.bit_wise_and(pc.field("id"), 1) == 1, uid="odd")
    numbered = even.union(odd).key_by("user").apply(Numbering(), uid="numbering", schema=NUMBERED)
    numbered.sink(Files(tmp_path / "out"), uid="out")
    rows.sink(Files(tmp_path / "raw"), uid="raw")
    run_with_failure(start, job)
    assert prove(tmp_path / "out", 10_000).problems == ()
    assert ids(tmp_path / "raw") == list(range(10_000))


@pytest.mark.parametrize("mode", [*MODES, "timeout"])
def test_chain_of_five_exchanges_of_different_parallelism(start: Start, tmp_path: Path, mode: str) -> None:
    job = new_job(tmp_path, mode, parallelism=3)
    stream = job.source(Uneven([5000, 5000, 100]), uid="rows", parallelism=1)
    for number, parallelism in enumerate((3, 2, 3, 1)):
        stream = stream.rebalance().apply(Pass(), uid=f"pass-{number}", schema=ROWS, parallelism=parallelism)
    numbered = stream.key_by("user").apply(Numbering(), uid="numbering", schema=NUMBERED, parallelism=2)
    numbered.sink(Files(tmp_path / "out"), uid="out", parallelism=3)
    run_with_failure(start, job)
    assert prove(tmp_path / "out", 10_100).problems == ()


@pytest.mark.parametrize("mode", [*MODES, "timeout"])
def test_failure_after_some_tasks_have_finished(start: Start, tmp_path: Path, mode: str) -> None:
    job = new_job(tmp_path, mode)
    rows = job.source(Uneven([100, 15_000]), uid="rows")
    short = job.source(Uneven([50, 50]), uid="short").filter(pc.field("id") < 0, uid="nothing")
    stream = rows.union(short).key_by("user").apply(Numbering(), uid="numbering", schema=NUMBERED)
    stream.sink(Files(tmp_path / "out"), uid="out")
    cluster = ThreadCluster()
    handle = start(job, cluster)
    # the subtasks of the short source, and one of the other, are gone
    wait_until(lambda: _finished_in_last_checkpoint(handle) == 3, "a checkpoint with finished tasks")
    wait_for_checkpoints(handle, 2)
    for slot in (1, 0):
        attempt = handle.attempt
        cluster.lose_slot(slot)
        wait_for_restart(handle, attempt)
        wait_for_checkpoints(handle, 2)
    assert handle.wait("120s") is JobStatus.FINISHED
    assert prove(tmp_path / "out", 15_100).problems == ()


def _finished_in_last_checkpoint(handle: MasterHandle) -> int:
    """How many tasks had finished before the newest checkpoint began: nothing is kept of them."""
    latest = handle.checkpoints().latest.completed
    if latest is None:
        return 0
    metrics = [subtask.metrics for vertex in latest.vertices for subtask in vertex.subtasks]
    return sum(1 for figures in metrics if figures is not None and figures.state_bytes == 0)


@pytest.mark.parametrize("source", [Uneven([]), Uneven([0, 0, 0])])
def test_empty_source(start: Start, tmp_path: Path, source: Uneven) -> None:
    job = new_job(tmp_path)
    job.source(source, uid="rows").key_by("user").apply(Numbering(), uid="numbering", schema=NUMBERED).sink(
        Files(tmp_path / "out"), uid="out"
    )
    assert start(job, ThreadCluster()).wait("120s") is JobStatus.FINISHED
    assert ids(tmp_path / "out") == []


def test_more_subtasks_than_splits(start: Start, tmp_path: Path) -> None:
    job = new_job(tmp_path, parallelism=3)
    job.source(Uneven([8000]), uid="rows").key_by("user").apply(Numbering(), uid="numbering", schema=NUMBERED).sink(
        Files(tmp_path / "out"), uid="out"
    )
    run_with_failure(start, job)
    assert prove(tmp_path / "out", 8000).problems == ()


def test_an_idle_subtask_does_not_hold_up_event_time(start: Start, tmp_path: Path) -> None:
    job = new_job(tmp_path, interval=None, latency_interval=0)  # nothing else wakes the task that waits
    source = Uneven([100, 5000], silent={0: 60.0})
    rows = job.source(source, uid="rows", watermarks=Watermarks("id", idle_after="100ms"))
    logged = rows.rebalance().apply(WatermarkLog(str(tmp_path / "watermarks")), uid="log", schema=ROWS)
    logged.sink(Files(tmp_path / "out"), uid="out")
    handle = start(job, ThreadCluster())
    wait_until(lambda: _newest_watermark(tmp_path / "watermarks") > 3000, "event time goes on", 120.0)
    handle.cancel("120s")


def _newest_watermark(directory: Path) -> int:
    if not directory.exists():
        return 0
    return min((int(path.read_text().split()[-1]) for path in directory.iterdir() if path.read_text()), default=0)
