"""Jobs with stateful processors of PySpark count rows exactly once, through failures and with more subtasks."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# ruff: noqa: N803  # the names are PySpark's
from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

import snapline as sl
from snapline.connectors.files.file_sink import read_files
from snapline.devtools.kit.exactly_once import FailOnce
from snapline.testing.clusters import ThreadCluster

pytestmark = pytest.mark.slow

ROWS, USERS = 4_000, 20
INITIAL = 1_000_000


class Numbering(StatefulProcessor):
    """Numbers the rows of each key from its initial state on, and tells all that it has had when time ends."""

    def init(self, handle) -> None:
        self.handle = handle
        self.count = handle.getValueState("count", "n BIGINT")
        self.ids = handle.getListState("ids", "id BIGINT")
        self.by_rest = handle.getMapState("by rest", "rest BIGINT", "n BIGINT")

    def handleInitialState(self, key, initialState, timerValues) -> None:
        self.count.update(((self.count.get() or (0,))[0] + initialState.n,))

    def handleInputRows(self, key, rows, timerValues) -> Iterator[Row]:
        (count,) = self.count.get()
        for row in rows:
            count += 1
            self.ids.appendValue((row.id,))
            rest = (row.id % 3,)
            self.by_rest.updateValue(rest, ((self.by_rest.getValue(rest) or (0,))[0] + 1,))
            yield Row(user=key[0], number=count, id=row.id)
        self.count.update((count,))
        if not list(self.handle.listTimers()):
            self.handle.registerTimer(1 << 50)

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo) -> Iterator[Row]:
        ids = [id for (id,) in self.ids.get()]
        assert len(ids) == len(set(ids)) == sum(n for (n,) in self.by_rest.values())
        yield Row(user=key[0], number=-len(ids), id=None)


def make_job(directory: Path, *, parallelism: int, fails: bool = False) -> sl.Job:
    job = sl.Job(
        "numbering",
        id="numbering",
        parallelism=parallelism,
        checkpoints=sl.Checkpoints(interval="50ms", storage=directory / "checkpoints"),
        execution=sl.Execution(heartbeat_timeout="60s"),
        restart=sl.FixedDelay(attempts=3, delay="10ms"),
    )
    rate = sl.sources.Rate(4_000, rows=ROWS, users=USERS, batch_rows=50)
    stream = job.source(rate, uid="rows", watermarks=sl.Watermarks("time", delay="1h"))
    if fails:
        failing = FailOnce(ROWS // 3, str(directory / "has-failed"))
        stream = stream.rebalance().apply(failing, uid="failing", schema=stream.schema)
    users = [f"user-{number}" for number in range(USERS)]
    (
        stream.key_by("user")
        .transform_with_state(
            Numbering(),
            "user STRING, number BIGINT, id BIGINT",
            time_mode="event_time",
            initial_state=pa.table({"user": users, "n": pa.array([INITIAL] * USERS, pa.int64())}),
            uid="numbering",
        )
        .sink(sl.sinks.Files(directory / "out"), uid="out")
    )
    return job


def check(directory: Path) -> None:
    rows = read_files(directory / "out").to_pylist()
    told = {row["user"]: -row["number"] for row in rows if row["id"] is None}
    rows = [row for row in rows if row["id"] is not None]
    assert sorted(row["id"] for row in rows) == list(range(ROWS))
    counts = Counter(row["user"] for row in rows)
    for user, count in counts.items():
        numbers = sorted(row["number"] for row in rows if row["user"] == user)
        assert numbers == list(range(INITIAL + 1, INITIAL + count + 1)), user
    assert told == counts


def test_a_failure_changes_nothing(tmp_path: Path) -> None:
    handle = make_job(tmp_path, parallelism=2, fails=True).start(ThreadCluster())
    assert handle.wait() is sl.JobStatus.FINISHED
    assert handle.attempt > 1
    check(tmp_path)


def test_another_parallelism_changes_nothing(tmp_path: Path) -> None:
    first = make_job(tmp_path, parallelism=1).start(ThreadCluster())
    deadline_s = time.monotonic() + 120
    while not list((tmp_path / "out").glob("*.parquet")):
        assert time.monotonic() < deadline_s, "nothing was written in time"
        time.sleep(0.01)
    first.suspend()
    assert make_job(tmp_path, parallelism=3).run(ThreadCluster()) is sl.JobStatus.FINISHED
    check(tmp_path)
