"""The messages of the benchmark, and what each system has to make of them.

Only the standard library may be imported here at the top: peers' interpreters read this module.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

PARALLELISM = 2
PARTITIONS = 4
INTERVAL_S = 1
"""Of checkpoints, and the length of a micro-batch."""
FIRST_MS = 1_767_323_045_000
USERS = 10_000
VALUES = 1000
DROPPED = 10
"""Rows whose value is a multiple of this are filtered out: one of ten."""
FACTOR = 2
"""What values are multiplied with."""

_FACTOR = 2_654_435_761
_TEXTS = (
    "paid with a card at the till",
    "returned after nine days",
    "ordered by telephone",
    "picked up in the branch at 5 pm",
)
_TIMEOUT_S = 600.0
_READ_AT_ONCE = 20_000


def user(number: int) -> str:
    return f"user-{number * _FACTOR % 4_294_967_296 % USERS}"


def text(number: int) -> str:
    return _TEXTS[number % len(_TEXTS)]


def message(number: int) -> bytes:
    """Row `number` as the input topic has it, about 100 bytes."""
    row = {"user": user(number), "value": number % VALUES, "time": FIRST_MS + number, "text": text(number)}
    return json.dumps(row, separators=(",", ":")).encode()


@dataclass(frozen=True, slots=True)
class Sums:
    """What is compared of the rows of a topic."""

    rows: int
    values: int
    times: int


def expected(rows: int) -> Sums:
    """What has to be in the output topic for this many messages."""
    kept = [number for number in range(rows) if number % VALUES % DROPPED]
    return Sums(len(kept), sum(number % VALUES * FACTOR for number in kept), sum(FIRST_MS + number for number in kept))


def fill(bootstrap: str, topic: str, rows: int) -> int:
    """Write the messages 0 to `rows` to a topic, dealt to its partitions in turn. Returns their size in bytes."""
    from confluent_kafka import Producer

    settings = {"bootstrap.servers": bootstrap, "compression.type": "lz4", "linger.ms": 50, "batch.size": 1_000_000}
    producer = Producer({**settings, "queue.buffering.max.messages": 200_000})
    size = 0
    for number in range(rows):
        value = message(number)
        size += len(value)
        while True:
            try:
                producer.produce(topic, value, partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(_TIMEOUT_S):
        raise TimeoutError(f"topic {topic!r} could not be filled within {_TIMEOUT_S:g} s")
    return size


def read_sums(bootstrap: str, topic: str) -> tuple[Sums, float]:
    """The rows that a reader of committed messages sees, and the seconds between the first and the last of them.

    The time is that of the broker: the topic has to have message.timestamp.type=LogAppendTime.
    """
    rows = values = times = 0
    first_ms, last_ms = 0, 0
    for each in committed_messages(bootstrap, topic):
        row = json.loads(each.value())
        rows, values, times = rows + 1, values + row["value"], times + row["time"]
        at_ms = each.timestamp()[1]
        first_ms, last_ms = min(first_ms or at_ms, at_ms), max(last_ms, at_ms)
    return Sums(rows, values, times), (last_ms - first_ms) / 1000


def committed_messages(bootstrap: str, topic: str) -> Iterator[Any]:
    """All messages of a topic up to now that are committed."""
    from confluent_kafka import Consumer, TopicPartition

    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "group.id": "check",
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
    }
    consumer = Consumer(settings)
    ended = 0
    due_s = time.monotonic() + _TIMEOUT_S
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
        while ended < PARTITIONS:
            # It waits until there are so many, also behind the last message.
            for each in consumer.consume(_READ_AT_ONCE, 0.1):
                error = each.error()
                if error is None:
                    yield each
                elif error.name() == "_PARTITION_EOF":
                    ended += 1
                else:
                    raise RuntimeError(f"topic {topic!r} cannot be read: {error}")
            if time.monotonic() > due_s:
                raise TimeoutError(f"topic {topic!r} could not be read within {_TIMEOUT_S:g} s")
    finally:
        consumer.close()
