"""Reads partitions of a data source."""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from snapline.connectors.data_source.given_rows import GivenRows
from snapline.connectors.data_source.late_pyspark import data_source_types
from snapline.connectors.data_source.user_data_source import UserDataSource
from snapline.contracts.source import Position, SourceReader, Split
from snapline.errors import RestoreError


class PartitionReader(SourceReader):
    """Reads partitions one after another; the position is the number of rows that were read of one."""

    def __init__(self, user: UserDataSource, method: str, schema: pa.Schema, struct: Any, what: str) -> None:
        self._user = user
        self._method = method
        self._schema = schema
        self._struct = struct
        self._what = f"{what}: read()"
        self._converter = data_source_types().RowConverter(schema, struct, self._what)
        self._waiting: deque[tuple[Split, int]] = deque()
        self._made: Any = None
        self._rows: GivenRows | None = None

    def add_split(self, split: Split, position: Position) -> None:
        if not (isinstance(split, dict) and "partition" in split):
            raise RestoreError(f"{split!r} is not a split of {self._user}; was the snapshot taken with another source?")
        self._waiting.append((split, position or 0))

    def read(self) -> pa.RecordBatch | None:
        while self._waiting:
            split, done = self._waiting[0]
            with self._user.calling("read()"):
                if self._rows is None:
                    self._rows = self._opened(split, done)
                batch = self._rows.next()
            if batch is None:
                self._waiting.popleft()
                self._rows = None
            elif batch.num_rows:
                self._waiting[0] = (split, done + batch.num_rows)
                return batch
        return None

    def positions(self, checkpoint_id: int) -> Sequence[tuple[Split, Position]]:
        return list(self._waiting)

    def close(self) -> None:
        rows, self._rows = self._rows, None
        if rows is not None:
            with self._user.calling("read()"):
                rows.close()

    def _opened(self, split: Any, done: int) -> GivenRows:
        # Pickles of the driver's own making, or from checkpoints of this job.
        partition = pickle.loads(split["partition"])  # noqa: S301
        reader = pickle.loads(split["reader"]) if "reader" in split else self._reader()  # noqa: S301
        return GivenRows(reader.read(partition), self._schema, self._converter.batch, self._what, done)

    def _reader(self) -> Any:
        if self._made is None:
            with self._user.calling(f"{self._method}()"):
                self._made = getattr(self._user.made(), self._method)(self._struct)
        return self._made
