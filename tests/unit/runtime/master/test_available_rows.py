"""Everything that sources have when somebody asks is in the sink when the call returns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import snapline as sl
from snapline.connectors.files.file_sink import read_files
from snapline.testing import ThreadCluster

SCHEMA = pa.schema([("id", pa.int64())])


def add(directory: Path, start: int, end: int) -> None:
    unfinished = directory / f".{start}"
    pq.write_table(pa.table({"id": list(range(start, end))}), unfinished)
    unfinished.rename(directory / f"{start}.parquet")


def started(directory: Path, function: Any = lambda row: row, parallelism: int = 2, **settings: Any) -> sl.JobHandle:
    checkpoints = sl.Checkpoints(interval="1h", storage=directory / "checkpoints")
    job = sl.Job("rows", checkpoints=checkpoints, execution=sl.Execution(metrics_interval="50ms"), **settings)
    source = sl.sources.Files(directory / "in", schema=SCHEMA, watch="1h")
    rows = job.source(source, uid="rows", parallelism=parallelism).map(function, schema=SCHEMA, uid="function")
    rows.sink(sl.sinks.Files(directory / "out"), uid="sink")
    return job.start(ThreadCluster())


def found(directory: Path) -> list[int]:
    rows = read_files(directory / "out")
    return sorted(rows["id"].to_pylist()) if rows.num_columns else []


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path


def test_what_is_there_is_committed_when_the_call_returns(place: Path) -> None:
    add(place / "in", 0, 10)
    handle = started(place)
    handle.process_available("60s")
    assert found(place) == list(range(10))
    add(place / "in", 10, 30)
    add(place / "in", 30, 40)
    handle.process_available("60s")
    assert found(place) == list(range(40))
    handle.process_available("60s")
    handle.cancel()
    handle.process_available("60s")


def test_rows_that_are_read_again_after_a_restart_are_waited_for(place: Path) -> None:
    marker = place / "failed"

    def fails_once(row: dict[str, Any]) -> dict[str, Any]:
        if row["id"] == 15 and not marker.exists():
            marker.touch()
            raise ValueError("only once")
        return row

    add(place / "in", 0, 20)
    handle = started(place, fails_once)
    handle.process_available("60s")
    assert marker.exists()
    assert found(place) == list(range(20))
    handle.cancel()


def test_subtasks_with_nothing_to_read_do_not_hold_event_time_back(place: Path) -> None:
    times = pa.schema([("time", pa.timestamp("ms"))])
    job = sl.Job("minutes", checkpoints=sl.Checkpoints(interval="1h", storage=place / "checkpoints"), parallelism=3)
    source = sl.sources.Files(place / "in", schema=times, watch="1h")
    rows = job.source(source, uid="rows", watermarks=sl.Watermarks("time"))
    minutes = rows.key_by("time").window(sl.Tumbling("1m")).aggregate(n=sl.count(), uid="n")
    minutes.sink(sl.sinks.Files(place / "out"), uid="sink")

    def add_minutes(*minutes: int) -> None:
        seconds = pa.array([minute * 60_000 for minute in minutes], pa.int64()).cast(pa.timestamp("ms"))
        pq.write_table(pa.table({"time": seconds}), place / "in" / f".{minutes[0]}")
        (place / "in" / f".{minutes[0]}").rename(place / "in" / f"{minutes[0]}.parquet")

    handle = job.start(ThreadCluster())
    for first in (0, 3):
        add_minutes(first, first + 1, first + 2)
        handle.process_available("120s")
        assert read_files(place / "out").num_rows == first + 2, "the last minute may go on"
    handle.cancel()


def test_a_job_that_fails_says_so(place: Path) -> None:
    def fails(row: dict[str, Any]) -> dict[str, Any]:
        raise ValueError("no such luck")

    add(place / "in", 0, 20)
    handle = started(place, fails, restart=sl.NoRestart())
    with pytest.raises(sl.JobFailedError, match="no such luck"):
        handle.process_available("60s")


def test_a_source_without_an_end_is_read_up_to_now(place: Path) -> None:
    job = sl.Job("rate", checkpoints=sl.Checkpoints(interval="1h", storage=place / "checkpoints"))
    job.source(sl.sources.Rate(rows_per_second=50), uid="rows").sink(sl.sinks.Files(place / "out"), uid="sink")
    handle = job.start(ThreadCluster())
    before = 0
    for _ in range(2):
        handle.process_available("60s")
        rows = read_files(place / "out").num_rows
        assert rows >= before
        before = rows
    handle.cancel()


def test_the_call_gives_up_in_time(place: Path) -> None:
    handle = started(place)
    with pytest.raises(TimeoutError):
        handle.process_available("0ms")
    handle.cancel()
