"""The entries of one state in the database, as the backing of its table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from snapline.state.arrays import Ints, Values
from snapline.state.batch_keys import Space
from snapline.state.map_tables import Scanned
from snapline.state.pickles import unpickled
from snapline.state.rocksdb import row_codec
from snapline.state.rocksdb.row_codec import ValueCodec
from snapline.state.stable_hash import encode, key_groups
from snapline.state.state_types import StateType
from snapline.state.value_tables import Layout

if TYPE_CHECKING:
    from snapline.state.rocksdb.rocksdb_backend import RocksDbBackend


class StoredState:
    """Reads entries that are not in the cache. `number` is that of the state in the database."""

    def __init__(
        self, backend: RocksDbBackend, number: int, layout: Layout, declared: StateType, *, has_times: bool
    ) -> None:
        self._backend = backend
        self._number = number
        self._layout = layout
        self._is_object = declared.is_object
        self._codec = ValueCodec(declared.stored)
        self._has_times = has_times

    def load(self, space: Space, slots: Ints) -> tuple[Ints, Values, Ints | None]:
        if self._backend.has_everything_cached:
            return slots[:0], *self._decode([])
        groups = key_groups(space.key_hashes().take(slots), self._backend.max_parallelism)
        columns = [column.take(slots) for column in space.columns()]
        order = row_codec.in_order(groups, columns)
        keys = row_codec.encode_keys(
            row_codec.heads(self._number, groups[order]), [column.take(order) for column in columns]
        )
        found: Any = self._backend.db[cast(Any, keys)]
        if None not in found:
            return slots[order], *self._decode(found)
        exists = np.array([value is not None for value in found], dtype=np.bool_)
        values, updated = self._decode([value for value in found if value is not None])
        return slots[order][exists], values, updated

    def scan(self, space: Space, slots: Ints, most: int | None = None) -> Scanned:
        inner = self._layout.inner
        assert inner is not None
        owners: list[int] = []
        skipped: list[int] = []
        keys: list[bytes] = []
        values: list[bytes] = []
        if self._backend.has_everything_cached:
            slots = slots[:0]
        if slots.size:
            entries = self._backend.db.iter()
            for owner, prefix in enumerate(self._prefixes(space, slots)):
                entries.seek(prefix)
                start = len(owners)
                while entries.valid() and (key := entries.key()).startswith(prefix):
                    if most is not None and len(owners) - start == most:
                        skipped.append(owner)
                        del owners[start:], keys[start:], values[start:]
                        break
                    owners.append(owner)
                    keys.append(key[len(prefix) :])
                    values.append(entries.value())
                    entries.next()
        columns = row_codec.decode_keys(keys, 0, inner.kinds) if keys else [pa.array([], kind) for kind in inner.kinds]
        encoded = [encode(column) for column in columns]
        found, left_out = (np.array(some, dtype=np.int64) for some in (owners, skipped))
        return Scanned(found, encoded, *self._decode(values), left_out)

    def _prefixes(self, space: Space, slots: Ints) -> list[bytes]:
        groups = key_groups(space.key_hashes()[slots], self._backend.max_parallelism)
        return row_codec.encode_keys(
            row_codec.heads(self._number, groups), [column.take(slots) for column in space.columns()]
        )

    def _decode(self, stored: list[bytes]) -> tuple[Values, Ints | None]:
        updated = None
        if self._has_times:
            stored, updated = row_codec.unstamp(stored)
        values = self._codec.decode(stored)
        if self._is_object:
            return [unpickled(data) for data in values.to_pylist()], updated
        return values, updated
