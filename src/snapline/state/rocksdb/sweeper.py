"""Deletes expired entries from the database: they may never be read again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from snapline.state.rocksdb import row_codec
from snapline.state.rocksdb.rocksdb_files import StateEntry, entries_between

if TYPE_CHECKING:
    from rocksdict import Rdict

SWEPT_ENTRIES = 10_000
"""How many entries of a state with a time to live each sweep checks."""


class Sweeper:
    """Goes round the entries of each state, some at a time."""

    def __init__(self) -> None:
        self._next: dict[int, bytes] = {}

    def sweep(self, database: Rdict, entry: StateEntry, now_ms: int) -> None:
        """Check some entries of a state, from where the last sweep stopped. Without a time to live there are none."""
        from rocksdict import WriteBatch

        if entry.info.ttl_ms is None:
            return
        start, end = self._next.pop(entry.id, row_codec.head(entry.id, 0)), row_codec.head(entry.id + 1, 0)
        batch = WriteBatch(raw_mode=True)
        for looked_at, (key, value) in enumerate(entries_between(database, start, end)):
            if looked_at >= SWEPT_ENTRIES:
                self._next[entry.id] = key
                break
            if row_codec.updated_ms(value) <= now_ms - entry.info.ttl_ms:
                batch.delete(key)
        database.write(batch)
