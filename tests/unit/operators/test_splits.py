"""Dealing out splits: each to one subtask, once, whatever order they ask in and whatever restarts come between."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

import snapline as sl
from snapline.errors import DamagedError, EngineError, UserCodeError
from snapline.operators.splits import SplitAssigner


class Parts(sl.sources.Rate):
    """A source with given splits."""

    def __init__(self, parts: Any, *, bounded: bool) -> None:
        super().__init__(rows=1 if bounded else None)
        self._parts = parts

    def splits(self, parallelism: int) -> Any:
        return self._parts


def started(parts: Any, parallelism: int, *, bounded: bool) -> SplitAssigner:
    assigner = SplitAssigner(Parts(parts, bounded=bounded), parallelism)
    assigner.start()
    return assigner


def test_a_bounded_source_gives_one_split_at_a_time() -> None:
    assigner = started(["a", "b", "c"], 2, bounded=True)
    assert assigner.assign(1) == {"splits": ["a"], "more": True}
    assert assigner.assign(1) == {"splits": ["b"], "more": True}
    assert assigner.assign(0) == {"splits": ["c"], "more": False}
    assert assigner.assign(1) == {"splits": [], "more": False}


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_a_source_that_does_not_end_gives_each_subtask_its_share(order: tuple[int, ...]) -> None:
    assigner = started(list(range(7)), 3, bounded=False)
    given = {subtask: assigner.assign(subtask) for subtask in order}
    assert given == {
        0: {"splits": [0, 3, 6], "more": False},
        1: {"splits": [1, 4], "more": False},
        2: {"splits": [2, 5], "more": False},
    }
    assert assigner.assign(0) == {"splits": [], "more": False}


@pytest.mark.parametrize("bounded", [True, False])
@pytest.mark.parametrize("parallelism", [1, 2, 5])
def test_what_is_not_assigned_is_dealt_out_after_a_restore(bounded: bool, parallelism: int) -> None:
    before = started(list(range(10)), 4, bounded=bounded)
    taken = before.assign(2)["splits"]
    data = before.snapshot()
    before.assign(3)
    after = SplitAssigner(Parts(None, bounded=bounded), parallelism)
    after.restore(data)
    while True:
        events = [after.assign(subtask) for subtask in reversed(range(parallelism))]
        taken += [split for event in events for split in event["splits"]]
        if not any(event["more"] for event in events):
            break
    assert sorted(taken) == list(range(10))


def test_splits_are_seen_as_they_travel() -> None:
    assigner = started([("a", 1), {"file": b"x"}], 1, bounded=False)
    assert assigner.assign(0)["splits"] == [["a", 1], {"file": b"x"}]


def test_wrong_splits_subtasks_and_snapshots_are_refused() -> None:
    with pytest.raises(UserCodeError, match="a split of Parts is no plain data"):
        started([object()], 1, bounded=True)
    with pytest.raises(EngineError, match="subtask 1 asks for splits at parallelism 1"):
        started([], 1, bounded=True).assign(1)
    for data in (b"", b"\xc1", b"\x01"):
        with pytest.raises(DamagedError, match="cannot be read"):
            started([], 1, bounded=True).restore(data)
