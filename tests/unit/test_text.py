"""Text for messages."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context
from datetime import UTC, datetime
from itertools import pairwise
from typing import TypeVar

import pytest

from snapline.errors import UserCodeError
from snapline.text import (
    duration_text,
    error_text,
    explanation,
    fine_duration_text,
    for_batch,
    for_line,
    for_row,
    is_milestone,
    row_text,
    shortened,
    show_values,
    size_text,
    time_text,
    trace_text,
)

T = TypeVar("T")
SECRET = "s3cr3t"


def test_short_values_are_shown_whole() -> None:
    assert shortened("x") == "'x'"
    assert shortened([1, None]) == "[1, None]"
    assert shortened("y" * 198) == repr("y" * 198)


def test_long_values_are_cut() -> None:
    text = shortened("y" * 1000)
    assert text == "'" + "y" * 199 + "..."


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (6811, "6.8 kB"),
        (999_999, "1.0 MB"),
        (2_500_000, "2.5 MB"),
        (3 * 10**9, "3.0 GB"),
        (5 * 10**15, "5000.0 TB"),
    ],
)
def test_sizes_have_the_unit_that_suits_them(size_bytes: int, text: str) -> None:
    assert size_text(size_bytes) == text


def hidden(make: Callable[[], T]) -> T:
    """What a function returns in a context that hides values."""

    def call() -> T:
        show_values(False)
        return make()

    return copy_context().run(call)


def failed(call: Callable[[], object]) -> Exception:
    try:
        call()
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


def secret_error() -> Exception:
    def parse() -> None:
        try:
            int(SECRET)
        except ValueError as error:
            raise KeyError(SECRET) from error

    return failed(parse)


def test_rows_are_cut_value_by_value_so_that_all_columns_show() -> None:
    assert row_text({"user": "ann", "n": None}) == "{'user': 'ann', 'n': None}"
    assert row_text({"at": datetime(2024, 1, 2, 3, tzinfo=UTC)}) == "{'at': 2024-01-02 03:00:00+00:00}"
    text = row_text({"a": "x" * 1000, "b": b"y" * 1000, "c": list(range(1000)), "d": 4})
    assert text.startswith("{'a': '" + "x" * 80 + "'..., 'b': b'")
    assert text.endswith("'d': 4}")
    assert len(row_text({f"column {number}": "x" * 100 for number in range(100)})) == 403


def test_ends_of_messages_show_rows() -> None:
    row = {"x": 1}
    assert for_row(row) == ", for the row {'x': 1}"
    assert for_row(None) == ""
    assert for_line("a,b") == ", for the line 'a,b'"
    assert for_batch(5, row) == ", in a batch of 5 rows that begins with {'x': 1}"
    assert for_batch(0, None) == ", in a batch of 0 rows"


def test_errors_are_told_in_one_line() -> None:
    assert error_text(ValueError("no luck\nat all")) == "ValueError: no luck"
    assert error_text(ValueError()) == "ValueError"
    assert len(error_text(ValueError("x" * 10_000))) < 600
    assert explanation(ValueError("no luck")) == "no luck"


def test_hidden_values_are_in_no_text() -> None:
    row = {"name": SECRET}
    texts = hidden(
        lambda: [
            shortened(SECRET),
            for_row(row),
            for_line(SECRET),
            for_batch(5, row),
            error_text(secret_error()),
            explanation(secret_error()),
            trace_text(secret_error()),
        ]
    )
    assert not [text for text in texts if SECRET in text]
    assert texts[0] == "<str>"
    assert texts[3] == ", in a batch of 5 rows"
    # Where it was raised is no secret.
    assert "test_text.py" in texts[4]
    assert texts[6].count("Traceback") == 2
    assert "ValueError" in texts[6]


def test_hiding_is_for_one_context_and_spares_our_own_errors() -> None:
    assert hidden(lambda: explanation(UserCodeError("give another schema="))) == "give another schema="
    assert hidden(lambda: error_text(UserCodeError("give another"))) == "UserCodeError: give another"
    assert shortened("shown") == "'shown'"
    assert SECRET in trace_text(secret_error())


def test_a_count_is_reported_at_growing_intervals() -> None:
    counts = [0, 1, 2, 9, 10, 11, 99, 150, 150, 99_999, 100_001]
    reported = [now for before, now in pairwise(counts) if is_milestone(before, now)]
    assert reported == [1, 10, 150, 99_999, 100_001]


@pytest.mark.parametrize(
    ("duration_ms", "text"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1000, "1 s"),
        (119_000, "119 s"),
        (120_000, "2 min"),
        (7_200_000, "2 h"),
        (86_400_000 * 3, "3 d"),
        (86_400_000 * 20_000, "20,000 d"),
    ],
)
def test_durations_have_the_unit_that_suits_them(duration_ms: int, text: str) -> None:
    assert duration_text(duration_ms) == text


@pytest.mark.parametrize(
    ("duration_ms", "text"), [(999, "999 ms"), (1000, "1.0 s"), (8240, "8.2 s"), (9960, "10 s"), (120_000, "2 min")]
)
def test_short_durations_can_be_told_finely(duration_ms: int, text: str) -> None:
    assert fine_duration_text(duration_ms) == text


def test_times_are_those_of_the_calendar_if_it_has_them() -> None:
    assert time_text(0) == "1970-01-01T00:00:00Z"
    assert time_text(1_500, "milliseconds") == "1970-01-01T00:00:01.500Z"
    assert time_text(1 << 62) == f"{1 << 62} ms"
