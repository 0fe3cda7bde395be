"""A source and a sink of this process, so that a job handles one micro-batch at a time."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from snapline.contracts.operator import Operator
from snapline.contracts.sink import Sink, SinkContext, SinkWriter
from snapline.contracts.source import Position, ReaderContext, Source, SourceReader, Split, Wait
from snapline.operators.event_time import newest_time_ms

_POLL_S = 0.002

_numbers = itertools.count()
_feeds: dict[int, Feed] = {}


class Feed:
    """The micro-batches of a query: what its job may read, and what it has returned.

    Pickling it gives the same object, since the job runs in threads of this process.
    """

    def __init__(self) -> None:
        self._number = next(_numbers)
        self._changed = threading.Condition()
        self._batches: dict[int, pa.RecordBatch] = {}
        self._read_until = -1
        self._output: list[tuple[int, pa.RecordBatch]] = []
        _feeds[self._number] = self

    def __reduce__(self) -> tuple[Any, tuple[int]]:
        return _feed, (self._number,)

    def release(self, number: int, batch: pa.RecordBatch) -> None:
        """Let the job read a batch."""
        with self._changed:
            self._batches[number] = batch

    def was_read(self, number: int, timeout_s: float) -> bool:
        """Waits until the job has read a batch; False if that takes too long."""
        with self._changed:
            return self._changed.wait_for(lambda: self._read_until >= number, timeout_s)

    def read(self, number: int) -> pa.RecordBatch | None:
        with self._changed:
            batch = self._batches.pop(number, None)
            if batch is not None:
                self._read_until = number
                self._changed.notify_all()
            return batch

    def write(self, subtask: int, batch: pa.RecordBatch) -> None:
        with self._changed:
            self._output.append((subtask, batch))

    def take_output(self) -> list[pa.RecordBatch]:
        """Returns what the job has written since the last call, subtask by subtask."""
        with self._changed:
            taken, self._output = sorted(self._output, key=lambda item: item[0]), []
        return [batch for _, batch in taken]


def _feed(number: int) -> Feed:
    return _feeds[number]


class FeedSource(Source):
    """Reads the batches of a feed, each as one batch, in one subtask."""

    def __init__(self, feed: Feed, schema: pa.Schema) -> None:
        self._feed = feed
        self._schema = schema

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    @property
    def is_bounded(self) -> bool:
        return False

    def splits(self, parallelism: int) -> Sequence[Split]:
        return ["feed"]

    def reader(self, context: ReaderContext) -> SourceReader:
        return _FeedReader(self._feed)


class _FeedReader(SourceReader):
    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._next: int | None = None

    def add_split(self, split: Split, position: Position) -> None:
        self._next = int(position or 0)

    def read(self) -> pa.RecordBatch | Wait | None:
        if self._next is None:
            return Wait(_POLL_S)
        batch = self._feed.read(self._next)
        if batch is None:
            return Wait(_POLL_S)
        self._next += 1
        return batch

    def positions(self, checkpoint_id: int) -> Sequence[tuple[Split, Position]]:
        return [] if self._next is None else [("feed", self._next)]


class FeedSink(Sink):
    """Hands rows to a feed as soon as they come."""

    two_phase = False

    def __init__(self, feed: Feed) -> None:
        self._feed = feed

    def writer(self, context: SinkContext) -> SinkWriter:
        return _FeedWriter(self._feed, context.subtask)


class _FeedWriter(SinkWriter):
    def __init__(self, feed: Feed, subtask: int) -> None:
        self._feed = feed
        self._subtask = subtask

    def write(self, batch: pa.RecordBatch) -> None:
        self._feed.write(self._subtask, batch)

    def prepare(self, checkpoint_id: int) -> Sequence[Any]:
        return ()


class BatchWatermarks(Operator):
    """Makes the watermarks of Structured Streaming: those of the rows so far come before the next batch."""

    makes_watermarks = True

    def __init__(self, column: str, delay_ms: int) -> None:
        self._column = column
        self._delay_ms = delay_ms
        self._newest_ms = 0

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        self.context.emit_watermark(max(self._newest_ms - self._delay_ms, 0))
        self.context.emit(batch)
        newest_ms = newest_time_ms(batch.column(self._column))
        if newest_ms is not None:
            self._newest_ms = max(self._newest_ms, newest_ms)
