"""Joins of two streams by key and by the distance of rows in event time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from snapline.contracts.operator import Operator, OperatorContext
from snapline.operators.event_time import SavedWatermark, ticks_per_ms, times
from snapline.operators.joins.join_rows import LEFT, MAX_ROWS, NAMES, RIGHT, JoinLayout, KeptSide, Pairs
from snapline.operators.keyed_batches import keyed_state
from snapline.state.arrays import Bools, Ints
from snapline.state.batch_keys import Rows
from snapline.state.collection_states import ListState
from snapline.state.timers import TimeDomain
from snapline.types import MAX_WATERMARK

_MIN_BUCKET_MS = 100
_MAX_CODE = 1 << 62


@dataclass(frozen=True, slots=True)
class Interval:
    """A left row joins the right rows that are at least `lower_ms` and at most `upper_ms` later."""

    lower_ms: int
    upper_ms: int

    @property
    def bucket_ms(self) -> int:
        """The length of the buckets of time that rows are stored in; partners of a row are in at most two of them."""
        return max(self.upper_ms - self.lower_ms, _MIN_BUCKET_MS)

    def reach_ms(self, side: int) -> tuple[int, int]:
        """The least and the greatest delay of the partners of a row of a side."""
        return (self.lower_ms, self.upper_ms) if side == LEFT else (-self.upper_ms, -self.lower_ms)


@dataclass(frozen=True, slots=True)
class _Arrived:
    """The rows of a batch that are not late, with their keys and times."""

    side: int
    columns: list[pa.Array]
    rows: pa.Array
    keys: Rows
    ticks: Ints
    has_met: Bools


class JoinIntervals(Operator):
    """Joins rows of the same key whose times are close enough, and deletes rows that can get no more partners.

    `time_columns` are the time columns of both sides; `padded` says for each side whether rows that got no partner are
    emitted in the end. Late rows go to the side outputs `late_left` and `late_right`. Emitted rows may be older than
    the incoming watermark, so the outgoing one is delayed accordingly.
    """

    makes_watermarks = True

    def __init__(
        self, layout: JoinLayout, interval: Interval, time_columns: tuple[str, str], padded: tuple[bool, bool]
    ) -> None:
        self._layout = layout
        self._interval = interval
        self._time_columns = time_columns
        self._padded = padded
        kinds = [
            kind.fields[kind.columns.index(name)].type for kind, name in zip(layout.sides, time_columns, strict=True)
        ]
        self._ticks = max(map(ticks_per_ms, kinds))
        self._bucket = interval.bucket_ms * self._ticks
        held_ms = interval.bucket_ms if any(padded) else 0
        self._delay_ms = max(interval.upper_ms, -interval.lower_ms, 0) + held_ms

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._keyed = keyed = keyed_state(context, "interval_join")
        self._what = [f"interval_join {context.uid!r}, the {name} side" for name in NAMES]
        left, right = (
            KeptSide(keyed, side, kind.type, splits_alone=self._padded[side], namespace=pa.int64())
            for side, kind in enumerate(self._layout.sides)
        )
        self._sides = left, right
        self._timers = keyed.timers(namespace=pa.int64())
        self._watermark = SavedWatermark(context, older_list="watermark")

    # Rows.

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        arrived = self._arrived(batch, input_index)
        if arrived is None:
            return
        other = self._sides[1 - arrived.side]
        probes, buckets = self._probes(arrived)
        keys = arrived.keys.take(probes)
        for state in other.states():
            self._meet(arrived, other, state, probes, keys, buckets)
        self._keep(arrived)

    def _arrived(self, batch: pa.RecordBatch, side: int) -> _Arrived | None:
        """The rows that are not late, or None if all are."""
        name = self._time_columns[side]
        ticks = times(batch.column(name), name, self._what[side], self._ticks, batch)
        is_late = ticks < (self._watermark.ms + 1) * self._ticks if self._watermark.ms > -MAX_WATERMARK else None
        if is_late is not None and is_late.any():
            self.late_rows += int(np.count_nonzero(is_late))
            self.context.emit_to(f"late_{NAMES[side]}", batch.filter(pa.array(is_late)))
            batch, ticks = batch.filter(pa.array(~is_late)), ticks[~is_late]
        if not batch.num_rows:
            return None
        kind = self._layout.sides[side]
        columns = kind.keys(batch)
        has_met = np.zeros(batch.num_rows, dtype=np.bool_)
        return _Arrived(side, columns, kind.rows(batch), self._keyed.keys(columns), ticks, has_met)

    def _probes(self, arrived: _Arrived) -> tuple[Ints, Ints]:
        """Which rows to look up in which bucket."""
        first, last = (
            (arrived.ticks + reach_ms * self._ticks) // self._bucket
            for reach_ms in self._interval.reach_ms(arrived.side)
        )
        again = np.flatnonzero(last > first)
        return np.concatenate([np.arange(len(first)), again]), np.concatenate([first, last[again]])

    def _meet(
        self, arrived: _Arrived, other: KeptSide, state: ListState, probes: Ints, keys: Rows, buckets: Ints
    ) -> None:
        """Emit the pairs of rows with rows in a state of the other side, and mark the rows that got a partner."""
        namespaces = pa.array(buckets)
        spans = state.spans(keys, namespaces)
        if not len(spans.values):
            return
        side = 1 - arrived.side
        name = self._time_columns[side]
        column = spans.values.field(self._layout.sides[side].columns.index(name))
        ticks = times(column, name, self._what[side], self._ticks)
        from_, to = (reach_ms * self._ticks for reach_ms in self._interval.reach_ms(arrived.side))
        wanted, bases = arrived.ticks[probes], buckets * self._bucket
        order, starts, ends = _ranges(
            spans.starts[spans.rows],
            ticks - bases[spans.rows],
            spans.starts,
            np.clip(wanted + from_ - bases, 0, self._bucket),
            np.clip(wanted + to - bases, -1, self._bucket - 1),
            self._bucket + 1,
        )
        has_been_met = np.zeros(len(spans.values), dtype=np.bool_)
        for numbers, found in Pairs(starts, np.where(spans.counts > 0, ends - starts, 0)):
            mine, theirs = probes[numbers], order[found]
            arrived.has_met[mine] = True
            has_been_met[theirs] = True
            at = pa.array(mine)
            parts = arrived.rows.take(at), spans.values.take(pa.array(theirs))
            left, right = parts if arrived.side == LEFT else parts[::-1]
            self.context.emit(self._layout.batch([column.take(at) for column in arrived.columns], left, right))
        if state is other.alone and has_been_met.any():
            other.met(keys, spans, has_been_met, namespaces)

    def _keep(self, arrived: _Arrived) -> None:
        """Store rows that may still get partners."""
        buckets = arrived.ticks // self._bucket
        gone_ms = self._gone_ms(arrived.side, buckets)
        is_kept = gone_ms > self._watermark.ms
        kept, side = np.flatnonzero(is_kept), arrived.side
        if len(kept) == len(buckets):
            keys, rows = arrived.keys, arrived.rows
        else:
            if self._padded[side]:
                self._emit_alone(side, arrived.columns, arrived.rows, np.flatnonzero(~is_kept & ~arrived.has_met))
            keys, rows = arrived.keys.take(kept), arrived.rows.take(pa.array(kept))
        if kept.size:
            namespaces = pa.array(buckets[kept])
            self._sides[side].add(keys, rows, arrived.has_met[kept], namespaces)
            self._timers.register_all(TimeDomain.EVENT, keys, pa.array(gone_ms[kept]), namespaces)

    def _gone_ms(self, side: int, buckets: Ints) -> Ints:
        """The watermark from which rows in these buckets can get no more partners."""
        last_ms = (buckets + 1) * self._interval.bucket_ms - 1
        result: Ints = last_ms + self._interval.reach_ms(side)[1]
        return result

    def _emit_alone(self, side: int, columns: list[pa.Array], rows: pa.Array, chosen: Ints) -> None:
        if chosen.size:
            at = pa.array(chosen)
            self.context.emit(self._layout.one_sided(side, [column.take(at) for column in columns], rows.take(at)))

    # Time.

    def watermark(self, timestamp_ms: int) -> None:
        while (due := self._timers.due(TimeDomain.EVENT, timestamp_ms, MAX_ROWS)) is not None:
            assert due.namespaces is not None
            for side in (LEFT, RIGHT):
                chosen = np.flatnonzero(due.times == self._gone_ms(side, due.namespaces.to_numpy()))
                if chosen.size:
                    at = pa.array(chosen)
                    self._forget(side, due.keys.take(at), due.rows.take(chosen), due.namespaces.take(at))
        self._watermark.advance(timestamp_ms)
        if timestamp_ms != MAX_WATERMARK:
            self.context.emit_watermark(timestamp_ms - self._delay_ms)

    def _forget(self, side: int, key_values: pa.Array, keys: Rows, namespaces: pa.Array) -> None:
        kept = self._sides[side]
        if kept.alone is not None:
            spans = kept.alone.spans(keys, namespaces)
            columns = [column.take(pa.array(spans.rows)) for column in self._keyed.key.columns(key_values)]
            for first in range(0, len(spans.rows), MAX_ROWS):
                chosen = np.arange(first, min(first + MAX_ROWS, len(spans.rows)))
                self._emit_alone(side, columns, spans.values, chosen)
        kept.delete(keys, namespaces)


def _ranges(
    groups: Ints, offsets: Ints, wanted: Ints, lowest: Ints, highest: Ints, width: int
) -> tuple[Ints, Ints, Ints]:
    """The order of elements by group and offset, and for each wanted group the range of offsets lowest to highest.

    All offsets, and `highest` + 1, are less than `width`.
    """
    if (len(groups) + 1) * width > _MAX_CODE:
        # Codes would overflow; ranks of offsets order alike.
        known, numbers = np.unique(offsets, return_inverse=True)
        lowest, highest = np.searchsorted(known, lowest), np.searchsorted(known, highest, side="right") - 1
        offsets, width = numbers, len(known) + 1
    codes = groups * width + offsets
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    starts = np.searchsorted(ordered, wanted * width + lowest)
    ends = np.searchsorted(ordered, wanted * width + highest, side="right")
    return order, starts, np.maximum(starts, ends)
