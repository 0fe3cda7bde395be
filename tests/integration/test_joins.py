"""Joins, lookups, deduplicate and top-n in a whole job, through a failure: the result is that of plain Python."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import snapline as sl
from snapline.devtools.kit.exactly_once import FailOnce
from snapline.testing.clusters import ThreadCluster
from snapline.types import JobStatus

ROWS = 6000
KEYS = 1500
BIDS = pa.schema([("item", pa.int64()), ("at", pa.int64()), ("price", pa.int64())])
SALES = pa.schema([("sold", pa.int64()), ("when", pa.int64()), ("price", pa.int64())])
NAMES = pa.table({"id": pa.array(range(0, KEYS, 2)), "name": [f"item {number}" for number in range(0, KEYS, 2)]})


def bids(start: int, count: int) -> pa.RecordBatch:
    numbers = np.arange(start, start + count)
    return pa.RecordBatch.from_arrays([numbers * 7919 % KEYS, numbers, numbers * 31 % 997], schema=BIDS)


def sales(start: int, count: int) -> pa.RecordBatch:
    numbers = np.arange(start, start + count)
    return pa.RecordBatch.from_arrays([numbers * 104729 % (2 * KEYS), numbers + 3, numbers * 17 % 991], schema=SALES)


Row = tuple[Any, ...]
BID_ROWS: list[Row] = [tuple(row.values()) for row in bids(0, ROWS).to_pylist()]
SALE_ROWS: list[Row] = [tuple(row.values()) for row in sales(0, ROWS).to_pylist()]


def outer_join(size: int | None = None, apart: tuple[int, int] | None = None) -> Counter[Row]:
    """All pairs of a key, perhaps of the same window, or so far apart in time; and bids and sales without any."""
    by_key: dict[int, list[Row]] = defaultdict(list)
    for row in SALE_ROWS:
        by_key[row[0]].append(row)
    result: Counter[Row] = Counter()
    met: set[Row] = set()
    for bid in BID_ROWS:
        found = [
            sale
            for sale in by_key[bid[0]]
            if (size is None or bid[1] // size == sale[1] // size)
            and (apart is None or apart[0] <= sale[1] - bid[1] <= apart[1])
        ]
        result.update((*bid, *sale[1:]) for sale in found or [(None, None, None)])
        met.update(found)
    result.update((sale[0], None, None, *sale[1:]) for sale in SALE_ROWS if sale not in met)
    return result


def rows_of(sink: sl.sinks.Collect) -> list[Row]:
    return [tuple(row.values()) for row in sink.table().to_pylist()]


@pytest.mark.slow
def test_all_of_them_through_a_failure(tmp_path: Path) -> None:
    job = sl.Job(
        "joins",
        parallelism=2,
        checkpoints=sl.Checkpoints(interval="50ms", storage=str(tmp_path / "chk")),
        restart=sl.FixedDelay(attempts=3, delay="10ms"),
    )
    options: dict[str, Any] = {"rows_per_second": 12_000, "batch_rows": 50}
    left = job.source(sl.sources.Generate(bids, ROWS, schema=BIDS, **options), "bids", watermarks=sl.Watermarks("at"))
    right = job.source(
        sl.sources.Generate(sales, ROWS, schema=SALES, **options), "sales", watermarks=sl.Watermarks("when")
    )
    failing = left.apply(FailOnce(ROWS // 4, str(tmp_path / "has-failed")), uid="failing", schema=BIDS)
    by_item, by_sold = failing.key_by("item"), right.key_by("sold")
    streams = {
        "joined": by_item.join(by_sold, how="full", uid="join"),
        "interval": by_item.interval_join(by_sold, lower="-900ms", upper="200ms", how="full", uid="interval"),
        "windowed": by_item.window_join(by_sold, sl.Tumbling("1s"), how="full", uid="window"),
        "first": by_item.deduplicate(uid="first"),
        "last": by_item.deduplicate(keep="last", by="price", uid="last"),
        "top": by_item.top_n(2, by="price", uid="top"),
        "named": failing.lookup(NAMES, {"item": "id"}, how="left"),
    }
    sinks = {name: sl.sinks.Collect(tmp_path / name) for name in streams}
    for name, stream in streams.items():
        stream.sink(sinks[name], f"{name}-out")
    assert job.start(ThreadCluster()).wait("120s") is JobStatus.FINISHED
    assert (tmp_path / "has-failed").exists()
    found = {name: rows_of(sink) for name, sink in sinks.items()}

    joined: Counter[Row] = Counter()
    for row in found["joined"]:
        joined[row[:-1]] += 1 if row[-1] == "insert" else -1
    assert +joined == outer_join()
    assert min(joined.values()) == 0, "nothing is taken back more often than it was there"
    assert Counter(found["interval"]) == outer_join(apart=(-900, 200))
    assert Counter(row[:-2] for row in found["windowed"]) == outer_join(size=1000)
    assert all(row[-1] - row[-2] == 1000 for row in found["windowed"])

    by_key: dict[int, list[Row]] = defaultdict(list)
    for row in BID_ROWS:
        by_key[row[0]].append(row)
    assert Counter(row[0] for row in found["first"]) == Counter(by_key.keys())
    # Which of them comes last is not certain in parallel, but the greatest has come.
    assert {(row[0], row[2]) for row in found["last"]} >= {
        (key, max(row[2] for row in rows)) for key, rows in by_key.items()
    }
    names = {row["id"]: row["name"] for row in NAMES.to_pylist()}
    assert Counter(found["named"]) == Counter((*row, names.get(row[0])) for row in BID_ROWS)
    best = {(key, rank): price for key, _, price, rank in found["top"] if price == _ranked(by_key[key], rank)}
    assert best == {(key, rank): _ranked(rows, rank) for key, rows in by_key.items() for rank in (1, 2)}


def _ranked(rows: list[Row], rank: int) -> int:
    price: int = sorted((row[2] for row in rows), reverse=True)[rank - 1]
    return price
