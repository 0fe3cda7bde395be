"""Joins of changes: schemas, order of what is emitted, many pairs, and names that both sides have."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.unit.operators.changes.running_changes import batch_of, running

from snapline.operators.changes.changes import is_changing, with_change
from snapline.operators.changes.changing_join import JoinChanges, JoinKind
from snapline.operators.changes.join_sides import JoinSide
from snapline.operators.changes.key_layout import KeyLayout
from snapline.operators.joins import join_rows

PLAIN = pa.schema([pa.field("k", pa.string(), nullable=False), pa.field("v", pa.int64(), nullable=False)])


def side_of(schema: pa.Schema) -> tuple[JoinSide, KeyLayout]:
    layout = KeyLayout(schema, ["k"], nullable=[False])
    return JoinSide(layout.schema(schema), ("k", "v"), layout.key_columns, ("k",)), layout


@pytest.mark.parametrize(
    ("kind", "nullable"),
    [
        (JoinKind.INNER, [False] * 4),
        (JoinKind.LEFT, [False, False, True, True]),
        (JoinKind.RIGHT, [True, True, False, False]),
        (JoinKind.FULL, [True] * 4),
        (JoinKind.SEMI, [False] * 2),
        (JoinKind.ANTI, [False] * 2),
    ],
)
def test_output_schemas(kind: JoinKind, nullable: list[bool]) -> None:
    side, _ = side_of(PLAIN)
    schema = JoinChanges(kind, side, side, names=["a", "b", "c", "d"]).output_schema
    assert schema.names[: len(nullable)] == ["a", "b", "c", "d"][: len(nullable)]
    assert [field.nullable for field in schema][: len(nullable)] == nullable
    assert is_changing(schema) == (kind not in (JoinKind.INNER, JoinKind.SEMI))
    changing, _ = side_of(with_change(PLAIN))
    assert is_changing(JoinChanges(kind, side, changing).output_schema)


def emitted(one: Any) -> list[tuple[Any, ...]]:
    rows = [tuple(column.to_pylist() for column in batch.columns) for batch in one.emitted]
    one.emitted.clear()
    return [row for columns in rows for row in zip(*columns, strict=True)]


def test_a_row_without_a_partner_goes_before_its_pairs_come() -> None:
    side, layout = side_of(PLAIN)
    with running(JoinChanges(JoinKind.FULL, side, side, names=list("abcd")), [layout, layout]) as one:
        one.applies = False
        one.process(batch_of(PLAIN, [("x", 1)]), 0)
        assert emitted(one) == [("x", 1, None, None, 0)]
        one.process(batch_of(PLAIN, [("x", 2), ("y", 3)]), 1)
        assert emitted(one)[0] == ("x", 1, None, None, 3)


def test_more_pairs_than_fit_into_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(join_rows, "MAX_ROWS", 7)
    schema = with_change(PLAIN)
    side, layout = side_of(schema)

    def less(pairs: pa.RecordBatch) -> pa.Array:
        return pc.less(pairs.column("b"), pairs.column("d"))

    with running(JoinChanges(JoinKind.LEFT, side, side, condition=less, names=list("abcd")), [layout, layout]) as one:
        one.process(batch_of(schema, [("x", number, 0) for number in range(6)]), 0)
        one.process(batch_of(schema, [("x", number, 0) for number in range(6)]), 1)
        assert sum(one.result.values()) == 15 + 1
        one.process(batch_of(schema, [("x", number, 3) for number in range(1, 6)]), 1)
        assert sum(one.result.values()) == 6


def test_a_condition_that_is_null_does_not_hold() -> None:
    side, layout = side_of(PLAIN)

    def unknown(pairs: pa.RecordBatch) -> pa.Array:
        return pa.nulls(pairs.num_rows, pa.bool_())

    with running(JoinChanges(JoinKind.ANTI, side, side, condition=unknown), [layout, layout]) as one:
        one.process(batch_of(PLAIN, [("x", 1)]), 0)
        one.process(batch_of(PLAIN, [("x", 1)]), 1)
        assert one.result == {("x", 1): 1}


def test_a_row_of_which_only_the_number_counts() -> None:
    layout = KeyLayout(PLAIN, ["k"], nullable=[False])
    left = JoinSide(layout.schema(PLAIN), ("v",), layout.key_columns)
    right = JoinSide(layout.schema(with_change(PLAIN)), (), layout.key_columns)
    other = KeyLayout(with_change(PLAIN), ["k"], nullable=[False])
    with running(JoinChanges(JoinKind.INNER, left, right), [layout, other]) as one:
        one.process(batch_of(PLAIN, [("x", 1)]), 0)
        one.process(batch_of(with_change(PLAIN), [("x", 1, 0), ("x", 2, 0)]), 1)
        assert one.result == {(1,): 2}
