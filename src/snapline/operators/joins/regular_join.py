"""Joins of two streams by key over all rows so far."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from snapline.contracts.operator import Operator, OperatorContext
from snapline.errors import UserCodeError
from snapline.operators.bad_rows import row_at_fault
from snapline.operators.joins.join_rows import LEFT, JoinLayout, KeptSide, Pairs
from snapline.operators.keyed_batches import keyed_state
from snapline.operators.projection import Evaluation
from snapline.state.arrays import Bools, Ints
from snapline.state.batch_keys import Rows
from snapline.state.collection_states import ListState, Spans
from snapline.state.ttl import Ttl
from snapline.text import explanation, for_row

INSERT, DELETE = "insert", "delete"


class JoinStreams(Operator):
    """Joins every row with all rows of the other side that have the same key, whichever arrives first.

    `padded` says for each side whether its rows are also emitted without a partner, until they get one; if any side is
    padded, the last column says whether a row is inserted or deleted. Pairs must also satisfy `where`.
    """

    def __init__(
        self, layout: JoinLayout, padded: tuple[bool, bool], ttl: Ttl | None = None, where: pc.Expression | None = None
    ) -> None:
        self._layout = layout
        self._padded = padded
        self._ttl = ttl
        self._condition = where

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._keyed = keyed = keyed_state(context, "join")
        left, right = (
            KeptSide(keyed, side, kind.type, splits_alone=self._padded[side], ttl=self._ttl)
            for side, kind in enumerate(self._layout.sides)
        )
        self._sides = left, right
        self._where = None if self._condition is None else Evaluation([self._condition])

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        if not batch.num_rows:
            return
        side, other = input_index, 1 - input_index
        kind = self._layout.sides[side]
        columns, rows = kind.keys(batch), kind.rows(batch)
        keys = self._keyed.keys(columns)
        has_met = np.zeros(batch.num_rows, dtype=np.bool_)
        if not self._padded[side]:
            # Ahead of the search, which then finds the keys looked up already.
            self._sides[side].add(keys, rows, has_met)
        for state in self._sides[other].states():
            self._meet(side, columns, rows, keys, state, has_met)
        if self._padded[side]:
            alone = np.flatnonzero(~has_met)
            self._emit_alone(side, [column.take(pa.array(alone)) for column in columns], rows, alone, INSERT)
            self._sides[side].add(keys, rows, has_met)

    def _meet(
        self, side: int, columns: list[pa.Array], rows: pa.Array, keys: Rows, state: ListState, has_met: Bools
    ) -> None:
        """Emit the pairs of rows with rows in a state of the other side, and mark the rows that got a partner."""
        spans = state.spans(keys)
        pairs = Pairs(spans.starts, spans.counts)
        if not pairs.count:
            return
        other, is_alone = self._sides[1 - side], state is self._sides[1 - side].alone
        has_been_met = np.zeros(len(spans.values), dtype=np.bool_)
        joined = []
        for mine, theirs in pairs:
            batch, chosen = self._joined(side, columns, rows, spans, mine, theirs)
            has_met[mine[chosen]] = True
            has_been_met[theirs[chosen]] = True
            if is_alone:
                joined.append(batch)
            elif batch.num_rows:
                self.context.emit(batch)
        if not is_alone:
            return
        # Deletions are emitted ahead of the pairs that replace them.
        deleted = np.flatnonzero(has_been_met)
        of_keys = pa.array(spans.rows[deleted])
        self._emit_alone(1 - side, [column.take(of_keys) for column in columns], spans.values, deleted, DELETE)
        for batch in joined:
            if batch.num_rows:
                self.context.emit(batch)
        if deleted.size:
            other.met(keys, spans, has_been_met)

    def _joined(
        self, side: int, columns: list[pa.Array], rows: pa.Array, spans: Spans, mine: Ints, theirs: Ints
    ) -> tuple[pa.RecordBatch, Ints | slice]:
        """The pairs that satisfy the condition, and which of the given pairs they are."""
        at = pa.array(mine)
        parts = rows.take(at), spans.values.take(pa.array(theirs))
        left, right = parts if side == LEFT else parts[::-1]
        batch = self._layout.batch([column.take(at) for column in columns], left, right, self._change(INSERT, len(at)))
        if self._where is None:
            return batch, slice(None)
        try:
            (mask,) = self._where.arrays(batch)
        except pa.ArrowException as error:
            row = for_row(row_at_fault(self._where.arrays, batch))
            raise UserCodeError(f"join {self.context.uid!r}: where= failed: {explanation(error)}{row}") from error
        chosen = np.flatnonzero(pc.fill_null(mask, False).to_numpy(zero_copy_only=False))
        return batch.take(pa.array(chosen)), chosen

    def _emit_alone(self, side: int, columns: list[pa.Array], rows: pa.Array, chosen: Ints, change: str) -> None:
        if chosen.size:
            taken = rows.take(pa.array(chosen))
            self.context.emit(self._layout.one_sided(side, columns, taken, self._change(change, len(taken))))

    def _change(self, change: str, count: int) -> list[pa.Array]:
        return [pa.repeat(change, count)] if any(self._padded) else []
