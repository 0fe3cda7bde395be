"""Runs aggregates over batches of one key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from snapline.api.aggregates import Aggregate, accumulators
from snapline.operators.aggregates.running_aggregates import RunningAggregates

Run = Callable[..., Any]


def results(run: Run, batches: list[dict[str, Any]], types: dict[str, Any], **aggregates: Aggregate) -> list[Any]:
    """The running aggregates of one key after each batch."""
    schema = pa.schema([("key", pa.int64()), *types.items()])
    made = accumulators(aggregates, schema, {}, "aggregate")
    harness = run(
        RunningAggregates(made, pa.schema([schema.field("key"), *made.fields])), key="bigint", key_columns=("key",)
    )
    harness.open()
    found = []
    for columns in batches:
        count = len(next(iter(columns.values())))
        arrays = [pa.array([1] * count), *(pa.array(columns[name], kind) for name, kind in types.items())]
        harness.operator.process(pa.RecordBatch.from_arrays(arrays, schema=schema), 0)
        (row,) = harness.rows()
        found.append({name: value for name, value in row.items() if name != "key"})
    return found
