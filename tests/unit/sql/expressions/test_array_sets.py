"""Values as Spark should give them; `python -m benchmarks.expressions` asks Spark itself."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest
from tests.expression_kit import applied, values

INT, DOUBLE = pa.int32(), pa.float64()
INTS, DOUBLES, NESTED = pa.list_(INT), pa.list_(DOUBLE), pa.list_(pa.list_(INT))
LEFT = pa.array([[3, 1, 2], [1, None, 3, 1, None], [], None, [5], [2, 2, 2]], INTS)
RIGHT = pa.array([[2, 4], [None], [1], [1, 2], None, [2, None]], INTS)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("ArrayUnion", [[3, 1, 2, 4], [1, None, 3], [1], None, None, [2, None]]),
        ("ArrayIntersect", [[2], [None], [], None, None, [2]]),
        ("ArrayExcept", [[3, 1], [1, 3], [], None, None, []]),
    ],
)
def test_sets(kind: str, expected: list[Any]) -> None:
    assert values(applied(kind, INTS, LEFT, RIGHT), LEFT, RIGHT) == expected


def test_overlap_is_unknown_where_a_null_could_be_the_shared_value() -> None:
    overlap = applied("ArraysOverlap", pa.bool_(), LEFT, RIGHT)
    assert values(overlap, LEFT, RIGHT) == [True, None, False, None, None, True]


def test_searched_values() -> None:
    wanted = pa.array([1, 0, -1, 3, 5, None], INT)
    assert values(applied("ArrayContains", pa.bool_(), LEFT, wanted), LEFT, wanted) == [
        True, None, False, None, True, None
    ]  # fmt: skip
    assert values(applied("ArrayPosition", pa.int64(), LEFT, wanted), LEFT, wanted) == [2, 0, 0, None, 1, None]
    assert values(applied("ArrayRemove", INTS, LEFT, wanted), LEFT, wanted) == [
        [3, 2], [1, None, 3, 1, None], [], None, [], None
    ]  # fmt: skip


def test_distinct_values() -> None:
    assert values(applied("ArrayDistinct", INTS, LEFT), LEFT) == [[3, 1, 2], [1, None, 3], [], None, [5], [2]]
    nested = pa.array([[[1, 2], [1, 2], [1]], [None, [None]]], NESTED)
    assert values(applied("ArrayDistinct", NESTED, nested), nested) == [[[1, 2], [1]], [None, [None]]]


def test_minus_zero_becomes_zero_and_nan_equals_itself() -> None:
    doubles = pa.array([[1.5, math.nan, -0.0, 0.0, math.nan]], DOUBLES)
    (distinct,) = values(applied("ArrayDistinct", DOUBLES, doubles), doubles)
    assert str(distinct) == "[1.5, nan, 0.0]"
    found = pa.array([0.0])
    assert str(values(applied("ArrayRemove", DOUBLES, doubles, found), doubles, found)) == "[[1.5, nan, nan]]"
