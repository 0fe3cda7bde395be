"""The changes of a batch by group."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from snapline.operators.changes.group_changes import AggregateInput, GroupChanges, grouped
from snapline.protocol.keygroups import KeyGroupRange
from snapline.state.memory_backend import MemoryBackend

KEYS: Any = [None, None, None]


def test_totals_and_sums() -> None:
    changes = GroupChanges(KEYS, np.array([0, 2, 0]), np.array([1, -1, 1]))
    assert changes.totals.tolist() == [2, 0, -1]
    assert changes.weighted(np.array([5, 6, 7])).tolist() == [12, 0, -6]
    assert changes.float_sums(np.array([0.5, 6.0, 7.0])).tolist() == [7.5, 0.0, -6.0]
    assert changes.take(np.array([1])).totals.tolist() == [0, 0, -1]
    assert changes.take(None) is changes
    assert GroupChanges(KEYS, np.array([0, 2, 0]), None).totals.tolist() == [2, 0, 1]


def test_rows_without_a_value_or_with_a_false_condition_do_not_count() -> None:
    batch = pa.record_batch({"v": [1, None, 3, 4], "ok": [True, True, None, False]})
    given = AggregateInput(batch, GroupChanges(KEYS, np.array([0, 1, 2, 0]), None))
    values, changes = given.chosen("v", None)
    assert values is not None
    assert (values.to_pylist(), changes.groups.tolist()) == ([1, 3, 4], [0, 2, 0])
    values, changes = given.chosen("v", "ok", with_nulls=True)
    assert values is not None
    assert (values.to_pylist(), changes.groups.tolist()) == ([1, None], [0, 1])
    assert given.chosen(None, None)[0] is None


def test_rows_are_grouped_by_key() -> None:
    backend = MemoryBackend(
        pa.string(), max_parallelism=128, key_groups=KeyGroupRange(0, 127), clock=lambda: 0, uid="it"
    )
    rows, changes = grouped(backend, [pa.array(["a", "b", "a"])], None)
    assert changes.count == 2
    assert [["a", "b", "a"][row] for row in rows[changes.groups]] == ["a", "b", "a"]
