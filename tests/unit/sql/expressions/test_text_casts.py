"""Values as Spark should give them; `python -m benchmarks.expressions` asks Spark itself."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
from tests.expression_kit import applied, array_of, values


def text(array: pa.Array, mode: str = "ANSI", zone: str = "America/Los_Angeles") -> list[Any]:
    return values(applied("Cast", pa.string(), array, evalMode=mode, timeZoneId=zone), array)


def test_nested_values() -> None:
    assert text(pa.array([[1, None], [], None])) == ["[1, null]", "[]", None]
    maps = pa.array([[("a", 1), ("b", None)], [], None], pa.map_(pa.string(), pa.int32()))
    assert text(maps) == ["{a -> 1, b -> null}", "{}", None]
    assert text(maps[1:]) == ["{}", None]
    structs = pa.array(
        [{"a": 1, "b": None, "c": "x"}, None], pa.struct({"a": pa.int32(), "b": pa.null(), "c": pa.string()})
    )
    assert text(structs) == ["{1, null, x}", None]
    assert text(pa.array([[[1], None]])) == ["[[1], null]"]


def test_timestamps_are_local() -> None:
    assert text(pa.array([0], pa.timestamp("us", "UTC"))) == ["1969-12-31 16:00:00"]
    assert text(pa.array([100_000], pa.timestamp("us"))) == ["1970-01-01 00:00:00.1"]


def test_decimals_have_exponents_in_legacy_mode_only() -> None:
    array = pa.array([Decimal("0.0000001")], pa.decimal128(8, 7))
    assert text(array) == ["0.0000001"]
    assert text(array, "LEGACY") == ["1E-7"]


def test_truth_values() -> None:
    assert text(pa.array([True, False, None])) == ["true", "false", None]


def test_calendar_intervals() -> None:
    given = [[14, -3, 3_600_000_000_000 + 1_500_000_000], [0, 0, 0], [-13, 0, -61_000_000_000]]
    array = pa.array([pa.MonthDayNano(parts) for parts in given])
    assert text(array) == [
        "1 years 2 months -3 days 1 hours 1.5 seconds",
        "0 seconds",
        "-1 years -1 months -1 minutes -1 seconds",
    ]


def test_bytes_inside_of_other_values_stay_as_they_are() -> None:
    array = pa.array([[b"\xff", None, b"a"]], pa.list_(pa.binary()))
    cast = applied("Cast", pa.string(), array, evalMode="ANSI", timeZoneId="UTC")
    assert array_of(cast, array).cast(pa.binary()).to_pylist() == [b"[\xff, null, a]"]
