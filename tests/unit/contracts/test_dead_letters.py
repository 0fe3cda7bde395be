"""Rows that cannot be processed: the setting, finding them, and their JSON."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from typing import Any

import pytest

from snapline.contracts.dead_letters import OnError, checked_on_error, is_about_row, row_json, salvaged
from snapline.errors import ConfigurationError, StorageError, TransientError, UserCodeError


def test_the_setting_is_checked() -> None:
    assert checked_on_error("dead_letter", "map") is OnError.DEAD_LETTER
    assert checked_on_error(OnError.DROP, "map") is OnError.DROP
    with pytest.raises(ConfigurationError, match=r"map: on_error='skip'; use one of 'fail', 'dead_letter', 'drop'"):
        checked_on_error("skip", "map")


class Parser:
    """Fails for ranges with a bad item; counts its calls."""

    def __init__(self, *bad: int) -> None:
        self._bad = bad
        self.calls = 0

    def __call__(self, start: int, end: int) -> list[int]:
        self.calls += 1
        if any(start <= item < end for item in self._bad):
            raise ValueError(f"{start} to {end}")
        return list(range(start, end))


def salvage(parser: Parser, count: int) -> tuple[list[int], list[tuple[int, str]]]:
    failed: list[tuple[int, str]] = []
    parts = salvaged(parser, 0, count, lambda number, error: failed.append((number, str(error))))
    return [item for part in parts for item in part], failed


def test_only_the_items_at_fault_are_left_out_in_order_and_with_few_calls() -> None:
    assert salvage(Parser(), 10) == (list(range(10)), [])
    assert salvage(Parser(0, 7, 9), 10) == ([1, 2, 3, 4, 5, 6, 8], [(0, "0 to 1"), (7, "7 to 8"), (9, "9 to 10")])
    assert salvage(Parser(0), 1) == ([], [(0, "0 to 1")])
    parser = Parser(777)
    salvage(parser, 1024)
    assert parser.calls == 1 + 2 * 10


def test_errors_of_larger_ranges_are_not_the_context_of_smaller_ones() -> None:
    found: list[Exception] = []
    list(salvaged(Parser(3), 0, 8, lambda number, error: found.append(error)))
    assert [error.__context__ for error in found] == [None]


@pytest.mark.parametrize(
    "error", [StorageError("no network"), MemoryError(), ConfigurationError("wrong"), TransientError("down")]
)
def test_what_is_not_the_fault_of_a_row_is_raised(error: Exception) -> None:
    def attempt(start: int, end: int) -> None:
        raise error

    with pytest.raises(type(error)):
        list(salvaged(attempt, 0, 10, lambda number, error: None))
    assert not is_about_row(error)
    assert is_about_row(UserCodeError("bad"))
    with pytest.raises(ZeroDivisionError):  # there is no item to blame
        list(salvaged(lambda start, end: 1 / 0, 0, 0, lambda number, error: None))


def test_any_row_can_be_written_as_json() -> None:
    row: dict[str, Any] = {
        "text": 'a "b"',
        "none": None,
        "time": datetime.datetime(2024, 1, 2, tzinfo=datetime.UTC),
        "amount": Decimal("1.50"),
        "bytes": b"\xff",
        "map": {"k": [1, 2]},
        "set": object,
    }
    assert json.loads(row_json(row)) == {
        "text": 'a "b"',
        "none": None,
        "time": "2024-01-02T00:00:00Z",
        "amount": "1.50",
        "bytes": "/w==",
        "map": {"k": [1, 2]},
        "set": "<class 'object'>",
    }
    assert json.loads(row_json({"no text": "\ud800", "n": 1})) == {"no text": "'\\ud800'", "n": "1"}
