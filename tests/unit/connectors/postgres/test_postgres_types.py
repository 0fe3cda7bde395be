"""Which column takes which values."""

from __future__ import annotations

import pyarrow as pa
import pytest

from snapline.connectors.postgres.postgres_types import (
    PostgresColumn,
    arrow_type,
    check_columns,
    check_types,
    fits,
    sql_type,
)
from snapline.errors import ConfigurationError


def test_every_type_has_a_column() -> None:
    kinds = {
        pa.int8(): "smallint",
        pa.uint32(): "bigint",
        pa.uint64(): "numeric(20)",
        pa.float32(): "real",
        pa.dictionary(pa.int8(), pa.string()): "text",
        pa.timestamp("ns", "UTC"): "timestamptz",
        pa.timestamp("s"): "timestamp",
        pa.decimal128(10, 2): "numeric(10, 2)",
        pa.list_(pa.float64()): "double precision[]",
        pa.list_(pa.list_(pa.int8())): "jsonb",
        pa.struct([("a", pa.int8())]): "jsonb",
        pa.duration("s"): "interval",
        pa.binary(16): "bytea",
    }
    assert {kind: sql_type(kind) for kind in kinds} == kinds
    with pytest.raises(ConfigurationError, match="no type for the column 'u'"):
        check_types("call", pa.schema([("u", pa.dense_union([pa.field("a", pa.int8())]))]))


@pytest.mark.parametrize(
    ("kind", "column", "expected"),
    [
        (pa.int64(), PostgresColumn("c", "int8", "bigint", "N"), True),
        (pa.int64(), PostgresColumn("c", "int4", "integer", "N"), False),
        (pa.int32(), PostgresColumn("c", "numeric", "numeric", "N"), True),
        (pa.string(), PostgresColumn("c", "mood", "mood", "E"), True),
        (pa.string(), PostgresColumn("c", "int4", "integer", "N"), False),
        (pa.timestamp("us", "UTC"), PostgresColumn("c", "timestamp", "timestamp", "D"), False),
        (pa.list_(pa.int16()), PostgresColumn("c", "_int4", "integer[]", "A"), True),
        (pa.list_(pa.int64()), PostgresColumn("c", "_int4", "integer[]", "A"), False),
        (pa.list_(pa.int64()), PostgresColumn("c", "jsonb", "jsonb", "U"), True),
        (pa.int64(), PostgresColumn("c", "jsonb", "jsonb", "U"), False),
        (pa.null(), PostgresColumn("c", "int4", "integer", "N"), True),
    ],
)
def test_what_fits(kind: pa.DataType, column: PostgresColumn, expected: bool) -> None:
    assert fits(kind, column) is expected


def test_all_that_does_not_fit_is_named_with_what_to_do() -> None:
    schema = pa.schema([("a", pa.int64()), ("b", pa.string())])
    columns = [PostgresColumn("a", "int4", "integer", "N"), PostgresColumn("c", "text", "text", "S", True)]
    with pytest.raises(ConfigurationError) as error:
        check_columns("Postgres('t')", "t", schema, columns)
    for part in ("ALTER COLUMN a TYPE bigint", "ADD COLUMN b text", "'c' must not be null"):
        assert part in str(error.value)


def test_types_of_a_query() -> None:
    assert arrow_type("numeric", (12 << 16 | 3) + 4) == pa.decimal128(12, 3)
    assert arrow_type("numeric", (60 << 16 | 3) + 4) == pa.string()
    assert arrow_type("_text") == pa.list_(pa.string())
    assert arrow_type("geometry") == pa.string()
