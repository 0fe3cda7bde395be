"""Redistribution: operator list state and in-flight data on their way to new subtasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pytest

from snapline.errors import ConfigurationError, RestoreError
from snapline.protocol.keygroups import owner
from snapline.protocol.restore.redistribution import (
    Dealt,
    ElementRange,
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
from snapline.protocol.snapshot import StoredObject
from snapline.types import Partitioning

Deal: TypeAlias = Callable[[ListStates, int], Dealt]


def dealt(deal: Deal, states: dict[str, list[int | None]], to: int) -> list[dict[str, list[str]]]:
    """`states` has the lengths of lists; their elements are named by old subtask and place: a0, a1, b0."""
    lists = {
        name: [
            None if length is None else [ElementRange(StoredObject(letter, 1), 0, length)]
            for letter, length in zip("abcdefgh", lengths, strict=False)
        ]
        for name, lengths in states.items()
    }
    return [
        {
            name: [f"{mine.object.path}{place}" for mine in ranges for place in range(mine.start, mine.stop)]
            for name, ranges in subtask.items()
        }
        for subtask in deal(lists, to)
    ]


def test_g20_the_next_state_starts_where_the_remainder_ended() -> None:
    result = dealt(split, {"t-1": [2, 0], "t-2": [0, 2]}, 3)
    assert result == [{"t-1": ["a0"], "t-2": ["b1"]}, {"t-1": ["a1"]}, {"t-2": ["b0"]}]


def test_split_cuts_the_concatenated_list_with_the_longer_parts_first() -> None:
    assert dealt(split, {"s": [3, None, 5]}, 5) == [
        {"s": ["a0", "a1"]},
        {"s": ["a2", "c0"]},
        {"s": ["c1", "c2"]},
        {"s": ["c3"]},
        {"s": ["c4"]},
    ]


def test_split_without_a_remainder_does_not_move_the_start() -> None:
    assert dealt(split, {"a": [2], "b": [1]}, 2) == [{"a": ["a0"], "b": ["a0"]}, {"a": ["a1"]}]


def test_the_start_moves_on_from_state_to_state_and_wraps_around() -> None:
    result = dealt(split, {"a": [2], "b": [2], "c": [1], "d": [1]}, 3)
    assert result == [{"a": ["a0"], "b": ["a1"]}, {"a": ["a1"], "c": ["a0"]}, {"b": ["a0"], "d": ["a0"]}]


def test_split_at_the_same_parallelism_leaves_every_list_with_its_subtask() -> None:
    result = dealt(split, {"a": [3, 0, None], "b": [None, 1, 1]}, 3)
    assert result == [{"a": ["a0", "a1", "a2"]}, {"b": ["b0"]}, {"b": ["c0"]}]


def test_split_of_nothing_gives_nothing() -> None:
    assert dealt(split, {}, 2) == [{}, {}]
    assert dealt(split, {"a": [0, None, 0]}, 2) == [{}, {}]


def test_split_refuses_states_of_different_numbers_of_subtasks() -> None:
    with pytest.raises(RestoreError, match="'a': 1, 'b': 2"):
        dealt(split, {"a": [1], "b": [1, 1]}, 2)


def test_ranges_do_not_grow_with_the_number_of_elements() -> None:
    few, many = (split({"s": [[ElementRange(StoredObject("a", 1), 0, count)]]}, 3) for count in (30, 30_000_000))
    assert [len(subtask["s"]) for subtask in few] == [len(subtask["s"]) for subtask in many] == [1, 1, 1]
    assert many[1]["s"] == (ElementRange(StoredObject("a", 1), 10_000_000, 20_000_000),)


def test_a_part_of_a_range_is_cut_further() -> None:
    part = ElementRange(StoredObject("a", 1), 5, 9)
    assert [subtask["s"] for subtask in split({"s": [[part]]}, 2)] == [
        (ElementRange(StoredObject("a", 1), 5, 7),),
        (ElementRange(StoredObject("a", 1), 7, 9),),
    ]


def test_the_pieces_of_a_list_stay_together_and_in_order() -> None:
    a, b, c = (ElementRange(StoredObject(letter, 1), 0, 2) for letter in "abc")
    assert split({"s": [[a, b], [c]]}, 2) == [{"s": (a, b)}, {"s": (c,)}]
    halves = split({"s": [[a, b], None]}, 4)
    assert [[(mine.object.path, mine.start) for mine in subtask["s"]] for subtask in halves] == [
        [("a", 0)],
        [("a", 1)],
        [("b", 0)],
        [("b", 1)],
    ]


@pytest.mark.parametrize("to", [1, 2, 3])
def test_union_gives_everything_to_everyone_at_any_parallelism(to: int) -> None:
    states: dict[str, list[int | None]] = {"a": [2, 1], "b": [None, 1], "c": [0, None]}
    assert dealt(union, states, to) == [{"a": ["a0", "a1", "b0"], "b": ["b0"]}] * to


def test_broadcast_copies_the_old_subtasks_in_turn() -> None:
    assert [mine["a"] for mine in dealt(broadcast, {"a": [1, 1]}, 5)] == [["a0"], ["b0"], ["a0"], ["b0"], ["a0"]]
    assert dealt(broadcast, {"a": [1, 1, 1]}, 2) == [{"a": ["a0"]}, {"a": ["b0"]}]


def test_broadcast_skips_subtasks_that_reported_nothing_even_at_the_same_parallelism() -> None:
    result = dealt(broadcast, {"a": [None, 1, 1], "b": [None, None, None]}, 3)
    assert result == [{"a": ["b0"]}, {"a": ["c0"]}, {"a": ["b0"]}]


def test_an_empty_list_was_reported_and_is_copied_like_any_other() -> None:
    assert dealt(broadcast, {"a": [0, 1]}, 3) == [{}, {"a": ["b0"]}, {}]


def test_dealing_out_to_no_subtask_is_refused() -> None:
    for deal in (split, union, broadcast):
        with pytest.raises(ConfigurationError, match="parallelism is 0"):
            dealt(deal, {"a": [1]}, 0)


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
