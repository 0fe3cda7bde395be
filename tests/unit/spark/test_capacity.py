"""Slots that the jobs of one application share."""

from __future__ import annotations

import gc

import pytest
from tests.unit.spark.spark_stub import make_session

from snapline.errors import ConfigurationError
from snapline.spark import capacity
from snapline.spark.spark_provider import SparkProvider


class Holder:
    pass


def test_jobs_of_one_application_share_its_slots() -> None:
    context = make_session(4).sparkContext
    first, second = Holder(), Holder()
    capacity.reserve(context, first, 3)
    with pytest.raises(ConfigurationError) as raised:
        capacity.reserve(context, second, 2)
    assert str(raised.value) == (
        "the job needs 2 slots at the same time; Spark runs at most 4 tasks at once, and other jobs of Snapline hold 3 "
        "of them. Lower the parallelism to 1, or use a larger master such as local[5]"
    )
    capacity.reserve(context, second, 1)
    with pytest.raises(ConfigurationError, match="there are none left"):
        capacity.reserve(context, Holder(), 1)
    capacity.reserve(make_session(4).sparkContext, Holder(), 4)
    capacity.reserve(context, first, 2)
    capacity.give_back(first)
    capacity.give_back(first)
    capacity.reserve(context, second, 4)


def test_slots_of_a_job_that_is_forgotten_are_free_again() -> None:
    context = make_session(4).sparkContext
    forgotten = Holder()
    capacity.reserve(context, forgotten, 4)
    del forgotten
    gc.collect()
    capacity.reserve(context, Holder(), 4)


def test_executors_of_a_cluster_may_take_a_moment_to_register(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capacity, "POLL_S", 0.001)
    capacity.reserve(make_session(iter([0, 0, 2, 4]), master="spark://x:7077").sparkContext, Holder(), 4)
    monkeypatch.setattr(capacity, "EXECUTORS_TIMEOUT_S", 0.01)
    with pytest.raises(ConfigurationError, match=r"spark\.executor\.instances"):
        capacity.reserve(make_session(2, master="spark://x:7077").sparkContext, Holder(), 4)


@pytest.mark.parametrize(
    ("master", "is_local"),
    [("local", True), ("local[*]", True), ("local-cluster[2,1,1024]", False), ("spark://h:1", False), ("yarn", False)],
)
def test_local_mode_is_recognised(master: str, is_local: bool) -> None:
    session = make_session(master=master)
    assert capacity.is_local(session.sparkContext) is is_local
    assert SparkProvider(session).driver_host == ("127.0.0.1" if is_local else "driver.example")
