"""Running aggregates, against what plain Python makes of the same rows."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import snapline as sl
from snapline.api.aggregates import accumulators
from snapline.api.windowed_stream import key_fields
from snapline.errors import EngineError
from snapline.operators.aggregates.accumulators import Accumulators
from snapline.operators.aggregates.running_aggregates import RunningAggregates

Run = Callable[..., Any]
ALL = {"n": sl.count(), "total": sl.sum("value"), "least": sl.min("value"), "most": sl.max("value")}


def aggregated(run: Run, batches: list[pa.RecordBatch], keys: tuple[str, ...], kind: Any) -> list[list[dict[str, Any]]]:
    schema = batches[0].schema
    made = accumulators(ALL, schema, {}, "aggregate")
    fields = key_fields(schema, keys) + made.fields
    harness = run(RunningAggregates(made, pa.schema(fields)), key=kind, key_columns=keys)
    operator = harness.open()
    emitted = []
    for batch in batches:
        operator.process(batch, 0)
        emitted.append(harness.rows())
    return emitted


def test_each_batch_gives_one_row_for_each_of_its_keys(run: Run) -> None:
    batches = [
        pa.record_batch({"user": ["a", "b", "a"], "value": pa.array([5, None, 3], pa.int32())}),
        pa.record_batch({"user": ["c", "a"], "value": pa.array([1, 10], pa.int32())}),
    ]
    assert aggregated(run, batches, ("user",), "string") == [
        [
            {"user": "a", "n": 2, "total": 8, "least": 3, "most": 5},
            {"user": "b", "n": 1, "total": None, "least": None, "most": None},
        ],
        [
            {"user": "c", "n": 1, "total": 1, "least": 1, "most": 1},
            {"user": "a", "n": 3, "total": 18, "least": 3, "most": 10},
        ],
    ]


def test_random_batches_with_keys_of_two_columns(run: Run) -> None:
    random = Random(7)
    batches, expected = [], []
    known: dict[tuple[str, int], list[int]] = {}
    for _ in range(20):
        size = random.randrange(1, 50)
        rows = [(random.choice("xyz"), random.randrange(3), random.randrange(-9, 9)) for _ in range(size)]
        a, b, values = zip(*rows, strict=True)
        batches.append(pa.record_batch({"a": pa.array(a).dictionary_encode(), "b": b, "value": values}))
        for one, two, value in rows:
            known.setdefault((one, two), []).append(value)
        expected.append(
            [
                {"a": key[0], "b": key[1], "n": len(seen), "total": sum(seen), "least": min(seen), "most": max(seen)}
                for key in dict.fromkeys((one, two) for one, two, _ in rows)
                for seen in [known[key]]
            ]
        )
    assert aggregated(run, batches, ("a", "b"), "a string, b bigint") == expected


def test_a_batch_without_rows_gives_nothing(run: Run) -> None:
    assert aggregated(
        run, [pa.record_batch({"user": pa.array([], "string"), "value": pa.array([], "int64")})], ("user",), "string"
    ) == [[]]


def test_it_needs_keyed_state(run: Run) -> None:
    with pytest.raises(EngineError, match="without keyed state"):
        run(RunningAggregates(Accumulators({}, []), pa.schema([]))).open()
