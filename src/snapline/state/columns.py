"""Columns of values by slot that a snapshot can keep without copying.

`freeze` is cheap: whatever the column changes afterwards, it copies first, once. A typed column holds numpy or Arrow
arrays, never one Python object per value. A frozen column may be read by another thread and must be released.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from snapline.state.arrays import MIN_CAPACITY, Bools, Ints, Values, grown


@dataclass(frozen=True, slots=True)
class FrozenColumn:
    """The values of a column at the moment it was frozen.

    `encode` returns those at slots in stored form: of the column's type, or pickled. Call `release` when it is no
    longer needed. Copy-on-write arrays need nothing to be done.
    """

    encode: Callable[[Ints], pa.Array]
    release: Callable[[], None] = lambda: None


class Column(ABC):
    """Values by slot. The value of a slot that was never written is undefined: the caller knows which slots count."""

    @abstractmethod
    def grow(self, capacity: int) -> None: ...

    @abstractmethod
    def gather(self, slots: Ints, absent: Bools | None = None) -> Values:
        """The values at slots; null, or None, for rows that are `absent`."""

    @abstractmethod
    def scatter(self, slots: Ints, values: Values) -> None:
        """Write values. Where a slot comes twice, the last one wins."""

    @abstractmethod
    def get(self, slot: int) -> Any: ...

    @abstractmethod
    def set(self, slot: int, value: Any) -> None: ...

    @abstractmethod
    def freeze(self) -> FrozenColumn: ...

    @abstractmethod
    def keep(self, slots: Ints) -> None:
        """Drop all but these slots, which become 0, 1, 2..."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """The memory that the values take, roughly."""

    def decode(self, stored: pa.Array) -> Values:
        """Decode stored values; the inverse of `FrozenColumn.encode`."""
        return stored

    def unseal(self) -> None:
        """The job has declared this state as it is stored: from now on, what was restored is used."""
        return


class SlotArray:
    """A numpy array by slot."""

    def __init__(self, dtype: npt.DTypeLike, fill: Any = 0) -> None:
        self.array: npt.NDArray[Any] = np.full(MIN_CAPACITY, fill, dtype=dtype)
        self._fill = fill

    @property
    def nbytes(self) -> int:
        return self.array.nbytes

    def grow(self, capacity: int) -> None:
        if capacity > len(self.array):
            self.array = grown(self.array, capacity, self._fill)

    def keep(self, slots: Ints) -> None:
        self.array = grown(self.array[slots], max(MIN_CAPACITY, len(slots)), self._fill)


class CopyOnWrite(SlotArray):
    """A slot array that is copied before its first change after `freeze`."""

    def __init__(self, dtype: npt.DTypeLike, fill: Any = 0) -> None:
        super().__init__(dtype, fill)
        self._is_shared = False

    def own(self) -> npt.NDArray[Any]:
        """The array, for writing."""
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
