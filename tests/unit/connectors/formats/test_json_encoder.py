"""Rows written as JSON."""

from __future__ import annotations

import datetime as dt
import json
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import snapline as sl
from snapline.errors import UserCodeError

TIME = dt.datetime(2026, 1, 2, 3, 4, 5, 678000, dt.UTC)


def encoded(schema: pa.Schema, *rows: dict[str, Any], **settings: Any) -> list[bytes | None]:
    return list(sl.formats.Json(**settings).encoder(schema).encode(pa.RecordBatch.from_pylist(list(rows), schema)))


def only(kind: pa.DataType, value: Any, **settings: Any) -> Any:
    (message,) = encoded(pa.schema([("x", kind)]), {"x": value}, **settings)
    return json.loads(message or b"")["x"]


@pytest.mark.parametrize(
    ("kind", "value", "written"),
    [
        (pa.int64(), 2**62, 2**62),
        (pa.float64(), 0.1, 0.1),
        (pa.string(), 'a"\n', 'a"\n'),
        (pa.binary(), b"\x00\xff", "AP8="),
        (pa.bool_(), False, False),
        (pa.decimal128(10, 2), Decimal("1.50"), "1.50"),
        (pa.date32(), dt.date(2026, 1, 2), "2026-01-02"),
        (pa.date64(), dt.date(2026, 1, 2), "2026-01-02"),
        (pa.time64("us"), dt.time(3, 4, 5), "03:04:05.000000"),
        (pa.timestamp("ms", "UTC"), TIME, "2026-01-02T03:04:05.678Z"),
        (pa.timestamp("us", "Europe/Berlin"), TIME, "2026-01-02T03:04:05.678000Z"),
        (pa.timestamp("ns", "UTC"), TIME, "2026-01-02T03:04:05.678000000Z"),
        (pa.timestamp("ms"), TIME.replace(tzinfo=None), "2026-01-02T03:04:05.678"),
        (pa.list_(pa.timestamp("us", "UTC")), [TIME], ["2026-01-02T03:04:05.678000Z"]),
        (pa.map_(pa.string(), pa.int64()), {"a": 1}, {"a": 1}),
        (pa.map_(pa.int64(), pa.int64()), {1: 1}, {"1": 1}),
        (pa.struct([("a", pa.int64()), ("b", pa.binary())]), {"a": None, "b": b"x"}, {"a": None, "b": "eA=="}),
        (pa.dictionary(pa.int32(), pa.string()), "w", "w"),
        (pa.int64(), None, None),
        (pa.float64(), None, None),
    ],
)
def test_values(kind: pa.DataType, value: Any, written: Any) -> None:
    assert only(kind, value) == written


def test_times_as_numbers() -> None:
    assert only(pa.timestamp("us", "UTC"), TIME, times="ms") == 1767323045678
    assert only(pa.list_(pa.timestamp("us")), [TIME], times="ms") == [1767323045678]
    with pytest.raises(UserCodeError, match=r"the column 'x', timestamp\[us, tz=UTC\], cannot be written as JSON"):
        only(pa.timestamp("us", "UTC"), TIME, times="s")


def test_decimals_as_numbers() -> None:
    schema = pa.schema([("x", pa.decimal128(20, 2))])
    assert encoded(schema, {"x": Decimal("12345678901234567.50")}, decimals="number") == [b'{"x":12345678901234567.50}']


def test_nulls_can_be_left_out() -> None:
    schema = pa.schema([("a", pa.int64()), ("s", pa.list_(pa.struct([("b", pa.int64()), ("c", pa.int64())])))])
    rows: list[dict[str, Any]] = [{"a": None, "s": [{"b": 1, "c": None}, None]}, {"a": 0, "s": None}]
    assert encoded(schema, *rows, omit_nulls=True) == [b'{"s":[{"b":1},null]}', b'{"a":0}']
    assert encoded(schema, *rows)[1] == b'{"a":0,"s":null}'


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("place", ["plain", "list", "struct", "map"])
def test_numbers_that_json_does_not_have(bad: float, place: str) -> None:
    kind, value = {
        "plain": (pa.float64(), bad),
        "list": (pa.list_(pa.float32()), [1.0, bad]),
        "struct": (pa.struct([("a", pa.float64())]), {"a": bad}),
        "map": (pa.map_(pa.string(), pa.float64()), {"a": bad}),
    }[place]
    with pytest.raises(UserCodeError, match=r"the column 'x'.*JSON has no NaN and no infinity"):
        only(kind, value)


def test_a_map_with_a_key_twice() -> None:
    with pytest.raises(UserCodeError, match="the column 'x'"):
        only(pa.map_(pa.string(), pa.int64()), [("a", 1), ("a", 2)])


def test_slices_and_no_rows() -> None:
    schema = pa.schema([("x", pa.list_(pa.float64()))])
    batch = pa.RecordBatch.from_pylist([{"x": [math.nan]}, {"x": [1.0]}], schema)
    assert sl.formats.Json().encoder(schema).encode(batch.slice(1)) == [b'{"x":[1.0]}']
    assert sl.formats.Json().encoder(schema).encode(batch.slice(2)) == []
