"""Whole jobs into and out of Delta tables: killed processes, readers at the same time, savepoints, other writers."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import pyarrow as pa
import pytest
from tests.integration.delta.delta_kit import SIDES, numbers_seen, sides_job, wait_until

import snapline as sl
from snapline.devtools.kit.exactly_once import NUMBERED, Numbering
from snapline.testing import ProcessCluster, ThreadCluster

RESTART = sl.ExponentialDelay(initial_backoff="10ms", max_backoff="100ms")
FAST = sl.Execution(heartbeat_interval="200ms", heartbeat_timeout="60s", cancel_timeout="1s")


def data_files(path: Path) -> set[str]:
    return {found.name for found in path.rglob("part-*.parquet") if "_delta_log" not in found.parts}


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_operator_processes_are_killed_while_others_read(tmp_path: Path, mode: str) -> None:
    path, rows = tmp_path / "table", 6000 if mode == "append" else 4000
    sink = sl.sinks.Delta(path, mode=mode, key=["value", "side"] if mode == "upsert" else [])
    job = sides_job(tmp_path, sink, rows=rows, rate=3000, restart=RESTART, execution=FAST)
    cluster = ProcessCluster(slots=2)
    handle = job.start(cluster)
    seen: dict[int, int] = {}
    for kills in range(2 if mode == "append" else 1):
        enough = rows // 5 * (kills + 1)
        wait_until(lambda enough=enough: _grown(path, seen, enough), "growth")  # type: ignore[misc]
        wait_until(lambda: len(cluster.worker_pids()) == 2, "both processes run")
        os.kill(cluster.worker_pids()[kills % 2], signal.SIGKILL)
    while handle.status() not in (sl.JobStatus.FINISHED, sl.JobStatus.FAILED):
        seen |= numbers_seen(path)
    assert handle.wait("120s") is sl.JobStatus.FINISHED
    seen |= numbers_seen(path)
    assert max(seen.values()) == rows
    for version in range(max(seen) + 1):  # also those that nobody happened to read in time
        seen |= numbers_seen(path, version)
    seen = dict(sorted(seen.items()))
    assert list(seen.values()) == sorted(seen.values())
    if mode == "append":
        table = deltalake.DeltaTable(path)
        named = {Path(name).name for name in table.file_uris()}
        assert data_files(path) == named, "nothing is left over from dead attempts"
        with duckdb.connect() as connection:
            query = f"SELECT count(*), sum(value) FROM read_parquet({table.file_uris()})"
            count = connection.execute(query).fetchone()
        assert count == (rows * SIDES, rows * (rows - 1) // 2 * SIDES)
        assert int(table.to_pandas()["side"].sum()) == rows * SIDES * (SIDES - 1) // 2
    else:
        assert not [found for found in (path / "_snapline").rglob("*") if found.is_file()]


def _grown(path: Path, seen: dict[int, int], enough: int) -> bool:
    seen.update(numbers_seen(path))
    return max(seen.values()) >= enough


@pytest.mark.slow
def test_a_savepoint_goes_on_in_a_new_lineage_and_old_ones_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "table"

    def job(id: str, **checkpoints: Any) -> sl.Job:
        return sides_job(tmp_path, sl.sinks.Delta(path), rows=None, rate=2000, id=id, checkpoints=checkpoints)

    first = job("first").start(ThreadCluster())
    wait_until(lambda: deltalake.DeltaTable(path).version() > 2, "commits")
    old = first.savepoint(str(tmp_path / "savepoints"))
    version = deltalake.DeltaTable(path).version()
    wait_until(lambda: deltalake.DeltaTable(path).version() > version + 2, "newer commits")
    new = first.stop(savepoint=str(tmp_path / "savepoints"))

    refused = job("second", restore_from=old).start(ThreadCluster())
    with pytest.raises(sl.JobFailedError, match="holds output up to checkpoint"):
        refused.wait("120s")
    before = sum(numbers_seen(path).values())
    again = job("third", restore_from=new).start(ThreadCluster())
    wait_until(lambda: sum(numbers_seen(path).values()) > before + 1000, "it goes on")
    again.cancel()
    numbers = set(deltalake.DeltaTable(path).to_pyarrow_table()["value"].to_pylist())
    assert set(range(before)) <= numbers, "no gap where one job went on from the other"


@pytest.mark.slow
def test_a_job_that_starts_again_from_scratch_writes_again(tmp_path: Path) -> None:
    """Its checkpoints have the same ids as those of the first start, and are not taken for them."""
    path = tmp_path / "table"
    for _ in range(2):
        job = sides_job(tmp_path, sl.sinks.Delta(path), rows=1000, rate=None, id="same")
        assert job.run(ThreadCluster()) is sl.JobStatus.FINISHED
        shutil.rmtree(tmp_path / "chk")
    assert deltalake.DeltaTable(path).to_pyarrow_table().num_rows == 2 * 1000 * SIDES


@pytest.mark.slow
def test_keyed_counts_are_kept_up_to_date_in_a_table(tmp_path: Path) -> None:
    job = sl.Job("counts", parallelism=2, checkpoints=sl.Checkpoints(interval="100ms", storage=tmp_path / "chk"))
    source = sl.sources.Rate(20_000, rows=30_000, users=50)
    counts = job.source(source, uid="rows").key_by("user").apply(Numbering(), "count", schema=NUMBERED, has_state=True)
    counts.sink(sl.sinks.Delta(tmp_path / "counts", mode="upsert", key="user"), uid="out")
    assert job.run(ThreadCluster()) is sl.JobStatus.FINISHED
    table = deltalake.DeltaTable(tmp_path / "counts")
    assert table.version() >= 1, "more than one commit, also on a busy machine"
    found = table.to_pyarrow_table()
    assert dict(zip(found["user"].to_pylist(), found["number"].to_pylist(), strict=True)) == source.expected_counts()
    assert found.num_rows == 50


@pytest.mark.slow
def test_a_table_is_followed_through_restarts(tmp_path: Path) -> None:
    """One job writes a table, another one follows it and writes a second; processes of the follower are killed."""
    first, second = tmp_path / "first", tmp_path / "second"
    writer = sides_job(tmp_path / "writer", sl.sinks.Delta(first), rows=4000, rate=3000)
    writing = writer.start(ThreadCluster())
    wait_until(lambda: deltalake.DeltaTable.is_deltatable(str(first)), "the table is created")
    follower = sl.Job(
        "follower",
        parallelism=2,
        checkpoints=sl.Checkpoints(interval="100ms", storage=tmp_path / "chk"),
        restart=RESTART,
        execution=FAST,
    )
    stream = follower.source(sl.sources.Delta(first, follow=True, poll="20ms"), uid="table")
    stream.sink(sl.sinks.Delta(second), uid="copy")
    cluster = ProcessCluster(slots=2)
    following = follower.start(cluster)
    wait_until(lambda: _rows(second) > 1000 * SIDES, "rows are copied")
    os.kill(cluster.worker_pids()[0], signal.SIGKILL)
    assert writing.wait("120s") is sl.JobStatus.FINISHED
    deltalake.DeltaTable(first).optimize.compact()
    wait_until(lambda: _rows(second) >= 4000 * SIDES, "everything is copied")
    deltalake.write_deltalake(first, pa.table({"value": [4000] * SIDES, "side": list(range(SIDES))}), mode="append")
    wait_until(lambda: _rows(second) > 4000 * SIDES, "the row behind OPTIMIZE is copied")
    following.cancel()
    assert sum(numbers_seen(second).values()) == 4001


def _rows(path: Path) -> int:
    if not deltalake.DeltaTable.is_deltatable(str(path)):
        return 0
    return int(deltalake.DeltaTable(path).count())
