"""Rows that the generators of a data source give, as batches."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import Any

import pyarrow as pa

from snapline.contracts.schemas import conform, empty_batch
from snapline.errors import UserCodeError
from snapline.text import shortened

MAX_ROWS = 10_000
_FIRST_ROWS = 64
_LONGEST_READ_S = 0.02
"""A slow generator gives smaller batches: barriers wait for `next` to return."""


class GivenRows:
    """The rest of an iterable of rows or RecordBatches, behind the first `skip` rows. Spark's rule: as the first is."""

    def __init__(
        self,
        rows: Iterable[Any],
        schema: pa.Schema,
        to_batch: Callable[[list[Any]], pa.RecordBatch],
        what: str,
        skip: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._given = rows
        self._rows: Iterator[Any] | None = None
        self._schema = schema
        self._to_batch = to_batch
        self._what = what
        self._skip = skip
        self._clock = clock
        self._is_arrow = False
        self._chunk = _FIRST_ROWS

    def next(self) -> pa.RecordBatch | None:
        """The next rows, perhaps none of them this time; None at the end."""
        if self._rows is None:
            self._rows = self._opened()
        batch = self._next_batch(self._rows) if self._is_arrow else self._next_rows(self._rows)
        if batch is None and self._skip:
            raise UserCodeError(
                f"{self._what} ended {self._skip} rows before the position reached before the restart; it must give "
                "the same rows every time"
            )
        return batch

    def close(self) -> None:
        """End a generator in the middle."""
        close = getattr(self._given, "close", None)
        if close is not None:
            close()

    def _opened(self) -> Iterator[Any]:
        try:
            rows = iter(self._given)
        except TypeError:
            raise UserCodeError(f"{self._what} gave {shortened(self._given)}; it must give an iterator") from None
        first = list(islice(rows, 1))
        self._is_arrow = bool(first) and isinstance(first[0], pa.RecordBatch)
        return chain(first, rows) if first else rows

    def _next_batch(self, rows: Iterator[Any]) -> pa.RecordBatch | None:
        batch = next(rows, None)
        if batch is None:
            return None
        if not isinstance(batch, pa.RecordBatch):
            raise UserCodeError(f"{self._what} gave {shortened(batch)} after a RecordBatch; give only one kind")
        skipped = min(self._skip, batch.num_rows)
        self._skip -= skipped
        return conform(batch.slice(skipped), self._schema, self._what)

    def _next_rows(self, rows: Iterator[Any]) -> pa.RecordBatch | None:
        start_s = self._clock()
        found = list(islice(rows, self._chunk))
        took_s = self._clock() - start_s
        if took_s > _LONGEST_READ_S:
            self._chunk = max(1, self._chunk // 4)
        elif took_s < _LONGEST_READ_S / 8:
            self._chunk = min(MAX_ROWS, self._chunk * 4)
        if not found:
            return None
        skipped = min(self._skip, len(found))
        self._skip -= skipped
        return self._to_batch(found[skipped:]) if skipped < len(found) else empty_batch(self._schema)
