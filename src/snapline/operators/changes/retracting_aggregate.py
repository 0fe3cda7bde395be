"""Aggregates per group over a stream of changes, as changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from snapline.contracts.operator import Operator, OperatorContext
from snapline.errors import ConfigurationError
from snapline.operators.changes.accumulator import Parts
from snapline.operators.changes.aggregate_specs import Aggregate, accumulators
from snapline.operators.changes.changes import (
    DELETE,
    INSERT,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    change_batch,
    weights_of,
    with_change,
    without_change,
)
from snapline.operators.changes.group_changes import AggregateInput, GroupChanges, grouped
from snapline.operators.changes.row_codes import row_codes
from snapline.operators.kept_rows import kept_column, kept_type
from snapline.operators.keyed_batches import decoded, keyed_state
from snapline.state.arrays import Bools, Ints
from snapline.state.batch_keys import Rows
from snapline.state.stable_hash import hash_columns, key_groups

_ROWS = "rows"


class RetractingAggregate(Operator):
    """Keeps aggregates per group, and after each batch emits what has changed.

    The input has inserts only, or changes, as `schema` says; it is keyed by the key columns of a `KeyLayout` of the
    `groups` columns, so null is a group like any other. Aggregates are in `aggregates` by the name of their result.

    Emits the columns of `output_schema`: those of `groups`, the results, and the kind. For each group of a batch:

    - with `before`, an insert when its first row comes, an update before and an update after when a result has changed,
      a delete when its last row has gone; nothing if no result has changed;
    - without, upserts: an insert, then an update after for every batch that has rows of the group, changed or not, and
      a delete.

    Rows that are taken out come first in a batch. Without aggregates it emits the distinct groups. With
    `is_global` there are no groups: there is always one row, also of no rows at all. It is emitted when the first rows
    come, or when the input ends without any, and never deleted.
    """

    def __init__(
        self,
        schema: pa.Schema,
        groups: Sequence[str],
        aggregates: Mapping[str, Aggregate],
        *,
        before: bool,
        is_global: bool = False,
    ) -> None:
        if is_global and groups:
            raise ConfigurationError(f"a global aggregate has no groups; got {', '.join(groups)}")
        self._groups = tuple(groups)
        self._before = before
        self._is_global = is_global
        rows = without_change(schema)
        self._accumulators = accumulators(aggregates, schema)
        fields = [rows.field(name).with_type(kept_type(rows.field(name).type)) for name in self._groups]
        fields += [pa.field(name, item.result) for name, item in self._accumulators.items()]
        self.output_schema = with_change(pa.schema(fields))
        # With the kind in it, state of one aggregate is never taken for that of another.
        self._state_names = [f"{name}/{item.kind}" for name, item in aggregates.items()]
        parts = [
            (f"{name}/{number}", kind)
            for name, item in zip(self._state_names, self._accumulators.values(), strict=True)
            for number, kind in enumerate(item.parts)
        ]
        self._parts = pa.struct([(_ROWS, pa.int64()), *parts])

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._keyed = keyed_state(context, "aggregate")
        self._state = self._keyed.value_state("groups", self._parts)
        for name, accumulator in zip(self._state_names, self._accumulators.values(), strict=True):
            accumulator.open(self._keyed, name)

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        if not batch.num_rows:
            return
        columns = [decoded(batch.column(name)) for name in self.context.key_columns]
        rows, changes = grouped(self._keyed, columns, weights_of(batch))
        self._change(batch, rows, changes, self._stored(changes.keys))

    def _change(
        self, batch: pa.RecordBatch, rows: Ints, changes: GroupChanges, stored: tuple[Ints, list[Parts], Bools]
    ) -> None:
        """Apply the changes of a batch to what is stored of its groups, and emit the outcome.

        `rows` holds a row of each group.
        """
        old_rows, parts, is_known = stored
        was_there = is_known if self._is_global else old_rows > 0
        old = self._results(parts, changes.keys) if self._before and was_there.any() else None
        new_rows = old_rows + changes.totals
        is_there = new_rows > 0
        parts = self._added(parts, AggregateInput(batch, changes))
        new = self._results(parts, changes.keys)
        self._store(changes.keys, new_rows, parts)
        if self._is_global:
            is_there = np.ones(len(new_rows), dtype=np.bool_)
        group_columns = [_normal(kept_column(batch.column(name)).take(pa.array(rows))) for name in self._groups]
        self._emit(group_columns, old, new, was_there, is_there)

    def finish(self) -> None:
        if not self._is_global or not self._owns_the_row():
            return
        columns = [pa.array([0]) for _ in self.context.key_columns]
        keys = self._keyed.keys(columns)
        rows, parts, is_known = self._stored(keys)
        if not is_known[0]:
            self._store(keys, rows, parts)
            there = np.ones(1, dtype=np.bool_)
            self._emit([], None, self._results(parts, keys), ~there, there)

    def _owns_the_row(self) -> bool:
        """Whether the constant key of a global aggregate belongs to this subtask."""
        hashes = hash_columns([pa.array([0]) for _ in self.context.key_columns])
        return int(key_groups(hashes, self._keyed.max_parallelism)[0]) in self._keyed.key_groups

    def _stored(self, keys: Rows) -> tuple[Ints, list[Parts], Bools]:
        """Number of rows and parts of each aggregate by group, zeros for unknown groups, and which are known."""
        stored = self._state.take(keys)
        is_known: Bools = stored.is_valid().to_numpy(zero_copy_only=False)
        arrays = [_numbers(column, is_known) for column in stored.flatten()]
        parts, at = [], 1
        for accumulator in self._accumulators.values():
            parts.append(arrays[at : at + len(accumulator.parts)])
            at += len(accumulator.parts)
        return arrays[0], parts, is_known

    def _added(self, parts: list[Parts], batch: AggregateInput) -> list[Parts]:
        return [item.add(part, batch) for item, part in zip(self._accumulators.values(), parts, strict=True)]

    def _results(self, parts: list[Parts], keys: Rows) -> list[pa.Array]:
        return [item.take(part, keys) for item, part in zip(self._accumulators.values(), parts, strict=True)]

    def _store(self, keys: Rows, rows: Ints, parts: list[Parts]) -> None:
        arrays = [pa.array(column) for column in (rows, *(column for part in parts for column in part))]
        self._state.put(keys, pa.StructArray.from_arrays(arrays, fields=list(self._parts)))
        gone = np.flatnonzero(rows == 0)
        if gone.size and not self._is_global:
            gone_keys = keys.take(gone)
            self._state.delete(gone_keys)
            for accumulator in self._accumulators.values():
                accumulator.delete(gone_keys)

    def _emit(
        self,
        columns: list[pa.Array],
        old: list[pa.Array] | None,
        new: list[pa.Array],
        was_there: Bools,
        is_there: Bools,
    ) -> None:
        both = was_there & is_there
        kinds = [(DELETE, was_there & ~is_there, old), (INSERT, ~was_there & is_there, new)]
        if self._before:
            if old is not None and both.any():
                both &= _differ(old, new)
                kinds = [kinds[0], (UPDATE_BEFORE, both, old), kinds[1], (UPDATE_AFTER, both, new)]
        elif new:
            kinds.append((UPDATE_AFTER, both, new))
        pieces, numbers = [], []
        for kind, flags, results in kinds:
            rows = np.flatnonzero(flags)
            if rows.size:
                # Upserts have no before image: a delete then shows what is left, which only its key matters of.
                arrays = [*columns, *(new if results is None else results)]
                pieces.append(arrays if len(rows) == len(flags) else [array.take(pa.array(rows)) for array in arrays])
                numbers.append(np.full(len(rows), kind, dtype=np.int8))
        if not pieces:
            return
        arrays = pieces[0] if len(pieces) == 1 else [pa.concat_arrays(parts) for parts in zip(*pieces, strict=True)]
        self.context.emit(change_batch(arrays, np.concatenate(numbers), self.output_schema))


def _normal(column: pa.Array) -> pa.Array:
    """Of floats that are one group, the same one each time."""
    if not pa.types.is_floating(column.type):
        return column
    column = pc.add(column, pa.scalar(0, column.type))
    return pc.if_else(pc.is_nan(column), pa.scalar(float("nan"), column.type), column)


def _numbers(column: pa.Array, is_known: Bools) -> Any:
    if not column.null_count:
        return column.to_numpy(zero_copy_only=False)
    return np.where(is_known, pc.fill_null(column, pa.scalar(0, column.type)).to_numpy(zero_copy_only=False), 0)


def _differ(old: list[pa.Array], new: list[pa.Array]) -> Bools:
    """Which rows differ, to the bit."""
    result: Bools = np.zeros(len(old[0]) if old else 1, dtype=np.bool_)
    for left, right in zip(old, new, strict=True):
        if left.type == pa.int64() and not left.null_count and not right.null_count:
            result |= left.to_numpy() != right.to_numpy()
        else:
            codes = row_codes([left], len(left)), row_codes([right], len(right))
            result |= pc.not_equal(*codes).to_numpy(zero_copy_only=False)
    return result
