"""Values as Spark should give them; `python -m benchmarks.expressions` asks Spark itself."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from tests.text_kit import Raised, answer

from snapline.sql.expressions.registry import UnsupportedError

INT, TEXT = pa.int32(), pa.string()
UTC = pa.timestamp("us", "UTC")


def _read(text: str, type: pa.DataType, time_zone: str = "UTC", **options: str) -> Any:
    return answer("JsonToStructs", text, gives=type, options=options, timeZoneId=time_zone, schema=type)


def _field(text: str, type: pa.DataType) -> Any:
    """What is read beside another field, which must not suffer."""
    found = _read(f'{{"a":{text},"b":7}}', pa.struct([("a", type), ("b", INT)]))
    assert found["b"] == 7
    return found["a"]


@pytest.mark.parametrize(
    ("text", "type", "expected"),
    [
        ("1", INT, 1),
        ('"1"', INT, None),
        ("1.0", INT, None),
        ("3000000000", INT, None),
        ("128", pa.int8(), -128),
        ("40000", pa.int16(), None),
        ("1", pa.float64(), 1.0),
        ("-0", pa.float64(), 0.0),
        ('"Infinity"', pa.float64(), float("inf")),
        ('"-INF"', pa.float32(), float("-inf")),
        ('"x"', pa.float64(), None),
        ("1e400", pa.float64(), float("inf")),
        ("1.10", TEXT, "1.1"),
        ("1E5", TEXT, "100000.0"),
        (' { "q" : 1 } ', TEXT, '{"q":1}'),
        ("[ 1, 2 ]", TEXT, "[1,2]"),
        ("true", TEXT, "true"),
        ('""', TEXT, ""),
        ("true", pa.bool_(), True),
        ('"true"', pa.bool_(), None),
        ("123.456", pa.decimal128(5, 2), Decimal("123.46")),
        ("1234.5", pa.decimal128(5, 2), None),
        ('"12.3"', pa.decimal128(5, 2), Decimal("12.30")),
        ('"1,234.5"', pa.decimal128(10, 2), Decimal("1234.50")),
        ('"YWJj"', pa.binary(), b"abc"),
        ('"é"', pa.binary(), None),
        ('"2020-01-01"', pa.date32(), dt.date(2020, 1, 1)),
        ("12", pa.date32(), None),
        ('"2020-01-01T10:11:12"', pa.timestamp("us"), dt.datetime(2020, 1, 1, 10, 11, 12)),
        ("[1,null]", pa.list_(INT), [1, None]),
        ('[1,"x"]', pa.list_(INT), None),
        ('{"x":1}', pa.map_(TEXT, INT), [("x", 1)]),
        ('{"x":1,"y":"z"}', pa.map_(TEXT, INT), None),
        ('{"x":1,"y":"z"}', pa.struct([("x", INT), ("y", INT)]), {"x": 1, "y": None}),
        ('[{"x":1},{"x":"q"}]', pa.list_(pa.struct([("x", INT)])), [{"x": 1}, {"x": None}]),
        ("null", INT, None),
    ],
)
def test_fields(text: str, type: pa.DataType, expected: Any) -> None:
    assert _field(text, type) == expected


def test_timestamps_are_of_the_session_unless_they_name_a_zone() -> None:
    type = pa.struct([("a", UTC)])
    utc = dt.UTC
    assert _read('{"a":"2020-01-01T10:00:00"}', type, "America/New_York")["a"] == dt.datetime(
        2020, 1, 1, 15, tzinfo=utc
    )
    assert _read('{"a":"2020-01-01T10:00:00+02:00"}', type)["a"] == dt.datetime(2020, 1, 1, 8, tzinfo=utc)
    assert _read('{"a":1}', type)["a"] == dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=utc)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a":1} rest', {"a": 1}),
        ("{'a':1}", {"a": 1}),
        ("{}", {"a": None}),
        ("", None),
        ("  ", None),
        ("null", {"a": None}),
        ("{", {"a": None}),
        ("[1]", {"a": None}),
        ('[{"a":1}]', {"a": None}),
        ("1", {"a": None}),
    ],
)
def test_roots_of_structs(text: str, expected: Any) -> None:
    assert _read(text, pa.struct([("a", INT)])) == expected


@pytest.mark.parametrize(
    ("text", "type", "expected"),
    [
        ("[1,2]", pa.list_(INT), [1, 2]),
        ('{"a":1}', pa.list_(INT), None),
        ('{"a":1}', pa.list_(pa.struct([("a", INT)])), [{"a": 1}]),
        ('{"a":1.50,"b":null}', pa.map_(TEXT, TEXT), [("a", "1.5"), ("b", None)]),
        ('{"a":1,"a":2}', pa.map_(TEXT, INT), [("a", 1), ("a", 2)]),
        ("[1]", pa.map_(TEXT, INT), None),
        ("null", pa.list_(INT), None),
    ],
)
def test_roots_of_arrays_and_maps(text: str, type: pa.DataType, expected: Any) -> None:
    assert _read(text, type) == expected


def test_the_text_of_a_corrupt_record_is_kept() -> None:
    type = pa.struct([("_corrupt_record", TEXT), ("a", INT)])
    assert _read('{"a":"x"}', type) == {"_corrupt_record": '{"a":"x"}', "a": None}
    assert _read('{"a":1}', type) == {"_corrupt_record": None, "a": 1}
    renamed = pa.struct([("bad", TEXT), ("a", INT)])
    assert _read("{", renamed, columnNameOfCorruptRecord="bad") == {"bad": "{", "a": None}


def test_failfast_raises() -> None:
    type = pa.struct([("a", INT)])
    assert _read('{"a":"x"}', type, mode="FAILFAST") == Raised("MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION")
    assert _read('{"a":1}', type, mode="FAILFAST") == {"a": 1}


@pytest.mark.parametrize(
    ("type", "options"),
    [
        (pa.struct([("a", INT)]), {"allowComments": "true"}),
        (pa.struct([("a", pa.duration("us"))]), {}),
        (pa.map_(INT, INT), {}),
    ],
)
def test_what_is_not_supported(type: pa.DataType, options: dict[str, str]) -> None:
    with pytest.raises(UnsupportedError):
        _read("{}", type, **options)


def test_numbers_that_are_no_seconds() -> None:
    assert _field('{"a":12345678901234567890}', pa.timestamp("us", "UTC")) is None
