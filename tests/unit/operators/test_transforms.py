"""Functions of batches and of rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from snapline.contracts.dead_letters import OnError
from snapline.errors import UserCodeError
from snapline.operators.batch_formats import make_format
from snapline.operators.transforms import Filter, FilterRows, FlatMapRows, MapBatches, MapRows

BATCH = pa.record_batch({"a": pa.array([1, 2, None, 4]), "b": ["w", "x", "y", "z"]})
SCHEMA = BATCH.schema
ARROW = make_format("arrow", "test")
Run = Callable[..., Any]


def mapped(
    run: Run, function: Callable[[Any], Any], schema: pa.Schema = SCHEMA, format: str = "arrow"
) -> list[pa.RecordBatch]:
    harness = run(MapBatches(function, schema, make_format(format, "map_batches")))
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
    with pytest.raises(UserCodeError, match="it gave 'text'; it must return a RecordBatch"):
        mapped(run, lambda _: "text")


@pytest.mark.parametrize(
    "predicate",
    [
        lambda batch: pc.greater(batch.column("a"), 1),
        lambda batch: pa.chunked_array([pc.greater(batch.column("a"), 1)]),
        lambda batch: np.array([False, True, False, True]),
        lambda batch: [False, True, None, True],
    ],
)
def test_a_filter_keeps_the_rows_that_are_true(run: Run, predicate: Any) -> None:
    harness = run(Filter(predicate, ARROW))
    harness.open().process(BATCH, 0)
    assert [row["b"] for row in harness.rows()] == ["x", "z"]


def test_a_filter_emits_nothing_if_nothing_is_left(run: Run) -> None:
    for operator in (
        Filter(lambda batch: [False] * batch.num_rows, ARROW),
        FilterRows(lambda row: None),
    ):
        harness = run(operator)
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
        run(Filter(function, ARROW)).open().process(BATCH, 0)


def test_a_filter_of_rows(run: Run) -> None:
    harness = run(FilterRows(lambda row: row["a"] is not None and row["a"] > 1))
    harness.open().process(BATCH, 0)
    assert [row["b"] for row in harness.rows()] == ["x", "z"]
    with pytest.raises(UserCodeError, match=r"filter 'it': the function gave 1; it must return True"):
        run(FilterRows(lambda row: row["a"])).open().process(BATCH, 0)
    with pytest.raises(UserCodeError, match="filter 'it' raised KeyError: 'nowhere'"):
        run(FilterRows(lambda row: row["nowhere"])).open().process(BATCH, 0)


def test_rows_are_made_of_rows(run: Run) -> None:
    harness = run(MapRows(lambda row: {"n": len(row["b"]), "a": row["a"]}, pa.schema([("a", "int64"), ("n", "int8")])))
    harness.open().process(BATCH.slice(1, 2), 0)
    assert harness.rows() == [{"a": 2, "n": 1}, {"a": None, "n": 1}]
    harness.operator.process(BATCH.slice(0, 0), 0)
    assert harness.emitted == []


def test_any_number_of_rows_is_made_of_a_row(run: Run) -> None:
    def function(row: dict[str, Any]) -> Iterator[dict[str, Any]] | None:
        return None if row["a"] is None else ({"n": number} for number in range(row["a"]))

    harness = run(FlatMapRows(function, pa.schema([("n", "int64")])))
    harness.open().process(BATCH, 0)
    assert [row["n"] for row in harness.rows()] == [0, 0, 1, 0, 1, 2, 3]


def test_many_rows_are_passed_on_in_several_batches(run: Run) -> None:
    harness = run(FlatMapRows(lambda row: [{"n": 1}] * 6000, pa.schema([("n", "int64")])))
    harness.open().process(BATCH, 0)
    assert [batch.num_rows for batch in harness.emitted] == [12000, 12000]


@pytest.mark.parametrize(
    ("operator", "complaint"),
    [
        (MapRows(lambda row: {"A": 1, "b": ""}, SCHEMA), r"map 'it' gave a row without 'a' and with 'A'"),
        (MapRows(lambda row: {"a": 1, "bb": ""}, SCHEMA), r"did you mean 'b'\?"),
        (MapRows(lambda row: {"a": 1}, SCHEMA), "without 'b'; its schema has 'a', 'b'"),
        (MapRows(lambda row: {**row, "c": 1}, SCHEMA), "with 'c'"),
        (MapRows(lambda row: None, SCHEMA), "gave None; a row must be a dict"),
        (MapRows(lambda row: (1, 2), SCHEMA), r"gave \(1, 2\); a row must be a dict"),
        (MapRows(lambda row: {"a": "x", "b": ""}, SCHEMA), "gave the column 'a' other values than its schema says"),
        (MapRows(lambda row: {"a": 1.5, "b": ""}, SCHEMA), "1.5 would become 1"),
        (MapRows(lambda row: row["x"], SCHEMA), "map 'it' raised KeyError: 'x'"),
        (FlatMapRows(lambda row: row, SCHEMA), "it must return several rows, for example a list of dicts"),
        (FlatMapRows(lambda row: [5], SCHEMA), "flat_map 'it' gave 5; a row must be a dict"),
        (FlatMapRows(lambda row: [1 / 0], SCHEMA), "flat_map 'it' raised ZeroDivisionError"),
    ],
)
def test_wrong_rows_name_the_operator_and_the_column(run: Run, operator: Any, complaint: str) -> None:
    with pytest.raises(UserCodeError, match=complaint):
        run(operator).open().process(BATCH, 0)


def letters(harness: Any) -> list[Any]:
    return [json.loads(letter["row"]) for letter in harness.side_rows("dead_letters")]


NUMBERS = pa.record_batch({"n": pa.array([1, 0, 3, None, 5])})
BAD = [{"n": 0}, {"n": None}]


@pytest.mark.parametrize(
    "operator",
    [
        MapRows(lambda row: {"n": 60 // row["n"]}, NUMBERS.schema, OnError.DEAD_LETTER),
        MapRows(lambda row: {"n": 60 // row["n"] if row["n"] else "none"}, NUMBERS.schema, OnError.DEAD_LETTER),
        FlatMapRows(lambda row: ({"n": part // row["n"]} for part in [60]), NUMBERS.schema, OnError.DEAD_LETTER),
        MapBatches(lambda batch: checked(batch), NUMBERS.schema, ARROW, OnError.DEAD_LETTER),
        MapBatches(
            lambda rows: [{"n": 60 // row["n"]} for row in rows],
            NUMBERS.schema,
            make_format("rows", "test"),
            OnError.DEAD_LETTER,
        ),
    ],
)
def test_a_bad_row_does_not_take_its_batch_along(run: Run, operator: Any) -> None:
    harness = run(operator)
    harness.open().process(NUMBERS, 0)
    assert [row["n"] for row in harness.rows()] == [60, 20, 12]
    assert letters(harness) == BAD
    assert harness.operator.bad_rows == 2


def divided(row: dict[str, Any]) -> dict[str, Any]:
    return {"n": 60 // row["n"]}


def checked(batch: pa.RecordBatch) -> pa.RecordBatch:
    """60 divided by each number; raises for nulls."""
    return pa.record_batch({"n": pa.array([60 // number for number in batch["n"].to_pylist()])})


@pytest.mark.parametrize(
    "operator",
    [
        FilterRows(lambda row: 60 // row["n"] > 15, OnError.DEAD_LETTER),
        FilterRows(lambda row: 60 // row["n"] > 15 if row["n"] else "?", OnError.DEAD_LETTER),
        Filter(lambda batch: [60 // n > 15 for n in batch["n"].to_pylist()], ARROW, OnError.DEAD_LETTER),
    ],
)
def test_a_filter_that_fails_for_a_row_keeps_the_others(run: Run, operator: Any) -> None:
    harness = run(operator)
    harness.open().process(NUMBERS, 0)
    assert [row["n"] for row in harness.rows()] == [1, 3]
    assert letters(harness) == BAD


def test_a_row_that_fails_half_way_emits_none_of_its_rows(run: Run) -> None:
    def parts(row: Any) -> Iterator[Any]:
        yield {"n": row["n"]}
        yield {"n": "text" if row["n"] == 5 else 60 // row["n"]}

    harness = run(FlatMapRows(parts, NUMBERS.schema, OnError.DEAD_LETTER))
    harness.open().process(NUMBERS, 0)
    assert [row["n"] for row in harness.rows()] == [1, 60, 3, 20]
    assert letters(harness) == [*BAD, {"n": 5}]


def test_bad_rows_are_found_again_when_many_rows_are_emitted_in_several_batches(run: Run) -> None:
    function = lambda row: [{"n": row["n"]}] * 6000 if row["n"] else [{"n": "x"}]  # noqa: E731
    harness = run(FlatMapRows(function, NUMBERS.schema, OnError.DEAD_LETTER))
    harness.open().process(NUMBERS, 0)
    assert [batch.num_rows for batch in harness.emitted] == [6000, 6000, 6000]
    assert letters(harness) == [{"n": 0}, {"n": None}]


@pytest.mark.parametrize(
    ("operator", "complaint"),
    [
        (MapRows(divided, NUMBERS.schema), r"raised ZeroDivisionError: .* for the row \{'n': 0\}"),
        (MapRows(lambda row: {"n": str(row["n"])}, NUMBERS.schema), r"the column 'n' other .*, for the row \{'n': 1\}"),
        (FlatMapRows(lambda row: [divided(row)], NUMBERS.schema), r"ZeroDivisionError.*, for the row \{'n': 0\}"),
        (FlatMapRows(lambda row: [{"m": 1}], NUMBERS.schema), r"a row without 'n' .*, in the row \{'m': 1\}"),
        (FilterRows(lambda row: row["n"] > 0), r"TypeError.*, for the row \{'n': None\}"),
        (MapBatches(checked, NUMBERS.schema, ARROW), r"Error.*, in a batch of 5 rows that begins with \{'n': 1\}"),
        (Filter(checked, ARROW), r"Error.*, in a batch of 5 rows that begins with \{'n': 1\}"),
    ],
)
def test_an_error_shows_the_row_or_the_batch(run: Run, operator: Any, complaint: str) -> None:
    with pytest.raises(UserCodeError, match=complaint):
        run(operator).open().process(NUMBERS, 0)
