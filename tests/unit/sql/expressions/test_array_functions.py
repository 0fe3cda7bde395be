"""Values as Spark should give them; `python -m benchmarks.expressions` asks Spark itself."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest
from tests.expression_kit import applied, call, column, condition, literal, values

INT, TEXT = pa.int32(), pa.string()
INTS, TEXTS = pa.list_(INT), pa.list_(TEXT)
ARRAYS = pa.array([[3, 1, 2], [1, None, 3, 1, None], [], None, [5]], INTS)


def test_arrays_from_values() -> None:
    numbers = pa.array([1, None], INT)
    assert values(call("CreateArray", INTS, column(0, INT), literal(7, INT)), numbers) == [[1, 7], [None, 7]]
    assert values(call("CreateArray", pa.list_(pa.null())), numbers) == [[], []]


def test_extremes() -> None:
    assert values(applied("ArrayMax", INT, ARRAYS), ARRAYS) == [3, 3, None, None, 5]
    assert values(applied("ArrayMin", INT, ARRAYS), ARRAYS) == [1, 1, None, None, 5]
    doubles = pa.array([[1.5, math.nan, -0.0, 0.0]])
    assert str(values(applied("ArrayMax", pa.float64(), doubles), doubles)) == "[nan]"
    assert str(values(applied("ArrayMin", pa.float64(), doubles), doubles)) == "[-0.0]"


@pytest.mark.parametrize(
    ("ascending", "expected"),
    [
        (True, [[1, 2, 3], [None, None, 1, 1, 3], [], None, [5]]),
        (False, [[3, 2, 1], [3, 1, 1, None, None], [], None, [5]]),
    ],
)
def test_sorted_arrays(ascending: bool, expected: list[Any]) -> None:
    ordered = call("SortArray", INTS, column(0, INTS), literal(ascending, pa.bool_()))
    assert values(ordered, ARRAYS) == expected


@pytest.mark.parametrize(
    ("start", "length", "expected"),
    [
        (1, 2, [[3, 1], [1, None], [], None, [5]]),
        (-2, 2, [[1, 2], [1, None], [], None, []]),
        (2, 100, [[1, 2], [None, 3, 1, None], [], None, []]),
        (-10, 3, [[], [], [], None, []]),
    ],
)
def test_slices(start: int, length: int, expected: list[Any]) -> None:
    part = call("Slice", INTS, column(0, INTS), literal(start, INT), literal(length, INT))
    assert values(part, ARRAYS) == expected


@pytest.mark.parametrize(
    ("start", "length", "error"),
    [(0, 1, "INVALID_PARAMETER_VALUE.START"), (1, -1, "INVALID_PARAMETER_VALUE.LENGTH")],
)
def test_slices_that_mean_nothing(start: int, length: int, error: str) -> None:
    part = call("Slice", INTS, column(0, INTS), literal(start, INT), literal(length, INT))
    assert condition(part, ARRAYS) == error


def test_arrays_of_arrays_are_null_if_one_of_them_is() -> None:
    nested = pa.array([[[1, 2], [3]], [[1], None], [], None], pa.list_(INTS))
    assert values(applied("Flatten", INTS, nested), nested) == [[1, 2, 3], None, [], None]


def test_repeated_values() -> None:
    texts, counts = pa.array(["a", None, "b"]), pa.array([2, 1, -1], INT)
    assert values(applied("ArrayRepeat", TEXTS, texts, counts), texts, counts) == [["a", "a"], [None], []]


def test_texts_of_arrays() -> None:
    texts, replacements = pa.array([["b", "a"], ["x", None, "x"], [], None], TEXTS), pa.array(["-", "-", None, "-"])
    plain = call("ArrayJoin", TEXT, column(0, TEXTS), literal(",", TEXT), nullReplacement=None)
    assert values(plain, texts) == ["b,a", "x,x", "", None]
    replaced = call("ArrayJoin", TEXT, column(0, TEXTS), literal(",", TEXT), column(1, TEXT))
    assert values(replaced, texts, replacements) == ["b,a", "x,-,x", None, None]


@pytest.mark.parametrize(
    ("position", "expected"),
    [
        (1, [[9, 3, 1, 2], [9, 1, None, 3, 1, None], [9], None, [9, 5]]),
        (-1, [[3, 1, 2, 9], [1, None, 3, 1, None, 9], [9], None, [5, 9]]),
        (-2, [[3, 1, 9, 2], [1, None, 3, 1, 9, None], [9, None], None, [9, 5]]),
        (
            6,
            [
                [3, 1, 2, None, None, 9],
                [1, None, 3, 1, None, 9],
                [None, None, None, None, None, 9],
                None,
                [5, None, None, None, None, 9],
            ],
        ),
        (
            -6,
            [
                [9, None, None, 3, 1, 2],
                [9, 1, None, 3, 1, None],
                [9, None, None, None, None, None],
                None,
                [9, None, None, None, None, 5],
            ],
        ),
    ],
)
def test_inserted_values(position: int, expected: list[Any]) -> None:
    inserted = call(
        "ArrayInsert", INTS, column(0, INTS), literal(position, INT), literal(9, INT), legacyNegativeIndex=False
    )
    assert values(inserted, ARRAYS) == expected


def test_the_index_zero_and_the_old_meaning_of_negative_ones() -> None:
    zero = call("ArrayInsert", INTS, column(0, INTS), literal(0, INT), literal(9, INT), legacyNegativeIndex=False)
    assert condition(zero, ARRAYS) == "INVALID_INDEX_OF_ZERO"
    old = call("ArrayInsert", INTS, column(0, INTS), literal(-1, INT), literal(9, INT), legacyNegativeIndex=True)
    assert values(old, ARRAYS)[0] == [3, 1, 9, 2]


def test_zipped_arrays_are_as_long_as_the_longest() -> None:
    others = pa.array([["b"], ["x"], ["y"], ["z"], None], TEXTS)
    type = pa.list_(pa.struct([("a", INT), ("b", TEXT)]))
    zipped = values(applied("ArraysZip", type, ARRAYS, others), ARRAYS, others)
    assert zipped[0] == [{"a": 3, "b": "b"}, {"a": 1, "b": None}, {"a": 2, "b": None}]
    assert zipped[2:] == [[{"a": None, "b": "y"}], None, None]


def test_shuffled_arrays_keep_their_elements() -> None:
    many = pa.array([list(range(50)), None], INTS)
    shuffled = values(applied("Shuffle", INTS, many, randomSeed=-5), many)
    assert sorted(shuffled[0]) == list(range(50))
    assert shuffled[0] != list(range(50))
    assert shuffled[1] is None
