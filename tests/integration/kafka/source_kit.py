"""For tests of the Kafka source: writes messages, and reads with readers as tasks do."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

import snapline as sl
from snapline.contracts.source import ReaderContext, SourceReader, SplitRows, Wait
from snapline.devtools.servers.kafka_server import KafkaServer

DEADLINE_S = 60.0

NUMBERS = sl.formats.Json("x BIGINT")


def eventually(holds: Callable[[], object], timeout_s: float = DEADLINE_S) -> None:
    deadline_s = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline_s, "it never came true"
        time.sleep(0.02)


def producer(server: KafkaServer, **config: Any) -> Producer:
    names = {name.replace("_", "."): value for name, value in config.items()}
    return Producer({"bootstrap.servers": server.bootstrap, "log_level": 0, "linger.ms": 5, **names})


def put(
    server: KafkaServer,
    topic: str,
    values: Iterable[int | bytes | Mapping[str, Any]],
    partition: int = 0,
    by: Producer | None = None,
    login: Mapping[str, Any] | None = None,
    **options: Any,
) -> None:
    """Messages {"x": value} or as they are, all delivered on return unless the producer is given as `by`."""
    client = by or producer(server, **(login or {}))
    for value in values:
        row = {"x": value} if isinstance(value, int) else value
        data = row if isinstance(row, bytes) else json.dumps(row).encode()
        client.produce(topic, data, partition=partition, **options)
        client.poll(0)
    if by is None:
        assert client.flush(DEADLINE_S) == 0


def committed(server: KafkaServer, group: str, topic: str, partitions: int = 1) -> list[int]:
    """The offsets of a group; -1001 where it has none."""
    consumer = Consumer({"bootstrap.servers": server.bootstrap, "group.id": group, "log_level": 0})
    found = consumer.committed([TopicPartition(topic, number) for number in range(partitions)], timeout=DEADLINE_S)
    consumer.close()
    return [each.offset for each in found]


class Subtask:
    """One reader with all splits of a source."""

    def __init__(self, source: sl.Source, positions: Iterable[tuple[Any, Any]] | None = None, **context: Any) -> None:
        self.reader: SourceReader = source.reader(ReaderContext("job", "kafka", 0, 1, **context))
        if positions is None:
            found = list(source.splits(1)) or list(source.discover(None)[0])
            positions = [(split, None) for split in found]
        for split, position in positions:
            self.reader.add_split(split, position)
        self.rows: list[dict[str, Any]] = []
        self.ended: list[Any] = []

    def once(self) -> bool:
        """Whether it is at its end."""
        given = self.reader.read()
        if isinstance(given, Wait):
            time.sleep(given.seconds)
        elif isinstance(given, SplitRows):
            assert sum(rows for _, rows in given.runs) == given.batch.num_rows
            self.rows += given.batch.to_pylist()
            self.ended += given.ended
        return given is None

    def until(self, holds: Callable[[], object]) -> Subtask:
        deadline_s = time.monotonic() + DEADLINE_S
        while not holds():
            assert time.monotonic() < deadline_s, f"it never came true; there are {len(self.rows)} rows"
            self.once()
        return self

    def to_rows(self, count: int) -> list[int]:
        self.until(lambda: len(self.rows) >= count)
        return self.numbers

    def to_end(self) -> list[int]:
        deadline_s = time.monotonic() + DEADLINE_S
        while not self.once():
            assert time.monotonic() < deadline_s, "it never ended"
        return self.numbers

    @property
    def numbers(self) -> list[int]:
        return [row["x"] for row in self.rows]

    def __enter__(self) -> Subtask:
        return self

    def __exit__(self, *_: object) -> None:
        self.reader.close()
