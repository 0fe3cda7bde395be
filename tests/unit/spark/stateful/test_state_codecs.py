"""Values of processors as values of state."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from pyspark.sql import Row
from pyspark.sql.types import ArrayType, IntegerType, MapType, StringType, StructField, StructType

from snapline.errors import ConfigurationError, UserCodeError
from snapline.spark.stateful.state_codecs import Codec, MapKeyCodec

LOCAL = datetime.datetime(2026, 1, 2, 3, 4, 5, 6)


class Address(NamedTuple):
    road: int
    city: str


@pytest.mark.parametrize(
    ("kind", "given", "stored"),
    [
        ("INT", np.int64(5), 5),
        ("DOUBLE", np.float32(0.5), 0.5),
        ("BOOLEAN", np.bool_(True), True),
        ("STRING", 5, "5"),
        ("STRING", np.int64(5), "5"),
        ("STRING", True, "true"),
        ("STRING", 1.5, "1.5"),
        ("STRING", Decimal("1.50"), "1.50"),
        ("STRING", None, None),
        ("TIMESTAMP", LOCAL, LOCAL.astimezone(datetime.UTC)),
        ("TIMESTAMP", pd.Timestamp(LOCAL), LOCAL.astimezone(datetime.UTC)),
        ("TIMESTAMP", pd.Timestamp(LOCAL, tz="UTC"), LOCAL.replace(tzinfo=datetime.UTC)),
        ("TIMESTAMP", np.datetime64(LOCAL, "us"), LOCAL.astimezone(datetime.UTC)),
        ("TIMESTAMP", pd.NaT, None),
        ("TIMESTAMP_NTZ", pd.Timestamp(LOCAL), LOCAL),
        ("ARRAY<INT>", [np.int64(1), 2], [1, 2]),
        ("ARRAY<INT>", np.array([1, 2]), [1, 2]),
        ("ARRAY<TIMESTAMP_NTZ>", [pd.Timestamp(LOCAL)], [LOCAL]),
        ("MAP<STRING, ARRAY<INT>>", {"x": [np.int64(1)]}, {"x": [1]}),
        ("STRUCT<road: INT, city: STRING>", Address(1, "SF"), {"road": 1, "city": "SF"}),
        ("STRUCT<road: INT, city: STRING>", Row(road=np.int64(1), city=2), {"road": 1, "city": "2"}),
        ("STRUCT<road: INT, city: STRING>", {"city": "SF"}, {"road": None, "city": "SF"}),
    ],
)
def test_values_that_spark_accepts_are_stored(kind: str, given: Any, stored: Any) -> None:
    codec = Codec(f"x {kind}", "it")
    (value,) = codec.store((given,)).values()
    assert value == stored
    assert type(value) is type(stored)


def test_nested_structs_come_back_as_rows() -> None:
    codec = Codec("x STRUCT<a: INT, b: ARRAY<STRUCT<c: INT>>>", "it")
    assert codec.give(codec.store(({"a": 1, "b": [(2,)]},))) == (Row(a=1, b=[Row(c=2)]),)


def test_keys_of_maps_with_one_column_need_no_tuple() -> None:
    single = MapKeyCodec("name STRING", "it")
    assert single.key("ab") == single.key(("ab",)) == "ab"
    assert single.key(np.str_("ab")) == "ab"
    assert single.give_key("ab") == ("ab",)
    double = MapKeyCodec("name STRING, n INT", "it")
    assert double.key(("ab", 1)) == ("ab", 1)
    with pytest.raises(UserCodeError, match="give a tuple of name, n"):
        double.key("ab")


@pytest.mark.parametrize(
    ("field", "name"),
    [
        (StructField("a", IntegerType(), False), "a"),
        (StructField("a", StructType([StructField("b", IntegerType(), False)])), "b"),
        (StructField("a", ArrayType(IntegerType(), containsNull=False)), "element"),
        (StructField("a", MapType(StringType(), IntegerType(), valueContainsNull=False)), "value"),
    ],
)
def test_columns_that_may_not_be_null_are_refused_with_avro(field: StructField, name: str) -> None:
    schema = StructType([StructField("first", IntegerType()), field])
    Codec(schema, "it")
    with pytest.raises(ConfigurationError, match="TRANSFORM_WITH_STATE_SCHEMA_MUST_BE_NULLABLE") as told:
        Codec(schema, "it", family="state")
    assert "column family state must be nullable" in str(told.value)
    assert repr(name) in str(told.value)


def test_nullable_columns_are_accepted_with_avro() -> None:
    Codec("a INT, b MAP<STRING, ARRAY<INT>>", "it", family="state")
