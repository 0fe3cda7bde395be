"""Key groups: ranges, owners, defaults and their limits."""

from __future__ import annotations

import pytest

from snapline.errors import ConfigurationError
from snapline.protocol.keygroups import (
    EMPTY,
    MAX_PARALLELISM_LIMIT,
    KeyGroupRange,
    default_max_parallelism,
    key_group_range,
    key_group_ranges,
    owner,
)


def test_g5_128_key_groups_over_3_subtasks() -> None:
    assert key_group_ranges(128, 3) == (KeyGroupRange(0, 42), KeyGroupRange(43, 85), KeyGroupRange(86, 127))


@pytest.mark.parametrize(
    ("max_parallelism", "parallelism", "expected"),
    [
        (1, 1, [(0, 0)]),
        (3, 3, [(0, 0), (1, 1), (2, 2)]),
        (10, 4, [(0, 2), (3, 4), (5, 7), (8, 9)]),
        (32768, 2, [(0, 16383), (16384, 32767)]),
    ],
)
def test_ranges(max_parallelism: int, parallelism: int, expected: list[tuple[int, int]]) -> None:
    ranges = key_group_ranges(max_parallelism, parallelism)
    assert [(groups.start, groups.end) for groups in ranges] == expected
    assert tuple(key_group_range(max_parallelism, parallelism, index) for index in range(parallelism)) == ranges


def test_owners() -> None:
    assert [owner(key_group, 4, 10) for key_group in range(10)] == [0, 0, 0, 1, 1, 2, 2, 2, 3, 3]
    assert [owner(key_group, 3, 128) for key_group in (42, 43, 85, 86, 127)] == [0, 1, 1, 2, 2]


@pytest.mark.parametrize(
    ("parallelism", "expected"),
    [
        (1, 128),
        (85, 128),
        (86, 256),
        (170, 256),
        (171, 256),
        (172, 512),
        (10922, 16384),
        (10923, 16384),
        (10924, 32768),
        (21846, 32768),
        (32768, 32768),
    ],
)
def test_default_max_parallelism(parallelism: int, expected: int) -> None:
    assert default_max_parallelism(parallelism) == expected


def test_a_range_holds_both_its_ends() -> None:
    groups = KeyGroupRange(2, 4)
    assert list(groups) == [2, 3, 4]
    assert [key_group in groups for key_group in (1, 2, 3, 4, 5)] == [False, True, True, True, False]
    assert len(groups) == 3


def test_the_empty_range_holds_nothing() -> None:
    assert not EMPTY
    assert len(EMPTY) == 0
    assert list(EMPTY) == []
    assert 0 not in EMPTY
    assert -1 not in EMPTY


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (KeyGroupRange(0, 5), KeyGroupRange(3, 9), KeyGroupRange(3, 5)),
        (KeyGroupRange(0, 9), KeyGroupRange(3, 5), KeyGroupRange(3, 5)),
        (KeyGroupRange(0, 3), KeyGroupRange(3, 5), KeyGroupRange(3, 3)),
        (KeyGroupRange(0, 2), KeyGroupRange(3, 5), EMPTY),
        (KeyGroupRange(0, 2), EMPTY, EMPTY),
        (EMPTY, EMPTY, EMPTY),
    ],
)
def test_intersections(left: KeyGroupRange, right: KeyGroupRange, expected: KeyGroupRange) -> None:
    assert left.intersection(right) == expected
    assert right.intersection(left) == expected


@pytest.mark.parametrize(("start", "end"), [(-1, 3), (3, 2), (1, 0), (0, -2), (0, MAX_PARALLELISM_LIMIT)])
def test_impossible_ranges_are_refused(start: int, end: int) -> None:
    with pytest.raises(ConfigurationError, match="no key groups"):
        KeyGroupRange(start, end)


@pytest.mark.parametrize(
    ("max_parallelism", "parallelism", "complaint"),
    [
        (128, 0, "parallelism is 0"),
        (128, -1, "parallelism is -1"),
        (128, 129, "parallelism is 129"),
        (0, 1, "max parallelism is 0"),
        (MAX_PARALLELISM_LIMIT + 1, 1, "max parallelism is 32769"),
    ],
)
def test_impossible_parallelisms_are_refused(max_parallelism: int, parallelism: int, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        key_group_ranges(max_parallelism, parallelism)
    with pytest.raises(ConfigurationError, match=complaint):
        key_group_range(max_parallelism, parallelism, 0)
    with pytest.raises(ConfigurationError, match=complaint):
        owner(0, parallelism, max_parallelism)


@pytest.mark.parametrize("parallelism", [0, MAX_PARALLELISM_LIMIT + 1])
def test_there_is_no_default_for_an_impossible_parallelism(parallelism: int) -> None:
    with pytest.raises(ConfigurationError, match=f"parallelism is {parallelism}"):
        default_max_parallelism(parallelism)


@pytest.mark.parametrize("index", [-1, 3])
def test_a_subtask_that_does_not_exist_has_no_range(index: int) -> None:
    with pytest.raises(ConfigurationError, match=f"no subtask {index}"):
        key_group_range(128, 3, index)


@pytest.mark.parametrize("key_group", [-1, 128])
def test_a_key_group_that_does_not_exist_has_no_owner(key_group: int) -> None:
    with pytest.raises(ConfigurationError, match=f"no key group {key_group}"):
        owner(key_group, 3, 128)
