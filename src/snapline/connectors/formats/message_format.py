"""What turns batches of messages into rows and back: the contract of a format, and what all formats share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

import pyarrow as pa

from snapline.contracts.dead_letters import is_about_row, salvaged
from snapline.contracts.schemas import empty_batch
from snapline.errors import ConfigurationError, UserCodeError
from snapline.text import explanation

Nulls: TypeAlias = Literal["bad", "row", "skip"]
"""What a message without a value, such as a tombstone, becomes: a bad message, a row of nulls, or nothing."""

Messages: TypeAlias = "Sequence[bytes | None] | pa.Array"
"""The values of messages: bytes, None for a message without a value; or an Arrow array of binary."""


@dataclass(frozen=True)
class Decoded:
    """What came of a batch of messages."""

    batch: pa.RecordBatch
    """The rows of the good messages, in order."""

    bad: list[tuple[int, Exception]] = field(default_factory=list)
    """The numbers of messages that cannot be decoded, in order, with their errors."""

    kept: pa.Array | None = None
    """For each row the number of its message, to `take()` other columns with; None if every message has its row."""


class MessageDecoder(ABC):
    """Decodes messages where tasks run. Used by one thread at a time."""

    @abstractmethod
    def decode(self, values: Messages) -> Decoded:
        """Rows of a batch of messages. A message that is bad takes no others along.

        Raises only what is not the fault of a message, such as `StorageError` or `TransientError`.
        """


class MessageEncoder(ABC):
    """Encodes rows where tasks run. Used by one thread at a time."""

    @abstractmethod
    def encode(self, batch: pa.RecordBatch) -> Sequence[bytes | None]:
        """A message for each row; None is a message without a value, which only `Raw` makes.

        Raises `UserCodeError`, which names the column if it can, if a value cannot be encoded.
        """


class MessageFormat(ABC):
    """How rows are written as messages. It is pickled with the job: it holds settings, and makes the rest on demand."""

    @abstractmethod
    def schema(self) -> pa.Schema:
        """The columns of decoded rows. Raises `ConfigurationError` if the format was not told."""

    @abstractmethod
    def decoder(self) -> MessageDecoder:
        """A new decoder; called where tasks run."""

    @abstractmethod
    def encoder(self, schema: pa.Schema) -> MessageEncoder:
        """A new encoder for rows of this schema; called where tasks run."""

    @abstractmethod
    def check(self, schema: pa.Schema) -> None:
        """Called on the driver. Raises `ConfigurationError` if rows of this schema cannot be encoded."""


class BatchDecoder(MessageDecoder):
    """A decoder that tries whole batches, and looks for the bad messages only if that fails."""

    def __init__(self, schema: pa.Schema, nulls: Nulls, what: str) -> None:
        self._schema = schema
        self._nulls = nulls
        self._what = what

    @abstractmethod
    def _rows(self, messages: list[bytes]) -> pa.RecordBatch:
        """One row for each message, at least one; raises if any of them is bad."""

    def _verdict(self, message: bytes) -> tuple[Exception | None, bool]:
        """What is wrong with a message, found quicker than by `_rows`, and whether it is sure that `_rows` would raise.

        Called once a batch has failed. Must be sure only if that is so: a message is good or bad whatever is beside it.
        """
        return None, False

    def _reason(self, message: bytes, error: Exception) -> Exception:
        """A clearer error than the one that `_rows` raised for this message alone; by default the same."""
        return error

    def decode(self, values: Messages) -> Decoded:
        messages: Any = values.to_pylist() if isinstance(values, pa.Array) else values
        if not isinstance(messages, list):
            messages = list(messages)
        if None in messages:
            return self._without_nulls(messages)
        return self._decoded(messages)

    def _decoded(self, messages: list[bytes]) -> Decoded:
        if not messages:
            return Decoded(empty_batch(self._schema))
        try:
            return Decoded(self._rows(messages))
        except Exception as error:
            if not is_about_row(error):
                raise
        return self._salvaged(messages)

    def _salvaged(self, messages: list[bytes]) -> Decoded:
        bad: list[tuple[int, Exception]] = []
        clean: list[int] = []
        suspects: list[int] = []
        for number, message in enumerate(messages):
            problem, is_sure = self._verdict(message)
            if problem is not None and is_sure:
                bad.append((number, self._explained(problem)))
            else:
                (clean if problem is None else suspects).append(number)
        # Apart from the others, so that halving has few messages to look at.
        parts: list[pa.RecordBatch] = []
        kept: list[int] = []
        for found in (clean, suspects):
            rows, good = self._halved(messages, found, bad)
            parts += rows
            kept += good
        bad.sort(key=lambda item: item[0])
        batch = together(parts, self._schema)
        if suspects:
            order = sorted(range(len(kept)), key=kept.__getitem__)
            batch, kept = batch.take(pa.array(order, pa.int64())), sorted(kept)
        return Decoded(batch, bad, None if len(kept) == len(messages) else pa.array(kept, pa.int64()))

    def _halved(
        self, messages: list[bytes], found: list[int], bad: list[tuple[int, Exception]]
    ) -> tuple[list[pa.RecordBatch], list[int]]:
        """The rows of the good ones among the messages with these numbers, and which; adds the others to `bad`."""
        failed: set[int] = set()

        def attempt(start: int, end: int) -> pa.RecordBatch:
            return self._rows([messages[number] for number in found[start:end]])

        def fail(place: int, error: Exception) -> None:
            failed.add(found[place])
            bad.append((found[place], self._explained(self._reason(messages[found[place]], error))))

        parts = list(salvaged(attempt, 0, len(found), fail)) if found else []
        return parts, [number for number in found if number not in failed]

    def _without_nulls(self, messages: list[bytes | None]) -> Decoded:
        """The same for messages of which some have no value."""
        there = [number for number, message in enumerate(messages) if message is not None]
        decoded = self._decoded([message for message in messages if message is not None])
        kept = there if decoded.kept is None else [there[number] for number in decoded.kept.to_pylist()]
        bad = [(there[number], error) for number, error in decoded.bad]
        batch = decoded.batch
        if self._nulls == "row":
            place = {number: row for row, number in enumerate(kept)}
            left_out = {number for number, _ in bad}
            kept = [number for number in range(len(messages)) if number not in left_out]
            batch = _taken(batch, pa.array([place.get(number) for number in kept], pa.int64()))
        elif self._nulls == "bad":
            bad += [(number, self._no_value()) for number, message in enumerate(messages) if message is None]
            bad.sort(key=lambda item: item[0])
        return Decoded(batch, bad, None if len(kept) == len(messages) else pa.array(kept, pa.int64()))

    def _no_value(self) -> UserCodeError:
        return UserCodeError(
            f"the message has no value, so it is no {self._what}; for topics with tombstones set nulls='row' or 'skip'"
        )

    def _explained(self, error: Exception) -> Exception:
        if isinstance(error, UserCodeError):
            return error
        problem = UserCodeError(f"the message cannot be decoded as {self._what}: {explanation(error)}")
        # An OSError in the chain would count as a failure of the environment, which is tried again for ever.
        problem.__cause__ = None if isinstance(error, OSError) else error
        problem.__suppress_context__ = True
        return problem


def together(parts: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """Batches as one; an empty one if there are none."""
    if len(parts) == 1:
        return parts[0]
    whole = pa.Table.from_batches(parts, schema).combine_chunks().to_batches()
    return whole[0] if whole else empty_batch(schema)


def _taken(batch: pa.RecordBatch, rows: pa.Array) -> pa.RecordBatch:
    """These rows; where there is no number, a row of nulls."""
    if not batch.num_rows:
        columns = [pa.nulls(len(rows), column.type) for column in batch.schema]
        return pa.RecordBatch.from_arrays(columns, schema=batch.schema)
    return batch.take(rows)


def checked_nulls(nulls: Any, schema: pa.Schema | None, call: str) -> Nulls:
    """The setting; `ConfigurationError` if it is none, or asks for nulls in columns that have none."""
    if nulls not in get_args(Nulls):
        raise ConfigurationError(f"{call}: nulls={nulls!r}; use one of {', '.join(map(repr, get_args(Nulls)))}")
    full = [column.name for column in schema or () if not column.nullable]
    if nulls == "row" and full:
        raise ConfigurationError(
            f"{call}: nulls='row' makes rows of nulls, but {full[0]!r} may have none; use 'bad' or 'skip'"
        )
    found: Nulls = nulls
    return found
