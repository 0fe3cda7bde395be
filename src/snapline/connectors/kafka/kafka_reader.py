"""Reads partitions of Kafka in one subtask."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from snapline.connectors.formats.message_format import MessageFormat
from snapline.connectors.kafka.kafka_client import (
    KafkaConnection,
    error_name,
    is_away,
    is_missing_topic,
    is_refused,
)
from snapline.connectors.kafka.kafka_cluster import Partition
from snapline.connectors.kafka.kafka_columns import MetadataColumns
from snapline.connectors.kafka.kafka_consumer import CONSUMER_SETTINGS, drop
from snapline.connectors.kafka.kafka_ends import MarkedEnds, end_of
from snapline.connectors.kafka.kafka_group import GroupOffsets
from snapline.connectors.kafka.kafka_notices import Trouble
from snapline.connectors.kafka.kafka_rows import message_rows, runs_of
from snapline.connectors.kafka.kafka_start import Reset, gone
from snapline.contracts.schemas import empty_batch
from snapline.contracts.source import Position, ReaderContext, SourceReader, Split, SplitRows, Wait
from snapline.errors import ConfigurationError, RestoreError

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError

_logger = logging.getLogger("snapline.kafka")

_SHORT_WAIT_S = 0.002
_LONG_WAIT_S = 0.01
_BACKLOG_EVERY_S = 1.0
_FIND_EVERY_S = 5.0
_LOOKUP_TIMEOUT_S = 1.0
_MEETING_TIMEOUT_S = 0.5
_SETTLED_S = 1.0


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """What a reader has to know of its source."""

    connection: KafkaConnection
    format: MessageFormat
    columns: MetadataColumns
    group: str | None
    reset: Reset
    is_committed: bool
    allow_missing: bool
    batch_rows: int
    backlog_rows: int | None


@dataclass(slots=True)
class _Progress:
    """A split that is read. `next` is the offset of the next message, `EARLIEST` before the first."""

    split: Split
    next: int
    stop: int | None
    is_over: bool = False

    @property
    def has_ended(self) -> bool:
        return self.is_over or (self.stop is not None and self.next >= self.stop)

    def lag(self, low: int, high: int) -> int:
        """How many offsets are left to read of those that there are."""
        return max(0, (high if self.stop is None else self.stop) - max(self.next, low, 0))


class KafkaReader(SourceReader):
    """Reads its partitions with one consumer that takes no part in a group. Positions are offsets of next messages.

    librdkafka fetches in threads of its own; `read` takes what is there and never waits. While no broker answers it
    goes on by itself, from where it was.
    """

    can_pause_splits = True

    def __init__(self, settings: ReadSettings, context: ReaderContext) -> None:
        self._settings = settings
        self._context = context
        self._connection = settings.connection
        self._decoder = settings.format.decoder()
        self._group = None if settings.group is None else GroupOffsets(settings.group, settings.connection)
        self._consumer: Consumer | None = None
        self._reading: dict[Partition, _Progress] = {}
        self._topics: set[str] = set()
        self._added: list[Partition] = []
        self._paused: set[Partition] = set()
        self._ended: dict[Partition, int] = {}
        """Where partitions ended, for the group."""
        self._wait_s = _SHORT_WAIT_S
        self._away = Trouble()
        self._refused: KafkaError | None = None
        self._may_miss_topics = False
        self._lost: set[Partition] = set()
        """Partitions whose position is gone, until something is done about it."""
        self._find_due_s = 0.0
        self._has_backlog = False
        self._backlog_due_s = 0.0
        self._marked = MarkedEnds(lambda partition: end_of(self._assigned(), partition, self._is_away))

    # Splits.

    def add_split(self, split: Split, position: Position) -> None:
        match split:
            case [str(topic), int(number), int(start), int() | None as stop]:
                at = start if position is None else position
                if (topic, number) in self._reading:
                    # Its topic was deleted and made anew, which the client has not noticed yet.
                    self._assigned().incremental_unassign(_partitions({(topic, number)} - self._paused))
                    self._paused.discard((topic, number))
                    self._lost.discard((topic, number))
                self._reading[topic, number] = _Progress(split, at, stop)
                self._topics.add(topic)
                self._added.append((topic, number))
            case _:
                raise RestoreError(f"{split!r} is not a split of Kafka; was the snapshot taken with another source?")

    def positions(self, checkpoint_id: int) -> Sequence[tuple[Split, Position]]:
        if self._group is not None:
            known = {partition: each.next for partition, each in self._reading.items() if each.next >= 0}
            self._group.record(checkpoint_id, {**self._ended, **known})
        return [(each.split, None if each.next < 0 else each.next) for each in self._reading.values()]

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        if self._group is not None and (self._consumer is not None or self._reading):
            self._group.completed(checkpoint_id, self._assigned())

    def checkpoint_aborted(self, checkpoint_id: int) -> None:
        if self._group is not None:
            self._group.aborted(checkpoint_id)

    def pause_splits(self, splits: Sequence[Split]) -> None:
        wanted = {(split[0], split[1]) for split in splits} & self._reading.keys()
        consumer = self._assigned()
        # Not the client's own pause: it takes a second to resume, and drops what it has fetched as well.
        if stopped := wanted - self._paused:
            consumer.incremental_unassign(_partitions(stopped))
            self._lost -= stopped
        if resumed := (self._paused - wanted) & self._reading.keys():
            consumer.incremental_assign(_partitions(resumed, self._reading))
        self._paused = wanted

    def close(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is None:
            return
        if self._group is not None:
            self._group.finish(consumer, lambda: self._away.lasts)
        last = [consumer]
        del consumer
        drop(last)

    # Rows.

    def read(self) -> SplitRows | Wait | None:
        if not self._reading:
            self._serve()
            return None
        consumer = self._assigned()
        taken = consumer.consume(self._settings.batch_rows, 0)
        if self._refused is not None:
            self._connection.fail(self._refused, "read", is_running=True)
        errors = [message.error() for message in taken]
        if any(errors):
            messages = [message for message, error in zip(taken, errors, strict=True) if error is None]
        else:
            messages = taken
        rows, runs = self._rows(messages)
        if any(errors):
            # Behind the messages: an end of a partition is behind its last message.
            for message, error in zip(taken, errors, strict=True):
                if error is not None:
                    self._failed(message, error)
        if self._may_miss_topics:
            self._look_for_topics(consumer)
        ended = self._finished()
        if self._lost and time.monotonic() >= self._find_due_s:
            for partition in tuple(self._lost):
                self._find(partition)
        if self._away.is_due:
            self._look_for_broker(consumer)
        self._look_at_backlog(consumer)
        if rows is not None or ended:
            self._wait_s = _SHORT_WAIT_S
            return SplitRows(empty_batch(self._settings.columns.schema) if rows is None else rows, runs, ended)
        if taken:
            return Wait(0)
        wait_s, self._wait_s = self._wait_s, min(self._wait_s * 2, _LONG_WAIT_S)
        return Wait(wait_s)

    def _rows(self, messages: list[Any]) -> tuple[pa.RecordBatch | None, list[tuple[Split, int]]]:
        if not messages:
            return None, []
        if self._away.lasts:
            self._is_back()
        messages, runs = runs_of(messages, is_one_topic=len(self._topics) == 1)
        if any(not self._is_whole(partition, messages[start], messages[end - 1]) for partition, start, end in runs):
            messages, runs = self._wanted(messages, runs)
            if not messages:
                return None, []
        for partition, _, end in runs:
            self._reading[partition].next = messages[end - 1].offset() + 1
        rows, counts = message_rows(messages, runs, self._decoder, self._settings.columns, self._context.bad_row)
        return rows, [
            (self._reading[partition].split, count) for (partition, _, _), count in zip(runs, counts, strict=True)
        ]

    def _read_now(self, partition: Partition) -> _Progress | None:
        """None if messages of this partition are not wanted now."""
        return None if partition in self._paused else self._reading.get(partition)

    def _is_whole(self, partition: Partition, first: Any, last: Any) -> bool:
        """Whether all messages of a run are to be read."""
        progress = self._read_now(partition)
        if progress is None or first.offset() < progress.next:
            return False
        return progress.stop is None or last.offset() < progress.stop

    def _wanted(
        self, messages: list[Any], runs: list[tuple[Partition, int, int]]
    ) -> tuple[list[Any], list[tuple[Partition, int, int]]]:
        """Without messages behind the end of a split, or that were on their way when its position changed."""
        kept: list[Any] = []
        kept_runs: list[tuple[Partition, int, int]] = []
        for partition, start, end in runs:
            progress = self._read_now(partition)
            if progress is None:
                continue
            begin = len(kept)
            run = messages[start:end]
            kept += [
                message
                for message in run
                if message.offset() >= progress.next and (progress.stop is None or message.offset() < progress.stop)
            ]
            if progress.stop is not None and run[-1].offset() >= progress.stop:
                progress.is_over = True
            if len(kept) > begin:
                kept_runs.append((partition, begin, len(kept)))
        return kept, kept_runs

    def _finished(self) -> list[Split]:
        """The splits that are at their ends now; they are not read any more."""
        over = {partition: each for partition, each in self._reading.items() if each.has_ended}
        if not over:
            return []
        self._assigned().incremental_unassign(_partitions(over.keys() - self._paused))
        for partition, each in over.items():
            del self._reading[partition]
            self._lost.discard(partition)
            self._paused.discard(partition)
            if each.next >= 0:
                self._ended[partition] = each.next if each.stop is None else each.stop
        return [each.split for each in over.values()]

    def mark_available(self) -> None:
        self._marked.mark(self._reading)

    @property
    def has_read_available(self) -> bool:
        return self._marked.are_read(lambda each: self._reading[each].next if each in self._reading else None)

    # The consumer.

    def _assigned(self) -> Consumer:
        """The consumer, with all splits so far."""
        if self._consumer is None:
            self._consumer = self._connection.consumer(
                self._happened,
                self._group_answered,
                group_id=self._settings.group or f"snapline-{self._context.job_id}-{self._context.uid}",
                isolation_level="read_committed" if self._settings.is_committed else "read_uncommitted",
                **CONSUMER_SETTINGS,
            )
        if self._added:
            added, self._added = self._added, []
            if any(self._reading[partition].next < 0 for partition in added):
                self._meet_brokers(self._consumer)
            self._consumer.incremental_assign(_partitions(added, self._reading))
        return self._consumer

    def _meet_brokers(self, consumer: Consumer) -> None:
        """Saves half a second: the client looks for an earliest offset again only then if it knows no leader yet."""
        from confluent_kafka import KafkaException

        with contextlib.suppress(KafkaException):  # which reading would tell of too
            if len(self._topics) == 1:
                consumer.list_topics(next(iter(self._topics)), timeout=_MEETING_TIMEOUT_S)
            else:
                consumer.list_topics(timeout=_MEETING_TIMEOUT_S)

    def _serve(self) -> None:
        """Let the client answer to commits while there is nothing to read."""
        if self._consumer is not None and self._group is not None:
            self._consumer.poll(0)

    def _group_answered(self, error: Any, partitions: list[Any]) -> None:
        if self._group is not None:
            self._group.answered(error, partitions)

    # Trouble.

    def _happened(self, error: KafkaError) -> None:
        """The client tells of its connections; called inside of its other calls, so nothing may be raised."""
        if error_name(error) == "_ALL_BROKERS_DOWN":
            self._is_away(error)
        elif is_missing_topic(error):
            # Only its text says which one.
            self._may_miss_topics = True
        elif error.fatal() or (is_refused(error) and not self._is_of_no_group(error)):
            self._refused = error

    def _is_of_no_group(self, error: KafkaError) -> bool:
        """The client asks for the group that it needs a name for, even if that is not used."""
        return self._settings.group is None and error_name(error) == "GROUP_AUTHORIZATION_FAILED"

    def _failed(self, message: Any, error: KafkaError) -> None:
        """The client gives an error instead of a message."""
        partition = message.topic(), message.partition()
        progress = self._read_now(partition)
        name = error_name(error)
        if name in ("_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE", "_PARTITION_EOF"):
            if progress is None:
                return
            if name == "_PARTITION_EOF":
                # Ahead of the last message if what follows is no message, such as the end of a transaction.
                progress.next = max(progress.next, message.offset())
            else:
                self._lost.add(partition)
        elif is_missing_topic(error):
            self._may_miss_topics = True
        elif is_away(error):
            self._is_away(error)
        elif name != "_MAX_POLL_EXCEEDED" and not self._is_of_no_group(error):
            self._connection.fail(error, f"read partition {partition[1]} of {partition[0]!r}", is_running=True)

    def _look_for_topics(self, consumer: Consumer) -> None:
        from confluent_kafka import KafkaException

        # The client tells of it again if it lasts.
        self._may_miss_topics = False
        try:
            topics = consumer.list_topics(timeout=_LOOKUP_TIMEOUT_S).topics
        except KafkaException as error:
            self._is_away(error)
            return
        for partition, progress in self._reading.items():
            if partition[0] not in topics or partition[1] >= len(topics[partition[0]].partitions):
                self._missing(partition, progress)

    def _missing(self, partition: Partition, progress: _Progress) -> None:
        text = f"{self._connection.call}: partition {partition[1]} of topic {partition[0]!r} is gone"
        if not self._settings.allow_missing:
            raise ConfigurationError(
                f"{text}: the topic was deleted, or made anew with fewer partitions, while the job reads it. Start the "
                "job without it, or with allow_missing=True to go on with the others"
            )
        _logger.warning("%s; the job goes on without it (allow_missing=True)", text)
        progress.is_over = True

    def _find(self, partition: Partition) -> None:
        """Go on somewhere with a partition that has no message at its position any more."""
        from confluent_kafka import KafkaException, TopicPartition

        consumer, progress = self._assigned(), self._reading[partition]
        try:
            low, high = consumer.get_watermark_offsets(TopicPartition(*partition), timeout=_LOOKUP_TIMEOUT_S)
        except KafkaException as error:
            if not is_away(error):
                self._connection.fail(error, f"find the offsets of partition {partition[1]} of {partition[0]!r}")
            self._is_away(error)
            self._find_due_s = time.monotonic() + _FIND_EVERY_S
            return
        self._lost.discard(partition)
        if not (progress.next < 0 or low <= progress.next <= high):
            text = gone(self._connection.call, partition, progress.next, low, high)
            if self._settings.reset == "fail":
                raise ConfigurationError(text)
            progress.next = low if self._settings.reset == "earliest" else high
            _logger.warning("%s. reset=%r: goes on at %d", text, self._settings.reset, progress.next)
        consumer.incremental_unassign(_partitions([partition]))
        consumer.incremental_assign(_partitions([partition], self._reading))

    def _is_away(self, error: object) -> None:
        self._away.seen(
            f"{self._connection.call}: no broker answers: {self._connection.shown(error)}; the job goes on by itself "
            "once one does"
        )

    def _is_back(self) -> None:
        # What was fetched before says nothing of now.
        self._away.over(f"{self._connection.call}: a broker answers again", settled_s=_SETTLED_S)

    def _look_for_broker(self, consumer: Consumer) -> None:
        """Where nothing is written, nothing else tells that it is back."""
        from confluent_kafka import KafkaException, TopicPartition

        partition = next(iter(self._reading), None)
        if partition is None:
            return
        try:
            consumer.get_watermark_offsets(TopicPartition(*partition), timeout=_LOOKUP_TIMEOUT_S)
        except KafkaException as error:
            self._is_away(error)
        else:
            self._is_back()

    def _look_at_backlog(self, consumer: Consumer) -> None:
        limit, now_s = self._settings.backlog_rows, time.monotonic()
        if limit is None or now_s < self._backlog_due_s:
            return
        known = {
            partition: consumer.get_watermark_offsets(_partitions([partition])[0], cached=True)
            for partition in self._reading.keys() - self._paused
        }
        fetched = {partition: ends for partition, ends in known.items() if ends is not None and ends[1] >= 0}
        if not fetched:
            return
        self._backlog_due_s = now_s + _BACKLOG_EVERY_S
        lag = sum(self._reading[partition].lag(low, high) for partition, (low, high) in fetched.items())
        # Half of it is little enough; else it would switch to and fro.
        has_backlog = lag > (limit // 2 if self._has_backlog else limit)
        if has_backlog != self._has_backlog:
            self._has_backlog = has_backlog
            self._context.report_backlog(has_backlog)


def _partitions(partitions: Iterable[Partition], progress: Mapping[Partition, _Progress] | None = None) -> list[Any]:
    """As the client takes them, with offsets if there is `progress`."""
    from confluent_kafka import TopicPartition

    if progress is None:
        return [TopicPartition(*partition) for partition in partitions]
    return [TopicPartition(*partition, progress[partition].next) for partition in partitions]
