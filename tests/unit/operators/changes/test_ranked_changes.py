"""The best rows: order of arrival, columns of any type, and what is refused."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.unit.operators.changes.running_changes import batch_of, running

from snapline.errors import ConfigurationError
from snapline.operators.changes.changes import with_change
from snapline.operators.changes.key_layout import KeyLayout
from snapline.operators.changes.rank_order import RankKind, SortColumn
from snapline.operators.changes.ranked_changes import RankedChanges

SCHEMA = pa.schema([("g", pa.string()), ("v", pa.string()), ("tags", pa.list_(pa.int64()))])
CHANGING = with_change(SCHEMA)
BY = [SortColumn("v")]


def test_of_equal_rows_those_that_came_first_stay() -> None:
    layout = KeyLayout(SCHEMA, ["g"])
    with running(RankedChanges(layout.schema(SCHEMA), layout.key_columns, BY, 2), [layout]) as top:
        top.process(batch_of(SCHEMA, [("a", "x", [1]), ("a", "x", [2]), ("a", "x", [3])]))
        top.process(batch_of(SCHEMA, [("a", "x", [4])]))
        assert top.result == {("a", "x", (1,)): 1, ("a", "x", (2,)): 1}
        top.process(batch_of(SCHEMA, [("a", "w", None)]))
        assert top.result == {("a", "w", None): 1, ("a", "x", (1,)): 1}


def test_without_its_rank_a_row_that_only_moves_is_not_emitted() -> None:
    layout = KeyLayout(CHANGING, ["g"])
    with running(RankedChanges(layout.schema(CHANGING), layout.key_columns, BY, 3), [layout]) as top:
        top.process(batch_of(CHANGING, [("a", "x", [], 0), ("a", "y", [], 0)]))
        top.applies = False
        top.process(batch_of(CHANGING, [("a", "w", [], 0)]))
        assert [batch.to_pylist() for batch in top.emitted] == [[{"g": "a", "v": "w", "tags": [], "__change": 0}]]


def test_the_rank_has_the_type_that_was_asked_for() -> None:
    layout = KeyLayout(SCHEMA, ["g"])
    operator = RankedChanges(
        layout.schema(SCHEMA), layout.key_columns, BY, 1, RankKind.RANK, rank_column="n", rank_type=pa.int32()
    )
    assert operator.output_schema.field("n").type == pa.int32()
    assert operator.output_schema.names == ["g", "v", "tags", "n", "__change"]


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="at least 1, not 0"):
        RankedChanges(SCHEMA, ["g"], BY, 0)
    with pytest.raises(ConfigurationError, match="rank needs columns to order by"):
        RankedChanges(SCHEMA, ["g"], [], 1, RankKind.RANK)
