"""Arrow types that Spark can read, and those it never can."""

from __future__ import annotations

import pyarrow as pa
import pytest

from snapline.errors import ConfigurationError
from snapline.spark.dataframe_types import readable_schema


@pytest.mark.parametrize(
    ("kind", "read_as"),
    [
        (pa.int32(), pa.int32()),
        (pa.uint32(), pa.int64()),
        (pa.uint64(), pa.decimal128(20, 0)),
        (pa.timestamp("ns", tz="UTC"), pa.timestamp("us", tz="UTC")),
        (pa.dictionary(pa.int8(), pa.large_string()), pa.string()),
        (pa.list_(pa.uint8()), pa.list_(pa.int16())),
        (pa.map_(pa.string(), pa.float16()), pa.map_(pa.string(), pa.float32())),
        (pa.struct([("a", pa.date64())]), pa.struct([("a", pa.date32())])),
    ],
)
def test_rows_are_written_as_spark_can_read_them(kind: pa.DataType, read_as: pa.DataType) -> None:
    assert readable_schema(pa.schema([("x", kind)])).field("x").type == read_as


@pytest.mark.parametrize("kind", [pa.null(), pa.duration("s"), pa.time64("us"), pa.list_(pa.null())])
def test_types_spark_cannot_read_are_refused(kind: pa.DataType) -> None:
    with pytest.raises(ConfigurationError, match="the column 'x' is"):
        readable_schema(pa.schema([("x", kind)]))
