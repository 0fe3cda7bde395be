"""The harness runs one operator by hand."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

import snapline as sl
from snapline.errors import ConfigurationError, UserCodeError
from snapline.state.stable_hash import NullKeyError
from snapline.testing import ManualClock, OperatorHarness

SCHEMA = "user STRING, time BIGINT"


class Reminder(sl.ProcessFunction):
    """Counts the rows of a key and emits the count one second after the first row, by either clock."""

    def __init__(self, clock: str) -> None:
        self._clock = clock

    def open(self, context: sl.ProcessContext) -> None:
        self.count = context.value_state("count", int, default=0, ttl="1h")

    def process(self, row: dict[str, Any], context: sl.ProcessContext) -> None:
        if self.count.get() == 0 and self._clock == "event":
            context.set_event_timer(row["time"] + 1000)
        elif self.count.get() == 0:
            context.set_processing_timer(context.processing_time_ms + 1000)
        self.count.set(self.count.get() + 1)

    def on_timer(self, timestamp_ms: int, context: sl.ProcessContext) -> None:
        context.emit({"user": context.key, "n": self.count.get()})
        context.emit_to("times", {"at": timestamp_ms})
        self.count.clear()


def rows() -> sl.Stream:
    return sl.Job("test").source(sl.sources.Iterator([], schema=SCHEMA), "clicks", watermarks=sl.Watermarks("time"))


def reminded(clock: str) -> sl.Stream:
    return (
        rows()
        .key_by("user")
        .process(Reminder(clock), schema="user STRING, n BIGINT", side_outputs={"times": "at BIGINT"}, uid="reminder")
    )


def click(user: str, time: int) -> dict[str, Any]:
    return {"user": user, "time": time}


def test_windows_and_late_rows() -> None:
    windows = rows().key_by("user").window(sl.Tumbling("10s")).late_output("late")
    with OperatorHarness.of(windows.aggregate(uid="counts", n=sl.count())) as it:
        it.process([click("ann", 1000), click("bob", 12_000)])
        it.watermark(9_998)
        assert it.rows() == []
        it.watermark(datetime(1970, 1, 1, 0, 0, 10, tzinfo=UTC))
        assert it.rows() == [{"user": "ann", "window_start": 0, "window_end": 10_000, "n": 1}]
        it.process([click("ann", 2000)])
        assert it.side_rows("late") == [click("ann", 2000)]
        assert it.side_rows("late") == []
        it.end()
        assert [row["user"] for row in it.rows()] == ["bob"]


def test_timers_of_event_time_survive_a_restart() -> None:
    with OperatorHarness.of(reminded("event")) as it:
        it.process([click("ann", 500), click("ann", 600)])
        it.restart()
        it.watermark(1499)
        assert it.rows() == []
        it.restart(reminded("event"))
        it.process([click("ann", 700)])
        it.watermark(1500)
        assert it.rows() == [{"user": "ann", "n": 3}]
        assert it.side_rows("times") == [{"at": 1500}]


def test_timers_of_processing_time_and_state_that_ends() -> None:
    with OperatorHarness.of(reminded("processing")) as it:
        it.process([click("ann", 0)])
        it.advance("999ms")
        assert it.rows() == []
        it.advance("2h")
        assert it.rows() == [{"user": "ann", "n": 1}]
        assert it.side_rows("times") == [{"at": it.now_ms - 2 * 3_600_000 + 1}]


def test_answers_from_elsewhere_are_waited_for() -> None:
    async def asked(row: dict[str, Any]) -> dict[str, Any]:
        return {"user": row["user"].upper()}

    with OperatorHarness.of(rows().async_map(asked, schema="user STRING", uid="asked")) as it:
        it.process([click("ann", 0), click("bob", 1)])
        assert it.rows() == [{"user": "ANN"}, {"user": "BOB"}]


def test_harnesses_share_a_clock() -> None:
    clock = ManualClock(5_000)
    one, two = (OperatorHarness.of(reminded("processing"), clock=clock) for _ in range(2))
    with one, two:
        one.process([click("ann", 0)])
        two.process([click("bob", 0)])
        one.advance("1s")
        assert (one.rows(), two.rows()) == ([{"user": "ann", "n": 1}], [])
        two.advance("0s")
        assert two.rows() == [{"user": "bob", "n": 1}]
    assert (clock(), one.now_ms) == (6_000, 6_000)


def test_two_inputs() -> None:
    job = sl.Job("test")
    left, right = (job.source(sl.sources.Iterator([], schema=SCHEMA), name).key_by("user") for name in "ab")
    with OperatorHarness.of(left.join(right, uid="joined")) as it:
        it.process([click("ann", 1)], 0)
        it.process(pa.table({"user": ["ann"], "time": [2]}), 1)
        assert it.rows() == [{"user": "ann", "time": 1, "time_right": 2}]
        with pytest.raises(ConfigurationError, match="join 'joined' has no input 2"):
            it.process([], 2)


def test_mistakes_of_a_test_are_reported() -> None:
    with OperatorHarness.of(reminded("event")) as it:
        with pytest.raises(UserCodeError, match="the test gave a row without 'time'"):
            it.process([{"user": "ann"}])
        with pytest.raises(NullKeyError, match="process 'reminder': the key column 'user' has nulls"):
            it.process([{"user": None, "time": 1}])
    with pytest.raises(ConfigurationError, match="a source has no input"):
        OperatorHarness.of(rows())
    with pytest.raises(ConfigurationError, match="give the stream that one operator emits"):
        OperatorHarness.of(rows().key_by("user"))  # type: ignore[arg-type]
    operator = reminded("event")._inputs[0].node.operator
    assert isinstance(operator, sl.Operator)
    with pytest.raises(ConfigurationError, match=r"made by OperatorHarness\.of"):
        OperatorHarness(operator).restart()
