"""Text of COPY that a checkpoint keeps until its commit, compressed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from snapline.errors import RestoreError

PART_BYTES = 64 << 20
"""About how much text of a checkpoint becomes one commit."""

PIECE_BYTES = 1 << 20
"""Texts are compressed together from this size on: each alone would be small, and compress badly."""

_ZSTD_LEVEL = 1
"""Not slower than faster methods in the end: what it saves would be copied several times, and written."""


class StoredText:
    """Text since the last checkpoint, in pieces. Memory is that of the compressed pieces."""

    def __init__(self) -> None:
        self._codec = pa.Codec("zstd", compression_level=_ZSTD_LEVEL)
        self._waiting: list[pa.Buffer] = []
        self._waiting_bytes = 0
        self._part: list[list[Any]] = []
        self._part_bytes = 0
        self._parts: list[list[list[Any]]] = []
        self._packed_bytes = 0

    @property
    def size_bytes(self) -> int:
        """The memory that all of it takes."""
        return self._waiting_bytes + self._packed_bytes

    def add(self, text: pa.Buffer) -> None:
        """Keep whole lines, behind those before."""
        self._waiting.append(text)
        self._waiting_bytes += text.size
        if self._waiting_bytes >= PIECE_BYTES:
            self._pack()
        if self._part_bytes >= PART_BYTES:
            self._end_part()

    def take(self) -> list[list[list[Any]]]:
        """What was added since the last call, in order, in parts, each a list of pieces: plain data for `texts`."""
        self._pack()
        self._end_part()
        parts, self._parts, self._packed_bytes = self._parts, [], 0
        return parts

    def _pack(self) -> None:
        waiting, self._waiting = self._waiting, []
        size, self._waiting_bytes = self._waiting_bytes, 0
        if size:
            text = waiting[0] if len(waiting) == 1 else b"".join(waiting)
            packed = self._codec.compress(text, asbytes=True)
            self._part.append([size, packed])
            self._part_bytes += size
            self._packed_bytes += len(packed)

    def _end_part(self) -> None:
        if self._part:
            self._parts.append(self._part)
        self._part, self._part_bytes = [], 0


def texts(part: Sequence[Sequence[Any]]) -> Iterator[memoryview]:
    """The text of a part that `take` returned. Raises `RestoreError` if it is not that."""
    codec = pa.Codec("zstd")
    for size, packed in part:
        try:
            yield memoryview(codec.decompress(packed, size))
        except (pa.ArrowException, OSError) as error:
            raise RestoreError(f"the rows that a checkpoint kept for PostgreSQL are damaged: {error}") from error
