from __future__ import annotations

import pyarrow as pa

from snapline.sql.expressions.rowwise import python_value, python_values, rowwise


def test_one_column_calls_once_for_each_distinct_value() -> None:
    calls: list[str] = []

    def doubled(text: str, times: int) -> str:
        calls.append(text)
        return text * times

    kernel = rowwise(doubled, pa.string())
    result = kernel([pa.array(["a", None, "b", "a"]), pa.scalar(2)], 4)
    assert result.to_pylist() == ["aa", None, "bb", "aa"]
    assert calls == ["a", "b"]


def test_constants_give_a_constant_and_null_without_a_call() -> None:
    kernel = rowwise(lambda left, right: left / right, pa.float64())
    assert kernel([pa.scalar(1.0), pa.scalar(2.0)], 9) == pa.scalar(0.5)
    assert kernel([pa.scalar(1.0), pa.scalar(None, pa.float64())], 9) == pa.scalar(None, pa.float64())
    assert kernel([pa.array([1.0]), pa.scalar(None, pa.float64())], 1) == pa.scalar(None, pa.float64())


def test_several_columns_are_taken_row_by_row() -> None:
    kernel = rowwise(lambda *row: "".join(row), pa.string())
    columns = [pa.array(["a", "b", None]), pa.scalar("-"), pa.array(["x", None, "z"])]
    assert kernel(columns, 3).to_pylist() == ["a-x", None, None]


def test_lists_are_arguments_too() -> None:
    kernel = rowwise(len, pa.int32())
    assert kernel([pa.array([[1, 2], None, []])], 3).to_pylist() == [2, None, 0]


def test_bytes_that_are_no_text_are_replaced() -> None:
    broken = pa.Array.from_buffers(pa.string(), 1, pa.array([b"a\xff"]).buffers())
    assert python_values(broken) == ["a\ufffd"]
    assert python_value(broken[0]) == "a\ufffd"
    assert python_value(pa.scalar(None, pa.string())) is None
