from __future__ import annotations

import pyarrow as pa
import pytest
from tests.expression_kit import call, column, literal, values

from snapline.sql.expressions.registry import UnsupportedError

TEXT = pa.string()
BYTES = pa.array([b"ab", b"a\xffb", None])
AS_TEXT = call("Cast", TEXT, column(0, pa.binary()), evalMode="ANSI")
FAR = pa.array([0, -(2**63)]).cast(pa.timestamp("us"))


def test_functions_of_bytes_take_text_that_is_no_utf8() -> None:
    assert values(call("OctetLength", pa.int32(), AS_TEXT), BYTES) == [2, 3, None]
    assert values(call("IsValidUTF8", pa.bool_(), AS_TEXT), BYTES) == [True, False, None]


def test_functions_of_java_texts_see_it_replaced() -> None:
    test = call("RLike", pa.bool_(), AS_TEXT, literal("^a.b$", TEXT))
    assert values(test, BYTES) == [False, True, None]


def test_other_functions_refuse_it_and_say_what_to_write() -> None:
    length = call("Length", pa.int32(), AS_TEXT)
    assert values(length, pa.array([b"abc", None], pa.binary())) == [3, None]
    with pytest.raises(UnsupportedError, match="make_valid_utf8"):
        values(length, BYTES)


def test_a_constant_is_checked_too() -> None:
    constant = call("Cast", TEXT, literal(b"\xff", pa.binary()), evalMode="ANSI")
    with pytest.raises(UnsupportedError, match="no UTF-8"):
        values(call("Length", pa.int32(), constant), BYTES)


def test_times_at_the_ends_of_the_type_are_refused_by_the_calendar_alone() -> None:
    with pytest.raises(UnsupportedError, match="290,000 years"):
        values(call("Year", pa.int32(), column(0, FAR.type)), FAR)
    assert values(call("EqualTo", pa.bool_(), column(0, FAR.type), column(0, FAR.type)), FAR) == [True, True]
    near = pa.array([0, None], FAR.type)
    assert values(call("Year", pa.int32(), column(0, FAR.type)), near) == [1970, None]


def test_dates_too() -> None:
    dates = pa.array([2**31 - 1], pa.int32()).cast(pa.date32())
    with pytest.raises(UnsupportedError, match="290,000 years"):
        values(call("LastDay", pa.date32(), column(0, pa.date32())), dates)
    assert values(call("LastDay", pa.date32(), column(0, pa.date32())), pa.array([], pa.date32())) == []


def test_rows_that_do_not_need_a_value_do_not_refuse_it() -> None:
    valid = call("IsValidUTF8", pa.bool_(), AS_TEXT)
    guarded = call("If", pa.int32(), valid, call("Length", pa.int32(), AS_TEXT), literal(-1, pa.int32()))
    assert values(guarded, BYTES) == [2, -1, -1]
    after_null = call("Levenshtein", pa.int32(), literal(None, TEXT), AS_TEXT)
    assert values(after_null, BYTES) == [None, None, None]
