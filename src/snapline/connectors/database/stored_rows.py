"""Rows that a checkpoint keeps until their commit, as Arrow IPC streams."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

PART_BYTES = 64 << 20
"""About how large a part of the rows of a checkpoint may become; each part is one commit."""

_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


class StoredRows:
    """Batches since the last checkpoint."""

    def __init__(self) -> None:
        self._batches: list[pa.RecordBatch] = []

    def add(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows:
            self._batches.append(batch)

    def take(self) -> list[bytes]:
        """What was added since the last call, in order, in parts."""
        batches, self._batches = self._batches, []
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
    with pa.ipc.new_stream(sink, batches[0].schema, options=_OPTIONS) as writer:
        writer.write_table(pa.Table.from_batches(batches).combine_chunks())
    stored: bytes = sink.getvalue().to_pybytes()
    return stored
