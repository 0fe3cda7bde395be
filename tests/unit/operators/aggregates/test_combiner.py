"""Pre-aggregation before rows are sent."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
from tests.unit.operators.conftest import Harness

import snapline as sl
from snapline.api.aggregates import accumulators
from snapline.operators.aggregates import combiner as combining
from snapline.operators.aggregates.combiner import Combine

SCHEMA = pa.schema([("key", pa.int64()), ("n", pa.int64()), ("total", pa.int64())])


ROWS = pa.schema([("key", pa.int64()), ("value", pa.int64())])


def _harness() -> Harness:
    made = accumulators({"n": sl.count(), "total": sl.sum("value")}, ROWS, {}, "aggregate")
    return Harness(Combine(("key",), pa.int64(), made, SCHEMA, every_ms=100))


def _batch(keys: list[int]) -> pa.RecordBatch:
    return pa.record_batch({"key": pa.array(keys), "value": pa.array([10 * key for key in keys])})


def _counts(harness: Harness) -> Counter[int]:
    counts: Counter[int] = Counter()
    for batch in harness.emitted:
        for row in batch.to_pylist():
            assert row["total"] == 10 * row["key"] * row["n"]
            counts[row["key"]] += row["n"]
    return counts


def test_rows_of_one_key_leave_together_after_the_interval() -> None:
    harness = _harness()
    operator = harness.open()
    assert operator.next_wakeup_ms() is None
    operator.process(_batch([1, 2, 1]), 0)
    operator.process(_batch([1]), 0)
    assert not harness.emitted
    assert operator.next_wakeup_ms() == harness.now_ms + 100
    operator.wakeup(harness.now_ms + 100)
    assert sorted(harness.emitted[0].to_pylist(), key=lambda row: row["key"]) == [
        {"key": 1, "n": 3, "total": 30},
        {"key": 2, "n": 1, "total": 20},
    ]
    assert operator.next_wakeup_ms() is None


@pytest.mark.parametrize("flush", ["prepare_snapshot", "finish"])
def test_nothing_is_kept_back_from_a_barrier_or_the_end(flush: str) -> None:
    harness = _harness()
    operator = harness.open()
    operator.process(_batch([5, 5]), 0)
    getattr(operator, flush)(*([7] if flush == "prepare_snapshot" else []))
    assert _counts(harness) == {5: 2}
    operator.finish()
    assert len(harness.emitted) == 1


def test_rows_with_a_key_of_their_own_are_passed_on_and_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(combining, "_TRIAL_ROWS", 4)
    monkeypatch.setattr(combining, "_BATCHES_BETWEEN_TRIALS", 2)
    harness = _harness()
    operator = harness.open()
    operator.process(_batch([1, 2, 3, 4]), 0)
    operator.wakeup(harness.now_ms + 100)
    assert len(harness.emitted) == 1
    for _ in range(2):
        operator.process(_batch([1, 1]), 0)
    assert [batch.num_rows for batch in harness.emitted] == [4, 2, 2]
    operator.process(_batch([1, 1]), 0)
    assert len(harness.emitted) == 3
    operator.finish()
    assert _counts(harness) == {1: 7, 2: 1, 3: 1, 4: 1}


def test_there_are_never_too_many_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(combining, "_MAX_KEYS", 2)
    harness = _harness()
    operator = harness.open()
    operator.process(_batch([1, 2]), 0)
    assert not harness.emitted
    operator.process(_batch([3]), 0)
    assert _counts(harness) == {1: 1, 2: 1, 3: 1}
