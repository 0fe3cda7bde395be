"""Join, enrich and rank two streams: which orders were paid within ten seconds, and the best ones of each city.

Run it with `python examples/joins.py`. It needs no Spark: the job runs in threads of this process.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

import snapline as sl
from snapline.testing import ThreadCluster

ORDERS = pa.schema([("order", pa.int64()), ("placed", pa.int64()), ("city", pa.int64()), ("amount", pa.int64())])
PAYMENTS = pa.schema([("order_number", pa.int64()), ("paid", pa.int64())])
CITIES = pa.table({"city": [0, 1, 2], "name": ["Bonn", "Oslo", "Rome"]})


def orders(start: int, count: int) -> pa.RecordBatch:
    """Returns one order per millisecond."""
    numbers = np.arange(start, start + count)
    return pa.RecordBatch.from_arrays([numbers, numbers, numbers % 3, numbers * 7919 % 40_009], schema=ORDERS)


def payments(start: int, count: int) -> pa.RecordBatch:
    """Pays every second order, each later than the one before."""
    numbers = np.arange(start, start + count) * 2
    return pa.RecordBatch.from_arrays([numbers, numbers + numbers // 2], schema=PAYMENTS)


def make_job() -> tuple[sl.Job, sl.sinks.Collect]:
    job = sl.Job("joins", parallelism=2)
    placed = job.source(
        sl.sources.Generate(orders, 40_000, schema=ORDERS), "orders", watermarks=sl.Watermarks("placed")
    )
    paid = job.source(
        sl.sources.Generate(payments, 20_000, schema=PAYMENTS), "payments", watermarks=sl.Watermarks("paid")
    )
    best = (
        placed.key_by("order")
        .interval_join(paid.key_by("order_number"), lower="0s", upper="10s", uid="in-time")
        .lookup(CITIES, on="city")
        .key_by("name")
        .top_n(3, by="amount", uid="best")
    )
    sink = sl.sinks.Collect()
    best.sink(sink, uid="out")
    return job, sink


if __name__ == "__main__":
    job, sink = make_job()
    print(job.run(ThreadCluster()))
    rows = sink.table().select(["name", "rank", "amount"]).group_by(["name", "rank"]).aggregate([("amount", "max")])
    for row in rows.sort_by([("name", "ascending"), ("rank", "ascending")]).to_pylist():
        print(f"{row['name']} {row['rank']}: {row['amount_max']}")
