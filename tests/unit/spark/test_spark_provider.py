"""Spark settings and sessions on which no job can run."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.spark.spark_stub import make_session

from snapline.config import Encryption, Execution
from snapline.errors import ConfigurationError
from snapline.runtime.slot.slot_provider import SlotOrder
from snapline.runtime.wire.credentials import Credentials
from snapline.spark import spark_provider
from snapline.spark.spark_provider import SparkProvider


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
    monkeypatch.setattr(spark_provider, "check_python", lambda context, execution: None)
    SparkProvider(session, Execution(allow_plaintext=True)).check(1)
    SparkProvider(session, Execution(encryption="tls")).check(1)


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


def test_a_jvm_that_has_ended_is_the_end_of_all_orders() -> None:
    session = make_session()
    provider = SparkProvider(session)
    assert provider.why_gone() is None
    session.scala.error = ConnectionRefusedError(111, "Connection refused")
    calls: list[tuple[str, bool]] = []
    provider.start(
        SlotOrder("id", "name", 1, 1, "host", 1, Credentials(b"", Encryption.MAC), b"", 1000, 5000, None),
        lambda *call: calls.append(call),
    )
    ((message, is_fatal),) = calls
    assert is_fatal
    assert message == provider.why_gone()
    assert "Spark's JVM on the driver has ended" in message


def test_a_connect_session_is_refused() -> None:
    remote = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(ConfigurationError, match="classic mode"):
        SparkProvider(remote)
