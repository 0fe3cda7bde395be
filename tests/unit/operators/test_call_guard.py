"""Row functions with on_error: calls that fail emit nothing, and the others are not disturbed."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

import snapline as sl
from snapline.errors import UserCodeError
from snapline.operators.call_guard import check_result, fitting_rows, for_timer, output_text
from snapline.testing.operator_harness import OperatorHarness

Row = dict[str, Any]
ROWS = "user STRING, time BIGINT, n BIGINT"


class Halves(sl.ProcessFunction):
    """Counts the rows of a user, sets a timer, and emits before it looks whether n is even."""

    def open(self, context: sl.ProcessContext) -> None:
        self.count = context.value_state("count", int, default=0)

    def process(self, row: Row, context: sl.ProcessContext) -> None:
        self.count.set(self.count.get() + 1)
        context.emit({"user": row["user"], "half": row["n"] // 2})
        context.emit_to("seen", {"n": row["n"]})
        row["n"] = -row["n"]  # a function may change its row
        if row["n"] % 2:
            raise ValueError(f"{-row['n']} is odd")
        if row["n"] == -100:
            context.emit({"user": 5, "half": 50})
        if row["n"] == -200:
            context.emit_to("seen", {"n": "many"})
        context.set_event_timer(row["time"])

    def on_timer(self, time_ms: int, context: sl.ProcessContext) -> None:
        context.emit({"user": context.key, "half": -self.count.get()})
        if time_ms % 2:
            raise ValueError("an odd time")


def harness(on_error: str, function: Any = None, *, keyed: bool = True) -> OperatorHarness:
    source = sl.sources.Iterator([], schema=ROWS)
    rows = sl.Job("test").source(source, "rows", watermarks=sl.Watermarks("time"))
    stream: Any = rows.key_by("user") if keyed else rows
    return OperatorHarness.of(
        stream.process(
            Halves() if function is None else function,
            schema="user STRING, half BIGINT",
            side_outputs={"seen": "n BIGINT"},
            on_error=on_error,
            uid="halves",
        )
    )


def rows(*numbers: int, user: str = "ann") -> list[Row]:
    return [{"user": user, "time": 2 * number, "n": number} for number in numbers]


def letters(it: OperatorHarness) -> list[tuple[Any, str]]:
    return [(json.loads(row["row"]), row["error"]) for row in it.side_rows("dead_letters")]


@pytest.mark.parametrize("repeats", [1, 40])  # more than 64 rows use a cache of states
def test_a_call_that_fails_emits_nothing_and_its_row_goes_aside(repeats: int) -> None:
    with harness("dead_letter") as it:
        it.process(rows(2, 3, 4, 100, 200, 6) * repeats)
        assert [row["half"] for row in it.rows()] == [1, 2, 3] * repeats
        assert [row["n"] for row in it.side_rows("seen")] == [2, 4, 6] * repeats
        found = letters(it)
        assert [(row["n"], row["time"]) for row, _ in found if row["n"] == 3] == [(3, 6)] * repeats
        assert sorted(row["n"] for row, _ in found) == sorted([3, 100, 200] * repeats)
        assert ({"user": "ann", "time": 6, "n": 3}, "3 is odd") in found
        texts = {row["n"]: error for row, error in found}
        assert "process 'halves' gave the column 'user' other values than its schema says" in texts[100]
        assert "process 'halves', side output 'seen', gave the column 'n' other values" in texts[200]
        # State that was changed before the error stays changed.
        it.watermark(5)
        assert [row["half"] for row in it.rows()] == [-6 * repeats]
        assert it.operator.bad_rows == 3 * repeats


def test_timers_that_fail_go_aside_with_their_key() -> None:
    with harness("dead_letter") as it:
        it.process([{"user": "ann", "time": 7, "n": 2}, {"user": "bob", "time": 8, "n": 2}])
        it.rows()
        it.watermark(10)
        assert it.rows() == [{"user": "bob", "half": -1}]
        assert letters(it) == [({"timer_ms": 7, "key": "ann"}, "an odd time")]


def test_rows_can_be_dropped_and_functions_without_keys_work_alike() -> None:
    class Strict(sl.ProcessFunction):
        def process(self, row: Row, context: sl.ProcessContext) -> Any:
            context.emit({"user": row["user"], "half": row["n"] // 2})
            return row["n"] % 2 or None

    with harness("drop", Strict(), keyed=False) as it:
        it.process(rows(1, 2, 3, 4))
        assert [row["half"] for row in it.rows()] == [1, 2]
        assert it.side_emitted == []
        assert it.operator.bad_rows == 2
        assert it.operator.last_bad_row == (
            "process 'halves': the function gave 1; emit rows with context.emit(row), for the row {'user': 'ann', "
            "'time': 6, 'n': 3}"
        )


def test_by_default_the_job_fails_with_the_row_or_the_timer() -> None:
    with harness("fail") as it, pytest.raises(UserCodeError, match=r"3 is odd, for the row \{'user': 'ann', 'time': 6"):
        it.process(rows(2, 3))
    with harness("fail") as it:
        it.process([{"user": "ann", "time": 7, "n": 2}])
        with pytest.raises(UserCodeError, match="an odd time, for the timer at 7 ms of the key 'ann'"):
            it.watermark(10)
    with harness("fail") as it, pytest.raises(UserCodeError, match=r"int64: .*, in the row \{'n': 'many'\}"):
        it.process(rows(200))


def test_both_inputs_of_a_function_are_guarded() -> None:
    class Both(sl.CoProcessFunction):
        def process_first(self, row: Row, context: sl.ProcessContext) -> None:
            context.emit({"x": 10 // row["a"]})

        def process_second(self, row: Row, context: sl.ProcessContext) -> None:
            context.emit({"x": 20 // row["b"]})

    job = sl.Job("test")
    first = job.source(sl.sources.Iterator([], schema="a BIGINT"), "a")
    second = job.source(sl.sources.Iterator([], schema="b BIGINT"), "b")
    made = (
        first.key_by("a")
        .connect(second.key_by("b"))
        .process(Both(), schema="x BIGINT", on_error="dead_letter", uid="both")
    )
    with OperatorHarness.of(made) as it:
        it.process([{"a": 0}, {"a": 5}])
        it.process([{"b": 5}, {"b": 0}], 1)
        assert [row["x"] for row in it.rows()] == [2, 4]
        assert [row for row, _ in letters(it)] == [{"a": 0}, {"b": 0}]


def test_texts_of_messages() -> None:
    check_result(None)
    with pytest.raises(UserCodeError, match=r"the function gave \[1\]; emit rows with context.emit"):
        check_result([1])
    assert output_text("process 'it'", "") == "process 'it'"
    assert output_text("process 'it'", "late") == "process 'it', side output 'late',"
    assert for_timer(5, "ann") == ", for the timer at 5 ms of the key 'ann'"


def test_emitted_rows_are_a_batch_or_the_one_that_is_none_is_named() -> None:
    schema = pa.schema([("n", pa.int64())])
    assert fitting_rows([{"n": 1}, {"n": 2}], schema, "it").to_pylist() == [{"n": 1}, {"n": 2}]
    with pytest.raises(UserCodeError, match=r"in the row \{'n': 1.5\}"):
        fitting_rows([{"n": 1}, {"n": 1.5}, {"n": 3}], schema, "it")
    with pytest.raises(UserCodeError, match="gave 5; a row must be a dict"):
        fitting_rows([5], schema, "it")
