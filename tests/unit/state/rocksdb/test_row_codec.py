"""The bytes of keys and values in RocksDB. They must never change."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from snapline.state.batch_keys import KeyTypes, Rows, Space
from snapline.state.rocksdb.row_codec import (
    ValueCodec,
    decode_keys,
    encode_keys,
    head,
    heads,
    in_order,
    stamp,
    unstamp,
    updated_ms,
)

PAIR = pa.struct([("word", pa.string()), ("n", pa.int64())])


def columns(kind: pa.DataType, values: list[Any]) -> Any:
    types = KeyTypes(kind)
    space = Space(types.kinds)
    Rows.of(types.encode(values)).slots(space, add=True)
    return space.columns()


def test_the_layout_of_keys() -> None:
    start = heads(1, np.array([2, 300], dtype=np.uint16))
    assert encode_keys(start, columns(pa.int64(), [5, -1])) == [
        bytes([0, 1, 0, 2]) + (5).to_bytes(8, "big"),
        bytes([0, 1, 1, 44]) + b"\xff" * 8,
    ]
    assert encode_keys(start, columns(PAIR, [("é", 5), ("", 6)])) == [
        bytes([0, 1, 0, 2]) + b"\x02\x00\x00\x00" + "é".encode() + (5).to_bytes(8, "big"),
        bytes([0, 1, 1, 44]) + b"\x00\x00\x00\x00" + (6).to_bytes(8, "big"),
    ]
    assert head(1, 2) == bytes([0, 1, 0, 2])
    assert head(1, 65_536) == bytes([0, 2, 0, 0]), "the end of the last key group is the next state"


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.int64(), [3, -3]),
        (pa.float64(), [0.5, float("inf")]),
        (pa.date32(), [dt.date(2024, 2, 29)]),
        (pa.string(), ["", "a\0", "日本"]),
        (pa.binary(), [b"\0\xff"]),
    ],
)
def test_keys_come_back(kind: pa.DataType, values: list[Any]) -> None:
    keys = encode_keys(heads(7, np.zeros(len(values), dtype=np.uint16)), columns(kind, values))
    (found,) = decode_keys(keys, 4, [kind])
    assert found.type == kind
    assert found.to_pylist() == values


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.int32(), [1, -1]),
        (pa.bool_(), [True, False]),
        (pa.timestamp("us"), [dt.datetime(2024, 2, 29)]),
        (pa.struct([("a", pa.int8()), ("b", pa.struct([("c", pa.bool_())]))]), [{"a": None, "b": {"c": True}}]),
        (pa.string(), ["", "é"]),
        (pa.list_(pa.string()), [[], ["x", None]]),
        (pa.int64(), []),
    ],
)
def test_values_come_back(kind: pa.DataType, values: list[Any]) -> None:
    codec = ValueCodec(kind)
    stored = codec.encode(pa.array(values, kind))
    assert len(stored) == len(values)
    found = codec.decode(stored)
    assert (found.type, found.to_pylist()) == (kind, values)


def test_the_layout_of_values() -> None:
    assert ValueCodec(pa.int16()).encode(pa.array([258], pa.int16())) == [b"\x02\x01"]
    pair = pa.array([{"a": None, "b": 1}], pa.struct([("a", pa.int8()), ("b", pa.int8())]))
    assert ValueCodec(pair.type).encode(pair)[0][0::2] == b"\x00\x01"


def test_times_of_updates() -> None:
    stamped = stamp([b"x", b""], np.array([5, -5]))
    assert [updated_ms(value) for value in stamped] == [5, -5]
    values, times = unstamp(stamped)
    assert (values, times.tolist()) == ([b"x", b""], [5, -5])


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.int64(), [5, -9, 7, 0, -(2**63), 2**63 - 1]),
        (pa.string(), ["c", "bb", "", "a" * 256, "a" * 255, "a" * 257, "é", "b"]),
        (pa.struct([("a", pa.int64()), ("b", pa.int64())]), [(1, 2), (1, -2), (-1, 5), (0, 0)]),
        (PAIR, [("x", 2), ("x", 1), ("", 9), ("y" * 300, -1)]),
    ],
)
def test_the_order_is_that_of_the_bytes(kind: pa.DataType, values: list[Any]) -> None:
    groups = np.array([1, 0, 300] * len(values), dtype=np.uint16)[: len(values)]
    keys = encode_keys(heads(1, groups), columns(kind, values))
    order = in_order(groups, columns(kind, values))
    assert [keys[place] for place in order] == sorted(keys)
