"""Avro messages, alone and with a registry."""

from __future__ import annotations

import datetime as dt
import io
import json
import pickle
import sys
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from tests.unit.connectors.formats.registry_kit import RegistryServer, registry_server

import snapline as sl
from snapline.errors import ConfigurationError, TransientError, UserCodeError

TIME = dt.datetime(2026, 1, 2, 3, 4, 5, 678000, dt.UTC)


def record(*fields: tuple[str, Any] | dict[str, Any]) -> dict[str, Any]:
    """A schema of a record."""
    named = [field if isinstance(field, dict) else {"name": field[0], "type": field[1]} for field in fields]
    return {"type": "record", "name": "R", "namespace": "n.s", "fields": named}


def datum(schema: Any, row: dict[str, Any], number: int | None = None) -> bytes:
    """A message as another program writes it."""
    stream = io.BytesIO()
    stream.write(b"" if number is None else b"\0" + number.to_bytes(4, "big"))
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema, named_schemas={}), row)
    return stream.getvalue()


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with registry_server() as found:
        yield found


def test_all_types() -> None:
    inner = {"type": "record", "name": "I", "fields": [{"name": "at", "type": ["null", "I_time"]}]}
    inner["fields"][0]["type"][1] = {"type": "long", "logicalType": "timestamp-micros"}  # type: ignore[index]
    schema = record(
        ("b", "boolean"),
        ("i", "int"),
        ("l", "long"),
        ("f", "float"),
        ("d", "double"),
        ("y", "bytes"),
        ("s", ["null", "string"]),
        ("e", {"type": "enum", "name": "E", "symbols": ["A", "B"]}),
        ("x", {"type": "fixed", "name": "X", "size": 2}),
        ("m", {"type": "map", "values": ["null", "int"]}),
        ("a", {"type": "array", "items": {"type": "int", "logicalType": "date"}}),
        ("r", inner),
        ("again", ["null", "I"]),
        ("ms", {"type": "long", "logicalType": "timestamp-millis"}),
        ("local", {"type": "long", "logicalType": "local-timestamp-micros"}),
        ("t", {"type": "int", "logicalType": "time-millis"}),
        ("n", {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}),
        ("u", {"type": "string", "logicalType": "uuid"}),
    )
    row = {
        "b": True,
        "i": -1,
        "l": 2**40,
        "f": 0.5,
        "d": 0.1,
        "y": b"\xff",
        "s": None,
        "e": "B",
        "x": b"ab",
        "m": {"k": None},
        "a": [dt.date(2026, 1, 2)],
        "r": {"at": TIME},
        "again": {"at": None},
        "ms": TIME,
        "local": TIME.replace(tzinfo=None),
        "t": dt.time(3, 4, 5),
        "n": Decimal("1.25"),
        "u": "12345678-1234-5678-1234-567812345678",
    }
    format = pickle.loads(pickle.dumps(sl.formats.Avro(json.dumps(schema))))
    decoded = format.decoder().decode([datum(schema, row)])
    assert decoded.bad == []
    (found,) = decoded.batch.to_pylist()
    assert found == row | {"m": [("k", None)]}
    assert decoded.batch.schema.field("s").nullable
    assert not decoded.batch.schema.field("b").nullable
    format.check(decoded.batch.schema)
    assert format.encoder(decoded.batch.schema).encode(decoded.batch) == [datum(schema, row)]


def test_a_schema_can_be_derived_from_columns() -> None:
    format = sl.formats.Avro("user STRING, n BIGINT, inner STRUCT<a: INT, b: STRUCT<c: ARRAY<TIMESTAMP>>>")
    batch = pa.RecordBatch.from_pylist(
        [{"user": None, "n": 1, "inner": {"a": 1, "b": {"c": [TIME, None]}}}], format.schema()
    )
    decoded = format.decoder().decode(format.encoder(batch.schema).encode(batch))
    assert decoded.batch.equals(batch)
    assert sl.formats.Avro().encoder(batch.schema).encode(batch) == format.encoder(batch.schema).encode(batch)


def test_bad_messages() -> None:
    schema = record(("s", "string"), ("n", "long"))
    good = datum(schema, {"s": "abc", "n": 1})
    messages = [good, b"", good[:-1], good + b"\0", b"\x06\xff\xff\xff\x02", None, good]
    decoded = sl.formats.Avro(schema).decoder().decode(messages)
    assert decoded.batch.to_pylist() == [{"s": "abc", "n": 1}] * 2
    assert [number for number, _ in decoded.bad] == [1, 2, 3, 4, 5]
    assert all(isinstance(error, UserCodeError) for _, error in decoded.bad)
    assert "the record ends before byte 6 of 6" in str(decoded.bad[2][1])


def test_messages_without_a_value_can_be_rows() -> None:
    schema = record(("n", "long"))
    decoded = sl.formats.Avro(schema, nulls="row").decoder().decode([datum(schema, {"n": 1}), None])
    assert decoded.batch.to_pydict() == {"n": [1, None]}


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ('"string"', "no record"),
        ("{", "no JSON"),
        (record(("n", "unknown")), "not one of Avro"),
        (record(("n", ["int", "string"])), "the field 'n' is not supported: it is a union of 2 types"),
        (record(("n", ["null", "n.s.R"])), "which contains itself"),
        (record(("n", {"type": "bytes", "logicalType": "decimal", "precision": 60})), "a decimal of 60 digits"),
    ],
)
def test_schemas_that_have_no_columns(schema: Any, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        sl.formats.Avro(schema)


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (("a b", pa.int64()), "'a b' has a name that Avro does not allow"),
        (("n", pa.uint64()), "'n' is uint64, which Avro does not have"),
        (("n", pa.timestamp("ns")), "which Avro does not have"),
        (("n", pa.list_(pa.duration("s"))), "'n' is duration"),
        (("n", pa.map_(pa.int64(), pa.int64())), "which Avro does not have"),
    ],
)
def test_rows_that_avro_cannot_hold(column: tuple[str, pa.DataType], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        sl.formats.Avro().check(pa.schema([column]))


def test_rows_that_do_not_fit_the_schema() -> None:
    format = sl.formats.Avro(record(("n", "int"), {"name": "d", "type": "int", "default": 7}))
    small = pa.schema([("n", pa.int64())])
    format.check(small)
    batch = pa.RecordBatch.from_pydict({"n": [5]})
    decoded = format.decoder().decode(format.encoder(small).encode(batch))
    assert decoded.batch.to_pylist() == [{"n": 5, "d": 7}]
    for columns, said in (
        ([("n", pa.string())], "the column 'n' is string; its field in the schema takes int32"),
        ([("n", pa.int32()), ("z", pa.int32())], "no field for the column 'z'"),
        ([("d", pa.int32())], "no column for the field 'n'"),
    ):
        with pytest.raises(ConfigurationError, match=said):
            format.check(pa.schema(columns))
    with pytest.raises(UserCodeError, match="the column 'n' cannot be written as int32"):
        format.encoder(small).encode(pa.RecordBatch.from_pydict({"n": [2**40]}))
    with pytest.raises(UserCodeError, match="a row cannot be written with the schema"):
        format.encoder(small).encode(pa.RecordBatch.from_pydict({"n": pa.array([None], pa.int64())}))


def test_a_registry(server: RegistryServer) -> None:
    schema = pa.schema([("user", pa.string()), ("n", pa.int64())])
    writing = sl.formats.Avro(registry=server.url, subject="t-value")
    writing.check(schema)
    assert server.subjects == {}
    batch = pa.RecordBatch.from_pydict({"user": ["a", None], "n": [1, 2]}, schema)
    messages = writing.encoder(schema).encode(batch)
    assert messages[0] is not None
    assert messages[0][:5] == b"\0\0\0\0\1"
    reading = sl.formats.Avro(registry=server.url, subject="t-value")
    assert reading.schema() == schema
    decoder = pickle.loads(pickle.dumps(reading)).decoder()
    server.requests.clear()
    assert decoder.decode(messages).batch.equals(batch)
    assert decoder.decode(messages).batch.equals(batch)
    assert server.requests == ["GET /schemas/ids/1"]


def test_older_messages_are_resolved(server: RegistryServer) -> None:
    old = record(("n", "int"), ("gone", "string"), ("at", {"type": "long", "logicalType": "timestamp-millis"}))
    new = record(
        ("n", "long"),
        ("at", {"type": "long", "logicalType": "timestamp-micros"}),
        {"name": "added", "type": "string", "default": "-"},
    )
    first, second = (server.add("s", json.dumps(schema)) for schema in (old, new))
    decoded = (
        sl.formats.Avro(registry=server.url, subject="s")
        .decoder()
        .decode(
            [
                datum(old, {"n": 1, "gone": "x", "at": TIME}, first),
                datum(new, {"n": 2, "at": TIME, "added": "y"}, second),
            ]
        )
    )
    assert decoded.batch.to_pylist() == [{"n": 1, "at": TIME, "added": "-"}, {"n": 2, "at": TIME, "added": "y"}]


def test_bad_messages_with_a_registry(server: RegistryServer) -> None:
    schema = record(("n", "long"))
    number = server.add("s", json.dumps(schema))
    other = server.add("o", json.dumps(record(("n", "string"))))
    good = datum(schema, {"n": 1}, number)
    decoder = sl.formats.Avro(schema, registry=server.url).decoder()
    unknown = datum(schema, {"n": 1}, 99)
    decoded = decoder.decode(
        [good, unknown, unknown, b"{}", b"", datum(record(("n", "string")), {"n": "x"}, other), good]
    )
    assert decoded.batch.to_pydict() == {"n": [1, 1]}
    errors = [str(error) for _, error in decoded.bad]
    assert len(errors) == 5
    assert "does not have the schema 99" in errors[0]
    assert "does not begin with a zero byte" in errors[2]
    assert server.requests.count("GET /schemas/ids/99") == 1
    server.schemas[99] = json.dumps(schema)
    assert decoder.decode([unknown]).bad == []


def test_a_registry_that_is_away_is_no_messages_fault(server: RegistryServer) -> None:
    schema = record(("n", "long"))
    decoder = sl.formats.Avro(schema, registry=server.url).decoder()
    server.answer = 503, b"{}"
    with pytest.raises(TransientError):
        decoder.decode([datum(schema, {"n": 1}, 1)])
    with pytest.raises(ConfigurationError, match="failed"):
        sl.formats.Avro(registry=server.url, subject="s").schema()
    with pytest.raises(ConfigurationError, match="failed"):
        sl.formats.Avro(registry=server.url, subject="s").check(pa.schema([("n", pa.int64())]))


def test_what_a_subject_refuses(server: RegistryServer) -> None:
    server.add("s", json.dumps(record(("n", "long"))))
    schema = pa.schema([("n", pa.string())])
    with pytest.raises(ConfigurationError, match="is not compatible"):
        sl.formats.Avro(registry=server.url, subject="s").check(schema)
    with pytest.raises(ConfigurationError, match="is not compatible"):
        sl.formats.Avro(registry=server.url, subject="s").encoder(schema)
    with pytest.raises(ConfigurationError, match="does not have this schema"):
        sl.formats.Avro(registry=server.url, subject="s", register=False).check(schema)
    with pytest.raises(ConfigurationError, match="needs subject="):
        sl.formats.Avro(registry=server.url).check(schema)


def test_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match="has no schema, which decoding needs"):
        sl.formats.Avro().schema()
    with pytest.raises(ConfigurationError, match="give registry= too"):
        sl.formats.Avro(subject="s")
    shown = repr(sl.formats.Avro(registry="http://127.0.0.1:1", registry_user="me", registry_password="hidden"))
    assert "hidden" not in shown
    monkeypatch.setitem(sys.modules, "fastavro", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'snapline\[avro\]'"):
        sl.formats.Avro("n BIGINT")
