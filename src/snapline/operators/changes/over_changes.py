"""Window functions over partitions that change: results are computed anew, and what differs is emitted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from snapline.contracts.operator import Operator, OperatorContext
from snapline.operators.changes.changes import (
    CHANGE,
    change_batch,
    is_changing,
    signed,
    surviving_rows,
    weights_of,
    with_change,
)
from snapline.operators.changes.join_sides import net_rows
from snapline.operators.changes.over_frames import in_order
from snapline.operators.changes.over_functions import OverFunction, computed
from snapline.operators.changes.rank_order import SortColumn
from snapline.operators.changes.ranked_entries import RankedEntries, appended_entries, merged_entries
from snapline.operators.changes.row_codes import row_codes
from snapline.operators.changes.sequence_numbers import SequenceNumbers
from snapline.operators.kept_rows import RowType, kept_column
from snapline.operators.keyed_batches import keyed_state
from snapline.state.arrays import Ints
from snapline.state.batch_keys import Rows

_EMIT_ROWS = 65_536


def output_schema(schema: pa.Schema, key_columns: Sequence[str], functions: Mapping[str, OverFunction]) -> pa.Schema:
    """The rows of `schema` without keys and kinds of change, and the results of functions by their names."""
    names = [name for name in schema.names if name not in key_columns and name != CHANGE]
    rows = RowType(pa.schema([schema.field(name) for name in names]), ())
    fields = [schema.field(field.name).with_type(field.type) for field in rows.fields]
    return pa.schema([*fields, *(pa.field(name, each.result) for name, each in functions.items())])


class OverChanges(Operator):
    """Emits each row with the results of window functions, and takes it back when another row changes them.

    The input has inserts only, or changes, as `schema` says; it is keyed by the `key_columns` of a `KeyLayout` of the
    partition columns. Rows are ordered by the columns `order`, equal ones by arrival. Emits the columns of
    `output_schema` as inserts and deletes, deletes first.

    State holds all rows. A batch costs as much as there are rows in the partitions that it has rows of.
    """

    def __init__(
        self,
        schema: pa.Schema,
        key_columns: Sequence[str],
        order: Sequence[SortColumn],
        functions: Mapping[str, OverFunction],
    ) -> None:
        self._key_columns = tuple(key_columns)
        self._order = tuple(order)
        self._functions = dict(functions)
        self._changing = is_changing(schema)
        names = [name for name in schema.names if name not in self._key_columns and name != CHANGE]
        self._rows = RowType(pa.schema([schema.field(name) for name in names]), ())
        self._schema = pa.schema(self._rows.fields)
        for function in self._functions.values():
            function.check(self._schema)
        self.output_schema = with_change(output_schema(schema, key_columns, functions))

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._keyed = keyed_state(context, "window")
        stored = [("count", pa.int64()), ("sequence", pa.int64()), pa.field("row", self._rows.type)]
        self._stored = pa.struct(stored)
        # Rows that are only added need not be found again: their sequence number identifies them.
        self._entries = self._keyed.map_state("rows", pa.binary() if self._changing else pa.int64(), self._stored)
        self._numbers = SequenceNumbers(self._keyed, "next")

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        if not batch.num_rows:
            return
        every = self._keyed.keys([kept_column(batch.column(name)) for name in self._key_columns])
        lasts, groups = self._keyed.distinct(every)
        keys = every if len(lasts) == len(every) else every.take(lasts)
        rows = self._rows.rows(batch)
        at, codes, stored = self._entries.entries(keys)
        counts, sequence, known = stored.flatten()
        old = RankedEntries(at, codes, counts.to_numpy(), sequence.to_numpy(), known)
        if self._changing:
            entries, before, changed = merged_entries(old, self._changes(keys, rows, groups, weights_of(batch)))
        else:
            ones = np.ones(len(groups), dtype=np.int64)
            numbers = self._numbers.take(keys, groups)
            added = RankedEntries(groups, pa.array(numbers), ones, numbers, rows)
            entries, before, changed = appended_entries(old, added)
        if not changed.size:
            return
        self._put(keys, entries.take(changed))
        self._forget(keys, entries)
        self._emit(entries, before)

    def _changes(self, keys: Rows, rows: pa.Array, groups: Ints, weights: Ints | None) -> RankedEntries:
        codes = row_codes(self._rows.arrays(rows, len(rows)), len(rows))
        at, net = net_rows(groups, codes, weights)
        rows, groups, codes = rows.take(pa.array(at)), groups[at], codes.take(pa.array(at))
        numbers, added = np.zeros(len(net), dtype=np.int64), np.flatnonzero(net > 0)
        numbers[added] = self._numbers.take(keys, groups[added])
        return RankedEntries(groups, codes, net, numbers, rows)

    def _put(self, keys: Rows, entries: RankedEntries) -> None:
        values = pa.StructArray.from_arrays(
            [pa.array(entries.counts), pa.array(entries.sequence), entries.rows],
            fields=list(self._stored),
            mask=pa.array(entries.counts == 0),
        )
        self._entries.put_all(keys.take(entries.groups), entries.codes, values)

    def _forget(self, keys: Rows, entries: RankedEntries) -> None:
        """Drop the sequence numbers of partitions that have no rows any more."""
        empty = np.flatnonzero(np.bincount(entries.groups[entries.counts != 0], minlength=len(keys)) == 0)
        if empty.size:
            self._numbers.forget(keys.take(empty))

    def _emit(self, entries: RankedEntries, before: Ints) -> None:
        old, new = self._results(entries, before), self._results(entries, entries.counts)
        arrays = [pa.concat_arrays(pair) for pair in zip(old, new, strict=True)]
        weights = np.concatenate([np.full(len(old[0]), -1), np.ones(len(new[0]), dtype=np.int64)])
        kept = surviving_rows(row_codes(arrays, len(weights)), weights)
        for start in range(0, len(kept), _EMIT_ROWS):
            some = kept[start : start + _EMIT_ROWS]
            at = pa.array(some)
            self.context.emit(
                change_batch([array.take(at) for array in arrays], signed(weights[some]), self.output_schema)
            )

    def _results(self, entries: RankedEntries, counts: Ints) -> list[pa.Array]:
        """The rows, each as often as `counts` says, with their results."""
        at = np.repeat(np.arange(len(counts)), np.maximum(counts, 0))
        arrays = self._rows.arrays(entries.rows.take(pa.array(at)), len(at))
        columns = dict(zip(self._rows.columns, arrays, strict=True))
        _, ordered = in_order(entries.groups[at], columns, self._order, entries.sequence[at])
        results = [computed(function, ordered, self._schema) for function in self._functions.values()]
        return [*ordered.columns.values(), *results]
