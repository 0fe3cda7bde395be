"""How long recovery takes: `python -m benchmarks.recovery [--json]`.

A keyed job at 20,000 rows a second with a checkpoint every 500 ms fails again and again: user code raises, an operator
process, a Python worker of Spark or an executor is killed (`kill -9`), an executor with all its processes is stopped
(SIGSTOP). Measures the time from then until the failure is detected, until all tasks run again, and until the first row
leaves a sink of the new attempt. Runs on `local[4]` and on a standalone cluster of a master and two workers on this
machine, with default settings.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from benchmarks.parts import conditions, spark_session, temporary

import snapline as sl
from snapline.contracts.sink import CommitResult, Committable, Permit, Sink, SinkContext, SinkWriter
from snapline.devtools.kit.processes import descendants, executor_above, operator_processes
from snapline.devtools.servers.standalone_cluster import StandaloneCluster
from snapline.types import JobStatus

TIMEOUT_S = 120.0
TARGETS_S = {
    "user code": 0.5,
    "operator process": 1.5,
    "python worker": 4.0,
    "executor": 15.0,
    "hung executor": None,
}
"""Targets for "all tasks run again"; for a hung executor there is only one for detection: 10 s."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.recovery", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--rounds", type=int, default=5, help="failures of each kind on local[4] (5)")
    parser.add_argument("--cluster-rounds", type=int, default=3, help="failures of each kind on the cluster (3)")
    parser.add_argument("--only", choices=list(TARGETS_S), action="append", help="only this kind; may be repeated")
    options = parser.parse_args()
    kinds = options.only or list(TARGETS_S)
    results: dict[str, Any] = {}
    local = [kind for kind in kinds if kind in ("user code", "operator process", "python worker")]
    if local:
        spark = spark_session("local[4]")
        try:
            for kind in local:
                results[kind] = measure(spark, kind, options.rounds, [os.getpid()])
        finally:
            spark.stop()
    on_cluster = [kind for kind in kinds if kind in ("executor", "hung executor")]
    if on_cluster:
        directory = Path(temporary())
        try:
            with StandaloneCluster(directory) as cluster:
                os.environ.update(cluster.environment)
                settings = {"spark.executor.memory": "1g", "spark.executor.cores": "2"}
                spark = spark_session(cluster.url, **settings)
                try:
                    for kind in on_cluster:
                        results[kind] = measure(spark, kind, options.cluster_rounds, cluster.pids)
                finally:
                    spark.stop()
        finally:
            shutil.rmtree(directory, ignore_errors=True)
    if options.json:
        print(json.dumps({"recovery": results, "conditions": conditions()}))
        return 0
    for kind, figures in results.items():
        medians = "   ".join(f"{name} {value:6.2f} s" for name, value in figures["median_s"].items())
        target = "" if TARGETS_S[kind] is None else f"   (running: target {TARGETS_S[kind]} s)"
        print(f"{kind:<17}{medians}{target}")
    return 0


def measure(spark: Any, kind: str, rounds: int, roots: Sequence[int]) -> dict[str, Any]:
    """Makes a job fail `rounds` times; returns medians and all times, in seconds since the failure."""
    directory = temporary()
    job = _job(f"recovery, {kind}", directory)
    handle = job.start(spark)
    times: dict[str, list[float]] = {"noticed": [], "running": [], "output": []}
    try:
        for number in range(rounds):
            _await(lambda: handle.status() is JobStatus.RUNNING, handle, "running")
            _await_checkpoints(handle, 2)
            attempt = handle.attempt
            hurt_s = time.time()
            woken = _hurt(kind, directory, roots)
            _await_attempt(handle, attempt + 1)
            _await(lambda: handle.status() is JobStatus.RUNNING, handle, "running again")
            _await(lambda: _first_output_s(directory, handle.attempt) is not None, handle, "output")
            events = [(at_ms / 1000, text) for at_ms, text in handle.events() if at_ms / 1000 >= hurt_s - 0.001]
            times["noticed"].append(_first(events, r"attempt \d+ failed") - hurt_s)
            times["running"].append(_first(events, rf"attempt {handle.attempt} runs") - hurt_s)
            output_s = _first_output_s(directory, handle.attempt)
            assert output_s is not None
            times["output"].append(output_s - hurt_s)
            for pid in woken:
                _signal(pid, signal.SIGCONT)
            shown = ", ".join(f"{name} {values[-1]:.2f} s" for name, values in times.items())
            print(f"{kind}, round {number + 1}: {shown}", file=sys.stderr, flush=True)
    finally:
        handle.cancel()
        shutil.rmtree(directory, ignore_errors=True)
    return {
        "median_s": {name: statistics.median(values) for name, values in times.items()},
        "times_s": times,
        "target_running_s": TARGETS_S[kind],
    }


def _job(name: str, directory: str) -> sl.Job:
    job = sl.Job(name, parallelism=2, checkpoints=sl.Checkpoints(interval="500ms", storage=f"{directory}/chk"))
    rows = sl.sources.Rate(20_000, users=10_000)
    counted = job.source(rows, uid="rows").map_batches(FailsOnDemand(directory), uid="code", schema=rows.schema)
    counted.key_by("user").aggregate(uid="count", n=sl.count()).sink(FirstRow(directory), uid="out")
    return job


class FailsOnDemand:
    """User code that raises once for each trigger file."""

    def __init__(self, directory: str) -> None:
        self._file = Path(directory) / "fail"

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self._file.exists():
            self._file.unlink(missing_ok=True)
            raise ValueError("user code fails on demand")
        return batch


class FirstRow(Sink):
    """Records when the first row of an attempt arrived."""

    def __init__(self, directory: str) -> None:
        self._directory = directory

    def writer(self, context: SinkContext) -> SinkWriter:
        return _FirstRow(Path(self._directory) / f"first-{context.attempt}-{context.subtask}")


class _FirstRow(SinkWriter):
    def __init__(self, file: Path) -> None:
        self._file = file
        self._has_written = False

    def write(self, batch: pa.RecordBatch) -> None:
        del batch
        if not self._has_written:
            self._has_written = True
            self._file.write_text(str(time.time()))

    def prepare(self, checkpoint_id: int) -> Sequence[Any]:
        del checkpoint_id
        return ()

    def commit(self, committable: Committable, permit: Permit) -> CommitResult:
        del committable, permit
        return CommitResult.COMMITTED

    def abort_newer(self, checkpoint_id: int) -> None:
        """Does nothing: this sink never prepares anything."""


def _first_output_s(directory: str, attempt: int) -> float | None:
    times = [float(path.read_text() or "inf") for path in Path(directory).glob(f"first-{attempt}-*")]
    found = [value for value in times if value != float("inf")]
    return min(found, default=None)


def _hurt(kind: str, directory: str, roots: Sequence[int]) -> list[int]:
    """Inflicts the failure; returns the processes to wake up later."""
    workers = operator_processes(*roots)
    match kind:
        case "user code":
            (Path(directory) / "fail").touch()
        case "operator process":
            os.kill(workers[0].pid, signal.SIGKILL)
        case "python worker":
            os.kill(workers[0].parent, signal.SIGKILL)
        case "executor":
            os.kill(_executor_of(workers[0].pid), signal.SIGKILL)
        case "hung executor":
            executor = _executor_of(workers[0].pid)
            pids = [executor, *(process.pid for process in descendants(executor))]
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)
            return pids
    return []


def _executor_of(pid: int) -> int:
    """Returns the JVM above a process."""
    executor = executor_above(pid)
    if executor is None:
        raise RuntimeError("there is no executor above the operator process")
    return executor


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):  # already gone, as intended
        os.kill(pid, number)


def _first(events: Sequence[tuple[float, str]], pattern: str) -> float:
    return next(at_s for at_s, text in events if re.match(pattern, text))


def _await_checkpoints(handle: sl.JobHandle, more: int) -> None:
    wanted = handle.checkpoints().counts.completed + more
    _await(lambda: handle.checkpoints().counts.completed >= wanted, handle, "checkpoints")


def _await_attempt(handle: sl.JobHandle, attempt: int) -> None:
    _await(lambda: handle.attempt >= attempt, handle, "new attempt")


def _await(condition: Callable[[], Any], handle: Any, what: str) -> None:
    deadline_s = time.monotonic() + TIMEOUT_S
    while not condition():
        if time.monotonic() > deadline_s or handle.status().is_globally_terminal:
            raise RuntimeError(f"no {what}: the job is {handle.status().value}; {handle.cause}")
        time.sleep(0.005)


if __name__ == "__main__":
    sys.exit(main())
