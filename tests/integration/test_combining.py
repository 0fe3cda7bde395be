"""Aggregates that come at an interval put rows together before they are sent: the results are the same."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import snapline as sl
from snapline.devtools.kit.exactly_once import FailOnce
from snapline.testing.clusters import ThreadCluster

ROWS = 40_000
AGGREGATES: dict[str, Any] = {
    "n": sl.count(),
    "some": sl.count("maybe"),
    "high": sl.count(where=pc.field("value") > 50),
    "total": sl.sum("value"),
    "low": sl.min("value"),
    "top": sl.max("time"),
    "mean": sl.mean("maybe"),
}


def _numbers(start: int, count: int) -> pa.RecordBatch:
    numbers = range(start, start + count)
    return pa.record_batch(
        {
            "key": pa.array([f"k{number % 97}" for number in numbers], pa.string()),
            "part": pa.array([number % 3 for number in numbers], pa.int8()),
            "value": pa.array([number * 31 % 101 for number in numbers], pa.int16()),
            "maybe": pa.array([None if number % 7 == 0 else number % 11 for number in numbers], pa.float64()),
            "time": pa.array(list(numbers), pa.timestamp("ms")),
        }
    )


def _last_rows(tmp_path: Any, *, emit_every: str | None, fails: bool = False) -> dict[Any, Any]:
    tmp_path.mkdir()
    job = sl.Job(
        "aggregates", parallelism=2, checkpoints=sl.Checkpoints(interval="50ms", storage=str(tmp_path / "checkpoints"))
    )
    sink = sl.sinks.Collect()
    rows = job.source(sl.sources.Generate(_numbers, ROWS, schema=_numbers(0, 0).schema), uid="numbers")
    if fails:
        rows = rows.apply(FailOnce(ROWS // 4, str(tmp_path / "failed")), schema=rows.schema)
    (
        rows.union(rows.filter(pc.field("value") < 0))
        .key_by("key", "part")
        .aggregate(emit_every=emit_every, uid="aggregates", **AGGREGATES)
        .sink(sink, uid="out")
    )
    job.run(ThreadCluster())
    assert any(node.name == "combine" for node in job.nodes) == (emit_every is not None)
    return {(row["key"], row["part"]): row for row in sink.table().to_pylist()}


@pytest.mark.slow
@pytest.mark.parametrize("emit_every", ["1ms", "200ms"])
def test_the_results_are_those_of_every_row_by_itself(tmp_path: Any, emit_every: str) -> None:
    plain = _last_rows(tmp_path / "plain", emit_every=None)
    assert len(plain) == 97 * 3
    assert sum(row["n"] for row in plain.values()) == ROWS
    assert _last_rows(tmp_path / "combined", emit_every=emit_every, fails=True) == plain
    assert (tmp_path / "combined" / "failed").exists()


def test_aggregates_that_need_the_rows_are_not_combined() -> None:
    job = sl.Job("aggregates")
    rows = job.source(sl.sources.Generate(_numbers, ROWS, schema=_numbers(0, 0).schema), uid="numbers")
    rows.key_by("key").aggregate(n=sl.count(), values=sl.count_distinct("value"), emit_every="1s", uid="distinct")
    assert [node.name for node in job.nodes] == ["Generate", "aggregate"]
