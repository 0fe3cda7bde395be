from __future__ import annotations

from collections.abc import Callable
from datetime import date

import numpy as np
import pyarrow as pa

from snapline.sql.expressions.calendar_days import Integers
from snapline.sql.expressions.integers import by_text, from_integers, integers, strict
from snapline.sql.expressions.values import Bools


def test_integers_of_dates_and_back() -> None:
    array = pa.array([date(1970, 1, 2), None, date(1969, 12, 31)])
    assert integers(array).tolist() == [1, 0, -1]
    assert from_integers(np.array([1, 0, -1]), np.array([True, False, True]), pa.date32()).equals(array)


def test_a_strict_kernel_sees_no_nulls() -> None:
    seen: list[list[int]] = []

    def compute(left: Integers, right: Integers) -> tuple[Integers, Bools]:
        seen.append(right.tolist())
        return left // right, left != 8

    kernel = strict(compute, pa.int32())
    result = kernel([pa.array([6, None, 8, 9]), pa.array([3, 1, 2, None])], 4)
    assert seen == [[3, 2]]
    assert result.equals(pa.array([2, None, None, None], pa.int32()))


def test_constants_are_computed_once() -> None:
    kernel = strict(lambda days: days + 1, pa.date32())
    assert kernel([pa.scalar(0, pa.int32()).cast(pa.date32())], 1000) == pa.scalar(date(1970, 1, 2), pa.date32())


def test_each_text_makes_its_function_once() -> None:
    made: list[str] = []

    def make(text: str) -> Callable[[pa.Array], pa.Array]:
        made.append(text)
        return lambda array: pa.array([f"{text}{value}" for value in array.to_pylist()])

    kernel = by_text(1, make, pa.string())
    texts = pa.array(["a", "b", None, "a"])
    assert kernel([pa.array([1, 2, 3, 4]), texts], 4).to_pylist() == ["a1", "b2", None, "a4"]
    assert kernel([pa.array([5]), pa.scalar("b")], 1).to_pylist() == ["b5"]
    assert made == ["a", "b"]
    assert kernel([pa.array([5]), pa.scalar(None, pa.string())], 1) == pa.scalar(None, pa.string())
