"""Values as Spark should give them; `python -m benchmarks.expressions` asks Spark itself."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from tests.expression_kit import call, column, condition, literal, values

from snapline.sql.expressions.lambdas import is_default_order
from snapline.sql.plans.trees import Expression

INT, LONG, BOOL = pa.int32(), pa.int64(), pa.bool_()
INTS = pa.list_(INT)
ARRAYS = pa.array([[3, 1, 2], [1, None, 3, 1, None], [], None, [5]], INTS)
NUMBERS = pa.array([1, 0, -1, 3, None], INT)


def variable(number: int, type: pa.DataType = INT) -> Expression:
    return call("NamedLambdaVariable", type, id=number, name=f"x{number}")


def function(body: Expression, *arguments: Expression) -> Expression:
    return call("LambdaFunction", body.type, body, *arguments)


X, Y = variable(101), variable(102)


def add(left: Expression, right: Expression, type: pa.DataType = INT) -> Expression:
    return call("Add", type, left, right, evalMode="ANSI")


def test_elements_meet_columns_of_their_row() -> None:
    sums = call("ArrayTransform", INTS, column(0, INTS), function(add(X, column(1, INT)), X))
    assert values(sums, ARRAYS, NUMBERS) == [[4, 2, 3], [1, None, 3, 1, None], [], None, [None]]


def test_positions_count_from_zero() -> None:
    product = call("Multiply", INT, X, Y, evalMode="ANSI")
    assert values(call("ArrayTransform", INTS, column(0, INTS), function(product, X, Y)), ARRAYS) == [
        [0, 1, 4], [0, None, 6, 3, None], [], None, [0]
    ]  # fmt: skip


def test_a_function_inside_a_function() -> None:
    nested = pa.array([[[1, 2], [3]], [None], []], pa.list_(INTS))
    outer = variable(103, INTS)
    size = call("Size", INT, outer, legacySizeOfNull=False)
    inner = call("ArrayTransform", INTS, outer, function(add(X, size), X))
    whole = call("ArrayTransform", pa.list_(INTS), column(0, pa.list_(INTS)), function(inner, outer))
    assert values(whole, nested) == [[[3, 4], [4]], [None], []]


def test_only_true_keeps_an_element() -> None:
    greater = call("GreaterThan", BOOL, X, literal(1, INT))
    kept = call("ArrayFilter", INTS, column(0, INTS), function(greater, X))
    assert values(kept, ARRAYS) == [[3, 2], [3], [], None, [5]]


@pytest.mark.parametrize(
    ("kind", "limit", "expected"),
    [
        ("ArrayExists", 1, [True, True, False, None, True]),
        ("ArrayExists", 100, [False, None, False, None, False]),
        ("ArrayForAll", 1, [False, False, True, None, True]),
        ("ArrayForAll", -100, [True, None, True, None, True]),
    ],
)
def test_tests_of_all_elements(kind: str, limit: int, expected: list[bool | None]) -> None:
    greater = call("GreaterThan", BOOL, X, literal(limit, INT))
    assert values(call(kind, BOOL, column(0, INTS), function(greater, X)), ARRAYS) == expected


def test_nothing_is_computed_after_the_element_that_decides() -> None:
    arrays = pa.array([[1, 0]], INTS)
    quotient = call(
        "IntegralDivide", LONG, call("Cast", LONG, literal(10, INT)), call("Cast", LONG, X), evalMode="ANSI"
    )
    test = call("GreaterThan", BOOL, quotient, literal(3, LONG))
    assert values(call("ArrayExists", BOOL, column(0, INTS), function(test, X)), arrays) == [True]
    assert condition(call("ArrayForAll", BOOL, column(0, INTS), function(test, X)), arrays) == "DIVIDE_BY_ZERO"


def test_aggregates_go_through_the_elements_in_order() -> None:
    total, element = variable(104), variable(105)
    merge = function(add(total, element), total, element)
    finish = function(call("Multiply", INT, total, literal(2, INT), evalMode="ANSI"), total)
    folded = call("ArrayAggregate", INT, column(0, INTS), column(1, INT), merge, finish)
    assert values(folded, ARRAYS, NUMBERS) == [14, None, -2, None, None]


def test_two_arrays_together() -> None:
    others = pa.array([[2, 4], [None], [1], [1, 2], None], INTS)
    both = call("ZipWith", INTS, column(0, INTS), column(1, INTS), function(add(X, Y), X, Y))
    assert values(both, ARRAYS, others) == [[5, 5, None], [None] * 5, [None], None, None]


def test_the_second_array_is_not_computed_where_the_first_is_null() -> None:
    nothing = pa.array([None], INTS)
    item = call("GetArrayItem", INTS, column(1, pa.list_(INTS)), literal(5, INT), failOnError=True)
    zipped = call("ZipWith", INTS, column(0, INTS), item, function(add(X, Y), X, Y))
    assert values(zipped, nothing, pa.array([[[1]]], pa.list_(INTS))) == [None]


def _if(test: Expression, yes: Any, no: Any) -> Expression:
    return call("If", INT, test, *(each if isinstance(each, Expression) else literal(each, INT) for each in (yes, no)))


DEFAULT_ORDER = _if(
    call("And", BOOL, call("IsNull", BOOL, X), call("IsNull", BOOL, Y)),
    0,
    _if(
        call("IsNull", BOOL, X),
        1,
        _if(
            call("IsNull", BOOL, Y),
            -1,
            _if(call("LessThan", BOOL, X, Y), -1, _if(call("GreaterThan", BOOL, X, Y), 1, 0)),
        ),
    ),
)


def test_the_default_order_is_known() -> None:
    default = function(DEFAULT_ORDER, X, Y)
    assert is_default_order(default)
    assert not is_default_order(function(DEFAULT_ORDER, Y, X))
    ordered = call("ArraySort", INTS, column(0, INTS), default)
    assert values(ordered, ARRAYS) == [[1, 2, 3], [1, 1, 3, None, None], [], None, [5]]


def test_an_order_of_ones_own() -> None:
    difference = call("Subtract", INT, Y, X, evalMode="ANSI")
    ordered = call("ArraySort", INTS, column(0, INTS), function(difference, X, Y), allowNullComparisonResult=False)
    few = ARRAYS.take(pa.array([0, 2, 3, 4]))
    assert values(ordered, few) == [[3, 2, 1], [], None, [5]]
    assert condition(ordered, ARRAYS) == "NullPointerException"
    nothing = call("ArraySort", INTS, column(0, INTS), function(literal(None, INT), X, Y))
    assert condition(nothing, few) == "COMPARATOR_RETURNS_NULL"
