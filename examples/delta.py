"""Write a Delta table exactly once, keep a second one up to date by key, and follow the first with another job.

Run it with `python examples/delta.py [directory]`. It needs no Spark, but deltalake (`pip install 'snapline[delta]'`).
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import deltalake
import pyarrow as pa

import snapline as sl
from snapline.testing import ThreadCluster

DEADLINE_S = 60.0


def write(root: Path) -> None:
    """Every row to one table, the total of each user to another; both have one version per checkpoint."""
    job = sl.Job("write", parallelism=2, checkpoints=sl.Checkpoints(interval="200ms", storage=root / "checkpoints"))
    rows = job.source(sl.sources.Rate(20_000, rows=20_000, users=3), uid="rows")
    rows.sink(sl.sinks.Delta(root / "rows", partition_by="user"), uid="all")
    totals = rows.key_by("user").aggregate(total=sl.sum("value"), uid="total")
    totals.sink(sl.sinks.Delta(root / "totals", mode="upsert", key="user"), uid="latest")
    job.run(ThreadCluster())


def follow(root: Path) -> int:
    """Count what is in the table, and what somebody else adds to it while the job runs."""
    job = sl.Job("follow", checkpoints=sl.Checkpoints(interval="100ms", storage=root / "follower"))
    source = sl.sources.Delta(root / "rows", follow=True, poll="50ms", columns=["id", "user"])
    job.source(source, uid="rows").sink(sl.sinks.Delta(root / "copy"), uid="copy")
    handle = job.start(ThreadCluster())
    now = deltalake.DeltaTable(root / "rows").to_pyarrow_table().slice(0, 1)
    deltalake.write_deltalake(root / "rows", now, mode="append")
    deadline_s = time.monotonic() + DEADLINE_S
    while (copied := deltalake.DeltaTable(root / "copy").count()) < 20_001 and time.monotonic() < deadline_s:
        time.sleep(0.05)
    handle.cancel()
    return int(copied)


def main(root: Path) -> None:
    write(root)
    table = deltalake.DeltaTable(root / "rows")
    print(f"{table.count()} rows in {table.version()} versions, one for each checkpoint")
    totals: pa.Table = deltalake.DeltaTable(root / "totals").to_pyarrow_table()
    for row in totals.sort_by("user").to_pylist():
        print(f"{row['user']}: {row['total']}")
    print(f"the follower has copied {follow(root)} rows")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as directory:
            main(Path(directory))
