"""The Spark job behind the slots, on a stub of Spark; `tests/spark` runs it for real."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError
from tests.unit.spark.spark_stub import make_session

from snapline.config import Encryption
from snapline.runtime.slot.slot_provider import SlotOrder
from snapline.runtime.wire.credentials import Credentials
from snapline.spark.barrier_job import BarrierJob

WAIT_S = 30.0


def make_order(slots: int = 2) -> SlotOrder:
    return SlotOrder("id", "name", 1, slots, "host", 1, Credentials(b"", Encryption.MAC), b"", 1000, 5000, None)


class Stage:
    """The barrier stage: `collect` runs `run`, and returns or raises what it does."""

    _jrdd = None

    def __init__(self, run: Callable[[], None]) -> None:
        self._run = run

    def barrier(self) -> Stage:
        return self

    def mapPartitions(self, function: object) -> Stage:
        assert callable(function)
        return self

    def collect(self) -> None:
        self._run()


class Reports:
    """Collects calls of `failed`."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, bool]] = []
        self._called = threading.Event()

    def __call__(self, message: str, is_fatal: bool) -> None:
        self.calls.append((message, is_fatal))
        self._called.set()

    def only(self) -> tuple[str, bool]:
        assert self._called.wait(WAIT_S)
        (call,) = self.calls
        return call


def make_context(run: Callable[[], None], slots: int = 4) -> Any:
    session = make_session(slots)
    context = session.sparkContext
    context.scala = session.scala
    context.getConf = lambda: SimpleNamespace(contains=lambda name: True)
    context.setJobGroup = context.setLocalProperty = lambda *_: None
    context.statusTracker = lambda: SimpleNamespace(getJobIdsForGroup=lambda group: [])
    context.scala.statusStore = lambda: None
    context.parallelize = lambda items, slices: Stage(run)
    return context


def fail() -> None:
    raise RuntimeError("an executor was lost")


def test_a_failed_job_is_reported() -> None:
    reports = Reports()
    BarrierJob(make_context(fail), None, WAIT_S, make_order(), reports).start()
    assert reports.only() == ("the Spark job with the slots has failed: an executor was lost", False)


def test_a_job_that_ends_unreleased_is_reported() -> None:
    reports = Reports()
    BarrierJob(make_context(lambda: None), None, WAIT_S, make_order(), reports).start()
    assert reports.only() == ("the Spark job with the slots has ended too early", False)


def test_a_stopped_spark_is_fatal() -> None:
    reports = Reports()

    def stop() -> None:
        context.scala.is_stopped = True
        fail()

    context = make_context(stop)
    BarrierJob(context, None, WAIT_S, make_order(), reports).start()
    assert reports.only() == ("the Spark job with the slots has failed: Spark was stopped", True)


@pytest.mark.parametrize("error", [ConnectionRefusedError(111, "Connection refused"), Py4JNetworkError("no answer")])
def test_a_jvm_that_has_ended_is_fatal(error: Exception) -> None:
    reports = Reports()

    def lose() -> None:
        context.scala.error = error
        raise Py4JNetworkError("Answer from Java side is empty")

    context = make_context(lose)
    BarrierJob(context, None, WAIT_S, make_order(), reports).start()
    message, is_fatal = reports.only()
    assert is_fatal
    assert "Spark's JVM on the driver has ended" in message


def test_too_few_executors_are_reported_after_a_while() -> None:
    reports = Reports()
    BarrierJob(make_context(fail, slots=1), None, 0.0, make_order(), reports).start()
    message, is_fatal = reports.only()
    assert "needs 2 slots and Spark has had room for only 1 tasks for 0 s (executors_timeout)" in message
    assert not is_fatal


def test_a_job_that_does_not_return_is_cancelled_and_nothing_is_reported() -> None:
    reports, running, cancelled = Reports(), threading.Event(), threading.Event()

    def run() -> None:
        running.set()
        assert cancelled.wait(WAIT_S)
        fail()

    context = make_context(run)
    context.cancelJobGroup = lambda group: cancelled.set()
    job = BarrierJob(context, None, WAIT_S, make_order(), reports)
    job.start()
    assert running.wait(WAIT_S)
    job.release(0)
    assert cancelled.is_set()
    assert reports.calls == []


def test_an_executor_with_a_silent_slot_is_replaced_at_once() -> None:
    reports, running, cancelled, heard = Reports(), threading.Event(), threading.Event(), [(), (1,)]

    def run() -> None:
        running.set()
        assert cancelled.wait(WAIT_S)
        fail()

    context = make_context(run)
    context.cancelJobGroup = lambda group: cancelled.set()
    job = BarrierJob(context, None, WAIT_S, make_order(), reports)
    replaced: list[str] = []
    job._executors_with_tasks = lambda slots: {"7"} if 1 in slots and not replaced else set()  # type: ignore[method-assign]
    job._replace = lambda executor: replaced.append(executor)  # type: ignore[method-assign]
    job.start()
    assert running.wait(WAIT_S)
    job.release(WAIT_S, lambda: heard.pop(0) if len(heard) > 1 else heard[0])
    assert replaced == ["7"]
    assert reports.calls == []


def test_why_spark_failed_is_reported_also_while_slots_are_released() -> None:
    reports, running = Reports(), threading.Event()
    context = make_context(lambda: None)

    def run() -> None:
        running.set()
        assert job._released.wait(WAIT_S)
        fail()

    context.parallelize = lambda items, slices: Stage(run)
    job = BarrierJob(context, None, WAIT_S, make_order(), reports)
    job.start()
    assert running.wait(WAIT_S)
    job.release(WAIT_S)
    assert reports.only() == ("the Spark job with the slots has failed: an executor was lost", False)


def test_a_job_released_before_it_was_started_never_runs() -> None:
    reports = Reports()
    job = BarrierJob(make_context(fail), None, WAIT_S, make_order(), reports)
    job.release(0)
    job.start()
    job.release(0)
    assert reports.calls == []
