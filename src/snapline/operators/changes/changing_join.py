"""Joins of two streams of changes, as changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from snapline.contracts.operator import Operator, OperatorContext
from snapline.operators.changes.changes import change_batch, retractions, signed, with_change
from snapline.operators.changes.join_sides import (
    AppendedRows,
    CountedRows,
    FoundRows,
    JoinSide,
    SideChanges,
    SideRows,
    repeated,
)
from snapline.operators.joins.join_rows import LEFT, NAMES, RIGHT, Pairs
from snapline.operators.keyed_batches import keyed_state
from snapline.state.arrays import Bools, Ints
from snapline.state.batch_keys import Rows
from snapline.state.collection_states import MapState
from snapline.state.value_states import ValueState

Condition: TypeAlias = Callable[[pa.RecordBatch], pa.Array]
"""Takes candidate pairs and returns a boolean for each; null counts as false.

The columns are those of the left and then of the right side, or some of them, as `needed` of `JoinChanges` says. It is
pickled with the job, and must give the same answer for the same pair each time."""


class JoinKind(StrEnum):
    INNER = "inner"
    LEFT = "left"
    RIGHT = "right"
    FULL = "full"
    SEMI = "semi"
    ANTI = "anti"


_ALONE = {
    JoinKind.LEFT: (True, False),
    JoinKind.RIGHT: (False, True),
    JoinKind.FULL: (True, True),
    JoinKind.ANTI: (True, False),
}
"""Whether rows of each side are emitted while they have no partner."""


class JoinChanges(Operator):
    """Joins two inputs, each with inserts only or with changes, whichever row arrives first.

    Rows are partners if their key columns are equal, no column `never_null` is null, and `condition`, if given, holds
    for the pair. Emits, as multisets: for INNER all pairs; for LEFT, RIGHT and FULL also the rows of that side, or of
    both, without partners, with nulls for the other side; for SEMI the left rows with a partner, once each; for ANTI
    those without.

    Emits the columns of `output_schema`: those of the left side, then, except for SEMI and ANTI, those of the right
    side, then, unless `output_schema` has inserts only, the kind: inserts and deletes, in a batch deletes first. Only
    INNER and SEMI of two inputs without changes have inserts only. `names` are other names for the columns of both
    sides, in the output and for the condition. `needed` are the numbers of the columns of pairs that it gets, at least
    one; by default all.

    The first input is the left one. Both are keyed by the key columns of their `JoinSide`, whose types must be equal.
    """

    def __init__(
        self,
        kind: JoinKind,
        left: JoinSide,
        right: JoinSide,
        *,
        condition: Condition | None = None,
        names: Sequence[str] | None = None,
        needed: Sequence[int] | None = None,
    ) -> None:
        self._kind = kind
        self._sides = left, right
        self._condition = condition
        self._alone = _ALONE.get(kind, (False, False))
        self._watched = (True, False) if kind is JoinKind.SEMI else self._alone
        self._emits_pairs = kind not in (JoinKind.SEMI, JoinKind.ANTI)
        given = [*left.fields, *right.fields]
        fields = [field.with_name(name) for field, name in zip(given, names, strict=True)] if names else given
        self._needed = tuple(range(len(fields)) if needed is None else needed)
        self._needed_names = [fields[number].name for number in self._needed]
        shown = fields if self._emits_pairs else fields[: len(left.fields)]
        padded = (
            [self._alone[1 - (number >= len(left.fields))] for number in range(len(shown))]
            if self._emits_pairs
            else [False] * len(shown)
        )
        rows = pa.schema(
            [field.with_nullable(field.nullable or nulls) for field, nulls in zip(shown, padded, strict=True)]
        )
        self._is_changing = any(self._alone) or left.is_changing or right.is_changing
        self.output_schema = with_change(rows) if self._is_changing else rows

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._keyed = keyed = keyed_state(context, "join")
        self._rows: list[SideRows] = []
        self._totals: list[ValueState | None] = []
        self._matches: list[MapState | None] = []
        for number, side in enumerate(self._sides):
            name = NAMES[number]
            counts_matches = self._watched[number] and self._condition is not None
            is_counted = side.is_changing or counts_matches
            self._rows.append((CountedRows if is_counted else AppendedRows)(keyed, name, side))
            # Without a condition a row has partners if the other side has any rows of its key.
            counts_rows = self._watched[1 - number] and self._condition is None
            self._totals.append(keyed.value_state(f"{name} total", pa.int64()) if counts_rows else None)
            self._matches.append(
                keyed.map_state(f"{name} matches", pa.binary(), pa.int64()) if counts_matches else None
            )

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        if not batch.num_rows:
            return
        side = input_index
        self._held: list[pa.RecordBatch] = []
        chosen = self._partnerable(side, batch)
        if chosen is None or chosen.size:
            changes = self._rows[side].changes(batch, chosen, self._keyed)
            if len(changes.rows):
                self._join(side, changes)
        for held in self._held:
            self.context.emit(held)
        self._held.clear()

    def _partnerable(self, side: int, batch: pa.RecordBatch) -> Ints | None:
        """The rows that may have a partner, None for all. The others are emitted if they are to be."""
        is_null: Bools | None = None
        for name in self._sides[side].never_null:
            column = batch.column(name)
            if column.null_count:
                flags = column.is_null().to_numpy(zero_copy_only=False)
                is_null = flags if is_null is None else is_null | flags
        if is_null is None:
            return None
        if self._alone[side]:
            rows = np.flatnonzero(is_null)
            taken = batch.take(pa.array(rows))
            flags_out = retractions(taken)
            weights = np.ones(len(rows), dtype=np.int64)
            if flags_out is not None:
                # In order of arrival: a row may come and go within the batch.
                weights[flags_out] = -1
            self._emit_in_order(self._side_arrays(side, self._sides[side].row_type.rows(taken)), weights)
        return np.flatnonzero(~is_null)

    def _join(self, side: int, changes: SideChanges) -> None:
        other = 1 - side
        found = self._found(side, changes)
        met = np.zeros(len(changes.rows), dtype=np.int64)
        gained: Ints | None = None
        if found is not None:
            gained = np.zeros(len(found.rows), dtype=np.int64)
            self._pair(side, changes, found, met, gained)
        if self._watched[side]:
            if self._condition is None:
                met = self._partners(other, changes, found)[changes.groups]
            self._emit_own(side, changes, met)
        if self._watched[other]:
            if self._condition is None:
                self._turn_keys(other, changes, found)
            elif found is not None and gained is not None:
                self._turn_rows(other, changes.keys, found, gained)
        is_gone = self._rows[side].apply(changes)
        matches = self._matches[side]
        if matches is not None:
            matches.put_all(changes.keys.take(changes.groups), changes.codes, pa.array(met, mask=is_gone))

    def _found(self, side: int, changes: SideChanges) -> FoundRows | None:
        """The rows of the other side with the keys of changes, if pairs have to be looked at."""
        if not self._emits_pairs and self._condition is None:
            return None
        return self._rows[1 - side].find(changes.keys)

    def _pair(self, side: int, changes: SideChanges, found: FoundRows, met: Ints, gained: Ints) -> None:
        """Emit pairs; count the partners in `met`, and what rows of the other side gain in `gained`."""
        for candidates in Pairs(found.starts[changes.groups], found.counts[changes.groups]):
            arrays, mine, theirs = self._partner_pairs(side, changes, found, *candidates)
            if self._condition is not None:
                np.add.at(met, mine, found.weights[theirs])
                np.add.at(gained, theirs, changes.weights[mine])
            if self._emits_pairs:
                self._emit(arrays, changes.weights[mine] * found.weights[theirs])

    def _partner_pairs(
        self, side: int, changes: SideChanges, found: FoundRows, mine: Ints, theirs: Ints
    ) -> tuple[list[pa.Array], Ints, Ints]:
        """The columns of the pairs for which the condition holds, and which rows they are made of."""
        if self._condition is not None:
            pairs = self._needed_pairs(side, changes.rows, found.rows, mine, theirs)
            answers = self._condition(pairs)
            kept = np.flatnonzero(pc.fill_null(answers, False).to_numpy(zero_copy_only=False))
            if len(kept) < len(mine):
                mine, theirs = mine[kept], theirs[kept]
        if not self._emits_pairs:
            return [], mine, theirs
        return (
            self._pair_arrays(side, changes.rows.take(pa.array(mine)), found.rows.take(pa.array(theirs))),
            mine,
            theirs,
        )

    def _needed_pairs(
        self, side: int, my_rows: pa.Array, their_rows: pa.Array, mine: Ints, theirs: Ints
    ) -> pa.RecordBatch:
        """The columns of pairs that the condition reads."""
        indices = [pa.array(mine), pa.array(theirs)][:: 1 if side == LEFT else -1]
        rows = [my_rows, their_rows][:: 1 if side == LEFT else -1]
        arrays = [each.row_type.arrays(given, len(given)) for each, given in zip(self._sides, rows, strict=True)]
        columns = [(array, at) for found, at in zip(arrays, indices, strict=True) for array in found]
        taken = [columns[number][0].take(columns[number][1]) for number in self._needed]
        return pa.RecordBatch.from_arrays(taken, names=self._needed_names)

    def _pair_arrays(self, side: int, mine: pa.Array, theirs: pa.Array) -> list[pa.Array]:
        left, right = (mine, theirs) if side == LEFT else (theirs, mine)
        count = len(mine)
        return [*self._sides[LEFT].row_type.arrays(left, count), *self._sides[RIGHT].row_type.arrays(right, count)]

    def _side_arrays(self, side: int, rows: pa.Array) -> list[pa.Array]:
        """The output columns of rows of one side alone."""
        if not self._emits_pairs:
            return self._sides[LEFT].row_type.arrays(rows, len(rows))
        left, right = (rows, None) if side == LEFT else (None, rows)
        count = len(rows)
        return [*self._sides[LEFT].row_type.arrays(left, count), *self._sides[RIGHT].row_type.arrays(right, count)]

    def _partners(self, side: int, changes: SideChanges, found: FoundRows | None) -> Ints:
        """The number of rows of a side by the keys of changes of the other one."""
        if found is not None:
            return found.totals
        totals = self._totals[side]
        assert totals is not None
        counts: Ints = pc.fill_null(totals.take(changes.keys), 0).to_numpy(zero_copy_only=False)
        return counts

    def _emit_own(self, side: int, changes: SideChanges, met: Ints) -> None:
        """Emit changed rows that are shown by themselves, by how many partners they have."""
        rows = np.flatnonzero((met > 0) != self._alone[side])
        if rows.size:
            chosen = changes.rows if len(rows) == len(met) else changes.rows.take(pa.array(rows))
            self._emit(self._side_arrays(side, chosen), changes.weights[rows])

    def _turn_keys(self, other: int, changes: SideChanges, found: FoundRows | None) -> None:
        """Count the rows of changed keys; emit the other side's rows of keys that have got partners or lost them."""
        totals = self._totals[1 - other]
        assert totals is not None
        old = pc.fill_null(totals.take(changes.keys), 0).to_numpy(zero_copy_only=False)
        new = old + changes.totals
        totals.put(changes.keys, pa.array(new, mask=new == 0))
        turned = np.flatnonzero((old > 0) != (new > 0))
        if not turned.size:
            return
        signs = np.where((new > 0) != self._alone[other], 1, -1)
        if found is None:
            found = self._rows[other].find(changes.keys.take(turned))
            groups, rows = turned[found.groups], np.arange(len(found.rows))
        else:
            is_turned = np.zeros(len(old), dtype=np.bool_)
            is_turned[turned] = True
            rows = np.flatnonzero(is_turned[found.groups])
            groups = found.groups[rows]
        if rows.size:
            self._emit(self._side_arrays(other, found.rows.take(pa.array(rows))), signs[groups] * found.weights[rows])

    def _turn_rows(self, other: int, keys: Rows, found: FoundRows, gained: Ints) -> None:
        """Count the partners of the other side's rows; emit those that have got their first or lost their last."""
        rows = np.flatnonzero(gained)
        matches = self._matches[other]
        if not rows.size or matches is None or found.codes is None:
            return
        owners, codes = keys.take(found.groups[rows]), found.codes.take(pa.array(rows))
        old = pc.fill_null(matches.take(owners, codes), 0).to_numpy(zero_copy_only=False)
        new = old + gained[rows]
        matches.put_all(owners, codes, pa.array(new))
        turned = np.flatnonzero((old > 0) != (new > 0))
        if turned.size:
            signs = np.where((new[turned] > 0) != self._alone[other], 1, -1)
            at = rows[turned]
            self._emit(self._side_arrays(other, found.rows.take(pa.array(at))), signs * found.weights[at])

    def _emit(self, arrays: list[pa.Array], weights: Ints) -> None:
        """Emit rows as often as their weights say: deletes at once, inserts when there are no more deletes."""
        if not weights.size:
            return
        if not self._is_changing:
            rows, _ = repeated(weights)
            arrays = arrays if rows is None else [array.take(pa.array(rows)) for array in arrays]
            self.context.emit(pa.RecordBatch.from_arrays(arrays, schema=self.output_schema))
            return
        is_delete = weights < 0
        for chosen, emit in (
            (np.flatnonzero(is_delete), self.context.emit),
            (np.flatnonzero(~is_delete), self._held.append),
        ):
            if chosen.size:
                rows, signs = repeated(weights[chosen])
                at = chosen if rows is None else chosen[rows]
                taken = (
                    arrays if len(chosen) == len(weights) and rows is None else [a.take(pa.array(at)) for a in arrays]
                )
                emit(change_batch(taken, signed(signs), self.output_schema))

    def _emit_in_order(self, arrays: list[pa.Array], weights: Ints) -> None:
        self.context.emit(change_batch(arrays, signed(weights), self.output_schema))
