"""Dealing out splits: each to one subtask, once, whatever order they ask in and whatever restarts come between."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import Any

import pyarrow as pa
import pytest

import snapline as sl
from snapline.errors import DamagedError, EngineError, UserCodeError
from snapline.operators.split_assigner import SplitAssigner


class Parts(sl.Source):
    """A source with given splits; `found` is what `discover` gives, one after the other."""

    def __init__(self, parts: Any, *, bounded: bool, in_step: bool | None = None, found: Any = None) -> None:
        self._parts = parts
        self._bounded = bounded
        self._in_step = in_step
        self._found = found
        self.asked: list[Any] = []

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([("x", pa.int64())])

    @property
    def is_bounded(self) -> bool:
        return self._bounded

    @property
    def in_step(self) -> bool:
        return super().in_step if self._in_step is None else self._in_step

    def splits(self, parallelism: int) -> Any:
        return self._parts

    @property
    def discovery_interval_ms(self) -> int | None:
        return None if self._found is None else 1000

    def discover(self, known: Any) -> tuple[Sequence[Any], Any]:
        self.asked.append(known)
        result: tuple[Sequence[Any], Any] = self._found.pop(0)
        return result

    def reader(self, context: sl.ReaderContext) -> sl.SourceReader:
        raise AssertionError


def started(parts: Any, parallelism: int, **options: Any) -> SplitAssigner:
    assigner = SplitAssigner(Parts(parts, **options), parallelism)
    assigner.start()
    return assigner


NOTHING = {"nothing": True}


def answer(splits: list[Any], *, more: bool) -> dict[str, Any]:
    return {"splits": splits, "more": more}


def test_splits_of_a_bounded_source_go_one_by_one_to_whoever_asks() -> None:
    assigner = started(["a", "b", "c"], 2, bounded=True)
    assert assigner.assign(1) == [(1, answer(["a"], more=True))]
    assert assigner.assign(1) == [(1, answer(["b"], more=True))]
    assert assigner.assign(0) == [(0, answer(["c"], more=False))]
    assert assigner.assign(1) == [(1, answer([], more=False))]


@pytest.mark.parametrize("bounded", [True, False])
@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_in_step_each_subtask_has_its_share_and_none_ends_before_all_have_theirs(
    order: tuple[int, ...], bounded: bool
) -> None:
    assigner = started(list(range(7)), 3, bounded=bounded, in_step=True)
    shares = {0: [0, 3, 6], 1: [1, 4], 2: [2, 5]}
    first, second, third = order
    assert assigner.assign(first) == [(first, answer(shares[first], more=True))]
    assert assigner.assign(first) == [(first, NOTHING)]
    assert assigner.assign(second) == [(second, answer(shares[second], more=True))]
    assert assigner.assign(second) == [(second, NOTHING)]
    assert sorted(assigner.assign(third), key=lambda item: item[0]) == sorted(
        [
            (first, answer([], more=False)),
            (second, answer([], more=False)),
            (third, answer(shares[third], more=False)),
        ],
        key=lambda item: item[0],
    )


def test_a_subtask_without_a_share_waits_for_the_others() -> None:
    assigner = started(["a"], 2, bounded=True, in_step=True)
    assert assigner.assign(1) == [(1, NOTHING)]
    assert assigner.assign(0) == [(1, answer([], more=False)), (0, answer(["a"], more=False))]


@pytest.mark.parametrize("bounded", [True, False])
@pytest.mark.parametrize("in_step", [True, False])
@pytest.mark.parametrize("parallelism", [1, 2, 5])
def test_what_is_not_assigned_is_dealt_out_after_a_restore(bounded: bool, in_step: bool, parallelism: int) -> None:
    before = started(list(range(10)), 4, bounded=bounded, in_step=in_step)
    ((_, given),) = before.assign(2)
    taken = given["splits"]
    data = before.snapshot()
    before.assign(3)
    after = SplitAssigner(Parts(None, bounded=bounded, in_step=in_step), parallelism)
    after.restore(data)
    ended: set[int] = set()
    while len(ended) < parallelism:
        for asking in reversed(range(parallelism)):
            for subtask, event in after.assign(asking):
                taken += event.get("splits", [])
                if not event.get("more", True):
                    ended.add(subtask)
    assert sorted(taken) == list(range(10))


def test_who_waits_is_answered_when_splits_are_discovered() -> None:
    source = Parts(["a"], bounded=False, in_step=False, found=[(["b"], 1)])
    assigner = SplitAssigner(source, 2)
    assigner.start()
    assert source.asked == [None]
    assert assigner.known == 1
    assert assigner.assign(0) == [(0, answer(["a"], more=True))]
    assert assigner.assign(1) == [(1, answer(["b"], more=True))]
    assert assigner.assign(1) == [(1, NOTHING)]
    assert assigner.discovered(([], 2)) == []
    assert assigner.assign(0) == [(0, NOTHING)]
    assert assigner.discovered((["c"], 3)) == [(1, answer(["c"], more=True))]
    assert assigner.discovered((["d", "e"], 4)) == [(0, answer(["d"], more=True))]
    assert assigner.assign(0) == [(0, answer(["e"], more=True))]


def test_who_waits_is_told_so_once() -> None:
    assigner = started([], 2, bounded=False, in_step=False, found=[([], 1)])
    assert assigner.assign(0) == [(0, NOTHING)]
    assert assigner.assign(0) == []
    assert assigner.assign(1) == [(1, NOTHING)]
    assert assigner.discovered(([], 2)) == []
    assert assigner.discovered((["a"], 3)) == [(0, answer(["a"], more=True))]
    assert assigner.assign(0) == [(0, NOTHING)]


def test_splits_that_are_discovered_in_step_are_shared_out() -> None:
    assigner = started([], 2, bounded=False, found=[(["p0", "p1", "p2"], 3)])
    assert assigner.assign(0) == [(0, answer(["p0", "p2"], more=True))]
    assert assigner.assign(0) == [(0, NOTHING)]
    assert assigner.discovered((["p3", "p4"], 5)) == [(0, answer(["p4"], more=True))]
    assert assigner.assign(1) == [(1, answer(["p1", "p3"], more=True))]


def test_what_is_known_is_part_of_the_snapshot() -> None:
    before = started([], 2, bounded=False, in_step=False, found=[(["a", "b"], ["a", "b"])])
    before.assign(0)
    source = Parts(None, bounded=False, in_step=False, found=[])
    after = SplitAssigner(source, 1)
    after.restore(before.snapshot())
    assert after.known == ["a", "b"]
    assert source.asked == []
    assert after.assign(0) == [(0, answer(["b"], more=True))]


def test_splits_are_seen_as_they_travel() -> None:
    assigner = started([("a", 1), {"file": b"x"}], 1, bounded=False)
    assert assigner.assign(0) == [(0, answer([["a", 1], {"file": b"x"}], more=False))]


def test_wrong_splits_subtasks_and_snapshots_are_refused() -> None:
    with pytest.raises(UserCodeError, match="a split of Parts is no plain data"):
        started([object()], 1, bounded=True)
    with pytest.raises(EngineError, match="subtask 1 asks for splits at parallelism 1"):
        started([], 1, bounded=True).assign(1)
    wrong: list[Any] = [None, 1, [], {"splits": 1, "known": None}]
    for data in wrong:
        with pytest.raises(DamagedError, match="cannot be read"):
            started([], 1, bounded=True).restore(data)
    with pytest.raises(UserCodeError, match="Parts is bounded, so there can be nothing more to discover"):
        started([], 1, bounded=True, found=[])
    for found in (None, (1, 2, 3)):
        with pytest.raises(UserCodeError, match=r"discover\(\) of Parts gave"):
            started([], 1, bounded=False, found=[([], 1)]).discovered(found)  # type: ignore[arg-type]


def is_exhausted(assigner: SplitAssigner) -> bool:
    return assigner.is_exhausted


def test_everything_is_read_when_all_ask_in_vain() -> None:
    assigner = started(["a"], 2, bounded=False, in_step=False, found=[([], None)])
    assert not is_exhausted(assigner)
    assert assigner.assign(0) == [(0, {"splits": ["a"], "more": True})]
    assert assigner.assign(1) == [(1, NOTHING)]
    assert not is_exhausted(assigner), "subtask 0 reads"
    assert assigner.assign(0) == [(0, NOTHING)]
    assert is_exhausted(assigner)
    assert assigner.discovered((["b"], None)) != []
    assert not is_exhausted(assigner)


def test_what_was_all_read_is_known_after_a_restore() -> None:
    before = started([], 1, bounded=False, in_step=False, found=[(["a"], 1)])
    source = Parts(None, bounded=False, in_step=False, found=[])
    for expected in (None, 1):
        before.assign(0)
        after = SplitAssigner(source, 2)
        after.restore(before.snapshot())
        assert after.read_until == expected
    older = SplitAssigner(source, 2)
    older.restore({"splits": [], "known": 1})
    assert older.read_until is None, "a subtask may have restored a part of it"
