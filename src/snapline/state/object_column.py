"""Columns of any Python objects."""

from __future__ import annotations

from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa

from snapline.state.arrays import Bools, Ints, Values, objects
from snapline.state.columns import Column, FrozenColumn
from snapline.state.pickles import pickled, unpickled

_PAGE = 1024
_SAMPLED = 4
_OBJECT_BYTES = 50
_PER_PICKLED_BYTE = 3
_IMMUTABLE = (int, float, complex, bool, str, bytes, type(None))


class _Pickle:
    """A restored pickle of a state that the job has not declared."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


class ObjectColumn(Column):
    """Any Python objects, in pages.

    A pickle can run any code, so restored ones stay as they are until the job declares the state and `unseal` is
    called. A snapshot stores those that never are as they were.

    While a frozen column is in use, the first read of an object replaces it with a copy: the caller may change it, and
    the snapshot must not see that. So freezing costs the same however many objects there are.
    """

    def __init__(self) -> None:
        self._pages: list[list[Any]] = [[None] * _PAGE]
        self._shared_pages: set[int] = set()
        self._private: set[int] = set()
        self._numbers = count()
        self._is_sealed = True
        self._has_pickles = False
        self._frozen: set[int] = set()
        """The numbers of frozen columns in use; adding and removing one is safe from any thread."""

    def grow(self, capacity: int) -> None:
        while len(self._pages) * _PAGE < capacity:
            self._pages.append([None] * _PAGE)

    def gather(self, slots: Ints, absent: Bools | None = None) -> list[Any]:
        if absent is None:
            return [self.get(slot) for slot in slots.tolist()]
        return [None if slot < 0 else self.get(slot) for slot in np.where(absent, -1, slots).tolist()]

    def scatter(self, slots: Ints, values: Values) -> None:
        for slot, value in zip(slots.tolist(), objects(values), strict=True):
            self.set(slot, value)

    def get(self, slot: int) -> Any:
        value = self._pages[slot // _PAGE][slot % _PAGE]
        if self._frozen and slot not in self._private and not isinstance(value, _IMMUTABLE):
            value = unpickled(pickled(value))
            self.set(slot, value)
        return value

    def set(self, slot: int, value: Any) -> None:
        number = slot // _PAGE
        if self._frozen:
            if number in self._shared_pages:
                self._pages[number] = list(self._pages[number])
                self._shared_pages.discard(number)
            self._private.add(slot)
        self._pages[number][slot % _PAGE] = value

    def freeze(self) -> FrozenColumn:
        pages, frozen, number = list(self._pages), self._frozen, next(self._numbers)

        def encode(slots: Ints) -> pa.Array:
            return pa.array([_stored(pages[slot // _PAGE][slot % _PAGE]) for slot in slots.tolist()], pa.binary())

        frozen.add(number)
        self._private = set()
        self._shared_pages = set(range(len(pages)))
        return FrozenColumn(encode, lambda: frozen.discard(number))

    def keep(self, slots: Ints) -> None:
        values = [self._pages[slot // _PAGE][slot % _PAGE] for slot in slots.tolist()]
        private = {new for new, old in enumerate(slots.tolist()) if old in self._private}
        self._pages = [values[start : start + _PAGE] for start in range(0, max(len(values), 1), _PAGE)]
        self._pages[-1] += [None] * (_PAGE - len(self._pages[-1]))
        self._private, self._shared_pages = private, set()

    @property
    def nbytes(self) -> int:
        """As if all objects were like some of the newest pages: an object takes several times its pickle."""
        page = [value for page in self._pages[-_SAMPLED:] for value in page[:_SAMPLED] if value is not None]
        sizes = [_OBJECT_BYTES + _PER_PICKLED_BYTE * len(_stored(value)) for value in page]
        return len(self._pages) * _PAGE * (8 + (sum(sizes) // len(sizes) if sizes else 0))

    def decode(self, stored: pa.Array) -> Values:
        if not self._is_sealed:
            return [unpickled(data) for data in stored.to_pylist()]
        self._has_pickles = True
        return [_Pickle(data) for data in stored.to_pylist()]

    def unseal(self) -> None:
        self._is_sealed = False
        if self._has_pickles:
            self._has_pickles = False
            for number, page in enumerate(list(self._pages)):
                for place, value in enumerate(page):
                    if type(value) is _Pickle:
                        self.set(number * _PAGE + place, unpickled(value.data))


def _stored(value: Any) -> bytes:
    return value.data if type(value) is _Pickle else pickled(value)
