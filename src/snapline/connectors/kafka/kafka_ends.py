"""Where partitions ended when somebody asked, to tell when everything up to there is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from snapline.connectors.kafka.kafka_cluster import Partition

if TYPE_CHECKING:
    from confluent_kafka import Consumer

_TIMEOUT_S = 1.0


def end_of(consumer: Consumer, partition: Partition, is_away: Callable[[object], None]) -> int | None:
    """The offset behind the last message that this consumer may read; None, and `is_away` is told, without a broker."""
    from confluent_kafka import KafkaException, TopicPartition

    try:
        ends = consumer.get_watermark_offsets(TopicPartition(*partition), timeout=_TIMEOUT_S)
    except KafkaException as error:
        is_away(error)
        return None
    return None if ends is None else int(ends[1])


class MarkedEnds:
    """Partitions of a reader that are not yet read to the end they had.

    `end_of` asks a broker for the end of a partition, and returns None if there is no answer now.
    """

    def __init__(self, end_of: Callable[[Partition], int | None]) -> None:
        self._end_of = end_of
        self._ends: dict[Partition, int | None] = {}

    def mark(self, partitions: Iterable[Partition]) -> None:
        """From now on these have to be read to their ends; brokers are asked when it matters."""
        self._ends = dict.fromkeys(partitions)

    def are_read(self, next_of: Callable[[Partition], int | None]) -> bool:
        """`next_of` is the position in a partition, None if it is not read any more."""
        for partition in list(self._ends):
            position = next_of(partition)
            if position is not None:
                end = self._ends[partition]
                if end is None:
                    end = self._ends[partition] = self._end_of(partition)
                if end is None or max(position, 0) < end:
                    return False
            del self._ends[partition]
        return True
