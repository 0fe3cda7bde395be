from __future__ import annotations

import math

import pyarrow as pa

from snapline.sql.expressions.value_order import equal, less, sort_key


def test_strings_go_by_their_bytes() -> None:
    left, right = pa.array(["\uffff", "a"]), pa.array(["\U0001f600", "B"])
    assert less(left, right, 2).to_pylist() == [True, False]
    assert sort_key(pa.string())("\uffff") < sort_key(pa.string())("\U0001f600")


def test_false_comes_before_true() -> None:
    left, right = pa.array([False, True, True]), pa.array([True, False, None])
    assert less(left, right, 3).to_pylist() == [True, False, None]


def test_values_of_no_type_compare_to_null() -> None:
    assert equal(pa.nulls(2), pa.nulls(2), 2).as_py() is None
    assert less(pa.nulls(2), pa.nulls(2), 2).as_py() is None


def test_keys_of_nested_values() -> None:
    key = sort_key(pa.list_(pa.float64()))
    ordered = [[], [None], [-math.inf], [0.0], [0.0, None], [math.inf], [math.nan]]
    shuffled = [ordered[place] for place in (6, 2, 0, 5, 1, 4, 3)]
    assert sorted(shuffled, key=key) == ordered
