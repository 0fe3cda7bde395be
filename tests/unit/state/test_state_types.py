"""Declared types: Python classes, text as Spark writes it, Spark's own types and Arrow's."""

from __future__ import annotations

import datetime
import decimal
import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import to_arrow_type

from snapline.errors import ConfigurationError
from snapline.state.sql_types import MAX_DEPTH
from snapline.state.state_types import OBJECT, StateType, resolve

UTC = pa.timestamp("us", tz="UTC")


@pytest.mark.parametrize(
    ("declared", "arrow"),
    [
        (bool, pa.bool_()),
        (int, pa.int64()),
        (float, pa.float64()),
        (str, pa.string()),
        (bytes, pa.binary()),
        (datetime.datetime, UTC),
        (datetime.date, pa.date32()),
        (datetime.time, pa.time64("ns")),
        (datetime.timedelta, pa.duration("us")),
        (pa.int16(), pa.int16()),
        (pa.field("x", pa.int16(), nullable=False), pa.int16()),
        (pa.schema([pa.field("a", pa.int8(), nullable=False)]), pa.struct([pa.field("a", pa.int8(), nullable=False)])),
        (spark.StructField("x", spark.LongType()), pa.int64()),
    ],
)
def test_what_users_declare(declared: object, arrow: pa.DataType) -> None:
    assert resolve(declared) == StateType(arrow)
    assert not resolve(declared).is_object


def test_any_python_object() -> None:
    assert resolve(object) is OBJECT
    assert OBJECT.is_object
    assert str(OBJECT) == "any Python object"


def test_a_resolved_type_stays_what_it_is() -> None:
    assert resolve(resolve("bigint")) == resolve(int)
    assert str(resolve("a: int")) == "struct<a: int32>"


def test_the_depth_is_limited() -> None:
    nested: spark.DataType = spark.IntegerType()
    arrow = pa.int32()
    for _ in range(MAX_DEPTH + 1):
        nested, arrow = spark.ArrayType(nested), pa.list_(arrow)
    for too_deep in (nested, arrow):
        with pytest.raises(ConfigurationError, match="at most 32"):
            resolve(too_deep)


@pytest.mark.parametrize(
    ("declared", "problem"),
    [
        (decimal.Decimal, r"say precision and scale: decimal\(p,s\)"),
        (list, "the class list is not a type of state: use one of bool, int"),
        (spark.LongType, r"LongType is a class of Spark types; say LongType\(\)"),
        (5, "5 is not a type"),
        (None, "None is not a type"),
        (spark.VariantType(), "a variant cannot be held in state"),
        (spark.CalendarIntervalType(), "say `interval day to second`"),
        (spark.YearMonthIntervalType(), "count months"),
        (spark.NullType(), "void has no values"),
        (pa.list_(pa.null()), "it has no values"),
        (spark.StructType([]), "it has no fields; add one"),
        (spark.StructType().add("a", spark.LongType()).add("a", spark.LongType()), "two fields 'a'"),
        (pa.struct([]), "it has no fields; add one"),
        (pa.struct([("a", pa.int8()), ("a", pa.int8())]), "two fields 'a'"),
        (pa.list_(pa.dictionary(pa.int32(), pa.string())), "use string"),
        (pa.uuid(), r"use its storage type fixed_size_binary\[16\]"),
        (pa.dense_union([pa.field("a", pa.int8())]), "use a struct"),
        (pa.run_end_encoded(pa.int32(), pa.int8()), "use a struct"),
    ],
)
def test_what_state_cannot_hold(declared: object, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        resolve(declared)


def test_a_user_defined_type_of_spark_is_refused() -> None:
    class Point(spark.UserDefinedType):
        @classmethod
        def sqlType(cls) -> spark.DataType:
            return spark.ArrayType(spark.DoubleType())

        @classmethod
        def module(cls) -> str:
            return __name__

        def serialize(self, obj: Any) -> Any:
            return obj

        def deserialize(self, datum: Any) -> Any:
            return datum

    with pytest.raises(ConfigurationError, match="use the SQL type it is made of"):
        resolve(Point())


def test_an_object_that_only_has_a_simple_string() -> None:
    class Foreign:
        def simpleString(self) -> str:
            return "map<string,bigint>"

    assert resolve(Foreign()).arrow == pa.map_(pa.string(), pa.int64())


@pytest.mark.parametrize(
    ("stored", "declared", "accepted"),
    [
        ("int", "bigint", True),
        ("tinyint", "bigint", True),
        ("float", "double", True),
        (pa.string(), pa.large_string(), True),
        (pa.binary(), pa.large_binary(), True),
        (pa.uint8(), pa.uint64(), True),
        ("array<int>", "array<int>", True),
        ("bigint", "int", False),
        ("int", "double", False),
        ("double", "float", False),
        ("int", "string", False),
        (pa.uint8(), pa.int16(), False),
        (pa.large_string(), pa.string(), False),
        ("array<int>", "array<bigint>", False),
        ("timestamp", "timestamp_ntz", False),
        ("decimal(10,2)", "decimal(11,2)", False),
        (object, "int", False),
        ("int", object, False),
        (object, object, True),
    ],
)
def test_which_stored_types_a_declared_one_accepts(stored: object, declared: object, accepted: bool) -> None:
    assert resolve(declared).accepts(resolve(stored)) is accepted


# --- against Spark ---------------------------------------------------------------------------------------------------

leaves = st.sampled_from(
    [
        spark.BooleanType(),
        spark.ByteType(),
        spark.ShortType(),
        spark.IntegerType(),
        spark.LongType(),
        spark.FloatType(),
        spark.DoubleType(),
        spark.StringType(),
        spark.StringType("UNICODE_CI"),
        spark.BinaryType(),
        spark.DateType(),
        spark.TimestampType(),
        spark.TimestampNTZType(),
        spark.TimeType(6),
        spark.DayTimeIntervalType(),
        spark.DayTimeIntervalType(1, 2),
        spark.DayTimeIntervalType(3, 3),
        spark.DecimalType(38, 18),
        spark.DecimalType(3),
    ]
)


def spark_types(names: st.SearchStrategy[str]) -> st.SearchStrategy[spark.DataType]:
    def nested(inner: st.SearchStrategy[spark.DataType]) -> st.SearchStrategy[spark.DataType]:
        fields = st.builds(spark.StructField, names, inner, st.booleans())
        return st.one_of(
            st.builds(spark.ArrayType, inner, st.booleans()),
            st.builds(spark.MapType, inner, inner, st.booleans()),
            st.lists(fields, min_size=1, max_size=4, unique_by=lambda field: field.name.lower()).map(spark.StructType),
        )

    return st.recursive(leaves, nested, max_leaves=8)


plain_names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)
odd_names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=5)


@given(spark_types(odd_names))
def test_spark_types_become_what_spark_itself_makes_of_them(declared: spark.DataType) -> None:
    assert resolve(declared).arrow == to_arrow_type(declared, timezone="UTC")


@pytest.mark.parametrize("declared", [spark.CharType(3), spark.VarcharType(3)])
def test_lengths_of_strings_are_left_out(declared: spark.DataType) -> None:
    assert resolve(declared).arrow == pa.string()


@given(spark_types(plain_names))
def test_the_simple_string_of_a_type_means_that_type(declared: spark.DataType) -> None:
    nullable = declared._as_nullable()  # the text does not say what may be null
    expected = to_arrow_type(nullable, timezone="UTC")
    assert resolve(declared.simpleString()).arrow == expected
    assert resolve(declared.simpleString().upper().lower()).arrow == resolve(declared.simpleString().lower()).arrow


@given(spark_types(odd_names))
def test_a_resolved_type_survives_a_parquet_file(declared: spark.DataType) -> None:
    arrow = resolve(declared).arrow
    file = io.BytesIO()
    pq.write_table(pa.table({"value": pa.nulls(0, arrow)}), file)
    assert pq.read_schema(io.BytesIO(file.getvalue())).field("value").type == arrow
