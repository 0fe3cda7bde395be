"""Parquet files with dictionaries where they are worth while."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from snapline.connectors.files.parquet_groups import ParquetGroups, dictionary_columns

MANY = 100_000


def encodings(columns: dict[str, Any]) -> dict[str, bool]:
    """Which columns of a written file have dictionaries."""
    rows = pa.table(columns)
    file = BytesIO()
    groups = ParquetGroups(file, rows.schema)
    groups.write(rows.to_batches())
    groups.write(rows.to_batches())
    metadata = groups.close()
    assert metadata.num_row_groups == 2
    assert pq.read_table(BytesIO(file.getvalue())) == pa.concat_tables([rows, rows])
    group = metadata.row_group(1)
    found = [group.column(number) for number in range(metadata.num_columns)]
    return {column.path_in_schema: column.has_dictionary_page for column in found}


def test_columns_with_a_value_of_its_own_for_each_row_get_none() -> None:
    numbers = np.arange(MANY)
    assert encodings(
        {
            "id": numbers,
            "text": pa.array(numbers).cast(pa.string()),
            "at a distance": numbers % 10_000,
            "one after another": numbers // 10,
            "few, many nulls": pa.array(numbers % 5, mask=numbers % 3 != 0),
            "distinct, many nulls": pa.array(numbers, mask=numbers % 3 != 0),
            "nulls": pa.nulls(MANY, pa.int64()),
        }
    ) == {
        "id": False,
        "text": False,
        "at a distance": True,
        "one after another": True,
        "few, many nulls": True,
        "distinct, many nulls": False,
        "nulls": True,
    }


def test_nested_columns_keep_theirs() -> None:
    found = encodings({"id": [1, 2], "l": [["a"], ["b", None]], "s": [{"x": 1, "y": [2.5]}, None]})
    assert found == {"id": False, "l.list.element": True, "s.x": True, "s.y.list.element": True}


@pytest.mark.parametrize("kind", [pa.string_view(), pa.binary_view(), pa.null(), pa.float16(), pa.decimal256(50, 2)])
@pytest.mark.parametrize("rows", [0, 2, MANY])
def test_unusual_types_are_no_problem(kind: pa.DataType, rows: int) -> None:
    assert set(dictionary_columns(pa.table({"c": pa.nulls(rows, kind), "x": np.zeros(rows)}))) == {"c", "x"}


def test_a_file_without_rows() -> None:
    schema = pa.schema([("x", pa.int64()), ("l", pa.list_(pa.int8()))])
    file = BytesIO()
    assert ParquetGroups(file, schema).close().num_rows == 0
    assert pq.read_table(BytesIO(file.getvalue())) == schema.empty_table()
