"""The transactions that make one writer's output visible, as one process carries them out."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from snapline.connectors.kafka.commit_markers import CommitMarkers, Marker
from snapline.connectors.kafka.kafka_client import (
    REQUEST_TIMEOUT_S,
    KafkaConnection,
    error_name,
    is_missing_topic,
    is_refused,
)
from snapline.connectors.kafka.message_rows import kept_batches, produce_all
from snapline.errors import ConfigurationError, SnaplineError

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, KafkaException

ID_PREFIX = "snapline/"
"""How transactional ids begin, for an ACL."""
STALL_S = 30.0
"""How long no message may be delivered before a transaction is given up and tried again later."""
COMMIT_TIMEOUT_S = 15.0
ABORT_TIMEOUT_S = 5.0
POLL_S = 0.05

_COMMIT_TRIES = 2
_TAKEN = frozenset(("_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "_FATAL", "INVALID_PRODUCER_ID_MAPPING"))
_TOO_LARGE = frozenset(("MSG_SIZE_TOO_LARGE", "RECORD_LIST_TOO_LARGE"))
_UNSUPPORTED = frozenset(("_UNSUPPORTED_FEATURE", "UNSUPPORTED_VERSION", "UNSUPPORTED_FOR_MESSAGE_FORMAT"))
_REFUSED = frozenset(("POLICY_VIOLATION", "INVALID_REQUIRED_ACKS", "_INVALID_ARG", "INVALID_CONFIG"))

_log = logging.getLogger("snapline.kafka")


class FencedProducerError(Exception):
    """Another producer has the transactional id now, or the broker has ended a transaction that took too long."""


class CommitDelayError(Exception):
    """It did not work, and whether it had an effect may be open: try again with a new producer."""


class WriterTransactions:
    """The producer with the transactional id of one writer, and the writer's marker as the last transaction left it.

    The first step fences whoever had the id before, and ends what it left open. Only then is the marker read: a commit
    of this producer succeeds only if nobody has taken the id since, so nobody can have changed the marker either.
    After any exception it is of no use, and the next one has to find out what is committed.

    Raises `FencedProducerError` or `CommitDelayError`, or an error that says what to change.
    """

    def __init__(
        self,
        connection: KafkaConnection,
        markers: CommitMarkers,
        writer: str,
        settings: Mapping[str, Any],
        is_closed: Callable[[], bool],
    ) -> None:
        self._connection = connection
        self._markers = markers
        self.writer = writer
        self._is_closed = is_closed
        self._problem: KafkaError | None = None
        self._moved_s = time.monotonic()
        self._producer = connection.producer(
            self._told, lambda error, _: self._told(error), transactional_id=f"{ID_PREFIX}{writer}", **settings
        )
        # Without a connection the client looks for the coordinator only every half second.
        self._call(self._producer.list_topics, markers.topic, REQUEST_TIMEOUT_S)
        self._call(self._producer.init_transactions, REQUEST_TIMEOUT_S)
        try:
            self.marker = markers.read(writer)
        except ConfigurationError:
            raise
        except SnaplineError as error:
            raise CommitDelayError(str(error)) from error

    def commit(self, marker: Marker, topic: str = "", chunks: Sequence[bytes] = ()) -> None:
        """Make these messages visible, together with the marker."""
        try:
            self._call(self._transact, marker, topic, chunks)
        except SnaplineError:
            self._abort()
            raise
        self.marker = marker

    def _transact(self, marker: Marker, topic: str, chunks: Sequence[bytes]) -> None:
        producer = self._producer
        self._problem = None
        producer.begin_transaction()
        for chunk in chunks:
            for batch in kept_batches(chunk):
                self._moved_s = time.monotonic()
                produce_all(producer, topic, batch, self._wait)
        # The marker last: until the end of its transaction nobody can read markers behind it.
        while len(producer):
            self._wait()
        self._markers.produce(producer, self.writer, marker)
        self._commit()

    def close(self) -> None:
        """Let go of the id. What is in the client's queue is lost."""
        self._producer.purge(blocking=False)
        del self._producer

    def _commit(self) -> None:
        from confluent_kafka import KafkaException

        for remaining in reversed(range(_COMMIT_TRIES)):
            try:
                self._producer.commit_transaction(COMMIT_TIMEOUT_S)
                return
            except KafkaException as error:
                if not remaining or not error.args[0].retriable() or self._is_closed():
                    raise

    def _abort(self) -> None:
        """Readers of the topic wait for the end of a transaction; nobody will come and end this one soon."""
        from confluent_kafka import KafkaException

        try:
            self._producer.abort_transaction(ABORT_TIMEOUT_S)
        except KafkaException as error:
            _log.warning("a transaction stays open until it times out: %s", self._connection.shown(error))

    def _wait(self) -> None:
        """Let the client work; raises `CommitDelayError` if it gets nowhere."""
        before = len(self._producer)
        # Flushed, it does not linger for more messages.
        if len(self._producer) and self._producer.flush(POLL_S) < before:
            self._moved_s = time.monotonic()
        elif time.monotonic() - self._moved_s > STALL_S:
            raise CommitDelayError(f"no message was delivered for {STALL_S:g} s: {self._cause(None)}")
        if self._is_closed():
            raise CommitDelayError("the writer is closed")

    def _told(self, error: KafkaError) -> None:
        """The client tells of a connection, or of a message that it could not deliver."""
        self._problem = error

    def _call(self, function: Callable[..., Any], *arguments: Any) -> None:
        from confluent_kafka import KafkaException

        self._moved_s = time.monotonic()
        try:
            function(*arguments)
        except KafkaException as error:
            raise self._meaning(error) from None

    def _meaning(self, error: KafkaException) -> Exception:
        problem = error.args[0]
        if error_name(problem) == "_STATE":
            problem = self._failure() or problem
        heard = self._heard()
        # What a transaction says about its failure is often only that some message failed.
        for cause in (problem, heard, self._problem):
            if cause is None:
                continue
            final = final_error(self._connection, cause)
            if final is not None:
                return final
            if error_name(cause) in _TAKEN or cause.fatal():
                return FencedProducerError(self._connection.shown(cause))
        return CommitDelayError(self._cause(problem))

    def _heard(self) -> KafkaError | None:
        """Let the client tell why connections are refused, which calls that fail do not say; or what it fails with."""
        from confluent_kafka import KafkaException

        try:
            self._producer.poll(0)
        except KafkaException as error:
            found: KafkaError = error.args[0]
            return found
        return None

    def _failure(self) -> KafkaError | None:
        """Why a transaction has failed that takes no more messages."""
        from confluent_kafka import KafkaException

        try:
            # It cannot begin again, and only this call says why without ending anything.
            self._producer.begin_transaction()
        except KafkaException as error:
            found: KafkaError = error.args[0]
            return found
        return None

    def _cause(self, problem: KafkaError | None) -> str:
        told = [self._connection.shown(each) for each in (problem, self._problem) if each is not None]
        return "; ".join(told) or "the broker does not answer"


def final_error(connection: KafkaConnection, problem: object, *, is_running: bool = True) -> SnaplineError | None:
    """The error for what does not heal by trying again; None for anything else."""
    name = error_name(problem)
    begin = f"{connection.call}: cannot write: {connection.shown(problem)}"
    if name == "_UNKNOWN_PARTITION":
        return ConfigurationError(
            f"{begin}; a row names a partition that the topic does not have: add partitions to the topic, or correct "
            "the column that partition= names"
        )
    if is_refused(problem) or is_missing_topic(problem):
        return connection.error(problem, "write", is_running=is_running)
    if name in _TOO_LARGE:
        return ConfigurationError(
            f"{begin}; allow larger messages with config={{'message.max.bytes': ...}} and the topic's "
            "max.message.bytes, then start the job again: the rows are in its checkpoint"
        )
    if name == "INVALID_TRANSACTION_TIMEOUT":
        return ConfigurationError(
            f"{begin}; set config={{'transaction.timeout.ms': ...}} to at most the broker's transaction.max.timeout.ms"
        )
    if name in _UNSUPPORTED:
        return ConfigurationError(f"{begin}; this broker has no transactions: use guarantee='at_least_once'")
    if name == "INVALID_RECORD":
        return ConfigurationError(
            f"{begin}; a compacted topic takes no messages without a key: give key=, or set its cleanup.policy to "
            "delete"
        )
    if name == "INVALID_TIMESTAMP":
        return ConfigurationError(
            f"{begin}; raise the topic's message.timestamp.before.max.ms and message.timestamp.after.max.ms, or "
            "correct the column that timestamp= names"
        )
    if name in _REFUSED:
        return ConfigurationError(begin)
    return None
