"""Batches to batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from snapline.errors import UserCodeError
from snapline.operators.transforming import Filter, MapBatches

BATCH = pa.record_batch({"a": pa.array([1, 2, None, 4]), "b": ["w", "x", "y", "z"]})
SCHEMA = BATCH.schema
Run = Callable[..., Any]


def mapped(run: Run, function: Callable[[pa.RecordBatch], Any], schema: pa.Schema = SCHEMA) -> list[pa.RecordBatch]:
    harness = run(MapBatches(function, schema))
    harness.open().process(BATCH, 0)
    result: list[pa.RecordBatch] = harness.emitted
    return result


def test_a_function_gives_one_batch_none_or_several(run: Run) -> None:
    def several(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        yield batch.slice(0, 1)
        yield batch.slice(0, 0)
        yield batch.slice(1)

    assert mapped(run, lambda batch: batch) == [BATCH]
    assert mapped(run, lambda _: None) == []
    assert mapped(run, several) == [BATCH.slice(0, 1), BATCH.slice(1)]
    assert mapped(run, lambda batch: pa.Table.from_batches([batch, batch])) == [BATCH, BATCH]


def test_what_differs_only_in_form_is_brought_to_the_schema(run: Run) -> None:
    def function(batch: pa.RecordBatch) -> pa.RecordBatch:
        narrow = batch.column("a").cast(pa.int8())
        return pa.record_batch({"b": batch.column("b"), "a": narrow}).replace_schema_metadata({"x": "y"})

    (batch,) = mapped(run, function)
    assert batch == BATCH
    assert batch.schema.equals(SCHEMA, check_metadata=True)


def test_metadata_of_the_user_s_libraries_is_left_out(run: Run) -> None:
    (batch,) = mapped(run, lambda batch: batch.replace_schema_metadata({"pandas": "much"}))
    assert batch.schema.metadata is None


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"a": [1]}, r"map_batches 'it' gave a batch without 'b'; its schema has 'a', 'b'. Give the right schema="),
        ({"a": [1], "b": ["x"], "c": [1]}, "with 'c'"),
        ({"a": [1], "c": ["x"]}, "without 'b' and with 'c'"),
        ({"a": [1.5], "b": ["x"]}, r"map_batches 'it' gave the column 'a' as double, its schema says int64"),
        ({"a": ["1"], "b": ["x"]}, "the column 'a' as string, its schema says int64"),
    ],
)
def test_a_batch_of_another_schema_is_refused(run: Run, given: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UserCodeError, match=complaint):
        mapped(run, lambda _: pa.record_batch(given))


def test_a_column_twice_and_nulls_where_none_may_be_are_refused(run: Run) -> None:
    twice = pa.RecordBatch.from_arrays([pa.array([1])] * 3, names=["a", "b", "a"])
    with pytest.raises(UserCodeError, match="with a column twice"):
        mapped(run, lambda _: twice)
    strict = pa.schema([pa.field("a", pa.int64(), nullable=False), ("b", pa.string())])
    with pytest.raises(UserCodeError, match="gave nulls in the column 'a'"):
        mapped(run, lambda batch: batch, strict)


def test_what_a_function_raises_names_the_operator(run: Run) -> None:
    def broken(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        yield batch
        raise ValueError("no luck")

    with pytest.raises(UserCodeError, match="map_batches 'it' raised ValueError: no luck") as caught:
        mapped(run, broken)
    assert isinstance(caught.value.__cause__, ValueError)
    with pytest.raises(UserCodeError, match="it gave 'text'; it must give a RecordBatch"):
        mapped(run, lambda _: "text")


@pytest.mark.parametrize(
    "predicate",
    [
        pc.field("a") > 1,
        lambda batch: pc.greater(batch.column("a"), 1),
        lambda batch: pa.chunked_array([pc.greater(batch.column("a"), 1)]),
        lambda batch: np.array([False, True, False, True]),
        lambda batch: [False, True, None, True],
    ],
)
def test_a_filter_keeps_the_rows_that_are_true(run: Run, predicate: Any) -> None:
    harness = run(Filter(predicate))
    harness.open().process(BATCH, 0)
    assert [row["b"] for row in harness.rows()] == ["x", "z"]


def test_a_filter_emits_nothing_if_nothing_is_left(run: Run) -> None:
    harness = run(Filter(pc.field("a") > 100))
    harness.open().process(BATCH, 0)
    assert harness.emitted == []


@pytest.mark.parametrize(
    ("function", "complaint"),
    [
        (lambda batch: [True], "filter 'it': the function gave 1 values of the type bool for 4 rows"),
        (lambda batch: batch.column("a"), "4 values of the type int64"),
        (lambda batch: batch.column("nowhere"), "filter 'it' raised KeyError"),
    ],
)
def test_a_wrong_filter_names_the_operator(run: Run, function: Any, complaint: str) -> None:
    with pytest.raises(UserCodeError, match=complaint):
        run(Filter(function)).open().process(BATCH, 0)
