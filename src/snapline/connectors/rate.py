"""Rows of known content at a known rate, for demonstrations, tests and benchmarks."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from snapline.api.source import Position, ReaderContext, Source, SourceReader, Split, Wait
from snapline.errors import ConfigurationError, RestoreError

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("user", pa.string()),
        pa.field("value", pa.int64()),
        pa.field("time", pa.timestamp("ms", tz="UTC")),
    ]
)
_VALUES = 100
_MAX_USERS = 1_000_000
_MAX_ROWS = 1 << 62
_MAX_BATCH_ROWS = 1_000_000
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_SHORTEST_WAIT_S = 0.01
"""Rows that fall due within this time come together, so that a high rate does not mean tiny batches."""
_MOST_BEHIND_S = 1.0
"""Who was held up for longer does not catch up with the rest: the rate is a limit."""


class Rate(Source):
    """Rows with an `id` from 0 on, a `user`, a `value` from 0 to 99 and the `time` they were made at.

    All but the time depend only on the id. `rows_per_second` is for all subtasks together; without it rows come as
    fast as they can. Without `rows` they never end. `users` is how many different users there are. The ids are dealt
    out to `splits`, as many as there are subtasks if not said.
    """

    def __init__(
        self,
        rows_per_second: float | None = None,
        *,
        rows: int | None = None,
        users: int = 1000,
        splits: int | None = None,
        batch_rows: int = 4096,
    ) -> None:
        if rows_per_second is not None and not 0 < rows_per_second < float("inf"):
            raise ConfigurationError(f"rows_per_second={rows_per_second!r}: use more than 0, or leave it out")
        self._rows_per_second = rows_per_second
        self._rows = None if rows is None else _count("rows", rows, 0, _MAX_ROWS)
        self._users = _count("users", users, 1, _MAX_USERS)
        self._splits = None if splits is None else _count("splits", splits, 1, 100_000)
        self._batch_rows = _count("batch_rows", batch_rows, 1, _MAX_BATCH_ROWS)

    @property
    def schema(self) -> pa.Schema:
        return SCHEMA

    @property
    def is_bounded(self) -> bool:
        return self._rows is not None

    def splits(self, parallelism: int) -> Sequence[Split]:
        number = self._splits or parallelism
        return [{"first": first, "step": number} for first in range(number)]

    def reader(self, context: ReaderContext) -> SourceReader:
        return RateReader(self._rows_per_second, self._rows, self._users, self._batch_rows, context.parallelism)

    def expected_counts(self) -> dict[str, int]:
        """How many rows each user has in all; only of a source that ends."""
        return self._expected(None)

    def expected_sums(self) -> dict[str, int]:
        """The sum of the values of each user; only of a source that ends."""
        return self._expected(_value_numbers)

    def _expected(self, weights: Callable[[npt.NDArray[np.int64]], npt.NDArray[np.int64]] | None) -> dict[str, int]:
        if self._rows is None:
            raise ConfigurationError("a Rate without `rows` never ends, so there is nothing to expect; give `rows`")
        result = np.zeros(self._users, dtype=np.int64)
        seen = np.zeros(self._users, dtype=bool)
        for start in range(0, self._rows, _MAX_BATCH_ROWS):
            ids = np.arange(start, min(start + _MAX_BATCH_ROWS, self._rows))
            users = _user_numbers(ids, self._users)
            np.add.at(result, users, 1 if weights is None else weights(ids))
            seen[users] = True
        return {f"user-{user}": int(result[user]) for user in np.flatnonzero(seen)}


class RateReader(SourceReader):
    """Makes the rows of its splits, one split after the other in turn."""

    def __init__(
        self,
        rows_per_second: float | None,
        rows: int | None,
        users: int,
        batch_rows: int,
        parallelism: int,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._rows_per_second = rows_per_second
        self._rows = rows
        self._users = users
        self._names = pa.array([f"user-{number}" for number in range(users)])
        self._batch_rows = batch_rows
        self._parallelism = parallelism
        self._clock = clock
        self._now = now
        self._splits: list[_RateSplit] = []
        self._turn = 0

    def add_split(self, split: Split, position: Position) -> None:
        first, step = int(split["first"]), int(split["step"])
        if not 0 <= first < step:
            raise RestoreError(f"{split!r} is no split of Rate; was the snapshot taken with another source?")
        total = None if self._rows is None else max(0, -(-(self._rows - first) // step))
        # Splits that end are read one after the other, as many at a time as there are subtasks.
        at_a_time = step if total is None else min(step, self._parallelism)
        rate = None if self._rows_per_second is None else self._rows_per_second / at_a_time
        self._splits.append(_RateSplit(split, first, step, total, rate, 0 if position is None else position))

    def read(self) -> pa.RecordBatch | Wait | None:
        self._splits = [split for split in self._splits if not split.is_done]
        if not self._splits:
            return None
        now_s = self._clock()
        wait_s = float("inf")
        for offset in range(len(self._splits)):
            split = self._splits[(self._turn + offset) % len(self._splits)]
            rows, split_wait_s = split.due(now_s, self._batch_rows)
            if rows:
                self._turn += offset + 1
                return self._batch(split.take(rows))
            wait_s = min(wait_s, split_wait_s)
        return Wait(wait_s)

    def positions(self) -> Sequence[tuple[Split, Position]]:
        return [(split.split, split.next) for split in self._splits if not split.is_done]

    def _batch(self, ids: npt.NDArray[np.int64]) -> pa.RecordBatch:
        times = np.full(len(ids), int(self._now() * 1000), dtype=np.int64)
        columns = [
            pa.array(ids),
            self._names.take(pa.array(_user_numbers(ids, self._users))),
            pa.array(_value_numbers(ids)),
            pa.array(times).cast(SCHEMA.field("time").type),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


class _RateSplit:
    """How far a split is, and when its next rows are due. `next` counts its rows, not ids."""

    def __init__(
        self, split: Split, first: int, step: int, total: int | None, rows_per_second: float | None, position: int
    ) -> None:
        self.split = split
        self.next = position
        self._first = first
        self._step = step
        self._total = total
        self._rows_per_second = rows_per_second
        self._paid_until_s: float | None = None

    @property
    def is_done(self) -> bool:
        return self._total is not None and self.next >= self._total

    def due(self, now_s: float, most: int) -> tuple[int, float]:
        """How many rows may come now, at most `most`, and if none how long to wait for some."""
        left = most if self._total is None else min(most, self._total - self.next)
        rate = self._rows_per_second
        if rate is None:
            return left, 0.0
        if self._paid_until_s is None:
            self._paid_until_s = now_s
        self._paid_until_s = max(self._paid_until_s, now_s - _MOST_BEHIND_S - 1 / rate)
        least = min(left, max(1, int(rate * _SHORTEST_WAIT_S)))
        allowed = int((now_s - self._paid_until_s) * rate + 1e-6)
        if allowed < least:
            return 0, max(self._paid_until_s + least / rate - now_s, 1e-4)
        rows = min(left, allowed)
        self._paid_until_s += rows / rate
        return rows, 0.0

    def take(self, rows: int) -> npt.NDArray[np.int64]:
        """The ids of the next rows."""
        start, self.next = self.next, self.next + rows
        ids: npt.NDArray[np.int64] = self._first + np.arange(start, self.next, dtype=np.int64) * self._step
        return ids


def _hashes(ids: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    mixed = ids.astype(np.uint64) * _FACTOR
    result: npt.NDArray[np.uint64] = (mixed ^ (mixed >> np.uint64(29))) * _FACTOR
    return result


def _user_numbers(ids: npt.NDArray[np.int64], users: int) -> npt.NDArray[np.int64]:
    return ((_hashes(ids) >> np.uint64(33)) % np.uint64(users)).astype(np.int64)


def _value_numbers(ids: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return ((_hashes(ids) >> np.uint64(11)) % np.uint64(_VALUES)).astype(np.int64)


def _count(setting: str, value: Any, least: int, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ConfigurationError(f"{setting}={value!r}: use a whole number from {least} to {most}")
    return value
