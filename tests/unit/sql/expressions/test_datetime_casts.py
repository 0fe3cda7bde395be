"""Values as Spark should give them; `python -m benchmarks.expressions` asks Spark itself."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
from tests.expression_kit import applied, array_of, call, column, condition, values

ZONED, LOCAL = pa.timestamp("us", "UTC"), pa.timestamp("us")


def cast(array: pa.Array, type: pa.DataType, mode: str = "ANSI", zone: str = "America/Los_Angeles") -> list[Any]:
    result = array_of(applied("Cast", type, array, evalMode=mode, timeZoneId=zone), array)
    return result.view(pa.int64() if pa.types.is_timestamp(type) else pa.int32()).to_pylist()  # type: ignore[no-any-return]


def test_midnight_is_that_of_the_session() -> None:
    dates = pa.array([dt.date(1970, 1, 1), None], pa.date32())
    assert cast(dates, ZONED) == [8 * 3_600_000_000, None]
    assert cast(dates, LOCAL) == [0, None]


def test_dates_are_local() -> None:
    assert cast(pa.array([0, None], ZONED), pa.date32()) == [-1, None]
    assert cast(pa.array([0, -1], LOCAL), pa.date32()) == [0, -1]


def test_numbers_are_seconds() -> None:
    assert cast(pa.array([1, 2**63 - 1]), ZONED) == [1_000_000, 2**63 - 1]
    assert cast(pa.array([Decimal("1.5"), Decimal("-0.1")], pa.decimal128(5, 1)), ZONED) == [1_500_000, -100_000]
    assert cast(pa.array([1.5, math.nan]), ZONED, "LEGACY") == [1_500_000, None]
    array = pa.array([math.nan])
    assert condition(applied("Cast", ZONED, array, evalMode="ANSI", timeZoneId="UTC"), array) == "CAST_INVALID_INPUT"


def test_plain_and_odd_texts() -> None:
    plain = pa.array(["2026-03-08 02:30:00", None])
    assert cast(plain, ZONED) == [1772965800_000_000, None]
    odd = pa.array(["2026-3-8 2:30", None])
    assert cast(odd, ZONED) == [1772965800_000_000, None]
    assert cast(pa.array(["2026-02-30"]), pa.date32(), "TRY") == [None]
    assert cast(pa.array(["2026-02-28"]), pa.date32()) == [20512]


def test_between_kinds_of_timestamps() -> None:
    assert cast(pa.array([0], ZONED), LOCAL) == [-8 * 3_600_000_000]
    assert cast(pa.array([0], LOCAL), ZONED) == [8 * 3_600_000_000]


def test_dates_of_texts_with_a_time() -> None:
    cast = call("Cast", pa.date32(), column(0, pa.string()), evalMode="TRY")
    texts = ["2026-03-29 02:30:00", "2026-03-29T", "2026-02-30 00:00:00", None]
    with_another = values(cast, pa.array([*texts, " 2026"]))
    assert values(cast, pa.array(texts)) == with_another[:-1]
    assert [str(day) for day in values(cast, pa.array(texts[:2]))] == ["2026-03-29", "2026-03-29"]


def test_long_decimals_are_seconds_with_34_digits() -> None:
    array = pa.array([Decimal("9" * 20 + "." + "9" * 18)], pa.decimal128(38, 18))
    cast = applied("Cast", pa.timestamp("us", "UTC"), array, evalMode="ANSI", timeZoneId="UTC")
    assert array_of(cast, array).view(pa.int64()).to_pylist() == [(10**26 + 2**63) % 2**64 - 2**63]
