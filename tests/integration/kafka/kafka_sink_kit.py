"""What the tests of the Kafka sink share: writers as tasks drive them, and a reader of what is committed."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa
from confluent_kafka import OFFSET_BEGINNING, Consumer, IsolationLevel, Message, TopicPartition
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

import snapline as sl
from snapline.contracts.sink import CommitResult, Committable, Permit, RetryWith, SinkContext
from snapline.devtools.servers.kafka_server import KafkaServer

DEADLINE_S = 45.0
POLL_S = 0.05


def read_committed(server: KafkaServer, topic: str, *, ended: bool = True) -> list[Message]:
    """All messages that readers with isolation.level=read_committed see.

    If `ended`, all transactions have to be over; waits for the brokers to write that down.
    """
    admin = server.admin()
    partitions = [TopicPartition(topic, number) for number in admin.list_topics(topic, 10).topics[topic].partitions]
    deadline_s = time.monotonic() + DEADLINE_S
    while True:
        committed, all_of_it = (
            {
                place.partition: answer.result(10).offset
                for place, answer in admin.list_offsets(
                    {each: OffsetSpec.latest() for each in partitions},  # type: ignore[no-untyped-call]
                    isolation_level=level,
                ).items()
            }
            for level in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
        )
        if committed == all_of_it or not ended:
            return _read(server, topic, {number: end for number, end in committed.items() if end})
        assert time.monotonic() < deadline_s, f"a transaction is open in {topic}: {committed}, {all_of_it}"
        time.sleep(POLL_S)


def _read(server: KafkaServer, topic: str, ends: dict[int, int]) -> list[Message]:
    consumer = Consumer(
        {
            "bootstrap.servers": server.bootstrap,
            "group.id": "test",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 10,
            "log_level": 0,
        }
    )
    found = []
    deadline_s = time.monotonic() + DEADLINE_S
    try:
        consumer.list_topics(topic, 10)
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in ends])
        while ends:
            assert time.monotonic() < deadline_s, f"{topic} could not be read to {ends}"
            for message in consumer.consume(10_000, POLL_S):
                if message.error() is None:
                    found.append(message)
                elif (message.offset() or 0) >= ends.get(message.partition() or 0, 0):
                    ends.pop(message.partition() or 0, None)
    finally:
        consumer.close()
    return found


def numbers(server: KafkaServer, topic: str, *, ended: bool = True) -> list[int]:
    """The column `x` of all committed rows, in the order of a topic with one partition."""
    return [json.loads(message.value() or b"")["x"] for message in read_committed(server, topic, ended=ended)]


class Task:
    """One subtask of one attempt with its writer; what is prepared travels as in a checkpoint."""

    def __init__(
        self, sink: sl.Sink, lineage: str, *, subtask: int = 0, attempt: int = 1, parallelism: int = 2, uid: str = "out"
    ) -> None:
        self.writer = sink.writer(SinkContext("job", uid, subtask, parallelism, attempt, lineage))
        self.attempt = attempt
        self._prefix = f"{lineage}/{uid}/{subtask}/{attempt}"

    def write(self, *values: int) -> None:
        self.writer.write(pa.record_batch({"x": pa.array(values, pa.int64())}))

    def prepare(self, checkpoint_id: int) -> list[Committable]:
        payloads: list[Any] = msgspec.msgpack.decode(msgspec.msgpack.encode(list(self.writer.prepare(checkpoint_id))))
        return [
            Committable(f"{self._prefix}/{checkpoint_id}/{number}", checkpoint_id, payload)
            for number, payload in enumerate(payloads)
        ]

    def prepared(self, checkpoint_id: int, *values: int) -> list[Committable]:
        self.write(*values)
        return self.prepare(checkpoint_id)

    def commit(self, committables: Sequence[Committable]) -> list[CommitResult | RetryWith]:
        return [self.writer.commit(each, Permit(self.attempt, each.checkpoint_id)) for each in committables]

    def commit_until_done(self, committables: Sequence[Committable]) -> list[CommitResult | RetryWith]:
        """As the engine does: what is to be tried later is tried again."""
        deadline_s = time.monotonic() + DEADLINE_S
        results: list[CommitResult | RetryWith] = []
        for each in committables:
            while (result := self.commit([each])[0]) is CommitResult.RETRY_LATER:
                assert time.monotonic() < deadline_s, f"{each.name} could not be committed"
            results.append(result)
        return results

    def close(self) -> None:
        self.writer.close()
