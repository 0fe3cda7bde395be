"""Kinds of state and their columns."""

from __future__ import annotations

import pyarrow as pa
import pytest

from snapline.errors import EngineError
from snapline.state.state_info import PICKLED, StateInfo, StateKind, ValueEncoding, column_names, is_pickled

KEY = [("key_group", pa.int32()), ("key", pa.string())]


def info(kind: StateKind, encoding: ValueEncoding = ValueEncoding.ARROW, ttl_ms: int | None = None) -> StateInfo:
    return StateInfo("op", "it", kind, 4, encoding, ttl_ms)


def test_which_kinds_have_key_groups() -> None:
    keyed = {kind for kind in StateKind if kind.is_keyed}
    assert {kind.value for kind in StateKind} - {kind.value for kind in keyed} == {
        "operator-list",
        "operator-union",
        "operator-broadcast",
        "raw-operator",
    }


def test_columns_have_the_order_of_the_format() -> None:
    schema = pa.schema([("value", pa.int8()), ("last_update_ms", pa.int64()), *reversed(KEY), ("namespace", pa.int8())])
    assert column_names(info(StateKind.VALUE, ttl_ms=5), schema) == [
        "key_group",
        "key",
        "namespace",
        "value",
        "last_update_ms",
    ]


@pytest.mark.parametrize(
    ("given", "columns", "problem"),
    [
        (info(StateKind.VALUE), KEY, "has columns"),
        (info(StateKind.VALUE, ttl_ms=5), [*KEY, ("value", pa.int8())], "last_update_ms"),
        (info(StateKind.VALUE, ValueEncoding.PICKLE), [*KEY, ("value", pa.int8())], "is int8, not binary"),
        (info(StateKind.RAW), [("key_group", pa.int64()), ("data", pa.binary())], "is int64, not int32"),
    ],
)
def test_columns_that_do_not_belong_to_the_kind(given: StateInfo, columns: list[object], problem: str) -> None:
    with pytest.raises(EngineError, match=problem):
        column_names(given, pa.schema(columns))


def test_where_pickles_are() -> None:
    value, key = pa.field("value", pa.binary()), pa.field("map_key", pa.binary(), metadata=PICKLED)
    assert is_pickled(info(StateKind.MAP, ValueEncoding.PICKLE), value)
    assert not is_pickled(info(StateKind.MAP), value)
    assert is_pickled(info(StateKind.MAP), key)
    assert not is_pickled(info(StateKind.MAP), key.remove_metadata())
