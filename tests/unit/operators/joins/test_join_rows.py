"""What joins share: pairs in limited batches, output rows, and rows stored apart until they get a partner."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from tests.unit.operators.joins.join_kit import PLAIN, batch, layout

from snapline.operators.joins.join_rows import KeptSide, Pairs
from snapline.protocol.keygroups import KeyGroupRange
from snapline.state.memory_backend import MemoryBackend


@pytest.mark.parametrize("limit", [1, 3, 1000])
def test_every_row_is_paired_with_its_elements(monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    monkeypatch.setattr("snapline.operators.joins.join_rows.MAX_ROWS", limit)
    pairs = Pairs(np.array([4, 0, 7, 1]), np.array([2, 0, 1, 3]))
    assert pairs.count == 6
    found = list(pairs)
    assert all(len(rows) <= limit for rows, _ in found)
    numbers = [(int(row), int(element)) for some in found for row, element in zip(*some, strict=True)]
    assert numbers == [(0, 4), (0, 5), (2, 7), (3, 1), (3, 2), (3, 3)]
    assert list(Pairs(np.array([], dtype=np.int64), np.array([], dtype=np.int64))) == []


def test_a_missing_side_is_null() -> None:
    plain = layout(PLAIN, PLAIN, ("k",))
    rows = plain.sides[0].rows(batch(PLAIN, (1, 10), (2, 20)))
    keys = [pa.array([1, 2])]
    assert plain.one_sided(0, keys, rows).to_pylist() == [{"k": 1, "v": 10, "vr": None}, {"k": 2, "v": 20, "vr": None}]
    assert plain.one_sided(1, keys, rows).column("vr").to_pylist() == [10, 20]
    assert plain.batch(keys, rows, rows).column("v").to_pylist() == [10, 20]


@pytest.fixture
def backend() -> Iterator[MemoryBackend]:
    made = MemoryBackend("bigint", max_parallelism=8, key_groups=KeyGroupRange(0, 7), clock=lambda: 0, uid="it")
    yield made
    made.close()


def test_rows_are_apart_until_they_get_a_partner(backend: MemoryBackend) -> None:
    side = KeptSide(backend, 0, pa.int64(), splits_alone=True)
    assert side.alone is not None
    keys = backend.keys([pa.array([1, 1, 2])])
    side.add(keys, pa.array([10, 11, 20]), np.array([True, False, False]))
    one, two = backend.keys([pa.array([1])]), backend.keys([pa.array([2])])
    assert (side.rows.take(one).to_pylist(), side.alone.take(one).to_pylist()) == ([[10]], [[11]])
    side.add(one, pa.array([12]), np.array([False]))
    spans = side.alone.spans(backend.keys([pa.array([1, 2])]))
    side.met(backend.keys([pa.array([1, 2])]), spans, np.array([False, True, False]))
    assert (side.rows.take(one).to_pylist(), side.alone.take(one).to_pylist()) == ([[10, 12]], [[11]])
    assert (side.rows.take(two).to_pylist(), side.alone.take(two).to_pylist()) == ([[]], [[20]])
