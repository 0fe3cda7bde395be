"""One row for each key, and the best ones: what the models of the property tests leave out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from snapline.errors import EngineError
from snapline.operators.deduplication import KeepFirst, KeepLast
from snapline.operators.joins.lookup_join import LookUp, StaticTable
from snapline.operators.kept_rows import RowType
from snapline.operators.sort_codes import sort_codes
from snapline.operators.top_rows import TopRows
from snapline.state.ttl import Ttl

Run = Callable[..., Any]


def batch(keys: list[Any], values: list[Any], kind: pa.DataType | None = None) -> pa.RecordBatch:
    return pa.record_batch({"k": pa.array(keys).dictionary_encode(), "v": pa.array(values, kind)})


def test_a_key_is_new_again_after_its_time_to_live(run: Run) -> None:
    harness = run(KeepFirst(Ttl("10s")), key="string", key_columns=("k",))
    first = harness.open()
    first.process(batch(["a", "b", "a"], [1, 2, 3]), 0)
    assert [row["v"] for row in harness.rows()] == [1, 2]
    harness.now_ms += 6_000
    # Another row does not make its key live longer.
    first.process(batch(["a", "c"], [4, 5]), 0)
    assert [row["v"] for row in harness.rows()] == [5]
    harness.now_ms += 6_000
    first.process(batch(["a", "c", "a"], [6, 7, 8]), 0)
    assert [row["v"] for row in harness.rows()] == [6]


def test_an_older_row_is_the_newest_after_the_time_to_live(run: Run) -> None:
    field = pa.field("v", pa.float64())
    harness = run(KeepLast([field], Ttl("10s")), key="string", key_columns=("k",))
    last = harness.open()
    last.process(batch(["a", "a", "a"], [1.0, float("nan"), None], pa.float64()), 0)
    assert [row["v"] for row in harness.rows()] == [1.0]
    last.process(batch(["a", "b"], [0.5, float("nan")]), 0)
    assert [row["k"] for row in harness.rows()] == ["b"]
    last.process(batch(["b"], [-5.0]), 0)
    assert [row["v"] for row in harness.rows()] == [-5.0]
    harness.now_ms += 11_000
    last.process(batch(["a"], [0.5]), 0)
    assert [row["v"] for row in harness.rows()] == [0.5]


@pytest.mark.parametrize("operator", [KeepFirst(), KeepLast()])
def test_keyed_state_is_needed(run: Run, operator: Any) -> None:
    with pytest.raises(EngineError, match="was opened without keyed state"):
        run(operator).open()


def test_the_best_by_text_with_rows_of_any_type(run: Run) -> None:
    schema = pa.schema([("k", pa.string()), ("v", pa.string()), ("tags", pa.list_(pa.int64()))])
    out = schema.append(pa.field("rank", pa.int64()))
    operator = TopRows(2, [("v", False)], RowType(schema, ("k",)), out, "rank")
    harness = run(operator, key="string", key_columns=("k",))
    top = harness.open()
    top.process(pa.record_batch([["a", "a", "b"], ["pear", "fig", None], [[1], [], None]], schema=schema), 0)
    assert [tuple(row.values()) for row in harness.rows()] == [
        ("a", "fig", [], 1),
        ("a", "pear", [1], 2),
        ("b", None, None, 1),
    ]
    top.process(pa.record_batch([["a", "a", "a"], ["zucchini", "fig", "pear"], [[2], [3], [4]]], schema=schema), 0)
    assert [tuple(row.values()) for row in harness.rows()] == [("a", "fig", [3], 2)]
    top.process(pa.record_batch([["a"], ["fig"], [[5]]], schema=schema), 0)
    assert harness.rows() == []


def test_more_keys_than_a_small_number_counts(run: Run) -> None:
    count = 70_000
    schema = pa.schema([("k", pa.int64()), ("v", pa.int64())])
    operator = TopRows(1, [("v", True)], RowType(schema, ("k",)), schema.append(pa.field("rank", pa.int64())), "rank")
    harness = run(operator, key="bigint", key_columns=("k",))
    top = harness.open()
    top.process(pa.record_batch([np.arange(count), np.arange(count)], schema=schema), 0)
    top.process(pa.record_batch([np.arange(count), np.arange(count)[::-1].copy()], schema=schema), 0)
    assert [item.num_rows for item in harness.emitted] == [count, count // 2]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([3, -(1 << 63), 5, 3], pa.int64()),
        ([3, 1 << 63, 5, 3], pa.uint64()),
        ([1.5, -0.0, 0.0, float("nan"), None, float("-inf")], pa.float64()),
        (["b", None, "a", "b"], pa.string()),
        ([5, None, 1], pa.date32()),
        ([5, -1, 1], pa.date32()),
        ([5, -1, 1], pa.timestamp("ns")),
    ],
)
def test_codes_sort_as_values_do(values: list[Any], kind: pa.DataType) -> None:
    column = pa.array(values, pa.int32()).view(kind) if pa.types.is_date(kind) else pa.array(values, kind)

    def order(descending: bool) -> list[Any]:
        codes = sort_codes(column, descending=descending)
        found: list[Any] = column.take(pa.array(np.argsort(codes, kind="stable"))).to_pylist()
        return found

    plain = [value for value in column.to_pylist() if value is not None and value == value]
    assert order(descending=False)[: len(plain)] == sorted(plain)
    assert order(descending=True)[: len(plain)] == sorted(plain, reverse=True)


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
