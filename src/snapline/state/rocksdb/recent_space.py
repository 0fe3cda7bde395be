"""Slots of a cache, and when each was last looked up: what is cold makes room for what is hot."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from snapline.state.arrays import Ints
from snapline.state.batch_keys import Attached, Rows, Single, Space
from snapline.state.columns import SlotArray


class RecentSpace(Space):
    """A space that stamps the slots it looks up with its `epoch`; with epoch 0 it does not."""

    def __init__(self, kinds: Sequence[pa.DataType]) -> None:
        super().__init__(kinds)
        self.epoch = 0
        self._stamps = _Stamps()
        self.attach(self._stamps)

    def find(self, rows: Rows) -> Ints:
        slots = super().find(rows)
        if self.epoch:
            # An unknown key has slot -1: the last place, which belongs to no slot.
            self._stamps.array[slots] = self.epoch
        return slots

    def ensure(self, rows: Rows) -> Ints:
        start, version = self.size, self.version
        slots = super().ensure(rows)
        if self.epoch and self.size > start:
            self._stamps.array[slice(start, self.size) if version == self.version else slots] = self.epoch
        return slots

    def append(self, rows: Rows) -> Ints:
        slots = super().append(rows)
        if self.epoch:
            self._stamps.array[slots] = self.epoch
        return slots

    def find_one(self, single: Single) -> int:
        slot = super().find_one(single)
        if self.epoch:
            self._stamps.array[slot] = self.epoch
        return slot

    def ensure_one(self, single: Single) -> int:
        slot = super().ensure_one(single)
        if self.epoch:
            self._stamps.array[slot] = self.epoch
        return slot

    def hottest(self, weights: Ints, most: int) -> Ints:
        """The slots looked up last, ascending, whose weights together are at most `most`.

        Of those stamped alike, later slots count as hotter.
        """
        order = np.argsort(self._stamps.array[: self.size], kind="stable")[::-1]
        fitting = int(np.searchsorted(np.cumsum(weights[order]), most, side="right"))
        return np.sort(order[:fitting])


class _Stamps(Attached):
    """The stamps by slot, and one place more at the end."""

    def __init__(self) -> None:
        self._slots = SlotArray(np.int64)
        self._slots.grow(len(self._slots.array) + 1)

    @property
    def array(self) -> Ints:
        return self._slots.array

    def grow(self, capacity: int) -> None:
        self._slots.grow(capacity + 1)

    def keep(self, slots: Ints) -> None:
        self._slots.keep(slots)

    @property
    def nbytes(self) -> int:
        return self._slots.nbytes
