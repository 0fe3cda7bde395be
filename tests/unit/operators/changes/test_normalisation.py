"""Upserts and changes: kinds, and rows that do not change."""

from __future__ import annotations

import pyarrow as pa
from tests.unit.operators.changes.running_changes import batch_of, running

from snapline.operators.changes.changes import is_changing, with_change
from snapline.operators.changes.key_layout import KeyLayout
from snapline.operators.changes.normalisation import ChangesOfUpserts, UpsertsOfChanges, deduplicated
from snapline.operators.changes.rank_order import SortColumn
from snapline.testing.operator_harness import OperatorHarness

PLAIN = pa.schema([("k", pa.string()), ("v", pa.float64())])
CHANGING = with_change(PLAIN)


def test_changes_have_images_of_before() -> None:
    layout = KeyLayout(CHANGING, ["k"])
    with running(ChangesOfUpserts(layout.schema(CHANGING), layout.key_columns), [layout]) as one:
        one.applies = False
        one.process(batch_of(CHANGING, [("a", 1.0, 0), ("b", 1.0, 2), ("c", None, 3)]))
        one.process(batch_of(CHANGING, [("a", 2.0, 2), ("a", 3.0, 2), ("b", 1.0, 2)]))
        one.process(batch_of(CHANGING, [("a", 3.0, 1)]))
        one.process(batch_of(CHANGING, [("a", None, 3), ("b", -1.0, 2)]))
        emitted = [[tuple(row.values()) for row in batch.to_pylist()] for batch in one.emitted]
    assert sorted(emitted[0]) == [("a", 1.0, 0), ("b", 1.0, 0)]
    assert emitted[1:] == [[("a", 1.0, 1), ("a", 3.0, 2)], [("a", 3.0, 3), ("b", 1.0, 1), ("b", -1.0, 2)]]


def test_rows_without_kinds_replace_each_other() -> None:
    layout = KeyLayout(PLAIN, ["k"])
    with running(ChangesOfUpserts(layout.schema(PLAIN), layout.key_columns), [layout]) as one:
        one.process(batch_of(PLAIN, [("a", 1.0), (None, 2.0)]))
        one.process(batch_of(PLAIN, [("a", None)]))
        assert one.result == {("a", None): 1, (None, 2.0): 1}


def test_images_of_before_are_dropped() -> None:
    harness = OperatorHarness(UpsertsOfChanges())
    operator = harness.open()
    batch = batch_of(CHANGING, [("a", 1.0, 1), ("a", 2.0, 2), ("b", 1.0, 3)])
    operator.process(batch, 0)
    operator.process(batch.slice(0, 1), 0)
    operator.process(batch_of(PLAIN, [("c", 1.0)]), 0)
    assert harness.emitted == [batch.slice(1), batch_of(PLAIN, [("c", 1.0)])]


def test_the_first_to_arrive_are_inserts_only() -> None:
    layout = KeyLayout(PLAIN, ["k"])
    first = deduplicated(layout.schema(PLAIN), layout.key_columns, [], keep_last=False)
    assert first.output_schema == PLAIN
    last = deduplicated(layout.schema(PLAIN), layout.key_columns, [], keep_last=True)
    assert is_changing(last.output_schema)


def test_the_last_by_a_column() -> None:
    layout = KeyLayout(CHANGING, ["k"])
    by = [SortColumn("v", nulls_first=True)]
    operator = deduplicated(layout.schema(CHANGING), layout.key_columns, by, keep_last=True)
    with running(operator, [layout]) as one:
        one.process(batch_of(CHANGING, [("a", 2.0, 0), ("a", 1.0, 0), ("a", None, 0)]))
        assert one.result == {("a", 2.0): 1}
        one.process(batch_of(CHANGING, [("a", 2.0, 3), ("a", 1.0, 3)]))
        assert one.result == {("a", None): 1}
