"""Values as Spark should give them; `python -m benchmarks.expressions` asks Spark itself."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
from tests.expression_kit import applied, call, column, condition, literal, values

from snapline.sql.expressions.conditional import Merge
from snapline.sql.plans.trees import Expression

DOUBLE, BOOL, INT = pa.float64(), pa.bool_(), pa.int32()


def _inverse(position: int) -> Expression:
    return call("Divide", DOUBLE, literal(1.0, DOUBLE), column(position, DOUBLE), evalMode="ANSI")


def test_branches_are_computed_for_their_rows_only() -> None:
    array = pa.array([0.0, 2.0, None])
    is_zero = call("EqualTo", BOOL, column(0, DOUBLE), literal(0.0, DOUBLE))
    chosen = call("If", DOUBLE, is_zero, literal(-1.0, DOUBLE), _inverse(0))
    assert values(chosen, array) == [-1.0, 0.5, None]
    assert condition(call("If", DOUBLE, is_zero, _inverse(0), literal(-1.0, DOUBLE)), array) == "DIVIDE_BY_ZERO"


def test_the_first_case_that_holds_counts() -> None:
    array = pa.array([1, 5, 50, None], INT)
    cases = [
        part
        for limit, text in ((3, "few"), (10, "some"))
        for part in (call("LessThan", BOOL, column(0, INT), literal(limit, INT)), literal(text, pa.string()))
    ]
    assert values(call("CaseWhen", pa.string(), *cases), array) == ["few", "some", None, None]
    with_else = call("CaseWhen", pa.string(), *cases, literal("many", pa.string()))
    assert values(with_else, array) == ["few", "some", "many", "many"]


def test_coalesce_computes_what_is_missing() -> None:
    first, second = pa.array([1.0, None, None]), pa.array([0.0, 4.0, None])
    assert values(call("Coalesce", DOUBLE, column(0, DOUBLE), _inverse(1)), first, second) == [1.0, 0.25, None]
    assert values(applied("Coalesce", DOUBLE, first, second), first, second) == [1.0, 4.0, None]


def test_nested_values_can_be_chosen() -> None:
    type = pa.list_(pa.int32())
    first, second = pa.array([[1], None], type), pa.array([[2], [None]], type)
    assert values(applied("Coalesce", type, first, second), first, second) == [[1], [None]]


def test_nanvl() -> None:
    first, second = pa.array([math.nan, 1.0, None]), pa.array([5.0, 0.0, 0.0])
    assert values(call("NaNvl", DOUBLE, column(0, DOUBLE), column(1, DOUBLE)), first, second) == [5.0, 1.0, None]


def test_an_attempt_is_null_where_it_fails() -> None:
    array = pa.array([1.0, 0.0, 4.0, None, 0.0])
    assert values(call("TryEval", DOUBLE, _inverse(0)), array) == [1.0, None, 0.25, None, None]


def test_arguments_after_a_null_are_not_computed() -> None:
    first, second = pa.array([None, 1.0]), pa.array([0.0, 1.0])
    total = call("Add", DOUBLE, column(0, DOUBLE), _inverse(1), evalMode="ANSI")
    assert values(total, first, second) == [None, 2.0]


def test_a_merge_of_arrays_and_scalars() -> None:
    merge = Merge(4, pa.string())
    merge.put(np.array([0, 2]), pa.array(["a", "b"]))
    merge.put(np.array([3]), pa.scalar("c"))
    assert merge.array().to_pylist() == ["a", None, "b", "c"]
    assert Merge(2, pa.int8()).array().to_pylist() == [None, None]
