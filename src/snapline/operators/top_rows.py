"""The best rows per key so far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from snapline.contracts.operator import Operator, OperatorContext
from snapline.operators.kept_rows import RowType
from snapline.operators.keyed_batches import keyed_state
from snapline.operators.sort_codes import sort_codes
from snapline.state.arrays import Bools, Ints
from snapline.state.batch_keys import Rows

MAX_COUNT = 10_000
_MAX_SMALL = (1 << 16) - 1


class TopRows(Operator):
    """Keeps the `count` best rows of each key by rank, at most `MAX_COUNT`, and emits every rank that has a new row.

    Rows rank by the columns `by`, each descending or not, nulls last; of equal rows the one that arrived first is
    better. Emitted rows are updates: they replace the row of the same key and rank.
    """

    def __init__(
        self, count: int, by: Sequence[tuple[str, bool]], rows: RowType, schema: pa.Schema, rank_column: str
    ) -> None:
        self._count = count
        self._by = tuple(by)
        self._rows = rows
        self._schema = schema
        self._rank_column = rank_column

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._keyed = keyed_state(context, "top_n")
        self._ranked = self._keyed.map_state("ranked", pa.int64(), self._rows.type)

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        if not batch.num_rows:
            return
        columns, rows = self._rows.keys(batch), self._rows.rows(batch)
        keys = self._keyed.keys(columns)
        lasts, groups = self._keyed.distinct(keys)
        distinct = keys if len(lasts) == len(keys) else keys.take(lasts)
        wanted = np.flatnonzero(self._may_be_best(distinct, rows, groups))
        if not wanted.size:
            return
        if len(wanted) < len(groups):
            rows = rows.take(pa.array(wanted))
            is_wanted = np.zeros(len(lasts), dtype=np.bool_)
            is_wanted[groups[wanted]] = True
            numbers = np.cumsum(is_wanted) - 1
            lasts, groups = lasts[is_wanted], numbers[groups[wanted]]
            distinct = distinct.take(np.flatnonzero(is_wanted))
        known_groups, known_ranks, known = self._ranked.entries(distinct)
        old_ranks = np.concatenate([known_ranks.to_numpy(), np.zeros(len(groups), dtype=np.int64)])
        groups = np.concatenate([known_groups, groups])
        candidates = pa.concat_arrays([known, rows]) if len(known) else rows
        order, ranks = self._best(candidates, groups, old_ranks)
        is_changed = ranks != old_ranks[order]
        chosen, ranks = order[is_changed], ranks[is_changed]
        if not chosen.size:
            return
        at, values = pa.array(lasts[groups[chosen]]), candidates.take(pa.array(chosen))
        self._ranked.put_all(distinct.take(groups[chosen]), pa.array(ranks), values)
        arrays = dict(zip(self._rows.columns, self._rows.arrays(values, len(values)), strict=True))
        arrays |= {name: column.take(at) for name, column in zip(self._rows.key_columns, columns, strict=True)}
        arrays[self._rank_column] = pa.array(ranks)
        self.context.emit(
            pa.RecordBatch.from_arrays([arrays[name] for name in self._schema.names], schema=self._schema)
        )

    def _may_be_best(self, distinct: Rows, rows: pa.Array, groups: Ints) -> Bools:
        """Which rows are better than the last of their key, or have a key with fewer than `count` rows."""
        lasts = self._ranked.take(distinct, pa.array(np.full(len(distinct), self._count)))
        is_full = lasts.is_valid().to_numpy(zero_copy_only=False)
        if not is_full.any():
            return np.ones(len(groups), dtype=np.bool_)
        lasts = lasts.drop_null()
        codes = self._codes(pa.concat_arrays([lasts, rows]))
        compared = (np.cumsum(is_full) - 1)[groups]
        is_better: Bools = ~is_full[groups]
        is_equal = np.ones(len(groups), dtype=np.bool_)
        for code in codes:
            limit, mine = code[: len(lasts)][compared], code[len(lasts) :]
            is_better |= is_equal & (mine < limit)
            is_equal &= mine == limit
        return is_better

    def _codes(self, rows: pa.Array) -> list[npt.NDArray[Any]]:
        return [
            sort_codes(rows.field(self._rows.columns.index(name)), descending=is_descending)
            for name, is_descending in self._by
        ]

    def _best(self, rows: pa.Array, groups: Ints, old_ranks: Ints) -> tuple[Ints, Ints]:
        """The best rows of each group, group by group, and their ranks."""
        # Ties go to known rows by rank, then to new ones. Small integers sort much faster.
        arrived = np.where(old_ranks > 0, old_ranks, self._count + 1).astype(np.uint16)
        small = groups.astype(np.uint16) if int(groups.max()) <= _MAX_SMALL else groups
        order = np.argsort(arrived, kind="stable")
        for code in (*self._codes(rows)[::-1], small):
            order = order[np.argsort(code[order], kind="stable")]
        ordered = groups[order]
        is_first = np.append(True, ordered[1:] != ordered[:-1])
        starts = np.flatnonzero(is_first)
        ranks = np.arange(len(order)) - np.repeat(starts, np.diff(np.append(starts, len(order)))) + 1
        is_best = ranks <= self._count
        return order[is_best], ranks[is_best]
