"""Partial reduction of values by key."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapline.errors import UserCodeError
from snapline.state import reduction as module
from snapline.state.reduction import Reduction

ROWS = st.lists(st.tuples(st.integers(-3, 3), st.one_of(st.none(), st.integers(-1000, 1000))), max_size=30)


def _pairs(drained: tuple[list[pa.Array], list[pa.Array]]) -> dict[Any, tuple[Any, ...]]:
    keys, values = drained
    columns = [column.to_pylist() for column in (*keys, *values)]
    made = {row[: len(keys)]: row[len(keys) :] for row in zip(*columns, strict=True)}
    assert len(made) == len(keys[0]), "each key comes once"
    return made


@given(st.lists(st.tuples(ROWS, st.booleans()), max_size=8))
def test_it_reduces_like_a_dictionary(batches: list[tuple[list[tuple[int, int | None]], bool]]) -> None:
    reduction = Reduction(pa.int64(), [(pa.int64(), "sum"), (pa.int64(), "min"), (pa.float64(), "max")])
    model: dict[int, list[int]] = defaultdict(list)
    for rows, is_drained in batches:
        keys = pa.array([key for key, _ in rows], pa.int64())
        values = pa.array([value for _, value in rows], pa.int64())
        reduction.add([keys], [values, values, values.cast(pa.float64())])
        for key, value in rows:
            model[key].extend([] if value is None else [value])
        assert reduction.has_more_keys_than(len(model) - 1) or not model
        assert not reduction.has_more_keys_than(len(model))
        if is_drained:
            expected = {
                (key,): (sum(found), min(found), float(max(found))) if found else (None, None, None)
                for key, found in model.items()
            }
            assert _pairs(reduction.drain()) == expected
            assert reduction.rows == 0
            model.clear()


def test_keys_of_several_columns() -> None:
    reduction = Reduction(pa.struct([("a", pa.string()), ("b", pa.int32())]), [(pa.int64(), "sum")])
    names, numbers = pa.array(["x", "y", "x"]), pa.array([1, 1, 1], pa.int32())
    reduction.add([names, numbers], [pa.array([1, 2, 4])])
    assert _pairs(reduction.drain()) == {("x", 1): (5,), ("y", 1): (2,)}


def test_many_keys_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_REMEMBERED_KEYS", 3000)
    reduction = Reduction(pa.int64(), [(pa.int64(), "sum")])
    for start in (0, 2000, 4000, 0):
        keys = pa.array(np.arange(start, start + 2000))
        reduction.add([keys], [pa.array(np.ones(2000, dtype=np.int64))])
        assert len(reduction.drain()[0][0]) == 2000
    assert reduction.drain()[0][0].to_pylist() == []


def test_a_sum_that_does_not_fit_is_an_error() -> None:
    reduction = Reduction(pa.int64(), [(pa.int64(), "sum")])
    reduction.add([pa.array([1])], [pa.array([2**63 - 2])])
    reduction.add([pa.array([1])], [pa.array([1])])
    with pytest.raises(UserCodeError, match="too large"):
        reduction.add([pa.array([1])], [pa.array([1])])
