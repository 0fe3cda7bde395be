"""Texts as Spark should write them; `python -m benchmarks.expressions` asks Spark itself."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from tests.expression_kit import array_of, call, column
from tests.text_kit import answer

from snapline.sql.expressions.json_documents import parsed
from snapline.sql.expressions.json_write import json_text, quoted
from snapline.sql.expressions.registry import UnsupportedError

UTC = pa.timestamp("us", "UTC")
MOMENT = dt.datetime(2020, 1, 1, 10, 11, 12, 123456)


def _json(value: Any, type: pa.DataType, **options: str) -> str:
    text: str = answer("StructsToJson", pa.scalar(value, type), options=options, timeZoneId="UTC")
    return text


@pytest.mark.parametrize(
    ("type", "value", "expected"),
    [
        (pa.int64(), 1, "1"),
        (pa.string(), 'q"\\/\n\t\r\b\x01é😀', '"q\\"\\\\/\\n\\t\\r\\b\\u0001é😀"'),
        (pa.float64(), 1e20, "1.0E20"),
        (pa.float64(), math.nan, '"NaN"'),
        (pa.float32(), -math.inf, '"-Infinity"'),
        (pa.decimal128(20, 12), Decimal("1.00E-10"), "1.00E-10"),
        (pa.decimal128(20, 12), Decimal("0E-12"), "0E-12"),
        (pa.decimal128(3, 2), Decimal("1.50"), "1.50"),
        (pa.bool_(), True, "true"),
        (pa.date32(), dt.date(2020, 1, 1), '"2020-01-01"'),
        (UTC, MOMENT, '"2020-01-01T10:11:12.123Z"'),
        (pa.timestamp("us"), MOMENT, '"2020-01-01T10:11:12.123"'),
        (UTC, dt.datetime(1, 1, 1), '"0001-01-01T00:00:00.000Z"'),
        (pa.binary(), b"abc", '"YWJj"'),
        (pa.list_(pa.string()), ["x", None], '["x",null]'),
        (pa.map_(pa.string(), pa.int32()), [("a", 1), ("b", None)], '{"a":1,"b":null}'),
        (pa.map_(pa.int32(), pa.int32()), [(1, 2)], '{"1":2}'),
        (pa.map_(pa.date32(), pa.int32()), [(dt.date(2020, 1, 1), 1)], '{"18262":1}'),
        (pa.map_(pa.float64(), pa.int32()), [(1.5, 1)], '{"1.5":1}'),
        (pa.struct([("b", pa.int32())]), {"b": None}, "{}"),
    ],
)
def test_values(type: pa.DataType, value: Any, expected: str) -> None:
    assert _json({"x": value}, pa.struct([("x", type)])) == f'{{"x":{expected}}}'


def test_nulls_are_left_out_unless_told() -> None:
    type = pa.struct([("a", pa.int32()), ('c"d', pa.string())])
    assert _json({"a": None, 'c"d': "x"}, type) == '{"c\\"d":"x"}'
    assert _json({"a": None, 'c"d': "x"}, type, ignoreNullFields="false") == '{"a":null,"c\\"d":"x"}'
    assert _json({"a": None, 'c"d': None}, type) == "{}"
    assert _json(None, type) is None


def test_columns_keep_their_rows() -> None:
    array = pa.array([[{"a": 1}, {"a": None}, None], None, []], pa.list_(pa.struct([("a", pa.int32())])))
    expression = call("StructsToJson", pa.string(), column(0, array.type), options={}, timeZoneId="UTC")
    assert array_of(expression, array).to_pylist() == ['[{"a":1},{},null]', None, "[]"]
    assert array_of(expression, array[1:]).to_pylist() == [None, "[]"]


def test_times_are_those_of_the_session() -> None:
    type = pa.struct([("x", UTC)])
    text = answer("StructsToJson", pa.scalar({"x": MOMENT}, type), options={}, timeZoneId="America/New_York")
    assert text == '{"x":"2020-01-01T05:11:12.123-05:00"}'
    early = pa.scalar({"x": dt.datetime(1, 1, 3)}, type)
    text = answer("StructsToJson", early, options={}, timeZoneId="America/Los_Angeles")
    assert text == '{"x":"0001-01-02T16:07:02.000-07:52:58"}'


@pytest.mark.parametrize(("options", "type"), [({"pretty": "true"}, pa.int32()), ({}, pa.duration("us"))])
def test_what_is_not_supported(options: dict[str, str], type: pa.DataType) -> None:
    with pytest.raises(UnsupportedError):
        answer("StructsToJson", pa.scalar(None, pa.struct([("x", type)])), options=options, timeZoneId="UTC")


def test_texts_of_what_was_read() -> None:
    text = ' {"a" : [ 1.50 , -0, 1e5, "\\u00e9\\ud83d\\ude00", null , true ] , "a":12345678901234567890 } '
    assert json_text(parsed(text)) == '{"a":[1.5,0,100000.0,"é\\uD83D\\uDE00",null,true],"a":12345678901234567890}'
    assert quoted("\x1f") == '"\\u001F"'
