"""Key groups, the units in which keyed state moves, and the subtasks that own them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from snapline.errors import ConfigurationError

MAX_PARALLELISM_LIMIT = 32768
"""No job has more key groups than this."""

MIN_DEFAULT_MAX_PARALLELISM = 128
"""Small jobs get this many key groups, so that they can grow."""


@dataclass(frozen=True, slots=True)
class KeyGroupRange:
    """The key groups from `start` to `end`, both included. The empty range `EMPTY` is false."""

    start: int
    end: int

    def __post_init__(self) -> None:
        is_range = 0 <= self.start <= self.end < MAX_PARALLELISM_LIMIT
        is_the_empty_one = (self.start, self.end) == (0, -1)
        if not is_range and not is_the_empty_one:
            raise ConfigurationError(
                f"no key groups [{self.start}, {self.end}]; they go up from 0 to {MAX_PARALLELISM_LIMIT - 1}"
            )

    def __contains__(self, key_group: int) -> bool:
        return self.start <= key_group <= self.end

    def __len__(self) -> int:
        return self.end - self.start + 1

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.start, self.end + 1))

    def intersection(self, other: KeyGroupRange) -> KeyGroupRange:
        start, end = max(self.start, other.start), min(self.end, other.end)
        return KeyGroupRange(start, end) if start <= end else EMPTY


EMPTY = KeyGroupRange(0, -1)


def key_group_range(max_parallelism: int, parallelism: int, index: int) -> KeyGroupRange:
    """The key groups of subtask `index`; never empty."""
    _check(max_parallelism, parallelism)
    if not 0 <= index < parallelism:
        raise ConfigurationError(f"there is no subtask {index} at parallelism {parallelism}")
    return _range(max_parallelism, parallelism, index)


def key_group_ranges(max_parallelism: int, parallelism: int) -> tuple[KeyGroupRange, ...]:
    """The key groups of every subtask, by index. Together they are all key groups, each once."""
    _check(max_parallelism, parallelism)
    return tuple(_range(max_parallelism, parallelism, index) for index in range(parallelism))


def owner(key_group: int, parallelism: int, max_parallelism: int) -> int:
    """The index of the subtask whose range holds `key_group`."""
    _check(max_parallelism, parallelism)
    if not 0 <= key_group < max_parallelism:
        raise ConfigurationError(f"there is no key group {key_group} at max parallelism {max_parallelism}")
    return key_group * parallelism // max_parallelism


def default_max_parallelism(parallelism: int) -> int:
    """The default max parallelism: half as much again as the parallelism, as a power of two within the bounds."""
    _check(MAX_PARALLELISM_LIMIT, parallelism)
    wanted = parallelism + parallelism // 2
    next_power_of_two = 1 << (wanted - 1).bit_length()
    return min(max(next_power_of_two, MIN_DEFAULT_MAX_PARALLELISM), MAX_PARALLELISM_LIMIT)


def _range(max_parallelism: int, parallelism: int, index: int) -> KeyGroupRange:
    start = -(-index * max_parallelism // parallelism)
    end = ((index + 1) * max_parallelism - 1) // parallelism
    return KeyGroupRange(start, end)


def _check(max_parallelism: int, parallelism: int) -> None:
    if not 1 <= max_parallelism <= MAX_PARALLELISM_LIMIT:
        raise ConfigurationError(f"max parallelism is {max_parallelism}; use 1 to {MAX_PARALLELISM_LIMIT}")
    if not 1 <= parallelism <= max_parallelism:
        raise ConfigurationError(f"parallelism is {parallelism}; use 1 to the max parallelism, {max_parallelism}")
