"""Text files of which each line is a row with one column."""

from __future__ import annotations

import pyarrow as pa

from snapline.connectors.files.file_rows import FileRows
from snapline.contracts.source import Position, Wait

_BLOCK_BYTES = 1 << 20


class LineRows(FileRows):
    """Lines end with a newline, a carriage return, or both, as in Spark; other bytes than UTF-8 are replaced.

    A position is a number of lines; seeking reads all earlier ones again.
    """

    def __init__(self, stream: pa.NativeFile, schema: pa.Schema, position: Position) -> None:
        self._stream = stream
        self._schema = schema
        self._row = 0
        self._to_skip: int = position or 0
        self._rest = b""
        self._has_ended = False

    def read(self) -> pa.RecordBatch | Wait | None:
        while not self._has_ended:
            block = self._stream.read(_BLOCK_BYTES)
            self._has_ended = not block
            lines = (self._rest + block).splitlines(keepends=True)
            # The last line may go on in the next block, and so may the end of one that ends in a carriage return.
            is_open = bool(lines) and not self._has_ended and not lines[-1].endswith(b"\n")
            self._rest = lines.pop() if is_open else b""
            skipped = min(self._to_skip, len(lines))
            self._to_skip -= skipped
            self._row += len(lines)
            if len(lines) > skipped:
                return self._batch([line.rstrip(b"\r\n") for line in lines[skipped:]])
        return None

    def _batch(self, lines: list[bytes]) -> pa.RecordBatch:
        try:
            values = pa.array(lines, pa.binary()).cast(pa.string())
        except pa.ArrowInvalid:
            values = pa.array([line.decode(errors="replace") for line in lines], pa.string())
        return pa.RecordBatch.from_arrays([values.cast(self._schema.field(0).type)], schema=self._schema)

    @property
    def position(self) -> Position:
        return max(self._row, self._to_skip)

    def close(self) -> None:
        self._stream.close()
