"""From upserts to changes with before images, and back."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from snapline.contracts.operator import Operator, OperatorContext
from snapline.operators.changes.best_row import BestRow, ranked_rows
from snapline.operators.changes.changes import (
    DELETE,
    INSERT,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    ChangeKind,
    change_batch,
    is_changing,
    kinds_of,
    with_change,
    without_change,
)
from snapline.operators.changes.limit_rows import LimitRows
from snapline.operators.changes.rank_order import SortColumn
from snapline.operators.changes.ranked_changes import RankedChanges
from snapline.operators.changes.row_codes import row_codes
from snapline.operators.kept_rows import RowType
from snapline.operators.keyed_batches import keyed_state
from snapline.state.arrays import Bools, Ints


class ChangesOfUpserts(Operator):
    """Turns rows that replace the last one with the same key into changes with before images.

    The input, keyed by the `key_columns` of a `KeyLayout`, has inserts and updates after, which replace, and deletes,
    of which only the key counts; updates before are ignored, and without a column of kinds every row replaces. Emits
    the columns of `output_schema`: those of the input without the key columns, and the kind. Of several rows with the
    same key in a batch only the last one counts, and a row that replaces an equal one is left out.
    """

    def __init__(self, schema: pa.Schema, key_columns: Sequence[str]) -> None:
        self._key_columns = tuple(key_columns)
        rows = without_change(schema)
        self._rows = RowType(rows, self._key_columns)
        self.output_schema = with_change(
            pa.schema([rows.field(field.name).with_type(field.type) for field in self._rows.fields])
        )

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._keyed = keyed_state(context, "normalise")
        self._last = self._keyed.value_state("last", self._rows.type)

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        kinds = kinds_of(batch)
        if kinds is not None and (kinds == UPDATE_BEFORE).any():
            kept = np.flatnonzero(kinds != UPDATE_BEFORE)
            batch, kinds = batch.take(pa.array(kept)), kinds[kept]
        if not batch.num_rows:
            return
        keys = self._keyed.keys([batch.column(name) for name in self._key_columns])
        lasts, _ = self._keyed.distinct(keys)
        rows = self._rows.rows(batch)
        is_there = np.ones(len(lasts), dtype=np.bool_) if kinds is None else kinds[lasts] != DELETE
        if len(lasts) < len(keys):
            keys, rows = keys.take(lasts), rows.take(pa.array(lasts))
        old = self._last.take(keys)
        was_there: Bools = old.is_valid().to_numpy(zero_copy_only=False)
        there = np.flatnonzero(is_there)
        self._last.put(keys.take(there), rows.take(pa.array(there)))
        self._last.delete(keys.take(np.flatnonzero(~is_there)))
        both = was_there & is_there
        if both.any():
            both &= ~self._are_equal(old, rows)
        self._emit(
            old,
            rows,
            (
                (DELETE, True, was_there & ~is_there),
                (UPDATE_BEFORE, True, both),
                (INSERT, False, ~was_there & is_there),
                (UPDATE_AFTER, False, both),
            ),
        )

    def _are_equal(self, old: pa.Array, new: pa.Array) -> Bools:
        left, right = (row_codes(self._rows.arrays(rows, len(rows)), len(rows)) for rows in (old, new))
        equal: Bools = pc.equal(left, right).to_numpy(zero_copy_only=False)
        return equal

    def _emit(self, old: pa.Array, new: pa.Array, chosen: Sequence[tuple[ChangeKind, bool, Bools]]) -> None:
        pieces: list[pa.Array] = []
        kinds: list[Ints] = []
        for kind, is_old, flags in chosen:
            at = np.flatnonzero(flags)
            if at.size:
                pieces.append((old if is_old else new).take(pa.array(at)))
                kinds.append(np.full(len(at), kind, dtype=np.int8))
        if pieces:
            rows = pa.concat_arrays(pieces)
            self.context.emit(
                change_batch(self._rows.arrays(rows, len(rows)), np.concatenate(kinds), self.output_schema)
            )


class UpsertsOfChanges(Operator):
    """Drops updates before, without state: what is left are upserts by any key that changes never move a row away from.

    That is so for the group columns of an aggregate. Where a row of a key may be deleted after another row of the same
    key was inserted, as behind a join, `latest_rows` goes first.
    """

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        kinds = kinds_of(batch)
        if kinds is None or not (kinds == UPDATE_BEFORE).any():
            if batch.num_rows:
                self.context.emit(batch)
            return
        kept = np.flatnonzero(kinds != UPDATE_BEFORE)
        if kept.size:
            self.context.emit(batch.take(pa.array(kept)))


def latest_rows(schema: pa.Schema, key_columns: Sequence[str]) -> RankedChanges:
    """An operator that keeps all rows of a changing input and shows the latest of each key: it makes a key unique.

    The input is keyed by the `key_columns` of a `KeyLayout`.
    """
    return RankedChanges(schema, key_columns, (), 1, newest_first=True)


def deduplicated(
    schema: pa.Schema, key_columns: Sequence[str], order: Sequence[SortColumn], *, keep_last: bool
) -> RankedChanges | BestRow | LimitRows | ChangesOfUpserts:
    """An operator that keeps one row of each key: the first by `order`, or the last; of equal rows the first to come.

    Without `order` the order of arrival counts. Its `output_schema` has inserts only if its input has, and the first
    rows to arrive are kept.
    """
    if not order and not is_changing(schema):
        return ChangesOfUpserts(schema, key_columns) if keep_last else LimitRows(schema, tuple(key_columns), 1)
    if not order:
        return RankedChanges(schema, key_columns, (), 1, newest_first=keep_last)
    if keep_last:
        order = [SortColumn(by.name, not by.descending, not by.nulls_first) for by in order]
    return ranked_rows(schema, key_columns, order, 1)
