"""JSON messages: what is read, what is bad, and which field is named."""

from __future__ import annotations

import datetime as dt
import json
import pickle
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import snapline as sl
from snapline.errors import ConfigurationError
from snapline.text import show_values

UTC = dt.UTC
TIME = dt.datetime(2026, 1, 2, 3, 4, 5, 678000, UTC)
ALL = (
    "user STRING, n BIGINT, small TINYINT, price DOUBLE, ok BOOLEAN, at TIMESTAMP, day DATE, amount DECIMAL(10,2), "
    "data BINARY, tags MAP<STRING, INT>, inner STRUCT<a: INT, at: TIMESTAMP>, days ARRAY<DATE>"
)


def decoded(schema: Any, *messages: bytes | None, **settings: Any) -> sl.formats.Decoded:
    return sl.formats.Json(schema, **settings).decoder().decode(list(messages))


def error(schema: Any, message: bytes, **settings: Any) -> str:
    """What is said about a bad message, alone and between good ones."""
    ((_, alone),) = decoded(schema, message, **settings).bad
    found = decoded(schema, b"{}", message, b"{}", **settings)
    ((number, beside),) = found.bad
    assert (number, found.batch.num_rows) == (1, 2)
    assert str(alone) == str(beside)
    return str(alone)


def test_all_types() -> None:
    message = {
        "user": "ä",
        "n": 1,
        "small": -128,
        "price": 1,
        "ok": True,
        "at": "2026-01-02T03:04:05.678Z",
        "day": "2026-01-02",
        "amount": 1.25,
        "data": "AP8=",
        "tags": {"x": 1, "y": None},
        "inner": {"a": 1, "at": "2026-01-02T04:04:05.678+01:00", "unknown": [1]},
        "days": ["2026-01-02", None],
        "unknown": {"a": [1]},
    }
    found = decoded(ALL, json.dumps(message).encode(), b"{}")
    assert found.bad == []
    day = dt.date(2026, 1, 2)
    row, nulls = found.batch.to_pylist()
    assert row == {
        "user": "ä",
        "n": 1,
        "small": -128,
        "price": 1.0,
        "ok": True,
        "at": TIME,
        "day": day,
        "amount": Decimal("1.25"),
        "data": b"\x00\xff",
        "tags": [("x", 1), ("y", None)],
        "inner": {"a": 1, "at": TIME},
        "days": [day, None],
    }
    assert set(nulls.values()) == {None}


def test_columns_that_only_objects_can_hold() -> None:
    assert decoded("tags MAP<BIGINT, TIMESTAMP>", b'{"tags":{"1":"2026-01-02T03:04:05.678Z"}}').batch.to_pylist() == [
        {"tags": [(1, TIME)]}
    ]
    schema = pa.schema([("t", pa.time64("us")), ("b", pa.large_binary()), ("l", pa.list_(pa.binary()))])
    assert decoded(schema, b'{"t":"03:04:05","b":"eA==","l":["eA=="]}').batch.to_pylist() == [
        {"t": dt.time(3, 4, 5), "b": b"x", "l": [b"x"]}
    ]


def test_unusual_arrow_types() -> None:
    schema = pa.schema(
        [
            ("large", pa.large_list(pa.large_string())),
            ("two", pa.list_(pa.int8(), 2)),
            ("word", pa.dictionary(pa.int32(), pa.string())),
            ("half", pa.float16()),
            ("day", pa.date64()),
            ("huge", pa.uint64()),
        ]
    )
    found = decoded(
        schema, b'{"large":["x"],"two":[1,2],"word":"w","half":0.5,"day":"2026-01-02","huge":%d}' % (2**64 - 1)
    )
    assert found.bad == []
    assert found.batch.schema == schema
    (row,) = found.batch.to_pylist()
    assert row == {
        "large": ["x"],
        "two": [1, 2],
        "word": "w",
        "half": 0.5,
        "day": dt.date(2026, 1, 2),
        "huge": 2**64 - 1,
    }
    assert "'two'" in error(schema, b'{"two":[1]}')


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2026-01-02T03:04:05.678Z", TIME),
        ("2026-01-02 03:04:05.678", TIME),
        ("2026-01-02T05:04:05.678+02:00", TIME),
        ("2026-01-02", dt.datetime(2026, 1, 2, tzinfo=UTC)),
    ],
)
def test_times_as_text(text: str, time: dt.datetime) -> None:
    message = json.dumps({"at": text}).encode()
    assert decoded("at TIMESTAMP", message, b"bad").batch.to_pylist() == [{"at": time}]
    assert decoded(pa.schema([("at", pa.timestamp("ms"))]), message).batch.to_pylist() == [
        {"at": time.replace(tzinfo=None)}
    ]


@pytest.mark.parametrize(("unit", "factor"), [("s", 1), ("ms", 1000), ("us", 10**6), ("ns", 10**9)])
def test_times_as_numbers(unit: Any, factor: int) -> None:
    time = TIME.replace(microsecond=0)
    message = json.dumps({"at": int(time.timestamp()) * factor, "l": [0]}).encode()
    found = decoded("at TIMESTAMP, l ARRAY<TIMESTAMP>", message, times=unit)
    assert found.batch.to_pylist() == [{"at": time, "l": [dt.datetime(1970, 1, 1, tzinfo=UTC)]}]
    assert "Expected `int" in error("at TIMESTAMP", b'{"at":"2026-01-02"}', times=unit)


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (b'{"n":"x"}', "Expected `int | null`, got `str` - at `$.n`"),
        (b'{"n":1.5}', "got `float` - at `$.n`"),
        (b'{"n":99999999999999999999}', "Expected `int` <= 9223372036854775807 - at `$.n`"),
        (b'{"small":128}', "Expected `int` <= 127 - at `$.small`"),
        (b'{"n":1,"n":2}', "'n'"),
        (b'{"user":1}', "got `int` - at `$.user`"),
        (b'{"ok":"true"}', "at `$.ok`"),
        (b'{"at":"yesterday"}', "Invalid RFC3339 encoded datetime - at `$.at`"),
        (b'{"at":1}', "at `$.at`"),
        (b'{"day":"2026-02-30"}', "the field 'day' has no value"),
        (b'{"amount":1.255}', "the field 'amount' has no value of type decimal128(10, 2)"),
        (b'{"amount":"x"}', "`$.amount`"),
        (b'{"data":"?"}', "Invalid base64 encoded string - at `$.data`"),
        (b'{"tags":[]}', "at `$.tags`"),
        (b'{"tags":{"x":9999999999}}', "at `$.tags[...]`"),
        (b'{"inner":{"a":"x"}}', "at `$.inner.a`"),
        (b'{"days":["x"]}', "the field 'days'"),
        (b"", "truncated"),
        (b" \n", "truncated"),
        (b"null", "Expected `object`, got `null`"),
        (b"[]", "Expected `object`, got `array`"),
        (b"{}{}", "trailing characters"),
        (b"{} null {}", "trailing characters"),
        (b'{"n":1', "truncated"),
        (b'"n":1}', "Expected `object`, got `str`"),
        (b'{"user":"\xff"}', "utf-8"),
        (b'{"unknown":"\xff"}', "utf-8"),
        (b'{"user":"\\ud800"}', "decoded as JSON"),
        (b'{"n":1}\0', "trailing"),
        (b'{"user":"a\nb"}', "invalid character"),
    ],
)
def test_bad_messages(message: bytes, said: str) -> None:
    assert said.lower() in error(ALL, message).lower()


def test_null_where_the_schema_has_none() -> None:
    schema = pa.schema([pa.field("n", pa.int64(), nullable=False), ("m", pa.map_(pa.string(), pa.int64()))])
    found = decoded(schema, b'{"n":1}', b"{}", b'{"n":null}')
    assert found.batch.to_pylist() == [{"n": 1, "m": None}]
    missing, null = (str(problem) for _, problem in found.bad)
    assert "missing required field `n`" in missing
    assert "no value for 'n'" in null


def test_messages_of_several_lines_and_a_trailing_line_end() -> None:
    found = decoded("n BIGINT", b'{\n "n":\n 1\n}\n', b' {"n":2}\r\n', b'{"n":3}')
    assert found.batch.to_pydict() == {"n": [1, 2, 3]}


def test_pieces_that_make_objects_together_are_bad() -> None:
    """Arrow alone would read three rows in each of these."""
    for messages in (
        [b'{"n":1,', b'"n":2}', b"{}{}", b"{}"],
        [b'{"l":[{}', b'{"n":1}]}', b"{}{}"],
        [b"{}{}", b"{}\0}", b"{}"],
        [b'{"n":"}', b'{"}', b"{}{}"],
    ):
        found = decoded("n BIGINT", *messages)
        one_by_one = [number for number, message in enumerate(messages) if decoded("n BIGINT", message).bad]
        assert [number for number, _ in found.bad] == one_by_one
        assert found.batch.num_rows == len(messages) - len(one_by_one)


def test_numbers_that_are_none_beside_bad_messages() -> None:
    found = decoded("x DOUBLE", b'{"x":NaN}', b"bad", b'{"x":-Infinity}')
    assert [str(value) for value in found.batch.column(0).to_pylist()] == ["nan", "-inf"]


def test_deep_nesting_breaks_nothing() -> None:
    deep = b'{"unknown":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    assert decoded("n BIGINT", deep, b'{"n":1}', b"bad").batch.to_pydict() == {"n": [None, 1]}


def test_messages_without_a_value() -> None:
    assert len(decoded("n BIGINT", None).bad) == 1
    assert decoded("n BIGINT", None, b'{"n":1}', nulls="row").batch.to_pydict() == {"n": [None, 1]}
    assert decoded("n BIGINT", None, b'{"n":1}', nulls="skip").batch.to_pydict() == {"n": [1]}


def test_names_of_columns_may_be_any_text() -> None:
    schema = pa.schema([("a b", pa.int64()), ("class", pa.map_(pa.string(), pa.int64())), ("ä", pa.string())])
    row = {"a b": 1, "class": [("x y", 1)], "ä": "ö"}
    batch = pa.RecordBatch.from_pylist([row], schema)
    messages = sl.formats.Json().encoder(schema).encode(batch)
    assert json.loads(messages[0] or b"") == {"a b": 1, "class": {"x y": 1}, "ä": "ö"}
    assert decoded(schema, *messages).batch.equals(batch)


def test_errors_show_no_values_if_they_are_hidden() -> None:
    show_values(False)
    try:
        said = error("amount DECIMAL(10,2)", b'{"amount":1.255}')
    finally:
        show_values(True)
    assert "'amount'" in said
    assert "1.255" not in said


def test_settings() -> None:
    assert pickle.loads(pickle.dumps(sl.formats.Json("n BIGINT"))).schema() == pa.schema([("n", pa.int64())])
    with pytest.raises(ConfigurationError, match="has no schema, which decoding needs"):
        sl.formats.Json().decoder()
    with pytest.raises(ConfigurationError, match="times='day'; use one of 'iso', 's'"):
        sl.formats.Json("n BIGINT", times="day")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="decimals='x'"):
        sl.formats.Json("n BIGINT", decimals="x")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "kind",
    [
        pa.duration("us"),
        pa.map_(pa.float64(), pa.int64()),
        pa.list_(pa.duration("s")),
        pa.map_(pa.string(), pa.timestamp("ns")),
    ],
)
def test_types_that_json_does_not_have(kind: pa.DataType) -> None:
    with pytest.raises(ConfigurationError, match="the column 'x'"):
        sl.formats.Json().check(pa.schema([("x", kind)]))
    with pytest.raises(ConfigurationError, match="the column 'x'"):
        sl.formats.Json(pa.schema([("x", kind)]))
