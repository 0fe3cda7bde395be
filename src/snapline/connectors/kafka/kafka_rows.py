"""From messages of several partitions to rows, a batch at a time."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, TypeAlias

import pyarrow as pa

from snapline.connectors.formats.message_format import MessageDecoder
from snapline.connectors.kafka.kafka_cluster import Partition
from snapline.connectors.kafka.kafka_columns import MetadataColumns
from snapline.contracts.source import BadRow
from snapline.errors import UserCodeError
from snapline.text import explanation

Run: TypeAlias = tuple[Partition, int, int]
"""A partition, and from where to where its messages are in a list."""


def runs_of(messages: list[Any], *, is_one_topic: bool = False) -> tuple[list[Any], list[Run]]:
    """The messages, perhaps in another order, and a run for each partition; inside one the order stays.

    It is quicker if all are of one topic.
    """
    partitions: list[Any] = [message.partition() for message in messages]
    if not is_one_topic:
        partitions = [(message.topic(), number) for message, number in zip(messages, partitions, strict=True)]
    ranges = _ranges(partitions)
    if len(ranges) > len({partition for partition, _, _ in ranges}):
        order = sorted(range(len(messages)), key=partitions.__getitem__)
        messages = [messages[number] for number in order]
        ranges = _ranges([partitions[number] for number in order])
    firsts = [messages[start] for _, start, _ in ranges]
    return messages, [
        ((first.topic(), first.partition()), start, end) for first, (_, start, end) in zip(firsts, ranges, strict=True)
    ]


def _ranges(partitions: list[Any]) -> list[tuple[Any, int, int]]:
    """Equal neighbours, and from where to where they are."""
    found: list[tuple[Any, int, int]] = []
    start = 0
    for partition, group in groupby(partitions):
        end = start + len(list(group))
        found.append((partition, start, end))
        start = end
    return found


def message_rows(
    messages: Sequence[Any],
    runs: Sequence[Run],
    decoder: MessageDecoder,
    columns: MetadataColumns,
    bad_row: Callable[[BadRow], None],
) -> tuple[pa.RecordBatch, list[int]]:
    """The rows of messages, and how many there are of each run. Bad ones go to `bad_row`, which may raise."""
    values = [message.value() for message in messages]
    decoded = decoder.decode(values)
    for number, error in decoded.bad:
        bad_row(_bad(messages[number], values[number], error))
    rows = columns.added(decoded.batch, messages, decoded.kept)
    if decoded.kept is None:
        return rows, [end - start for _, start, end in runs]
    kept = decoded.kept.to_pylist()
    return rows, [bisect_left(kept, end) - bisect_left(kept, start) for _, start, end in runs]


def _bad(message: Any, value: bytes | None, error: Exception) -> BadRow:
    place, offset = f"{message.topic()}-{message.partition()}", message.offset()
    problem = UserCodeError(
        f"the message at offset {offset} of the partition {place} cannot be read: {explanation(error)}"
    )
    problem.__cause__ = error.__cause__
    return BadRow(problem, None if value is None else value.decode(errors="backslashreplace"), place, offset)
