"""Aggregates whose results are lists."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from tests.unit.operators.aggregates.aggregate_kit import Run, results

import snapline as sl
from snapline.operators.aggregates.list_accumulators import first_of_each, ranks


def test_lists(run: Run) -> None:
    found = results(
        run,
        [{"name": ["x", "y", None, "z"], "score": [1.0, 3.0, 9.0, None]}, {"name": ["v", "w"], "score": [3.0, 2.0]}],
        {"name": pa.string(), "score": pa.float64()},
        best=sl.top_n("name", 2, by="score"),
        scores=sl.top_n("score", 3),
        two=sl.collect("name", 2),
        everything=sl.collect("name"),
        high=sl.collect("score", where=pc.field("score") > 2),
        none=sl.top_n("name", 1, where=pc.field("score") > 100),
    )
    assert found == [
        {
            "best": ["y", "x"],
            "scores": [9.0, 3.0, 1.0],
            "two": ["x", "y"],
            "everything": ["x", "y", "z"],
            "high": [3.0, 9.0],
            "none": [],
        },
        {
            "best": ["y", "v"],
            "scores": [9.0, 3.0, 3.0],
            "two": ["x", "y"],
            "everything": ["x", "y", "z", "v", "w"],
            "high": [3.0, 9.0, 3.0],
            "none": [],
        },
    ]


def test_ranks_count_earlier_rows_of_the_same_owner() -> None:
    assert ranks(np.array([2, 0, 2, 2, 0])).tolist() == [0, 0, 1, 2, 1]


def test_lists_of_the_first_values_of_each_owner() -> None:
    owners, values = np.array([0, 0, 0, 2]), pa.array(["a", "b", "c", "d"])
    assert first_of_each(owners, values, 4, None).to_pylist() == [["a", "b", "c"], [], ["d"], []]
    assert first_of_each(owners, values, 3, 2).to_pylist() == [["a", "b"], [], ["d"]]
