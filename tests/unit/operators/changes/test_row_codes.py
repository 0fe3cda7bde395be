"""Codes of rows: equal exactly for equal rows, whatever their types."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapline.errors import ConfigurationError
from snapline.operators.changes.row_codes import row_codes

NESTED = pa.struct([("x", pa.list_(pa.string())), ("y", pa.int8())])

values: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int64(): st.integers(-2, 2),
    pa.int8(): st.integers(-2, 2),
    pa.bool_(): st.booleans(),
    pa.string(): st.sampled_from(["", "a", "ab", "b"]),
    pa.large_binary(): st.sampled_from([b"", b"\0", b"\0\0"]),
    pa.decimal128(20, 2): st.sampled_from([Decimal("0.00"), Decimal("-1.25")]),
    pa.list_(pa.string()): st.lists(st.sampled_from(["", "a", None]), max_size=2),
    pa.list_(pa.int64(), 2): st.lists(st.integers(0, 1), min_size=2, max_size=2),
    NESTED: st.fixed_dictionaries({"x": st.lists(st.sampled_from("ab"), max_size=2) | st.none(), "y": st.none()}),
    pa.map_(pa.string(), pa.int64()): st.lists(
        st.tuples(st.sampled_from("ab"), st.integers(0, 1) | st.none()), max_size=2
    ),
}


@given(st.data())
def test_codes_are_equal_exactly_for_equal_rows(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.sampled_from(list(values)), min_size=1, max_size=4))
    rows = data.draw(st.lists(st.tuples(*(values[kind] | st.none() for kind in kinds)), min_size=1, max_size=6))
    columns = [pa.array(list(column), kind) for column, kind in zip(zip(*rows, strict=True), kinds, strict=True)]
    codes = row_codes(columns, len(rows)).to_pylist()
    for number, code in enumerate(codes):
        alone = row_codes([column.slice(number, 1) for column in columns], 1).to_pylist()
        assert alone == [code], "codes must not depend on the other rows of a batch"
        for other, its in zip(rows, codes, strict=True):
            assert (code == its) == (rows[number] == other)


def test_codes_never_change() -> None:
    columns = [pa.array([1, None]), pa.array(["ab", None]), pa.array([[True], None])]
    assert [code.hex() for code in row_codes(columns, 2).to_pylist()] == [
        "0001000000000000000200000001000000" + "6162" + "0001",
        "0700000000000000000000000000000000",
    ]


def test_floats_are_equal_by_their_bits_or_as_keys() -> None:
    floats = pa.array([0.0, -0.0, float("nan"), -float("nan")])
    assert len(set(row_codes([floats], 4).to_pylist())) >= 3
    assert len(set(row_codes([floats], 4, normalise=True).to_pylist())) == 2
    inside = pa.array([[0.0], [-0.0]])
    assert len(set(row_codes([inside], 2, normalise=True).to_pylist())) == 1


def test_dictionaries_and_nulls_are_values_like_others() -> None:
    words = pa.array(["a", "b", "a"])
    assert row_codes([words.dictionary_encode(), pa.nulls(3)], 3) == row_codes([words, pa.nulls(3)], 3)


def test_rows_without_columns_are_equal() -> None:
    assert len(set(row_codes([], 2).to_pylist())) == 1


def test_a_type_that_cannot_be_compared_is_refused() -> None:
    union = pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])])
    with pytest.raises(ConfigurationError, match="cannot be compared"):
        row_codes([union], 1)
