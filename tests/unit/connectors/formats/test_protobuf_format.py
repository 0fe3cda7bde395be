"""Messages of Protocol Buffers, with classes as protoc makes them."""

from __future__ import annotations

import datetime as dt
import pickle
import sys
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2, wrappers_pb2

import snapline as sl
from snapline.errors import ConfigurationError, UserCodeError

TIME = dt.datetime(2026, 1, 2, 3, 4, 5, 678000, dt.UTC)
OLD = dt.datetime(1950, 1, 2, 3, 4, 5, 1, dt.UTC)


def _classes() -> tuple[Any, Any]:
    """`Order` and `Tree`, which contains itself."""
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="orders.proto", package="shop", syntax="proto3")
    file.dependency.extend(["google/protobuf/timestamp.proto", "google/protobuf/wrappers.proto"])
    color = file.enum_type.add(name="Color")
    color.value.add(name="RED", number=0)
    color.value.add(name="BLUE", number=1)
    item = file.message_type.add(name="Item")
    item.field.add(name="name", number=1, type=kinds.TYPE_STRING, label=1)
    item.field.add(name="at", number=2, type=kinds.TYPE_MESSAGE, type_name=".google.protobuf.Timestamp", label=1)
    order = file.message_type.add(name="Order")
    order.oneof_decl.add(name="_maybe")
    entry = order.nested_type.add(name="CountsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=kinds.TYPE_STRING, label=1)
    entry.field.add(name="value", number=2, type=kinds.TYPE_INT32, label=1)
    plain = {
        "n": kinds.TYPE_INT64,
        "u": kinds.TYPE_UINT64,
        "d": kinds.TYPE_DOUBLE,
        "f": kinds.TYPE_FLOAT,
        "ok": kinds.TYPE_BOOL,
        "s": kinds.TYPE_STRING,
        "y": kinds.TYPE_BYTES,
    }
    for number, (name, kind) in enumerate(plain.items(), 1):
        order.field.add(name=name, number=number, type=kind, label=1)
    order.field.add(name="maybe", number=10, type=kinds.TYPE_INT32, label=1, proto3_optional=True, oneof_index=0)
    order.field.add(name="color", number=11, type=kinds.TYPE_ENUM, type_name=".shop.Color", label=1)
    order.field.add(name="item", number=12, type=kinds.TYPE_MESSAGE, type_name=".shop.Item", label=1)
    order.field.add(name="items", number=13, type=kinds.TYPE_MESSAGE, type_name=".shop.Item", label=3)
    order.field.add(name="counts", number=14, type=kinds.TYPE_MESSAGE, type_name=".shop.Order.CountsEntry", label=3)
    order.field.add(
        name="wrapped", number=15, type=kinds.TYPE_MESSAGE, type_name=".google.protobuf.Int64Value", label=1
    )
    tree = file.message_type.add(name="Tree")
    tree.field.add(name="left", number=1, type=kinds.TYPE_MESSAGE, type_name=".shop.Tree", label=1)
    pool = descriptor_pool.DescriptorPool()
    for known in (timestamp_pb2, wrappers_pb2):
        pool.Add(descriptor_pb2.FileDescriptorProto.FromString(known.DESCRIPTOR.serialized_pb))
    pool.Add(file)
    order_class, tree_class = (
        message_factory.GetMessageClass(pool.FindMessageTypeByName(f"shop.{name}")) for name in ("Order", "Tree")
    )
    return order_class, tree_class


Order, Tree = _classes()
FULL = Order(
    n=-1,
    u=2**64 - 1,
    d=0.1,
    f=0.5,
    ok=True,
    s="ä",
    y=b"\xff",
    maybe=0,
    color=1,
    item={"name": "i", "at": {"seconds": 1767323045, "nanos": 678_000_000}},
    items=[{"name": "j"}],
    counts={"k": 1},
    wrapped={"value": 7},
)
ROW = {
    "n": -1,
    "u": 2**64 - 1,
    "d": 0.1,
    "f": 0.5,
    "ok": True,
    "s": "ä",
    "y": b"\xff",
    "maybe": 0,
    "color": "BLUE",
    "item": {"name": "i", "at": TIME},
    "items": [{"name": "j", "at": None}],
    "counts": [("k", 1)],
    "wrapped": {"value": 7},
}
EMPTY = {
    "n": 0,
    "u": 0,
    "d": 0.0,
    "f": 0.0,
    "ok": False,
    "s": "",
    "y": b"",
    "maybe": None,
    "color": "RED",
    "item": None,
    "items": [],
    "counts": [],
    "wrapped": None,
}


def test_all_types_there_and_back() -> None:
    format = pickle.loads(pickle.dumps(sl.formats.Protobuf(Order)))
    decoded = format.decoder().decode([FULL.SerializeToString(), b""])
    assert decoded.bad == []
    assert decoded.batch.to_pylist() == [ROW, EMPTY]
    assert decoded.batch.schema == format.schema()
    messages = format.encoder(format.schema()).encode(decoded.batch)
    assert [Order.FromString(message) for message in messages] == [FULL, Order()]


def test_times_before_1970() -> None:
    format = sl.formats.Protobuf(Order)
    schema = pa.schema([format.schema().field("item")])
    batch = pa.RecordBatch.from_pylist([{"item": {"name": "", "at": OLD}}], schema)
    messages = format.encoder(schema).encode(batch)
    assert format.decoder().decode(messages).batch.column("item").to_pylist() == [{"name": "", "at": OLD}]


def test_bad_messages() -> None:
    good = FULL.SerializeToString()
    unknown = Order(color=9).SerializeToString()
    decoded = sl.formats.Protobuf(Order).decoder().decode([good, b"\xff", unknown, None, good])
    assert decoded.batch.to_pylist() == [ROW, ROW]
    parse, enum, missing = (str(error) for _, error in decoded.bad)
    assert "cannot be decoded as the message shop.Order" in parse
    assert "9" in enum
    assert "has no value" in missing


def test_messages_without_a_value_can_be_rows() -> None:
    decoded = sl.formats.Protobuf(Order, nulls="row").decoder().decode([None, b""])
    assert decoded.batch.to_pylist() == [dict.fromkeys(EMPTY), EMPTY]


def test_rows_that_do_not_fit() -> None:
    format = sl.formats.Protobuf(Order)
    with pytest.raises(ConfigurationError, match=r"shop\.Order has no field for the column 'z'"):
        format.check(pa.schema([("z", pa.int64())]))
    with pytest.raises(ConfigurationError, match=r"'n' is string; shop\.Order takes int64"):
        format.check(pa.schema([("n", pa.string())]))
    for column, value, said in (
        (pa.field("n", pa.int64()), None, "'n'"),
        (pa.field("maybe", pa.int64()), 2**40, "not in range"),
        (pa.field("items", pa.list_(pa.struct([("name", pa.string())]))), [{"name": None}], "'name'"),
        (pa.field("color", pa.string()), "GREEN", "a row cannot be written"),
    ):
        schema = pa.schema([column])
        with pytest.raises(UserCodeError, match=said):
            format.encoder(schema).encode(pa.RecordBatch.from_arrays([pa.array([value], column.type)], schema=schema))


def test_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match=r"shop\.Tree contains itself"):
        sl.formats.Protobuf(Tree)
    with pytest.raises(ConfigurationError, match="give a class of messages that protoc generated"):
        sl.formats.Protobuf(int)
    format = sl.formats.Protobuf(Order)
    monkeypatch.setitem(sys.modules, "google.protobuf", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'snapline\[protobuf\]'"):
        format.decoder()
