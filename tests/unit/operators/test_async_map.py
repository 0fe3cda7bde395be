"""Async map: order, watermarks, capacity, restores, timeouts and retries."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import snapline as sl
from snapline.errors import RestoreError, UserCodeError
from snapline.types import IDLE, MAX_WATERMARK

ROWS = pa.schema([("id", pa.int64())])
Run = Callable[..., Any]
Row = dict[str, Any]


def rows(*ids: int) -> pa.RecordBatch:
    return pa.record_batch({"id": pa.array(ids, pa.int64())})


def asking(function: Any, rows: pa.Schema = ROWS, **options: Any) -> Any:
    stream = sl.Job("calls").source(sl.sources.Generate(lambda start, count: None, schema=rows), "rows")
    answers = stream.async_map(function, **{"schema": ROWS, "backoff": "1ms", **options})
    return answers._inputs[0].node.operator


def started(run: Run, function: Any, *, states: Any = None, **options: Any) -> Any:
    harness = run(asking(function, **options), states=states)
    harness.open()
    return harness


def ids(harness: Any) -> list[int]:
    return [row["id"] for row in harness.rows()]


def read_until(harness: Any, count: int) -> list[int]:
    """Reads mail until `count` rows were emitted."""
    found: list[int] = []
    while len(found) < count:
        harness.read_mail()
        found += ids(harness)
    return found


class Gated:
    """Answers ids in the order in which they are let through."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self._changed = threading.Condition()
        self._open: set[int] = set()

    def let(self, *ids: int) -> None:
        with self._changed:
            self._open.update(ids)
            self._changed.notify_all()

    def wait_for(self, count: int) -> None:
        """Wait until `count` ids were asked for."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.asked) >= count, 10)

    def __call__(self, row: Row) -> Row:
        with self._changed:
            self.asked.append(row["id"])
            self._changed.notify_all()
            assert self._changed.wait_for(lambda: row["id"] in self._open, 10)
        return row


async def doubled(row: Row) -> Any:
    await asyncio.sleep(0)
    if row["id"] == 0:
        return None
    return [{"id": row["id"]}, {"id": row["id"] * 10}] if row["id"] % 2 else {"id": row["id"]}


def test_a_coroutine_gives_a_row_several_or_none(run: Run) -> None:
    harness = started(run, doubled)
    harness.operator.process(rows(0, 1, 2), 0)
    assert read_until(harness, 3) == [1, 10, 2]
    assert not harness.operator.is_busy


def test_a_blocking_function_runs_in_threads_and_order_is_kept(run: Run) -> None:
    gate = Gated()
    harness = started(run, gate)
    harness.operator.process(rows(1, 2, 3), 0)
    gate.wait_for(3)
    gate.let(3)
    harness.read_mail()
    assert ids(harness) == []
    gate.let(1)
    assert read_until(harness, 1) == [1]
    gate.let(2)
    assert read_until(harness, 2) == [2, 3]


def test_without_order_rows_go_on_as_they_come_but_not_past_a_watermark(run: Run) -> None:
    gate = Gated()
    harness = started(run, gate, ordered=False)
    harness.operator.watermark(5)
    assert harness.watermarks == [5]
    harness.operator.process(rows(1, 2), 0)
    harness.operator.watermark(10)
    harness.operator.watermark(11)
    harness.operator.process(rows(3, 4), 0)
    harness.operator.watermark(20)
    gate.wait_for(4)
    gate.let(4)
    harness.read_mail()
    assert ids(harness) == []
    gate.let(2)
    assert read_until(harness, 1) == [2]
    assert harness.watermarks == [5]
    gate.let(1)
    assert read_until(harness, 2) == [1, 4]
    assert harness.watermarks == [5, 11]
    gate.let(3)
    assert read_until(harness, 1) == [3]
    assert harness.watermarks == [5, 11, 20]
    assert harness.operator.makes_watermarks


def test_nobody_is_told_that_it_is_idle_before_its_rows_have_come(run: Run) -> None:
    gate = Gated()
    harness = started(run, gate)
    assert harness.operator.idle()
    harness.operator.process(rows(1), 0)
    harness.operator.watermark(10)
    assert not harness.operator.idle()
    harness.operator.process(rows(2), 0)
    gate.let(1)
    assert read_until(harness, 1) == [1]
    assert harness.watermarks == [10, IDLE]
    assert not harness.operator.idle()
    harness.operator.watermark(11)
    gate.let(2)
    assert read_until(harness, 1) == [2]
    assert harness.watermarks == [10, IDLE, 11], "who speaks again is not idle"


def test_no_more_are_asked_at_a_time_than_may_be(run: Run) -> None:
    gate = Gated()
    harness = started(run, gate, capacity=2)
    assert not harness.operator.is_full
    harness.operator.process(rows(1, 2, 3), 0)
    assert harness.operator.is_full
    gate.wait_for(2)
    assert sorted(gate.asked) == [1, 2]
    gate.let(1, 2, 3)
    assert read_until(harness, 3) == [1, 2, 3]
    assert not harness.operator.is_full


def test_the_end_waits_for_all_answers(run: Run) -> None:
    gate = Gated()
    harness = started(run, gate)
    harness.operator.process(rows(1, 2), 0)
    assert harness.operator.is_busy
    gate.let(1, 2)
    harness.operator.watermark(MAX_WATERMARK)
    assert ids(harness) == [1, 2]
    assert harness.watermarks == []
    harness.operator.finish()


def test_what_is_not_passed_on_is_state_and_asked_for_again(run: Run) -> None:
    gate = Gated()
    harness = started(run, gate, capacity=2)
    harness.operator.process(rows(1, 2), 0)
    harness.operator.process(rows(3), 0)
    gate.wait_for(2)
    gate.let(1, 2)
    read_until(harness, 2)
    gate.wait_for(3)
    harness.operator.process(rows(*range(4, 104)), 0)
    harness.operator.snapshot(1)
    kept = [pa.ipc.open_stream(piece).read_all() for piece in harness.elements("requests")]
    assert [row["id"] for table in kept for row in table.to_pylist()] == list(range(3, 104))
    assert [table.num_rows for table in kept] == [64, 37]

    async def same(row: Row) -> Row:
        return row

    again = started(run, same, states=harness.states)
    assert read_until(again, 101) == list(range(3, 104))
    again.operator.snapshot(2)
    assert again.elements("requests") == []
    gate.let(*range(3, 104))


def test_restored_rows_of_other_columns_are_refused(run: Run) -> None:
    gate = Gated()
    harness = started(run, gate)
    harness.operator.process(rows(1), 0)
    harness.operator.snapshot(1)
    gate.let(1)
    other = asking(gate, pa.schema([("number", pa.int64())]), timeout="1s", capacity=1)
    with pytest.raises(RestoreError, match="async_map 'it' was saved with pending rows of other columns"):
        run(other, states=harness.states).open()


async def never(row: Row) -> Row:
    await asyncio.sleep(3600)
    return row


def test_a_row_without_an_answer_in_time_fails_the_job(run: Run) -> None:
    harness = started(run, never, timeout="5ms")
    harness.operator.process(rows(7), 0)
    with pytest.raises(
        UserCodeError, match=r"async_map 'it': no answer within 0.005 s.*on_timeout=, for the row \{'id': 7\}"
    ):
        harness.read_mail()


def test_or_something_else_comes_out_for_it(run: Run) -> None:
    harness = started(run, never, timeout="5ms", on_timeout=lambda row: {"id": -row["id"]})
    harness.operator.process(rows(7, 8), 0)
    assert read_until(harness, 2) == [-7, -8]
    harness = started(run, never, timeout="5ms", on_timeout=lambda row: 1 / 0)
    harness.operator.process(rows(7), 0)
    with pytest.raises(UserCodeError, match="async_map 'it', on_timeout, raised ZeroDivisionError"):
        harness.read_mail()


class Unwilling:
    """Fails a number of times for each id, and changes the row it gets."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.asked: list[int] = []

    async def __call__(self, row: Row) -> Row:
        id = row.pop("id")
        self.asked.append(id)
        if self.asked.count(id) <= self.failures:
            raise TimeoutError("not now")
        return {"id": id}


def test_errors_are_tried_again(run: Run) -> None:
    function = Unwilling(2)
    harness = started(run, function, retries=2)
    harness.operator.process(rows(1, 2), 0)
    assert read_until(harness, 2) == [1, 2]
    assert len(function.asked) == 6
    harness = started(run, Unwilling(3), retries=2)
    harness.operator.process(rows(1), 0)
    with pytest.raises(UserCodeError, match="async_map 'it' raised TimeoutError: not now, for the row"):
        harness.read_mail()


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        (5, "async_map 'it' gave 5; it must return a row"),
        ("text", "gave 'text'; it must"),
        ([5], "async_map 'it' gave 5; a row must be a dict"),
        ({"x": 1}, "gave a row without 'id' and with 'x'"),
    ],
)
def test_wrong_answers_name_the_operator(run: Run, given: Any, complaint: str) -> None:
    harness = started(run, lambda row: given)
    harness.operator.process(rows(1), 0)
    with pytest.raises(UserCodeError, match=complaint):
        harness.read_mail()


class Client(sl.AsyncFunction):
    """Opens a connection on the event loop that calls `ask`."""

    def __init__(self, *, fails: bool = False) -> None:
        self.events: list[str] = []
        self._fails = fails

    async def open(self) -> None:
        self.events.append("open")
        self.loop = asyncio.get_running_loop()
        if self._fails:
            raise OSError("nobody there")

    async def ask(self, row: Row) -> Row:
        assert asyncio.get_running_loop() is self.loop
        return {"id": row["id"] + 1}

    async def close(self) -> None:
        self.events.append("close")


def test_a_function_that_is_opened_and_closed(run: Run) -> None:
    client = Client()
    harness = started(run, client)
    harness.operator.process(rows(1), 0)
    assert read_until(harness, 1) == [2]
    harness.operator.close()
    assert client.events == ["open", "close"]
    with pytest.raises(UserCodeError, match="async_map 'it' raised OSError: nobody there"):
        started(run, Client(fails=True))


def test_closing_breaks_off_what_is_asked_and_leaves_no_thread(run: Run) -> None:
    before = set(threading.enumerate())
    harness = started(run, never)
    harness.operator.process(rows(1, 2), 0)
    started_s = time.monotonic()
    harness.operator.close()
    assert time.monotonic() - started_s < 5
    assert set(threading.enumerate()) <= before
    asking(never).close()


def letters(harness: Any) -> list[int]:
    return [json.loads(letter["row"])["id"] for letter in harness.side_rows("dead_letters")]


def odd(row: Row) -> Any:
    number = row.pop("id")  # a function may change its row
    if number % 2 == 0:
        raise ValueError(f"{number} is even")
    return [{"id": number}, {"id": "text" if number == 7 else -number}]


@pytest.mark.parametrize("ordered", [True, False])
def test_rows_without_an_answer_that_fits_go_aside(run: Run, ordered: bool) -> None:
    harness = started(run, odd, ordered=ordered, on_error="dead_letter", retries=1)
    harness.operator.process(rows(1, 2, 3, 7, 8), 0)
    while harness.operator.is_busy:
        harness.read_mail()
    assert sorted(ids(harness)) == [-3, -1, 1, 3]
    assert sorted(letters(harness)) == [2, 7, 8]
    assert harness.operator.bad_rows == 3


def test_a_row_without_an_answer_in_time_goes_aside(run: Run) -> None:
    harness = started(run, never, timeout="5ms", on_error="dead_letter")
    harness.operator.process(rows(7), 0)
    while harness.operator.is_busy:
        harness.read_mail()
    (letter,) = harness.side_rows("dead_letters")
    assert (letter["row"], letter["error_type"]) == ('{"id":7}', "UserCodeError")
    assert "no answer within 0.005 s" in letter["error"]


def test_a_dead_letter_waits_for_the_rows_before_it_so_that_a_restart_does_not_repeat_it(run: Run) -> None:
    gate = Gated()

    def asked(row: Row) -> Row:
        if row["id"] == 2:
            raise ValueError("two")
        return gate(row)

    harness = started(run, asked, on_error="dead_letter")
    harness.operator.process(rows(1, 2), 0)
    harness.read_mail()  # the error
    assert letters(harness) == []
    harness.operator.snapshot(1)
    again = started(run, asked, states=harness.states, on_error="dead_letter")
    gate.let(1)
    while again.operator.is_busy:
        again.read_mail()
    assert (ids(again), letters(again)) == ([1], [2])
