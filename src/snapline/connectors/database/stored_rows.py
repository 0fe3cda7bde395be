"""Rows that a checkpoint keeps until their commit, as Arrow IPC streams."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

PART_BYTES = 64 << 20
"""About how large a part of the rows of a checkpoint may become; each part is one commit."""

BATCH_ROWS = 16_384
"""Rows of a stored batch. Whoever writes them converts one batch while the database reads the one before."""

_FEW_ROWS = BATCH_ROWS // 8
"""Batches with fewer rows than this on average are combined."""

_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)  # other subtasks use the other cores


class StoredRows:
    """Batches since the last checkpoint."""

    def __init__(self) -> None:
        self.size_bytes = 0
        self._batches: list[pa.RecordBatch] = []

    def add(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows:
            self._batches.append(batch)
            self.size_bytes += batch.nbytes

    def table(self) -> pa.Table:
        """What was added since the last `take`."""
        return pa.Table.from_batches(self._batches)

    def replace(self, table: pa.Table) -> None:
        """Keep these rows instead of what was added."""
        self._batches = table.to_batches()
        self.size_bytes = table.nbytes

    def take(self) -> list[bytes]:
        """What was added since the last call, in order, in parts."""
        batches, self._batches, self.size_bytes = self._batches, [], 0
        return [_stored(part) for part in _parts(batches)]


def rows_of(parts: Sequence[bytes]) -> list[pa.RecordBatch]:
    """The rows of parts that `take` returned."""
    return [batch for part in parts for batch in pa.ipc.open_stream(part)]


def _parts(batches: Sequence[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    part: list[pa.RecordBatch] = []
    size_bytes = 0
    for batch in batches:
        part.append(batch)
        size_bytes += batch.nbytes
        if size_bytes >= PART_BYTES:
            yield part
            part, size_bytes = [], 0
    if part:
        yield part


def _stored(batches: list[pa.RecordBatch]) -> bytes:
    sink = pa.BufferOutputStream()
    table = pa.Table.from_batches(batches)
    if table.num_rows < _FEW_ROWS * len(batches):
        table = table.combine_chunks()
    with pa.ipc.new_stream(sink, table.schema, options=_OPTIONS) as writer:
        writer.write_table(table, max_chunksize=BATCH_ROWS)
    stored: bytes = sink.getvalue().to_pybytes()
    return stored
