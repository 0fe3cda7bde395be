"""Values as Python objects: what a state takes and gives back is what Arrow would."""

from __future__ import annotations

import datetime
import threading
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from snapline.errors import UserCodeError
from snapline.state.python_values import PythonValues, exact_converter
from snapline.state.state_types import StateType, resolve

ZONED = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
VALUES: list[Any] = [
    0,
    -1,
    True,
    1.0,
    1.5,
    2**31,
    2**63,
    float("nan"),
    "x",
    "é",
    "\ud800",
    b"x",
    None,
    Decimal("1.5"),
    np.int64(3),
    np.float32(1.5),
    datetime.date(2026, 1, 1),
    datetime.datetime(2026, 1, 1),
    ZONED,
    [],
    [1, None],
    ["x"],
    (1, "x"),
    {},
    {"a": 1, "b": "x"},
    {"a": 1, "b": None},
    {"a": None, "b": "x"},
    {"a": 1},
    {"a": 1, "b": "x", "c": 2},
    {"a": "x", "b": "x"},
    {"x": [1, 2]},
    {"x": [{"n": 1}]},
    {"x": None},
    [("x", [1])],
]
TYPES = [
    "bigint",
    "int",
    "tinyint",
    "double",
    "float",
    "string",
    "boolean",
    "binary",
    "date",
    "timestamp",
    "timestamp_ntz",
    "decimal(10,2)",
    "a INT NOT NULL, b STRING",
    "a BIGINT, b STRING",
    "array<bigint>",
    "array<string>",
    "map<string,array<bigint>>",
    "map<string,array<struct<n:bigint>>>",
]


def outcome(convert: Any, value: Any) -> tuple[Any, ...]:
    try:
        made = convert(value)
    except UserCodeError as error:
        return "refused", str(error)
    return type(made), repr(made)


@pytest.mark.parametrize("kind", [*TYPES, pa.uint8(), pa.large_string(), pa.timestamp("ns"), pa.timestamp("us", "UTC")])
def test_conversion_is_that_of_arrow_and_so_are_the_messages(kind: Any) -> None:
    declared = resolve(kind)
    convert, values = exact_converter(declared), PythonValues(declared)
    for value in VALUES:
        made = outcome(convert, value)
        assert made == outcome(declared.convert, value), value
        if made[0] != "refused" and value is not None:
            converted = convert(value)
            (back,) = values.column([converted]).to_pylist(maps_as_pydicts="strict")
            assert repr(back) == repr(converted)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("a BIGINT, b STRING", {"a": 1, "b": None}),
        ("array<bigint>", [1, None]),
        ("map<string,bigint>", {"x": 1, "y": None}),
        (
            "a ARRAY<STRUCT<n: BIGINT>>, b MAP<STRING, ARRAY<BIGINT>>",
            {"a": [{"n": 1}, None], "b": {"x": [1], "y": None}},
        ),
        ("array<array<bigint>>", [[1], None]),
    ],
)
def test_neither_what_was_given_nor_what_is_handed_out_is_what_is_kept(kind: str, value: Any) -> None:
    values = PythonValues(resolve(kind))
    assert values.copy is not None
    kept = values.convert(value)
    copied = values.copy(kept)
    assert kept == copied == value
    assert not shared(kept, value)
    assert not shared(kept, copied)


def shared(one: Any, other: Any) -> bool:
    """Whether two equal values have a dict or list in common."""
    if not isinstance(one, dict | list):
        return False
    pairs = zip(one.values(), other.values(), strict=True) if isinstance(one, dict) else zip(one, other, strict=True)
    return one is other or any(shared(*pair) for pair in pairs)


@pytest.mark.parametrize("kind", ["bigint", "string", "timestamp", "decimal(10,2)"])
def test_what_cannot_be_changed_is_not_copied(kind: str) -> None:
    assert PythonValues(resolve(kind)).copy is None


def test_objects_are_the_users_own() -> None:
    lock = threading.Lock()
    values = PythonValues(StateType(None))
    assert values.copy is None
    assert values.convert(lock) is lock
    assert values.column([lock, None]) == [lock, None]
    with pytest.raises(UserCodeError, match="cannot be pickled"):
        PythonValues(StateType(None), must_pickle=True).convert(lock)
