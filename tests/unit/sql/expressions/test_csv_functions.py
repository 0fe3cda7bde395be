"""Values as Spark should give them; `python -m benchmarks.expressions` asks Spark itself."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from tests.text_kit import Raised, answer

from snapline.sql.expressions.csv_functions import tokenizer
from snapline.sql.expressions.registry import UnsupportedError

PAIR = pa.struct([("a", pa.int32()), ("b", pa.string())])
CORRUPT = pa.struct([("a", pa.int32()), ("_corrupt_record", pa.string())])


def _read(text: str, type: pa.DataType, **options: str) -> Any:
    return answer("CsvToStructs", text, gives=type, options=options, timeZoneId="UTC")


def _write(value: Any, type: pa.DataType, **options: str) -> Any:
    return answer("StructsToCsv", pa.scalar(value, type), options=options, timeZoneId="UTC")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", [""]),
        ("a", ["a"]),
        ("a,", ["a", ""]),
        (",", ["", ""]),
        ('"a,b",c', ["a,b", "c"]),
        ('"a\\"b"', ['a"b']),
        ('"a""b",c', ['"a""b"', "c"]),
        ('"",x', ["", "x"]),
    ],
)
def test_tokens(text: str, expected: list[str]) -> None:
    assert tokenizer(",")(text) == expected


@pytest.mark.parametrize(
    ("text", "a", "b"),
    [
        ("1,abc", 1, "abc"),
        ("", None, None),
        ("1", 1, None),
        ("x,abc", None, "abc"),
        ('1,"a,b",2', 1, "a,b"),
        ("1,", 1, None),
        (",", None, None),
        ('"a""b",c', None, "c"),
        (" 1 , a ", None, " a "),
        ("1,abc,extra", 1, "abc"),
    ],
)
def test_lines(text: str, a: int | None, b: str | None) -> None:
    assert _read(text, PAIR) == {"a": a, "b": b}


def test_quotation_that_does_not_end_the_value_is_text() -> None:
    assert _read('"a""b",c', pa.struct([("a", pa.string())])) == {"a": '"a""b"'}


@pytest.mark.parametrize(
    ("text", "expected"), [("1,abc", "1,abc"), ("1", None), ("x,abc", "x,abc"), ("", None), ("1,", "1,"), (",", ",")]
)
def test_the_text_of_a_corrupt_record_is_kept(text: str, expected: str | None) -> None:
    assert _read(text, CORRUPT)["_corrupt_record"] == expected


def test_other_types_and_separators() -> None:
    type = pa.struct([("a", pa.float64()), ("b", pa.date32()), ("c", pa.bool_())])
    assert _read("2;2020-01-01;TRUE", type, sep=";") == {"a": 2.0, "b": dt.date(2020, 1, 1), "c": True}


def test_infinity_is_written_as_java_does() -> None:
    kind = pa.struct([("a", pa.float32()), ("b", pa.float64())])
    assert _read("Inf,Infinity", kind) == {"a": float("inf"), "b": float("inf")}
    assert _read("inf,INF", kind) == {"a": None, "b": None}


def test_decimals_have_no_blanks() -> None:
    kind = pa.struct([("a", pa.decimal128(10, 2)), ("b", pa.decimal128(10, 2))])
    assert _read(" 1 ,1.5", kind) == {"a": None, "b": Decimal("1.50")}


def test_failfast_raises() -> None:
    assert _read("x,y", PAIR, mode="FAILFAST") == Raised("MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION")


def test_structs_are_written() -> None:
    texts = pa.struct([("a", pa.string()), ("b", pa.string()), ("c", pa.string())])
    assert _write({"a": 'q"r', "b": "", "c": None}, texts) == '"q\\"r","",'
    assert _write({"a": " x ", "b": "l\nm", "c": "\\"}, texts) == 'x,"l\nm",\\'
    assert _write({"a": None, "b": "x"}, PAIR) == ",x"
    assert _write({"a": None}, pa.struct([("a", pa.int32())])) is None
    mixed = pa.struct([("a", pa.float64()), ("b", pa.timestamp("us", "UTC")), ("c", pa.bool_())])
    moment = dt.datetime(2020, 1, 1, 10, 11, 12, 123456)
    assert _write({"a": 1.5, "b": moment, "c": True}, mixed) == "1.5,2020-01-01T10:11:12.123Z,true"
    assert _write({"a": 1.5, "b": moment, "c": True}, mixed, timestampFormat="HH:mm:ss.SSSSSS") == (
        "1.5,10:11:12.123456,true"
    )


def test_what_is_not_supported() -> None:
    with pytest.raises(UnsupportedError):
        _read("1", PAIR, header="true")
    with pytest.raises(UnsupportedError):
        _read("1", pa.struct([("a", pa.binary())]))
    with pytest.raises(UnsupportedError):
        _write({"a": b"x"}, pa.struct([("a", pa.binary())]))


def test_backslashes_are_doubled_in_quotations_only() -> None:
    one = pa.struct([("a", pa.string())])
    assert _write({"a": "x,\\"}, one) == '"x,\\\\"'
    assert _write({"a": "x\\"}, one) == "x\\"


def test_breaks_before_the_text_need_no_quotation() -> None:
    assert _write({"a": "\n1;"}, pa.struct([("a", pa.string())])) == "1;"
