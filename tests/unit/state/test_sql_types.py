"""The text of types, as Spark SQL writes them."""

from __future__ import annotations

import contextlib

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapline.errors import ConfigurationError
from snapline.state.sql_types import MAX_DEPTH, MAX_TEXT_CHARACTERS, parse_type

UTC = pa.timestamp("us", tz="UTC")


@pytest.mark.parametrize(
    ("text", "arrow"),
    [
        ("boolean", pa.bool_()),
        ("tinyint", pa.int8()),
        ("byte", pa.int8()),
        ("smallint", pa.int16()),
        ("short", pa.int16()),
        ("int", pa.int32()),
        ("integer", pa.int32()),
        ("bigint", pa.int64()),
        ("  LONG\n", pa.int64()),
        ("float", pa.float32()),
        ("real", pa.float32()),
        ("double", pa.float64()),
        ("string", pa.string()),
        ("string collate UNICODE_CI", pa.string()),
        ("varchar(10)", pa.string()),
        ("char( 3 )", pa.string()),
        ("binary", pa.binary()),
        ("date", pa.date32()),
        ("timestamp", UTC),
        ("timestamp_ltz", UTC),
        ("timestamp with local time zone", UTC),
        ("timestamp_ntz", pa.timestamp("us")),
        ("TIMESTAMP WITHOUT TIME ZONE", pa.timestamp("us")),
        ("time", pa.time64("ns")),
        ("time(6)", pa.time64("ns")),
        ("interval day to second", pa.duration("us")),
        ("interval hour", pa.duration("us")),
        ("decimal", pa.decimal128(10, 0)),
        ("numeric(5)", pa.decimal128(5, 0)),
        ("dec(38, 38)", pa.decimal128(38, 38)),
        ("array<int>", pa.list_(pa.field("element", pa.int32()))),
        ("map<string,double>", pa.map_(pa.string(), pa.float64())),
        ("array<array<map<int,date>>>", pa.list_(pa.list_(pa.map_(pa.int32(), pa.date32())))),
        ("struct<a:int,b:array<string>>", pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))])),
        ("STRUCT < a INT , b : BIGINT >", pa.struct([("a", pa.int32()), ("b", pa.int64())])),
        ("a int", pa.struct([("a", pa.int32())])),
        ("a: int", pa.struct([("a", pa.int32())])),
        (
            "a INT, b STRING NOT NULL COMMENT 'it\\'s, b', c date comment \"c\" 'more'",
            pa.struct([("a", pa.int32()), pa.field("b", pa.string(), nullable=False), ("c", pa.date32())]),
        ),
        ("`a ``b``, c` int, `int` int", pa.struct([("a `b`, c", pa.int32()), ("int", pa.int32())])),
        ("timestamp int, interval string", pa.struct([("timestamp", pa.int32()), ("interval", pa.string())])),
        ("string string, 1a date", pa.struct([("string", pa.string()), ("1a", pa.date32())])),
        ("A int, a int", pa.struct([("A", pa.int32()), ("a", pa.int32())])),
        ("größe int", pa.struct([("größe", pa.int32())])),
    ],
)
def test_text_as_spark_accepts_it(text: str, arrow: pa.DataType) -> None:
    assert parse_type(text) == arrow


@pytest.mark.parametrize(
    ("text", "at", "problem"),
    [
        ("", 1, "expected a type (array, bigint"),
        ("strng", 1, "expected a type (is 'string' meant?), found 'strng'"),
        ("a int, b strng", 10, "is 'string' meant?"),
        ("a int,", 7, "expected the name of a column, found the end"),
        ("a int b int", 7, "expected the end, found 'b'"),
        ("a int, a string", 8, "there are two columns 'a'"),
        ("a int not", 10, "expected 'NULL'"),
        ("a int comment b", 15, "expected a comment in quotes"),
        ("1 int", 1, "expected the name of a column"),
        ("a-b int", 2, "'-' has no meaning here"),
        ("a int comment 'open", 15, "not closed"),
        ("array", 6, "expected '<', found the end"),
        ("array<int", 10, "expected '>', found the end"),
        ("map<int>", 8, "expected ',', found '>'"),
        ("struct<>", 8, "expected the name of a column"),
        ("varchar", 8, "expected '('"),
        ("varchar(x)", 9, "expected the length of varchar as a number"),
        ("varchar(1,2)", 10, "expected ')'"),
        ("varchar(99999999999999)", 9, "as a number"),
        ("decimal(39,2)", 8, "a precision of 1 to 38"),
        ("decimal(5,6)", 8, "a scale of at most its precision"),
        ("decimal(0)", 8, "a precision of 1 to 38"),
        ("time(10)", 5, "a precision of 0 to 9"),
        ("interval", 1, "say `interval day to second`"),
        ("a interval not null", 3, "say `interval day to second`"),
        ("interval year to month", 1, "count months"),
        ("interval minute to hour", 20, "expected second"),
        ("interval second to day", 20, "no unit behind `second`"),
        ("timestamp without zone", 19, "expected 'TIME'"),
        ("a void not null", 3, "void has no values"),
        ("variant", 1, "a variant cannot be held in state"),
        ("a udt", 3, "a user-defined type cannot be held in state"),
        ("geometry(4326)", 1, "use binary (WKB)"),
    ],
)
def test_what_cannot_be_read_is_marked(text: str, at: int, problem: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_type(text)
    message, excerpt, mark = str(caught.value).split("\n")
    assert problem in message
    assert f"at character {at}:" in message
    assert excerpt.strip() == text.strip()
    assert mark.index("^") == 2 + at - 1


def test_a_long_text_is_quoted_around_the_fault() -> None:
    text = ", ".join(f"column_{index}\tint" for index in range(100)) + ", last strng, after int"
    with pytest.raises(ConfigurationError, match="is 'string' meant") as caught:
        parse_type(text)
    _, excerpt, mark = str(caught.value).split("\n")
    assert len(excerpt) <= 102
    assert excerpt[mark.index("^") :].startswith("strng, after int")


@given(st.text(st.sampled_from("ab`<>(),:' \n19") | st.characters(), max_size=30))
def test_any_text_is_a_type_or_a_configuration_error(text: str) -> None:
    with contextlib.suppress(ConfigurationError):
        parse_type(text)


def test_limits() -> None:
    deep = "array<" * MAX_DEPTH + "int" + ">" * MAX_DEPTH
    assert pa.types.is_list(parse_type(deep))
    with pytest.raises(ConfigurationError, match="at most 32"):
        parse_type(f"array<{deep}>")
    with pytest.raises(ConfigurationError, match="at most 65536 are allowed"):
        parse_type(" " * MAX_TEXT_CHARACTERS + "int")
