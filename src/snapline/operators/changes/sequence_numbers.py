"""Numbers for the rows of each key, in order of arrival."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from snapline.state.arrays import Ints
from snapline.state.batch_keys import Rows
from snapline.state.keyed_backend import KeyedBackend


class SequenceNumbers:
    """Counts the rows of each key in a state."""

    def __init__(self, keyed: KeyedBackend, name: str) -> None:
        self._next = keyed.value_state(name, pa.int64())

    def take(self, keys: Rows, groups: Ints) -> Ints:
        """The next numbers of keys, which are distinct: one for each row, whose key `groups` says."""
        if not groups.size:
            return np.zeros(0, dtype=np.int64)
        counts = np.bincount(groups, minlength=len(keys))
        old = pc.fill_null(self._next.take(keys), 0).to_numpy(zero_copy_only=False)
        grown = np.flatnonzero(counts)
        self._next.put(keys if len(grown) == len(keys) else keys.take(grown), pa.array(old[grown] + counts[grown]))
        order = np.argsort(groups, kind="stable")
        ordered = groups[order]
        numbers = np.empty(len(groups), dtype=np.int64)
        numbers[order] = old[ordered] + np.arange(len(ordered)) - np.searchsorted(ordered, ordered)
        return numbers

    def forget(self, keys: Rows) -> None:
        """Begin again with 0 for these keys."""
        self._next.delete(keys)
