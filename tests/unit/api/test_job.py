"""Jobs: ids, defaults and where they run."""

from __future__ import annotations

import logging
import subprocess
import sys
import traceback
import types
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import snapline as sl
from snapline.errors import ConfigurationError
from snapline.storage.storage_factory import open_archive
from snapline.testing import ThreadCluster
from snapline.types import JobStatus


class Handle:
    """A job that ends as requested."""

    def __init__(self, end: JobStatus | BaseException) -> None:
        self.end = end
        self.is_cancelled = False
        self.is_suspended = False

    def wait(self, timeout: Any = None) -> JobStatus:
        if isinstance(self.end, BaseException):
            raise self.end
        return self.end

    def cancel(self, timeout: Any = None) -> None:
        self.is_cancelled = True

    def suspend(self, timeout: Any = None) -> None:
        self.is_suspended = True


class Launcher:
    def __init__(self, end: JobStatus | BaseException = JobStatus.FINISHED) -> None:
        self.handle = Handle(end)
        self.jobs: list[sl.Job] = []

    def start_job(self, job: sl.Job) -> Any:
        self.jobs.append(job)
        return self.handle


def test_a_job_with_storage_has_the_same_id_until_it_has_ended(tmp_path: Path) -> None:
    checkpoints = sl.Checkpoints(storage=tmp_path)
    job = sl.Job("My  clicks (v2)", checkpoints=checkpoints)
    assert job.id_for_start() == job.id_for_start() == "my-clicks-v2"
    archive = open_archive(checkpoints, "my-clicks-v2", "driver")
    archive.claim()
    assert job.id_for_start() == "my-clicks-v2", "it goes on"
    archive.close(1, JobStatus.CANCELED)
    assert job.id_for_start() == "my-clicks-v2-2"


def test_a_job_without_storage_has_a_new_id_at_every_start() -> None:
    job = sl.Job("Clicks")
    first, second = job.id_for_start(), job.id_for_start()
    assert first != second
    assert first.startswith("clicks-")
    assert len(first) == len("clicks-") + 8


def test_a_name_without_letters_and_a_long_one_still_make_an_id(tmp_path: Path) -> None:
    storage = sl.Checkpoints(storage=tmp_path)
    assert sl.Job("日本", checkpoints=storage).id_for_start() == "job"
    assert len(sl.Job("x" * 200, checkpoints=storage).id_for_start()) == 100


def test_an_id_of_ones_own_is_kept_and_checked() -> None:
    assert sl.Job("x", id="Mine_1").id_for_start() == "Mine_1"
    with pytest.raises(ConfigurationError, match="cannot be the id of a job"):
        sl.Job("x", id="a/b")


@pytest.mark.parametrize("name", ["", "  ", "x" * 201, "a\nb", None])
def test_a_wrong_name_is_refused(name: Any) -> None:
    with pytest.raises(ConfigurationError, match="cannot be the name of a job"):
        sl.Job(name)


def test_without_a_strategy_only_a_job_with_checkpoints_restarts() -> None:
    assert isinstance(sl.Job("x").restart, sl.NoRestart)
    assert isinstance(sl.Job("x", checkpoints=sl.Checkpoints(interval="1s")).restart, sl.ExponentialDelay)
    assert isinstance(sl.Job("x", checkpoints=sl.Checkpoints(storage="/tmp/x")).restart, sl.ExponentialDelay)
    assert sl.Job("x", restart=sl.FixedDelay(attempts=2)).restart == sl.FixedDelay(attempts=2)


def test_a_job_is_handed_to_whatever_can_start_it() -> None:
    job, launcher = sl.Job("x"), Launcher()
    handle: Any = job.start(launcher)
    assert handle is launcher.handle
    assert launcher.jobs == [job]
    assert job.run(launcher) is JobStatus.FINISHED
    assert not launcher.handle.is_cancelled


def test_an_interrupt_cancels_the_job() -> None:
    launcher = Launcher(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        sl.Job("x").run(launcher)
    assert launcher.handle.is_cancelled


def test_an_interrupt_suspends_a_job_whose_checkpoints_stay(tmp_path: Path) -> None:
    launcher = Launcher(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        sl.Job("x", checkpoints=sl.Checkpoints(storage=tmp_path)).run(launcher)
    assert launcher.handle.is_suspended
    assert not launcher.handle.is_cancelled


def test_a_failure_of_the_job_is_passed_on_without_cancelling() -> None:
    launcher = Launcher(sl.JobFailedError("broken"))
    with pytest.raises(sl.JobFailedError, match="broken"):
        sl.Job("x").run(launcher)
    assert not launcher.handle.is_cancelled


def test_a_job_that_does_not_start_shows_one_traceback(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "snapline")
    (tmp_path / "file").touch()
    job = sl.Job("x", checkpoints=sl.Checkpoints(storage=tmp_path / "file" / "checkpoints"), id="x")
    job.source(sl.sources.Rate(rows=1), uid="rows").sink(sl.sinks.Print(), uid="out")
    with pytest.raises(sl.StorageError, match=r"checkpoints cannot be kept in .*Not a directory") as caught:
        job.start(ThreadCluster())
    shown = "".join(traceback.format_exception(caught.value))
    assert shown.count("Traceback (most recent call last)") == 1
    assert "NotADirectoryError" in caplog.text, "whoever wants to know finds the rest in the log"


def test_a_spark_session_is_given_to_the_launcher_of_the_spark_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Any] = []
    module: Any = types.ModuleType("snapline.spark.launcher")
    module.start_job = lambda spark, job: started.append((spark, job))
    monkeypatch.setitem(sys.modules, "snapline.spark.launcher", module)
    session_type = type("SparkSession", (), {"__module__": "pyspark.sql.session"})
    spark, job = session_type(), sl.Job("x")
    job.start(spark)
    assert started == [(spark, job)]


def test_a_job_cannot_run_just_anywhere() -> None:
    with pytest.raises(ConfigurationError, match="give a SparkSession"):
        sl.Job("x").start("local[*]")


@pytest.mark.parametrize(
    ("watermarks", "complaint"),
    [
        (sl.Watermarks("nowhere"), "no column 'nowhere'; there are 'id', 'user'"),
        (sl.Watermarks("user"), "'user' is string; use a timestamp"),
    ],
)
def test_watermarks_need_a_column_of_time(watermarks: sl.Watermarks, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        sl.Job("x").source(sl.sources.Rate(), "rate", watermarks=watermarks)


def test_watermarks_take_timestamps_and_numbers() -> None:
    for column in ("time", "id"):
        stream = sl.Job("x").source(sl.sources.Rate(), "rate", watermarks=sl.Watermarks(column))
        assert stream.schema.field("id").type == pa.int64()


def test_everything_that_is_exported_is_there() -> None:
    assert set(sl.__all__) <= set(dir(sl))
    for name in sl.__all__:
        assert getattr(sl, name) is not None
    missing: Any = sl
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = missing.nonsense


def test_importing_the_package_loads_nothing_heavy() -> None:
    heavy = ("pyarrow", "numpy", "pyspark", "msgspec")
    code = f"import sys, snapline; snapline.Checkpoints(); print([name for name in {heavy} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert result.stdout.strip() == "[]"


def test_a_job_is_shown_in_one_line(tmp_path: Path) -> None:
    job = sl.Job("clicks")
    assert repr(job) == "<Job 'clicks': 0 operators, parallelism 1, no checkpoints>"
    job.source(sl.sources.Rate(), uid="rows")
    job.parallelism, job.checkpoints = 4, sl.Checkpoints(interval="10s", storage=tmp_path)
    assert repr(job) == f"<Job 'clicks': 1 operator, parallelism 4, checkpoints every 10 s in {tmp_path}>"
    job.checkpoints = sl.Checkpoints(storage=tmp_path)
    assert repr(job).endswith(f"checkpoints in {tmp_path}>")


def test_a_notebook_shows_the_plan_of_a_job() -> None:
    job = sl.Job("<b>clicks</b>")
    job.source(sl.sources.Rate(rows=10), uid="rows").sink(sl.sinks.Print(), uid="out")
    assert job._repr_html_() == job.explain()._repr_html_()


def test_a_notebook_shows_what_is_wrong_with_a_job() -> None:
    job = sl.Job("<b>clicks</b>")
    html = job._repr_html_()
    assert "&lt;b&gt;clicks&lt;/b&gt;" in html
    assert "the job has no source" in html


def test_a_job_is_explained_for_any_place_it_may_run_at() -> None:
    job = sl.Job("clicks")
    job.source(sl.sources.Rate(rows=10), uid="rows").sink(sl.sinks.Print(), uid="out")
    assert job.explain(ThreadCluster()) == job.explain()
