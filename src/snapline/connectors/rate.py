"""Rows of known content at a known rate, for demonstrations, tests and benchmarks."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cached_property, partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from snapline.config.setting_checks import count
from snapline.connectors.generate import MAX_BATCH_ROWS, MAX_ROWS, Generate
from snapline.errors import ConfigurationError

_TIME = pa.timestamp("ms", tz="UTC")
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("user", pa.string()),
        pa.field("value", pa.int64()),
        pa.field("time", _TIME),
    ]
)
_VALUES = 100
_MAX_USERS = 1_000_000
_FACTOR = np.uint64(0x9E3779B97F4A7C15)

_NUMBERS = pa.schema([pa.field("value", pa.int64())])


class Rate(Generate):
    """Rows with an `id` counting from 0, a `user`, a `value` from 0 to 99 and the `time` they were made.

    User and value depend only on the id. `users` is the number of distinct users; the rest is as in `Generate`.
    """

    def __init__(
        self,
        rows_per_second: float | None = None,
        *,
        rows: int | None = None,
        users: int = 1000,
        splits: int | None = None,
        batch_rows: int | None = None,
    ) -> None:
        self._users = count(users, "users", least=1, most=_MAX_USERS)
        super().__init__(
            RateRows(users), rows, schema=SCHEMA, rows_per_second=rows_per_second, splits=splits, batch_rows=batch_rows
        )

    def expected_counts(self) -> dict[str, int]:
        """The number of rows of each user. Raises `ConfigurationError` without `rows`."""
        return self._expected(None)

    def expected_sums(self) -> dict[str, int]:
        """The sum of the values of each user. Raises `ConfigurationError` without `rows`."""
        return self._expected(_value_numbers)

    def _expected(self, weights: Callable[[npt.NDArray[np.uint64]], npt.NDArray[np.int64]] | None) -> dict[str, int]:
        if self._rows is None:
            raise ConfigurationError("a Rate without `rows` never ends, so it has no expected result; give `rows`")
        result = np.zeros(self._users, dtype=np.int64)
        seen = np.zeros(self._users, dtype=bool)
        for start in range(0, self._rows, MAX_BATCH_ROWS):
            hashes = _hashes(start, min(MAX_BATCH_ROWS, self._rows - start))
            users = _user_numbers(hashes, self._users)
            np.add.at(result, users, 1 if weights is None else weights(hashes))
            seen[users] = True
        return {f"user-{user}": int(result[user]) for user in np.flatnonzero(seen)}


class RateRows:
    """Makes the rows of `Rate`; `now` returns their time in seconds since 1970."""

    def __init__(self, users: int, now: Callable[[], float] = time.time) -> None:
        self._users = users
        self._now = now

    def __call__(self, start: int, count: int) -> pa.RecordBatch:
        hashes = _hashes(start, count)
        times = np.full(count, int(self._now() * 1000), dtype=np.int64)
        columns = [
            pa.array(np.arange(start, start + count)),
            self._names.take(pa.array(_user_numbers(hashes, self._users))),
            pa.array(_value_numbers(hashes)),
            pa.array(times).view(_TIME),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)

    @cached_property
    def _names(self) -> pa.Array:
        return pa.array([f"user-{number}" for number in range(self._users)])


class Sequence(Generate):
    """Numbers from `start` up to, not including, `end`, in the column `value`; without `end` they never end.

    `step` is the difference between two numbers and may be negative; the rest is as in `Generate`.
    """

    def __init__(
        self,
        start: int,
        end: int | None = None,
        step: int = 1,
        *,
        rows_per_second: float | None = None,
        splits: int | None = None,
        batch_rows: int | None = None,
    ) -> None:
        count(start, "start", least=-MAX_ROWS, most=MAX_ROWS)
        count(step, "step", least=-MAX_ROWS, most=MAX_ROWS)
        if step == 0:
            raise ConfigurationError("step=0: the numbers would never change; use another step")
        if end is not None:
            count(end, "end", least=-MAX_ROWS, most=MAX_ROWS)
        super().__init__(
            partial(_numbers, start, step),
            None if end is None else len(range(start, end, step)),
            schema=_NUMBERS,
            rows_per_second=rows_per_second,
            splits=splits,
            batch_rows=batch_rows,
        )


def _numbers(first: int, step: int, start: int, count: int) -> pa.RecordBatch:
    values = np.arange(count, dtype=np.int64)
    values *= step
    values += first + start * step
    return pa.RecordBatch.from_arrays([pa.array(values)], schema=_NUMBERS)


def _hashes(start: int, count: int) -> npt.NDArray[np.uint64]:
    mixed = np.arange(start, start + count, dtype=np.uint64)
    mixed *= _FACTOR
    mixed ^= mixed >> np.uint64(29)
    mixed *= _FACTOR
    return mixed


def _user_numbers(hashes: npt.NDArray[np.uint64], users: int) -> npt.NDArray[np.int32]:
    numbers = (hashes >> np.uint64(33)).astype(np.uint32)
    # In numpy, division by a scalar is many times faster than the remainder.
    numbers -= numbers // np.uint32(users) * np.uint32(users)
    return numbers.view(np.int32)


def _value_numbers(hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    numbers = hashes >> np.uint64(11)
    numbers -= numbers // np.uint64(_VALUES) * np.uint64(_VALUES)
    return numbers.view(np.int64)
