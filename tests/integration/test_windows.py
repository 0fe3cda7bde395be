"""Windows in a whole job that fails in the middle: every row counts once, in windows of rows and of results."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import snapline as sl
from snapline.devtools.kit.exactly_once import FailOnce
from snapline.runtime.scheduler import system_threads
from snapline.testing.clusters import ThreadCluster
from snapline.types import JobStatus

ROWS = 30_000


def with_time(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Rows in event time: one each millisecond."""
    return batch.append_column("at", batch.column("id"))


def written(directory: Path, name: str) -> pa.Table:
    return sl.sinks.read_files(directory / name)


@pytest.mark.slow
def test_windows_count_every_row_once(tmp_path: Path) -> None:
    source = sl.sources.Rate(15_000, rows=ROWS, users=20, batch_rows=500)
    job = sl.Job(
        "windows",
        parallelism=2,
        checkpoints=sl.Checkpoints(interval="100ms", storage=tmp_path / "checkpoints"),
        restart=sl.FixedDelay(attempts=3, delay="10ms"),
    )
    stream = job.source(source, uid="rows").map_batches(with_time)
    stream = stream.with_watermarks(sl.Watermarks("at", delay="500ms"))
    stream = stream.apply(FailOnce(ROWS // 4, str(tmp_path / "failed")), uid="failing", schema=stream.schema)
    keyed = stream.key_by("user")
    tumbling = (
        keyed.window(sl.Tumbling("1s"))
        .late_output("late")
        .aggregate(uid="tumbling", n=sl.count(), total=sl.sum("value"), ids=sl.collect("id"))
    )
    sessions = keyed.window(sl.Session("40ms")).late_output("late").aggregate(uid="sessions", n=sl.count())
    given = tumbling.key_by("window_end").window(sl.GivenWindow()).aggregate(uid="given", n=sl.sum("n"))
    running = keyed.aggregate(uid="running", emit_every="100ms", n=sl.count())
    streams = {
        "tumbling": tumbling,
        "late": tumbling.side_output("late"),
        "sessions": sessions,
        "late-sessions": sessions.side_output("late"),
        "given": given,
        "running": running,
    }
    for name, results in streams.items():
        results.sink(sl.sinks.Files(tmp_path / name), uid=f"{name}-out")
    handle = job.start(ThreadCluster())
    assert handle.wait("120s") is JobStatus.FINISHED
    assert handle.attempt == 2
    late = written(tmp_path, "late").num_rows
    windows = written(tmp_path, "tumbling")
    ids = pc.list_flatten(windows.column("ids").combine_chunks())
    assert (len(ids), pc.count_distinct(ids).as_py()) == (ROWS - late, ROWS - late)
    assert pc.sum(windows["n"]).as_py() == pc.sum(written(tmp_path, "given")["n"]).as_py() == ROWS - late
    if not late:
        assert pc.sum(windows["total"]).as_py() == sum(source.expected_sums().values())
        assert pc.count_distinct(written(tmp_path, "given")["window_end"]).as_py() == ROWS // 1000
    assert pc.sum(written(tmp_path, "sessions")["n"]).as_py() == ROWS - written(tmp_path, "late-sessions").num_rows
    latest = written(tmp_path, "running").group_by("user").aggregate([("n", "max")])
    assert dict(zip(*(latest[name].to_pylist() for name in ("user", "n_max")), strict=True)) == source.expected_counts()


@pytest.mark.slow
def test_windows_of_processing_time_go_on_when_the_clock_is_set_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step_ns, collect = [0], sl.sinks.Collect(tmp_path / "results")
    monkeypatch.setattr(system_threads._CLOCK, "_wall_ns", lambda: time.time_ns() + step_ns[0])
    job = sl.Job("clock", checkpoints=sl.Checkpoints(interval="50ms", storage=tmp_path / "checkpoints"))
    keyed = job.source(sl.sources.Rate(1_000, users=2), uid="rows").key_by("user")
    windows = keyed.window(sl.Tumbling("100ms", processing_time=True)).aggregate(uid="count", rows=sl.count())
    windows.sink(collect, uid="out")
    handle = job.start(ThreadCluster())

    def wait_for_rows(count: int) -> list[tuple[str, int]]:
        deadline_s = time.monotonic() + 120
        while (table := collect.table()).num_rows < count:
            assert time.monotonic() < deadline_s, "no more windows"
            handle.checkpoint(timeout="120s")
        return list(zip(table["user"].to_pylist(), table["window_start"].to_pylist(), strict=True))

    try:
        before = wait_for_rows(6)
        step_ns[0] = -3_600_000_000_000
        after = wait_for_rows(len(before) + 20)
    finally:
        handle.cancel("120s")
    assert len(set(after)) == len(after), "no window twice"
    assert max(start for _, start in after) > max(start for _, start in before)
