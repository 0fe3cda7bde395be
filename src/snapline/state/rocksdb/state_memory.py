"""A limit for the memory of all RocksDB backends of a process.

A third is for the tables of the backends, a fifth is for RocksDB: blocks, indexes, filters and unflushed writes. The
rest is for copies of columns that change while a snapshot is written, and for arrays while they grow.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from snapline.state.rocksdb.rocksdb_files import database_options, load_rocksdict

if TYPE_CHECKING:
    from rocksdict import Options

_BUFFERS = 4
"""Unflushed writes take at most one part in so many of RocksDB's memory."""


class StateMemory:
    """A limit, and what each backend takes of it. A backend that takes more than its share has to make room.

    Backends may be used by different threads.
    """

    def __init__(self, limit_bytes: int) -> None:
        load_rocksdict()
        from rocksdict import Cache, WriteBufferManager

        self.limit_bytes = limit_bytes
        self.tables_bytes = limit_bytes // 3
        self._cache = Cache(limit_bytes // 5)
        self._buffers = WriteBufferManager.new_write_buffer_manager_with_cache(
            limit_bytes // 5 // _BUFFERS, False, self._cache
        )
        self._taken: dict[object, int] = {}

    def options(self) -> Options:
        """The options of databases that share this memory."""
        return database_options(self._cache, self._buffers)

    @property
    def used_bytes(self) -> int:
        """What tables and RocksDB take now."""
        return sum(list(self._taken.values())) + self._cache.get_usage()

    def take(self, backend: object, size_bytes: int) -> None:
        """Note what the tables of a backend take."""
        self._taken[backend] = size_bytes

    def leave(self, backend: object) -> None:
        self._taken.pop(backend, None)

    def excess(self, backend: object, size_bytes: int) -> float:
        """What a backend would take, divided by what it may: above 1, it has to make room.

        It may have what the others leave, and never less than its share.
        """
        others = [taken for other, taken in list(self._taken.items()) if other is not backend]
        allowed = max(self.tables_bytes - sum(others), self.tables_bytes // (len(others) + 1))
        return size_bytes / allowed


@cache
def process_memory(limit_bytes: int) -> StateMemory:
    """The memory that all operators of this process share: a process has one slot of one job."""
    return StateMemory(limit_bytes)
