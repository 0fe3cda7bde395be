from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from snapline.connectors.kafka.kafka_client import KafkaConnection
from snapline.connectors.kafka.kafka_transactions import final_error
from snapline.errors import ConfigurationError, TransientError

CONNECTION = KafkaConnection("sinks.Kafka", "localhost:1", {})


@pytest.mark.parametrize(
    ("code", "kind", "advice"),
    [
        (KafkaError.MSG_SIZE_TOO_LARGE, ConfigurationError, "the topic's max.message.bytes"),
        (KafkaError.INVALID_TRANSACTION_TIMEOUT, ConfigurationError, "transaction.max.timeout.ms"),
        (KafkaError._UNSUPPORTED_FEATURE, ConfigurationError, "guarantee='at_least_once'"),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, TransientError, "with an ACL"),
        (KafkaError.SASL_AUTHENTICATION_FAILED, TransientError, "check username, password"),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, ConfigurationError, "create the topic"),
        (KafkaError._UNKNOWN_PARTITION, ConfigurationError, "add partitions to the topic"),
        (KafkaError.INVALID_RECORD, ConfigurationError, "no messages without a key"),
        (KafkaError.INVALID_TIMESTAMP, ConfigurationError, "message.timestamp.before.max.ms"),
    ],
)
def test_what_does_not_heal_says_what_to_do(code: int, kind: type[Exception], advice: str) -> None:
    error = final_error(CONNECTION, KafkaError(code))
    assert isinstance(error, kind)
    assert advice in str(error)


def test_what_heals_is_tried_again() -> None:
    for code in (KafkaError.REQUEST_TIMED_OUT, KafkaError._TRANSPORT, KafkaError.NOT_ENOUGH_REPLICAS):
        assert final_error(CONNECTION, KafkaError(code)) is None
