"""The best row of each partition of a stream without changes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from snapline.contracts.operator import Operator, OperatorContext
from snapline.errors import ConfigurationError
from snapline.operators.changes.changes import (
    INSERT,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    change_batch,
    is_changing,
    with_change,
)
from snapline.operators.changes.rank_order import (
    RankKind,
    SortCodes,
    SortColumn,
    compared,
    first_rows_of,
    sort_codes_of,
)
from snapline.operators.changes.ranked_changes import RankedChanges
from snapline.operators.kept_rows import RowType, kept_column
from snapline.operators.keyed_batches import keyed_state
from snapline.state.arrays import Bools, Ints


def ranked_rows(
    schema: pa.Schema,
    key_columns: Sequence[str],
    order: Sequence[SortColumn],
    limit: int,
    kind: RankKind = RankKind.ROW_NUMBER,
    *,
    rank_column: str | None = None,
    rank_type: pa.DataType | None = None,
) -> RankedChanges | BestRow:
    """The quickest operator that emits the rows whose rank is at most `limit`: see `RankedChanges` for arguments."""
    if limit == 1 and kind is RankKind.ROW_NUMBER and order and not is_changing(schema):
        return BestRow(schema, key_columns, order, rank_column=rank_column, rank_type=rank_type)
    return RankedChanges(schema, key_columns, order, limit, kind, rank_column=rank_column, rank_type=rank_type)


class BestRow(Operator):
    """Emits the first row of each partition by the columns `order`, and puts a better one that comes in its place.

    The input has inserts only and is keyed by the `key_columns` of a `KeyLayout` of the partition columns. Of equal
    rows the one that came first stays. Emits the columns of `output_schema`: those of the input without the key
    columns, the rank, always 1, if it has a name in `rank_column`, and the kind: inserts, and updates before and after.
    State holds one row of each partition.
    """

    def __init__(
        self,
        schema: pa.Schema,
        key_columns: Sequence[str],
        order: Sequence[SortColumn],
        *,
        rank_column: str | None = None,
        rank_type: pa.DataType | None = None,
    ) -> None:
        if is_changing(schema) or not order:
            raise ConfigurationError("the best row alone is kept of rows in an order that are never taken back")
        self._key_columns = tuple(key_columns)
        self._order = tuple(order)
        self._rows = RowType(schema, self._key_columns)
        self._rank_type = None if rank_column is None else rank_type or pa.int64()
        fields = [schema.field(field.name).with_type(field.type) for field in self._rows.fields]
        if rank_column is not None:
            fields.append(pa.field(rank_column, self._rank_type, nullable=False))
        self.output_schema = with_change(pa.schema(fields))

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._keyed = keyed_state(context, "top_n")
        self._best = self._keyed.value_state("best", self._rows.type)

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        if not batch.num_rows:
            return
        keys = self._keyed.keys([kept_column(batch.column(name)) for name in self._key_columns])
        lasts, groups = self._keyed.distinct(keys)
        distinct, rows = keys, self._rows.rows(batch)
        if len(lasts) < len(keys):
            distinct = keys.take(lasts)
            rows = rows.take(pa.array(first_rows_of(self._codes(rows), groups, len(lasts))))
        old = self._best.take(distinct)
        was_there: Bools = old.is_valid().to_numpy(zero_copy_only=False)
        better = np.flatnonzero(self._is_better(old, was_there, rows))
        if not better.size:
            return
        rows = rows.take(pa.array(better))
        self._best.put(distinct.take(better), rows)
        self._emit(old, rows, better, was_there[better])

    def _codes(self, rows: pa.Array) -> SortCodes:
        return sort_codes_of(self._sort_columns(rows), self._order)

    def _sort_columns(self, rows: pa.Array) -> list[pa.Array]:
        arrays = self._rows.arrays(rows, len(rows))
        return [arrays[self._rows.columns.index(by.name)] for by in self._order]

    def _is_better(self, old: pa.Array, was_there: Bools, new: pa.Array) -> Bools:
        """Whether each row comes before the one that is there, if there is one."""
        columns = [
            pa.concat_arrays([left, right])
            for left, right in zip(self._sort_columns(old), self._sort_columns(new), strict=True)
        ]
        codes = sort_codes_of(columns, self._order)
        is_before, _ = compared([code[len(old) :] for code in codes], [code[: len(old)] for code in codes])
        return np.asarray(is_before | ~was_there)

    def _emit(self, old: pa.Array, new: pa.Array, better: Ints, was_there: Bools) -> None:
        replaced = np.flatnonzero(was_there)
        rows = pa.concat_arrays([old.take(pa.array(better[replaced])), new])
        after = np.where(was_there, UPDATE_AFTER, INSERT)
        kinds = np.concatenate([np.full(len(replaced), UPDATE_BEFORE), after]).astype(np.int8)
        arrays = self._rows.arrays(rows, len(rows))
        if self._rank_type is not None:
            arrays.append(pa.array(np.ones(len(rows), dtype=np.int64)).cast(self._rank_type))
        self.context.emit(change_batch(arrays, kinds, self.output_schema))
