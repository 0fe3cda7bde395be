"""Columns and filters computed by expressions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

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
    with pytest.raises(UserCodeError, match="select 'it' failed for a row: divide by zero"):
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
    with pytest.raises(UserCodeError, match="filter 'it' failed for a row: divide by zero"):
        run(FilterExpression(pc.divide_checked(pc.field("a"), 0) > 0)).open().process(BATCH, 0)
