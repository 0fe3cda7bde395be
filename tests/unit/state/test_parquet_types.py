"""Arrow types in Parquet."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from snapline.state.parquet_types import cast, fits_parquet, from_ipc, to_ipc


@pytest.mark.parametrize(
    ("kind", "fits"),
    [
        (pa.int64(), True),
        (pa.list_(pa.struct([("a", pa.string())])), True),
        (pa.dictionary(pa.int8(), pa.int64()), True),
        (pa.list_(pa.dictionary(pa.int8(), pa.string())), True),
        (pa.list_(pa.dictionary(pa.int8(), pa.int64())), False),
        (pa.struct([]), False),
        (pa.list_(pa.struct([])), False),
        (pa.month_day_nano_interval(), False),
        (pa.decimal128(5, -2), False),
        (pa.dense_union([pa.field("a", pa.int8())]), False),
        (pa.run_end_encoded(pa.int32(), pa.int8()), False),
        (pa.uuid(), True),
    ],
)
def test_which_types_fit(kind: pa.DataType, fits: bool) -> None:
    assert fits_parquet(kind) is fits


@pytest.mark.parametrize(
    ("kind", "values"),
    [(pa.struct([]), [{}, None]), (pa.month_day_nano_interval(), [(1, 2, 3), None]), (pa.int8(), [])],
)
def test_other_types_come_back_from_streams(kind: pa.DataType, values: list[Any]) -> None:
    column = pa.chunked_array([pa.array(values, kind)])
    stored = to_ipc(column)
    assert stored.type == pa.large_binary()
    assert from_ipc(stored, kind).to_pylist() == column.to_pylist()


def test_streams_of_another_type_are_refused() -> None:
    stored = to_ipc(pa.chunked_array([[1, 2]]))
    with pytest.raises(pa.ArrowInvalid, match="is not of type string"):
        from_ipc(stored, pa.string())


def test_a_dictionary_is_restored() -> None:
    kind = pa.dictionary(pa.int8(), pa.string())
    assert cast(pa.chunked_array([["a", "b", "a"]]), pa.field("x", kind)).type == kind
    same = pa.chunked_array([[1]])
    assert cast(same, pa.field("x", pa.int64())) is same
