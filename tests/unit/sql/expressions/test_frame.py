from __future__ import annotations

import pyarrow as pa

from snapline.sql.expressions.frame import Frame, as_array, spread


def test_some_rows_of_a_frame() -> None:
    frame = Frame([pa.array([1, 2, 3]), pa.array(["a", "b", "c"])], 3, {5: pa.array([7, 8, 9])}, careful=True)
    taken = frame.take(pa.array([2, 0]))
    assert (taken.rows, taken.now_us, taken.careful) == (2, frame.now_us, True)
    assert [column.to_pylist() for column in taken.columns] == [[3, 1], ["c", "a"]]
    assert taken.columns[0] is taken.columns[0]
    assert [column.to_pylist() for column in taken.columns[1:]] == [["c", "a"]]
    assert taken.variables[5].to_pylist() == [9, 7]
    assert taken.memo is not frame.memo


def test_variables_of_lambda_functions() -> None:
    frame = Frame([pa.array([1])], 1, {1: pa.array([2])})
    inner = frame.with_variables({2: pa.array([3])})
    assert {key: value.to_pylist() for key, value in inner.variables.items()} == {1: [2], 2: [3]}


def test_values_as_arrays() -> None:
    assert as_array(pa.scalar(1), 2).to_pylist() == [1, 1]
    assert as_array(pa.chunked_array([[1], [2]]), 2).to_pylist() == [1, 2]
    assert spread(pa.array(["x", "y"]), pa.array([1, 3]), 4).to_pylist() == [None, "x", None, "y"]
    assert spread(pa.scalar("x"), pa.array([0, 1]), 2).to_pylist() == ["x", "x"]
