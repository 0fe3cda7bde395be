"""The head of a chain that begins with a source: splits, positions and event time of one subtask."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa

from snapline.contracts.dead_letters import checked_on_error
from snapline.contracts.operator import Operator, OperatorContext
from snapline.contracts.schemas import checked_schema, conform
from snapline.contracts.source import (
    BadRow,
    CheckpointLine,
    ReaderContext,
    Source,
    SourceReader,
    Split,
    SplitRows,
    Wait,
    Watermarks,
)
from snapline.errors import UserCodeError
from snapline.operators.bad_rows import BadRows
from snapline.operators.event_time import SavedWatermark, newest_time_ms
from snapline.operators.split_watermarks import SplitWatermarks
from snapline.state.operator_state import OperatorList
from snapline.text import shortened
from snapline.types import MAX_WATERMARK

_REPORT_EVERY_MS = 100
_REPORT_GAP_MS = 10
"""How often a subtask of an alignment group reports its event time: sooner if that has moved a good deal."""

_GRACE_MS = 1000
"""How long a subtask waits for the first word of its alignment group."""

_PAUSE_S = 0.02
"""How soon a reader that is too far ahead is looked at again."""


class SourceHead:
    """Reads the splits assigned to one subtask; the task calls `read` and passes on what it returns.

    A subtask asks for the next split when it has read all it has. Where splits are read in step it asks at once, even
    if it has restored some, since the driver deals out again what nobody had. While there may be more it asks again,
    and the answer comes once there is something for it.

    Event time is kept for each split if the reader tells them apart. With `Watermarks(align=...)` the subtask reports
    its event time to the driver, whose answer says how far splits may be ahead.
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
        self.watermarks = watermarks
        self._times = SplitWatermarks(0 if watermarks is None else watermarks.idle_after_ms)
        self._tells_splits_apart = False
        self._slowest_of_group_ms: int | None = None
        self._first: tuple[int, int] | None = None
        """The event time of the first rows, and when they were read."""
        self._reported: tuple[int | None, bool] | None = None
        self._reported_ms = 0
        self._paused: frozenset[bytes] = frozenset()
        self._has_backlog = False
        self._last_read_ms = self._now_ms = 0
        self._is_dry = True
        self._has_asked = False
        self._may_be_more = True
        self._is_told_to_wait = self._is_caught_up = False
        self._catch_up: str | None = None
        """Who waits until everything is read that there was when they asked."""

    def open(self, context: OperatorContext) -> None:
        self.context = context
        self._bad = BadRows(self, context, f"the source {context.uid!r}", self._on_error)
        self._watermark = SavedWatermark(context)
        self._reader = self._source.reader(
            ReaderContext(
                context.job_id,
                context.uid,
                context.subtask,
                context.parallelism,
                self._take_bad_row,
                self._report_backlog,
                context.lineage,
                context.attempt,
            )
        )
        self._splits = context.states.operator.list_state("splits", bytes)
        for entry in self._splits:
            split, position, *newest = msgspec.msgpack.decode(entry)
            self._reader.add_split(split, position)
            self._times.add(_key(split), newest[0] if newest else None)
            self._tells_splits_apart = self._tells_splits_apart or bool(newest)
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
        """Take the answer of the driver: `splits` to read, and whether there may be `more` of them.

        Or that there is `nothing` for this subtask now, and it has to wait; or, in an alignment group, the event time
        of the `slowest` subtask; or a request to `catch_up`, which is answered once everything is read that there is
        now.
        """
        if "nothing" in event:
            self._is_told_to_wait = True
            return
        if "catch_up" in event:
            self._catch_up = event["catch_up"]
            self._opened.mark_available()
            return
        if "slowest" in event:
            self._slowest_of_group_ms = event["slowest"]
            return
        for split in event["splits"]:
            self._opened.add_split(split, None)
            self._times.add(_key(split), None)
            self._is_dry = False
        self._may_be_more = event["more"]
        self._has_asked = self._is_told_to_wait = False

    @property
    def has_ended(self) -> bool:
        """Whether everything is read and nothing more will be assigned."""
        return self._is_dry and not self._may_be_more

    # Rows.

    def read(self) -> pa.RecordBatch | CheckpointLine | Wait | None:
        """Returns the next rows, or None if everything that was assigned is read."""
        now_ms = self._now_ms = self.context.clock()
        self._times.tick(now_ms)
        if self.watermarks is not None and self.watermarks.align is not None:
            self._align(self.watermarks, now_ms)
        if self._is_dry:
            self._tell_caught_up()
            return None
        if self._is_paused:
            self._last_read_ms = now_ms
            return Wait(_PAUSE_S)
        given = self._opened.read()
        if given is None:
            self._is_dry = True
            self._tell_caught_up()
            return None
        if isinstance(given, Wait):
            if given.seconds > 0:  # otherwise there is more at once
                self._tell_caught_up()
            return given
        if isinstance(given, SplitRows):
            return self._of_splits(given)
        if isinstance(given, CheckpointLine) and self._source.draws_lines:
            return given
        if not isinstance(given, pa.RecordBatch):
            raise UserCodeError(
                f"the source {self.context.uid!r} gave {shortened(given)}; a reader must give a RecordBatch, "
                "SplitRows, Wait or None, and CheckpointLine only if the source has draws_lines = True"
            )
        batch = conform(given, self._schema, f"the source {self.context.uid!r}")
        if batch.num_rows:
            self._has_read()
            self._advance(self._newest_ms(batch))
        return batch

    def _tell_caught_up(self) -> None:
        """There is nothing to read at this moment."""
        if self._catch_up is not None and self._opened.has_read_available:
            token, self._catch_up = self._catch_up, None
            self._is_caught_up = True
            self.context.send_event({"caught_up": token})

    def _has_read(self) -> None:
        self._last_read_ms = self.context.clock()
        self._is_caught_up = False

    def _of_splits(self, given: SplitRows) -> pa.RecordBatch:
        self._tells_splits_apart = True
        what = f"the source {self.context.uid!r}"
        batch = conform(given.batch, self._schema, what)
        if sum(rows for _, rows in given.runs) != batch.num_rows:
            raise UserCodeError(
                f"{what} gave SplitRows whose runs do not add up to the {batch.num_rows} rows of its batch"
            )
        start = 0
        for split, rows in given.runs:
            key = _key(split)
            if key not in self._times:
                raise UserCodeError(f"{what} gave rows of the split {shortened(split)}, which it was not given")
            self._times.read(key, self._newest_ms(batch.slice(start, rows)))
            start += rows
        for split in given.ended:
            self._times.ended(_key(split))
        if batch.num_rows:
            self._has_read()
        self._advance(self._times.slowest_ms)
        return batch

    @property
    def watermark_ms(self) -> int | None:
        """Event time from the rows read so far; None before the first, or without watermarks. Never goes back."""
        has_any = self.watermarks is not None and self._watermark.ms != -MAX_WATERMARK
        return self._watermark.ms if has_any else None

    @property
    def slowest_split(self) -> str:
        """The split that holds event time back; empty if there is only one, or nobody tells them apart. Any thread."""
        if not self._tells_splits_apart or len(self._times) < 2 or self.watermarks is None:
            return ""
        slowest = self._times.slowest()
        return "" if slowest is None else shortened(msgspec.msgpack.decode(slowest))

    def is_idle(self, now_ms: int) -> bool:
        """Whether event time leaves this subtask out: it has no split, or has read nothing for long.

        Also while it has read nothing since somebody waited until everything that was there is processed.
        """
        if self._is_caught_up or (self._is_dry and self._is_told_to_wait):
            return True
        if self.watermarks is None or self.watermarks.idle_after_ms == 0:
            return False
        if self._tells_splits_apart and not self._is_dry:
            # One that has become idle may have been what held event time back.
            self._advance(self._times.slowest_ms)
            return self._times.is_idle
        return now_ms - self._last_read_ms >= self.watermarks.idle_after_ms

    def _newest_ms(self, batch: pa.RecordBatch) -> int | None:
        newest_ms = None if self.watermarks is None else newest_time_ms(batch.column(self.watermarks.column))
        if newest_ms is not None and self._first is None:
            self._first = newest_ms, self.context.clock()
        return newest_ms

    def _advance(self, newest_ms: int | None) -> None:
        if newest_ms is not None and self.watermarks is not None:
            self._watermark.advance(newest_ms - self.watermarks.delay_ms - 1)

    # Alignment, and backlog.

    @property
    def _is_paused(self) -> bool:
        """Whether nothing at all may be read now."""
        is_alone = not (self._tells_splits_apart and self._opened.can_pause_splits)
        limit_ms, own_ms = self._limit_ms, self.watermark_ms
        return is_alone and limit_ms is not None and own_ms is not None and own_ms > limit_ms

    @property
    def _limit_ms(self) -> int | None:
        """The watermark that nothing here may be beyond, or None.

        Until the driver has said where the group is, that counts from the first row, but not for long: others may have
        no rows at all.
        """
        slowest_ms = self._slowest_of_group_ms
        if slowest_ms is None and self._first is not None:
            first_ms, at_ms = self._first
            slowest_ms = first_ms if self._now_ms - at_ms < _GRACE_MS else None
        return None if slowest_ms is None or self.watermarks is None else slowest_ms + self.watermarks.max_drift_ms

    def _align(self, watermarks: Watermarks, now_ms: int) -> None:
        """Report the event time of this subtask if it has changed, and pause and resume splits."""
        gap_ms = _REPORT_GAP_MS if self._has_moved(watermarks) else _REPORT_EVERY_MS
        if now_ms >= self._reported_ms + gap_ms:
            self._report_time(is_idle=self._is_dry or self.is_idle(now_ms))
            self._reported_ms = now_ms
        if self._tells_splits_apart and self._opened.can_pause_splits:
            limit_ms = self._limit_ms
            beyond_ms = None if limit_ms is None else limit_ms + watermarks.delay_ms + 1
            paused = self._times.pause(beyond_ms)
            if paused != self._paused:
                self._paused = paused
                self._opened.pause_splits([msgspec.msgpack.decode(key) for key in sorted(paused)])

    def _has_moved(self, watermarks: Watermarks) -> bool:
        """Whether event time is so far beyond what was reported that others may be waiting for it."""
        reported_ms, own_ms = self._reported[0] if self._reported else None, self.watermark_ms
        return own_ms is not None and (reported_ms is None or 4 * (own_ms - reported_ms) >= watermarks.max_drift_ms)

    def _report_time(self, *, is_idle: bool) -> None:
        report = self.watermark_ms, is_idle
        if report != self._reported:
            self._reported = report
            self.context.send_event({"time": report[0], "idle": report[1]})

    def end(self) -> None:
        """All data has been read: nobody waits for this subtask any more, and it has no backlog."""
        if self.watermarks is not None and self.watermarks.align is not None:
            self._report_time(is_idle=True)
        self._report_backlog(False)

    def _report_backlog(self, has_backlog: bool) -> None:
        if has_backlog != self._has_backlog:
            self._has_backlog = has_backlog
            self.context.send_event({"backlog": has_backlog})

    # Checkpoints.

    def snapshot(self, checkpoint_id: int) -> None:
        """The synchronous part: put the positions into state."""
        entries = self._opened.positions(checkpoint_id)
        if self._tells_splits_apart:
            entries = [(split, at, self._times.newest_ms(_key(split))) for split, at in entries]  # type: ignore[misc]
        self._splits.set(map(msgspec.msgpack.encode, entries))

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        self._opened.checkpoint_completed(checkpoint_id)

    def checkpoint_aborted(self, checkpoint_id: int) -> None:
        self._opened.checkpoint_aborted(checkpoint_id)

    @property
    def draws_lines(self) -> bool:
        """Whether checkpoints start where the reader finds their lines."""
        return self._source.draws_lines

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()

    @property
    def _opened(self) -> SourceReader:
        assert self._reader is not None
        return self._reader


def _key(split: Split) -> bytes:
    """A split as something that can be looked up."""
    return msgspec.msgpack.encode(split)


ChainMember: TypeAlias = Operator | SourceHead
"""What a chain of operators consists of: a source can only be its head."""
