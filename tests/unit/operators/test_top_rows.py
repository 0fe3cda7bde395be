"""The best rows per key: what the model of the property tests leaves out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from snapline.errors import EngineError
from snapline.operators.kept_rows import RowType
from snapline.operators.top_rows import TopRows

Run = Callable[..., Any]


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


def test_keyed_state_is_needed(run: Run) -> None:
    schema = pa.schema([("k", pa.int64()), ("v", pa.int64())])
    with pytest.raises(EngineError, match="top_n 'it' was opened without keyed state"):
        run(TopRows(1, [("v", True)], RowType(schema, ("k",)), schema, "rank")).open()
