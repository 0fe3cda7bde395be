"""A job explains itself before it runs."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import snapline as sl
from snapline.errors import StorageError
from snapline.graph import job_explanation
from snapline.graph.job_explanation import checkpoints_text, page_text, restart_text, state_text
from snapline.testing import ThreadCluster


def clicks(storage: Path | None = None, *, rows: int | None = 10, **settings: Any) -> sl.Job:
    checkpoints = sl.Checkpoints(interval="1s", storage=storage)
    job = sl.Job("clicks", **{"parallelism": 2, "checkpoints": checkpoints, **settings})
    watermarks = sl.Watermarks("time", delay="5s")
    stream = job.source(sl.sources.Rate(rows=rows), uid="rows", watermarks=watermarks)
    stream.key_by("user").aggregate(n=sl.count(), uid="per-user").sink(sl.sinks.Print(), uid="out")
    return job


def fact(job: sl.Job, name: str) -> str:
    return dict(job.explain().facts)[name]


def test_the_plan_as_text() -> None:
    text = str(clicks().explain())
    assert text.startswith("Job 'clicks': 3 operators in 2 vertices, 2 slots\n")
    for part in (
        "│ aggregate by user → Print │",
        "rows  Rate, source; ends by itself; event time from time, rows up to 5 s late",
        "out       Print, sink; writes at once",
        "=> to per-user, by user",
    ):
        assert part in text


def test_nothing_runs_and_nothing_is_written(tmp_path: Path) -> None:
    before = threading.active_count()
    job = clicks(tmp_path / "chk")
    assert fact(job, "starts") == "from the beginning, under the id 'clicks'"
    assert not (tmp_path / "chk").exists()
    assert threading.active_count() == before


def test_what_it_starts_from(tmp_path: Path) -> None:
    assert fact(clicks(), "starts") == "from the beginning, under a new id"
    assert fact(clicks(id="mine"), "starts") == "from the beginning, under the id 'mine'"
    assert fact(clicks(rows=None, checkpoints=sl.Checkpoints(restore_from="/x/chk-7")), "starts").startswith(
        "from /x/chk-7 (NO_CLAIM), under"
    )
    job = clicks(tmp_path, rows=None)
    handle = job.start(ThreadCluster())
    location = handle.checkpoint(timeout="30s")
    handle.suspend("30s")
    assert fact(job, "starts") == f"from {location}, as attempt 2 of the job 'clicks'"
    ended = clicks(tmp_path, rows=None, id="other")
    handle = ended.start(ThreadCluster())
    handle.cancel("30s")
    assert fact(ended, "starts").startswith("not at all: the job 'other' has ended (CANCELED)")


def test_a_storage_that_cannot_be_read_is_no_obstacle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreadable(*_: Any) -> None:
        raise StorageError("the network is down")

    monkeypatch.setattr(job_explanation, "open_archive", unreadable)
    assert fact(clicks(tmp_path, id="mine"), "starts").endswith("cannot be read now: the network is down")


def test_errors_are_those_of_a_start() -> None:
    with pytest.raises(sl.ConfigurationError, match="the job has no source"):
        sl.Job("x").explain()
    with pytest.raises(sl.ConfigurationError, match="parallelism=0"):
        clicks(parallelism=0).explain()
    job = clicks()
    lock = threading.Lock()
    stream = job.source(sl.sources.Rate(rows=1), uid="more")
    locked = stream.map_batches(lambda batch: lock and batch, schema=stream.schema)
    locked.sink(sl.sinks.Print(), uid="out-2")
    with pytest.raises(sl.ConfigurationError, match="cannot be pickled"):
        job.explain()


def test_settings_without_effect_are_noted_and_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    job = clicks(checkpoints=sl.Checkpoints(interval="1s", incremental=True))
    (note,) = job.explain().notes
    assert note.startswith("incremental=True has no effect")
    assert caplog.records == []


def test_checkpoints_in_a_line() -> None:
    assert checkpoints_text(sl.Checkpoints()) == (
        "only on request, exactly once, given up after 10 min, kept in the driver and lost with it"
    )
    assert (
        checkpoints_text(
            sl.Checkpoints(
                interval="1.5s",
                interval_during_backlog="0ms",
                min_pause="500ms",
                unaligned=True,
                aligned_timeout="2h",
                incremental=True,
                storage="/chk",
                retained=3,
            )
        )
        == "every 1.5 s, none during backlog, 500 ms apart at least, exactly once, unaligned after 2 h, incremental, "
        "given up after 10 min, the newest 3 kept in /chk"
    )
    at_least_once = sl.Checkpoints(interval="1s", interval_during_backlog="1min", mode="at_least_once", storage="/chk")
    assert checkpoints_text(at_least_once).startswith("every 1 s, every 1 min during backlog, at least once, ")


@pytest.mark.parametrize(
    ("restart", "text"),
    [
        (sl.NoRestart(), "none: the first failure of a task fails the job"),
        (sl.FixedDelay(attempts=3, delay="2s"), "2 s after a failure, 3 times"),
        (sl.FailureRate(), "1 s after a failure, unless there are more than 1 within 1 min"),
        (
            sl.ExponentialDelay(attempts_before_reset=5),
            "1 s after a failure, then 1.5 times as long each time, up to 1 min; 5 times",
        ),
    ],
)
def test_restarts_in_a_line(restart: Any, text: str) -> None:
    assert restart_text(restart) == text


def test_state_and_page_in_a_line() -> None:
    assert state_text(sl.Execution()) == "in the memory of each slot"
    assert state_text(sl.Execution(state_backend="rocksdb", state_directory="/ssd")).endswith("in /ssd")
    limited = sl.Execution(state_backend="rocksdb", state_directory="/ssd", state_memory="2GB")
    assert state_text(limited).endswith("in /ssd, with at most 2,048 MB of memory in each slot")
    assert page_text(None) == "on 127.0.0.1, the first free port of 4300-4399, if it runs on Spark"
    assert page_text(sl.Monitoring(enabled=False)) == "none"
    assert page_text(sl.Monitoring(port=4300)) == "on 127.0.0.1, port 4300"
    assert page_text(sl.Monitoring(port=None)) == "on 127.0.0.1, port chosen by the system"


def test_sources_that_drop_rows_and_never_end() -> None:
    job = sl.Job("x")
    source = sl.sources.Rate()
    source.on_error = "drop"
    job.source(source, uid="rows").sink(sl.sinks.Print(), uid="out")
    assert job.explain().remarks["rows"] == "never ends; rows that cannot be read are dropped"
