"""A source that reads up to a row that a file names, so that a run can end whenever it likes and know all rows."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import pyarrow as pa

from snapline.connectors.generate import Generate, GenerateReader, RowsFunction
from snapline.contracts.source import ReaderContext, SourceReader, Wait

MOST_ROWS = 1 << 40
_LOOK_S = 0.1
_END = "end"


class Limit:
    """How many rows there are up to now. One process moves it, sources in others read it."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def set(self, rows: int, *, is_last: bool = False) -> None:
        """Never lower it."""
        new = self._file.with_name(f"{self._file.name}.new")
        new.write_text(f"{rows} {_END if is_last else ''}")
        new.replace(self._file)

    def get(self) -> tuple[int, bool]:
        """The number of rows, and whether it is the last one."""
        with contextlib.suppress(FileNotFoundError):
            rows, _, end = self._file.read_text().partition(" ")
            return int(rows), end == _END
        return 0, False


class Paced(Generate):
    """`Generate`, as far as the limit allows. The limit is a multiple of `batch_rows * rows_each`.

    rows_each: how many rows of the limit stand for one row of this source.
    """

    def __init__(
        self,
        function: RowsFunction,
        limit_file: str,
        *,
        schema: pa.Schema,
        rows_per_second: float,
        splits: int,
        batch_rows: int,
        rows_each: int = 1,
    ) -> None:
        super().__init__(
            function,
            MOST_ROWS,
            schema=schema,
            rows_per_second=rows_per_second,
            splits=splits,
            batch_rows=batch_rows,
        )
        self._limit_file = limit_file
        self._rows_each = rows_each

    def reader(self, context: ReaderContext) -> SourceReader:
        del context
        assert self._rows_per_second is not None
        return _PacedReader(
            self._function, self._schema, self._rows_per_second, Limit(Path(self._limit_file)), self._rows_each
        )


class _PacedReader(GenerateReader):
    def __init__(
        self, function: RowsFunction, schema: pa.Schema, rows_per_second: float, limit: Limit, rows_each: int
    ) -> None:
        super().__init__(function, schema, MOST_ROWS, rows_per_second)
        self._limit = limit
        self._rows_each = rows_each
        self._allowed = 0
        self._is_last = False
        self._looked_s = float("-inf")

    def read(self) -> pa.RecordBatch | Wait | None:
        if self._splits and min(split.start for split in self._splits) >= self._allowed and not self._look():
            return Wait(_LOOK_S)
        return super().read()

    def _look(self) -> bool:
        """Read the limit again. Returns False if there is nothing to read for now."""
        now_s = time.monotonic()
        if now_s - self._looked_s < _LOOK_S and not self._is_last:
            return False
        self._looked_s = now_s
        rows, self._is_last = self._limit.get()
        self._allowed = rows // self._rows_each
        if self._is_last:
            # Whole blocks: no split stands before the limit and reads past it.
            self._splits = [split for split in self._splits if split.start < self._allowed]
            return True
        return min(split.start for split in self._splits) < self._allowed
