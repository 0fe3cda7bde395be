"""The best row of each partition, when rows are never taken back."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from tests.unit.operators.changes.running_changes import batch_of, running

from snapline.errors import ConfigurationError
from snapline.operators.changes.best_row import BestRow, ranked_rows
from snapline.operators.changes.changes import with_change
from snapline.operators.changes.key_layout import KeyLayout
from snapline.operators.changes.rank_order import RankKind, SortColumn
from snapline.operators.changes.ranked_changes import RankedChanges

SCHEMA = pa.schema([("g", pa.string()), ("v", pa.int64()), ("s", pa.string())])
LAYOUT = KeyLayout(SCHEMA, ["g"])
NEWEST = [SortColumn("v", descending=True, nulls_first=False)]


def test_a_better_row_takes_the_place_of_the_last_one() -> None:
    operator = BestRow(LAYOUT.schema(SCHEMA), LAYOUT.key_columns, NEWEST, rank_column="n", rank_type=pa.int32())
    assert operator.output_schema.field("n").type == pa.int32()
    with running(operator, [LAYOUT]) as best:
        best.applies = False
        batches: list[list[tuple[Any, ...]]] = [
            [("a", 1, "x"), ("a", 3, "y"), ("a", 3, "z"), (None, None, "n")],
            [("a", 3, "w"), ("a", 2, "v")],
            [("a", 4, "u"), ("b", 1, "t"), (None, 0, "s")],
        ]
        emitted = []
        for rows in batches:
            best.process(batch_of(SCHEMA, rows))
            emitted.append([tuple(row.values()) for batch in best.emitted for row in batch.to_pylist()])
            best.emitted.clear()
    assert sorted(emitted[0], key=str) == [("a", 3, "y", 1, 0), (None, None, "n", 1, 0)]
    assert emitted[1] == []
    assert sorted(emitted[2], key=str) == [
        ("a", 3, "y", 1, 1),
        ("a", 4, "u", 1, 2),
        ("b", 1, "t", 1, 0),
        (None, 0, "s", 1, 2),
        (None, None, "n", 1, 1),
    ]


def test_the_quickest_operator_is_chosen() -> None:
    schema, keys = LAYOUT.schema(SCHEMA), LAYOUT.key_columns
    assert isinstance(ranked_rows(schema, keys, NEWEST, 1), BestRow)
    assert isinstance(ranked_rows(schema, keys, NEWEST, 2), RankedChanges)
    assert isinstance(ranked_rows(schema, keys, NEWEST, 1, RankKind.RANK), RankedChanges)
    assert isinstance(ranked_rows(schema, keys, [], 1), RankedChanges)
    assert isinstance(ranked_rows(with_change(schema), keys, NEWEST, 1), RankedChanges)


def test_rows_that_are_taken_back_need_more_than_the_best() -> None:
    with pytest.raises(ConfigurationError, match="never taken back"):
        BestRow(with_change(SCHEMA), ["g"], NEWEST)
    with pytest.raises(ConfigurationError, match="never taken back"):
        BestRow(SCHEMA, ["g"], [])
