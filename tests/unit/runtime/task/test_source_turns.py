"""The turns of a source: reading, asking for splits, waiting, being idle, and its end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from tests.unit.runtime.task.task_kit import ME, TaskBench, rows

import snapline as sl
from snapline.config import Checkpoints
from snapline.contracts.source import Wait, Watermarks
from snapline.operators.source_head import SourceHead
from snapline.protocol.messages import CheckpointAborted, CheckpointCompleted, TriggerCheckpoint
from snapline.runtime.task.input_watermarks import NOTHING_YET
from snapline.runtime.wire.channel_items import ItemKind
from snapline.types import IDLE, Barrier, SnapshotKind

TIMES = pa.schema([("x", pa.int64()), ("time", pa.timestamp("us"))])


class Reader(sl.SourceReader):
    """Gives what the test has put into it."""

    def __init__(self) -> None:
        self.given: list[Any] = []
        self.splits: list[Any] = []
        self.is_closed = False

    def add_split(self, split: Any, position: Any) -> None:
        self.splits.append(split)

    def read(self) -> Any:
        return self.given.pop(0) if self.given else None

    def positions(self, checkpoint_id: int) -> Sequence[tuple[Any, Any]]:
        return [(split, 0) for split in self.splits]

    def close(self) -> None:
        self.is_closed = True


class Fake(sl.Source):
    schema = rows().schema
    is_bounded = True

    def __init__(self) -> None:
        self.made = Reader()

    def splits(self, parallelism: int) -> Sequence[Any]:
        return []

    def reader(self, context: sl.ReaderContext) -> Reader:
        return self.made


class SourceBench(TaskBench):
    def __init__(self, **options: Any) -> None:
        source = Fake()
        self.reader = source.made
        super().__init__([SourceHead(source)], inputs=0, **options)

    def assign(self, *splits: str, more: bool = False) -> None:
        self.task.coordinator_event("op0", {"splits": list(splits), "more": more})
        self.soon()

    def soon(self, delay_ms: int = 200) -> None:
        """A source that waits never comes to rest: let some time go by."""
        self.advance(delay_ms)

    def begin(self) -> None:
        self.task.start()
        self.soon()


def test_a_source_asks_once_for_splits_and_reads_what_it_is_assigned() -> None:
    bench = SourceBench()
    bench.begin()
    assert bench.taken_log() == ["RUNNING", "event of op0"]
    bench.reader.given = [rows(1), rows(2)]
    bench.assign("a", more=True)
    assert bench.outputs[0].sent() == [[1], [2]]
    assert bench.taken_log() == ["send DATA", "send DATA", "event of op0"], "it has read all it had"
    assert bench.task.metrics().rows_in == 2


def test_the_end_comes_when_all_is_read_and_no_more_splits_come() -> None:
    bench = SourceBench()
    bench.begin()
    bench.reader.given = [rows(1)]
    bench.assign("a")
    assert bench.taken_log()[2:] == ["send DATA", "send WATERMARK", "send END_OF_DATA", "source ended"]
    bench.soon()
    assert bench.log == [], "the end is reported once"


def test_a_source_that_waits_is_read_again() -> None:
    bench = SourceBench()
    bench.begin()
    bench.reader.given = [Wait(0.03), rows(1)]
    begun_ms = bench.kernel.now_ms
    bench.task.coordinator_event("op0", {"splits": ["a"], "more": True})
    bench.run(lambda: bool(bench.outputs[0].items))
    assert bench.kernel.now_ms - begun_ms == 30


def test_a_long_wait_is_cut_so_that_idleness_is_noticed() -> None:
    bench = SourceBench()
    bench.begin()
    bench.reader.given = [Wait(3600), rows(1)]
    begun_ms = bench.kernel.now_ms
    bench.task.coordinator_event("op0", {"splits": ["a"], "more": True})
    bench.run(lambda: bool(bench.outputs[0].items))
    assert bench.kernel.now_ms - begun_ms == 100


def test_a_held_source_reads_nothing_before_the_first_checkpoint() -> None:
    bench = SourceBench(checkpoints=Checkpoints(interval="1s", pause_sources_until_first=True))
    bench.begin()
    assert bench.taken_log() == ["RUNNING"], "it does not even ask for splits"
    bench.task.trigger(TriggerCheckpoint(ME, Barrier(1, 0)))
    bench.soon()
    assert bench.taken_log() == ["send BARRIER", "Acknowledge 1"]
    bench.task.notify(CheckpointCompleted(ME, 1))
    bench.soon()
    assert bench.log == ["event of op0"]


def test_a_source_that_stops_with_a_savepoint_reads_on_if_it_fails() -> None:
    bench = SourceBench()
    bench.begin()
    bench.task.trigger(TriggerCheckpoint(ME, Barrier(1, 0, snapshot=SnapshotKind.SYNC_SAVEPOINT, location="sp")))
    bench.soon()
    bench.reader.given = [rows(1)]
    bench.assign("a", more=True)
    assert [1] not in bench.outputs[0].sent()
    bench.task.notify(CheckpointAborted(ME, 1))
    bench.soon()
    assert bench.outputs[0].sent()[-1] == [1]


def test_no_rows_are_read_while_outputs_are_full() -> None:
    bench = SourceBench()
    bench.begin()
    bench.outputs[0].is_full = True
    bench.reader.given = [rows(1)]
    bench.assign("a", more=True)
    assert bench.outputs[0].sent() == []
    bench.outputs[0].is_full = False
    bench.task.room_changed()
    bench.soon()
    assert bench.outputs[0].sent() == [[1]]


def timed(*seconds: int) -> pa.RecordBatch:
    moments = pa.array([second * 1_000_000 for second in seconds], pa.timestamp("us"))
    return pa.record_batch([pa.array(seconds, pa.int64()), moments], schema=TIMES)


def test_event_time_follows_the_rows_and_idleness_is_passed_on_once() -> None:
    class Timed(Fake):
        schema = TIMES

    source = Timed()
    bench = TaskBench([SourceHead(source, Watermarks("time", idle_after="1s"))], inputs=0)
    bench.task.start()
    source.made.given = [timed(1), timed(1), timed(3), *[Wait(0.1)] * 50]
    bench.task.coordinator_event("op0", {"splits": ["a"], "more": True})
    bench.advance(3000)
    watermarks = [item.value for item in bench.outputs[0].items if item.kind is ItemKind.WATERMARK]
    assert watermarks == [999, 2999, IDLE]
    assert bench.task.metrics().watermark_ms is None, "an idle source has none"


class TimedBench(SourceBench):
    def __init__(self, watermarks: Watermarks | None = None, **options: Any) -> None:
        source = Fake()
        source.schema = TIMES
        self.reader = source.made
        TaskBench.__init__(self, [SourceHead(source, watermarks)], inputs=0, **options)

    def watermarks(self) -> list[int]:
        return [item.value for item in self.outputs[0].items if item.kind is ItemKind.WATERMARK]


def times(*seconds: int) -> pa.RecordBatch:
    arrays = [pa.array(seconds), pa.array([second * 1_000_000 for second in seconds]).cast(pa.timestamp("us"))]
    return pa.RecordBatch.from_arrays(arrays, schema=TIMES)


def test_a_subtask_without_a_split_holds_event_time_back_only_until_it_knows() -> None:
    bench = TimedBench(Watermarks("time"))
    bench.begin()
    assert bench.watermarks() == [], "splits may be on their way"
    bench.task.coordinator_event("op0", {"nothing": True})
    bench.soon()
    assert bench.watermarks() == [IDLE]
    bench.assign("a", more=True)
    assert bench.watermarks() == [IDLE, NOTHING_YET], "it counts before its first row"
    bench.reader.given = [times(5)]
    bench.assign("b", more=True)
    bench.task.coordinator_event("op0", {"nothing": True})
    bench.soon()
    assert bench.watermarks() == [IDLE, NOTHING_YET, 4999, IDLE]
    bench.assign("c", more=True)
    assert bench.watermarks()[4:] == [4999]


def test_the_end_of_being_idle_is_told_also_without_watermarks() -> None:
    bench = TimedBench()
    bench.begin()
    for _ in range(2):
        bench.task.coordinator_event("op0", {"nothing": True})
        bench.soon()
        bench.reader.given = [times(5)]
        bench.assign("a", more=True)
    assert bench.watermarks() == [IDLE, NOTHING_YET] * 2


def test_what_is_known_of_event_time_goes_before_a_barrier() -> None:
    bench = TimedBench(Watermarks("time"))
    bench.begin()
    bench.task.coordinator_event("op0", {"nothing": True})
    bench.task.trigger(TriggerCheckpoint(ME, Barrier(1, 0)))
    bench.soon()
    assert bench.taken_log()[2:] == ["send WATERMARK", "send BARRIER", "Acknowledge 1"]


def test_after_catching_up_a_subtask_is_idle_until_its_next_row() -> None:
    bench = TimedBench(Watermarks("time"))
    bench.begin()
    bench.reader.given = [times(5), Wait(0.01)]
    bench.task.coordinator_event("op0", {"catch_up": "1/1"})
    bench.assign("a", more=True)
    assert bench.watermarks() == [4999, IDLE]
    bench.reader.given = [times(7)]
    bench.assign("b", more=True)
    assert bench.watermarks() == [4999, IDLE, 6999]


def test_after_the_end_of_the_data_nothing_is_said_of_event_time() -> None:
    bench = TimedBench(Watermarks("time", idle_after="1s"))
    bench.begin()
    bench.reader.given = [times(5)]
    bench.assign("a")
    said = bench.watermarks()
    bench.soon(5000)
    bench.task.trigger(TriggerCheckpoint(ME, Barrier(1, 0)))
    bench.soon()
    assert "Acknowledge 1" in bench.taken_log()
    assert bench.watermarks() == said, "its last word was that no rows follow"
