"""The current key of calls for single keys, and the Python objects of those that are current in one batch.

Within a batch such calls read and change plain Python objects, kept in the `Cells` of each state: fetched once for many
keys, and written to the tables together when another batch is selected, no key is, or someone needs the tables.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Sequence
from typing import Any, NoReturn, TypeAlias

import numpy as np

from snapline.errors import UserCodeError
from snapline.state.arrays import Ints
from snapline.state.batch_keys import KeyTypes, Rows

Owner: TypeAlias = Any
"""The number of a key among the distinct keys of a batch; with a namespace, a pair of it and the namespace's words."""

_MOST_PREFETCHED = 4096
_FIRST_PREFETCHED = 64
_SMALL_BYTES = 1 << 20
"""Twice as many keys are fetched next time while those of one time take up less than this."""

_MOST_BYTES = 64 << 20
"""About how many bytes of fetched values are kept before they are written and dropped, in the middle of a batch too."""


class Cells(ABC):
    """What calls for single keys have read and changed of one state in the current batch."""

    @abstractmethod
    def settle(self) -> None:
        """Write what was changed to the tables, and forget everything."""

    @abstractmethod
    def discard(self) -> None:
        """Forget everything, without writing."""


class Selection:
    """The current key, namespace and batch. `owner` is the current key's number, None if there is no current key."""

    def __init__(self, distinct: Callable[[Rows], tuple[Ints, Ints]]) -> None:
        self.owner: int | None = None
        self.namespace: Any = None
        self.keys: Rows | None = None
        self._distinct = distinct
        self._cells: list[Cells] = []
        self._owners: list[int] = []
        self._rows: Rows | None = None

    def attach(self, cells: Cells) -> None:
        self._cells.append(cells)

    def detach(self, cells: Cells) -> None:
        cells.discard()
        self._cells.remove(cells)

    # The current key.

    def begin(self, keys: Rows) -> list[int]:
        """Make this the current batch, without a current key. Returns the `owner` of each row."""
        self.end()
        if len(keys) <= 1:
            self.keys, self._rows, self._owners = keys, keys, [0] * len(keys)
            return self._owners
        lasts, owners = self._distinct(keys)
        if len(lasts) < len(keys):
            # In the order of first occurrence: keys that are used soon are fetched together.
            firsts = np.empty(len(lasts), dtype=np.int64)
            firsts[owners[::-1]] = np.arange(len(keys) - 1, -1, -1)
            order = np.argsort(firsts)
            numbers = np.empty(len(order), dtype=np.int64)
            numbers[order] = np.arange(len(order))
            owners, rows = numbers[owners], keys.take(firsts[order])
        else:
            rows = keys
        self.keys, self._rows, self._owners = keys, rows, owners.tolist()
        return self._owners

    def select(self, keys: Rows, row: int) -> None:
        """Make the key of a row the current key."""
        if not 0 <= row < len(keys):
            raise UserCodeError(f"there is no row {row} in a batch of {len(keys)} keys")
        if keys is not self.keys:
            self.begin(keys)
        self.owner = self._owners[row]

    def end(self) -> None:
        """Have no current key or batch; write what was changed."""
        if self.keys is not None:
            self.settle()
            self._forget()

    def discard(self) -> None:
        """The same, without writing: what calls for single keys have changed in this batch never was."""
        for cells in self._cells:
            cells.discard()
        self._forget()

    def settle(self) -> None:
        """Write what calls for single keys have changed."""
        for cells in self._cells:
            cells.settle()

    def _forget(self) -> None:
        self.owner, self.keys, self._rows, self._owners = None, None, None, []

    # The keys of owners.

    @property
    def count(self) -> int:
        """How many distinct keys the batch has."""
        return 0 if self._rows is None else len(self._rows)

    def rows(self, owners: Sequence[int]) -> Rows:
        """The keys of owners."""
        assert self._rows is not None
        return self._rows.take(np.array(owners, dtype=np.int64))

    def forget(self) -> None:
        """Has nothing to forget; states with namespaces do."""

    def current(self) -> tuple[Rows, int]:
        """The distinct keys of the batch, and which of them is current."""
        if self.owner is None or self._rows is None:
            self.refuse()
        return self._rows, self.owner

    def refuse(self) -> NoReturn:
        raise UserCodeError("no key is selected: state of a key can be used only while a row of it is processed")


class NamespaceCursor:
    """The current key and namespace, for states that have one."""

    def __init__(self, selection: Selection, types: KeyTypes) -> None:
        self._selection = selection
        self._types = types
        self._values: dict[tuple[Any, ...], Any] = {}

    @property
    def owner(self) -> Owner | None:
        owner, namespace = self._selection.owner, self._selection.namespace
        if owner is None:
            return None
        given = given_namespace(namespace)
        words = self._types.words(given)
        if words is None:
            words = [column.word(0) for column in self._types.encode([given])]
        label = tuple(words)
        self._values[label] = given
        return owner, label

    @property
    def count(self) -> int:
        """Nobody knows which namespaces the other keys will use."""
        return 0

    def rows(self, owners: Sequence[Owner]) -> Rows:
        keys = self._selection.rows([number for number, _ in owners])
        return keys.inside(self._types.encode([self._values[label] for _, label in owners]))

    def current(self) -> tuple[Rows, int]:
        owner = self.owner
        if owner is None:
            self.refuse()
        return self.rows([owner]), 0

    def forget(self) -> None:
        """Forget the namespaces that were current: nothing refers to them any more."""
        self._values.clear()

    def refuse(self) -> NoReturn:
        self._selection.refuse()


def given_namespace(namespace: Any) -> Any:
    if namespace is None:
        raise UserCodeError("this state has a namespace; select one, or give it with the keys")
    return namespace


Cursor: TypeAlias = Selection | NamespaceCursor


class Prefetch:
    """How many keys to fetch together: fewer if their values are large."""

    def __init__(self) -> None:
        self._keys = _FIRST_PREFETCHED
        self._bytes = 0

    def owners(self, cursor: Cursor, owner: Owner, known: Container[int]) -> list[int]:
        """The current key, and others after it in the batch that are not known yet."""
        end = min(cursor.count, owner + self._keys)
        return [other for other in range(owner, end) if other not in known]

    def fetched(self, size: int) -> None:
        """Say how many bytes were fetched."""
        self._bytes += size
        if size < _SMALL_BYTES:
            self._keys = min(2 * self._keys, _MOST_PREFETCHED)
        else:
            self._keys = max(1, self._keys // 2)

    @property
    def is_full(self) -> bool:
        """Whether it is time to write and drop what was fetched."""
        return self._bytes > _MOST_BYTES

    def clear(self) -> None:
        self._bytes = 0
