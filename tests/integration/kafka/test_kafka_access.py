"""Kafka with passwords: right ones, wrong ones, and one that is changed while a job reads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from tests.integration.kafka.source_kit import NUMBERS, eventually, put
from tests.servers_kit import or_skip

import snapline as sl
from snapline.devtools.servers.kafka_server import KafkaServer
from snapline.errors import ConfigurationError
from snapline.testing.clusters import ThreadCluster
from snapline.types import JobStatus

pytestmark = pytest.mark.slow

_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


class GuardedKafka(KafkaServer):
    """A broker that wants the name admin and a password."""

    def __init__(self, directory: Path, password: str) -> None:
        super().__init__(directory)
        self.set_password(password)

    def set_password(self, password: str) -> None:
        """From the next start on."""
        self.password = password
        login = f'{_LOGIN} username="admin" password="{password}" user_admin="{password}";'
        self._properties = {
            "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "listener.name.plaintext.plain.sasl.jaas.config": login,
        }

    @property
    def login(self) -> dict[str, Any]:
        return {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "admin",
            "sasl.password": self.password,
        }

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0, **self.login})


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[GuardedKafka]:
    with or_skip(GuardedKafka(tmp_path / "kafka", "first-password")) as server:
        yield server


def test_passwords(guarded: GuardedKafka, topic: str, tmp_path: Path) -> None:
    guarded.create_topic(topic)
    put(guarded, topic, range(10), login=guarded.login)
    password = tmp_path / "password"

    def source(**options: Any) -> sl.Source:
        options = {"security_protocol": "SASL_PLAINTEXT", "username": "admin", **options}
        return sl.sources.Kafka(guarded.bootstrap, topic, format=NUMBERS, discovery="200ms", **options)

    with pytest.raises(ConfigurationError, match="check username, password, sasl_mechanism") as caught:
        source(password="wrong-password").discover(None)
    assert "wrong-password" not in str(caught.value)

    # A password that is changed: what runs goes on with the new one.
    password.write_text("first-password\n")
    sink = sl.sinks.Collect(tmp_path / "out")
    job = sl.Job(
        "guarded",
        checkpoints=sl.Checkpoints(interval="50ms", storage=str(tmp_path / "chk")),
        restart=sl.FixedDelay(attempts=100, delay="100ms"),
    )
    job.source(source(password=sl.Secret.file(password)), uid="kafka").sink(sink, uid="out")
    handle = job.start(ThreadCluster())
    eventually(lambda: sink.table().num_rows == 10)
    guarded.kill()
    guarded.set_password("second-password")
    guarded.start()
    eventually(lambda: handle.attempt > 1)
    assert "check username, password" in " ".join(text for _, text in handle.events())
    password.write_text("second-password\n")
    put(guarded, topic, range(10, 20), login=guarded.login)
    eventually(lambda: sink.table().num_rows == 20)
    assert sorted(sink.table().column("x").to_pylist()) == list(range(20))
    assert handle.status() is JobStatus.RUNNING
    handle.cancel()
    handle.wait("30s")
    assert "first-password" not in handle.log + " ".join(text for _, text in handle.events())
