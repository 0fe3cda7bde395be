"""What sources may do: event time by split, waiting for each other, backlog, and lines that they draw themselves."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest

import snapline as sl
from snapline.testing import ThreadCluster

pytestmark = pytest.mark.slow

SCHEMA = pa.schema([("split", pa.string()), ("time", pa.int64())])
HOUR_MS = 3_600_000
DEADLINE_S = 120.0


def wait_until(condition: Callable[[], Any], what: str) -> None:
    deadline_s = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline_s, f"{what} within {DEADLINE_S} s"
        time.sleep(0.01)


class Parts(sl.Source):
    """Splits by name, each with its times; a subtask reads all of its splits in turns, a few rows at a time."""

    on_read: ClassVar[dict[str, Callable[[Reader, str], bool]]] = {}
    """By name of the source: called before a row of a split is read; False if it may not be read yet."""
    newest: ClassVar[dict[str, int]] = {}

    def __init__(
        self, name: str, times: dict[str, list[int]], *, bounded: bool = True, draws_lines: bool = False
    ) -> None:
        self.name, self.times, self.bounded = name, times, bounded
        self.draws_lines = draws_lines

    @property
    def schema(self) -> pa.Schema:
        return SCHEMA

    @property
    def is_bounded(self) -> bool:
        return self.bounded

    @property
    def in_step(self) -> bool:
        return True

    def splits(self, parallelism: int) -> Sequence[str]:
        return list(self.times)

    def reader(self, context: sl.ReaderContext) -> Reader:
        return Reader(self, context)


class Reader(sl.SourceReader):
    can_pause_splits = True

    def __init__(self, source: Parts, context: sl.ReaderContext) -> None:
        self.source, self.context = source, context
        self.at: dict[str, int] = {}
        self.paused: list[str] = []
        self.turn = 0
        self.lines: list[int] = []

    def add_split(self, split: str, position: int | None) -> None:
        self.at[split] = position or 0

    def read(self) -> Any:
        if not self.at:
            return None
        if self.lines:
            return sl.CheckpointLine(self.lines.pop(0))
        may_read = Parts.on_read.get(self.source.name)
        for _ in range(len(self.at)):
            self.turn += 1
            split = sorted(self.at)[self.turn % len(self.at)]
            times, at = self.source.times[split], self.at[split]
            if at == len(times):
                if self.source.bounded:
                    del self.at[split]
                    return sl.SplitRows(_rows(split, []), [], [split])
                continue
            if split in self.paused or (may_read is not None and not may_read(self, split)):
                continue
            self.at[split] += 1
            Parts.newest[split] = max(times[at], Parts.newest.get(split, 0))
            return sl.SplitRows(_rows(split, times[at : at + 1]), [(split, 1)])
        return sl.Wait(0.005)

    def positions(self, checkpoint_id: int) -> Sequence[tuple[str, int]]:
        return list(self.at.items())

    def pause_splits(self, splits: Sequence[str]) -> None:
        self.paused = list(splits)


def _rows(split: str, times: list[int]) -> pa.RecordBatch:
    return pa.record_batch([pa.array([split] * len(times), pa.string()), pa.array(times, pa.int64())], schema=SCHEMA)


@pytest.fixture(autouse=True)
def _clean() -> None:
    Parts.on_read.clear()
    Parts.newest.clear()


@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_split_that_is_an_hour_ahead_makes_no_row_late(parallelism: int) -> None:
    times = {
        "early": [number * 1000 for number in range(60)],
        "ahead": [HOUR_MS + number * 1000 for number in range(60)],
        "slow": [number * 1500 for number in range(40)],
    }
    job, late = sl.Job("skew", parallelism=parallelism), sl.sinks.Collect()
    rows = job.source(Parts("skew", times), "parts", watermarks=sl.Watermarks("time"))
    windows = rows.key_by("split").window(sl.Tumbling("10s")).late_output("late")
    counts = windows.aggregate(uid="counts", n=sl.count())
    counts.side_output("late").sink(late, "late")
    table = counts.collect(ThreadCluster())
    assert late.table().num_rows == 0
    assert sum(table["n"].to_pylist()) == 160


def test_a_fast_split_and_a_fast_source_wait_for_the_slow_ones() -> None:
    fast = {"fast": [number * 1000 for number in range(400)], "other": [number * 1000 for number in range(400)]}
    slow = {"slow": [number * 1000 for number in range(400)]}
    lead: list[int] = []
    goes_on = threading.Event()

    def hold(reader: Reader, split: str) -> bool:
        lead.append(max(Parts.newest.get(name, 0) for name in fast) - Parts.newest.get("slow", 0))
        return goes_on.is_set() or reader.at[split] < 20

    Parts.on_read["slow"] = hold
    job = sl.Job("alignment")
    watermarks = sl.Watermarks("time", align="group", max_drift="30s")
    first = job.source(Parts("fast", fast), "fast", watermarks=watermarks)
    second = job.source(Parts("slow", slow), "slow", watermarks=watermarks)
    rows = sl.sinks.Collect()
    first.union(second).sink(rows, "rows")
    handle = job.start(ThreadCluster())
    # The slow one stands at 19 s: the fast ones come to the first row behind 49 s, and stay there.
    wait_until(
        lambda: Parts.newest.get("fast", 0) > 40_000 and Parts.newest.get("other", 0) > 40_000, "the fast ones go on"
    )
    before = len(lead)
    wait_until(lambda: len(lead) > before + 50, "the slow one is asked again and again")
    assert max(Parts.newest[name] for name in fast) <= 19_000 + 30_000 + 5_000, "a few rows more than allowed, no more"
    goes_on.set()
    assert handle.wait("120s") is sl.JobStatus.FINISHED
    assert rows.table().num_rows == 1200


def test_while_a_source_has_backlog_its_interval_applies(tmp_path: Path) -> None:
    caught_up = threading.Event()

    def report(reader: Reader, split: str) -> bool:
        reader.context.report_backlog(not caught_up.is_set())
        return True

    Parts.on_read["busy"] = report
    checkpoints = sl.Checkpoints(interval="50ms", interval_during_backlog="0ms", storage=tmp_path)
    job = sl.Job("backlog", checkpoints=checkpoints)
    times = {"a": list(range(1_000_000))}
    rows = sl.sinks.Collect(max_rows=10_000_000)
    job.source(Parts("busy", times, bounded=False), "parts").sink(rows, "rows")
    handle = job.start(ThreadCluster())
    wait_until(lambda: Parts.newest.get("a", 0) > 2000, "rows flow")
    count = handle.checkpoints().counts.completed
    wait_until(lambda: Parts.newest["a"] > 6000, "more rows flow")
    assert handle.checkpoints().counts.completed <= count + 1, "none begins while there is backlog"
    caught_up.set()
    wait_until(lambda: handle.checkpoints().counts.completed > count + 3, "checkpoints go on")
    handle.cancel()


class Marks(sl.MasterHook):
    """Asks the system outside for a line: it is drawn behind the row that is read next."""

    name = "marks"
    drawn: ClassVar[dict[int, int]] = {}
    readers: ClassVar[list[Reader]] = []

    def snapshot(self, checkpoint_id: int) -> bytes | None:
        for reader in Marks.readers:
            reader.lines.append(checkpoint_id)
        return b"asked"

    def restore(self, checkpoint_id: int, state: bytes | None) -> None:
        assert state == b"asked"


class Drawing(Parts):
    """Notes where each line was read, and where each checkpoint was taken."""

    at_line: ClassVar[dict[int, int]] = {}
    taken: ClassVar[dict[int, int]] = {}

    def reader(self, context: sl.ReaderContext) -> Reader:
        reader = DrawingReader(self, context)
        Marks.readers.append(reader)
        return reader


class DrawingReader(Reader):
    def read(self) -> Any:
        given = super().read()
        if isinstance(given, sl.CheckpointLine):
            Drawing.at_line[given.checkpoint_id] = self.at["a"]
        return given

    def positions(self, checkpoint_id: int) -> Sequence[tuple[str, int]]:
        Drawing.taken[checkpoint_id] = self.at["a"]
        return super().positions(checkpoint_id)


def test_a_checkpoint_begins_where_the_source_draws_its_line(tmp_path: Path) -> None:
    Marks.readers.clear()
    job = sl.Job("lines", hooks=[Marks()], checkpoints=sl.Checkpoints(interval="20ms", storage=tmp_path))
    source = Drawing("a", {"a": list(range(1_000_000))}, bounded=False, draws_lines=True)
    job.source(source, "parts").sink(sl.sinks.Collect(max_rows=10_000_000), "rows")
    handle = job.start(ThreadCluster())
    wait_until(lambda: handle.checkpoints().counts.completed >= 5, "checkpoints complete")
    handle.cancel()
    both = set(Drawing.at_line) & set(Drawing.taken)
    assert len(both) >= 5
    assert {number: Drawing.at_line[number] for number in both} == {number: Drawing.taken[number] for number in both}
