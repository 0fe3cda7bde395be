"""Sources in a subtask: splits, positions, event time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import pyarrow as pa
import pytest

import snapline as sl
from snapline.errors import ConfigurationError, UserCodeError
from snapline.operators.event_time import newest_time_ms
from snapline.operators.source_head import SourceHead
from snapline.state.operator_state import OperatorStates
from snapline.state.subtask_states import SubtaskStates

SCHEMA = pa.schema([("at", pa.int64())])
Run = Callable[..., Any]


class Reader(sl.SourceReader):
    """Gives what the test has put in line, and remembers what it was told."""

    def __init__(self) -> None:
        self.line: list[Any] = []
        self.splits: list[tuple[Any, Any]] = []
        self.completed: list[int] = []
        self.is_closed = False

    def add_split(self, split: Any, position: Any) -> None:
        self.splits.append((split, position))

    def read(self) -> Any:
        return self.line.pop(0) if self.line else None

    def positions(self, checkpoint_id: int) -> Sequence[tuple[Any, Any]]:
        return self.splits

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        self.completed.append(checkpoint_id)

    def close(self) -> None:
        self.is_closed = True


class Fake(sl.Source):
    def __init__(self, *, bounded: bool = True) -> None:
        self._bounded = bounded
        self.made: list[tuple[sl.ReaderContext, Reader]] = []

    @property
    def schema(self) -> pa.Schema:
        return SCHEMA

    @property
    def is_bounded(self) -> bool:
        return self._bounded

    def splits(self, parallelism: int) -> list[Any]:
        return []

    def reader(self, context: sl.ReaderContext) -> Reader:
        self.made.append((context, Reader()))
        return self.made[-1][1]


def opened(
    run: Run, *, bounded: bool = True, watermarks: sl.Watermarks | None = None, restored: Sequence[Any] = ()
) -> tuple[Any, Any, Reader]:
    source = Fake(bounded=bounded)
    states = SubtaskStates(OperatorStates("it", 0))
    states.operator.list_state("splits", bytes).extend(msgspec.msgpack.encode(item) for item in restored)
    harness = run(SourceHead(source, watermarks), states=states, subtask=3, parallelism=4)
    operator = harness.open()
    context, reader = source.made[0]
    assert context == sl.ReaderContext("job", "it", 3, 4, lineage="job")
    return harness, operator, reader


def rows(*times: int | None) -> pa.RecordBatch:
    return pa.record_batch({"at": pa.array(times, pa.int64())})


def test_a_bounded_source_asks_whenever_it_has_read_everything(run: Run) -> None:
    _, operator, reader = opened(run)
    assert operator.read() is None
    assert operator.wants_split
    operator.ask()
    assert not operator.wants_split
    assert not operator.has_ended
    operator.handle_event({"splits": ["one"], "more": True})
    assert reader.splits == [("one", None)]
    assert not operator.wants_split
    reader.line = [rows(1), sl.Wait(0.5), rows(2)]
    assert operator.read() == rows(1)
    assert operator.read() == sl.Wait(0.5)
    assert operator.read() == rows(2)
    assert not operator.wants_split
    assert operator.read() is None
    assert operator.wants_split
    operator.ask()
    operator.handle_event({"splits": ["two"], "more": False})
    assert (operator.wants_split, operator.has_ended) == (False, False)
    assert operator.read() is None
    assert (operator.wants_split, operator.has_ended) == (False, True)


def test_no_splits_and_no_more_is_the_end(run: Run) -> None:
    _, operator, _ = opened(run)
    operator.ask()
    operator.handle_event({"splits": [], "more": False})
    assert operator.has_ended
    assert not operator.wants_split


def test_a_source_that_does_not_end_asks_once_even_if_it_has_restored_splits(run: Run) -> None:
    _, operator, reader = opened(run, bounded=False, restored=[["one", 7]])
    reader.line = [rows(1)]
    assert operator.read() == rows(1)
    assert operator.wants_split
    operator.ask()
    assert not operator.wants_split
    operator.handle_event({"splits": ["two"], "more": False})
    assert reader.splits == [("one", 7), ("two", None)]
    assert not operator.wants_split
    assert not operator.has_ended


def test_restored_splits_of_a_bounded_source_are_read_before_it_asks(run: Run) -> None:
    _, operator, reader = opened(run, restored=[[{"file": "a"}, 7], ["b", None]])
    assert reader.splits == [({"file": "a"}, 7), ("b", None)]
    assert not operator.wants_split
    assert operator.read() is None
    assert operator.wants_split


def test_a_snapshot_holds_the_positions_of_now(run: Run) -> None:
    harness, operator, reader = opened(run, restored=[["old", 1]])
    reader.splits = [({"file": "a"}, 5), ("b", [1, "x"])]
    operator.snapshot(1)
    assert [msgspec.msgpack.decode(item) for item in harness.elements("splits")] == [
        [{"file": "a"}, 5],
        ["b", [1, "x"]],
    ]
    reader.splits = []
    operator.snapshot(2)
    assert harness.elements("splits") == []
    operator.checkpoint_completed(2)
    assert reader.completed == [2]


def test_event_time_is_the_newest_row_less_the_delay_and_never_goes_back(run: Run) -> None:
    _, operator, reader = opened(run, watermarks=sl.Watermarks("at", delay="10ms"), restored=[["s", None]])
    assert operator.watermark_ms is None
    seen: list[int | None] = []
    for batch in (rows(None), rows(100, 50), rows(60), rows(None), rows(200, None)):
        reader.line = [batch]
        operator.read()
        seen.append(operator.watermark_ms)
    assert seen == [None, 89, 89, 89, 189]


def test_event_time_goes_on_after_a_restore(run: Run) -> None:
    harness, operator, reader = opened(run, watermarks=sl.Watermarks("at"), restored=[["s", None]])
    reader.line = [rows(100)]
    operator.read()
    assert harness.states.watermark_ms == 99
    again = SourceHead(Fake(bounded=True), sl.Watermarks("at"))
    again.open(harness.context)
    assert again.watermark_ms == 99
    without = SourceHead(Fake(bounded=True), None)
    without.open(harness.context)
    assert without.watermark_ms is None


def test_without_watermarks_there_is_no_event_time(run: Run) -> None:
    harness, operator, reader = opened(run, restored=[["s", None]])
    reader.line = [rows(100)]
    operator.read()
    assert operator.watermark_ms is None
    assert not operator.is_idle(harness.now_ms + 10**9)


def test_a_subtask_is_idle_once_it_has_read_no_row_for_so_long(run: Run) -> None:
    watermarks = sl.Watermarks("at", idle_after="5s")
    harness, operator, reader = opened(run, watermarks=watermarks, restored=[["s", None]])
    start = harness.now_ms
    assert not operator.is_idle(start + 4_999)
    assert operator.is_idle(start + 5_000)
    harness.now_ms = start + 5_000
    reader.line = [rows(), sl.Wait(1)]
    operator.read()
    operator.read()
    assert operator.is_idle(start + 5_000)
    reader.line = [rows(1)]
    operator.read()
    assert not operator.is_idle(start + 5_000)
    never = opened(run, watermarks=sl.Watermarks("at"))[1]
    assert not never.is_idle(start + 10**9)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
def test_timestamps_of_every_unit_become_milliseconds(unit: str, zone: str | None) -> None:
    moment = datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)
    values = pa.array([None, moment], pa.timestamp("us", "UTC")).cast(pa.timestamp(unit, "UTC"))
    column = values.cast(pa.int64()).cast(pa.timestamp(unit, zone))
    assert newest_time_ms(column) == int(moment.timestamp() * 1000)
    assert newest_time_ms(column.slice(0, 1)) is None


def test_times_before_1970_are_rounded_down() -> None:
    assert newest_time_ms(pa.array([-1], pa.timestamp("us"))) == -1


def test_what_a_reader_gives_is_checked(run: Run) -> None:
    _, operator, reader = opened(run, restored=[["s", None]])
    reader.line = ["text", pa.record_batch({"x": [1]}), pa.record_batch({"at": pa.array([1], pa.int8())})]
    with pytest.raises(UserCodeError, match="the source 'it' gave 'text'"):
        operator.read()
    with pytest.raises(UserCodeError, match="the source 'it' gave a batch without 'at' and with 'x'"):
        operator.read()
    assert operator.read() == rows(1)


def test_a_source_is_closed_with_its_reader(run: Run) -> None:
    _, operator, reader = opened(run)
    operator.close()
    assert reader.is_closed
    SourceHead(Fake()).close()


@pytest.mark.parametrize("on_error", ["fail", "dead_letter", "drop"])
def test_rows_that_a_reader_cannot_read_fail_the_job_go_aside_or_are_dropped(run: Run, on_error: str) -> None:
    source = Fake()
    source.on_error = on_error
    harness = run(SourceHead(source))
    operator = harness.open()
    context, _ = source.made[0]
    bad = sl.BadRow(ValueError("no number"), "a,b", "in.csv", 3)
    if on_error == "fail":
        with pytest.raises(UserCodeError, match=r"raised ValueError: no number, in the file 'in\.csv', line 3"):
            context.bad_row(bad)
        return
    context.bad_row(bad)
    context.bad_row(sl.BadRow(UserCodeError("in.csv is damaged"), file="in.csv"))
    letters = [(row["error"], row["row"], row["file"], row["line"]) for row in harness.side_rows("dead_letters")]
    expected = [("no number", "a,b", "in.csv", 3), ("in.csv is damaged", None, "in.csv", None)]
    assert letters == (expected if on_error == "dead_letter" else [])
    assert (operator.bad_rows, operator.last_bad_row) == (2, "the source 'it': in.csv is damaged")


def test_the_setting_of_a_source_is_checked() -> None:
    source = Fake()
    source.on_error = "skip"
    with pytest.raises(ConfigurationError, match="the source Fake: on_error='skip'; use one of"):
        SourceHead(source)
