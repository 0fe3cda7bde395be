"""Reads a data source whose one reader finds out offsets while it reads."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from snapline.connectors.data_source.given_rows import GivenRows
from snapline.connectors.data_source.late_pyspark import data_source_types
from snapline.connectors.data_source.offsets import offset_text
from snapline.connectors.data_source.user_data_source import UserDataSource
from snapline.contracts.source import Position, SourceReader, Split, Wait
from snapline.errors import RestoreError, UserCodeError
from snapline.text import shortened


class OffsetReader(SourceReader):
    """Reads the one split of a `SimpleDataSourceStreamReader`.

    The position is the range of offsets that is being read, and how many rows of it were read. `end` is None between
    two ranges.
    """

    def __init__(
        self, user: UserDataSource, schema: pa.Schema, struct: Any, what: str, *, poll_ms: int, is_bounded: bool
    ) -> None:
        self._user = user
        self._schema = schema
        self._struct = struct
        self._what = what
        self._poll_s = poll_ms / 1000
        self._is_bounded = is_bounded
        self._converter = data_source_types().RowConverter(schema, struct, f"{what}: read()")
        self._split: Split = None
        self._start = ""
        self._end: str | None = None
        self._done = 0
        self._made: Any = None
        self._has_end = False
        """Whether a bounded reader was asked to end at what is there, and can."""
        self._rows: GivenRows | None = None
        self._starts: dict[int, str] = {}
        """By checkpoint, the offset up to which everything was read before it."""
        self._committed = ""

    def add_split(self, split: Split, position: Position) -> None:
        if not (isinstance(split, dict) and "start" in split):
            raise RestoreError(f"{split!r} is not a split of {self._user}; was the snapshot taken with another source?")
        self._split = split
        where = position or {"start": split["start"], "end": None, "rows": 0}
        self._start, self._end, self._done = where["start"], where["end"], where["rows"]
        self._committed = split["start"]

    def read(self) -> pa.RecordBatch | Wait | None:
        while self._split is not None:
            if self._rows is None and not self._open():
                if not self._is_bounded:
                    return Wait(self._poll_s)
                self._split = None
                break
            assert self._rows is not None
            with self._user.calling("read()"):
                batch = self._rows.next()
            if batch is None:
                assert self._end is not None
                self._start, self._end, self._done, self._rows = self._end, None, 0, None
                if self._is_bounded and not self._has_end:
                    self._split = None  # it may always find more: one range, as in Spark
            elif batch.num_rows:
                self._done += batch.num_rows
                return batch
        return None

    def positions(self, checkpoint_id: int) -> Sequence[tuple[Split, Position]]:
        self._starts[checkpoint_id] = self._start
        if self._split is None:
            return []
        return [(self._split, {"start": self._start, "end": self._end, "rows": self._done})]

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        settled = [each for each in self._starts if each <= checkpoint_id]
        start = self._starts.get(checkpoint_id)
        for each in settled:
            del self._starts[each]
        if start and start != self._committed:
            with self._user.calling("commit()"):
                self._reader().commit(json.loads(start))
            self._committed = start

    def checkpoint_aborted(self, checkpoint_id: int) -> None:
        self._starts.pop(checkpoint_id, None)

    def close(self) -> None:
        rows, self._rows = self._rows, None
        if rows is not None:
            with self._user.calling("read()"):
                rows.close()

    def _open(self) -> bool:
        """Begin with the next range, or go on in the one of a checkpoint; whether there is one."""
        start = json.loads(self._start)
        reader = self._reader()
        if self._end is not None:
            with self._user.calling("readBetweenOffsets()"):
                rows = reader.readBetweenOffsets(start, json.loads(self._end))
            what = f"{self._what}: readBetweenOffsets()"
            self._rows = GivenRows(rows, self._schema, self._converter.batch, what, self._done)
            return True
        with self._user.calling("read()"):
            given = reader.read(start)
        what = f"{self._what}: read()"
        if not (isinstance(given, tuple) and len(given) == 2):
            raise UserCodeError(f"{what} gave {shortened(given)}; it must give an iterator and the offset of its end")
        rows = GivenRows(given[0], self._schema, self._converter.batch, what)
        end = offset_text(given[1], what)
        if json.loads(end) == start:
            with self._user.calling("read()"):
                batch = rows.next()
            if batch is not None:
                raise UserCodeError(f"{what} gave rows, but the offset {shortened(start)} again, as if it had none")
            return False
        self._rows, self._end = rows, end
        return True

    def _reader(self) -> Any:
        if self._made is None:
            with self._user.calling("simpleStreamReader()"):
                self._made = self._user.made().simpleStreamReader(self._struct)
            if self._is_bounded:
                with self._user.calling("prepareForTriggerAvailableNow()"):
                    self._has_end = data_source_types().stop_growing(self._made)
        return self._made
