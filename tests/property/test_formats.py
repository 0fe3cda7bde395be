"""Formats of messages: what is written is read again, and a message is good or bad whatever is beside it."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import snapline as sl

UTC = dt.UTC
TEXT = st.text(st.characters(codec="utf-8"), max_size=6)
TIMES = st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2200, 1, 1)).map(lambda time: time.replace(tzinfo=UTC))
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
LEAVES: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    (pa.float64(), FLOATS),
    (pa.bool_(), st.booleans()),
    (pa.string(), TEXT),
    (pa.binary(), st.binary(max_size=6)),
    (pa.date32(), st.dates(dt.date(1900, 1, 1), dt.date(2200, 1, 1))),
    (pa.timestamp("us", "UTC"), TIMES),
    (pa.decimal128(12, 3), st.decimals(-(10**8), 10**8, places=3)),
]


def _nested(
    children: st.SearchStrategy[tuple[pa.DataType, st.SearchStrategy[Any]]],
) -> st.SearchStrategy[tuple[pa.DataType, st.SearchStrategy[Any]]]:
    def or_null(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        return st.none() | values

    return st.one_of(
        children.map(lambda child: (pa.list_(child[0]), st.lists(or_null(child[1]), max_size=3))),
        children.map(
            lambda child: (
                pa.map_(pa.string(), child[0]),
                st.dictionaries(TEXT, or_null(child[1]), max_size=3).map(lambda found: list(found.items())),
            )
        ),
        st.lists(children, min_size=1, max_size=3).map(
            lambda found: (
                pa.struct([(f"f{number}", child[0]) for number, child in enumerate(found)]),
                st.fixed_dictionaries({f"f{number}": or_null(child[1]) for number, child in enumerate(found)}),
            )
        ),
    )


KINDS = st.recursive(st.sampled_from(LEAVES), _nested, max_leaves=4)


@st.composite
def batches(draw: st.DrawFn) -> pa.RecordBatch:
    kinds = draw(st.lists(KINDS, min_size=1, max_size=3))
    schema = pa.schema([(f"c{number}", kind) for number, (kind, _) in enumerate(kinds)])
    row = st.fixed_dictionaries({f"c{number}": st.none() | values for number, (_, values) in enumerate(kinds)})
    return pa.RecordBatch.from_pylist(draw(st.lists(row, max_size=5)), schema)


def check_one_by_one(format: sl.formats.MessageFormat, messages: list[bytes | None]) -> sl.formats.Decoded:
    decoder = format.decoder()
    together = decoder.decode(messages)
    alone = [decoder.decode([message]) for message in messages]
    assert [number for number, _ in together.bad] == [number for number, found in enumerate(alone) if found.bad]
    rows = pa.Table.from_batches([found.batch for found in alone], format.schema())
    assert pa.Table.from_batches([together.batch], format.schema()).to_pydict() == rows.to_pydict()
    kept = range(len(messages)) if together.kept is None else together.kept.to_pylist()
    assert list(kept) == [number for number, found in enumerate(alone) if found.batch.num_rows]
    assert [str(error) for _, error in together.bad] == [str(error) for found in alone for _, error in found.bad]
    return together


@pytest.mark.slow
@given(batches(), st.booleans(), st.sampled_from(["text", "number"]))
def test_json_comes_back(batch: pa.RecordBatch, omit_nulls: bool, decimals: Any) -> None:
    format = sl.formats.Json(batch.schema, omit_nulls=omit_nulls, decimals=decimals)
    decoded = format.decoder().decode(format.encoder(batch.schema).encode(batch))
    assert decoded.bad == []
    assert decoded.batch.to_pylist() == batch.to_pylist()


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**66), 2**66)
    | st.floats()
    | TEXT
    | st.sampled_from(["2026-01-02", "2026-01-02T03:04:05Z", "2026-01-02 03:04:05", "1.5", "eA==", "NaN", "1.2345"]),
    lambda children: st.lists(children, max_size=2) | st.dictionaries(st.sampled_from("anx"), children, max_size=2),
    max_leaves=3,
)
COLUMNS = {
    "n": "BIGINT",
    "i": "TINYINT",
    "x": "DOUBLE",
    "s": "STRING",
    "at": "TIMESTAMP",
    "d": "DATE",
    "a": "DECIMAL(10,2)",
    "b": "BINARY",
    "m": "MAP<STRING, INT>",
    "t": "STRUCT<n: INT, a: STRING>",
    "l": "ARRAY<BIGINT>",
}
OBJECTS = st.dictionaries(st.sampled_from([*COLUMNS, "unknown"]), VALUES, max_size=3).map(
    lambda found: json.dumps(found, ensure_ascii=len(found) % 2 == 0).encode()
)
PIECES = st.lists(
    st.sampled_from([b"{", b"}", b"[", b"]", b'"', b",", b":", b'"n"', b"1", b"\n", b" ", b"\\", b"\0", b"null"]),
    max_size=6,
).map(b"".join)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    message = draw(OBJECTS)
    start = draw(st.integers(0, len(message)))
    return message[:start] + draw(PIECES | st.binary(max_size=2)) + message[start + draw(st.integers(0, 2)) :]


MESSAGES = st.lists(OBJECTS | damaged() | PIECES | st.none(), max_size=8)


@pytest.mark.slow
@given(
    MESSAGES,
    st.lists(st.sampled_from(sorted(COLUMNS)), min_size=1, max_size=4, unique=True),
    st.sampled_from(["bad", "row", "skip"]),
)
@settings(max_examples=300, deadline=None)
def test_json_of_any_kind_is_good_or_bad_whatever_is_beside_it(
    messages: list[bytes | None], columns: list[str], nulls: Any
) -> None:
    schema = ", ".join(f"{name} {COLUMNS[name]}" for name in columns)
    check_one_by_one(sl.formats.Json(schema, nulls=nulls), messages)


@given(st.lists(st.binary(max_size=3) | TEXT.map(str.encode) | st.none(), max_size=6), st.booleans())
def test_raw_messages_come_back(messages: list[bytes | None], text: bool) -> None:
    format = sl.formats.Raw(text=text)
    decoded = check_one_by_one(format, messages)
    bad = {number for number, _ in decoded.bad}
    assert format.encoder(format.schema()).encode(decoded.batch) == [
        message for number, message in enumerate(messages) if number not in bad
    ]


@st.composite
def avro_messages(draw: st.DrawFn, format: sl.formats.MessageFormat) -> list[bytes | None]:
    row = st.fixed_dictionaries({"n": st.none() | LEAVES[0][1], "s": st.none() | TEXT, "at": st.none() | TIMES})
    batch = pa.RecordBatch.from_pylist(draw(st.lists(row, max_size=6)), format.schema())
    messages: list[bytes | None] = list(format.encoder(batch.schema).encode(batch))
    for number in draw(st.lists(st.integers(0, 5), max_size=3)):
        if number < len(messages):
            message = messages[number] or b""
            cut = message[: draw(st.integers(0, len(message)))]
            messages[number] = draw(st.sampled_from([None, cut, cut + b"\0", cut + b"\xff"]))
    return messages


@pytest.mark.slow
@given(batches())
def test_avro_comes_back(batch: pa.RecordBatch) -> None:
    format = sl.formats.Avro(batch.schema)
    assert format.schema().types == batch.schema.types
    decoded = format.decoder().decode(format.encoder(batch.schema).encode(batch))
    assert decoded.bad == []
    assert decoded.batch.to_pylist() == batch.to_pylist()


AVRO = sl.formats.Avro("n BIGINT, s STRING, at TIMESTAMP", nulls="skip")


@given(avro_messages(AVRO))
def test_avro_of_any_kind_is_good_or_bad_whatever_is_beside_it(messages: list[bytes | None]) -> None:
    check_one_by_one(AVRO, messages)
