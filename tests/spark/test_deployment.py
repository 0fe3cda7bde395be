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
from snapline.graph.planning import make_spec
from snapline.runtime import messages as m
from snapline.spark.provider import SparkProvider
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
        scripted_driver.send_all(m.StartWorker(1))
        wait_until(lambda: len(scripted_driver.workers) == 2)
        workers = {hello.pid for hello in scripted_driver.workers.values()}
        slots = {hello.pid for hello in scripted_driver.hellos.values()}
        assert {child for pid in slots for child in children(pid)} == workers
        scripted_driver.send_all(m.Drain())
        provider.release(30)
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
    scripted_driver.send_all(m.StartWorker(1))
    wait_until(lambda: len(scripted_driver.workers) == 2)
    os.kill(scripted_driver.hellos[0].pid, sent)
    wait_until(lambda: not alive(scripted_driver.workers[0].pid), within_s=1)
    wait_until(lambda: failures)
    ((message, is_fatal),) = failures
    assert not is_fatal
    assert "Python worker exited unexpectedly" in message
    assert "scala:" not in message
    scripted_driver.send_all(m.Drain())
    provider.release(10)
    assert not alive(scripted_driver.workers[1].pid)
    assert len(failures) == 1


def test_slots_that_do_not_return_are_ended_by_force(
    provider: SparkProvider, scripted_driver: Any, shipment: bytes, wait_until: Any, alive: Callable[[int], bool]
) -> None:
    failures: Failures = []
    provider.check(2)
    provider.start(scripted_driver.order(2, shipment), lambda *failure: failures.append(failure))
    wait_until(lambda: len(scripted_driver.hellos) == 2)
    scripted_driver.send_all(m.StartWorker(1))
    wait_until(lambda: len(scripted_driver.workers) == 2)
    provider.release(0.1)
    assert failures == []
    pids = [hello.pid for hello in (*scripted_driver.hellos.values(), *scripted_driver.workers.values())]
    wait_until(lambda: not any(map(alive, pids)), within_s=5)


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
        assert second.wait("60s") is JobStatus.FINISHED
        assert first.status() in (JobStatus.INITIALIZING, JobStatus.RUNNING)
    finally:
        first.cancel("60s")
    assert first.status() is JobStatus.CANCELED
    third = make_job(tmp_path / "d", parallelism=4).start(spark)
    assert third.wait("60s") is JobStatus.FINISHED


def test_settings_of_the_session_reach_the_job(spark: SparkSession, tmp_path: Path) -> None:
    spark.conf.set("spark.snapline.parallelism", "5")
    try:
        with pytest.raises(ConfigurationError, match="needs 5 slots"):
            make_job(tmp_path).start(spark)
    finally:
        spark.conf.unset("spark.snapline.parallelism")


@pytest.mark.parametrize("victim", ["operator process", "Python worker"])
def test_a_job_survives_the_death_of_a_process(
    spark: SparkSession, tmp_path: Path, wait_until: Any, victim: str
) -> None:
    job = make_job(
        tmp_path / "out",
        rows=12_000,
        rate=3000,
        checkpoints=sl.Checkpoints(interval="200ms", storage=tmp_path / "checkpoints"),
        restart=sl.FixedDelay(attempts=3, delay="100ms"),
    )
    before = set(processes("snapline.runtime.worker"))
    handle = job.start(spark)
    wait_until(lambda: handle.checkpoints().counts.completed >= 2)
    pid = min(set(processes("snapline.runtime.worker")) - before)
    os.kill(pid if victim == "operator process" else parent(pid), signal.SIGKILL)
    assert handle.wait("90s") is JobStatus.FINISHED
    assert handle.attempt == 2
    wait_until(lambda: set(processes("snapline.runtime.worker")) <= before)


def processes(name: str) -> list[int]:
    """Those of this machine that descend from this process and have this on their command line."""
    found, rest = [], [os.getpid()]
    while rest:
        pid = rest.pop()
        try:
            if name in Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8"):
                found.append(pid)
            rest += children(pid)
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])


CLUSTER_JOB = """
import os, signal, sys, time
from pathlib import Path
from pyspark.sql import SparkSession
import snapline as sl

url, directory, what = sys.argv[1:]
spark = (
    SparkSession.builder.master(url).config("spark.ui.enabled", "false").config("spark.executor.memory", "512m")
    .config("spark.executor.cores", "1").config("spark.cores.max", "2").config("spark.snapline.parallelism", "2")
    .getOrCreate()
)
spark.sparkContext.setLogLevel("OFF")
executors = lambda: {
    int(p.name): p.joinpath("cmdline").read_text() for p in Path("/proc").iterdir()
    if p.name.isdigit() and "CoarseGrainedExecutorBackend" in p.joinpath("cmdline").read_text()
    and spark.sparkContext.applicationId in p.joinpath("cmdline").read_text()
}
job = sl.Job(
    "cluster", checkpoints=sl.Checkpoints(interval="200ms", storage=directory + "/checkpoints"),
    execution=sl.Execution(heartbeat_interval="200ms", heartbeat_timeout="2s"),
    restart=sl.FixedDelay(attempts=5, delay="100ms"),
)
stream = job.source(sl.sources.Rate(rows_per_second=2000, rows=10000), uid="source")
stream.key_by("user").aggregate(n=sl.count(), uid="count").sink(sl.sinks.Files(directory + "/out"), uid="out")
handle = job.start(spark)
while handle.checkpoints().counts.completed < 2:
    assert not handle.status().is_globally_terminal
    time.sleep(0.02)
def tree(pid):
    children = [int(c) for t in Path(f"/proc/{pid}/task").iterdir() for c in (t / "children").read_text().split()]
    return [pid, *(p for child in children for p in tree(child))]
begun = time.monotonic()
victim = min(executors())
stopped = tree(victim) if what == "stop" else []
if what == "kill":
    os.kill(victim, signal.SIGKILL)
for pid in stopped:
    os.kill(pid, signal.SIGSTOP)
print(handle.wait("100s").value, handle.attempt, round(time.monotonic() - begun, 1), handle.cause)
spark.stop()
for pid in stopped:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
"""


@pytest.mark.parametrize(("what", "attempts"), [("nothing", {"1"}), ("kill", {"2", "3"}), ("stop", {"2", "3"})])
def test_a_job_on_a_cluster_survives_the_loss_of_an_executor(
    standalone_cluster: Any, tmp_path: Path, what: str, attempts: set[str]
) -> None:
    output = standalone_cluster.run(CLUSTER_JOB, str(tmp_path), what)
    status, attempt, *_ = output.split()
    assert (status, attempt in attempts) == ("FINISHED", True), output
