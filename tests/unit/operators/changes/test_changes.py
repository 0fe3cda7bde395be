"""The column of kinds: schemas, weights, and changes that cancel out."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.unit.operators.changes.running_changes import batch_of

from snapline.errors import ConfigurationError
from snapline.operators.changes.changes import (
    CHANGE,
    CHANGE_FIELD,
    DELETE,
    INSERT,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    ChangeKind,
    change_batch,
    consolidated,
    is_changing,
    kinds_of,
    retractions,
    rows_of_changes,
    weights_of,
    with_change,
    without_change,
)

PLAIN = pa.schema([("a", pa.int64()), ("b", pa.float64())])
CHANGING = with_change(PLAIN)


def test_the_column_is_the_last_one_and_there_once() -> None:
    assert CHANGING.names == ["a", "b", CHANGE]
    assert with_change(CHANGING) == CHANGING
    assert is_changing(CHANGING)
    assert without_change(CHANGING) == PLAIN
    assert without_change(PLAIN) == PLAIN
    with pytest.raises(ConfigurationError, match="must be the last column"):
        without_change(pa.schema([CHANGE_FIELD, ("a", pa.int64())]))


def test_kinds_are_shown_with_their_sign() -> None:
    assert list(map(str, ChangeKind)) == ["+I", "-U", "+U", "-D"]


def test_a_batch_without_the_column_has_inserts_only() -> None:
    batch = batch_of(PLAIN, [(1, 0.5)])
    assert (kinds_of(batch), retractions(batch), weights_of(batch)) == (None, None, None)
    assert rows_of_changes(batch) is batch


def test_weights_of_changes() -> None:
    batch = batch_of(CHANGING, [(1, 0.5, INSERT), (1, 0.5, UPDATE_BEFORE), (2, 0.5, UPDATE_AFTER), (2, 0.5, DELETE)])
    weights = weights_of(batch)
    assert weights is not None
    assert weights.tolist() == [1, -1, 1, -1]
    assert rows_of_changes(batch).schema == PLAIN
    assert weights_of(batch.slice(0, 1)) is None, "a batch may have inserts only"
    assert weights_of(batch.slice(2, 1)) is None


def test_a_batch_of_one_kind() -> None:
    batch = change_batch([pa.array([1, 2]), pa.array([0.5, None])], DELETE, CHANGING)
    assert batch.column(CHANGE).to_pylist() == [3, 3]


@pytest.mark.parametrize(
    ("rows", "left"),
    [
        ([(1, 0.5, 0), (1, 0.5, 3)], []),
        ([(1, 0.5, 3), (1, 0.5, 0)], []),
        ([(1, 0.5, 1), (1, 0.75, 2)], [(1, 0.5, 1), (1, 0.75, 2)]),
        ([(1, 0.5, 0), (2, None, 0), (1, 0.5, 3), (1, 0.5, 2)], [(2, None, 0), (1, 0.5, 2)]),
        ([(1, None, 3), (1, None, 0), (1, None, 1)], [(1, None, 3)]),
        ([(1, 0.0, 0), (1, -0.0, 3)], [(1, 0.0, 0), (1, -0.0, 3)]),
        ([(1, 0.5, 3), (1, 0.5, 3)], [(1, 0.5, 3), (1, 0.5, 3)]),
        ([(1, 0.5, 0), (1, 0.5, 0)], [(1, 0.5, 0), (1, 0.5, 0)]),
    ],
)
def test_what_cancels_out_vanishes(rows: list[tuple[object, ...]], left: list[tuple[object, ...]]) -> None:
    assert consolidated(batch_of(CHANGING, rows)) == batch_of(CHANGING, left)
