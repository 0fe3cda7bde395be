"""Rows of Python values from batches, and back."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from snapline.errors import ConfigurationError, UserCodeError
from snapline.operators.row_batches import UserCode, array_of, batch_of, raised, rows_of, values_of

UTC = datetime.UTC
SCHEMA = pa.schema(
    [
        ("i", pa.int16()),
        ("u", pa.uint64()),
        ("f", pa.float32()),
        ("s", pa.large_string()),
        ("t", pa.timestamp("ms", "UTC")),
        ("n", pa.timestamp("us")),
        ("z", pa.timestamp("us", "Europe/Rome")),
        ("m", pa.map_(pa.string(), pa.int64())),
        ("l", pa.list_(pa.struct([("x", pa.map_(pa.string(), pa.int8()))]))),
        ("d", pa.decimal128(10, 2)),
        ("day", pa.date32()),
        ("b", pa.bool_()),
    ]
)
ROW: dict[str, Any] = {
    "i": -3,
    "u": 2**64 - 1,
    "f": 0.5,
    "s": "ü",
    "t": datetime.datetime(1969, 12, 31, 23, 59, 59, 5000, tzinfo=UTC),
    "n": datetime.datetime(2026, 1, 2, 3, 4, 5, 6),
    "z": datetime.datetime(2026, 7, 1, tzinfo=UTC),
    "m": {"a": 1},
    "l": [{"x": {"b": 2}}, None],
    "d": Decimal("1.50"),
    "day": datetime.date(2026, 1, 2),
    "b": True,
}
NULLS: dict[str, Any] = dict.fromkeys(SCHEMA.names)


def test_rows_go_through_a_batch_unchanged() -> None:
    rows = [ROW, NULLS, ROW]
    batch = batch_of(rows, SCHEMA, "it")
    assert batch.schema == SCHEMA
    assert rows_of(batch) == rows
    assert [list(row) for row in rows_of(batch)] == [SCHEMA.names] * 3
    assert rows_of(batch.slice(1, 1)) == [NULLS]
    for name in SCHEMA.names:
        assert values_of(batch.column(name)) == [ROW[name], None, ROW[name]]
    assert rows_of(batch)[0]["t"].tzinfo is not None


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (1.5, pa.int64()),
        (True, pa.int64()),
        (300, pa.int8()),
        (2**63, pa.int64()),
        (-1, pa.uint64()),
        (1, pa.bool_()),
        (b"x", pa.string()),
        (1, pa.string()),
        ("x", pa.float64()),
        (datetime.datetime(2026, 1, 1), pa.timestamp("us", "UTC")),
        (datetime.datetime(2026, 1, 1, tzinfo=UTC), pa.timestamp("us")),
        (datetime.datetime(2026, 1, 1, 0, 0, 0, 5), pa.timestamp("ms")),
        (1e300, pa.float32()),
        ({"x": 1}, pa.struct([("y", pa.int64())])),
    ],
)
def test_values_are_never_bent_to_fit(value: Any, kind: pa.DataType) -> None:
    with pytest.raises(UserCodeError, match="is no value of type"):
        array_of([None, value], kind)


@pytest.mark.parametrize(
    ("value", "kind"), [(2.0, pa.int64()), (3, pa.float64()), (2**64 - 1, pa.uint64()), ("x", pa.large_string())]
)
def test_equal_values_of_another_type_are_taken(value: Any, kind: pa.DataType) -> None:
    assert array_of([value, None], kind).to_pylist() == [value, None]
    assert array_of([value], kind).type == kind
    assert array_of([None], kind).null_count == 1


def test_a_null_where_none_may_be_is_refused() -> None:
    schema = pa.schema([pa.field("a", pa.int64(), nullable=False)])
    with pytest.raises(UserCodeError, match="it gave None for the column 'a', which its schema says has no nulls"):
        batch_of([{"a": None}], schema, "it")


def test_errors_of_the_user_s_code_name_the_operator_and_others_stay() -> None:
    assert str(raised("map 'x'", ValueError("no"))) == "map 'x' raised ValueError: no"
    assert str(raised("map 'x'", UserCodeError("no"))) == "map 'x': no"
    error = ConfigurationError("no")
    assert raised("map 'x'", error) is error
    with pytest.raises(UserCodeError, match="map 'x' raised ZeroDivisionError") as caught, UserCode("map 'x'"):
        1 / 0  # noqa: B018
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    with pytest.raises(KeyboardInterrupt), UserCode("map 'x'"):
        raise KeyboardInterrupt
