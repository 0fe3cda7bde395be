"""Redistribution of operator list state, and of in-flight data at a new parallelism.

Both sides are lists by subtask index: the old subtasks of the snapshot, and the new ones of the job.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import chain
from typing import TypeAlias

from snapline.errors import ConfigurationError, RestoreError
from snapline.protocol.keygroups import MAX_PARALLELISM_LIMIT, key_group_ranges, owner
from snapline.protocol.snapshot import StoredObject
from snapline.types import Partitioning


@dataclass(frozen=True, slots=True)
class ElementRange:
    """The elements of a stored list state from `start` up to, but not including, `stop`."""

    object: StoredObject
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start


ListStates: TypeAlias = Mapping[str, Sequence[Sequence[ElementRange] | None]]
"""By state name, the list of each old subtask, in pieces; None where a subtask reported none."""

Dealt: TypeAlias = list[dict[str, tuple[ElementRange, ...]]]
"""By new subtask and state name, what it gets, in order. No entry for a state of which it gets no element."""


def split(states: ListStates, to: int) -> Dealt:
    """Splits the elements of each named state among `to` subtasks, each element once and in order.

    At the same parallelism every list stays with its subtask. Otherwise the parts of a state differ by one element at
    most, and the next state begins with the subtask after the last longer part, so that leftovers do not pile up on
    subtask 0.
    """
    result = _empty_results(to)
    if _old_parallelism(states) == to:
        for name, lists in states.items():
            for index, elements in enumerate(lists):
                _give(result[index], name, _without_empty([elements]))
        return result
    start = 0
    for name, lists in states.items():
        whole = _without_empty(lists)
        size, remainder = divmod(sum(map(len, whole)), to)
        sizes = (size + (part < remainder) for part in range(to))
        for part, assigned in enumerate(_cut(whole, sizes)):
            _give(result[(start + part) % to], name, assigned)
        start = (start + remainder) % to
    return result


def union(states: ListStates, to: int) -> Dealt:
    """Gives every subtask all elements of each named state, in the order of the old subtasks."""
    result = _empty_results(to)
    for name, lists in states.items():
        elements = _without_empty(lists)
        for subtask in result:
            _give(subtask, name, elements)
    return result


def broadcast(states: ListStates, to: int) -> Dealt:
    """Gives every subtask one old subtask's copy of each named state, in turn over those that reported one."""
    result = _empty_results(to)
    for name, lists in states.items():
        reported = [_without_empty([elements]) for elements in lists if elements is not None]
        if reported:
            for index, subtask in enumerate(result):
                _give(subtask, name, reported[index % len(reported)])
    return result


class SubtaskMapper(Enum):
    """Whose in-flight data a new subtask replays after a change of parallelism."""

    RANGE = "RANGE"
    """Old subtasks whose key groups overlap with its own."""

    ROUND_ROBIN = "ROUND_ROBIN"
    """Every n-th old subtask, n being the new parallelism."""

    FIRST = "FIRST"
    """Subtask 0 replays all of them."""

    FULL = "FULL"
    """Every new subtask replays all of them."""

    UNSUPPORTED = "UNSUPPORTED"
    """Its own only: the parallelism must not change."""


_DOWNSTREAM = {
    Partitioning.HASH: SubtaskMapper.RANGE,
    Partitioning.REBALANCE: SubtaskMapper.ROUND_ROBIN,
    Partitioning.GLOBAL: SubtaskMapper.FIRST,
    # A forward edge has no in-flight data of its own: it was another edge then, and any subtask may take any record.
    Partitioning.FORWARD: SubtaskMapper.ROUND_ROBIN,
    Partitioning.BROADCAST: SubtaskMapper.UNSUPPORTED,
}


def downstream_mapper(partitioning: Partitioning) -> SubtaskMapper:
    """How the receiving subtasks of an edge share in-flight data."""
    return _DOWNSTREAM[partitioning]


def upstream_mapper(partitioning: Partitioning) -> SubtaskMapper:
    """How the sending subtasks of an edge share in-flight data."""
    unsupported = downstream_mapper(partitioning) is SubtaskMapper.UNSUPPORTED
    return SubtaskMapper.UNSUPPORTED if unsupported else SubtaskMapper.ROUND_ROBIN


def old_subtasks(
    mapper: SubtaskMapper, old_parallelism: int, new_parallelism: int, max_parallelism: int = MAX_PARALLELISM_LIMIT
) -> tuple[tuple[int, ...], ...]:
    """For each new subtask the old ones it replays, ascending. Every old subtask is replayed.

    `max_parallelism` must be the number of key groups of the records wherever it is known: with another number the
    borders of ranges fall differently, and the new owner of a record would not replay it.
    """
    _check_parallelism(old_parallelism)
    _check_parallelism(new_parallelism)
    everyone = tuple(range(old_parallelism))
    match mapper:
        case SubtaskMapper.RANGE:
            return tuple(
                tuple(
                    range(
                        owner(groups.start, old_parallelism, max_parallelism),
                        owner(groups.end, old_parallelism, max_parallelism) + 1,
                    )
                )
                for groups in key_group_ranges(max_parallelism, new_parallelism)
            )
        case SubtaskMapper.ROUND_ROBIN:
            return tuple(everyone[new::new_parallelism] for new in range(new_parallelism))
        case SubtaskMapper.FIRST:
            return (everyone, *(() for _ in range(1, new_parallelism)))
        case SubtaskMapper.FULL:
            return (everyone,) * new_parallelism
        case SubtaskMapper.UNSUPPORTED:
            if old_parallelism != new_parallelism:
                raise RestoreError(
                    f"in-flight data of this edge cannot move from parallelism {old_parallelism} to {new_parallelism}; "
                    f"restore at {old_parallelism}, or from a savepoint, which holds no in-flight data"
                )
            return tuple((index,) for index in everyone)


def is_ambiguous(mapping: Sequence[Sequence[int]]) -> tuple[bool, ...]:
    """For each old subtask of an `old_subtasks` result, whether several new ones replay it.

    Each of those sees all its records, and must keep only the ones that the partitioner sends to it.
    """
    takers = Counter(chain.from_iterable(mapping))
    return tuple(takers[old] > 1 for old in range(max(takers, default=-1) + 1))


def _old_parallelism(states: ListStates) -> int | None:
    parallelisms = {len(lists) for lists in states.values()}
    if len(parallelisms) > 1:
        counts = ", ".join(f"{name!r}: {len(lists)}" for name, lists in states.items())
        raise RestoreError(
            f"the states of one operator come from different numbers of subtasks ({counts}); the snapshot is damaged"
        )
    return parallelisms.pop() if parallelisms else None


def _without_empty(lists: Sequence[Sequence[ElementRange] | None]) -> tuple[ElementRange, ...]:
    return tuple(elements for pieces in lists if pieces for elements in pieces if elements)


def _cut(elements: Sequence[ElementRange], sizes: Iterator[int]) -> Iterator[tuple[ElementRange, ...]]:
    """Yields the next elements, as many as the next size says."""
    position = offset = 0
    for size in sizes:
        part, missing = list[ElementRange](), size
        while missing:
            whole = elements[position]
            count = min(missing, len(whole) - offset)
            part.append(ElementRange(whole.object, whole.start + offset, whole.start + offset + count))
            missing -= count
            offset += count
            if offset == len(whole):
                position, offset = position + 1, 0
        yield tuple(part)


def _give(subtask: dict[str, tuple[ElementRange, ...]], name: str, elements: tuple[ElementRange, ...]) -> None:
    if elements:
        subtask[name] = elements


def _empty_results(to: int) -> Dealt:
    _check_parallelism(to)
    return [{} for _ in range(to)]


def _check_parallelism(parallelism: int) -> None:
    if parallelism < 1:
        raise ConfigurationError(f"parallelism is {parallelism}; use at least 1")
