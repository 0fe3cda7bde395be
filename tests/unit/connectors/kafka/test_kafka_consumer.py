from __future__ import annotations

import gc
import threading
from typing import Any

from snapline.connectors.kafka.kafka_client import KafkaConnection
from snapline.connectors.kafka.kafka_consumer import CONSUMER_SETTINGS, RESERVED, drop


def test_the_client_takes_the_settings() -> None:
    consumer = KafkaConnection("Kafka", "127.0.0.1:1", {}).consumer(group_id="g", **CONSUMER_SETTINGS)
    assert set(RESERVED) - {"group.id", "isolation.level"} <= {name.replace("_", ".") for name in CONSUMER_SETTINGS}
    consumer.close()


class Slow:
    """Takes long to go, as a consumer whose broker hangs."""

    def __init__(self) -> None:
        self.may_go, self.has_gone = threading.Event(), threading.Event()

    def __del__(self) -> None:
        self.may_go.wait(30)
        self.has_gone.set()


def test_nobody_waits_for_a_consumer_that_is_dropped() -> None:
    slow = Slow()
    may_go, has_gone = slow.may_go, slow.has_gone
    last: list[Any] = [slow]
    del slow
    drop(last)
    assert not has_gone.is_set()
    may_go.set()
    assert has_gone.wait(30)
    gc.collect()
