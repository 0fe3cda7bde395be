from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import Row
from pyspark.sql.types import (
    ArrayType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from snapline.sql.driver_tables import RowCalls, spark_value

INNER = StructType([StructField("n", LongType())])


@pytest.fixture
def in_new_york(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("in_new_york")
def test_values_are_those_of_pyspark() -> None:
    kinds = {
        "s": INNER,
        "many": ArrayType(INNER),
        "m": MapType(StringType(), INNER),
        "t": TimestampType(),
        "local": TimestampNTZType(),
    }
    schema = StructType([StructField(name, kind) for name, kind in kinds.items()])
    noon = datetime(2024, 1, 1, 12)
    row = {
        "s": {"n": 1},
        "many": [{"n": 2}, None],
        "m": [("k", {"n": 3})],
        "t": noon.replace(tzinfo=UTC),
        "local": noon,
    }
    found = spark_value(row, schema)
    assert found == Row(s=Row(n=1), many=[Row(n=2), None], m={"k": Row(n=3)}, t=datetime(2024, 1, 1, 7), local=noon)
    assert found.s.n == 1


def test_columns_of_one_name_are_both_there() -> None:
    schema = StructType([StructField("n", LongType()), StructField("n", LongType())])
    assert tuple(spark_value({"n": 1, "n (2)": 2}, schema)) == (1, 2)


def test_the_error_of_a_row_is_given_to_close() -> None:
    errors: list[Any] = []

    class Writer:
        def process(self, row: Row) -> None:
            raise ValueError(row.value)

        def close(self, error: Exception | None) -> None:
            errors.append(error)

    calls = RowCalls(Writer(), StructType([StructField("value", LongType())]))
    calls.open(None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="7"):
        calls({"value": 7})
    calls.close()
    assert [str(error) for error in errors] == ["7"]
