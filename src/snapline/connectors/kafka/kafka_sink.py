"""Kafka as a sink: exactly once with any length of outage, or at least once with less latency."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias, Unpack, get_args

import pyarrow as pa

from snapline.config import Size, size_bytes
from snapline.connectors.formats import Json, MessageFormat
from snapline.connectors.kafka.commit_markers import CommitMarkers
from snapline.connectors.kafka.kafka_client import REQUEST_TIMEOUT_S, KafkaConnection, KafkaSecurity
from snapline.connectors.kafka.kafka_cluster import KafkaCluster
from snapline.connectors.kafka.kafka_transactions import ID_PREFIX, final_error
from snapline.connectors.kafka.kafka_writers import AtLeastOnceWriter, ExactlyOnceWriter
from snapline.connectors.kafka.message_rows import MessageParts
from snapline.contracts.sink import Sink, SinkContext, SinkWriter
from snapline.errors import ConfigurationError

Guarantee: TypeAlias = Literal["exactly_once", "at_least_once"]

COMMIT_TOPIC = "snapline-commits"

_CALL = "sinks.Kafka"
_MAX_MESSAGE_BYTES = 1_000_000
_DELIVERY_TIMEOUT_MS = 120_000
_SETTINGS: Mapping[str, Any] = {
    # As Java's clients do, so that keys of all writers meet in the same partitions.
    "partitioner": "murmur2_random",
    "compression_type": "lz4",
    "linger_ms": 20,
    "batch_size": _MAX_MESSAGE_BYTES,
    "queue_buffering_max_messages": 200_000,
    "queue_buffering_max_kbytes": 128 << 10,
    "message_timeout_ms": _DELIVERY_TIMEOUT_MS,
}
_RESERVED: Mapping[str, str] = {
    "transactional.id": "it has to name the writer, its subtask and its attempt",
    "enable.idempotence": "without it messages could be doubled and out of order",
    "group.id": "a sink has none",
    "isolation.level": "markers are read as committed",
    "on_delivery": "the sink has to know what was delivered",
    "delivery.report.only.error": "the sink has to know what was delivered",
}


class Kafka(Sink):
    """Writes rows as messages to a topic.

    With guarantee="exactly_once" the messages of a checkpoint are kept with it and sent in one transaction once it is
    complete: readers with isolation.level=read_committed see each row once, in order per key and partition, after any
    failure and however long it lasted. With "at_least_once" they are sent at once, and some again after a failure.

    format: how rows become values, `sl.formats.Json()` by default.
    key: a column of text or bytes; or, with `key_format`, one or several columns. Equal keys go to the same partition.
    value_columns: by default all that are not partition, timestamp or headers.
    partition, timestamp, headers: columns with the number of the partition, the time of the message, its headers.
    max_size: of messages in one subtask between two checkpoints; exactly once keeps them in memory until the next.
    commit_topic: compacted topic with a marker for each commit; created if it is not there.
    config: more settings of librdkafka's producer. For security see `KafkaSecurity`.
    """

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        *,
        format: MessageFormat | None = None,
        key: str | Sequence[str] | None = None,
        key_format: MessageFormat | None = None,
        value_columns: Sequence[str] | None = None,
        partition: str | None = None,
        timestamp: str | None = None,
        headers: str | None = None,
        guarantee: Guarantee = "exactly_once",
        max_size: Size = "512mb",
        commit_topic: str = COMMIT_TOPIC,
        config: Mapping[str, Any] | None = None,
        **security: Unpack[KafkaSecurity],
    ) -> None:
        self._connection = KafkaConnection(_CALL, bootstrap, security, config, _RESERVED)
        call = self._connection.call
        for setting, name in {"topic": topic, "commit_topic": commit_topic}.items():
            if not isinstance(name, str) or not name:
                raise ConfigurationError(f"{call}: {setting}={name!r}; give the name of a topic")
        if topic == commit_topic:
            raise ConfigurationError(f"{call}: topic and commit_topic are both {topic!r}; keep markers apart from rows")
        if guarantee not in get_args(Guarantee):
            raise ConfigurationError(f"{call}: guarantee={guarantee!r}; use 'exactly_once' or 'at_least_once'")
        for setting, wanted in {"format": format, "key_format": key_format}.items():
            if wanted is not None and not isinstance(wanted, MessageFormat):
                raise ConfigurationError(f"{call}: {setting}={wanted!r}; give a format, such as sl.formats.Json()")
        keys = () if key is None else (key,) if isinstance(key, str) else tuple(key)
        if key_format is None and len(keys) > 1:
            raise ConfigurationError(f"{call}: key={list(keys)} needs key_format=, such as sl.formats.Json()")
        if key_format is not None and not keys:
            raise ConfigurationError(f"{call}: key_format= needs key=, the columns of the key")
        self._max_bytes = size_bytes(max_size, setting="max_size")
        if self._max_bytes == 0:
            raise ConfigurationError(f'{call}: max_size={max_size!r}; use more, for example "512mb"')
        values = None if value_columns is None else tuple(value_columns)
        self._parts = MessageParts(call, format or Json(), values, keys, key_format, partition, timestamp, headers)
        self._topic = topic
        self._commit_topic = commit_topic
        self.two_phase = guarantee == "exactly_once"
        given = config or {}
        self._max_message_bytes = int(given.get("message.max.bytes", _MAX_MESSAGE_BYTES))
        timeout_ms = given.get("message.timeout.ms", given.get("delivery.timeout.ms", _DELIVERY_TIMEOUT_MS))
        self._patience_s = int(timeout_ms) / 1000
        self._settings = {name: value for name, value in _SETTINGS.items() if name.replace("_", ".") not in given}
        if self.two_phase:
            self._settings["transaction_timeout_ms"] = _DELIVERY_TIMEOUT_MS
            limit_ms = int(given.get("transaction.timeout.ms", _DELIVERY_TIMEOUT_MS))
            if "message_timeout_ms" in self._settings:
                self._settings["message_timeout_ms"] = min(limit_ms, _DELIVERY_TIMEOUT_MS)

    def __repr__(self) -> str:
        return f"Kafka({self._connection.bootstrap!r}, {self._topic!r})"

    def check(self, schema: pa.Schema) -> None:
        self._parts.check(schema)

    def check_access(self) -> None:
        topics = KafkaCluster(self._connection).topics()
        if not topics.get(self._topic):
            alike = difflib.get_close_matches(self._topic, topics, 3)
            hint = f" (did you mean {', '.join(map(repr, alike))}?)" if alike else ""
            raise ConfigurationError(
                f"{self._connection.call}: there is no topic {self._topic!r}{hint}; create it, correct the name, or "
                "check that this user may describe it"
            )
        if self.two_phase:
            CommitMarkers(self._connection, self._commit_topic).ensure()
            self._check_transactions()

    def _check_transactions(self) -> None:
        """Raise the error for a broker that has no transactions, or refuses them to this user."""
        from confluent_kafka import KafkaException

        producer = self._connection.producer(transactional_id=f"{ID_PREFIX}check/{self._topic}", **self._settings)
        try:
            # Without a connection the client looks for the coordinator only every half second.
            producer.list_topics(self._topic, REQUEST_TIMEOUT_S)
            producer.init_transactions(REQUEST_TIMEOUT_S)
        except KafkaException as error:
            name = getattr(error.args[0], "name", str)()
            if name in ("_FENCED", "PRODUCER_FENCED", "_CONFLICT"):
                return  # another process checks at the same time
            problem = final_error(self._connection, error, is_running=False)
            if name == "TRANSACTIONAL_ID_AUTHORIZATION_FAILED":
                raise ConfigurationError(
                    f"{self._connection.call}: this user may not write transactions; allow WRITE and DESCRIBE for "
                    f"transactional ids with the prefix {ID_PREFIX!r}, or use guarantee='at_least_once'"
                ) from None
            raise (problem or self._connection.error(error, "begin transactions")) from None

    def committed_until(self, lineage: str, uid: str) -> int | None:
        if not self.two_phase:
            return None
        return CommitMarkers(self._connection, self._commit_topic).newest_checkpoint(lineage, uid)

    def writer(self, context: SinkContext) -> SinkWriter:
        if not self.two_phase:
            return AtLeastOnceWriter(
                self._connection,
                self._parts,
                topic=self._topic,
                settings=self._settings,
                max_message_bytes=self._max_message_bytes,
                patience_s=self._patience_s,
            )
        return ExactlyOnceWriter(
            self._connection,
            self._parts,
            context,
            topic=self._topic,
            commit_topic=self._commit_topic,
            settings=self._settings,
            max_bytes=self._max_bytes,
            max_message_bytes=self._max_message_bytes,
        )
