"""Rows that a checkpoint keeps come back as they were."""

from __future__ import annotations

import pyarrow as pa
import pytest

from snapline.connectors.database.stored_rows import StoredRows, rows_of


def batch(*numbers: int) -> pa.RecordBatch:
    return pa.record_batch({"x": list(numbers), "name": [f"row {number}" for number in numbers]})


def test_rows_come_back_in_order() -> None:
    rows = StoredRows()
    rows.add(batch(1, 2))
    rows.add(batch().cast(batch(1).schema))
    rows.add(batch(3))
    assert pa.Table.from_batches(rows_of(rows.take()))["x"].to_pylist() == [1, 2, 3]
    assert rows.take() == []


def test_many_rows_come_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("snapline.connectors.database.stored_rows.PART_BYTES", 100)
    rows = StoredRows()
    for number in range(5):
        rows.add(batch(*range(number * 10, number * 10 + 10)))
    parts = rows.take()
    assert len(parts) == 5
    assert pa.Table.from_batches(rows_of(parts))["x"].to_pylist() == list(range(50))
