"""Numbers at a steady rate, until a file says where they end."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from snapline.contracts.source import Position, ReaderContext, Source, SourceReader, Split, Wait

SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("text", pa.string())])
SPLITS = 2
BATCH_S = 0.01


class Numbers(Source):
    """Split *i* has the numbers that are *i* modulo `SPLITS`, and notes in the file `at-<i>` how far it has come.

    `end` is the file with the first number that is not there.
    """

    def __init__(self, directory: Path, rows_per_second: int) -> None:
        self._directory = str(directory)
        self._rows_per_second = rows_per_second

    @property
    def schema(self) -> pa.Schema:
        return SCHEMA

    @property
    def is_bounded(self) -> bool:
        return True

    @property
    def in_step(self) -> bool:
        return True

    def splits(self, parallelism: int) -> Sequence[Split]:
        del parallelism
        return list(range(SPLITS))

    def reader(self, context: ReaderContext) -> SourceReader:
        del context
        return _NumbersReader(Path(self._directory), self._rows_per_second)


def furthest(directory: Path) -> int:
    """How far the splits have come."""
    return max((int(path.read_text()) for path in directory.glob("at-*")), default=0)


class _NumbersReader(SourceReader):
    def __init__(self, directory: Path, rows_per_second: int) -> None:
        self._directory = directory
        self._end_file = directory / "end"
        self._batch_rows = max(1, round(rows_per_second * BATCH_S / SPLITS))
        self._at: dict[int, int] = {}
        self._due_s = 0.0
        self._end: int | None = None

    def add_split(self, split: Split, position: Position) -> None:
        self._at[split] = split if position is None else position

    def read(self) -> pa.RecordBatch | Wait | None:
        now_s = time.monotonic()
        if self._at and now_s < self._due_s:
            return Wait(self._due_s - now_s)
        self._due_s = max(self._due_s + BATCH_S, now_s)
        if self._end is None:
            with contextlib.suppress(FileNotFoundError):
                self._end = int(self._end_file.read_text())
        numbers: list[int] = []
        for split, at in list(self._at.items()):
            until = at + SPLITS * self._batch_rows
            until = until if self._end is None else min(until, self._end)
            numbers += range(at, until, SPLITS)
            self._at[split] = at + SPLITS * len(range(at, until, SPLITS))
            new = self._directory / f"new-{split}"
            new.write_text(str(self._at[split]))
            new.rename(self._directory / f"at-{split}")
            if self._end is not None and self._at[split] >= self._end:
                del self._at[split]
        if not numbers:
            return None
        texts = [f"row {number}" for number in numbers]
        return pa.record_batch([pa.array(numbers, pa.int64()), pa.array(texts)], schema=SCHEMA)

    def positions(self, checkpoint_id: int) -> Sequence[tuple[Split, Position]]:
        return list(self._at.items())
