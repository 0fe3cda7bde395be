"""Values as Spark should give them; `python -m benchmarks.expressions` asks Spark itself."""

from __future__ import annotations

import math

import pyarrow as pa
from tests.expression_kit import applied, call, column, condition, literal, values

INT = pa.int32()
INTS = pa.list_(INT)
ARRAYS = pa.array([[3, 1, 2], [1, None, 3], [], None], INTS)
MAPS = pa.array([[("a", 1), ("b", 2)], [("b", None)], [], None], pa.map_(pa.string(), INT))


def test_sizes() -> None:
    assert values(applied("Size", INT, ARRAYS, legacySizeOfNull=False), ARRAYS) == [3, 3, 0, None]
    assert values(applied("Size", INT, MAPS, legacySizeOfNull=True), MAPS) == [2, 1, 0, -1]


def test_items_count_from_zero() -> None:
    indices = pa.array([1, 0, -1, 3], INT)
    item = applied("GetArrayItem", INT, ARRAYS, indices, failOnError=False)
    assert values(item, ARRAYS, indices) == [1, 1, None, None]
    strict = applied("GetArrayItem", INT, ARRAYS, indices, failOnError=True)
    assert condition(strict, ARRAYS, indices) == "INVALID_ARRAY_INDEX"


def test_elements_count_from_one_or_from_the_end() -> None:
    indices = pa.array([2, -1, 5, 0], INT)
    element = applied("ElementAt", INT, ARRAYS, indices, failOnError=False)
    assert values(element, ARRAYS, indices) == [1, 3, None, None]
    strict = applied("ElementAt", INT, ARRAYS, indices, failOnError=True)
    assert condition(strict, ARRAYS, indices) == "INVALID_ARRAY_INDEX_IN_ELEMENT_AT"
    zero = call("ElementAt", INT, column(0, INTS), literal(0, INT), failOnError=False)
    assert condition(zero, ARRAYS) == "INVALID_INDEX_OF_ZERO"


def test_values_of_keys() -> None:
    keys = pa.array(["a", "b", "c", "a"])
    assert values(applied("GetMapValue", INT, MAPS, keys), MAPS, keys) == [1, None, None, None]
    assert values(applied("ElementAt", INT, MAPS, keys, failOnError=True), MAPS, keys) == [1, None, None, None]


def test_nan_and_minus_zero_are_keys_like_others() -> None:
    doubles = pa.array([[(math.nan, 1)], [(0.0, 2)]], pa.map_(pa.float64(), INT))
    keys = pa.array([math.nan, -0.0])
    assert values(applied("GetMapValue", INT, doubles, keys), doubles, keys) == [1, 2]
