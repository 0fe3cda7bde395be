"""One row per key: the first, or the newest."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from snapline.contracts.operator import Operator, OperatorContext
from snapline.operators.keyed_batches import first_rows, keyed_state
from snapline.operators.sort_codes import sort_codes
from snapline.state.arrays import Bools, Ints
from snapline.state.ttl import Ttl


class KeepFirst(Operator):
    """Emits the first row of each key. A key is forgotten `ttl` after its first row."""

    def __init__(self, ttl: Ttl | None = None) -> None:
        self._ttl = ttl

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._keyed = keyed_state(context, "deduplicate")
        self._seen = self._keyed.value_state("seen", pa.bool_(), ttl=self._ttl)

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        if not batch.num_rows:
            return
        keys = self._keyed.keys([batch.column(name) for name in self.context.key_columns])
        seen = self._seen.take(keys)
        if not seen.null_count:
            return
        new = np.flatnonzero(seen.is_null().to_numpy(zero_copy_only=False))
        keys = keys if len(new) == len(keys) else keys.take(new)
        firsts = first_rows(self._keyed, keys)
        self._seen.put(
            keys if len(firsts) == len(keys) else keys.take(firsts), pa.array(np.ones(len(firsts), np.bool_))
        )
        rows = new[firsts]
        self.context.emit(batch if len(rows) == batch.num_rows else batch.take(pa.array(rows)))


class KeepLast(Operator):
    """Emits the newest row of each key in a batch, as an update, unless an earlier batch had a newer one.

    The newest row has the greatest values in the columns `by`, compared in their order, nulls and NaN being least; of
    equal rows, and without `by`, it is the one that arrived last. A key is forgotten `ttl` after its newest row.
    """

    def __init__(self, by: Sequence[pa.Field] = (), ttl: Ttl | None = None) -> None:
        self._by = tuple(by)
        self._ttl = ttl

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._keyed = keyed_state(context, "deduplicate")
        self._newest = None
        if self._by:
            kind = self._by[0].type if len(self._by) == 1 else pa.struct(self._by)
            self._newest = self._keyed.value_state("newest", kind, ttl=self._ttl)

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        if not batch.num_rows:
            return
        keys = self._keyed.keys([batch.column(name) for name in self.context.key_columns])
        lasts, groups = self._keyed.distinct(keys)
        if self._newest is None:
            rows = np.sort(lasts)
        else:
            times = [_without_nan(batch.column(field.name)) for field in self._by]
            rows = _newest_rows(times, lasts, groups)
            chosen = keys if len(rows) == len(keys) else keys.take(rows)
            columns = [column.take(pa.array(rows)) for column in times]
            # As stored in state.
            new = columns[0] if len(columns) == 1 else pa.StructArray.from_arrays(columns, fields=list(self._by))
            changed = np.flatnonzero(_not_less(new, self._newest.take(chosen)))
            rows = rows[changed]
            self._newest.put(
                chosen if len(changed) == len(chosen) else chosen.take(changed), new.take(pa.array(changed))
            )
        if rows.size:
            self.context.emit(batch if len(rows) == batch.num_rows else batch.take(pa.array(rows)))


def _newest_rows(times: Sequence[pa.Array], lasts: Ints, groups: Ints) -> Ints:
    """The row of each distinct key with the greatest times, the last of equal ones; in row order."""
    if len(lasts) == len(groups):
        return np.arange(len(groups))
    codes = [sort_codes(column, descending=True) for column in times]
    if len(codes) == 1 and bool((codes[0][1:] <= codes[0][:-1]).all()):
        return np.sort(lasts)
    # Oldest first, of equal rows the last one last: the last assignment below wins.
    order = len(groups) - 1 - np.lexsort([code[::-1] for code in reversed(codes)])[::-1]
    rows = np.empty(len(lasts), dtype=np.int64)
    rows[groups[order]] = order
    rows.sort()
    return rows


def _not_less(new: pa.Array, old: pa.Array) -> Bools:
    """Whether new values are at least as great as old ones; null is less than any value and equal to null."""
    if not pa.types.is_struct(new.type):
        return _flags(pc.fill_null(pc.greater_equal(new, old), old.is_null()))
    is_greater = _flags(old.is_null())
    is_equal = ~is_greater
    for number in range(new.type.num_fields):
        mine, its = new.field(number), old.field(number)
        is_greater |= is_equal & _flags(pc.fill_null(pc.greater(mine, its), pc.and_(mine.is_valid(), its.is_null())))
        is_equal &= _flags(pc.fill_null(pc.equal(mine, its), pc.and_(mine.is_null(), its.is_null())))
    return is_greater | is_equal


def _flags(array: pa.Array) -> Bools:
    result: Bools = array.to_numpy(zero_copy_only=False)
    return result.copy()


def _without_nan(column: pa.Array) -> pa.Array:
    if not pa.types.is_floating(column.type):
        return column
    return pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
