"""The subtasks of a checkpoint that has long ended, packed: a history of thousands of them must fit into memory."""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import astuple, fields
from typing import overload

from snapline.protocol.statistics.checkpoint_records import NO_ACK, SubtaskMetrics, SubtaskStatistics

_NAMES = [field.name for field in fields(SubtaskMetrics)][:-2]
_METRICS = len(_NAMES) + 2
_WIDTH = 5 + _METRICS
_NO_METRICS = (0,) * _METRICS
_LEVEL = 1


class PackedSubtasks(Sequence[SubtaskStatistics]):
    """A sequence that is unpacked each time it is read. `max_commit_ms` is the latest of its commits, or -1."""

    __slots__ = ("_count", "_data", "max_commit_ms")

    def __init__(self, subtasks: Sequence[SubtaskStatistics]) -> None:
        numbers = array("q")
        for column in zip(*map(_numbers, subtasks), strict=True):
            numbers.extend(column)
        self._count = len(subtasks)
        self.max_commit_ms = max((subtask.commit_ms for subtask in subtasks), default=NO_ACK)
        self._data = zlib.compress(numbers.tobytes(), _LEVEL)

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> SubtaskStatistics: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[SubtaskStatistics]: ...

    def __getitem__(self, index: int | slice) -> SubtaskStatistics | Sequence[SubtaskStatistics]:
        return tuple(self)[index]

    def __iter__(self) -> Iterator[SubtaskStatistics]:
        numbers = array("q")
        numbers.frombytes(zlib.decompress(self._data))
        count = self._count
        columns = [numbers[start * count : (start + 1) * count] for start in range(_WIDTH)]
        for index, ack_ms, duration_ms, commit_ms, has_metrics, *measured in zip(*columns, strict=True):
            metrics = _metrics(measured) if has_metrics else None
            yield SubtaskStatistics(index, ack_ms, duration_ms, metrics, commit_ms)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]

    @property
    def size_bytes(self) -> int:
        return len(self._data)


def _numbers(subtask: SubtaskStatistics) -> tuple[int, ...]:
    metrics = subtask.metrics
    measured = _NO_METRICS if metrics is None else tuple(map(int, astuple(metrics)))
    known = subtask.index, subtask.ack_ms, subtask.end_to_end_duration_ms, subtask.commit_ms, int(metrics is not None)
    return known + measured


def _metrics(measured: Sequence[int]) -> SubtaskMetrics:
    numbers, unaligned, aborted = measured[:-2], bool(measured[-2]), bool(measured[-1])
    return SubtaskMetrics(**dict(zip(_NAMES, numbers, strict=True)), unaligned=unaligned, aborted=aborted)
