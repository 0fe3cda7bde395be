"""The topic with commit markers: what each writer's transactions have made visible, written inside of them.

A compacted topic that jobs share. The key of a marker is the writer whose output it tells about, as it is named in its
committables: lineage, uid, subtask and attempt. Newer markers replace older ones.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from snapline.connectors.kafka.kafka_client import REQUEST_TIMEOUT_S, KafkaConnection, error_name
from snapline.connectors.kafka.kafka_cluster import KafkaCluster
from snapline.errors import ConfigurationError, TransientError

if TYPE_CHECKING:
    from confluent_kafka import Producer

MARKER_PARTITIONS = 16
"""Part of the format: a writer's partition must never change."""

READ_TIMEOUT_S = 30.0
"""How long reading markers may take; transactions that hang in their partition hold it up until they time out."""

_POLL_S = 0.02
_OF_GROUP = ("GROUP_AUTHORIZATION_FAILED", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS")
"""The client looks for the coordinator of its group, which is not used: partitions are assigned by hand."""
_CONFIG = {
    "cleanup.policy": "compact",
    # Only closed files are compacted: short ones keep reading quick.
    "segment.ms": "600000",
    "segment.bytes": str(16 << 20),
    "min.cleanable.dirty.ratio": "0.1",
}

Place: TypeAlias = tuple[int, int]
"""The place of a committable in its writer's output: its checkpoint, and its number there."""


@dataclass(frozen=True)
class Marker:
    """What is committed of one writer's output.

    until: everything up to this place, committed by the writer itself, in order.
    others: more places, committed by those who restored a checkpoint.
    attempt: the newest attempt that has committed or announced that it will.
    """

    attempt: int = 0
    until: Place = (-1, -1)
    others: tuple[Place, ...] = ()

    def holds(self, place: Place) -> bool:
        return place <= self.until or place in self.others

    def committed(self, place: Place, attempt: int, *, in_order: bool) -> Marker:
        """The marker after this commit. `in_order` if everything of the writer before this place is committed."""
        if in_order:
            return Marker(attempt, place, tuple(other for other in self.others if other > place))
        return Marker(attempt, self.until, (*self.others, place))

    def claimed(self, attempt: int) -> Marker:
        """The marker of an attempt that is about to commit: older ones give up when they see it."""
        return replace(self, attempt=attempt)

    @property
    def newest_checkpoint(self) -> int:
        return max(self.until, *self.others)[0] if self.others else self.until[0]


def writer_and_place(name: str) -> tuple[str, Place]:
    """The writer that a committable's name tells of, and the place of the committable."""
    writer, checkpoint, number = name.rsplit("/", 2)
    return writer, (int(checkpoint), int(number))


class CommitMarkers:
    """The markers in one topic."""

    def __init__(self, connection: KafkaConnection, topic: str) -> None:
        self._connection = connection
        self.topic = topic

    def produce(self, producer: Producer, writer: str, marker: Marker) -> None:
        """Write a marker as part of the producer's transaction. Raises what the client raises."""
        producer.produce(self.topic, msgspec.json.encode(marker), writer.encode(), _partition(writer))

    def read(self, writer: str) -> Marker:
        """The marker of a writer, or an empty one. Its transactions must have ended: call `init_transactions` before.

        Raises `TransientError` if that takes too long, and what else the client's errors mean.
        """
        found = Marker()
        for key, marker in self._read_all([_partition(writer)]):
            if key == writer:
                found = marker
        return found

    def newest_checkpoint(self, lineage: str, uid: str) -> int | None:
        """The newest checkpoint of which any writer of a sink has committed something, None if there is none."""
        if not KafkaCluster(self._connection).topics().get(self.topic):
            return None
        found: dict[str, int] = {}
        for key, marker in self._read_all(list(range(MARKER_PARTITIONS))):
            if key.rsplit("/", 2)[0] == f"{lineage}/{uid}":
                found[key] = marker.newest_checkpoint
        newest = max(found.values(), default=-1)
        return newest if newest >= 0 else None

    def _read_all(self, partitions: list[int]) -> Iterator[tuple[str, Marker]]:
        from confluent_kafka import OFFSET_BEGINNING, KafkaException, TopicPartition

        deadline_s = time.monotonic() + READ_TIMEOUT_S
        ends = self._ends(partitions)
        if not ends:
            return
        consumer = self._connection.consumer(
            group_id="snapline",
            enable_auto_commit=False,
            enable_partition_eof=True,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            # The end of a partition is told without waiting for more.
            fetch_wait_max_ms=10,
        )
        try:
            # Without a connection the client looks for the leaders only every half second.
            consumer.list_topics(self.topic, REQUEST_TIMEOUT_S)
            consumer.assign([TopicPartition(self.topic, number, OFFSET_BEGINNING) for number in ends])
            while ends:
                for message in consumer.consume(10_000, _POLL_S):
                    error = message.error()
                    if error is None:
                        yield (message.key() or b"").decode(), _decoded(message.value() or b"")
                    elif error_name(error) == "_PARTITION_EOF":
                        number = message.partition() or 0
                        if (message.offset() or 0) >= ends.get(number, 0):
                            ends.pop(number, None)
                    elif error_name(error) in _OF_GROUP:
                        continue
                    elif not error.retriable():
                        raise self._connection.error(error, self._doing("read"), is_running=True)
                if ends and time.monotonic() > deadline_s:
                    raise TransientError(
                        f"{self._connection.call}: the commit markers in {self.topic!r} could not be read to their "
                        f"end within {READ_TIMEOUT_S:g} s; is there a transaction that hangs? It ends at its "
                        "transaction.timeout.ms"
                    )
        except KafkaException as error:
            self._connection.fail(error, self._doing("read"), is_running=True)
        finally:
            consumer.close()

    def _ends(self, partitions: list[int]) -> dict[int, int]:
        """The ends of partitions that are not empty, transactions that are open included."""
        cluster = KafkaCluster(self._connection, is_running=True)
        found = cluster.ends([(self.topic, number) for number in partitions], is_committed=False)
        return {number: end for (_, number), end in found.items() if end > 0}

    # The topic.

    def ensure(self) -> None:
        """Create the topic if it is not there. Raises `ConfigurationError`, which says how to do it by hand."""
        from confluent_kafka import KafkaException
        from confluent_kafka.cimpl import NewTopic

        partitions = KafkaCluster(self._connection).topics().get(self.topic)
        admin = self._connection.admin()
        if partitions:
            self._check(admin, partitions)
            return
        new = NewTopic(self.topic, num_partitions=MARKER_PARTITIONS, config=_CONFIG)
        try:
            admin.create_topics([new], operation_timeout=REQUEST_TIMEOUT_S)[self.topic].result(REQUEST_TIMEOUT_S)
        except KafkaException as error:
            if error_name(error) == "TOPIC_ALREADY_EXISTS":
                return
            if error_name(error) in ("TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED", "POLICY_VIOLATION"):
                raise self._by_hand(f"may not be created: {self._connection.shown(error)}") from None
            self._connection.fail(error, self._doing("create"))

    def _check(self, admin: Any, partitions: int) -> None:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import ConfigResource  # type: ignore[attr-defined]

        if partitions < MARKER_PARTITIONS:
            raise self._by_hand(f"has {partitions} partitions, and needs at least {MARKER_PARTITIONS}")
        resource = ConfigResource(ConfigResource.Type.TOPIC, self.topic)
        try:
            found = admin.describe_configs([resource], request_timeout=REQUEST_TIMEOUT_S)[resource]
            policy = found.result(REQUEST_TIMEOUT_S)["cleanup.policy"].value
        except KafkaException as error:
            if error_name(error) == "TOPIC_AUTHORIZATION_FAILED":
                return  # who may not look must not be stopped by that: the docs say what the topic has to be
            self._connection.fail(error, self._doing("find"))
        if policy != "compact":
            raise self._by_hand(f"has cleanup.policy={policy}, which deletes markers that are still needed")

    def _by_hand(self, problem: str) -> ConfigurationError:
        return ConfigurationError(
            f"{self._connection.call}: the topic of commit markers, {self.topic!r}, {problem}. Name another with "
            f"commit_topic=, give this user the right to CREATE it, or create it by hand: kafka-topics.sh --create "
            f"--topic {self.topic} --partitions {MARKER_PARTITIONS} --config cleanup.policy=compact, and allow READ, "
            "WRITE and DESCRIBE"
        )

    def _doing(self, verb: str) -> str:
        return f"{verb} the topic of commit markers, {self.topic!r}"


def _decoded(value: bytes) -> Marker:
    return msgspec.json.decode(value, type=Marker) if value else Marker()


def _partition(writer: str) -> int:
    return zlib.crc32(writer.encode()) % MARKER_PARTITIONS
