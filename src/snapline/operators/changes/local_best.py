"""Drops rows that other rows of their batch keep out of a ranking, before they are sent."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from snapline.contracts.operator import Operator
from snapline.operators.changes.rank_order import (
    RankKind,
    SortColumn,
    first_rows_of,
    ranks_of,
    sort_codes_of,
    sorted_rows,
)
from snapline.operators.kept_rows import kept_column
from snapline.operators.keyed_batches import decoded
from snapline.state.arrays import Ints

_WORTHWHILE = 0.7
"""Ranking saves nothing if it keeps more of the rows than this."""

_BATCHES_BETWEEN_TRIALS = 64


class LocalBest(Operator):
    """Passes on the rows whose rank among those of their key in the batch is at most `limit`, in order of arrival.

    The input has inserts only: a row with a greater rank in its batch has a greater rank in the whole stream. If hardly
    any row is dropped, batches pass as they are, and ranking is tried again now and then. Without state.
    """

    def __init__(self, key_columns: Sequence[str], order: Sequence[SortColumn], limit: int, kind: RankKind) -> None:
        self._key_columns = tuple(key_columns)
        self._order = tuple(order)
        self._limit = limit
        self._kind = kind
        self._passing = 0

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        if self._passing:
            self._passing -= 1
        elif batch.num_rows:
            rows = self._best(batch)
            if len(rows) > _WORTHWHILE * batch.num_rows:
                self._passing = _BATCHES_BETWEEN_TRIALS
            if len(rows) < batch.num_rows:
                batch = batch.take(pa.array(rows))
        self.context.emit(batch)

    def _best(self, batch: pa.RecordBatch) -> Ints:
        groups, count = group_numbers([decoded(batch.column(name)) for name in self._key_columns])
        if count == batch.num_rows:
            return np.arange(count)
        codes = sort_codes_of([kept_column(batch.column(by.name)) for by in self._order], self._order)
        if self._limit == 1 and self._kind is RankKind.ROW_NUMBER:
            return np.sort(first_rows_of(codes, groups, count))
        rows = sorted_rows(groups, codes, np.arange(len(groups)))
        ranks = ranks_of(groups[rows], [code[rows] for code in codes], self._kind)
        return np.sort(rows[ranks <= self._limit])


def group_numbers(columns: Sequence[pa.Array]) -> tuple[Ints, int]:
    """A number for each row, equal where all columns are, nulls included, and how many numbers there are.

    Zeros of both signs are different.
    """
    numbers: Ints | None = None
    count = 1
    for column in columns:
        encoded = pc.dictionary_encode(column, null_encoding="encode")
        codes: Ints = encoded.indices.to_numpy().astype(np.int64)
        if numbers is None or count == 1:
            numbers, count = codes, len(encoded.dictionary)
        elif len(encoded.dictionary) > 1:
            both = pc.dictionary_encode(pa.array(numbers * len(encoded.dictionary) + codes))
            numbers, count = both.indices.to_numpy().astype(np.int64), len(both.dictionary)
    assert numbers is not None
    return numbers, count
