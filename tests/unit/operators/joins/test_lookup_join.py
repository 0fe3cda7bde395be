"""Joins with a static table: what the model of the property tests leaves out."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from tests.unit.operators.joins.join_kit import Run

from snapline.operators.joins.lookup_join import LookUp, StaticTable


def test_a_lookup_in_an_empty_table_and_with_keys_of_two_columns(run: Run) -> None:
    table = pa.table({"a": ["x", "x", None], "b": [1, 2, 1], "c": pa.array(["one", "two", "none"]).dictionary_encode()})
    rows = pa.record_batch({"b": [2, 1, 2], "a": ["x", "x", None]})
    schema = pa.schema([*rows.schema, ("c", pa.string())])
    harness = run(LookUp(StaticTable(table, ["a", "b"]), ["a", "b"], schema, keeps_all=True))
    harness.open().process(rows, 0)
    assert [row["c"] for row in harness.rows()] == ["two", "one", None]
    harness = run(LookUp(StaticTable(table.slice(0, 0), ["a", "b"]), ["a", "b"], schema, keeps_all=True))
    harness.open().process(rows, 0)
    assert [row["c"] for row in harness.rows()] == [None, None, None]
    assert len(StaticTable(pa.table({"a": np.arange(100_000)}).slice(5, 1), ["a"])._data) < 1000


def test_a_row_is_joined_with_every_match_and_dropped_without_one(run: Run) -> None:
    table = pa.table({"k": [1, 2, 1], "name": ["a", "b", "c"]})
    schema = pa.schema([("k", pa.int64()), ("name", pa.string())])
    harness = run(LookUp(StaticTable(table, ["k"]), ["k"], schema, keeps_all=False))
    harness.open().process(pa.record_batch({"k": [3, 1, 2]}), 0)
    assert [tuple(row.values()) for row in harness.rows()] == [(1, "a"), (1, "c"), (2, "b")]
