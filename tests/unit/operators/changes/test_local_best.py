"""Rows that cannot be among the best are dropped before they are sent."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.unit.operators.changes.running_changes import batch_of

from snapline.operators.changes.local_best import LocalBest, group_numbers
from snapline.operators.changes.rank_order import RankKind, SortColumn

SCHEMA = pa.schema([("k", pa.int64()), ("t", pa.string()), ("v", pa.int64()), ("id", pa.int64())])
ORDER = [SortColumn("v", descending=True, nulls_first=False)]


class Emitted:
    """What an operator emits."""

    def __init__(self) -> None:
        self.batches: list[pa.RecordBatch] = []
        self.emit = self.batches.append


def left(operator: LocalBest, *batches: list[tuple[Any, ...]]) -> list[list[int]]:
    """The ids of the rows that are passed on, by batch."""
    context: Any = Emitted()
    operator.context = context
    for rows in batches:
        operator.process(batch_of(SCHEMA, rows), 0)
    return [batch.column("id").to_pylist() for batch in context.batches]


ROWS = [(1, "a", 5, 0), (1, "a", 7, 1), (2, "a", 1, 2), (1, "a", 7, 3), (1, "b", 2, 4), (2, "a", None, 5)]


@pytest.mark.parametrize(
    ("limit", "kind", "ids"),
    [
        (1, RankKind.ROW_NUMBER, [1, 2, 4]),
        (2, RankKind.ROW_NUMBER, [1, 2, 3, 4, 5]),
        (1, RankKind.RANK, [1, 2, 3, 4]),
        (2, RankKind.DENSE_RANK, [0, 1, 2, 3, 4, 5]),
    ],
)
def test_rows_that_others_of_the_batch_keep_out_are_dropped(limit: int, kind: RankKind, ids: list[int]) -> None:
    assert left(LocalBest(["k", "t"], ORDER, limit, kind), ROWS, []) == [ids, []]


def test_it_stops_trying_for_a_while_if_nothing_is_dropped() -> None:
    best = LocalBest(["k"], ORDER, 1, RankKind.ROW_NUMBER)
    distinct = [(n, "a", n, n) for n in range(10)]
    same = [(1, "a", n, n) for n in range(10)]
    passed = left(best, distinct, same, *([same] * 100))
    assert passed[1] == list(range(10))
    assert passed[-1] == [9]


def test_rows_have_one_number_exactly_if_all_their_columns_are_equal() -> None:
    random = np.random.default_rng(3)
    columns = [random.integers(0, 4, 500), random.integers(7, 8, 500), random.integers(0, 5, 500)]
    numbers, count = group_numbers([pa.array(columns[0]), pa.array(columns[1]), pa.array(columns[2].astype(str))])
    found = {(int(n), *map(int, row)) for n, row in zip(numbers, zip(*columns, strict=True), strict=True)}
    assert len(found) == count == len({row[1:] for row in found})
