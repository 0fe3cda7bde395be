"""User-defined aggregates."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from tests.unit.operators.aggregates.aggregate_kit import Run, results

import snapline as sl
from snapline.errors import UserCodeError
from snapline.testing.operator_harness import OperatorHarness


class Longest:
    """The longest string; an accumulator is a list that is changed in place."""

    def create(self) -> list[str]:
        return [""]

    def add(self, accumulator: list[str], value: str) -> list[str]:
        accumulator[0] = max(accumulator[0], value, key=len)
        return accumulator

    def merge(self, accumulator: list[str], other: list[str]) -> list[str]:
        return self.add(accumulator, other[0])

    def result(self, accumulator: list[str]) -> str:
        return accumulator[0]


class Weighted:
    def create(self) -> tuple[int, int]:
        return 0, 0

    def add(self, accumulator: tuple[int, int], value: tuple[Any, Any]) -> tuple[int, int]:
        number, weight = value
        return accumulator[0] + (number or 0) * weight, accumulator[1] + weight

    def merge(self, accumulator: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + other[0], accumulator[1] + other[1]

    def result(self, accumulator: tuple[int, int]) -> float:
        return accumulator[0] / accumulator[1]


def test_results_after_each_batch(run: Run) -> None:
    found = results(
        run,
        [
            {"name": [None, None], "number": [1, None], "weight": [1, 1]},
            {"name": ["ab", "c"], "number": [5, 3], "weight": [2, 0]},
        ],
        {"name": pa.string(), "number": pa.int64(), "weight": pa.int64()},
        longest=sl.aggregate(Longest(), "name", type=pa.string()),
        average=sl.aggregate(Weighted(), "number", "weight", type="double"),
    )
    assert found == [{"longest": None, "average": 0.5}, {"longest": "ab", "average": 2.75}]


@pytest.mark.parametrize(
    ("kind", "complaint"),
    [(pa.int64(), "the result of the aggregate 'x' does not fit"), (pa.float64(), "'x' raised ZeroDivisionError")],
)
def test_errors_name_the_aggregate(run: Run, kind: Any, complaint: str) -> None:
    weights = [2, 1] if kind == pa.int64() else [0, 0]
    with pytest.raises(UserCodeError, match=complaint):
        results(
            run,
            [{"number": [1, 2], "weight": weights}],
            {"number": pa.int64(), "weight": pa.int64()},
            x=sl.aggregate(Weighted(), "number", "weight", type=kind),
        )


@pytest.mark.parametrize("windows", [sl.Sliding("10ms", every="5ms"), sl.Session("10ms")])
def test_windows_merge_accumulators(windows: Any) -> None:
    source = sl.sources.Iterator([], "user STRING, time BIGINT, name STRING")
    stream = sl.Job("test").source(source, "rows", watermarks=sl.Watermarks("time")).key_by("user")
    longest = stream.window(windows).aggregate(uid="w", longest=sl.aggregate(Longest(), "name", type="string"))
    with OperatorHarness.of(longest) as harness:
        harness.process([{"user": "u", "time": time, "name": "x" * (time + 1)} for time in (0, 13)])
        harness.process([{"user": "u", "time": 6, "name": "y" * 30}])
        harness.end()
        found = {(row["window_start"], row["window_end"]): len(row["longest"]) for row in harness.rows()}
    sliding = {(-5, 5): 1, (0, 10): 30, (5, 15): 30, (10, 20): 14}
    assert found == (sliding if isinstance(windows, sl.Sliding) else {(0, 23): 30})
