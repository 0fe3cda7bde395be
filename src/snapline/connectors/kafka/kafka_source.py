"""Kafka topics as a source."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import pyarrow as pa

from snapline.config import Duration, duration_ms
from snapline.config.setting_checks import count, flag
from snapline.connectors.formats.message_format import MessageFormat
from snapline.connectors.kafka.kafka_client import KafkaConnection, KafkaSecurity
from snapline.connectors.kafka.kafka_cluster import KafkaCluster, Partition, TopicChoice
from snapline.connectors.kafka.kafka_columns import MetadataColumns
from snapline.connectors.kafka.kafka_consumer import RESERVED
from snapline.connectors.kafka.kafka_notices import Trouble
from snapline.connectors.kafka.kafka_reader import KafkaReader, ReadSettings
from snapline.connectors.kafka.kafka_start import EARLIEST, RESETS, Reset, Start, StartRule
from snapline.contracts.dead_letters import checked_on_error
from snapline.contracts.source import ReaderContext, Source, SourceReader, Split
from snapline.errors import ConfigurationError, TransientError

_SECOND_LOOK_S = 2.0
"""A topic that seems to be deleted is looked for again after this time: a broker that has just started may err."""


class Kafka(Source):
    """Reads topics of Kafka: one row for each message, exactly once, from positions in the checkpoints.

    Needs `pip install 'snapline[kafka]'`. Each partition is a split with event time of its own.

    bootstrap: address of a broker or several, "host:9092,other:9092".
    topics, pattern: a name, a list of names, or a regular expression for whole names; one of them.
    format: how values become rows: `formats.Json("user STRING, amount DOUBLE")`, `formats.Avro`, `formats.Raw()`, ...
    start: where to begin when the job starts from scratch: "earliest", "latest", "group" (the committed offsets of
        `group`; `reset` for partitions without one), a datetime or milliseconds since 1970 (the first message that is
        not older), or offsets `{("clicks", 0): 42}` (other partitions from the earliest).
    bounded: end at what is there when the job starts.
    group: a consumer group whose offsets follow completed checkpoints, for other tools to see. Readers do not join it.
    discovery: how often to look for new partitions and topics, which are read from the earliest message; None: never.
    reset: what to do if a position is gone: "fail", or go on at the "earliest" or "latest" message.
    allow_missing: topics need not exist yet, and may be deleted while the job runs.
    metadata: more columns: some of "key", "timestamp", "headers", "topic", "partition", "offset", as a list, or with
        the names of their columns: `{"timestamp": "sent_at"}`.
    isolation: "read_committed", or "read_uncommitted" to see transactions before their end and those that are aborted.
    on_error: what happens to messages that cannot be decoded: they "fail" the job, go to `stream.dead_letters`
        ("dead_letter"; `file` is "topic-partition" and `line` the offset), or are skipped ("drop").
    batch_rows: most messages in one batch.
    backlog: a subtask that is more messages behind than this has backlog; see `Checkpoints(interval_during_backlog=)`.
    config: more settings of librdkafka, such as {"fetch.message.max.bytes": 8_000_000}.
    security: `security_protocol`, `sasl_mechanism`, `username`, `password`, `ssl_ca`, `ssl_certificate`, `ssl_key`,
        `ssl_key_password`.
    """

    in_step = True

    def __init__(
        self,
        bootstrap: str,
        topics: str | Sequence[str] | None = None,
        *,
        format: MessageFormat,
        pattern: str | None = None,
        start: Start = "earliest",
        bounded: bool = False,
        group: str | None = None,
        discovery: Duration | None = "30s",
        reset: Reset = "fail",
        allow_missing: bool = False,
        metadata: Sequence[str] | Mapping[str, str] | None = None,
        isolation: str = "read_committed",
        on_error: str = "fail",
        batch_rows: int = 16_384,
        backlog: int | None = 100_000,
        config: Mapping[str, Any] | None = None,
        **security: Unpack[KafkaSecurity],
    ) -> None:
        connection = KafkaConnection("sources.Kafka", bootstrap, security, config, RESERVED)
        self._call = call = connection.call
        self._connection = connection
        self._choice = TopicChoice.of(topics, pattern, call)
        if not isinstance(format, MessageFormat):
            raise ConfigurationError(
                f"{call}: format={format!r}; give one of snapline.formats, such as formats.Json(...)"
            )
        if group is not None and (not isinstance(group, str) or not group):
            raise ConfigurationError(f"{call}: group={group!r}; give the name of a consumer group")
        if reset not in RESETS:
            raise ConfigurationError(f"{call}: reset={reset!r}; use one of {', '.join(map(repr, RESETS))}")
        if isolation not in ("read_committed", "read_uncommitted"):
            raise ConfigurationError(f"{call}: isolation={isolation!r}; use 'read_committed' or 'read_uncommitted'")
        self.on_error = checked_on_error(on_error, call)
        self._start = StartRule.of(start, group, call)
        self._is_bounded = flag(bounded, "bounded")
        self._discovery_ms = None if discovery is None or bounded else duration_ms(discovery, setting="discovery")
        if self._discovery_ms == 0:
            raise ConfigurationError(f"{call}: discovery={discovery!r}; use a positive interval, or None for never")
        self._settings = ReadSettings(
            connection=connection,
            format=format,
            columns=MetadataColumns(metadata, format.schema(), call),
            group=group,
            reset=reset,
            is_committed=isolation == "read_committed",
            allow_missing=flag(allow_missing, "allow_missing"),
            batch_rows=count(batch_rows, "batch_rows", least=1),
            backlog_rows=None if backlog is None else count(backlog, "backlog", least=1, most=None),
        )
        self._away: Trouble | None = None

    def __repr__(self) -> str:
        return f"Kafka({self._connection.bootstrap!r}, {self._choice})"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_away": None}

    @property
    def schema(self) -> pa.Schema:
        return self._settings.columns.schema

    @property
    def is_bounded(self) -> bool:
        return self._is_bounded

    @property
    def discovery_interval_ms(self) -> int | None:
        return self._discovery_ms

    def reader(self, context: ReaderContext) -> SourceReader:
        return KafkaReader(self._settings, context)

    # Splits, on the driver.

    def splits(self, parallelism: int) -> Sequence[Split]:
        """Topic, partition, first offset and end of each partition; none if `discover` finds them."""
        if self._discovery_ms is not None:
            return ()
        return self._first_splits(KafkaCluster(self._connection))[0]

    def discover(self, known: Any) -> tuple[Sequence[Split], Any]:
        """`known` is how many partitions of each topic were found so far."""
        if known is None:
            return self._first_splits(KafkaCluster(self._connection))
        if self._away is None:
            self._away = Trouble()
        try:
            found = self._choice.chosen(self._counts(known))
        except TransientError as error:
            # Those that are known are read meanwhile.
            self._away.seen(f"{error}; new partitions are looked for again in {(self._discovery_ms or 0) / 1000:g} s")
            return (), known
        self._away.over(f"{self._call}: new partitions can be looked for again")
        new = [
            [topic, number, EARLIEST, None]
            for topic, partitions in found.items()
            for number in range(known.get(topic, 0), partitions)
        ]
        return new, {**known, **found} if not self._settings.allow_missing else found

    def _first_splits(self, cluster: KafkaCluster) -> tuple[list[Split], dict[str, int]]:
        counts = cluster.topics()
        if not self._settings.allow_missing and (problem := self._choice.missing(counts, self._call)):
            raise problem
        found = self._choice.chosen(counts)
        partitions: list[Partition] = [(topic, number) for topic, total in found.items() for number in range(total)]
        is_committed = self._settings.is_committed
        starts = self._start.offsets(
            cluster,
            partitions,
            group=self._settings.group,
            reset=self._settings.reset,
            is_committed=is_committed,
            call=self._call,
        )
        if not self._is_bounded:
            return [[*partition, starts[partition], None] for partition in partitions], found
        lows, ends = cluster.earliest(partitions), cluster.ends(partitions, is_committed=is_committed)
        return [
            [*partition, starts[partition], ends[partition]]
            for partition in partitions
            if max(starts[partition], lows[partition]) < ends[partition]
        ], found

    def _counts(self, known: Mapping[str, int]) -> dict[str, int]:
        """How many partitions there are; raises `ConfigurationError` if some of those that are known are gone."""
        cluster = KafkaCluster(self._connection, is_running=True)
        counts = cluster.topics()
        if self._settings.allow_missing or not _fewer(known, counts):
            return counts
        time.sleep(_SECOND_LOOK_S)
        counts = cluster.topics()
        for topic, before in _fewer(known, counts).items():
            now = counts.get(topic, 0)
            what = f"has {now} partitions and had {before}" if now else f"with {before} partitions is gone"
            raise ConfigurationError(
                f"{self._call}: topic {topic!r} {what}: it was deleted, and perhaps made anew, while the job reads it. "
                "Start the job without it or from scratch, or with allow_missing=True"
            )
        return counts


def _fewer(known: Mapping[str, int], counts: Mapping[str, int]) -> dict[str, int]:
    return {topic: before for topic, before in known.items() if counts.get(topic, 0) < before}
