"""Numbers of distinct values under several conditions, with one state for all of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from snapline.errors import EngineError
from snapline.operators.changes.accumulator import WHOLE, ChangeAccumulator, Parts
from snapline.operators.changes.counted_values import normalised
from snapline.operators.changes.group_changes import AggregateInput, GroupChanges
from snapline.operators.changes.key_layout import is_keyable
from snapline.operators.changes.row_codes import row_codes
from snapline.state.arrays import Ints
from snapline.state.batch_keys import Rows
from snapline.state.keyed_backend import KeyedBackend

MAX_CONDITIONS = 62
"""Each has a bit of a signed 64-bit number."""


class SharedValues:
    """The distinct values of a column by group, each with a bit for every condition it has met so far.

    For rows that are only added. Several `DistinctCount` share it, one for each of the conditions `where`; None is a
    condition that always holds.
    """

    def __init__(self, column: str, kind: pa.DataType, where: Sequence[str | None]) -> None:
        self._column = column
        self._kind = kind
        self._is_keyable = is_keyable(kind)
        self._where = tuple(where)
        self._batch: AggregateInput | None = None
        self._gains: list[Ints] = []

    def open(self, keyed: KeyedBackend, name: str) -> None:
        """Declare the state. Called once for all."""
        self._map = keyed.map_state(name, self._kind if self._is_keyable else pa.binary(), pa.int64())

    def gains(self, batch: AggregateInput, bit: int) -> Ints:
        """How many values of each group have met a condition for the first time in this batch."""
        if self._batch is not batch:
            self._gains = self._add(batch)
            self._batch = batch
        return self._gains[bit]

    def _add(self, batch: AggregateInput) -> list[Ints]:
        values, changes, met = batch.with_conditions(self._column, self._where)
        if not len(values):
            return [np.zeros(changes.count, dtype=np.int64)] * len(self._where)
        groups, codes, bits = self._pairs(values, changes, met)
        owners = changes.keys.take(groups)
        old: Ints = pc.fill_null(self._map.take(owners, codes), 0).to_numpy(zero_copy_only=False)
        gained = bits & ~old
        rows = np.flatnonzero(gained)
        if rows.size:
            self._map.put_all(owners.take(rows), codes.take(pa.array(rows)), pa.array((old | bits)[rows]))
        groups, gained = groups[rows], gained[rows]
        return [
            np.bincount(groups[(gained >> bit & 1).astype(np.bool_)], minlength=changes.count)
            for bit in range(len(self._where))
        ]

    def _pairs(self, values: pa.Array, changes: GroupChanges, met: Ints) -> tuple[Ints, pa.Array, Ints]:
        """The distinct pairs of group and value, and the conditions that each has met."""
        values = normalised(values)
        codes = values if self._is_keyable else row_codes([values], len(values), normalise=True)
        encoded = pc.dictionary_encode(codes)
        size = len(encoded.dictionary)
        pairs = pc.dictionary_encode(pa.array(changes.groups * size + encoded.indices.to_numpy()))
        bits = np.zeros(len(pairs.dictionary), dtype=np.int64)
        np.bitwise_or.at(bits, pairs.indices.to_numpy(), met)
        found = pairs.dictionary.to_numpy()
        return found // size, encoded.dictionary.take(pa.array(found % size)), bits

    def delete(self, keys: Rows) -> None:
        self._map.delete(keys)

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_batch": None, "_gains": []}


class DistinctCount(ChangeAccumulator):
    """The number of distinct values of a column in the rows that meet one condition of a `SharedValues`."""

    parts = (WHOLE,)
    result = WHOLE

    def __init__(self, values: SharedValues, bit: int, state: str) -> None:
        self._values = values
        self._bit = bit
        self._state = state

    def open(self, keyed: KeyedBackend, name: str) -> None:
        del name
        if self._bit == 0:
            self._values.open(keyed, self._state)

    def add(self, parts: Parts, batch: AggregateInput) -> Parts:
        return [parts[0] + self._values.gains(batch, self._bit)]

    def add_values(self, parts: Parts, values: pa.Array | None, changes: GroupChanges) -> Parts:
        raise EngineError("distinct values are taken from the batch, with all conditions at once")

    def take(self, parts: Parts, keys: Rows) -> pa.Array:
        return pa.array(parts[0])

    def delete(self, keys: Rows) -> None:
        if self._bit == 0:
            self._values.delete(keys)
