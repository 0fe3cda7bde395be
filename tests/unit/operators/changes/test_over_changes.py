"""Window functions over changes: what is emitted, and what is not."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
from tests.unit.operators.changes.running_changes import batch_of, running

from snapline.operators.changes.aggregate_specs import Aggregate, AggregateKind
from snapline.operators.changes.changes import with_change
from snapline.operators.changes.key_layout import KeyLayout
from snapline.operators.changes.over_changes import OverChanges
from snapline.operators.changes.over_frames import Frame
from snapline.operators.changes.over_functions import OverFunction, OverKind
from snapline.operators.changes.rank_order import SortColumn

ROWS = pa.schema([("g", pa.string()), ("v", pa.int64())])
TOTAL = OverFunction(OverKind.AGGREGATE, pa.int64(), Frame(False, None, 0), aggregate=Aggregate(AggregateKind.SUM, "v"))


def over(schema: pa.Schema, **functions: OverFunction) -> tuple[OverChanges, KeyLayout]:
    layout = KeyLayout(schema, ["g"])
    return OverChanges(layout.schema(schema), layout.key_columns, [SortColumn("v")], functions), layout


def test_only_rows_whose_results_change_are_emitted_again() -> None:
    operator, layout = over(ROWS, total=TOTAL)
    with running(operator, [layout]) as one:
        one.applies = False
        one.process(batch_of(ROWS, [("a", 1), ("a", 5), ("b", 7)]))
        one.emitted.clear()
        one.process(batch_of(ROWS, [("a", 3)]))
        (batch,) = one.emitted
        shown = [tuple(row.values()) for row in batch.to_pylist()]
        assert shown == [("a", 5, 6, 3), ("a", 3, 4, 0), ("a", 5, 9, 0)]


def test_equal_rows_have_numbers_of_their_own() -> None:
    schema = with_change(ROWS)
    operator, layout = over(schema, n=OverFunction(OverKind.ROW_NUMBER, pa.int32()), total=TOTAL)
    with running(operator, [layout]) as one:
        one.process(batch_of(schema, [("a", 2, 0), ("a", 2, 0), ("a", 1, 0)]))
        assert one.result == Counter([("a", 1, 1, 1), ("a", 2, 2, 5), ("a", 2, 3, 5)])
        one.process(batch_of(schema, [("a", 2, 3)]))
        assert one.result == Counter([("a", 1, 1, 1), ("a", 2, 2, 3)])
        one.process(batch_of(schema, [("a", 4, 0), ("a", 4, 3)]))
        assert one.result == Counter([("a", 1, 1, 1), ("a", 2, 2, 3)])


def test_an_empty_batch_changes_nothing() -> None:
    operator, layout = over(ROWS, total=TOTAL)
    with running(operator, [layout]) as one:
        one.process(batch_of(ROWS, []))
        assert not one.result
