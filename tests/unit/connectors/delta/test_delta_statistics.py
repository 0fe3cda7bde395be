"""Statistics in a table's log."""

from __future__ import annotations

import datetime
import io
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake.transaction import AddAction

from snapline.connectors.delta.delta_statistics import file_statistics, has_nan


def statistics(table: pa.Table, rows_per_group: int = 2) -> dict[str, Any]:
    written = io.BytesIO()
    pq.write_table(table, written, row_group_size=rows_per_group)
    holds_nan = any(map(has_nan, table.to_batches()))
    text = file_statistics(pq.ParquetFile(written).metadata, table.schema, holds_nan=holds_nan)
    found: dict[str, Any] = json.loads(
        text, parse_float=lambda digits: float(digits) if len(digits) < 9 else Decimal(digits)
    )
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
                "g": [1.5],
                "d": [moment.date()],
                "o": [True],
                "e": [Decimal("12345678901234567890.12")],
                "b": [b"bytes"],
                "inside": [[1]],
                "empty": pa.nulls(1, pa.int64()),
            }
        )
    )
    both = {"g": 1.5, "d": "2026-01-02", "o": True, "e": Decimal("12345678901234567890.12")}
    assert found["minValues"] == {
        "t": "2026-01-02T03:04:05.678Z",
        "n": "2026-01-02T03:04:05.678",
        "long": "x" * 32,
        **both,
    }
    assert found["maxValues"] == {
        "t": "2026-01-02T03:04:05.679Z",
        "n": "2026-01-02T03:04:05.679",
        "long": "x" * 32 + "\U0010ffff",
        **both,
    }
    assert found["nullCount"]["empty"] == 1
    assert "inside" not in found["nullCount"]


@pytest.mark.parametrize(
    "values",
    [
        pa.array([1.0, float("nan")]),
        pa.array([1.0, float("inf")]),
        pa.array(["a", "\U0010ffff" * 40]),
        pa.array([253_402_300_799_999_999], pa.timestamp("us")),
    ],
    ids=["nan", "infinite", "last text", "last time"],
)
def test_bounds_are_given_for_all_columns_or_none(values: pa.Array) -> None:
    found = statistics(pa.table({"x": list(range(len(values))), "y": values}))
    assert found == {"numRecords": len(values), "nullCount": {"x": 0, "y": 0}}


def test_readers_with_filters_find_every_row(tmp_path: Path) -> None:
    usual = {"f": [1.5, 2.5], "s": ["a", "b" * 50], "e": [Decimal("1.00"), Decimal("2.00")], "o": [True, False]}
    odd = {**usual, "f": [2.5, float("nan")]}
    table = deltalake.DeltaTable.create(tmp_path, deltalake.Schema.from_arrow(pa.table(usual).schema))
    for name, rows in {"usual": pa.table(usual), "odd": pa.table(odd)}.items():
        pq.write_table(rows, tmp_path / name)
        size, stats = (tmp_path / name).stat().st_size, json.dumps(statistics(rows), default=str)
        table.create_write_transaction([AddAction(name, size, {}, 0, True, stats)], "append", table.schema())
        table.update_incremental()
    conditions = [("f", "=", 2.5), ("s", "=", "b" * 50), ("e", "=", Decimal("2.00")), ("o", "=", True)]
    assert [table.to_pyarrow_table(filters=[condition]).num_rows for condition in conditions] == [2, 2, 2, 2]


def test_only_the_first_columns_have_statistics() -> None:
    found = statistics(pa.table({f"c{number}": [number] for number in range(40)}))
    assert len(found["minValues"]) == 32
