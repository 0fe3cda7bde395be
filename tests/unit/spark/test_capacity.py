"""Slots that jobs of one application share, and settings of Spark under which no job can run. Without a JVM."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from snapline.errors import ConfigurationError
from snapline.spark import capacity
from snapline.spark import spark_provider as provider_module
from snapline.spark.slot_task import executor_host
from snapline.spark.spark_provider import SparkProvider


class Scala:
    """As much of Scala's SparkContext as is asked for."""

    def __init__(self, slots: Iterator[int]) -> None:
        self._slots = slots
        self.is_stopped = False

    def isStopped(self) -> bool:
        return self.is_stopped

    def resourceProfileManager(self) -> Any:
        return SimpleNamespace(defaultResourceProfile=lambda: None)

    def maxNumConcurrentTasks(self, profile: None) -> int:
        return next(self._slots)


class ClientServer:
    """The gateway of a PySpark whose threads are those of the JVM."""


def forever(slots: int) -> Iterator[int]:
    while True:
        yield slots


def make_session(
    slots: int | Iterator[int] = 4, *, master: str = "local[4]", gateway: object = None, **settings: Any
) -> Any:
    scala = Scala(forever(slots) if isinstance(slots, int) else slots)
    known = {"spark.driver.host": "driver.example", **{name.replace("_", "."): text for name, text in settings.items()}}
    context = SimpleNamespace(
        master=master,
        applicationId=f"app-{id(scala)}",
        _jsc=SimpleNamespace(sc=lambda: scala),
        _gateway=gateway or ClientServer(),
        getConf=lambda: known,
        getLocalProperty=lambda name: None,
    )
    return SimpleNamespace(sparkContext=context, scala=scala)


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


def test_dynamic_allocation_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"spark\.executor\.instances"):
        SparkProvider(make_session(spark_dynamicAllocation_enabled="true")).check(1)


@pytest.mark.parametrize(
    "setting",
    [
        "spark_network_crypto_enabled",
        "spark_authenticate_enableSaslEncryption",
        "spark_ssl_enabled",
        "spark_ssl_rpc_enabled",
    ],
)
def test_encryption_is_refused_unless_plaintext_is_allowed(setting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    settings: dict[str, Any] = {setting: "TRUE"}
    session = make_session(**settings)
    with pytest.raises(ConfigurationError, match="allow_plaintext=True"):
        SparkProvider(session).check(1)
    monkeypatch.setattr(provider_module, "check_python", lambda context: None)
    SparkProvider(session, allow_plaintext=True).check(1)


def test_threads_that_are_not_pinned_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="PYSPARK_PIN_THREAD"):
        SparkProvider(make_session(gateway=object())).check(1)


def test_a_stopped_spark_is_refused() -> None:
    session = make_session()
    provider = SparkProvider(session)
    session.scala.is_stopped = True
    for attempt in (lambda: provider.check(1), lambda: SparkProvider(session)):
        with pytest.raises(ConfigurationError, match="Spark was stopped"):
            attempt()


def test_a_connect_session_is_refused() -> None:
    remote = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(ConfigurationError, match="classic mode"):
        SparkProvider(remote)


@pytest.mark.parametrize(
    ("address", "host"),
    [("10.0.0.7:4040", "10.0.0.7"), ("node-3:1", "node-3"), ("[::1]:9", "::1"), ("bare", "bare")],
)
def test_the_host_of_an_executor(address: str, host: str) -> None:
    assert executor_host(address) == host
