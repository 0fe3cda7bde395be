"""Columns of values by slot, which a snapshot can hold on to without copying.

`freeze` gives what a snapshot needs and costs next to nothing: whatever the column changes afterwards it copies first,
once. A typed column holds numpy arrays or Arrow arrays, never one Python object for each value. What is frozen may be
read by another thread; it must be released when it is not needed any more.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from snapline.state.arrays import MIN_CAPACITY, Bools, Ints, Values, grown


class FrozenColumn(Protocol):
    """What a column held when it was frozen."""

    def encode(self, slots: Ints) -> pa.Array:
        """The values of slots as they are stored: of the column's type, or pickled."""
        ...

    def release(self) -> None:
        """It is not needed any more."""
        ...


class Column(ABC):
    """Values by slot. Slots that were never written have some value or other: the caller knows which ones count."""

    @abstractmethod
    def grow(self, capacity: int) -> None: ...

    @abstractmethod
    def gather(self, slots: Ints, absent: Bools | None = None) -> Values:
        """The values of slots; null, or None, for rows that are `absent`."""

    @abstractmethod
    def scatter(self, slots: Ints, values: Values) -> None:
        """Write values; where a slot comes twice the last one counts."""

    @abstractmethod
    def get(self, slot: int) -> Any: ...

    @abstractmethod
    def set(self, slot: int, value: Any) -> None: ...

    @abstractmethod
    def freeze(self) -> FrozenColumn: ...

    @abstractmethod
    def keep(self, slots: Ints) -> None:
        """Forget all but these slots, which become 0, 1, 2..."""

    @abstractmethod
    def decode(self, stored: pa.Array) -> Values:
        """The values of stored ones: the inverse of `FrozenColumn.encode`."""


class SlotArray:
    """A numpy array by slot."""

    def __init__(self, dtype: npt.DTypeLike, fill: Any = 0) -> None:
        self.array: npt.NDArray[Any] = np.full(MIN_CAPACITY, fill, dtype=dtype)
        self._fill = fill

    def grow(self, capacity: int) -> None:
        if capacity > len(self.array):
            self.array = grown(self.array, capacity, self._fill)

    def keep(self, slots: Ints) -> None:
        self.array = grown(self.array[slots], max(MIN_CAPACITY, len(slots)), self._fill)


class CopyOnWrite(SlotArray):
    """One that is copied before it is changed, if something frozen still needs it as it is."""

    def __init__(self, dtype: npt.DTypeLike, fill: Any = 0) -> None:
        super().__init__(dtype, fill)
        self._is_shared = False

    def own(self) -> npt.NDArray[Any]:
        """The array, to be written to."""
        if self._is_shared:
            self.array = self.array.copy()
            self._is_shared = False
        return self.array

    def freeze(self) -> npt.NDArray[Any]:
        self._is_shared = True
        return self.array

    def grow(self, capacity: int) -> None:
        if capacity > len(self.array):
            super().grow(capacity)
            self._is_shared = False

    def keep(self, slots: Ints) -> None:
        super().keep(slots)
        self._is_shared = False
