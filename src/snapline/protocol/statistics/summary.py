"""A measurement as count, extremes, average and percentiles."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Summary:
    """A measurement over many checkpoints or subtasks; all zero without any. Averages are rounded down."""

    count: int = 0
    min: int = 0
    max: int = 0
    avg: int = 0
    p50: float = 0.0
    p90: float = 0.0
    p95: float = 0.0
    p99: float = 0.0
    p999: float = 0.0

    def __repr__(self) -> str:
        if self.count == 0:
            return "<Summary of 0>"
        return f"<Summary of {self.count}: min {self.min}, median {self.p50:g}, p99 {self.p99:g}, max {self.max}>"

    @staticmethod
    def of(values: Iterable[int]) -> Summary:
        """Summary of `values`. Negative ones were not measured and are left out."""
        ordered = sorted(value for value in values if value >= 0)
        if not ordered:
            return EMPTY
        return _summary(len(ordered), ordered[0], ordered[-1], sum(ordered), ordered)


EMPTY = Summary()


def percentile(ordered: Sequence[int], permille: int) -> float:
    """The value below which `permille` thousandths of `ordered` lie, which must be ascending and not empty.

    Interpolates at position `p * (n + 1)`, counted from 1. A position before the first value or behind the last gives
    that value.
    """
    whole, part = divmod(permille * (len(ordered) + 1), 1000)
    if whole < 1:
        return float(ordered[0])
    if whole >= len(ordered):
        return float(ordered[-1])
    lower, upper = ordered[whole - 1], ordered[whole]
    return lower + part / 1000 * (upper - lower)


def median(values: Iterable[int]) -> float:
    """The median; 0 without values."""
    ordered = sorted(values)
    return percentile(ordered, 500) if ordered else 0.0


def _summary(count: int, least: int, greatest: int, total: int, ordered: Sequence[int]) -> Summary:
    quantiles = (percentile(ordered, permille) for permille in (500, 900, 950, 990, 999))
    return Summary(count, least, greatest, total // count, *quantiles)


class Tally:
    """A running measurement in bounded memory. The latest values are also kept in ascending order."""

    __slots__ = ("_count", "_greatest", "_latest", "_least", "_ordered", "_total", "_window")

    def __init__(self, window: int) -> None:
        self._window = window
        self._count = self._least = self._greatest = self._total = 0
        self._latest: deque[int] = deque()
        self._ordered: list[int] = []

    def add(self, value: int) -> None:
        """Counts `value`, unless it is negative and so was not measured."""
        if value < 0:
            return
        self._least = value if self._count == 0 else min(self._least, value)
        self._greatest = max(self._greatest, value)
        self._count += 1
        self._total += value
        self._latest.append(value)
        insort(self._ordered, value)
        if len(self._latest) > self._window:
            del self._ordered[bisect_left(self._ordered, self._latest.popleft())]

    def preceded_by(self, summary: Summary, total: int, latest: Sequence[int]) -> None:
        """Count what was measured before: `summary` and its sum are over all of it, `latest` is the end of it."""
        if summary.count == 0:
            return
        self._least = summary.min if self._count == 0 else min(self._least, summary.min)
        self._greatest = max(self._greatest, summary.max)
        self._count += summary.count
        self._total += total
        # Percentiles need a value, even if none was kept.
        values = (*(latest or (summary.avg,)), *self._latest)
        self._latest = deque(values[-self._window :])
        self._ordered = sorted(self._latest)

    @property
    def total(self) -> int:
        return self._total

    def summary(self) -> Summary:
        if self._count == 0:
            return EMPTY
        return _summary(self._count, self._least, self._greatest, self._total, self._ordered)
