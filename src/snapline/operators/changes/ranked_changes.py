"""The best rows of each partition of a stream of changes, as changes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from snapline.contracts.operator import Operator, OperatorContext
from snapline.errors import ConfigurationError
from snapline.operators.changes.changes import CHANGE, change_batch, is_changing, signed, weights_of, with_change
from snapline.operators.changes.join_sides import net_rows, repeated
from snapline.operators.changes.rank_order import (
    RankKind,
    SortCodes,
    SortColumn,
    compared,
    ranks_of,
    sort_codes_of,
    sorted_rows,
)
from snapline.operators.changes.ranked_entries import RankedEntries, appended_entries, merged_entries
from snapline.operators.changes.row_codes import row_codes
from snapline.operators.kept_rows import RowType, kept_column
from snapline.operators.keyed_batches import keyed_state
from snapline.state.arrays import Bools, Ints
from snapline.state.batch_keys import Rows
from snapline.state.collection_states import MapState
from snapline.state.value_states import ValueState

HEAD_ROWS = 8
"""How many rows beyond those that are wanted stay sorted, at least: they follow when rows go."""


class RankedChanges(Operator):
    """Emits the rows whose rank in their partition is at most `limit`, and takes back those that no longer are.

    The input has inserts only, or changes, as `schema` says; it is keyed by the `key_columns` of a `KeyLayout` of the
    partition columns. Rows rank by the columns `order`; of equal rows those that came first are first, or, with
    `newest_first`, those that came last.

    Emits the columns of `output_schema`: those of the input without the key columns, the rank if it has a name in
    `rank_column`, and the kind: inserts and deletes, deletes first. Without the rank, a row that only changes its rank
    is not emitted.

    State holds the rows that are wanted; for a changing input all rows, of which only the best are sorted.
    """

    def __init__(
        self,
        schema: pa.Schema,
        key_columns: Sequence[str],
        order: Sequence[SortColumn],
        limit: int,
        kind: RankKind = RankKind.ROW_NUMBER,
        *,
        rank_column: str | None = None,
        rank_type: pa.DataType | None = None,
        newest_first: bool = False,
    ) -> None:
        if limit < 1:
            raise ConfigurationError(f"the limit of a rank must be at least 1, not {limit}")
        if kind is not RankKind.ROW_NUMBER and (newest_first or not order):
            raise ConfigurationError(f"{kind} needs columns to order by, and knows no order of arrival")
        self._key_columns = tuple(key_columns)
        self._order = tuple(order)
        self._limit = limit
        self._kind = kind
        self._ranked = rank_column is not None
        self._rank_type = rank_type or pa.int64()
        self._newest_first = newest_first
        self._changing = is_changing(schema)
        names = [name for name in schema.names if name not in self._key_columns]
        rows = pa.schema([schema.field(name) for name in names if name != CHANGE])
        self._rows = RowType(rows, ())
        fields = [rows.field(field.name).with_type(field.type) for field in self._rows.fields]
        if rank_column is not None:
            fields.append(pa.field(rank_column, self._rank_type, nullable=False))
        self.output_schema = with_change(pa.schema(fields))
        self._sort_type = pa.struct(
            [pa.field(str(number), kind.type) for number, kind in enumerate(self._sort_fields())]
        )

    def _sort_fields(self) -> list[pa.Field]:
        names = [field.name for field in self._rows.fields]
        # A partition without order has a limit too: a constant.
        return [self._rows.fields[names.index(by.name)] for by in self._order] or [pa.field("none", pa.bool_())]

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._keyed = keyed_state(context, "top_n")
        stored = [("count", pa.int64()), ("sequence", pa.int64()), pa.field("row", self._rows.type)]
        self._stored = pa.struct(stored)
        # Rows that are only added need not be found again: their sequence number identifies them.
        self._head = self._keyed.map_state("head", pa.binary() if self._changing else pa.int64(), self._stored)
        self._tail = self._keyed.map_state("tail", pa.binary(), self._stored) if self._changing else None
        self._bounds = self._keyed.value_state("bound", self._sort_type)
        """The values that the last row of the head is sorted by, for partitions that have rows beyond it."""
        self._shown = self._keyed.value_state("shown", self._sort_type) if self._changing else None
        """The same of the last row that is shown, for partitions in which no row after it can be."""
        self._next = self._keyed.value_state("next", pa.int64())

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        if not batch.num_rows:
            return
        keys = self._keyed.keys([kept_column(batch.column(name)) for name in self._key_columns])
        lasts, groups = self._keyed.distinct(keys)
        distinct = keys if len(lasts) == len(keys) else keys.take(lasts)
        rows = self._rows.rows(batch)
        if not self._changing:
            chosen = np.flatnonzero(self._is_within(self._bounds, distinct, rows, groups))
            if chosen.size:
                self._change_head(distinct, self._added(distinct, rows.take(pa.array(chosen)), groups[chosen]))
            return
        changes = self._changes(distinct, rows, groups, weights_of(batch))
        assert self._tail is not None
        assert self._shown is not None
        # Equal rows are on the same side of a bound.
        in_head = self._is_within(self._bounds, distinct, changes.rows, changes.groups)
        is_shown = self._is_within(self._shown, distinct, changes.rows, changes.groups) & in_head
        self._count(self._tail, distinct, changes.take(np.flatnonzero(~in_head)))
        self._count(self._head, distinct, changes.take(np.flatnonzero(in_head & ~is_shown)))
        if is_shown.any():
            self._change_head(distinct, changes.take(np.flatnonzero(is_shown)))

    def _added(self, keys: Rows, rows: pa.Array, groups: Ints) -> RankedEntries:
        """Rows of an input without changes as entries."""
        counts = np.ones(len(groups), dtype=np.int64)
        numbers = self._numbers(keys, groups, counts)
        return RankedEntries(groups, pa.array(numbers), counts, numbers, rows)

    def _changes(self, keys: Rows, rows: pa.Array, groups: Ints, weights: Ints | None) -> RankedEntries:
        """Rows as changes to entries."""
        codes = row_codes(self._rows.arrays(rows, len(rows)), len(rows))
        at, net = net_rows(groups, codes, weights)
        if len(at) < len(rows) or (net.size and net[0] < 0):
            rows, groups, codes = rows.take(pa.array(at)), groups[at], codes.take(pa.array(at))
        return RankedEntries(groups, codes, net, self._numbers(keys, groups, net), rows)

    def _numbers(self, keys: Rows, groups: Ints, net: Ints) -> Ints:
        """The next sequence numbers of partitions, for the rows that are added."""
        numbers = np.zeros(len(groups), dtype=np.int64)
        added = np.flatnonzero(net > 0)
        if added.size:
            old = pc.fill_null(self._next.take(keys), 0).to_numpy(zero_copy_only=False)
            counts = np.bincount(groups[added], minlength=len(keys))
            grown = np.flatnonzero(counts)
            self._next.put(keys.take(grown), pa.array(old[grown] + counts[grown]))
            order = np.argsort(groups[added], kind="stable")
            ordered = groups[added][order]
            within = np.arange(len(ordered)) - np.searchsorted(ordered, ordered)
            numbers[added[order]] = old[ordered] + within
        return numbers

    # Bounds.

    def _is_within(self, state: ValueState, keys: Rows, rows: pa.Array, groups: Ints) -> Bools:
        """Which rows do not come after the bound of their partition, if it has one."""
        bounds = state.take(keys)
        has_bound: Bools = bounds.is_valid().to_numpy(zero_copy_only=False)
        if not has_bound.any():
            return np.ones(len(groups), dtype=np.bool_)
        inside = has_bound[groups]
        limits = bounds.drop_null()
        columns = [
            pa.concat_arrays([limit, mine])
            for limit, mine in zip(limits.flatten(), self._sort_columns(rows), strict=True)
        ]
        codes = sort_codes_of(columns, self._order or [SortColumn("none")])
        at = np.where(inside, (np.cumsum(has_bound) - 1)[groups], 0)
        is_before, is_equal = compared([code[len(limits) :] for code in codes], [code[at] for code in codes])
        # Of rows that are only added, equal ones come after those that are there.
        takes_equal = self._changing or self._newest_first or self._kind is not RankKind.ROW_NUMBER
        return np.asarray(~inside | is_before | (is_equal if takes_equal else False))

    def _sort_columns(self, rows: pa.Array) -> list[pa.Array]:
        if not self._order:
            return [pa.nulls(len(rows), pa.bool_())]
        arrays = self._rows.arrays(rows, len(rows))
        return [arrays[self._rows.columns.index(by.name)] for by in self._order]

    def _codes(self, rows: pa.Array) -> SortCodes:
        return sort_codes_of(self._sort_columns(rows), self._order or [SortColumn("none")])

    def _count(self, state: MapState, keys: Rows, changes: RankedEntries) -> None:
        """Apply changes that do not concern the rows that are shown."""
        if not len(changes.rows):
            return
        owners = keys.take(changes.groups)
        stored = state.take(owners, changes.codes)
        counts, sequence = (pc.fill_null(stored.flatten()[at], 0).to_numpy(zero_copy_only=False) for at in (0, 1))
        is_new = stored.is_null().to_numpy(zero_copy_only=False)
        merged = RankedEntries(
            changes.groups,
            changes.codes,
            np.where(is_new, 0, counts) + changes.counts,
            np.where(is_new, changes.sequence, sequence),
            changes.rows,
        )
        self._put(state, keys, merged)

    def _put(self, state: MapState, keys: Rows, entries: RankedEntries) -> None:
        if not len(entries.rows):
            return
        values = pa.StructArray.from_arrays(
            [pa.array(entries.counts), pa.array(entries.sequence), entries.rows],
            fields=list(self._stored),
            mask=pa.array(entries.counts == 0),
        )
        state.put_all(keys.take(entries.groups), entries.codes, values)

    def _load(self, state: MapState, keys: Rows, groups: Ints) -> RankedEntries:
        """The entries of some partitions."""
        at, codes, stored = state.entries(keys.take(groups))
        counts, sequence, rows = stored.flatten()
        return RankedEntries(groups[at], codes, counts.to_numpy(), sequence.to_numpy(), rows)

    # The head.

    def _change_head(self, keys: Rows, changes: RankedEntries) -> None:
        """Apply changes to the heads of partitions, and emit what that does to the best rows."""
        touched = np.unique(changes.groups)
        old = self._load(self._head, keys, touched)
        entries, before, at = (merged_entries if self._changing else appended_entries)(old, changes)
        order = self._sorted(entries)
        old_ranks = self._ranks(entries, order, before)
        new_ranks = self._ranks(entries, order, entries.counts)
        short = self._short(keys, touched, entries, new_ranks)
        if short.size:
            more = self._refill(keys, short)
            at = np.concatenate([at, np.arange(len(entries.rows), len(entries.rows) + len(more.rows))])
            entries = entries.followed_by(more)
            new_ranks = self._ranks(entries, self._sorted(entries), entries.counts)
        kept = self._cut(keys, touched, entries, new_ranks)
        self._forget(keys, touched, entries)
        if self._shown is not None:
            self._remember(self._shown, keys, touched, entries, new_ranks)
        is_changed = ~kept
        is_changed[at] = True
        stored = entries.with_counts(np.where(kept, entries.counts, 0))
        self._put(self._head, keys, stored.take(np.flatnonzero(is_changed)))
        self._emit(entries, old_ranks, new_ranks)

    def _forget(self, keys: Rows, touched: Ints, entries: RankedEntries) -> None:
        """Drop the sequence numbers of partitions that have no rows any more."""
        sizes = np.bincount(entries.groups[entries.counts != 0], minlength=len(keys))
        empty = touched[sizes[touched] == 0]
        if empty.size:
            self._next.delete(keys.take(empty))

    def _remember(
        self, shown: ValueState, keys: Rows, touched: Ints, entries: RankedEntries, ranks: tuple[Ints, Ints]
    ) -> None:
        """Note the last rows that are shown."""
        rows, numbers = ranks
        is_shown = numbers <= self._limit
        is_full = self._is_full(keys, entries.groups[rows], numbers, is_shown)
        self._put_bounds(shown, keys, touched[is_full[touched]], entries, rows[is_shown])
        shown.delete(keys.take(touched[~is_full[touched]]))

    def _sorted(self, entries: RankedEntries) -> tuple[Ints, SortCodes]:
        """The entries in order, and their codes in that order."""
        codes = self._codes(entries.rows)
        order = sorted_rows(entries.groups, codes, entries.sequence, newest_first=self._newest_first)
        return order, [code[order] for code in codes]

    def _ranks(self, entries: RankedEntries, order: tuple[Ints, SortCodes], counts: Ints) -> tuple[Ints, Ints]:
        """The rows in order, each as often as it is there, and their ranks."""
        rows, codes = order
        counts = np.maximum(counts[rows], 0)
        if not (counts == 1).all():
            at = np.repeat(np.arange(len(rows)), counts)
            rows, codes = rows[at], [code[at] for code in codes]
        return rows, ranks_of(entries.groups[rows], codes, self._kind)

    def _short(self, keys: Rows, touched: Ints, entries: RankedEntries, ranks: tuple[Ints, Ints]) -> Ints:
        """The partitions with fewer rows in the head than are wanted, and more behind it."""
        if self._tail is None:
            return touched[:0]
        rows, numbers = ranks
        highest = np.zeros(len(keys), dtype=np.int64)
        np.maximum.at(highest, entries.groups[rows], numbers)
        if self._kind is RankKind.RANK:
            highest = np.bincount(entries.groups[rows], minlength=len(keys))
        few = touched[highest[touched] < self._limit]
        if not few.size:
            return few
        has_more: Bools = self._bounds.take(keys.take(few)).is_valid().to_numpy(zero_copy_only=False)
        return few[has_more]

    def _cut(self, keys: Rows, touched: Ints, entries: RankedEntries, ranks: tuple[Ints, Ints]) -> Bools:
        """Which entries stay in the head. Where it has grown too long, the others go behind it, or are dropped."""
        rows, numbers = ranks
        kept = np.ones(len(entries.rows), dtype=np.bool_)
        groups = entries.groups[rows]
        if self._tail is None:
            is_wanted = numbers <= self._limit
            is_full = self._is_full(keys, groups, numbers, is_wanted)
        else:
            is_full = np.bincount(groups, minlength=len(keys)) > 2 * self._head_size
            if not is_full.any():
                return kept
            is_wanted = ~is_full[groups] | self._best(keys, entries, ranks)
        kept[rows] = False
        kept[rows[is_wanted]] = True
        self._put_bounds(self._bounds, keys, touched[is_full[touched]], entries, rows[is_wanted])
        if self._tail is not None:
            self._put(self._tail, keys, entries.take(np.flatnonzero(~kept)))
        return kept

    def _refill(self, keys: Rows, groups: Ints) -> RankedEntries:
        """Remove the best rows of partitions from behind the head, and return them."""
        assert self._tail is not None
        tail = self._load(self._tail, keys, groups)
        ranks = self._ranks(tail, self._sorted(tail), tail.counts)
        is_best = self._best(keys, tail, ranks)
        chosen = ranks[0][is_best]
        moved = np.unique(chosen)
        is_left = np.ones(len(tail.rows), dtype=np.bool_)
        is_left[moved] = False
        self._put(self._tail, keys, tail.with_counts(np.where(is_left, tail.counts, 0)).take(moved))
        has_more = np.bincount(tail.groups[is_left], minlength=len(keys)) > 0
        self._bounds.delete(keys.take(groups[~has_more[groups]]))
        self._put_bounds(self._bounds, keys, groups[has_more[groups]], tail, chosen)
        return tail.take(moved)

    def _best(self, keys: Rows, entries: RankedEntries, ranks: tuple[Ints, Ints]) -> Bools:
        """Of ranked rows, those that a head begins with; rows that are equal in the order stay together."""
        rows, numbers = ranks
        groups = entries.groups[rows]
        sizes = np.bincount(groups, minlength=len(keys))
        places = np.arange(len(rows)) - (np.cumsum(sizes) - sizes)[groups]
        is_best = (places < self._head_size) | (numbers <= self._limit)
        return self._with_equal(entries, rows, groups, is_best)

    @property
    def _head_size(self) -> int:
        """How long a head is that was cut; it is cut when it is twice as long."""
        return self._limit + max(self._limit, HEAD_ROWS)

    def _is_full(self, keys: Rows, groups: Ints, numbers: Ints, is_wanted: Bools) -> Bools:
        """Partitions in which no row after those that are shown can be shown."""
        if self._kind is RankKind.DENSE_RANK:
            highest = np.zeros(len(keys), dtype=np.int64)
            np.maximum.at(highest, groups, numbers)
            return np.asarray(highest >= self._limit)
        return np.asarray(np.bincount(groups[is_wanted], minlength=len(keys)) >= self._limit)

    def _with_equal(self, entries: RankedEntries, rows: Ints, groups: Ints, is_wanted: Bools) -> Bools:
        codes = [code[rows] for code in self._codes(entries.rows)]
        is_new = np.ones(len(rows), dtype=np.bool_)
        is_new[1:] = groups[1:] != groups[:-1]
        for code in codes:
            is_new[1:] |= code[1:] != code[:-1]
        runs = np.cumsum(is_new) - 1
        has_wanted = np.zeros(int(runs[-1]) + 1 if runs.size else 0, dtype=np.bool_)
        has_wanted[runs[is_wanted]] = True
        return np.asarray(has_wanted[runs])

    def _put_bounds(self, state: ValueState, keys: Rows, groups: Ints, entries: RankedEntries, rows: Ints) -> None:
        """Make the last of the given rows, which are sorted, the bound of each of some partitions."""
        last = np.full(len(keys), -1, dtype=np.int64)
        last[entries.groups[rows]] = rows
        groups = groups[last[groups] >= 0]
        if groups.size:
            values = self._sort_columns(entries.rows.take(pa.array(last[groups])))
            state.put(keys.take(groups), pa.StructArray.from_arrays(values, fields=list(self._sort_type)))

    # Output.

    def _emit(self, entries: RankedEntries, old: tuple[Ints, Ints], new: tuple[Ints, Ints]) -> None:
        rows, numbers, weights = [], [], []
        for (found, ranks), weight in ((old, -1), (new, 1)):
            is_shown = ranks <= self._limit
            rows.append(found[is_shown])
            numbers.append(ranks[is_shown] if self._ranked else np.zeros(int(is_shown.sum()), dtype=np.int64))
            weights.append(np.full(len(rows[-1]), weight, dtype=np.int64))
        row, number = np.concatenate(rows), np.concatenate(numbers)
        pairs = row * (int(number.max(initial=0)) + 1) + number
        _, firsts, inverse = np.unique(pairs, return_index=True, return_inverse=True)
        net = np.bincount(inverse, weights=np.concatenate(weights), minlength=len(firsts)).astype(np.int64)
        left = np.flatnonzero(net)
        if not left.size:
            return
        left = left[np.argsort(net[left] > 0, kind="stable")]
        copies, signs = repeated(net[left])
        chosen = firsts[left if copies is None else left[copies]]
        taken = entries.rows.take(pa.array(row[chosen]))
        arrays = self._rows.arrays(taken, len(taken))
        if self._ranked:
            arrays.append(pa.array(number[chosen]).cast(self._rank_type))
        self.context.emit(change_batch(arrays, signed(signs), self.output_schema))
