"""A source whose rows a function computes from their numbers, in splits that advance side by side."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from snapline.config.setting_checks import count
from snapline.contracts.schemas import SchemaLike, checked_schema, conform
from snapline.contracts.source import Position, ReaderContext, Source, SourceReader, Split, Wait
from snapline.errors import ConfigurationError, RestoreError, UserCodeError

RowsFunction: TypeAlias = Callable[[int, int], pa.RecordBatch]
"""`function(start, count)` returns rows `start` to `start + count - 1`; a row depends only on its number."""

MAX_ROWS = 1 << 62
MAX_BATCH_ROWS = 1_000_000
MAX_SPLITS = 100_000

_FULL_BATCH_ROWS = 32_768
_TURNS = 8
"""Minimum number of blocks per split, so that a short stream reaches all splits."""
_SHORTEST_WAIT_S = 0.01
"""Rows due within this time come in one batch, so that a high rate does not mean tiny batches."""
_MOST_BEHIND_S = 1.0
"""A reader catches up with at most this much delay: the rate is a limit."""


class Generate(Source):
    """Rows made by a function and numbered from 0: `function(start, count)` returns rows `start` and following.

    The rows are cut into blocks that are dealt to `splits` in turn, by default one split per subtask: split 1 of 4 has
    the blocks 1, 5, 9 and so on. All splits are read at the same time, so if event time rises with the row number, it
    rises alike in all subtasks. The number of splits is fixed when the job first starts, and later limits how many
    subtasks have work.

    rows: the number of rows; None never ends.
    rows_per_second: the rate of all subtasks together; None is unlimited.
    batch_rows: rows per block, and the limit of a batch. By default 32,768, or as many as are due within 10 ms if that
        is less, and few enough for every split to have some.
    """

    in_step = True

    def __init__(
        self,
        function: RowsFunction,
        rows: int | None = None,
        *,
        schema: SchemaLike,
        rows_per_second: float | None = None,
        splits: int | None = None,
        batch_rows: int | None = None,
    ) -> None:
        if not callable(function):
            raise ConfigurationError(
                f"Generate({function!r}): give a function(start, count) that returns a RecordBatch"
            )
        if rows_per_second is not None and not (_is_number(rows_per_second) and 0 < rows_per_second < float("inf")):
            raise ConfigurationError(f"rows_per_second={rows_per_second!r}: use a number above 0, or leave it out")
        self._function = function
        self._schema = checked_schema(schema, type(self).__name__)
        self._rows = None if rows is None else count(rows, "rows", least=0, most=MAX_ROWS)
        self._rows_per_second = rows_per_second
        self._splits = None if splits is None else count(splits, "splits", least=1, most=MAX_SPLITS)
        self._batch_rows = None if batch_rows is None else count(batch_rows, "batch_rows", least=1, most=MAX_BATCH_ROWS)

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    @property
    def is_bounded(self) -> bool:
        return self._rows is not None

    def splits(self, parallelism: int) -> Sequence[Split]:
        number = self._splits or parallelism
        block = self._block_rows(number)
        return [{"first": first, "step": number, "block": block} for first in range(number)]

    def reader(self, context: ReaderContext) -> SourceReader:
        return GenerateReader(self._function, self._schema, self._rows, self._rows_per_second)

    def _block_rows(self, splits: int) -> int:
        if self._batch_rows is not None:
            return self._batch_rows
        block = _FULL_BATCH_ROWS
        if self._rows is not None:
            block = min(block, self._rows // (splits * _TURNS))
        if self._rows_per_second is not None:
            block = min(block, int(self._rows_per_second * _SHORTEST_WAIT_S / splits))
        return max(block, 1)


class GenerateReader(SourceReader):
    """Makes the rows of its splits, lowest numbers first."""

    def __init__(
        self,
        function: RowsFunction,
        schema: pa.Schema,
        rows: int | None,
        rows_per_second: float | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._function = function
        self._schema = schema
        self._end = MAX_ROWS if rows is None else rows
        self._rows_per_second = rows_per_second
        self._clock = clock
        self._splits: list[_Blocks] = []
        self._paid_until_s: float | None = None

    def add_split(self, split: Split, position: Position) -> None:
        try:
            first, step, block = int(split["first"]), int(split["step"]), int(split["block"])
        except (TypeError, KeyError, ValueError):
            raise _no_split(split) from None
        if not (0 <= first < step and block > 0):
            raise _no_split(split)
        added = _Blocks(split, first, step, block, self._end, position or 0)
        if not added.is_done:
            self._splits.append(added)

    def read(self) -> pa.RecordBatch | Wait | None:
        if not self._splits:
            return None
        # Not round robin: a split that is behind would fall behind event time, and its rows would be late.
        split = min(self._splits, key=lambda split: split.start)
        if self._rows_per_second is None:
            return self._take(split, split.left)
        count, wait_s = self._due(split.left, sum(self._rows_per_second / other.step for other in self._splits))
        return self._take(split, count) if count else Wait(wait_s)

    def _due(self, left: int, rate: float) -> tuple[int, float]:
        """How many of the `left` rows are due now, and how long to wait if none are."""
        now_s = self._clock()
        if self._paid_until_s is None:
            self._paid_until_s = now_s
        self._paid_until_s = max(self._paid_until_s, now_s - _MOST_BEHIND_S - 1 / rate)
        least = min(left, max(1, int(rate * _SHORTEST_WAIT_S)))
        allowed = int((now_s - self._paid_until_s) * rate + 1e-6)
        if allowed < least:
            return 0, max(self._paid_until_s + least / rate - now_s, 1e-4)
        count = min(left, allowed)
        self._paid_until_s += count / rate
        return count, 0.0

    def positions(self, checkpoint_id: int) -> Sequence[tuple[Split, Position]]:
        return [(split.split, split.taken) for split in self._splits]

    def _take(self, split: _Blocks, count: int) -> pa.RecordBatch:
        batch = self._function(split.start, count)
        if not isinstance(batch, pa.RecordBatch) or batch.num_rows != count:
            given = f"{batch.num_rows} rows" if isinstance(batch, pa.RecordBatch) else f"a {type(batch).__name__}"
            raise UserCodeError(
                f"the function of Generate returned {given} for {count} rows from {split.start} on; it must return a "
                "RecordBatch with exactly those"
            )
        split.taken += count
        if split.is_done:
            self._splits.remove(split)
        return conform(batch, self._schema, "the function of Generate")


@dataclass(slots=True, eq=False)
class _Blocks:
    """Progress of a split: `taken` rows were read, and `start` is the number of the next. `end` ends the stream."""

    split: Split
    first: int
    step: int
    block: int
    end: int
    taken: int

    @property
    def start(self) -> int:
        blocks, within = divmod(self.taken, self.block)
        return (self.first + blocks * self.step) * self.block + within

    @property
    def left(self) -> int:
        """The rows left in the current block."""
        return min(self.block - self.taken % self.block, self.end - self.start)

    @property
    def is_done(self) -> bool:
        return self.start >= self.end


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _no_split(split: Split) -> RestoreError:
    return RestoreError(f"{split!r} is not a split of Generate; was the snapshot taken with another source?")
