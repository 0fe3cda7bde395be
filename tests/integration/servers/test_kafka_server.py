"""The Kafka of the tests: it answers, keeps what was written through a kill, and can be frozen."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from tests.servers_kit import or_skip

from snapline.devtools.servers.kafka_server import KafkaServer
from snapline.errors import EngineError

DEADLINE_S = 60.0


def write(server: KafkaServer, topic: str, *values: bytes) -> None:
    errors: list[object] = []
    producer = Producer({"bootstrap.servers": server.bootstrap, "log_level": 0})
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: errors.append(error) if error else None)
    assert producer.flush(DEADLINE_S) == 0
    assert not errors


def read(server: KafkaServer, topic: str, count: int) -> list[bytes | None]:
    """The first `count` committed values."""
    consumer = Consumer(
        {
            "bootstrap.servers": server.bootstrap,
            "group.id": f"reader of {topic}",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    consumer.subscribe([topic])
    found: list[bytes | None] = []
    deadline_s = time.monotonic() + DEADLINE_S
    while len(found) < count and time.monotonic() < deadline_s:
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            found.append(message.value())
    consumer.close()
    return found


@pytest.mark.slow
def test_messages_arrive(kafka: KafkaServer, topic: str) -> None:
    kafka.create_topic(topic, 2, **{"retention.ms": 3_600_000})
    write(kafka, topic, b"a", b"b")
    assert sorted(value or b"" for value in read(kafka, topic, 2)) == [b"a", b"b"]


@pytest.mark.slow
def test_a_topic_that_exists_is_refused(kafka: KafkaServer, topic: str) -> None:
    kafka.create_topic(topic)
    with pytest.raises(EngineError, match="already exists"):
        kafka.create_topic(topic)


@pytest.mark.slow
def test_a_killed_server_comes_back_with_its_data_and_address(tmp_path: Path) -> None:
    with or_skip(KafkaServer(tmp_path, transaction__max__timeout__ms=5000)) as server:
        address = server.bootstrap
        server.create_topic("t")
        write(server, "t", b"before")
        server.kill()
        assert not server.is_running
        server.start()
        assert server.bootstrap == address
        server.freeze()
        server.thaw()
        assert read(server, "t", 1) == [b"before"]
        server.stop()
        assert not server.is_running
        server.start()
        write(server, "t", b"after")
        assert read(server, "t", 2) == [b"before", b"after"]
        assert "transaction.max.timeout.ms=5000\n" in (tmp_path / "server.properties").read_text()
