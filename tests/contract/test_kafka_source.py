"""The Kafka source keeps the contract of sources, bounded and unbounded, with and without transactions."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import Producer

import snapline as sl
from snapline.devtools.servers.kafka_server import KafkaServer
from snapline.testing import SourceContract

ROWS = 300
PARTITIONS = 3

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def written(kafka: KafkaServer) -> str:
    """A topic with all rows, of which each transaction of ten has its end and an aborted one behind it."""
    topic = f"topic-{uuid.uuid4().hex}"
    kafka.create_topic(topic, PARTITIONS)
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": topic, "log_level": 0})
    producer.init_transactions(30)
    for start in range(0, ROWS, 50):
        for commits in (True, False):
            producer.begin_transaction()
            for number in range(start, start + 50):
                row = {"number": number if commits else -1, "text": f"row {number}"}
                producer.produce(topic, json.dumps(row).encode(), partition=number % PARTITIONS)
            producer.flush(30)
            (producer.commit_transaction if commits else producer.abort_transaction)(30)
    return topic


@pytest.mark.parametrize("bounded", [True, False])
class TestKafka(SourceContract):
    quiet_s = 0.6

    @pytest.fixture(autouse=True)
    def _server(self, kafka: KafkaServer, written: str, bounded: bool) -> None:
        self._kafka, self._topic, self._bounded = kafka, written, bounded

    def make_source(self, directory: Path) -> sl.Source:
        return sl.sources.Kafka(
            self._kafka.bootstrap,
            self._topic,
            format=sl.formats.Json("number BIGINT, text STRING"),
            bounded=self._bounded,
            batch_rows=40,
        )

    def expected_rows(self) -> pa.Table:
        numbers = list(range(ROWS))
        return pa.table({"number": numbers, "text": [f"row {number}" for number in numbers]})
