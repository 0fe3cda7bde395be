"""What has to hold to the letter: finished subtasks and watermarks after a failure, files that checkpoints reuse."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import snapline as sl
from snapline.testing import ABORT, AWAIT_CHECKPOINT, ScriptedSource, ThreadCluster
from snapline.types import CheckpointScope

pytestmark = pytest.mark.slow

RESTART = sl.FixedDelay(attempts=5, delay="10ms")
CHECKPOINTS = sl.Checkpoints(interval="20ms")
SEEN = pa.schema([("subtask", pa.int64()), ("restored", pa.list_(pa.int64()))])


def wait_until(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.005)


class Everyone(sl.Operator):
    """Every subtask keeps its number in a union list, and says at its end whose numbers it was restored with."""

    def open(self, context: sl.OperatorContext) -> None:
        super().open(context)
        numbers = context.states.operator.union_list_state("numbers", int)
        self._restored = sorted(numbers.get())
        numbers.set([context.subtask])

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        """Drop it."""

    def finish(self) -> None:
        row = {"subtask": self.context.subtask, "restored": self._restored}
        self.context.emit(pa.RecordBatch.from_pylist([row], SEEN))


def test_union_state_survives_the_end_of_a_subtask() -> None:
    """One subtask has nothing to read and ends at once, long before the other fails."""
    job = sl.Job("union", parallelism=2, checkpoints=CHECKPOINTS, restart=RESTART)
    script = [{"n": 1}, sl.Wait(0.5), ABORT, {"n": 2}]
    seen = job.source(ScriptedSource(script), uid="rows").apply(Everyone(), uid="all", schema=SEEN, has_state=True)
    rows = seen.collect(ThreadCluster()).to_pylist()
    assert sorted(row["subtask"] for row in rows) == [0, 1]
    assert all(row["restored"] in ([], [0, 1]) for row in rows), rows


class LateGuard(sl.ProcessFunction):
    """Marks rows that are not newer than the watermark."""

    def process(self, row: dict[str, Any], context: sl.ProcessContext) -> None:
        late = context.watermark_ms is not None and row["t"] <= context.watermark_ms
        context.emit({"t": row["t"], "late": late})


@pytest.mark.parametrize("keyed", [False, True])
def test_a_guard_against_late_rows_holds_after_a_failure(keyed: bool) -> None:
    script = [{"t": 1000}, {"t": 1001}, AWAIT_CHECKPOINT, ABORT, {"t": 500}, {"t": 2000}]
    job = sl.Job("late", checkpoints=CHECKPOINTS, restart=RESTART)
    stream = job.source(ScriptedSource(script), uid="rows", watermarks=sl.Watermarks("t"))
    schema = pa.schema([("t", pa.int64()), ("late", pa.bool_())])
    marked = (stream.key_by("t") if keyed else stream).process(LateGuard(), schema=schema, uid="guard")
    found = marked.collect(ThreadCluster()).sort_by("t").to_pylist()
    assert [(row["t"], row["late"]) for row in found] == [(500, True), (1000, False), (1001, False), (2000, False)]


def shared_files(checkpoint: str) -> set[str]:
    """The files in a checkpoint that others may refer to."""
    body = json.loads((Path(checkpoint) / "_metadata").read_bytes().splitlines()[1])
    parts = [part for operator in body["operators"] for task in operator["subtasks"] for part in task.get("keyed", [])]
    return {item["path"] for part in parts for item in part["objects"] if "shared_key" in item}


def test_a_manual_incremental_checkpoint_reuses_files_whatever_is_configured(tmp_path: Path) -> None:
    job = sl.Job(
        "manual",
        checkpoints=sl.Checkpoints(storage=tmp_path / "chk", retained=3),
        execution=sl.Execution(state_backend="rocksdb", state_directory=str(tmp_path)),
    )
    rows = job.source(ScriptedSource([{"n": number} for number in range(100)], ends=False), uid="rows")
    rows.key_by("n").aggregate(count=sl.count(), uid="counts").sink(sl.sinks.Foreach(print), uid="out")
    handle = job.start(ThreadCluster())
    try:
        wait_until(lambda: handle.status() is sl.JobStatus.RUNNING)
        first = shared_files(handle.checkpoint(CheckpointScope.FULL, timeout="120s"))
        again = shared_files(handle.checkpoint(CheckpointScope.INCREMENTAL, timeout="120s"))
        whole = shared_files(handle.checkpoint(CheckpointScope.CONFIGURED, timeout="120s"))
    finally:
        handle.cancel("120s")
    assert first
    assert first <= again
    assert not whole & again
