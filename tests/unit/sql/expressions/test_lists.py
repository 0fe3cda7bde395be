from __future__ import annotations

import numpy as np
import pyarrow as pa

from snapline.sql.expressions.lists import list_array, lists, maps, ranges, relabelled

INTS = pa.list_(pa.int32())


def test_elements_and_lengths_of_a_slice() -> None:
    parts = lists(pa.array([[9], [1, 2], None, [], [3]], INTS).slice(1))
    assert parts.elements.to_pylist() == [1, 2, 3]
    assert parts.lengths.tolist() == [2, 0, 0, 1]
    assert parts.there.tolist() == [True, False, True, True]
    assert parts.rows.tolist() == [0, 0, 3]
    assert parts.positions.tolist() == [0, 1, 0]
    assert parts.array(INTS).to_pylist() == [[1, 2], None, [], [3]]


def test_what_a_null_row_hides_is_left_out() -> None:
    hidden = pa.ListArray.from_arrays(
        pa.array([0, 2, 3]), pa.array([7, 8, 9], pa.int32()), mask=pa.array([True, False])
    )
    parts = lists(hidden)
    assert parts.elements.to_pylist() == [9]
    assert parts.lengths.tolist() == [0, 1]


def test_chosen_and_arranged_elements() -> None:
    parts = lists(pa.array([[1, 2], [3]], INTS))
    assert parts.chosen(np.array([False, True, True])).array(INTS).to_pylist() == [[2], [3]]
    assert parts.arranged(np.array([1, 0, 2])).array(INTS).to_pylist() == [[2, 1], [3]]


def test_entries_of_maps() -> None:
    type = pa.map_(pa.string(), pa.int32())
    array = pa.array([[("a", 1), ("b", None)], None, []], type)
    entries = maps(array)
    assert entries.keys.to_pylist() == ["a", "b"]
    assert entries.values.to_pylist() == [1, None]
    assert entries.array(type).equals(array)


def test_ranges() -> None:
    assert ranges(np.array([5, 0, 2]), np.array([2, 0, 3])).tolist() == [5, 6, 2, 3, 4]


def test_types_that_differ_in_names_and_nullability() -> None:
    source = pa.array([[{"a": 1}, None]], pa.list_(pa.struct([pa.field("a", pa.int32())])))
    target = pa.list_(pa.field("element", pa.struct([pa.field("b", pa.int32(), nullable=False)])))
    result = relabelled(source, target)
    assert result.type == target
    assert result.to_pylist() == [[{"b": 1}, None]]
    empty = list_array(pa.nulls(0), np.zeros(1, np.int64), np.ones(1, np.bool_), INTS)
    assert empty.to_pylist() == [[]]
