from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from snapline.errors import ConfigurationError
from snapline.sql.catalyst.catalyst_types import arrow_type, literal_value

LONG, TEXT = ("LongType", "bigint"), ("StringType", "string")


@pytest.mark.parametrize(
    ("described", "expected"),
    [
        (LONG, pa.int64()),
        (("VarcharType", "varchar(3)"), pa.string()),
        (("DecimalType", 10, 2), pa.decimal128(10, 2)),
        (("TimestampType", "timestamp"), pa.timestamp("us", "UTC")),
        (("TimestampNTZType", "timestamp_ntz"), pa.timestamp("us")),
        (("YearMonthIntervalType", "interval month"), pa.int32()),
        (("ArrayType", LONG, False), pa.list_(pa.field("element", pa.int64(), False))),
        (("ArrayType", ("NullType", "void"), False), pa.list_(pa.field("element", pa.null()))),
        (("MapType", TEXT, LONG, True), pa.map_(pa.string(), pa.int64())),
        (("StructType", [("a", LONG, False)]), pa.struct([pa.field("a", pa.int64(), False)])),
    ],
)
def test_types(described: Any, expected: pa.DataType) -> None:
    assert arrow_type(described, "query") == expected


@pytest.mark.parametrize(
    ("described", "advice"),
    [
        (("Collation", "string collate UNICODE"), "UTF8_BINARY"),
        (("VariantType", "variant"), "variant_get"),
        (("UserDefinedType", "vector"), "fields"),
        (("ArrayType", ("VariantType", "variant"), True), "variant_get"),
    ],
)
def test_types_without_counterpart_are_refused_with_the_place(described: Any, advice: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"SELECT odd.*{advice}"):
        arrow_type(described, "SELECT odd")


@pytest.mark.parametrize(
    ("written", "kind"),
    [
        (None, pa.int64()),
        (1577836800000000, pa.timestamp("us", "UTC")),
        (18262, pa.date32()),
        (93_600_000_000, pa.duration("us")),
        (bytearray(b"\x01"), pa.binary()),
        (Decimal("1.25"), pa.decimal128(3, 2)),
        (("interval", 1, 2, 3), pa.month_day_nano_interval()),
        ([1, None], pa.list_(pa.int64())),
        ([("a", 1)], pa.map_(pa.string(), pa.int64())),
        ([1, "x"], pa.struct([("a", pa.int64()), ("b", pa.string())])),
    ],
)
def test_values_of_literals_are_what_arrow_takes(written: Any, kind: pa.DataType) -> None:
    assert pa.scalar(literal_value(written, kind), kind).type == kind
