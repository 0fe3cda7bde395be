"""Bad rows: raised with the row, or counted and dropped or sent aside."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from snapline.contracts.dead_letters import DEAD_LETTER_SCHEMA, OnError
from snapline.contracts.operator import Operator
from snapline.errors import StorageError, TransientError, UserCodeError
from snapline.operators.bad_rows import BadRows, row_at_fault

BATCH = pa.record_batch({"n": [1, 2, 0, 4]})
Run = Callable[..., Any]


class Nothing(Operator):
    def process(self, batch: pa.RecordBatch, input_index: int) -> None: ...


def bad_rows(run: Run, on_error: OnError) -> tuple[BadRows, Any]:
    harness = run(Nothing())
    harness.open()
    return BadRows(harness.operator, harness.context, "map 'it'", on_error), harness


def test_a_bad_row_fails_the_job_with_the_row(run: Run) -> None:
    bad, harness = bad_rows(run, OnError.FAIL)
    assert bad.may_fail
    with pytest.raises(UserCodeError, match=r"map 'it' raised ValueError: no luck, for the row \{'n': 5\}") as caught:
        bad.take(ValueError("no luck"), {"n": 5})
    assert isinstance(caught.value.__cause__, ValueError)
    with pytest.raises(UserCodeError, match=r"^map 'it' gave nothing, for the row \{'n': 5\}$"):
        bad.take(UserCodeError("map 'it' gave nothing"), {"n": 5})
    assert harness.operator.bad_rows == 0


def test_a_dead_letter_says_what_happened_to_which_row_and_when(run: Run) -> None:
    bad, harness = bad_rows(run, OnError.DEAD_LETTER)
    harness.now_ms = 1_700_000_000_000
    bad.take(ValueError("no luck\nat all"), {"n": 5})
    bad.take(KeyError("k"), None, text="a,b", file="x.csv", line=3)
    assert harness.side_emitted == []
    bad.flush()
    bad.flush()
    ((_, batch),) = harness.side_emitted
    assert batch.schema == DEAD_LETTER_SCHEMA
    first, second = harness.side_rows("dead_letters")
    assert json.loads(first.pop("row")) == {"n": 5}
    assert first == {
        "operator": "it",
        "error_type": "ValueError",
        "error": "no luck\nat all",
        "time": datetime.fromtimestamp(1_700_000_000, UTC),
        "file": None,
        "line": None,
    }
    assert (second["row"], second["file"], second["line"]) == ("a,b", "x.csv", 3)
    assert harness.operator.bad_rows == 2
    assert harness.operator.last_bad_row == "map 'it' raised KeyError: 'k'"


def test_dropped_rows_are_counted_and_reported_at_growing_intervals(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    bad, harness = bad_rows(run, OnError.DROP)
    with caplog.at_level(logging.WARNING):
        for number in range(25):
            bad.take(ValueError("no luck"), {"n": number})
    bad.flush()
    assert harness.side_emitted == []
    assert harness.operator.bad_rows == 25
    assert [record.getMessage() for record in caplog.records] == [
        "bad rows so far: 1, and the last one is dropped: map 'it' raised ValueError: no luck, for the row {'n': 0}",
        "bad rows so far: 10, and the last one is dropped: map 'it' raised ValueError: no luck, for the row {'n': 9}",
    ]


@pytest.mark.parametrize("on_error", [OnError.DEAD_LETTER, OnError.DROP])
def test_errors_that_no_row_can_be_blamed_for_fail_the_job(run: Run, on_error: OnError) -> None:
    bad, harness = bad_rows(run, on_error)
    with pytest.raises(StorageError, match="no network"):
        bad.take(StorageError("no network"), {"n": 5})
    with pytest.raises(TransientError, match=r"map 'it': the service is down, for the row \{'n': 5\}"):
        bad.take(TransientError("the service is down"), {"n": 5})
    with pytest.raises(UserCodeError, match="raised MemoryError"):
        bad.take(MemoryError(), {"n": 5})
    assert harness.operator.bad_rows == 0


def test_each_row_is_called_for_once_whatever_others_raise(run: Run) -> None:
    bad, harness = bad_rows(run, OnError.DEAD_LETTER)
    seen: list[int] = []

    def divided(row: dict[str, Any]) -> float:
        seen.append(row["n"])
        value: int = row.pop("n")  # a function may change the row it is given
        return 1 / value

    assert bad.each(divided, BATCH) == ([1.0, 0.5, None, 0.25], {2})
    assert seen == [1, 2, 0, 4]
    bad.flush()
    assert [json.loads(row["row"]) for row in harness.side_rows("dead_letters")] == [{"n": 0}]
    assert bad.each(divided, BATCH.slice(0, 0)) == ([], set())


@pytest.mark.parametrize("place", range(4))
def test_stop_iteration_is_an_error_like_any_other(run: Run, place: int) -> None:
    """To `map`, it is the end of the rows: the rest of the batch would be lost in silence."""

    def stopped(row: dict[str, Any]) -> int:
        value: int = row["n"]
        return next(iter([])) if value == BATCH["n"][place].as_py() else value

    bad, _ = bad_rows(run, OnError.DROP)
    made, failed = bad.each(stopped, BATCH)
    assert failed == {place}
    assert [value for value in made if value is not None] == [n for n in [1, 2, 0, 4] if n != BATCH["n"][place].as_py()]
    failing, _ = bad_rows(run, OnError.FAIL)
    with pytest.raises(UserCodeError, match=r"map 'it' raised StopIteration, for the row \{'n': "):
        failing.each(stopped, BATCH)


def test_results_that_do_not_fit_are_those_of_the_rows_they_were_made_of(run: Run) -> None:
    schema = pa.schema([("n", pa.int64())])
    bad, harness = bad_rows(run, OnError.DEAD_LETTER)
    made = [{"n": 1}, {"n": "x"}, {"n": 3}, {"m": 4}]
    batches = bad.fitting(made, schema, lambda number: {"row": number})
    assert [row["n"] for batch in batches for row in batch.to_pylist()] == [1, 3]
    # With several results for a row, all of them are left out; row 1 has none.
    batches = bad.fitting(made, schema, lambda number: {"row": number}, [2, 2, 3, 4])
    assert [row["n"] for batch in batches for row in batch.to_pylist()] == [3]
    bad.flush()
    letters = harness.side_rows("dead_letters")
    assert [json.loads(letter["row"])["row"] for letter in letters] == [1, 3, 0, 3]
    assert "map 'it' gave the column 'n' other values than its schema says, int64: 'x'" in letters[0]["error"]


def test_a_function_of_batches_is_called_again_only_if_that_helps(run: Run) -> None:
    sizes: list[int] = []

    def checked(batch: pa.RecordBatch) -> list[int]:
        sizes.append(batch.num_rows)
        if 0 in batch["n"].to_pylist():
            raise ValueError("zero")
        numbers: list[int] = batch["n"].to_pylist()
        return numbers

    failing, _ = bad_rows(run, OnError.FAIL)
    message = r"map 'it' raised ValueError: zero, in a batch of 4 rows that begins with \{'n': 1\}"
    with pytest.raises(UserCodeError, match=message):
        failing.parts(checked, BATCH)
    assert sizes == [4]
    bad, harness = bad_rows(run, OnError.DROP)
    assert list(bad.parts(checked, BATCH)) == [[1, 2], [4]]
    assert sizes == [4, 4, 2, 2, 1, 1]
    assert harness.operator.bad_rows == 1


def test_the_row_at_fault_of_something_without_side_effects_is_found() -> None:
    assert row_at_fault(lambda batch: [1 / n for n in batch["n"].to_pylist()], BATCH) == {"n": 0}
    assert row_at_fault(lambda batch: None, BATCH) is None
