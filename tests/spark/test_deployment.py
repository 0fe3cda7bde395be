"""Slots as tasks of a real Spark."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import snapline as sl
from snapline.errors import ConfigurationError
from snapline.graph.planner import make_spec
from snapline.runtime.wire import control_messages as m
from snapline.spark.spark_provider import SparkProvider
from snapline.types import JobStatus

pytestmark = pytest.mark.slow

Failures = list[tuple[str, bool]]


def make_job(out: Path, *, rows: int | None = 4000, parallelism: int = 2, rate: int = 4000, **settings: Any) -> sl.Job:
    job = sl.Job("clicks", parallelism=parallelism, **settings)
    stream = job.source(sl.sources.Rate(rows_per_second=rate, rows=rows), uid="source")
    stream.key_by("user").aggregate(n=sl.count(), uid="count").sink(sl.sinks.Files(out), uid="out")
    return job


@pytest.fixture(scope="module")
def shipment(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return make_spec(make_job(tmp_path_factory.mktemp("out"))).shipment


@pytest.fixture
def provider(spark: SparkSession) -> Iterator[SparkProvider]:
    provider = SparkProvider(spark)
    yield provider
    provider.close()


def children(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += [int(child) for child in (task / "children").read_text(encoding="utf-8").split()]
    return found


def threads(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


def open_files(pid: int) -> int:
    """How many different ones are open; PySpark has its own socket several times now and then."""
    found = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            found.add(os.readlink(link))
    return len(found)


def test_drained_slots_go_back_to_spark_clean_and_warm(
    provider: SparkProvider, scripted_driver: Any, shipment: bytes, wait_until: Any, alive: Callable[[int], bool]
) -> None:
    failures: Failures = []
    seen: set[int] = set()
    left: set[tuple[int, int]] = set()
    for generation in (1, 2, 3):
        provider.check(2)
        order = scripted_driver.order(2, shipment, generation=generation)
        provider.start(order, lambda *failure: failures.append(failure))
        wait_until(lambda: len(scripted_driver.hellos) == 2)
        assert {hello.generation for hello in scripted_driver.hellos.values()} == {generation}
        assert {hello.python for hello in scripted_driver.hellos.values()} == {sys.executable}
        assert {hello.host for hello in scripted_driver.hellos.values()} == {"127.0.0.1"}
        scripted_driver.send_all(m.StartProcess(1))
        wait_until(lambda: len(scripted_driver.workers) == 2)
        workers = {hello.pid for hello in scripted_driver.workers.values()}
        slots = {hello.pid for hello in scripted_driver.hellos.values()}
        assert {child for pid in slots for child in children(pid)} == workers
        scripted_driver.send_all(m.Drain())
        provider.release(60)
        assert not any(map(alive, workers))
        assert [children(pid) for pid in slots] == [[], []]
        seen |= slots
        left |= {(threads(pid), open_files(pid)) for pid in slots}
        scripted_driver.forget()
    assert failures == []
    assert len(seen) <= 4, "Spark's workers are used again"
    assert len(left) == 1, f"something has grown in Spark's workers: {left}"
    assert {count for count, _ in left} == {1}


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM])
def test_the_operator_process_dies_with_sparks_python_worker(
    provider: SparkProvider,
    scripted_driver: Any,
    shipment: bytes,
    wait_until: Any,
    alive: Callable[[int], bool],
    sent: signal.Signals,
) -> None:
    failures: Failures = []
    provider.check(2)
    provider.start(scripted_driver.order(2, shipment), lambda *failure: failures.append(failure))
    wait_until(lambda: len(scripted_driver.hellos) == 2)
    scripted_driver.send_all(m.StartProcess(1))
    wait_until(lambda: len(scripted_driver.workers) == 2)
    os.kill(scripted_driver.hellos[0].pid, sent)
    wait_until(lambda: not alive(scripted_driver.workers[0].pid))
    wait_until(lambda: failures)
    ((message, is_fatal),) = failures
    assert not is_fatal
    assert "Python worker exited unexpectedly" in message
    assert "scala:" not in message
    scripted_driver.send_all(m.Drain())
    provider.release(60)
    assert not alive(scripted_driver.workers[1].pid)
    assert len(failures) == 1


def test_slots_that_do_not_return_are_ended_by_force(
    provider: SparkProvider, scripted_driver: Any, shipment: bytes, wait_until: Any, alive: Callable[[int], bool]
) -> None:
    failures: Failures = []
    provider.check(2)
    provider.start(scripted_driver.order(2, shipment), lambda *failure: failures.append(failure))
    wait_until(lambda: len(scripted_driver.hellos) == 2)
    scripted_driver.send_all(m.StartProcess(1))
    wait_until(lambda: len(scripted_driver.workers) == 2)
    provider.release(0.1)
    assert failures == []
    pids = [hello.pid for hello in (*scripted_driver.hellos.values(), *scripted_driver.workers.values())]
    wait_until(lambda: not any(map(alive, pids)))


def test_a_missing_package_is_fatal_and_the_message_says_what_to_set(
    spark: SparkSession,
    provider: SparkProvider,
    scripted_driver: Any,
    shipment: bytes,
    wait_until: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bare = tmp_path / "python-without-packages"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n', encoding="utf-8")
    bare.chmod(0o755)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(bare))
    monkeypatch.setenv("PYSPARK_PYTHON", str(bare))
    failures: Failures = []
    provider.start(scripted_driver.order(1, shipment), lambda *failure: failures.append(failure))
    wait_until(lambda: failures)
    ((message, is_fatal),) = failures
    assert is_fatal
    assert "No module named 'snapline'" in message
    assert "PYSPARK_PYTHON" in message


def test_a_wrong_interpreter_is_refused_before_anything_starts(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(tmp_path / "no-such-python"))
    monkeypatch.setenv("PYSPARK_PYTHON", str(tmp_path / "no-such-python"))
    storage = tmp_path / "checkpoints"
    with pytest.raises(ConfigurationError, match="PYSPARK_PYTHON"):
        make_job(tmp_path / "out", checkpoints=sl.Checkpoints(interval="1s", storage=storage)).start(spark)
    assert not storage.exists()


def test_more_slots_than_there_are_is_refused_before_anything_starts(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="needs 5 slots at the same time; Spark runs at most 4 tasks"):
        make_job(tmp_path, parallelism=5).start(spark)


def test_two_jobs_and_a_query_run_side_by_side(spark: SparkSession, tmp_path: Path) -> None:
    first = make_job(tmp_path / "a", rows=None, parallelism=2).start(spark)
    try:
        with pytest.raises(ConfigurationError, match="other jobs of Snapline hold 2"):
            make_job(tmp_path / "b", parallelism=3).start(spark)
        second = make_job(tmp_path / "c", parallelism=1).start(spark)
        assert spark.range(1000).count() == 1000
        assert second.wait("120s") is JobStatus.FINISHED
        assert first.status() in (JobStatus.INITIALIZING, JobStatus.RUNNING)
    finally:
        first.cancel("120s")
    assert first.status() is JobStatus.CANCELED
    third = make_job(tmp_path / "d", parallelism=4).start(spark)
    assert third.wait("120s") is JobStatus.FINISHED


def test_settings_of_the_session_reach_the_job(spark: SparkSession, tmp_path: Path) -> None:
    spark.conf.set("spark.snapline.parallelism", "5")
    try:
        with pytest.raises(ConfigurationError, match="needs 5 slots"):
            make_job(tmp_path).start(spark)
    finally:
        spark.conf.unset("spark.snapline.parallelism")
