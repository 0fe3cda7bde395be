"""Text files of which each line is a row with one column, or what a parser makes of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pyarrow as pa

from snapline.connectors.files.file_rows import FileRows
from snapline.contracts.source import Position, Wait

LineParser: TypeAlias = Callable[[pa.Array, pa.Schema], pa.RecordBatch]
"""Makes rows with the columns of a schema of lines, not always one for each. Pickled with the job."""

_BLOCK_BYTES = 1 << 20
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class LineRows(FileRows):
    """Lines end with a newline, a carriage return, or both, as in Spark; other bytes than UTF-8 are replaced,
    and a byte order mark is left out.

    A position is a number of lines; seeking reads all earlier ones again. With `header` the first line is left out.
    """

    def __init__(
        self,
        stream: pa.NativeFile,
        schema: pa.Schema,
        position: Position,
        parse: LineParser | None = None,
        *,
        header: bool = False,
    ) -> None:
        self._stream = stream
        self._schema = schema
        self._parse = parse
        self._row = 0
        self._to_skip: int = max(position or 0, int(header))
        self._rest = b""
        self._has_ended = False
        self._is_first = True

    def read(self) -> pa.RecordBatch | Wait | None:
        while not self._has_ended:
            block = self._stream.read(_BLOCK_BYTES)
            self._has_ended = not block
            if self._is_first:
                block, self._is_first = block.removeprefix(_BYTE_ORDER_MARK), False
            lines = (self._rest + block).splitlines(keepends=True)
            # The last line may go on in the next block, and so may the end of one that ends in a carriage return.
            is_open = bool(lines) and not self._has_ended and not lines[-1].endswith(b"\n")
            self._rest = lines.pop() if is_open else b""
            skipped = min(self._to_skip, len(lines))
            self._to_skip -= skipped
            self._row += len(lines)
            if len(lines) > skipped:
                batch = self._batch([line.rstrip(b"\r\n") for line in lines[skipped:]])
                return batch if batch.num_rows else Wait(0)
        return None

    def _batch(self, lines: list[bytes]) -> pa.RecordBatch:
        try:
            values = pa.array(lines, pa.binary()).cast(pa.string())
        except pa.ArrowInvalid:
            values = pa.array([line.decode(errors="replace") for line in lines], pa.string())
        if self._parse is not None:
            return self._parse(values, self._schema)
        return pa.RecordBatch.from_arrays([values.cast(self._schema.field(0).type)], schema=self._schema)

    @property
    def position(self) -> Position:
        return max(self._row, self._to_skip)

    def close(self) -> None:
        self._stream.close()
