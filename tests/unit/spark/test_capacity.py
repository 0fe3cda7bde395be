"""Slots that the jobs of one application share."""

from __future__ import annotations

import gc
from typing import Any

import pytest
from tests.unit.spark.spark_stub import make_session

from snapline.errors import ConfigurationError
from snapline.spark import capacity
from snapline.spark.capacity import ExecutorWait
from snapline.spark.spark_provider import SparkProvider


class Holder:
    pass


def reserve(context: Any, holder: object, slots: int) -> None:
    capacity.reserve(context, holder, slots, 60.0)


def test_jobs_of_one_application_share_its_slots() -> None:
    context = make_session(4).sparkContext
    first, second = Holder(), Holder()
    reserve(context, first, 3)
    with pytest.raises(ConfigurationError) as raised:
        reserve(context, second, 2)
    assert str(raised.value) == (
        "the job needs 2 slots at the same time; Spark runs at most 4 tasks at once, and other jobs of Snapline hold 3 "
        "of them. Lower the parallelism to 1, or use a larger master such as local[5]"
    )
    reserve(context, second, 1)
    with pytest.raises(ConfigurationError, match="there are none left"):
        reserve(context, Holder(), 1)
    reserve(make_session(4).sparkContext, Holder(), 4)
    reserve(context, first, 2)
    capacity.give_back(first)
    capacity.give_back(first)
    reserve(context, second, 4)


def test_slots_of_a_job_that_is_forgotten_are_free_again() -> None:
    context = make_session(4).sparkContext
    forgotten = Holder()
    reserve(context, forgotten, 4)
    del forgotten
    gc.collect()
    reserve(context, Holder(), 4)


def test_executors_of_a_cluster_may_take_a_moment_to_register(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capacity, "POLL_S", 0.001)
    reserve(make_session(iter([0, 0, 2, 4]), master="spark://x:7077").sparkContext, Holder(), 4)
    with pytest.raises(ConfigurationError, match=r"spark\.executor\.instances"):
        capacity.reserve(make_session(2, master="spark://x:7077").sparkContext, Holder(), 4, 0.01)
    with pytest.raises(ConfigurationError, match=r"no executors after 0 s; check that spark://x:7077 has workers"):
        capacity.reserve(make_session(0, master="spark://x:7077").sparkContext, Holder(), 4, 0.01)


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def wait_for(master: str, timeout_s: float, clock: Clock, *, is_start: bool = True) -> ExecutorWait:
    context = make_session(master=master).sparkContext
    return ExecutorWait(context, 4, timeout_s, is_start=is_start, time_s=clock)


def test_a_wait_for_executors_is_logged_while_it_lasts(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    wait = wait_for("yarn", 12, clock)
    while wait.goes_on(2):
        clock.now_s += 0.5
    assert wait.waited_s == 12
    lines = [record.getMessage() for record in caplog.records]
    assert lines == [
        f"waiting for executors for {waited} s, up to 12 s (executors_timeout): the job needs 4 slots, and Spark runs "
        "2 tasks at once on 2 executors"
        for waited in (2, 7)
    ]


@pytest.mark.parametrize(
    ("master", "is_start", "waited_s"),
    [("spark://x:7077", True, 8), ("yarn", True, 60), ("spark://x:7077", False, 60)],
)
def test_a_standalone_cluster_that_has_started_its_executors_is_not_waited_for(
    master: str, is_start: bool, waited_s: int
) -> None:
    clock = Clock()
    wait = wait_for(master, 60, clock, is_start=is_start)
    while wait.goes_on(0 if clock.now_s < 103 else 2):
        clock.now_s += 1
    assert wait.waited_s == waited_s


@pytest.mark.parametrize(
    ("master", "is_local"),
    [("local", True), ("local[*]", True), ("local-cluster[2,1,1024]", False), ("spark://h:1", False), ("yarn", False)],
)
def test_local_mode_is_recognised(master: str, is_local: bool) -> None:
    session = make_session(master=master)
    assert capacity.is_local(session.sparkContext) is is_local
    assert SparkProvider(session).driver_host == ("127.0.0.1" if is_local else "driver.example")
