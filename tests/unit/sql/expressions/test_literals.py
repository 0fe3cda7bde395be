from __future__ import annotations

import math

import pyarrow as pa
from tests.expression_kit import applied, call, literal, values

ROWS = pa.array([1, 2])


def test_constants() -> None:
    assert values(literal([1, None], pa.list_(pa.int32())), ROWS) == [[1, None]] * 2
    assert values(call("Pi", pa.float64()), ROWS) == [math.pi] * 2
    assert values(call("EulerNumber", pa.float64()), ROWS) == [math.e] * 2
    assert values(applied("TypeOf", pa.string(), ROWS), ROWS) == ["bigint"] * 2


def test_names_change_nothing() -> None:
    assert values(applied("Alias", pa.int64(), ROWS, name="x", id=9), ROWS) == [1, 2]


def test_zeros_lose_their_sign() -> None:
    array = pa.array([-0.0, math.nan, None])
    result = values(applied("NormalizeNaNAndZero", pa.float64(), array), array)
    assert math.copysign(1.0, result[0]) == 1.0
    assert math.isnan(result[1])
    assert result[2] is None
