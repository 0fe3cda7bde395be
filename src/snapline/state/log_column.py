"""Columns of Arrow values of any width: strings, lists, maps, decimals."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import numpy as np
import pyarrow as pa

from snapline.errors import EngineError
from snapline.state.arrays import Bools, Ints, Values
from snapline.state.columns import Column, CopyOnWrite, FrozenColumn
from snapline.state.exact_cast import converted

_TAIL = 1024
"""How many single values are collected before they become an Arrow array."""

_TAIL_BYTES = 100
"""What a collected value takes, roughly."""

_MAX_CHUNKS = 24
_MERGED = 4
"""How many chunks are merged at once: more of them make fewer copies of each value, and more chunks to read from."""

_MAX_CHUNK_BYTES = 1 << 30
"""Larger chunks are not merged: offsets within a string or list array have 32 bits."""


class LogColumn(Column):
    """Values of any width in an append-only log; each slot refers to its newest value."""

    def __init__(self, kind: pa.DataType) -> None:
        self.kind = kind
        self._refs = CopyOnWrite(np.int64, fill=-1)
        self._log = _Log(kind)

    def grow(self, capacity: int) -> None:
        self._refs.grow(capacity)

    def gather(self, slots: Ints, absent: Bools | None = None) -> pa.Array:
        refs = self._refs.array[slots]
        return self._log.take(refs if absent is None else np.where(absent, -1, refs))

    def scatter(self, slots: Ints, values: Values) -> None:
        start = self._log.append(converted(values, self.kind))
        self._refs.own()[slots] = np.arange(start, start + len(slots))
        if self._log.length > 2 * len(self._refs.array) + _TAIL:
            self._compact()

    def _compact(self) -> None:
        refs = self._refs.own()
        used = np.flatnonzero(refs >= 0)
        log = _Log(self.kind)
        log.append(self._log.take(refs[used]))
        refs[used] = np.arange(len(used))
        self._log = log

    def get(self, slot: int) -> Any:
        return self._log.get(int(self._refs.array[slot]))

    def set(self, slot: int, value: Any) -> None:
        self._refs.own()[slot] = self._log.append_one(value)
        if self._log.length > 2 * len(self._refs.array) + _TAIL:
            self._compact()

    def freeze(self) -> FrozenColumn:
        refs, log = self._refs.freeze(), self._log.freeze()
        return FrozenColumn(lambda slots: log.take(refs[slots]))

    def keep(self, slots: Ints) -> None:
        self._refs.keep(slots)
        self._compact()

    @property
    def nbytes(self) -> int:
        return self._refs.nbytes + self._log.nbytes


class _Log:
    """An append-only sequence of Arrow values. Chunks of similar size are merged, so there are never many."""

    def __init__(self, kind: pa.DataType, chunks: Sequence[pa.Array] = ()) -> None:
        self._kind = kind
        self._chunks = list(chunks)
        self._tail: list[Any] = []
        self._sealed = sum(len(chunk) for chunk in chunks)

    @property
    def length(self) -> int:
        return self._sealed + len(self._tail)

    @property
    def nbytes(self) -> int:
        return int(sum(chunk.nbytes for chunk in self._chunks)) + _TAIL_BYTES * len(self._tail)

    def append(self, values: pa.Array) -> int:
        """Returns the position of the first value."""
        self._seal()
        start = self._sealed
        if len(values):
            self._push(values)
        return start

    def append_one(self, value: Any) -> int:
        is_plain = (type(value) is str and value.isascii() and pa.types.is_string(self._kind)) or (
            type(value) is bytes and pa.types.is_binary(self._kind)
        )
        if not is_plain:
            value = converted([value], self._kind)[0].as_py(maps_as_pydicts="strict")
        self._tail.append(value)
        if len(self._tail) >= _TAIL:
            self._seal()
        return self.length - 1

    def take(self, positions: Ints) -> pa.Array:
        """Values by position, null for -1."""
        self._seal()
        if not self._chunks:
            return pa.nulls(len(positions), self._kind)
        if len(self._chunks) == 1:
            return _taken(self._chunks[0], positions)
        # Chunk by chunk: to take from a chunked array, Arrow would first concatenate it, however large.
        ends = np.cumsum([len(chunk) for chunk in self._chunks])
        numbers = np.searchsorted(ends, positions, side="right").astype(np.uint16)
        order = np.argsort(numbers, kind="stable")
        bounds = np.searchsorted(numbers[order], np.arange(len(ends) + 1))
        parts = []
        for chunk, end, first, last in zip(self._chunks, ends, bounds[:-1], bounds[1:], strict=True):
            if last > first:
                wanted = positions[order[first:last]]
                parts.append(_taken(chunk, np.where(wanted < 0, -1, wanted - (end - len(chunk)))))
        if len(parts) <= 1:
            return parts[0] if parts else pa.nulls(0, self._kind)
        places = np.empty(len(positions), dtype=np.int64)
        places[order] = np.arange(len(positions))
        return pa.concat_arrays(parts).take(pa.array(places))

    def get(self, position: int) -> Any:
        if position < 0:
            return None
        if position >= self._sealed:
            # A copy, since the caller may change it: a list, or a dict.
            return deepcopy(self._tail[position - self._sealed])
        for chunk in self._chunks:
            if position < len(chunk):
                return chunk[position].as_py(maps_as_pydicts="strict")
            position -= len(chunk)
        raise EngineError("a slot refers beyond the end of its log")

    def freeze(self) -> _Log:
        self._seal()
        return _Log(self._kind, self._chunks)

    def _seal(self) -> None:
        if self._tail:
            values = converted(self._tail, self._kind)
            self._tail = []
            self._push(values)

    def _push(self, values: pa.Array) -> None:
        chunks = self._chunks
        chunks.append(values)
        self._sealed += len(values)
        while len(chunks) >= _MERGED and (len(chunks[-_MERGED]) < 2 * len(chunks[-1]) or len(chunks) > _MAX_CHUNKS):
            if sum(chunk.nbytes for chunk in chunks[-_MERGED:]) > _MAX_CHUNK_BYTES:
                return
            chunks[-_MERGED:] = [pa.concat_arrays(chunks[-_MERGED:])]


def _taken(chunk: pa.Array, positions: Ints) -> pa.Array:
    """Values by position, null for -1."""
    absent = positions < 0
    return chunk.take(pa.array(positions, mask=absent) if absent.any() else pa.array(positions))
