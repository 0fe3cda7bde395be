from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import snapline as sl
from snapline.errors import ConfigurationError
from snapline.sql.lowering.written_lines import csv_header, written_lines
from snapline.sql.plans.trees import Attribute
from snapline.testing import ThreadCluster

COLUMNS = (
    Attribute(1, "k", pa.string()),
    Attribute(2, "text", pa.string()),
    Attribute(3, "price", pa.decimal128(10, 2)),
    Attribute(4, "at", pa.timestamp("us", "UTC")),
)
ROWS = [
    ("x", 'say "a, b"', Decimal("1.50"), datetime(2024, 1, 2, 8, 4, 5, 123456, UTC)),
    ("y", None, None, None),
]


def lines(columns: tuple[Attribute, ...], rows: list[Any], format: str) -> list[tuple[Any, ...]]:
    schema = pa.schema([pa.field(each.name, each.type) for each in columns])
    source = sl.Job("lines").source(sl.sources.Iterator(rows, schema=schema), uid="rows")
    made = written_lines(source, columns, format, ["k"], "America/New_York")
    return [tuple(row.values()) for row in made.collect(ThreadCluster()).to_pylist()]


def test_rows_are_lines_beside_the_columns_of_partitions() -> None:
    line = '{"text":"say \\"a, b\\"","price":1.50,"at":"2024-01-02T03:04:05.123456-05:00"}'
    assert lines(COLUMNS, ROWS, "json") == [("x", line), ("y", "{}")]
    line = '"say \\"a, b\\"",1.50,2024-01-02T03:04:05.123456-05:00'
    assert lines(COLUMNS, ROWS, "csv") == [("x", line), ("y", ",,")]


def test_what_a_format_cannot_hold_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"to_csv.*list"):
        lines((COLUMNS[0], Attribute(2, "all", pa.list_(pa.int64()))), [], "csv")


def test_names_are_quoted_as_values_are() -> None:
    assert csv_header(["a", 'b "c"', "d,e"]) == 'a,"b \\"c\\"","d,e"'
