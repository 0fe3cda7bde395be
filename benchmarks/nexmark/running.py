"""Runs a query as a job, undisturbed or with kills."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from benchmarks.nexmark.generator import EVENTS_PER_SECOND
from benchmarks.nexmark.queries import QUERIES
from benchmarks.nexmark.sources import Sources
from benchmarks.nexmark.sql_queries import SqlQueries
from benchmarks.parts import Discard

import snapline as sl
from snapline.connectors.files.file_sink import read_files
from snapline.devtools.kit.processes import operator_processes, send
from snapline.types import JobStatus

TIMEOUT_S = 600.0
CHECKPOINTS_BEFORE_CRASH = 2
INTERVAL_S = 0.25
"""Between two checkpoints of a job that will crash."""
SECONDS_PER_CRASH = 4.0
"""How long the events last per crash, so that the crash happens in the middle of them."""

_POLL_S = 0.01


class CheckError(Exception):
    """A run did not go as planned."""


@dataclass(frozen=True, slots=True)
class Crash:
    """A killed operator process: after how many checkpoints in total, and how long until all tasks ran again."""

    checkpoints: int
    recovered_s: float


@dataclass(frozen=True, slots=True)
class Run:
    """A job that finished. `seconds` counts from when it first ran to its end."""

    rows: pa.Table
    seconds: float
    checkpoints: int
    crashes: tuple[Crash, ...]


def make_job(
    query: str,
    events: int,
    parallelism: int,
    sink: sl.Sink,
    *,
    events_per_second: int = EVENTS_PER_SECOND,
    rate: float | None = None,
    checkpoints: sl.Checkpoints | None = None,
    sql: SqlQueries | None = None,
) -> sl.Job:
    """Builds the job of a query, from its SQL text if `sql` is given. `rate` limits the events per second."""
    job = sl.Job(
        f"nexmark {query}",
        parallelism=parallelism,
        checkpoints=checkpoints,
        restart=None if checkpoints is None else sl.ExponentialDelay(initial_backoff="50ms", max_backoff="1s"),
    )
    sources = Sources(job, events, events_per_second, rate)
    answers = QUERIES[query].build(sources) if sql is None else sql.stream(query, job, sources)
    answers.sink(sink, uid="answers")
    return job


def run_query(name: str, events: int, parallelism: int, spark: Any, *, sql: SqlQueries | None = None) -> float:
    """Runs a query at full speed, without checkpoints, discarding its answers; returns the seconds it takes.

    They count from when all tasks run, so that the start of processes is excluded.
    """
    handle = make_job(name, events, parallelism, Discard(), sql=sql).start(spark)
    return _seconds(handle)


def run_for_answers(
    query: str,
    events: int,
    parallelism: int,
    where: Any,
    directory: Path,
    *,
    crashes: int = 0,
    events_per_second: int = EVENTS_PER_SECOND,
    seed: int = 0,
    sql: SqlQueries | None = None,
) -> Run:
    """Runs a query with checkpoints and an exactly-once sink, and kills an operator process `crashes` times.

    The processes must be descendants of this one. Raises `CheckError` if the job ended before all crashes happened.
    """
    chance = random.Random(seed)  # noqa: S311  # repeatable
    job = make_job(
        query,
        events,
        parallelism,
        sl.sinks.Files(directory / "answers"),
        events_per_second=events_per_second,
        rate=events / (SECONDS_PER_CRASH * crashes) if crashes else None,
        checkpoints=sl.Checkpoints(interval=f"{INTERVAL_S * 1000:.0f}ms", storage=str(directory / "checkpoints")),
        sql=sql,
    )
    handle = job.start(where)
    try:
        _await(lambda: handle.status() is JobStatus.RUNNING, handle, "running")
        began_s = time.monotonic()
        suffered = []
        for number in range(crashes):
            # each in its share of the run
            wait_until_s = began_s + (number + chance.uniform(0.2, 0.8)) * SECONDS_PER_CRASH
            suffered.append(_crash(handle, chance, wait_until_s))
        handle.wait(f"{TIMEOUT_S:.0f}s")
    finally:
        if not handle.status().is_globally_terminal:
            handle.cancel()
    seconds = time.monotonic() - began_s
    rows = read_files(directory / "answers")
    return Run(rows, seconds, handle.checkpoints().counts.completed, tuple(suffered))


def _crash(handle: sl.JobHandle, chance: random.Random, not_before_s: float) -> Crash:
    """Kills an operator process (-9) once some more checkpoints are complete, and waits until the job runs again."""
    wanted = handle.checkpoints().counts.completed + CHECKPOINTS_BEFORE_CRASH
    _await(lambda: handle.checkpoints().counts.completed >= wanted, handle, f"checkpoint {wanted}, to crash after it")
    _await(lambda: time.monotonic() >= not_before_s, handle, f"a crash after checkpoint {wanted}")
    attempt, completed = handle.attempt, handle.checkpoints().counts.completed
    victims = operator_processes(os.getpid())
    if not victims:
        raise CheckError(f"there is no operator process to kill; the job is {handle.status().value}")
    hurt_s = time.monotonic()
    send(chance.choice(victims).pid)
    _await(lambda: handle.attempt > attempt and handle.status() is JobStatus.RUNNING, handle, f"attempt {attempt + 1}")
    return Crash(completed, time.monotonic() - hurt_s)


def _seconds(handle: sl.JobHandle) -> float:
    """Returns how long a job takes from when it first ran to its end."""
    while handle.status() is JobStatus.INITIALIZING:
        time.sleep(_POLL_S)
    began_s = time.monotonic()
    handle.wait()
    return time.monotonic() - began_s


def _await(condition: Callable[[], bool], handle: sl.JobHandle, what: str) -> None:
    deadline_s = time.monotonic() + TIMEOUT_S
    while not condition():
        status = handle.status()
        if status.is_globally_terminal:
            raise CheckError(f"{what}: the job is {status.value} before that: {handle.cause or 'use more events'}")
        if time.monotonic() > deadline_s:
            raise CheckError(f"{what}: not in {TIMEOUT_S:.0f} s; the job is {status.value}: {handle.cause}")
        time.sleep(_POLL_S)
