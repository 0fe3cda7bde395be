"""Key columns: equal exactly where SQL groups rows together, and never null."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.operators.changes.running_changes import batch_of

from snapline.errors import ConfigurationError
from snapline.operators.changes.changes import with_change
from snapline.operators.changes.key_layout import AddKeys, KeyLayout
from snapline.state.stable_hash import hash_columns
from snapline.testing.operator_harness import OperatorHarness

SCHEMA = pa.schema(
    [
        ("s", pa.string()),
        ("i", pa.int32()),
        ("f", pa.float32()),
        ("d", pa.decimal128(10, 2)),
        ("l", pa.list_(pa.int64())),
        ("t", pa.timestamp("us", "UTC")),
        ("b", pa.bool_()),
        ("x", pa.binary(2)),
        ("w", pa.struct([("start", pa.timestamp("us")), ("more", pa.struct([("d", pa.decimal128(3, 1))]))])),
    ]
)
rows = st.tuples(
    st.sampled_from(["", "a", None]),
    st.sampled_from([0, 1, None]),
    st.sampled_from([0.0, 1.0, None]),
    st.sampled_from([Decimal("0.00"), Decimal("1.50"), None]),
    st.sampled_from([(), (0,), None]),
    st.sampled_from([0, 1, None]),
    st.sampled_from([False, True, None]),
    st.sampled_from([b"\0\0", b"ab", None]),
    st.sampled_from(
        [
            None,
            {"start": None, "more": None},
            {"start": 0, "more": None},
            {"start": 0, "more": {"d": None}},
            {"start": 0, "more": {"d": Decimal("0.0")}},
        ]
    ),
)


@given(st.lists(rows, min_size=1, max_size=8))
def test_keys_are_equal_exactly_for_equal_values(made: list[Any]) -> None:
    layout = KeyLayout(SCHEMA, SCHEMA.names)
    keyed = layout.with_keys(batch_of(SCHEMA, made))
    assert keyed.schema == layout.schema(SCHEMA)
    columns = keyed.select(layout.key_columns).columns
    hash_columns(columns)  # raises for nulls and for types that state cannot be keyed by
    keys = list(zip(*(column.to_pylist() for column in columns), strict=True))
    for key, row in zip(keys, made, strict=True):
        for other, its in zip(keys, made, strict=True):
            assert (key == other) == (row == its)


def test_only_columns_that_may_be_null_have_a_bit() -> None:
    schema = pa.schema([pa.field("a", pa.int64(), nullable=False), pa.field("b", pa.int64())])
    assert KeyLayout(schema, ["a"]).key_columns == ("__key0",)
    both = KeyLayout(schema, ["a", "b"])
    assert both.key_columns == ("__key0", "__key1", "__key_nulls")
    assert both.with_keys(batch_of(schema, [(1, None), (1, 0)])).column("__key_nulls").to_pylist() == [1, 0]
    assert KeyLayout(schema, ["b"], nullable=[False]).key_columns == ("__key0",)


def test_the_kind_stays_the_last_column() -> None:
    schema = with_change(pa.schema([("a", pa.int64())]))
    layout = KeyLayout(schema, ["a"])
    harness = OperatorHarness(AddKeys(layout))
    harness.open().process(batch_of(schema, [(None, 3)]), 0)
    assert harness.rows() == [{"a": None, "__key0": 0, "__key_nulls": 1, "__change": 3}]


def test_without_columns_the_key_is_a_constant() -> None:
    schema = pa.schema([("a", pa.int64())])
    layout = KeyLayout(schema, [])
    assert layout.keys(batch_of(schema, [(1,), (2,)])) == [pa.array([0, 0])]


def test_dictionaries_and_views_are_keys_of_their_values() -> None:
    schema = pa.schema([("a", pa.dictionary(pa.int32(), pa.string())), ("b", pa.string_view())])
    layout = KeyLayout(schema, ["a", "b"])
    assert [field.type for field in layout.fields] == [pa.string(), pa.string(), pa.int64()]
    batch = pa.RecordBatch.from_arrays(
        [pa.array(["x", None]).dictionary_encode(), pa.array([None, "y"], pa.string_view())], schema=schema
    )
    assert [column.to_pylist() for column in layout.keys(batch)] == [["x", ""], ["", "y"], [2, 1]]


def test_too_many_columns_are_refused() -> None:
    schema = pa.schema([(f"c{number}", pa.int8()) for number in range(64)])
    with pytest.raises(ConfigurationError, match="make an array"):
        KeyLayout(schema, schema.names)
    with pytest.raises(ConfigurationError, match="1 flags"):
        KeyLayout(schema, ["c0", "c1"], nullable=[True])


def test_a_window_has_a_key_column_for_each_end() -> None:
    window = pa.struct([("start", pa.timestamp("us", "UTC")), ("end", pa.timestamp("us", "UTC"))])
    schema = pa.schema([pa.field("w", window, nullable=False)])
    kinds = [field.type for field in KeyLayout(schema, ["w"]).fields]
    assert kinds == [pa.timestamp("us", "UTC"), pa.timestamp("us", "UTC"), pa.int64()]
