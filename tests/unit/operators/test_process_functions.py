"""Functions with state and timers."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import snapline as sl
from snapline.errors import ConfigurationError, UserCodeError
from snapline.operators import row_timers
from snapline.operators.process_functions import FunctionInput, FunctionOutputs, Process, ProcessBatches
from snapline.state.timers import DueTimers, TimeDomain
from snapline.testing.operator_harness import OperatorHarness
from snapline.types import MAX_WATERMARK

OUT = pa.schema([("user", pa.string()), ("n", pa.int64())])
LATE = pa.schema([("n", pa.int64())])
KEYED = FunctionInput(("user",), "time")
Run = Callable[..., Any]


def rows(*items: tuple[str, int]) -> pa.RecordBatch:
    times = pa.array([time for _, time in items], pa.int64())
    return pa.record_batch({"user": [user for user, _ in items], "time": times})


def started(run: Run, function: Any, *sides: FunctionInput, key: str | None = "string", **options: Any) -> Any:
    options = {"has_uid": True, "has_event_time": True, **options}
    operator = Process(function, sides or (KEYED,), FunctionOutputs(OUT, {"late": LATE}), **options)
    harness = run(operator, key=key, key_columns=("user",) if key else ())
    harness.open()
    return harness


def pairs(harness: Any) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in harness.rows()]


class Counting(sl.ProcessFunction):
    """Counts the rows of a user; emits the count after a second without one."""

    def open(self, context: sl.ProcessContext) -> None:
        self.count = context.value_state("count", int, default=0)
        self.last = context.value_state("last", int)

    def process(self, row: dict[str, Any], context: sl.ProcessContext) -> None:
        time_ms = context.timestamp_ms
        assert time_ms is not None
        if context.watermark_ms is not None and time_ms <= context.watermark_ms:
            context.emit_to("late", {"n": time_ms})
            return
        assert context.key == row["user"]
        before = self.last.get()
        if before is not None:
            context.delete_event_timer(before + 1000)
        self.last.set(time_ms)
        self.count.set(self.count.get() + 1)
        context.set_event_timer(time_ms + 1000)

    def on_timer(self, time_ms: int, context: sl.ProcessContext) -> None:
        assert context.time_domain is TimeDomain.EVENT
        context.emit({"user": f"{context.key} {time_ms}", "n": self.count.get()})
        self.count.clear()
        self.last.clear()


def test_sessions_by_hand(run: Run) -> None:
    harness = started(run, Counting())
    harness.operator.process(rows(("a", 0), ("b", 100), ("a", 500)), 0)
    harness.operator.watermark(1099)
    assert pairs(harness) == []
    harness.operator.process(rows(("a", 1400), ("b", 50)), 0)
    harness.operator.watermark(1100)
    assert pairs(harness) == [("b 1100", 1)]
    harness.operator.watermark(MAX_WATERMARK)
    assert pairs(harness) == [("a 2400", 3)]
    assert [(name, batch.to_pylist()) for name, batch in harness.side_emitted] == [("late", [{"n": 50}])]


class SeenWatermark(sl.BatchProcessFunction):
    """Emits the watermark it sees with each batch."""

    def process_batch(self, batch: pa.RecordBatch, context: sl.BatchContext) -> None:
        context.emit(pa.record_batch([["w"], [context.watermark_ms]], schema=OUT))


@pytest.mark.parametrize("keyed", [True, False])
def test_the_watermark_is_in_checkpoints_so_that_late_rows_stay_late(keyed: bool) -> None:
    class Guard(sl.ProcessFunction):
        def process(self, row: dict[str, Any], context: sl.ProcessContext) -> None:
            context.emit({"user": row["user"], "n": context.watermark_ms})

    job = sl.Job("x")
    source = sl.sources.Iterator([{"user": "a", "time": 1}])
    stream = job.source(source, "rows", watermarks=sl.Watermarks("time"))
    for made in (
        (stream.key_by("user") if keyed else stream).process(Guard(), schema=OUT),
        (stream.key_by("user") if keyed else stream).process(SeenWatermark(), schema=OUT),
    ):
        with OperatorHarness.of(made) as harness:
            harness.process([{"user": "a", "time": 1}])
            harness.watermark(50)
            harness.restart()
            harness.process([{"user": "a", "time": 2}])
            harness.watermark(30)
            harness.process([{"user": "a", "time": 3}])
            harness.end()
            harness.restart()
            harness.process([{"user": "a", "time": 4}])
            assert [row["n"] for row in harness.rows()] == [None, 50, 50, None]


class Timed(sl.ProcessFunction):
    """Sets the given timers, and calls a function when they fire."""

    def __init__(self, on_timer: Callable[[int, sl.ProcessContext], None], *times: Any) -> None:
        self._on_timer = on_timer
        self._times = times

    def process(self, row: dict[str, Any], context: sl.ProcessContext) -> None:
        for time in self._times:
            context.set_event_timer(time)

    def on_timer(self, time_ms: int, context: sl.ProcessContext) -> None:
        context.emit({"user": context.key, "n": time_ms})
        self._on_timer(time_ms, context)


def test_timers_fire_in_order_also_those_that_are_set_meanwhile(run: Run) -> None:
    def more(time_ms: int, context: sl.ProcessContext) -> None:
        if time_ms == 10:
            context.set_event_timer(20)
            context.delete_event_timer(30)
            context.set_event_timer(45)

    harness = started(run, Timed(more, 10, 30, 40))
    harness.operator.process(rows(("a", 0), ("b", 0)), 0)
    harness.operator.watermark(42)
    fired = pairs(harness)
    assert [time for _, time in fired] == [10, 10, 20, 20, 40, 40]
    assert sorted(fired) == [(user, time) for user in "ab" for time in (10, 20, 40)]
    harness.operator.watermark(45)
    assert sorted(pairs(harness)) == [("a", 45), ("b", 45)]


def test_many_timers_fire_in_order(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_timers, "_LARGEST_BULK", 16)

    def delete_next(time_ms: int, context: sl.ProcessContext) -> None:
        context.delete_event_timer(time_ms + 1)

    harness = started(run, Timed(delete_next, *range(100)))
    harness.operator.process(rows(("a", 0)), 0)
    harness.operator.watermark(10_000)
    assert [time for _, time in pairs(harness)] == list(range(0, 100, 2))


def test_timers_that_set_timers_for_ever_are_told_of_at_the_end(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_timers, "_FEW_AT_THE_END", 20)

    def again(time_ms: int, context: sl.ProcessContext) -> None:
        context.set_event_timer(time_ms + 1000)

    harness = started(run, Timed(again, 0))
    harness.operator.process(rows(("a", 0)), 0)
    harness.operator.watermark(5000)
    assert [time for _, time in pairs(harness)] == [0, 1000, 2000, 3000, 4000, 5000]
    with pytest.raises(UserCodeError, match=r"process 'it': .*after the end of the data.*context.has_ended"):
        harness.operator.watermark(MAX_WATERMARK)

    def until_the_end(time_ms: int, context: sl.ProcessContext) -> None:
        if not context.has_ended:
            context.set_event_timer(time_ms + 1000)

    harness = started(run, Timed(until_the_end, 0))
    harness.operator.process(rows(("a", 0)), 0)
    harness.operator.watermark(MAX_WATERMARK)
    assert len(pairs(harness)) == 1


def test_times_are_milliseconds_or_datetimes(run: Run) -> None:
    aware, naive = datetime(1970, 1, 1, 0, 0, 1, 999, tzinfo=UTC), datetime(1970, 1, 1) + timedelta(seconds=2)
    harness = started(run, Timed(lambda time_ms, context: None, aware, naive, 3000))
    harness.operator.process(rows(("a", 0)), 0)
    harness.operator.watermark(3000)
    assert [time for _, time in pairs(harness)] == [1000, 2000, 3000]


class Alarm(sl.ProcessFunction):
    def process(self, row: dict[str, Any], context: sl.ProcessContext) -> None:
        context.set_processing_timer(context.processing_time_ms + row["time"])
        if row["time"] == 7:
            context.delete_processing_timer(context.processing_time_ms + 7)

    def on_timer(self, time_ms: int, context: sl.ProcessContext) -> None:
        assert context.time_domain is TimeDomain.PROCESSING
        context.emit({"user": context.key, "n": time_ms})


def test_timers_of_processing_time(run: Run) -> None:
    harness = started(run, Alarm())
    assert harness.operator.next_wakeup_ms() is None
    harness.operator.process(rows(("a", 5), ("b", 3), ("c", 7)), 0)
    assert harness.operator.next_wakeup_ms() == harness.now_ms + 3
    harness.operator.wakeup(harness.now_ms + 5)
    assert pairs(harness) == [("b", harness.now_ms + 3), ("a", harness.now_ms + 5)]
    harness.operator.wakeup(harness.now_ms + 100)
    assert pairs(harness) == []


class AllKinds(sl.ProcessFunction):
    def open(self, context: sl.ProcessContext) -> None:
        self.times = context.list_state("times", int)
        self.by_time = context.map_state("by time", int, int, ttl=sl.Ttl("1h"))
        self.total = context.reducing_state("total", int, "sum")
        self.longest = context.aggregating_state("longest", Longest(), int)

    def process(self, row: dict[str, Any], context: sl.ProcessContext) -> None:
        for state in (self.times, self.total, self.longest):
            state.add(row["time"])
        self.by_time.put(row["time"], 1 + self.by_time.get(row["time"], 0))
        shown = (self.times.get(), sorted(self.by_time.items()), self.total.get(), self.longest.get())
        context.emit({"user": str(shown), "n": context.subtask + context.parallelism})


class Longest:
    def create(self) -> int:
        return 0

    def add(self, accumulator: int, value: int) -> int:
        return max(accumulator, value)

    def result(self, accumulator: int) -> str:
        return f"<{accumulator}>"


def test_all_kinds_of_state(run: Run) -> None:
    harness = started(run, AllKinds())
    harness.operator.process(rows(("a", 2), ("b", 9), ("a", 2)), 0)
    assert [user for user, _ in pairs(harness)][-1] == "([2, 2], [(2, 2)], 4, '<2>')"


class Plain(sl.ProcessFunction):
    """Calls a function with each row."""

    def __init__(self, call: Callable[[dict[str, Any], sl.ProcessContext], Any], open: Any = None) -> None:
        self._call = call
        self._open = open
        self.is_closed = False

    def open(self, context: sl.ProcessContext) -> None:
        if self._open is not None:
            self._open(context)

    def process(self, row: dict[str, Any], context: sl.ProcessContext) -> None:
        return self._call(row, context)  # type: ignore[no-any-return]

    def close(self) -> None:
        self.is_closed = True


def test_a_stream_without_keys(run: Run) -> None:
    function = Plain(lambda row, context: context.emit({"user": row["user"], "n": row["time"]}))
    harness = started(run, function, FunctionInput((), None), key=None)
    harness.operator.process(rows(("a", 2)), 0)
    harness.operator.watermark(5)
    assert harness.operator.next_wakeup_ms() is None
    assert pairs(harness) == [("a", 2)]
    harness.operator.close()
    assert function.is_closed


def test_many_rows_are_passed_on_in_several_batches(run: Run) -> None:
    def many(row: dict[str, Any], context: sl.ProcessContext) -> None:
        for number in range(7000):
            context.emit({"user": "x", "n": number})

    harness = started(run, Plain(many))
    harness.operator.process(rows(*[("a", 0)] * 3), 0)
    assert [batch.num_rows for batch in harness.emitted] == [14000, 7000]


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (lambda row, context: row, "process 'it': the function gave .*emit rows with context.emit"),
        (lambda row, context: (row for _ in ""), "emit rows with context.emit"),
        (lambda row, context: context.emit_to("lat", {}), "there is no side output 'lat', there is 'late'"),
        (
            lambda row, context: context.emit_to("late", {"x": 1}),
            "process 'it', side output 'late', gave a row without",
        ),
        (lambda row, context: context.emit({"user": "a"}), "process 'it' gave a row without 'n'"),
        (lambda row, context: context.emit(5), "process 'it' gave 5; a row must be a dict"),
        (lambda row, context: row["x"], "process 'it' raised KeyError: 'x'"),
        (lambda row, context: context.set_event_timer("soon"), "'soon' is not a time"),
        (lambda row, context: context.set_event_timer(True), "True is not a time"),
    ],
)
def test_wrong_functions_name_the_operator(run: Run, call: Any, complaint: str) -> None:
    with pytest.raises(UserCodeError, match=complaint):
        started(run, Plain(call)).operator.process(rows(("a", 0)), 0)


@pytest.mark.parametrize(
    ("open", "error", "complaint"),
    [
        (lambda context: context.value_state("n", int), ConfigurationError, r"call key_by\(\) first"),
        (lambda context: context.operator_states, ConfigurationError, "give one: process"),
        (lambda context: context.broadcast_state("n"), ConfigurationError, r"stream.connect\(other.broadcast\(\)\)"),
        (lambda context: 1 / 0, UserCodeError, "process 'it' raised ZeroDivisionError"),
    ],
)
def test_state_that_cannot_be_is_told_when_it_is_declared(run: Run, open: Any, error: Any, complaint: str) -> None:
    with pytest.raises(error, match=complaint):
        started(run, Plain(print, open), FunctionInput((), None), key=None, has_uid=False)


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (lambda row, context: context.key, "there is no key here"),
        (lambda row, context: context.set_processing_timer(0), r"timers belong to keys; call key_by\(\) first"),
        (lambda row, context: context.set_event_timer(0), "an event-time timer in a stream without watermarks"),
        (lambda row, context: context.timestamp_ms, "timestamp_ms is not available here"),
    ],
)
def test_what_is_not_there_is_told(run: Run, call: Any, complaint: str) -> None:
    harness = started(run, Plain(call), FunctionInput((), None), key=None, has_event_time=False)
    with pytest.raises(UserCodeError, match=complaint):
        harness.operator.process(rows(("a", 0)), 0)


def test_a_timer_without_on_timer_is_told(run: Run) -> None:
    harness = started(run, Plain(lambda row, context: context.set_event_timer(5)))
    harness.operator.process(rows(("a", 0)), 0)
    with pytest.raises(
        UserCodeError, match="process 'it': a timer for 5 is due, but the function has no method on_timer"
    ):
        harness.operator.watermark(5)


class Matching(sl.CoProcessFunction):
    """Rows of the second input set the number added to rows of the first."""

    def open(self, context: sl.ProcessContext) -> None:
        self.more = context.value_state("more", int, default=0)

    def process_first(self, row: dict[str, Any], context: sl.ProcessContext) -> None:
        context.emit({"user": context.key, "n": row["time"] + self.more.get()})

    def process_second(self, row: dict[str, Any], context: sl.ProcessContext) -> None:
        assert context.key == row["who"]
        self.more.set(row["more"])


def test_two_keyed_inputs_share_the_state_of_a_key(run: Run) -> None:
    harness = started(run, Matching(), KEYED, FunctionInput(("who",), None))
    harness.operator.process(pa.record_batch({"who": ["b"], "more": [100]}), 1)
    harness.operator.process(rows(("a", 1), ("b", 2)), 0)
    assert pairs(harness) == [("a", 1), ("b", 102)]


class Ruled(sl.CoProcessFunction):
    """Rows of the second input set, for all keys, the least number that passes."""

    def open(self, context: sl.ProcessContext) -> None:
        self.rules = context.broadcast_state("rules", str, int)
        self.count = context.value_state("count", int, default=0)

    def process_first(self, row: dict[str, Any], context: sl.ProcessContext) -> None:
        if row["time"] < 0:
            self.rules.put("least", 0)
        self.count.set(self.count.get() + 1)
        if "least" in self.rules and self.count.get() >= self.rules.get("least"):
            context.emit({"user": row["user"], "n": self.count.get()})

    def process_second(self, row: dict[str, Any], context: sl.ProcessContext) -> None:
        if row["value"] is None:
            self.rules.remove(row["rule"])
        elif row["rule"] == "clear":
            self.rules.clear()
        elif row["rule"] == "touch":
            self.count.set(1)
        else:
            self.rules.put(row["rule"], row["value"])
        assert len(self.rules) == len(self.rules.keys()) == len(list(self.rules)) == len(self.rules.items())


def test_broadcast_state_is_written_by_one_side_and_read_by_the_other(run: Run) -> None:
    harness = started(run, Ruled(), KEYED, FunctionInput((), None, is_broadcast=True))

    def rule(name: str, value: int | None) -> None:
        batch = pa.record_batch({"rule": [name], "value": pa.array([value], pa.int64())})
        harness.operator.process(batch, 1)

    one = rows(("a", 0))
    harness.operator.process(one, 0)
    rule("least", 2)
    harness.operator.process(pa.concat_batches([one, rows(("b", 0))]), 0)
    rule("least", None)
    harness.operator.process(one, 0)
    rule("least", 1)
    rule("clear", 0)
    harness.operator.process(one, 0)
    assert pairs(harness) == [("a", 2)]
    with pytest.raises(UserCodeError, match="broadcast state 'rules' can be written only in process_second"):
        harness.operator.process(rows(("a", -1)), 0)
    with pytest.raises(UserCodeError, match="process 'it': no key is selected"):
        rule("touch", 1)


class Batches(sl.BatchProcessFunction):
    """Sums by user, emitted at the time of the last row."""

    def open(self, context: sl.BatchContext) -> None:
        self.totals = context.reducing_state("totals", int, "sum")

    def process_batch(self, batch: pa.RecordBatch, context: sl.BatchContext) -> None:
        keys = context.keys(batch)
        times = batch.column("time")
        self.totals.add_all(keys, times)
        context.timers.register_all(TimeDomain.EVENT, keys, times)
        context.emit_to("late", pa.record_batch({"n": times.filter(pc.less(times, context.watermark_ms or 0))}))

    def on_timers(self, timers: DueTimers, context: sl.BatchContext) -> None:
        context.emit(pa.record_batch({"user": timers.keys, "n": self.totals.take(timers.rows)}))


def batch_wise(run: Run, function: Any) -> Any:
    operator = ProcessBatches(function, FunctionOutputs(OUT, {"late": LATE}), has_uid=True)
    harness = run(operator, key="string", key_columns=("user",))
    harness.open()
    return harness


def test_a_function_of_batches(run: Run) -> None:
    harness = batch_wise(run, Batches())
    harness.operator.process(rows(("a", 5), ("b", 6), ("a", 7)), 0)
    harness.operator.watermark(6)
    assert pairs(harness) == [("a", 12), ("b", 6)]
    harness.operator.process(rows(("b", 2)), 0)
    harness.operator.watermark(MAX_WATERMARK)
    assert pairs(harness) == [("b", 8), ("a", 12)]
    assert [batch.to_pylist() for _, batch in harness.side_emitted if batch.num_rows] == [[{"n": 2}]]
    assert harness.operator.next_wakeup_ms() is None


class Wrong(sl.BatchProcessFunction):
    def __init__(self, call: Callable[[pa.RecordBatch, sl.BatchContext], None]) -> None:
        self._call = call

    def process_batch(self, batch: pa.RecordBatch, context: sl.BatchContext) -> None:
        self._call(batch, context)


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (lambda batch, context: context.emit(5), "process 'it': 5 was emitted; emit a pyarrow.RecordBatch"),
        (lambda batch, context: context.emit(batch), "process 'it'.* gave a batch without 'n' and with 'time'"),
        (lambda batch, context: context.emit_to("x", batch), "there is no side output 'x', there is 'late'"),
        (lambda batch, context: 1 / 0, "process 'it' raised ZeroDivisionError"),
    ],
)
def test_wrong_functions_of_batches_name_the_operator(run: Run, call: Any, complaint: str) -> None:
    with pytest.raises(UserCodeError, match=complaint):
        batch_wise(run, Wrong(call)).operator.process(rows(("a", 0)), 0)


class Holding(sl.ProcessFunction):
    """Holds rows back until a checkpoint, and remembers how those end."""

    def __init__(self) -> None:
        self.held: list[dict[str, Any]] = []
        self.ends: list[tuple[str, int]] = []

    def open(self, context: sl.ProcessContext) -> None:
        self.total = context.operator_states.list_state("total", int)
        self.count = context.value_state("count", int)

    def process(self, row: dict[str, Any], context: sl.ProcessContext) -> None:
        self.held.append({"user": row["user"], "n": row["time"]})

    def prepare_snapshot(self, checkpoint_id: int, context: sl.ProcessContext) -> None:
        with pytest.raises(Exception, match="key"):
            self.count.get()
        for row in self.held:
            context.emit(row)
        context.emit_to("late", {"n": checkpoint_id})
        self.total.set([sum(self.total) + len(self.held)])
        self.held.clear()

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        self.ends.append(("completed", checkpoint_id))

    def checkpoint_aborted(self, checkpoint_id: int) -> None:
        self.ends.append(("aborted", checkpoint_id))


def test_a_function_takes_part_in_checkpoints(run: Run) -> None:
    function = Holding()
    harness = started(run, function)
    harness.operator.process(rows(("a", 1), ("b", 2)), 0)
    assert pairs(harness) == []
    harness.operator.prepare_snapshot(7)
    assert pairs(harness) == [("a", 1), ("b", 2)]
    assert harness.side_rows("late") == [{"n": 7}]
    assert function.total.get() == [2]
    harness.operator.checkpoint_completed(7)
    harness.operator.checkpoint_aborted(8)
    assert function.ends == [("completed", 7), ("aborted", 8)]


class HoldingBatches(sl.BatchProcessFunction):
    def __init__(self) -> None:
        self.held: list[pa.RecordBatch] = []
        self.ends: list[tuple[str, int]] = []

    def process_batch(self, batch: pa.RecordBatch, context: sl.BatchContext) -> None:
        self.held.append(batch)

    def prepare_snapshot(self, checkpoint_id: int, context: sl.BatchContext) -> None:
        for batch in self.held:
            context.emit(batch.rename_columns(["user", "n"]))

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        self.ends.append(("completed", checkpoint_id))

    def checkpoint_aborted(self, checkpoint_id: int) -> None:
        raise ValueError(f"no {checkpoint_id}")


def test_a_batch_function_takes_part_in_checkpoints_and_its_errors_name_it(run: Run) -> None:
    function = HoldingBatches()
    operator = ProcessBatches(function, FunctionOutputs(OUT, {}), has_uid=True)
    harness = run(operator, key="string", key_columns=("user",))
    harness.open()
    harness.operator.process(rows(("a", 1)), 0)
    harness.operator.prepare_snapshot(7)
    assert pairs(harness) == [("a", 1)]
    harness.operator.checkpoint_completed(7)
    assert function.ends == [("completed", 7)]
    with pytest.raises(UserCodeError, match=r"process 'it'.*no 8"):
        harness.operator.checkpoint_aborted(8)


class Totals(sl.ProcessFunction):
    """Adds up times in every kind of state, and fails for negative ones."""

    def open(self, context: sl.ProcessContext) -> None:
        self.number = context.value_state("number", int, default=0)
        self.entries = context.map_state("entries", int, "a BIGINT, b ARRAY<BIGINT>")
        self.elements = context.list_state("elements", int)

    def process(self, row: dict[str, Any], context: sl.ProcessContext) -> None:
        self.number.set(self.number.get() + row["time"])
        self.entries.put(row["time"], {"a": row["time"], "b": [row["time"]]})
        self.elements.add(row["time"])
        context.set_event_timer(row["time"] + 1_000)
        if row["time"] < 0:
            self.number.set("negative")

    def on_timer(self, time_ms: int, context: sl.ProcessContext) -> None:
        self.elements.clear()
        if time_ms == 1_002:
            raise ValueError("two")


def test_a_function_that_raises_half_way_leaves_nothing_behind(run: Run) -> None:
    function = Totals()
    harness = started(run, function)
    harness.operator.process(rows(("a", 1), ("b", 2)), 0)
    with pytest.raises(UserCodeError, match=r"'negative' is no value of type int64.*'user': 'a', 'time': -1"):
        harness.operator.process(rows(("b", 5), ("a", 7), ("a", -1), ("b", 9)), 0)
    with pytest.raises(UserCodeError, match=r"raised ValueError: two, for the timer at 1002 ms of the key 'b'"):
        harness.operator.watermark(5_000)
    assert function.number.take(["a", "b"]).to_pylist() == [1, 2]
    assert function.elements.take(["a", "b"]).to_pylist() == [[1], [2]]
    assert function.entries.take(["a", "b", "a"], [1, 2, 7]).to_pylist() == [
        {"a": 1, "b": [1]},
        {"a": 2, "b": [2]},
        None,
    ]


def test_rows_of_two_keys_take_turns(run: Run) -> None:
    class Last(sl.ProcessFunction):
        """Emits what the last row of the key was, and of all keys."""

        def open(self, context: sl.ProcessContext) -> None:
            self.mine = context.value_state("mine", int, default=0)
            self.all = 0

        def process(self, row: dict[str, Any], context: sl.ProcessContext) -> None:
            context.emit({"user": f"{row['user']}{self.all}", "n": self.mine.get()})
            self.mine.set(row["time"])
            self.all = row["time"]

    harness = started(run, Last())
    harness.operator.process(rows(("a", 1), ("b", 2), ("a", 3), ("b", 4), ("b", 5)), 0)
    assert pairs(harness) == [("a0", 0), ("b1", 0), ("a2", 1), ("b3", 2), ("b4", 4)]
