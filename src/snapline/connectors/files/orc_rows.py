"""ORC files."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.orc

from snapline.connectors.files.file_rows import FileRows
from snapline.contracts.schemas import conform
from snapline.contracts.source import Position, Wait
from snapline.errors import UserCodeError


class OrcRows(FileRows):
    """Reads a stripe at a time. A position is a stripe."""

    def __init__(self, path: str, source: pa.NativeFile, schema: pa.Schema, position: Position) -> None:
        self._path = path
        self._source = source
        self._schema = schema
        self._file = pyarrow.orc.ORCFile(source)
        found = self._file.schema.names
        for name in schema.names:
            if name not in found:
                raise UserCodeError(
                    f"the file {path!r} has no column {name!r}; it has {', '.join(map(repr, found))}. Move it out of "
                    "the directory, or correct schema="
                )
        self._stripe: int = position or 0

    def read(self) -> pa.RecordBatch | Wait | None:
        while self._stripe < self._file.nstripes:
            stripe = self._file.read_stripe(self._stripe, columns=self._schema.names)
            self._stripe += 1
            if stripe.num_rows:
                columns = [_whole(stripe.column(name)) for name in self._schema.names]
                batch = pa.RecordBatch.from_arrays(columns, names=self._schema.names)
                return conform(batch, self._schema, f"the file {self._path!r}")
        return None

    @property
    def position(self) -> Position:
        return self._stripe

    def close(self) -> None:
        self._source.close()


def _whole(column: pa.Array) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
