"""Types of columns in Delta tables."""

from __future__ import annotations

import pyarrow as pa
import pytest

from snapline.connectors.delta.delta_types import Fit, check_partition_columns, fitted, stored_schema, stored_type
from snapline.errors import ConfigurationError, UserCodeError

US = pa.timestamp("us")


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        (pa.int64(), pa.int64()),
        (pa.uint8(), pa.int16()),
        (pa.uint32(), pa.int64()),
        (pa.uint64(), None),
        (pa.large_string(), pa.string()),
        (pa.dictionary(pa.int32(), pa.string()), pa.string()),
        (pa.timestamp("ms", "Europe/Berlin"), pa.timestamp("us", "UTC")),
        (pa.timestamp("ns"), US),
        (pa.date64(), pa.date32()),
        (pa.binary(4), pa.binary()),
        (pa.decimal128(10, 2), pa.decimal128(10, 2)),
        (pa.time64("us"), None),
        (pa.duration("s"), None),
        (pa.null(), None),
        (pa.list_(pa.uint8()), pa.list_(pa.field("element", pa.int16()))),
        (pa.large_list(pa.time32("s")), None),
        (pa.struct([("a", pa.timestamp("s"))]), pa.struct([("a", US)])),
        (pa.struct([("a", pa.null())]), None),
        (pa.map_(pa.large_string(), pa.int8()), pa.map_(pa.string(), pa.int8())),
    ],
)
def test_types_become_those_that_delta_has(given: pa.DataType, stored: pa.DataType | None) -> None:
    assert stored_type(given) == stored


@pytest.mark.parametrize(
    ("schema", "complaint"),
    [
        (pa.schema([("t", pa.time64("us"))]), "the column 't' is of type time64"),
        (pa.schema([("a b", pa.int64())]), "rename it"),
        (pa.schema([("a", pa.int64()), ("A", pa.int64())]), "takes the columns 'a' and 'A' for the same one"),
    ],
)
def test_columns_that_delta_cannot_hold_are_refused(schema: pa.Schema, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        stored_schema(schema, "Delta('t')")


def fit(rows: dict[str, pa.DataType], table: list[pa.Field], *, may_add: bool = True) -> tuple[pa.Schema, list[str]]:
    schema, new = fitted(pa.schema(list(rows.items())), pa.schema(table), "Delta('t')", may_add=may_add)
    return schema, [field.name for field in new]


def test_rows_take_the_types_of_the_table() -> None:
    table = [pa.field("a", pa.int64()), pa.field("b", pa.float64(), False), pa.field("c", pa.decimal128(20, 4))]
    schema, new = fit({"b": pa.float32(), "a": pa.int8(), "c": pa.decimal128(10, 2), "d": US}, table)
    assert schema.types == [pa.float64(), pa.int64(), pa.decimal128(20, 4), US]
    assert new == ["d"]


@pytest.mark.parametrize(
    ("rows", "table", "complaint"),
    [
        ({"a": pa.string()}, [pa.field("a", pa.int64())], "is int64 in the table and string in the rows"),
        ({"a": pa.int64()}, [pa.field("a", pa.int32())], "is int32 in the table and int64 in the rows"),
        ({"a": pa.int64()}, [pa.field("A", pa.int64())], "use the same letters"),
        ({"a": pa.int64(), "b": US}, [pa.field("a", pa.int64())], "the table has no column 'b'"),
        ({"a": pa.int64()}, [pa.field("a", pa.int64()), pa.field("n", US, False)], "needs a value in the column 'n'"),
    ],
)
def test_rows_that_do_not_fit_are_refused(rows: dict[str, pa.DataType], table: list[pa.Field], complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        fit(rows, table, may_add=False)


def test_values_that_do_not_fit_are_refused() -> None:
    given = pa.schema([("t", pa.timestamp("ns"))])
    target = pa.schema([("t", US)])
    fits = Fit(given, target, "Delta('t')")
    assert fits.apply(pa.record_batch([pa.array([1000], pa.timestamp("ns"))], schema=given)).schema == target
    with pytest.raises(UserCodeError, match="the column 't' cannot be written as timestamp"):
        fits.apply(pa.record_batch([pa.array([1001], pa.timestamp("ns"))], schema=given))
    strict = Fit(given, pa.schema([pa.field("t", US, False)]), "Delta('t')")
    with pytest.raises(UserCodeError, match="no value in the column 't', which is NOT NULL"):
        strict.apply(pa.record_batch([pa.array([None], pa.timestamp("ns"))], schema=given))


def test_only_some_columns_can_divide_a_table() -> None:
    schema = pa.schema([("x", pa.int64()), ("t", US), ("s", pa.string())])
    check_partition_columns(["x", "s"], schema, "Delta('t')")
    for names, complaint in ((["y"], "not a column"), (["t"], "only by text"), (["x", "s", "x"], "all columns")):
        with pytest.raises(ConfigurationError, match=complaint):
            check_partition_columns(names, schema, "Delta('t')")
