"""Which windows rows belong to, for windows that do not depend on each other."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from snapline.state.arrays import Bools, Ints

FAR_MS = 1 << 61
"""No row is further from 1970 than this; twice as far is before or after all time."""

Assigned: TypeAlias = tuple[Ints | None, Ints, Ints]
"""Rows, starts and ends: an entry for each window of each row, in row order. Without rows, each row has one window."""


class WindowAssigner(ABC):
    """Assigns rows to windows, and encodes windows for state."""

    namespace: pa.DataType = pa.int64()
    has_end = True
    columns: tuple[str, ...] = ()
    """The columns with the bounds of each row's window, if the rows have them."""

    @abstractmethod
    def assign(self, *times: Ints) -> Assigned:
        """The windows of rows, given their times, or the values of `columns`, in milliseconds."""

    def pack(self, starts: Ints, ends: Ints) -> pa.Array:
        """Windows as namespaces: by default, their starts."""
        return pa.array(starts)

    @abstractmethod
    def unpack(self, namespaces: pa.Array) -> tuple[Ints, Ints]:
        """The starts and ends of windows."""


class FixedAssigner(WindowAssigner):
    """Windows of one size that start at multiples of `every_ms` plus an offset."""

    def __init__(self, size_ms: int, every_ms: int, offset_ms: int = 0) -> None:
        self._size_ms = size_ms
        self._every_ms = every_ms
        self._offset_ms = offset_ms

    def assign(self, *times: Ints) -> Assigned:
        (at,) = times
        last = at - (at - self._offset_ms) % self._every_ms
        if self._size_ms == self._every_ms:
            return None, last, last + self._size_ms
        copies = -(-self._size_ms // self._every_ms)
        starts = (last[:, None] - np.arange(copies) * self._every_ms).ravel()
        rows = np.repeat(np.arange(len(at)), copies)
        kept = np.flatnonzero(starts + self._size_ms > at[rows])
        return rows[kept], starts[kept], starts[kept] + self._size_ms

    def unpack(self, namespaces: pa.Array) -> tuple[Ints, Ints]:
        starts = namespaces.to_numpy()
        return starts, starts + self._size_ms


class GivenAssigner(WindowAssigner):
    """Windows whose bounds are columns of the rows."""

    namespace = pa.struct([pa.field("start", pa.int64()), pa.field("end", pa.int64())])

    def __init__(self, start: str, end: str) -> None:
        self.columns = (start, end)

    def assign(self, *times: Ints) -> Assigned:
        starts, ends = times
        return None, starts, ends

    def pack(self, starts: Ints, ends: Ints) -> pa.Array:
        return pa.StructArray.from_arrays([pa.array(starts), pa.array(ends)], fields=list(self.namespace))

    def unpack(self, namespaces: pa.Array) -> tuple[Ints, Ints]:
        starts, ends = namespaces.flatten()
        return starts.to_numpy(), ends.to_numpy()


class GlobalAssigner(WindowAssigner):
    """One window for all rows of a key, which never ends."""

    has_end = False

    def assign(self, *times: Ints) -> Assigned:
        (at,) = times
        return None, np.zeros(len(at), dtype=np.int64), np.full(len(at), 3 * FAR_MS)

    def unpack(self, namespaces: pa.Array) -> tuple[Ints, Ints]:
        return namespaces.to_numpy(), np.full(len(namespaces), 3 * FAR_MS)


def without_late(assigned: Assigned, is_late: Bools, count: int) -> tuple[Assigned, Bools]:
    """Drops late windows; also returns which of the `count` rows had windows and now have none."""
    rows, starts, ends = assigned
    rows = np.arange(count) if rows is None else rows
    is_dropped = np.zeros(count, dtype=np.bool_)
    is_dropped[rows] = True
    kept = ~is_late
    is_dropped[rows[kept]] = False
    return (rows[kept], starts[kept], ends[kept]), is_dropped
