from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from snapline.sql.expressions.ranks import codes, ranks
from snapline.sql.expressions.registry import UnsupportedError


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (pa.array([3, None, 1, 3]), [2, -1, 0, 2]),
        (pa.array([math.nan, -0.0, 0.0, math.inf]), [2, 0, 0, 1]),
        (pa.array(["é", "B", "b", ""]), [3, 1, 2, 0]),
        (pa.array([True, False, None]), [1, 0, -1]),
        (pa.array([Decimal("1.5"), Decimal("-2.5")]), [1, 0]),
        (pa.array([b"b", b"a"]), [1, 0]),
        (pa.array([[1, 2], [1], None, [None], []]), [3, 2, -1, 1, 0]),
        (pa.array([{"a": 1, "b": None}, {"a": 1, "b": "x"}, {"a": None, "b": "z"}, None]), [2, 3, 1, -1]),
        (pa.array([None, None]), [-1, -1]),
        (pa.array([], pa.string()), []),
    ],
)
def test_places_in_the_order_of_spark(array: pa.Array, expected: list[int]) -> None:
    assert ranks(array).tolist() == expected


@pytest.mark.parametrize("values", [([1, None], [2, 1]), ([0.0, math.nan], [math.nan, -0.0]), ([[1]], [[2], [1]])])
def test_equal_values_have_equal_codes(values: tuple[list[Any], list[Any]]) -> None:
    left, right = codes(*(pa.array(each) for each in values))
    assert left[0] == right[1]
    assert right[0] != right[1]


def test_maps_have_no_order() -> None:
    with pytest.raises(UnsupportedError):
        ranks(pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int32())))
