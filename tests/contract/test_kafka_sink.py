"""The Kafka sink passes the suite of committing sinks, against a real broker and a reader of what is committed."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
from tests.integration.kafka.kafka_sink_kit import numbers

import snapline as sl
from snapline.devtools.servers.kafka_server import KafkaServer
from snapline.testing import SinkContract

pytestmark = pytest.mark.slow


class TestKafkaSink(SinkContract):
    @pytest.fixture(autouse=True)
    def _broker(self, kafka: KafkaServer, topic: str) -> None:
        self._kafka, self._topic = kafka, topic
        kafka.create_topic(topic, 3)

    def make_sink(self, directory: Path) -> sl.Sink:
        # The suite uses the same names in every test.
        self._commits = f"commits-{uuid.uuid4().hex}"
        return sl.sinks.Kafka(self._kafka.bootstrap, self._topic, commit_topic=self._commits)

    def visible_numbers(self, directory: Path) -> list[int]:
        return numbers(self._kafka, self._topic)
