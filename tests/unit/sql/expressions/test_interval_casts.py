from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from tests.expression_kit import array_of, call, column, condition, literal, values

from snapline.sql.expressions.registry import UnsupportedError
from snapline.sql.plans.fingerprints import same_meaning
from snapline.sql.plans.trees import Expression

MONTHS, TIME = pa.int32(), pa.duration("us")


def _interval(type: pa.DataType, sql_type: str) -> Expression:
    return replace(column(0, type), sql_type=sql_type)


def _cast(source: Expression, target: pa.DataType, sql_type: str = "", mode: str = "ANSI") -> Expression:
    return replace(call("Cast", target, source, evalMode=mode), sql_type=sql_type)


@pytest.mark.parametrize(
    ("sql_type", "months", "text"),
    [
        ("interval year to month", 14, "INTERVAL '1-2' YEAR TO MONTH"),
        ("interval year to month", -1, "INTERVAL '-0-1' YEAR TO MONTH"),
        ("interval year to month", -(2**31), "INTERVAL '-178956970-8' YEAR TO MONTH"),
        ("interval month", 14, "INTERVAL '14' MONTH"),
        ("interval year", 24, "INTERVAL '2' YEAR"),
    ],
)
def test_texts_of_months(sql_type: str, months: int, text: str) -> None:
    cast = _cast(_interval(MONTHS, sql_type), pa.string())
    assert values(cast, pa.array([months, None], MONTHS)) == [text, None]


@pytest.mark.parametrize(
    ("sql_type", "micros", "text"),
    [
        ("interval day to second", 90_061_001_000, "INTERVAL '1 01:01:01.001' DAY TO SECOND"),
        ("interval day to second", 0, "INTERVAL '0 00:00:00' DAY TO SECOND"),
        ("interval day to second", -(2**63), "INTERVAL '-106751991 04:00:54.775808' DAY TO SECOND"),
        ("interval hour to minute", 3_720_000_000, "INTERVAL '01:02' HOUR TO MINUTE"),
        ("interval second", 10_500_000, "INTERVAL '10.5' SECOND"),
        ("interval day", -86_400_000_000, "INTERVAL '-1' DAY"),
    ],
)
def test_texts_of_times(sql_type: str, micros: int, text: str) -> None:
    cast = _cast(_interval(TIME, sql_type), pa.string())
    assert values(cast, pa.array([micros], pa.int64()).view(TIME)) == [text]


def test_intervals_lose_the_units_that_the_target_does_not_have() -> None:
    years = _cast(_interval(MONTHS, "interval year to month"), MONTHS, "interval year")
    assert values(years, pa.array([25, -13, None], MONTHS)) == [24, -12, None]
    days = _cast(_interval(TIME, "interval day to second"), TIME, "interval day")
    given = pa.array([86_400_000_001, -999_999], pa.int64()).view(TIME)
    assert array_of(days, given).view(pa.int64()).to_pylist() == [86_400_000_000, 0]


def test_whole_numbers_of_one_unit() -> None:
    assert values(_cast(_interval(MONTHS, "interval year"), pa.int64()), pa.array([25], MONTHS)) == [2]
    assert values(_cast(column(0, pa.int32()), MONTHS, "interval year"), pa.array([3], pa.int32())) == [36]
    too_many = pa.array([2**31 - 1], pa.int32())
    assert condition(_cast(column(0, pa.int32()), MONTHS, "interval year"), too_many) == "CAST_OVERFLOW"
    assert values(_cast(column(0, pa.int32()), MONTHS, "interval year", "TRY"), too_many) == [None]


def test_type_names_have_the_units() -> None:
    assert values(call("TypeOf", pa.string(), _interval(MONTHS, "interval month")), pa.array([1], MONTHS)) == [
        "interval month"
    ]


def test_texts_and_nested_intervals_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="interval year to month"):
        values(_cast(literal("1-2", pa.string()), MONTHS, "interval year to month"))
    nested = _interval(pa.list_(MONTHS), "array<interval month>")
    with pytest.raises(UnsupportedError, match="array<interval month>"):
        values(_cast(nested, pa.string()), pa.array([[1]], pa.list_(MONTHS)))
    with pytest.raises(UnsupportedError, match="to_json"):
        values(call("StructsToJson", pa.string(), _interval(pa.struct([("a", MONTHS)]), "struct<a:interval month>")))


def test_casts_to_different_units_are_different_expressions() -> None:
    years, months = (_cast(column(0, pa.int32()), MONTHS, f"interval {unit}") for unit in ("year", "month"))
    both = call("CreateNamedStruct", pa.struct([("y", MONTHS), ("m", MONTHS)]), literal("y", pa.string()), years)
    both = replace(both, children=(*both.children, literal("m", pa.string()), months))
    assert values(both, pa.array([2], pa.int32())) == [{"y": 24, "m": 2}]
    assert not same_meaning(years, months)
