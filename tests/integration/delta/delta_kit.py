"""Jobs into Delta tables, and what readers of the tables see."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import numpy as np
import pyarrow as pa

import snapline as sl
from snapline.contracts.sink import Committable, Permit, SinkContext

SIDES = 8
PERMIT = Permit(9, 99)
DEADLINE_S = 60.0


def wait_until(condition: Callable[[], object], what: str) -> None:
    deadline_s = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline_s, f"{what} did not happen within {DEADLINE_S:g} s"
        time.sleep(0.01)


def with_sides(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Each number once for each side: sides go to different subtasks, and a whole checkpoint has all or none."""
    numbers = np.repeat(batch["value"].to_numpy(), SIDES)
    sides = np.tile(np.arange(SIDES), batch.num_rows)
    return pa.record_batch({"value": numbers, "side": sides})


def sides_job(root: Path, sink: sl.Sink, *, rows: int | None, rate: float | None, **options: Any) -> sl.Job:
    checkpoints = sl.Checkpoints(interval="100ms", storage=root / "chk", **options.pop("checkpoints", {}))
    job = sl.Job("sides", id=options.pop("id", None), parallelism=2, checkpoints=checkpoints, **options)
    source = sl.sources.Sequence(0, rows, rows_per_second=rate)
    schema = pa.schema([("value", pa.int64()), ("side", pa.int64())])
    stream = job.source(source, uid="numbers").map_batches(with_sides, schema=schema, uid="sides")
    stream.key_by("side").apply(Same(), "shuffled", schema=schema, has_state=False).sink(sink, uid="out")
    return job


class Same(sl.Operator):
    """Hands rows on, behind a shuffle by key."""

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        self.context.emit(batch)


def numbers_seen(path: Path, version: int | None = None) -> dict[int, int]:
    """How many numbers a version has; fails unless each is there once on every side."""
    table = deltalake.DeltaTable(path, version=version)
    rows = table.to_pyarrow_table()
    codes = rows["value"].to_numpy() * SIDES + rows["side"].to_numpy()
    distinct = np.unique(codes)
    assert len(distinct) == len(codes), f"version {table.version()} has rows twice"
    numbers, counts = np.unique(distinct // SIDES, return_counts=True)
    assert (counts == SIDES).all(), f"version {table.version()} has a part of a checkpoint"
    return {table.version(): len(numbers)}


def context(subtask: int = 0, attempt: int = 1, lineage: str = "line") -> SinkContext:
    return SinkContext("job", "out", subtask, 2, attempt, lineage)


def begun(sink: sl.Sink, batch: pa.RecordBatch) -> sl.Sink:
    """A sink as it is when its job starts."""
    sink.check(batch.schema)
    sink.check_access()
    sink.starting("job")
    return sink


def prepared(sink: sl.Sink, batch: pa.RecordBatch, checkpoint_id: int, **of: Any) -> Committable:
    """What a writer prepares for a checkpoint."""
    writer = sink.writer(context(**of))
    writer.write(batch)
    return Committable(f"line/out/{checkpoint_id}", checkpoint_id, list(writer.prepare(checkpoint_id)))
