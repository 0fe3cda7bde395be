"""Schemas may be Arrow schemas, Spark DDL text, or Spark types."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from snapline.contracts.schemas import checked_schema
from snapline.errors import ConfigurationError


class StructType:
    """Looks like a StructType of Spark."""

    def jsonValue(self) -> dict[str, Any]:
        field = {"name": "user", "type": "string", "nullable": False, "metadata": {}}
        return {"type": "struct", "fields": [field, {**field, "name": "n", "type": "long", "nullable": True}]}


EXPECTED = pa.schema([pa.field("user", pa.string(), nullable=False), pa.field("n", pa.int64())])


@pytest.mark.parametrize(
    "given",
    [
        EXPECTED,
        EXPECTED.with_metadata({"a": "b"}),
        "user STRING NOT NULL, n BIGINT",
        "struct<user: string not null, n: long>",
        StructType(),
    ],
)
def test_a_schema_is_given_in_many_ways(given: Any) -> None:
    made = checked_schema(given, "it")
    assert made.equals(EXPECTED, check_metadata=True)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (5, "the schema of it is 5; give a pyarrow.Schema, text such as"),
        (None, "the schema of it is None"),
        ("user STRNG", "the schema of it: cannot read a type, at character 6: .*string"),
        ("bigint", "a type without columns; name them, as in 'value bigint'"),
        ("a INT, a INT", "there are two columns 'a'"),
        ("", "the schema of it"),
        (StructType, "the schema of it: the class StructType"),
        (pa.schema([]), "has no columns"),
        (pa.schema([("a", pa.int8()), ("a", pa.int8())]), "the column 'a' more than once"),
    ],
)
def test_what_is_no_schema_is_told(given: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        checked_schema(given, "it")
