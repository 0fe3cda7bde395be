"""Contexts of user functions: times, and broadcast state that only one side may write."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from snapline.contracts.contexts import BroadcastMap, in_milliseconds
from snapline.errors import UserCodeError
from snapline.state.operator_state import OperatorStates


@pytest.mark.parametrize(
    ("time", "milliseconds"),
    [
        (5, 5),
        (-1, -1),
        (datetime(1970, 1, 1, 0, 0, 1), 1000),
        (datetime(1970, 1, 1, 1, 0, 1, tzinfo=timezone(timedelta(hours=1))), 1000),
        (datetime(1969, 12, 31, 23, 59, 59, 999_500, tzinfo=UTC), -1),
    ],
)
def test_times_are_milliseconds_or_datetimes(time: Any, milliseconds: int) -> None:
    assert in_milliseconds(time) == milliseconds


@pytest.mark.parametrize("time", ["soon", True, 1.5, None])
def test_anything_else_is_not_a_time(time: Any) -> None:
    with pytest.raises(UserCodeError, match="is not a time; give whole milliseconds since 1970, or a datetime"):
        in_milliseconds(time)


def test_a_broadcast_map_is_written_only_where_it_may_be() -> None:
    may_write = True
    rules = BroadcastMap("rules", OperatorStates("op", 0).broadcast_state("rules", str, int), lambda: may_write)
    rules.put("a", 1)
    rules.put("b", 2)
    rules.remove("a")
    may_write = False
    assert (rules.get("b"), rules.get("a", 0), "b" in rules, list(rules), len(rules)) == (2, 0, True, ["b"], 1)
    assert (rules.keys(), rules.items()) == (["b"], [("b", 2)])
    refused = pytest.raises(UserCodeError, match="'rules' can be written only in process_second")
    with refused:
        rules.put("c", 3)
    with refused:
        rules.remove("b")
    with refused:
        rules.clear()
    assert rules.items() == [("b", 2)]
