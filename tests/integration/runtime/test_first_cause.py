"""What users read when a job cannot start or fails: one cause, one line, and what to do."""

from __future__ import annotations

import errno
import logging
import os
import re
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest
from tests.integration.runtime.runtime_kit import Start

import snapline as sl
from snapline.api.job_handle import JobFailedError
from snapline.runtime.network import exchange
from snapline.testing import ProcessCluster, ThreadCluster
from snapline.types import JobStatus

pytestmark = pytest.mark.slow

RESTART = sl.FixedDelay(attempts=3, delay="10ms")


def same(batch: Any) -> Any:
    return batch


def make_job(directory: Path, function: Any = same, sink: sl.Sink | None = None, **settings: Any) -> sl.Job:
    checkpoints = sl.Checkpoints(interval="1s", storage=directory / "checkpoints")
    job = sl.Job("wrong", parallelism=2, checkpoints=checkpoints, restart=RESTART, **settings)
    stream = job.source(sl.sources.Rate(rows=1000), uid="rows").rebalance()
    stream = stream.map_batches(function, uid="function", schema=stream.schema)
    stream.sink(sink or sl.sinks.Files(directory / "out"), uid="out")
    return job


def failure(start: Start, job: sl.Job, cluster: ProcessCluster | ThreadCluster) -> JobFailedError:
    handle = start(job, cluster)
    with pytest.raises(JobFailedError) as raised:
        handle.wait("120s")
    assert handle.attempt == 1, "another try would end the same way"
    cause, _, way_on = str(raised.value).partition("\n")
    assert "start the job again under the id 'wrong'" in way_on
    assert cause == f"job 'wrong' has failed: {handle.cause}"
    return raised.value


def cause_of(start: Start, job: sl.Job, cluster: ProcessCluster | ThreadCluster) -> str:
    return str(failure(start, job, cluster)).partition("\n")[0]


@pytest.mark.parametrize("cluster", [ProcessCluster, ThreadCluster])
def test_a_module_that_only_the_driver_has(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cluster: Any
) -> None:
    module: Any = types.ModuleType("only_on_the_driver")
    exec("def same(batch):\n    return batch\n", vars(module))
    monkeypatch.setitem(sys.modules, "only_on_the_driver", module)
    job = make_job(tmp_path, module.same)
    if cluster is ThreadCluster:
        assert start(job, cluster()).wait("120s") is JobStatus.FINISHED, "threads have what the driver has"
        return
    assert re.fullmatch(
        r"job 'wrong' has failed: slot [01] on 127\.0\.0\.1: operator 'function' needs the module "
        r"'only_on_the_driver', which the executors do not have; install it where the executors run, or ship it: [^;]*",
        cause_of(start, job, cluster()),
    )


def test_ports_that_ran_out(start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_port(*arguments: Any, **options: Any) -> Any:
        raise OSError(errno.EADDRINUSE, "Address already in use")

    monkeypatch.setattr(exchange, "listen", no_port)
    assert cause_of(start, make_job(tmp_path), ThreadCluster()) == (
        "job 'wrong' has failed: slots cannot listen at 127.0.0.1: [Errno 98] Address already in use; this machine has "
        "no free port left: end what holds them, or widen the range (sysctl net.ipv4.ip_local_port_range)"
    )


def test_ports_that_are_all_in_use(start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_port(host: str, ports: str | None, setting: str, backlog: int) -> Any:
        raise sl.ConfigurationError(f"{setting}: no port of these is free on {host}")

    monkeypatch.setattr(exchange, "listen", no_port)
    cause = cause_of(start, make_job(tmp_path), ThreadCluster())
    assert cause == "job 'wrong' has failed: slot_ports: no port of these is free on 127.0.0.1"


class OnlyHere(sl.Sink):
    """A sink that one process can write to."""

    def __init__(self) -> None:
        self._pid = os.getpid()

    def check_access(self) -> None:
        if os.getpid() != self._pid:
            raise PermissionError(errno.EACCES, "Permission denied")

    def writer(self, context: sl.SinkContext) -> Any:
        raise AssertionError("no task starts")


def test_a_sink_that_executors_cannot_write_to(start: Start, tmp_path: Path) -> None:
    cause = cause_of(start, make_job(tmp_path, sink=OnlyHere()), ProcessCluster())
    assert re.fullmatch(
        r"job 'wrong' has failed: slot [01] on 127\.0\.0\.1: the sink 'out' cannot be written: PermissionError: "
        r"\[Errno 13\] Permission denied",
        cause,
    )


def test_rocksdb_that_only_the_driver_has(start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import rocksdict  # noqa: F401  # the driver has it

    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "rocksdict.py").write_text("raise ImportError('no RocksDB here')\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path / "path")
    cause = cause_of(start, make_job(tmp_path, execution=sl.Execution(state_backend="rocksdb")), ProcessCluster())
    assert re.search(
        r"has failed: slot [01] on 127\.0\.0\.1: state_backend='rocksdb' needs the package rocksdict, .*"
        r"pip install 'snapline\[rocksdb\]' \(no RocksDB here\)$",
        cause,
    )


def test_a_state_directory_that_cannot_be_written(start: Start, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    execution = sl.Execution(state_backend="rocksdb", state_directory=str(tmp_path / "file"))
    cause = cause_of(start, make_job(tmp_path, execution=execution), ProcessCluster())
    assert re.search(r"state cannot be kept in .*/file: .*; set Execution\(state_directory=", cause)


def importing(batch: Any) -> Any:
    import numby_is_not_installed  # type: ignore[import-not-found]  # noqa: F401

    return batch


def test_a_function_that_imports_what_is_not_there(start: Start, tmp_path: Path) -> None:
    job = make_job(tmp_path, importing)
    job.restart = sl.NoRestart()
    error = failure(start, job, ProcessCluster())
    assert "map_batches 'function' raised ModuleNotFoundError: No module named 'numby_is_not_installed'" in str(error)
    assert "; install it where the executors run, or ship it" in str(error)
    assert error.trace.count("Traceback (most recent call last)") == 1
    assert "in importing" in error.trace
    assert "snapline/operators" not in error.trace


def test_a_cluster_of_threads_leaves_the_root_logger_alone(start: Start, tmp_path: Path) -> None:
    before = list(logging.getLogger().handlers)
    seen: list[list[logging.Handler]] = []

    def look(batch: Any) -> Any:
        seen.append(list(logging.getLogger().handlers))
        return batch

    HANDLERS["look"] = look
    assert start(make_job(tmp_path, looking), ThreadCluster()).wait("120s") is JobStatus.FINISHED
    assert seen
    assert all(handlers == before for handlers in seen)


HANDLERS: dict[str, Any] = {}


def looking(batch: Any) -> Any:
    return sys.modules[__name__].HANDLERS["look"](batch)


PROGRAM = """
import snapline as sl
from snapline.testing import ProcessCluster, ThreadCluster

def broken(batch):
    raise KeyError("price")

for cluster in (ThreadCluster, ProcessCluster):
    job = sl.Job(cluster.__name__, restart=sl.FixedDelay(attempts=1, delay="10ms"))
    stream = job.source(sl.sources.Rate(rows=10), uid="rows")
    stream.map_batches(broken, uid="broken", schema=stream.schema).sink(sl.sinks.Print(), uid="out")
    try:
        job.run(cluster())
    except sl.JobFailedError:
        pass
"""


def test_without_any_set_up_failures_of_both_clusters_are_on_standard_error() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=240, check=True)
    for name in ("ThreadCluster", "ProcessCluster"):
        assert f"job {name}: attempt 1 failed: rows/0#1: UserCodeError: map_batches 'broken' raised" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
