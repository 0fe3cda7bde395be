"""Values as Spark should give them; `python -m benchmarks.expressions` asks Spark itself."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from tests.expression_kit import applied, array_of, condition, values

from snapline.sql.expressions.registry import UnsupportedError


def cast(array: pa.Array, type: pa.DataType, mode: str = "LEGACY", zone: str = "UTC") -> list[Any]:
    return values(applied("Cast", type, array, evalMode=mode, timeZoneId=zone), array)


def test_malformed_texts_raise_or_are_null() -> None:
    array = pa.array(["12", "x", None])
    ansi = applied("Cast", pa.int32(), array, evalMode="ANSI", timeZoneId="UTC")
    assert condition(ansi, array) == "CAST_INVALID_INPUT"
    assert cast(array, pa.int32(), "LEGACY") == [12, None, None]
    assert cast(array, pa.int32(), "TRY") == [12, None, None]


def test_integers_to_bytes() -> None:
    assert cast(pa.array([1, -2, None], pa.int32()), pa.binary()) == [b"\0\0\0\1", b"\xff\xff\xff\xfe", None]


def test_bytes_and_texts() -> None:
    assert cast(pa.array(["é", None]), pa.binary()) == ["é".encode(), None]
    assert cast(pa.array([b"abc", None]), pa.string()) == ["abc", None]


def test_elements_of_lists_in_slices() -> None:
    array = pa.array([["9"], ["1", None, " 2 "], None, []])[1:]
    assert cast(array, pa.list_(pa.int64())) == [[1, None, 2], None, []]


def test_entries_of_maps() -> None:
    array = pa.array([[("z", 0)], [("a", 1), ("b", None)], None], pa.map_(pa.string(), pa.int32()))[1:]
    type = pa.map_(pa.string(), pa.int64())
    assert cast(array, type) == [[("a", 1), ("b", None)], None]


def test_fields_of_structs_by_position() -> None:
    array = pa.array([{"a": 1, "b": "2"}, None], pa.struct([("a", pa.int32()), ("b", pa.string())]))
    type = pa.struct([("x", pa.int64()), ("y", pa.decimal128(5, 2))])
    assert cast(array, type) == [{"x": 1, "y": Decimal("2.00")}, None]


def test_a_null_of_no_type_becomes_any() -> None:
    assert cast(pa.nulls(1), pa.list_(pa.string())) == [None]


def test_unknown_casts_are_refused() -> None:
    array = pa.array([b"1"])
    with pytest.raises(UnsupportedError, match="binary to int"):
        array_of(applied("Cast", pa.int32(), array, evalMode="ANSI"), array)
