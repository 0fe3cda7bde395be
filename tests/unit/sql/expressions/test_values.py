from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from snapline.sql.expressions.values import each, first, numbers, of_arrays, valid, with_nulls


def test_scalars_alone_are_computed_once() -> None:
    lengths: list[int] = []

    def compute(left: pa.Array, right: pa.Array) -> pa.Array:
        lengths.append(len(left))
        return pc.add(left, right)

    kernel = of_arrays(compute)
    assert kernel([pa.scalar(1), pa.scalar(2)], 100).as_py() == 3
    assert kernel([pa.array([1, 2]), pa.scalar(2)], 2).to_pylist() == [3, 4]
    assert lengths == [1, 2]


def test_validity_and_numbers() -> None:
    array = pa.array([1, None, 3])
    assert valid(array, pa.array([None, 1, 1])).tolist() == [False, False, True]
    assert numbers(array, 7).tolist() == [1, 7, 3]
    assert with_nulls(np.array([1, 2]), np.array([True, False]), pa.int8()).to_pylist() == [1, None]
    assert first(np.array([False, True, True])) == 1


def test_functions_run_once_for_each_distinct_value() -> None:
    seen: list[object] = []
    result = each(pa.array(["a", None, "a", "b"]), lambda text: seen.append(text) or text.upper(), pa.string())  # type: ignore[func-returns-value]
    assert result.to_pylist() == ["A", None, "A", "B"]
    assert seen == ["a", "b"]
    assert each(pa.array([0.0, -0.0]), str, pa.string()).to_pylist() == ["0.0", "-0.0"]
    assert each(pa.array([[1], None]), len, pa.int32()).to_pylist() == [1, None]
