from __future__ import annotations

import datetime

import pyarrow as pa
import pytest

from snapline.connectors.files.partition_paths import escaped, is_path_type, partitions, values_in, with_values


def test_rows_go_to_the_directories_that_spark_would_name() -> None:
    batch = pa.record_batch(
        {
            "n": [1, 2, 3, 4],
            "s": ["a b", None, "x/y=z", "a b"],
            "day": [datetime.date(2024, 1, 2)] * 4,
            "flag": [True, True, None, True],
        }
    )
    made = {path: rows.to_pydict() for path, rows in partitions(batch, ["s", "day", "flag"])}
    assert made == {
        "s=a b/day=2024-01-02/flag=true": {"n": [1, 4]},
        "s=__HIVE_DEFAULT_PARTITION__/day=2024-01-02/flag=true": {"n": [2]},
        "s=x%2Fy%3Dz/day=2024-01-02/flag=__HIVE_DEFAULT_PARTITION__": {"n": [3]},
    }
    assert escaped("a:b%") == "a%3Ab%25"


def test_values_come_back_from_paths() -> None:
    values = values_in("s=x%2Fy/n=__HIVE_DEFAULT_PARTITION__/k=7/file=1.parquet")
    assert values == {"s": "x/y", "n": None, "k": "7"}
    schema = pa.schema([("k", pa.int32()), ("id", pa.int64()), ("n", pa.date32())])
    rows = with_values(pa.record_batch({"id": [1, 2]}), {"k": "7", "n": None}, schema)
    assert rows.to_pydict() == {"k": [7, 7], "id": [1, 2], "n": [None, None]}


@pytest.mark.parametrize(("kind", "fits"), [(pa.int8(), True), (pa.timestamp("us"), False), (pa.float64(), False)])
def test_only_types_with_one_text_name_directories(kind: pa.DataType, fits: bool) -> None:
    assert is_path_type(kind) is fits
