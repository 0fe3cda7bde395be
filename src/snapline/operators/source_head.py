"""The head of a chain that begins with a source: splits, positions and event time of one subtask."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa

from snapline.contracts.dead_letters import checked_on_error
from snapline.contracts.operator import Operator, OperatorContext
from snapline.contracts.schemas import checked_schema, conform
from snapline.contracts.source import BadRow, ReaderContext, Source, SourceReader, Wait, Watermarks
from snapline.errors import UserCodeError
from snapline.operators.bad_rows import BadRows
from snapline.operators.event_time import SavedWatermark, newest_time_ms
from snapline.state.operator_state import OperatorList
from snapline.text import shortened
from snapline.types import MAX_WATERMARK


class SourceHead:
    """Reads the splits assigned to one subtask; the task calls `read` and passes on what it returns.

    A subtask asks for the next split when it has read all it has. Where splits are read in step it asks at once, even
    if it has restored some, since the driver deals out again what nobody had. While there may be more it asks again,
    and the answer comes once there is something for it.
    """

    context: OperatorContext
    bad_rows = 0
    last_bad_row = ""
    _reader: SourceReader | None = None
    _splits: OperatorList

    def __init__(self, source: Source, watermarks: Watermarks | None = None) -> None:
        self._source = source
        self._on_error = checked_on_error(source.on_error, f"the source {type(source).__name__}")
        self._schema = checked_schema(source.schema, f"the source {type(source).__name__}")
        self._watermarks = watermarks
        self._last_read_ms = 0
        self._is_dry = True
        self._has_asked = False
        self._may_be_more = True

    def open(self, context: OperatorContext) -> None:
        self.context = context
        self._bad = BadRows(self, context, f"the source {context.uid!r}", self._on_error)
        self._watermark = SavedWatermark(context)
        self._reader = self._source.reader(
            ReaderContext(context.job_id, context.uid, context.subtask, context.parallelism, self._take_bad_row)
        )
        self._splits = context.states.operator.list_state("splits", bytes)
        for entry in self._splits:
            split, position = msgspec.msgpack.decode(entry)
            self._reader.add_split(split, position)
            self._is_dry = False
        self._last_read_ms = context.clock()

    def _take_bad_row(self, bad: BadRow) -> None:
        line = "" if bad.line is None else f", line {bad.line}"
        is_named = bad.file is None or bad.file in str(bad.error)
        where = "" if is_named else f", in the file {bad.file!r}{line}"
        self._bad.take(bad.error, where=where, text=bad.text, file=bad.file, line=bad.line)
        self._bad.flush()

    # Splits.

    @property
    def wants_split(self) -> bool:
        """Whether to ask the driver for splits now."""
        return self._may_be_more and not self._has_asked and (self._is_dry or self._source.in_step)

    def ask(self) -> None:
        """Ask the driver for splits; `handle_event` will be called with its answer."""
        self._has_asked = True
        self.context.send_event(None)

    def handle_event(self, event: Mapping[str, Any]) -> None:
        """Take the answer of the driver: `splits` to read, and whether there may be `more` of them."""
        for split in event["splits"]:
            self._opened.add_split(split, None)
            self._is_dry = False
        self._may_be_more = event["more"]
        self._has_asked = False

    @property
    def has_ended(self) -> bool:
        """Whether everything is read and nothing more will be assigned."""
        return self._is_dry and not self._may_be_more

    # Rows.

    def read(self) -> pa.RecordBatch | Wait | None:
        """Returns the next rows, or None if everything that was assigned is read."""
        if self._is_dry:
            return None
        given = self._opened.read()
        if given is None:
            self._is_dry = True
            return None
        if isinstance(given, Wait):
            return given
        if not isinstance(given, pa.RecordBatch):
            raise UserCodeError(
                f"the source {self.context.uid!r} gave {shortened(given)}; a reader must give a RecordBatch, Wait or "
                "None"
            )
        batch = conform(given, self._schema, f"the source {self.context.uid!r}")
        if batch.num_rows:
            self._last_read_ms = self.context.clock()
            self._advance(batch)
        return batch

    @property
    def watermark_ms(self) -> int | None:
        """Event time from the rows read so far; None before the first, or without watermarks. Never goes back."""
        has_any = self._watermarks is not None and self._watermark.ms != -MAX_WATERMARK
        return self._watermark.ms if has_any else None

    def is_idle(self, now_ms: int) -> bool:
        """Whether nothing was read for so long that event time leaves this subtask out."""
        if self._watermarks is None or self._watermarks.idle_after_ms == 0:
            return False
        return now_ms - self._last_read_ms >= self._watermarks.idle_after_ms

    def _advance(self, batch: pa.RecordBatch) -> None:
        if self._watermarks is None:
            return
        newest_ms = newest_time_ms(batch.column(self._watermarks.column))
        if newest_ms is not None:
            self._watermark.advance(newest_ms - self._watermarks.delay_ms - 1)

    # Checkpoints.

    def snapshot(self, checkpoint_id: int) -> None:
        """The synchronous part: put the positions into state."""
        del checkpoint_id
        self._splits.set([msgspec.msgpack.encode([split, at]) for split, at in self._opened.positions()])

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        self._opened.checkpoint_completed(checkpoint_id)

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()

    @property
    def _opened(self) -> SourceReader:
        assert self._reader is not None
        return self._reader


ChainMember: TypeAlias = Operator | SourceHead
"""What a chain of operators consists of: a source can only be its head."""
