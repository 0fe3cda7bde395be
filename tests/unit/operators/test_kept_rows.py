"""Rows as operators store them in state."""

from __future__ import annotations

import pyarrow as pa
import pytest

from snapline.operators.kept_rows import RowType, kept_column, kept_type


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (pa.int64(), pa.int64()),
        (pa.string_view(), pa.string()),
        (pa.binary_view(), pa.binary()),
        (pa.dictionary(pa.int8(), pa.string()), pa.string()),
        (pa.dictionary(pa.int8(), pa.string_view()), pa.string()),
    ],
)
def test_views_and_dictionaries_are_stored_as_plain_values(kind: pa.DataType, expected: pa.DataType) -> None:
    assert kept_type(kind) == expected


def test_values_do_not_change() -> None:
    column = pa.array(["a", None, "b"])
    assert kept_column(column.dictionary_encode()) == column
    assert kept_column(column.cast(pa.string_view())) == column
    assert kept_column(column) is column


def test_rows_are_stored_without_their_key_and_come_back() -> None:
    batch = pa.record_batch({"v": [1, 2], "k": ["a", "b"], "w": pa.array(["x", None]).dictionary_encode()})
    rows = RowType(batch.schema, ("k",))
    assert rows.columns == ("v", "w")
    assert [column.to_pylist() for column in rows.keys(batch)] == [["a", "b"]]
    stored = rows.rows(batch)
    assert stored.type == rows.type == pa.struct([("v", pa.int64()), ("w", pa.string())])
    assert [column.to_pylist() for column in rows.arrays(stored, 2)] == [[1, 2], ["x", None]]
    assert [column.to_pylist() for column in rows.arrays(None, 2)] == [[None, None], [None, None]]


def test_a_row_that_is_only_a_key_is_stored_too() -> None:
    batch = pa.record_batch({"k": ["a", "b"]})
    rows = RowType(batch.schema, ("k",))
    assert rows.rows(batch).to_pylist() == [True, True]
    assert rows.arrays(rows.rows(batch), 2) == []
