"""The offsets of a consumer group: for other tools to see how far the job is. The job itself does not need them."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from snapline.connectors.kafka.kafka_client import KafkaConnection
from snapline.connectors.kafka.kafka_cluster import Partition
from snapline.connectors.kafka.kafka_notices import Trouble

if TYPE_CHECKING:
    from confluent_kafka import Consumer

MAX_CHECKPOINTS = 1000
"""Checkpoints whose outcome is open; more hardly happen, and the oldest ones are forgotten."""


FINISH_TIMEOUT_S = 2.0
_POLL_S = 0.05


class GroupOffsets:
    """Commits the positions of a checkpoint once that has completed, and no others. Used by the task's thread only.

    A commit that fails is told in the log and not tried again: the next one makes up for it.
    """

    def __init__(self, group: str, connection: KafkaConnection) -> None:
        self._group = group
        self._connection = connection
        self._positions: OrderedDict[int, dict[Partition, int]] = OrderedDict()
        self._committed: dict[Partition, int] = {}
        self._unanswered = 0
        self._trouble = Trouble()

    def record(self, checkpoint_id: int, positions: Mapping[Partition, int]) -> None:
        """The checkpoint has these positions."""
        self._positions[checkpoint_id] = dict(positions)
        self._positions.move_to_end(checkpoint_id)
        while len(self._positions) > MAX_CHECKPOINTS:
            self._positions.popitem(last=False)

    def aborted(self, checkpoint_id: int) -> None:
        self._positions.pop(checkpoint_id, None)

    def completed(self, checkpoint_id: int, consumer: Consumer) -> None:
        """Start to commit the positions of this checkpoint, and forget all older ones."""
        from confluent_kafka import KafkaException, TopicPartition

        positions = self._positions.get(checkpoint_id, {})
        for older in [each for each in self._positions if each <= checkpoint_id]:
            del self._positions[older]
        new = {partition: at for partition, at in positions.items() if self._committed.get(partition) != at}
        if not new:
            return
        self._committed.update(new)
        try:
            consumer.commit(
                offsets=[TopicPartition(*partition, at) for partition, at in new.items()], asynchronous=True
            )
            self._unanswered += 1
        except KafkaException as error:
            self._failed(error, list(new))

    def answered(self, error: Any, partitions: list[Any]) -> None:
        """The client's answer to a commit; called inside of its other calls."""
        self._unanswered -= 1
        problem = error or next((each.error for each in partitions if each.error is not None), None)
        if problem is None:
            self._trouble.over(f"{self._connection.call}: the offsets of the group {self._group!r} are committed again")
        else:
            self._failed(problem, [(each.topic, each.partition) for each in partitions])

    def finish(self, consumer: Consumer, is_away: Callable[[], bool]) -> None:
        """Wait a little for the answers to commits: those of a job that ends would otherwise be lost."""
        deadline_s = time.monotonic() + FINISH_TIMEOUT_S
        while self._unanswered > 0 and not is_away() and time.monotonic() < deadline_s:
            consumer.poll(_POLL_S)

    def _failed(self, problem: object, partitions: list[Partition]) -> None:
        for partition in partitions:
            self._committed.pop(partition, None)
        self._trouble.seen(
            f"{self._connection.call}: cannot commit offsets of the group {self._group!r}: "
            f"{self._connection.shown(problem)}; the job goes on, its checkpoints have the positions. If others "
            "consume with this group, give the job a group of its own"
        )
