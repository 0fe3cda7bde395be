"""A processor as an operator: restores, timers, lateness, and wrong arguments."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# ruff: noqa: N803  # the names are PySpark's
from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from tests.unit.spark.stateful import processors as p
from tests.unit.spark.stateful.processor_kit import COUNTS, PAIRS, Case, Subject, events

from snapline.errors import UserCodeError
from snapline.types import MAX_WATERMARK


def test_state_of_an_older_version_is_deleted() -> None:
    class Old(p.RunningCount):
        def init(self, handle) -> None:
            super().init(handle)
            self.old = handle.getValueState("old", "word STRING")

        def handleInputRows(self, key, rows, timerValues) -> Iterator[Row]:
            self.old.update(("x",))
            return super().handleInputRows(key, rows, timerValues)

    class Newer(p.WithoutOld):
        def init(self, handle) -> None:
            super().init(handle)
            self.old = handle.getValueState("old", "n BIGINT")  # of another type, which it could not be read as

        def handleInputRows(self, key, rows, timerValues) -> Iterator[Row]:
            assert not self.old.exists()
            return super().handleInputRows(key, rows, timerValues)

    subject = Subject(Case(Old, COUNTS, []))
    subject.step(events("a", "b", "a"))
    subject.restore(Newer())
    assert subject.step(events("a")) == [{"user": "a", "n": 3}]


def test_the_initial_state_of_a_key_is_used_once() -> None:
    case = Case(p.RunningCount, COUNTS, [], initial={"a": [10], "b": [20]})
    subject = Subject(case)
    assert subject.step(events("a")) == [{"user": "a", "n": 11}]
    case.initial["c"] = [30]  # a newer version of the job knows of one more
    subject.restore()
    assert subject.step(events("a", "b", "c")) == [{"user": u, "n": n} for u, n in (("a", 12), ("b", 21), ("c", 31))]


def test_timers_of_event_time_fire_at_the_end_of_the_input_and_a_periodic_one_stops() -> None:
    subject = Subject(Case(p.Downtime, PAIRS, [], "event_time"))
    subject.step(events("a@1000", "b@5000"))
    subject.step(2_000)
    rows = subject.step(MAX_WATERMARK)
    assert rows == [{"user": "a", "n": 10_000, "m": 11_000}, {"user": "b", "n": 10_000, "m": 15_000}]


def test_timers_that_are_due_fire_without_rows() -> None:
    subject = Subject(Case(p.Session, PAIRS, [], "processing_time"))
    operator = subject.harness.operator
    assert operator.next_wakeup_ms() is None
    subject.step(events("a"))
    assert operator.next_wakeup_ms() == 10_000
    assert subject.step(10_000) == [{"user": "a", "n": 1, "m": 10_000}]
    assert operator.next_wakeup_ms() is None


def test_late_rows_stay_late_after_a_restore_and_rows_without_a_time_are_never_late() -> None:
    subject = Subject(Case(p.RunningCount, COUNTS, [], "event_time"))
    assert subject.step(5_000) == []
    subject.restore()
    rows = events("a@5000", "a@5001", "b@4999", "c@1")
    rows[3]["ts"] = None
    assert subject.step(rows) == [{"user": "a", "n": 1}, {"user": "c", "n": 1}]


def test_late_rows_are_counted() -> None:
    subject = Subject(Case(p.RunningCount, COUNTS, [], "event_time"))
    subject.step(5_000)
    subject.step(events("a@5000", "a@4000", "a@5001"))
    assert subject.harness.operator.late_rows == 2


class _Ticking(StatefulProcessor):
    """Counts the rows of a key, and clears the count a millisecond after each batch."""

    def init(self, handle) -> None:
        self.handle = handle
        self.count = handle.getValueState("count", "n BIGINT")

    def handleInputRows(self, key, rows, timerValues) -> Iterator[Row]:
        count = (self.count.get() or (0,))[0] + len(list(rows))
        self.count.update((count,))
        self.handle.registerTimer(timerValues.getCurrentProcessingTimeInMs() + 1)
        yield Row(user=key[0], n=count, m=timerValues.getCurrentProcessingTimeInMs())

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo) -> Iterator[Row]:
        self.count.clear()
        yield Row(user=key[0], n=-1, m=expiredTimerInfo.getExpiryTimeInMs())


def test_with_micro_batches_timers_wait_for_rows_and_fire_after_them() -> None:
    subject = Subject(Case(_Ticking, PAIRS, [], "processing_time", options={"micro_batches": True}))
    assert subject.barrier(events("a")) == [{"user": "a", "n": 1, "m": 0}]
    assert subject.harness.operator.next_wakeup_ms() is None
    assert subject.step(50) == []
    assert subject.barrier(events("a"), events("a")) == [{"user": "a", "n": 3, "m": 50}, {"user": "a", "n": -1, "m": 1}]
    subject.step(60)
    assert subject.barrier(events("b")) == [{"user": "b", "n": 1, "m": 60}, {"user": "a", "n": -1, "m": 51}]


def test_with_micro_batches_timers_fire_in_batches_without_rows() -> None:
    subject = Subject(Case(_Ticking, PAIRS, [], "processing_time", options={"micro_batches": True}))
    subject.barrier(events("a"))
    assert subject.barrier() == []
    subject.step(1)
    assert subject.barrier() == [{"user": "a", "n": -1, "m": 1}]


def test_with_micro_batches_the_rows_left_at_the_end_are_handled() -> None:
    subject = Subject(Case(p.RunningCount, COUNTS, [], "event_time", options={"micro_batches": True}))
    subject.step(events("a@1"))
    subject.harness.operator.watermark(MAX_WATERMARK)
    assert subject.harness.rows() == [{"user": "a", "n": 1}]


def test_without_micro_batches_timers_fire_when_they_are_due() -> None:
    subject = Subject(Case(_Ticking, PAIRS, [], "processing_time"))
    subject.step(events("a"))
    assert subject.step(50) == [{"user": "a", "n": -1, "m": 1}]
    assert subject.step(events("a", "a")) == [{"user": "a", "n": 2, "m": 50}]


def test_with_micro_batches_rows_are_late_by_the_watermark_of_the_batch_before() -> None:
    subject = Subject(Case(p.RunningCount, COUNTS, [], "event_time", options={"micro_batches": True}))
    assert subject.barrier(events("a@20000")) == [{"user": "a", "n": 1}]
    subject.step(10_000)
    assert subject.barrier(events("a@4000")) == [{"user": "a", "n": 2}]
    assert subject.barrier(events("a@4000", "a@10000", "a@10001")) == [{"user": "a", "n": 3}]


TIMED = pa.schema([("user", pa.string()), ("at", pa.timestamp("us", tz="UTC"))])


class _Echo(StatefulProcessor):
    """Emits the time of each row, or what a timer says."""

    def __init__(self, offset_ms: int = 0) -> None:
        self._offset_ms = offset_ms

    def init(self, handle) -> None:
        self.handle = handle

    def handleInputRows(self, key, rows, timerValues) -> Iterator[Row]:
        for row in rows:
            self.handle.registerTimer(row.ms + 1_000)
            yield Row(user=key[0], at=self._time(row.ms))

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo) -> Iterator[Row]:
        yield Row(user=key[0], at=self._time(expiredTimerInfo.getExpiryTimeInMs()))

    def _time(self, ms: int) -> datetime.datetime:
        return datetime.datetime.fromtimestamp((ms + self._offset_ms) / 1000, datetime.UTC)


def test_rows_with_event_time_may_not_be_older_than_the_watermark() -> None:
    case = Case(_Echo, TIMED, [], "event_time", options={"event_time_column": "at"})
    subject = Subject(case)
    assert [row["at"].timestamp() for row in subject.step(events("a@1"))] == [0.001]
    subject.step(5_000)
    assert [row["at"].timestamp() for row in subject.step(events("a@6000"))] == [6.0]
    # A timer that the watermark has reached may still emit its own time: the watermark follows behind it.
    assert [row["at"].timestamp() for row in subject.step(9_000)] == [7.0]
    older = Subject(case, _Echo(-2_000))
    older.step(5_000)
    with pytest.raises(UserCodeError, match=r"EMITTING_ROWS_OLDER_THAN_WATERMARK_NOT_ALLOWED.*5000 ms"):
        older.step(events("a@6000"))


def test_processors_are_closed_once_and_only_if_they_were_opened() -> None:
    closed: list[int] = []

    class Closing(p.RunningCount):
        def close(self) -> None:
            closed.append(1)

    subject = Subject(Case(Closing, COUNTS, []))
    subject.harness.operator.close()
    subject.harness.operator.close()
    assert closed == [1]


def test_an_error_names_the_method_and_the_key() -> None:
    class Failing(p.RunningCount):
        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
            yield from super().handleInputRows(key, rows, timerValues)
            raise ValueError("no luck")

    subject = Subject(Case(Failing, COUNTS, []))
    with pytest.raises(UserCodeError, match=r"handleInputRows of .* raised ValueError: no luck, for the key \('a',\)"):
        subject.step(events("a"))
