"""Which columns are written, and which row of a key counts."""

from __future__ import annotations

import pyarrow as pa
import pytest

from snapline.connectors.postgres.row_changes import ColumnChoice, KeyedRows
from snapline.errors import ConfigurationError, UserCodeError

BATCH = pa.record_batch({"a": [1, 2], "b": ["x", "y"], "c": [True, None]})


def test_columns_are_chosen_and_renamed() -> None:
    assert ColumnChoice("call", None).rows(BATCH) is BATCH
    assert ColumnChoice("call", ["c", "a"]).rows(BATCH).schema.names == ["c", "a"]
    renamed = ColumnChoice("call", {"b": "name"})
    assert renamed.rows(BATCH).to_pydict() == {"name": ["x", "y"]}
    assert renamed.schema(BATCH.schema) == renamed.rows(BATCH).schema


@pytest.mark.parametrize(("columns", "complaint"), [("a", "no list of names"), ([], "no list"), (["z"], "column 'z'")])
def test_a_wrong_choice(columns: list[str], complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        ColumnChoice("call", columns).schema(BATCH.schema)


def test_the_last_row_of_a_key_counts() -> None:
    table = pa.table({"k": [1, 2, 1, 3], "l": ["a", "a", "a", "b"], "v": [10, 20, 30, None]})
    rows, gone = KeyedRows("call", ["k", "l"], None).last(table)
    assert rows.to_pydict() == {"k": [2, 1, 3], "l": ["a", "a", "b"], "v": [20, 30, None]}
    assert gone.num_rows == 0


def test_the_last_row_may_delete() -> None:
    table = pa.table({"k": [1, 2, 2, 1], "v": [1, 2, 3, 4], "gone": [True, False, True, None]})
    keyed = KeyedRows("call", ["k"], "gone")
    rows, gone = keyed.last(table)
    assert rows.to_pydict() == {"k": [1], "v": [4]}
    assert gone.to_pydict() == {"k": [2]}
    assert keyed.written(table.schema).names == ["k", "v"]


@pytest.mark.parametrize(
    ("key", "delete", "complaint"),
    [
        (["z"], None, "no column 'z'"),
        (["a"], "a", "part of the key"),
        (["a"], "b", "must be true or false"),
        (["a"], "z", "no column 'z'"),
        (["l"], None, "is nested"),
    ],
)
def test_a_wrong_key(key: list[str], delete: str | None, complaint: str) -> None:
    schema = BATCH.schema.append(pa.field("l", pa.list_(pa.int64())))
    with pytest.raises(ConfigurationError, match=complaint):
        KeyedRows("call", key, delete).check(schema)


def test_a_key_is_never_null() -> None:
    with pytest.raises(UserCodeError, match="key column 'c' is null"):
        KeyedRows("call", ["c"], None).check_rows(BATCH)
