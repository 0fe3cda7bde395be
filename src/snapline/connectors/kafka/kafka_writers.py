"""The writers of the Kafka sink: exactly once by way of the checkpoint, or at once and at least once."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from snapline.connectors.kafka.commit_markers import CommitMarkers, writer_and_place
from snapline.connectors.kafka.kafka_client import KafkaConnection
from snapline.connectors.kafka.kafka_transactions import (
    POLL_S,
    CommitDelayError,
    FencedProducerError,
    WriterTransactions,
    final_error,
)
from snapline.connectors.kafka.message_rows import MessageParts, RowEncoder, kept_bytes, largest_bytes, produce_all
from snapline.contracts.sink import CommitResult, Committable, Permit, SinkContext, SinkWriter
from snapline.errors import FencedError, RestoreError, TransientError, UserCodeError
from snapline.text import size_text

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Producer

CHUNK_BYTES = 8 << 20
"""Messages are kept in pieces of this size, which are compressed and sent one after the other."""
MESSAGE_OVERHEAD_BYTES = 512
"""What the client may add to a message."""

WAITING_BYTES = 16 << 20
"""Writing pauses when more than this waits behind a commit that is under way: brokers set the pace."""

_TAKEOVERS = 3
"""How often in one commit a producer takes its id back: a zombie takes it once, and then sees that it is late."""
_WARN_S = 10.0

_log = logging.getLogger("snapline.kafka")


class _Encoding:
    """Rows into messages that are not too large, for the schema of the rows that come."""

    def __init__(self, parts: MessageParts, max_message_bytes: int) -> None:
        self._parts = parts
        self._max_message_bytes = max_message_bytes
        self._encoder: RowEncoder | None = None
        self._schema: pa.Schema | None = None

    def messages(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self._encoder is None or self._schema != batch.schema:
            self._schema, self._encoder = batch.schema, self._parts.encoder(batch.schema)
        messages = self._encoder.encode(batch)
        largest = largest_bytes(messages)
        if largest + MESSAGE_OVERHEAD_BYTES > self._max_message_bytes:
            raise UserCodeError(
                f"{self._parts.call}: a message has {largest} bytes, too many for message.max.bytes="
                f"{self._max_message_bytes}; make rows smaller, or allow more with config={{'message.max.bytes': ...}} "
                "and the topic's max.message.bytes"
            )
        return messages


class ExactlyOnceWriter(SinkWriter):
    """Keeps messages until the checkpoint, which then holds them; a commit sends them in one transaction.

    Between checkpoints no transaction is open, so no outage is too long for one. The transactional id and the marker
    belong to the writer that prepared the messages, and whoever commits them uses these.
    """

    def __init__(
        self,
        connection: KafkaConnection,
        parts: MessageParts,
        context: SinkContext,
        *,
        topic: str,
        commit_topic: str,
        settings: Mapping[str, Any],
        max_bytes: int,
        max_message_bytes: int,
    ) -> None:
        self._connection = connection
        self._context = context
        self._topic = topic
        self._commit_topic = commit_topic
        self._settings = settings
        self._max_bytes = max_bytes
        self._encoding = _Encoding(parts, max_message_bytes)
        self._own = f"{context.lineage}/{context.uid}/{context.subtask}/{context.attempt}"
        self._line = f"{context.lineage}/{context.uid}/"
        self._batches: list[pa.RecordBatch] = []
        self._batch_bytes = 0
        self._chunks: list[bytes] = []
        self._bytes = 0
        self._transactions: WriterTransactions | None = None
        """Of this writer itself. Those of others are closed when their commit is done."""
        self._lock = threading.Lock()
        self._pace = threading.Condition()
        self._unconfirmed: dict[int, int] = {}
        """Bytes that were prepared and are not known to be committed, by checkpoint. Guarded by `_pace`."""
        self._committing: int | None = None
        """The checkpoint whose commit is under way. Guarded by `_pace`."""
        self._is_closed = False

    def write(self, batch: pa.RecordBatch) -> None:
        messages = self._encoding.messages(batch)
        self._batches.append(messages)
        self._batch_bytes += messages.nbytes
        self._bytes += messages.nbytes
        if self._bytes > self._max_bytes:
            raise UserCodeError(
                f"{self._connection.call}: more than {size_text(self._max_bytes)} of messages since the last "
                "checkpoint in one subtask, which keeps them in memory until then; make Checkpoints(interval=...) "
                "shorter, or set max_size= higher"
            )
        if self._batch_bytes >= CHUNK_BYTES:
            self._finish_chunk()
            self._keep_pace()

    def prepare(self, checkpoint_id: int) -> Sequence[Any]:
        self._finish_chunk()
        if not self._chunks:
            return ()
        with self._pace:
            self._unconfirmed[checkpoint_id] = self._bytes
        chunks, self._chunks, self._bytes = self._chunks, [], 0
        return ({"topic": self._topic, "commit_topic": self._commit_topic, "chunks": chunks},)

    def _finish_chunk(self) -> None:
        if self._batches:
            batches, self._batches, self._batch_bytes = self._batches, [], 0
            self._chunks.append(kept_bytes(batches))

    def _keep_pace(self) -> None:
        """Wait for the commit that is under way if another waits behind it: else memory and checkpoints would grow."""
        began_s = warned_s = time.monotonic()
        with self._pace:
            while self._is_behind():
                self._pace.wait(_WARN_S)
                now_s = time.monotonic()
                if now_s - warned_s >= _WARN_S:
                    warned_s = now_s
                    _log.warning(
                        "%s: writing has waited for a commit for %.0f s", self._connection.call, now_s - began_s
                    )

    def _is_behind(self) -> bool:
        if self._committing is None or self._is_closed:
            return False
        waiting = sum(size for checkpoint, size in self._unconfirmed.items() if checkpoint != self._committing)
        return waiting > WAITING_BYTES

    # Commits.

    def commit(self, committable: Committable, permit: Permit) -> CommitResult:
        is_own = committable.name.startswith(f"{self._own}/")
        result = CommitResult.RETRY_LATER
        with self._pace:
            self._committing = committable.checkpoint_id
        try:
            result = self._attempts(committable, permit)
        finally:
            with self._pace:
                self._committing = None
                if is_own and result is not CommitResult.RETRY_LATER:
                    self._unconfirmed.pop(committable.checkpoint_id, None)
                self._pace.notify_all()
        return result

    def _attempts(self, committable: Committable, permit: Permit) -> CommitResult:
        try:
            writer, _ = writer_and_place(committable.name)
            payload = committable.payload
            topic, commit_topic, chunks = payload["topic"], payload["commit_topic"], payload["chunks"]
        except (KeyError, TypeError, ValueError) as error:
            raise RestoreError(
                f"{self._connection.call}: {committable.name} holds no messages that a Kafka sink has prepared; the "
                "snapshot is of another sink: give this one a uid of its own"
            ) from error
        markers = CommitMarkers(self._connection, commit_topic)
        is_own = writer == self._own
        with self._lock:
            for _ in range(_TAKEOVERS):
                try:
                    return self._commit(committable, permit, markers, topic, chunks)
                except FencedProducerError as error:
                    self._drop()
                    reason = f"another process took over its transactional id ({error})"
                except CommitDelayError as error:
                    self._drop()
                    reason = str(error)
                    break
                except BaseException:
                    self._drop()
                    raise
                finally:
                    if self._is_closed or not is_own:
                        self._drop()
        _log.warning("the commit of %s is tried again later: %s", committable.name, reason)
        return CommitResult.RETRY_LATER

    def _commit(
        self, committable: Committable, permit: Permit, markers: CommitMarkers, topic: str, chunks: Sequence[bytes]
    ) -> CommitResult:
        writer, place = writer_and_place(committable.name)
        is_own = writer == self._own
        if self._transactions is not None and self._transactions.writer != writer:
            self._drop()
        transactions = self._transactions
        if transactions is None:
            transactions = self._transactions = WriterTransactions(
                self._connection, markers, writer, self._settings, lambda: self._is_closed
            )
        marker = transactions.marker
        # Attempts of another lineage, whose savepoint was restored, are counted apart.
        attempt = permit.attempt if writer.startswith(self._line) else marker.attempt
        if marker.attempt > attempt:
            raise FencedError(
                f"{self._connection.call}: attempt {marker.attempt} of the job has taken over, and commits "
                f"{committable.name} instead of attempt {attempt}",
                attempt=attempt,
                current=marker.attempt,
            )
        if marker.holds(place):
            return CommitResult.ALREADY_COMMITTED
        if not is_own and marker.attempt < attempt:
            # First a word to zombies, which could take the id again and again while a long transaction runs.
            transactions.commit(marker.claimed(attempt))
        transactions.commit(marker.committed(place, attempt, in_order=is_own), topic, chunks)
        return CommitResult.COMMITTED

    def _drop(self) -> None:
        transactions, self._transactions = self._transactions, None
        if transactions is not None:
            transactions.close()

    def close(self) -> None:
        with self._pace:
            self._is_closed = True
            self._pace.notify_all()
        self._batches, self._chunks = [], []
        # A commit that is under way sees it, and lets go of the producer itself.
        if self._lock.acquire(blocking=False):
            try:
                self._drop()
            finally:
                self._lock.release()


class AtLeastOnceWriter(SinkWriter):
    """Sends messages at once, and waits for all of them before a checkpoint."""

    def __init__(
        self,
        connection: KafkaConnection,
        parts: MessageParts,
        *,
        topic: str,
        settings: Mapping[str, Any],
        max_message_bytes: int,
        patience_s: float,
    ) -> None:
        self._connection = connection
        self._topic = topic
        self._encoding = _Encoding(parts, max_message_bytes)
        self._patience_s = patience_s
        self._problem: KafkaError | None = None
        self._lost: KafkaError | None = None
        self._moved_s = self._warned_s = time.monotonic()
        self._producer: Producer | None = connection.producer(
            self._told, self._failed, **{"enable_idempotence": True, **settings}
        )

    def write(self, batch: pa.RecordBatch) -> None:
        from confluent_kafka import KafkaException

        producer = self._opened
        self._moved_s = time.monotonic()
        try:
            produce_all(producer, self._topic, self._encoding.messages(batch), self._wait)
            producer.poll(0)
        except KafkaException as error:
            raise self._meaning(self._lost or error) from None
        self._check()

    def prepare(self, checkpoint_id: int) -> Sequence[Any]:
        del checkpoint_id
        from confluent_kafka import KafkaException

        self._moved_s = time.monotonic()
        try:
            while len(self._opened):
                self._wait()
        except KafkaException as error:
            raise self._meaning(self._lost or error) from None
        self._check()
        return ()

    def close(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge(blocking=False)

    @property
    def _opened(self) -> Producer:
        assert self._producer is not None
        return self._producer

    def _wait(self) -> None:
        before = len(self._opened)
        remaining = self._opened.flush(POLL_S)
        self._check()
        now_s = time.monotonic()
        if remaining < before:
            self._moved_s = self._warned_s = now_s
        elif now_s - self._moved_s > self._patience_s:
            reason = "" if self._problem is None else f": {self._connection.shown(self._problem)}"
            raise TransientError(
                f"{self._connection.call}: no message was delivered for {self._patience_s:g} s{reason}; is a broker "
                f"running at {self._connection.bootstrap}?"
            )
        elif now_s - self._warned_s > _WARN_S:
            self._warned_s = now_s
            _log.warning(
                "%s: %d messages wait to be delivered, and none was for %.0f s",
                *(self._connection.call, remaining, now_s - self._moved_s),
            )

    def _told(self, error: KafkaError) -> None:
        self._problem = error

    def _failed(self, error: KafkaError, message: object) -> None:
        del message
        self._lost = self._lost or error

    def _check(self) -> None:
        if self._lost is not None:
            raise self._meaning(self._lost)

    def _meaning(self, problem: object) -> Exception:
        final = final_error(self._connection, problem)
        if final is None and self._problem is not None:
            final = final_error(self._connection, self._problem)
        return final or self._connection.error(problem, f"write to {self._topic!r}", is_running=True)
