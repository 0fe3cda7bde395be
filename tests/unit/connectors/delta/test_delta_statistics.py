"""Statistics in a table's log."""

from __future__ import annotations

import datetime
import io
import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from snapline.connectors.delta.delta_statistics import file_statistics


def statistics(table: pa.Table, rows_per_group: int = 2) -> dict[str, Any]:
    written = io.BytesIO()
    pq.write_table(table, written, row_group_size=rows_per_group)
    found: dict[str, Any] = json.loads(file_statistics(pq.ParquetFile(written).metadata, table.schema))
    return found


def test_bounds_are_those_of_all_groups() -> None:
    found = statistics(pa.table({"x": [3, None, -1, 7, None, None], "s": ["b", "a", "c", "ü", "d", None]}))
    assert found == {
        "numRecords": 6,
        "minValues": {"x": -1, "s": "a"},
        "maxValues": {"x": 7, "s": "ü"},
        "nullCount": {"x": 3, "s": 1},
    }


def test_bounds_are_never_too_narrow() -> None:
    moment = datetime.datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=datetime.UTC)
    found = statistics(
        pa.table(
            {
                "t": pa.array([moment], pa.timestamp("us", "UTC")),
                "n": pa.array([moment.replace(tzinfo=None)], pa.timestamp("us")),
                "long": ["x" * 40],
                "f": [float("nan")],
                "g": [1.5],
                "d": [moment.date()],
                "inside": [[1]],
                "empty": pa.nulls(1, pa.int64()),
            }
        )
    )
    assert found["minValues"] == {
        "t": "2026-01-02T03:04:05.678Z",
        "n": "2026-01-02T03:04:05.678",
        "long": "x" * 32,
        "g": 1.5,
        "d": "2026-01-02",
    }
    assert found["maxValues"] == {
        "t": "2026-01-02T03:04:05.679Z",
        "n": "2026-01-02T03:04:05.679",
        "d": "2026-01-02",
    }
    assert found["nullCount"]["empty"] == 1
    assert "inside" not in found["nullCount"]


def test_only_the_first_columns_have_statistics() -> None:
    found = statistics(pa.table({f"c{number}": [number] for number in range(40)}))
    assert len(found["minValues"]) == 32
