"""Columns and filters computed by expressions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from snapline.contracts.dead_letters import OnError
from snapline.errors import UserCodeError
from snapline.operators.projection import Evaluation, FilterExpression, Project, combined

BATCH = pa.record_batch({"a": pa.array([1, 2, None, 4]), "b": ["w", "x", "y", "z"]})
Run = Callable[..., Any]


def test_expressions_are_evaluated_for_every_row() -> None:
    doubled, is_large = Evaluation([pc.field("a") * 2, pc.field("a") > 1]).arrays(BATCH)
    assert doubled.to_pylist() == [2, 4, None, 8]
    assert is_large.to_pylist() == [False, True, None, True]
    (empty,) = Evaluation([pc.field("a") * 2]).arrays(BATCH.slice(0, 0))
    assert (len(empty), empty.type) == (0, pa.int64())


def test_columns_are_computed_or_copied(run: Run) -> None:
    schema = pa.schema([("twice", pa.int64()), ("name", pa.string())])
    operator = Project("select", [pc.field("a") * 2, "b"], schema)
    assert operator.copies == {"name": "b"}
    harness = run(operator)
    harness.open().process(BATCH, 0)
    assert harness.rows()[1] == {"twice": 4, "name": "x"}
    failing = Project("select", [pc.divide_checked(pc.field("a"), 0), "b"], schema)
    with pytest.raises(UserCodeError, match=r"column 'twice', failed: divide by zero, for the row \{'a': 1"):
        run(failing).open().process(BATCH, 0)


def test_columns_of_any_number_of_chunks_become_one_array() -> None:
    for chunks in ([], [pa.array([1, 2])], [pa.array([1]), pa.array([2])]):
        column = pa.chunked_array(chunks, pa.int64())
        assert combined(column).to_pylist() == column.to_pylist()


def test_a_filter_keeps_rows_for_which_an_expression_is_true(run: Run) -> None:
    harness = run(FilterExpression(pc.field("a") > 1))
    harness.open().process(BATCH, 0)
    assert [row["b"] for row in harness.rows()] == ["x", "z"]
    harness.operator.process(BATCH.slice(0, 1), 0)
    assert harness.emitted == []


def test_an_expression_that_fails_for_a_row_names_the_operator(run: Run) -> None:
    with pytest.raises(UserCodeError, match=r"filter 'it' failed: divide by zero, for the row \{'a': 1, 'b': 'w'\}"):
        run(FilterExpression(pc.divide_checked(pc.field("a"), 0) > 0)).open().process(BATCH, 0)


def test_rows_that_an_expression_fails_for_go_aside_with_the_column(run: Run) -> None:
    schema = pa.schema([("a", pa.int64()), ("ratio", pa.int64()), ("cast", pa.int64())])
    ratio = pc.divide_checked(pc.scalar(12), pc.field("a"))
    project = Project("select", ["a", ratio, pc.field("b").cast(pa.int64())], schema, OnError.DEAD_LETTER)
    harness = run(project)
    harness.open().process(pa.record_batch({"a": [0, 1, 2, 3, 4], "b": ["1", "2", "x", "4", None]}), 0)
    assert harness.rows() == [
        {"a": 1, "ratio": 12, "cast": 2},
        {"a": 3, "ratio": 4, "cast": 4},
        {"a": 4, "ratio": 3, "cast": None},
    ]
    letters = harness.side_rows("dead_letters")
    assert [letter["row"] for letter in letters] == ['{"a":0,"b":"1"}', '{"a":2,"b":"x"}']
    assert letters[0]["error"] == "select 'it', column 'ratio', failed: divide by zero"
    assert letters[1]["error"].startswith("select 'it', column 'cast', failed: Failed to parse string: 'x'")
    kept = run(FilterExpression(ratio > 3, OnError.DROP))
    kept.open().process(pa.record_batch({"a": [0, 1, 2, 3, 4], "b": [""] * 5}), 0)
    assert [row["a"] for row in kept.rows()] == [1, 2, 3]
    assert kept.operator.bad_rows == 1
