"""Redistribution: operator list state and in-flight data on their way to new subtasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pytest

from snapline.errors import ConfigurationError, RestoreError
from snapline.protocol.keygroups import owner
from snapline.protocol.restore.redistribution import (
    ListStates,
    SubtaskMapper,
    broadcast,
    downstream_mapper,
    is_ambiguous,
    old_subtasks,
    split,
    union,
    upstream_mapper,
)
from snapline.types import Partitioning

Deal: TypeAlias = Callable[[ListStates[int], int], list[dict[str, list[int]]]]


def test_g20_the_next_state_starts_where_the_remainder_ended() -> None:
    result = split({"t-1": [[0, 10], []], "t-2": [[], [0, 15]]}, 3)
    assert result == [{"t-1": [0], "t-2": [15]}, {"t-1": [10]}, {"t-2": [0]}]


def test_split_cuts_the_concatenated_list_with_the_longer_parts_first() -> None:
    assert split({"s": [[1, 2, 3], None, [4, 5, 6, 7, 8]]}, 5) == [
        {"s": [1, 2]},
        {"s": [3, 4]},
        {"s": [5, 6]},
        {"s": [7]},
        {"s": [8]},
    ]


def test_split_without_a_remainder_does_not_move_the_start() -> None:
    assert split({"a": [[1, 2]], "b": [[3]]}, 2) == [{"a": [1], "b": [3]}, {"a": [2]}]


def test_the_start_moves_on_from_state_to_state_and_wraps_around() -> None:
    states = {"a": [[1, 2]], "b": [[3, 4]], "c": [[5]], "d": [[6]]}
    assert split(states, 3) == [{"a": [1], "b": [4]}, {"a": [2], "c": [5]}, {"b": [3], "d": [6]}]


def test_split_at_the_same_parallelism_leaves_every_list_with_its_subtask() -> None:
    assert split({"a": [[1, 2, 3], [], None], "b": [None, [4], [5]]}, 3) == [{"a": [1, 2, 3]}, {"b": [4]}, {"b": [5]}]


def test_split_of_nothing_gives_nothing() -> None:
    assert split({}, 2) == [{}, {}]
    assert split({"a": [[], None, []]}, 2) == [{}, {}]


def test_split_refuses_states_of_different_numbers_of_subtasks() -> None:
    with pytest.raises(RestoreError, match="'a': 1, 'b': 2"):
        split({"a": [[1]], "b": [[2], [3]]}, 2)


@pytest.mark.parametrize("to", [1, 2, 3])
def test_union_gives_everything_to_everyone_at_any_parallelism(to: int) -> None:
    states: ListStates[int] = {"a": [[1, 2], [3]], "b": [None, [4]], "c": [[], None]}
    assert union(states, to) == [{"a": [1, 2, 3], "b": [4]}] * to


def test_broadcast_copies_the_old_subtasks_in_turn() -> None:
    assert broadcast({"a": [[1], [2]]}, 5) == [{"a": [1]}, {"a": [2]}, {"a": [1]}, {"a": [2]}, {"a": [1]}]
    assert broadcast({"a": [[1], [2], [3]]}, 2) == [{"a": [1]}, {"a": [2]}]


def test_broadcast_skips_subtasks_that_reported_nothing_even_at_the_same_parallelism() -> None:
    states: ListStates[int] = {"a": [None, [2], [3]], "b": [None, None, None]}
    assert broadcast(states, 3) == [{"a": [2]}, {"a": [3]}, {"a": [2]}]


def test_an_empty_list_was_reported_and_is_copied_like_any_other() -> None:
    assert broadcast({"a": [[], [2]]}, 3) == [{}, {"a": [2]}, {}]


@pytest.mark.parametrize("deal", [split, union, broadcast])
def test_no_list_is_shared_with_the_snapshot_or_another_subtask(deal: Deal) -> None:
    original = [1]
    result = deal({"a": [original]}, 1) + deal({"a": [original]}, 1)
    result[0]["a"].append(2)
    assert (original, result[1]) == ([1], {"a": [1]})


def test_the_copies_of_union_and_broadcast_are_independent() -> None:
    for result in (union({"a": [[1]]}, 2), broadcast({"a": [[1]]}, 2)):
        result[0]["a"].append(2)
        assert result[1] == {"a": [1]}


def test_dealing_out_to_no_subtask_is_refused() -> None:
    for deal in (split, union, broadcast):
        with pytest.raises(ConfigurationError, match="parallelism is 0"):
            deal({"a": [[1]]}, 0)


@pytest.mark.parametrize(
    ("mapper", "old", "new", "expected"),
    [
        (SubtaskMapper.RANGE, 3, 2, ((0, 1), (1, 2))),
        (SubtaskMapper.RANGE, 3, 4, ((0,), (0, 1), (1, 2), (2,))),
        (SubtaskMapper.RANGE, 2, 2, ((0,), (1,))),
        (SubtaskMapper.RANGE, 4, 2, ((0, 1), (2, 3))),
        (SubtaskMapper.RANGE, 1, 3, ((0,), (0,), (0,))),
        (SubtaskMapper.ROUND_ROBIN, 5, 2, ((0, 2, 4), (1, 3))),
        (SubtaskMapper.ROUND_ROBIN, 2, 4, ((0,), (1,), (), ())),
        (SubtaskMapper.ROUND_ROBIN, 3, 3, ((0,), (1,), (2,))),
        (SubtaskMapper.FIRST, 3, 2, ((0, 1, 2), ())),
        (SubtaskMapper.FIRST, 2, 3, ((0, 1), (), ())),
        (SubtaskMapper.FULL, 2, 3, ((0, 1), (0, 1), (0, 1))),
        (SubtaskMapper.UNSUPPORTED, 3, 3, ((0,), (1,), (2,))),
    ],
)
def test_mappers(mapper: SubtaskMapper, old: int, new: int, expected: tuple[tuple[int, ...], ...]) -> None:
    assert old_subtasks(mapper, old, new) == expected


def test_an_unsupported_edge_refuses_a_new_parallelism() -> None:
    with pytest.raises(RestoreError, match="from parallelism 3 to 2"):
        old_subtasks(SubtaskMapper.UNSUPPORTED, 3, 2)


@pytest.mark.parametrize("mapper", SubtaskMapper)
@pytest.mark.parametrize(("old", "new"), [(0, 1), (1, 0)])
def test_mappers_refuse_impossible_parallelisms(mapper: SubtaskMapper, old: int, new: int) -> None:
    with pytest.raises(ConfigurationError, match="parallelism is 0"):
        old_subtasks(mapper, old, new)


@pytest.mark.parametrize(
    ("partitioning", "downstream", "upstream"),
    [
        (Partitioning.HASH, SubtaskMapper.RANGE, SubtaskMapper.ROUND_ROBIN),
        (Partitioning.REBALANCE, SubtaskMapper.ROUND_ROBIN, SubtaskMapper.ROUND_ROBIN),
        (Partitioning.GLOBAL, SubtaskMapper.FIRST, SubtaskMapper.ROUND_ROBIN),
        (Partitioning.FORWARD, SubtaskMapper.ROUND_ROBIN, SubtaskMapper.ROUND_ROBIN),
        (Partitioning.BROADCAST, SubtaskMapper.UNSUPPORTED, SubtaskMapper.UNSUPPORTED),
    ],
)
def test_the_mappers_of_each_partitioning(
    partitioning: Partitioning, downstream: SubtaskMapper, upstream: SubtaskMapper
) -> None:
    assert downstream_mapper(partitioning) is downstream
    assert upstream_mapper(partitioning) is upstream


@pytest.mark.parametrize(
    ("mapping", "expected"),
    [
        (((0, 1), (1, 2)), (False, True, False)),
        (((0,), (0, 1), (1, 2), (2,)), (True, True, True)),
        (((0, 2, 4), (1, 3)), (False,) * 5),
        (((0, 1), ()), (False, False)),
        (((0, 1), (0, 1)), (True, True)),
        ((), ()),
    ],
)
def test_an_old_subtask_that_several_new_ones_replay_is_ambiguous(
    mapping: tuple[tuple[int, ...], ...], expected: tuple[bool, ...]
) -> None:
    assert is_ambiguous(mapping) == expected


@pytest.mark.parametrize(("old", "new", "max_parallelism"), [(300, 399, 3000), (3, 2, 128), (7, 5, 37)])
def test_at_the_records_own_max_parallelism_the_new_owner_replays_every_key_group(
    old: int, new: int, max_parallelism: int
) -> None:
    mapping = old_subtasks(SubtaskMapper.RANGE, old, new, max_parallelism)
    for group in range(max_parallelism):
        assert owner(group, old, max_parallelism) in mapping[owner(group, new, max_parallelism)]
