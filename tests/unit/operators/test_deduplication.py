"""One row per key: what the model of the property tests leaves out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from snapline.errors import EngineError
from snapline.operators.deduplication import KeepFirst, KeepLast
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
