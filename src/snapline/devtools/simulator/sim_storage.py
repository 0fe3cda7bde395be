"""Durable storage: objects are created whole and outlive every process."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import BinaryIO, TypeVar

from snapline.devtools.simulator.kernel import Kernel
from snapline.devtools.simulator.scenario import Fault
from snapline.errors import ObjectNotFoundError, StorageError
from snapline.protocol.journal import Journal, Record
from snapline.storage.objects.object_store import Bytes, ObjectInfo

T = TypeVar("T")


class SimStorage:
    """What is stored. Operations take time, and under faults may fail before or after their effect."""

    def __init__(self, kernel: Kernel, faults: frozenset[Fault]) -> None:
        self.is_quiet = False
        self.objects: dict[str, bytes] = {}
        self.records: dict[str, dict[str, Record]] = {}
        self.made_at_ms: dict[str, int] = {}
        self.on_delete: list[Callable[[str], None]] = []
        self.on_record: list[Callable[[str, Record], None]] = []
        self._kernel = kernel
        self._faults = faults

    def carry_out(self, operation: Callable[[], T], *, metadata: bool = False) -> T:
        """Block the calling thread until the operation is done. Raises `StorageError` under faults.

        The operation happens even if the process dies in between: it was under way.
        """
        kernel = self._kernel
        delay_ms = kernel.between(2, 20)
        if Fault.STORAGE_SLOW in self._faults and not self.is_quiet and kernel.chance(0.1):
            kernel.cover(f"fault: {Fault.STORAGE_SLOW.value}")
            # Now and then longer than a checkpoint may take.
            delay_ms += kernel.between(200, 1500) if kernel.chance(0.8) else kernel.between(1500, 6000)

        def happen() -> T:
            if self._fails(metadata, 0.5):
                raise StorageError("the store did not answer")
            result = operation()
            if self._fails(metadata, 0.5):
                raise StorageError("the answer of the store was lost", possibly_inconsistent=True)
            return result

        return kernel.outside(delay_ms, happen)

    def _fails(self, metadata: bool, share: float) -> bool:
        if self.is_quiet:
            return False
        kernel = self._kernel
        if Fault.STORAGE_FAILS in self._faults and kernel.chance(0.06 * share):
            kernel.cover(f"fault: {Fault.STORAGE_FAILS.value}")
            return True
        if metadata and Fault.METADATA_FAILS in self._faults and kernel.chance(0.35 * share):
            kernel.cover(f"fault: {Fault.METADATA_FAILS.value}")
            return True
        return False

    # Effects.

    def put(self, path: str, data: bytes) -> None:
        self.objects[path] = data
        self.made_at_ms[path] = self._kernel.now_ms

    def remove(self, path: str) -> None:
        if path in self.objects:
            for listener in self.on_delete:
                listener(path)
            del self.objects[path]


class SimObjects:
    """`ObjectStore` over simulated storage."""

    def __init__(self, storage: SimStorage) -> None:
        self._storage = storage

    def create(self, path: str, data: Bytes) -> bool:
        def create() -> bool:
            if path in self._storage.objects:
                return False
            self._storage.put(path, bytes(data))
            return True

        return self._do(path, create)

    def write(self, path: str, data: Bytes) -> None:
        self._do(path, lambda: self._storage.put(path, bytes(data)))

    def upload(self, source: Path, path: str) -> None:
        self.write(path, source.read_bytes())

    def download(self, path: str, target: Path) -> None:
        raise StorageError(f"no simulated job downloads {path} to {target}")

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        return self._do(path, lambda: self._found(path)[offset : None if length is None else offset + length])

    def open(self, path: str) -> BinaryIO:
        return io.BytesIO(self.read(path))

    def size_bytes(self, path: str) -> int | None:
        return self._do(path, lambda: len(self._storage.objects[path]) if path in self._storage.objects else None)

    def delete(self, paths: Iterable[str]) -> None:
        doomed = list(paths)

        def delete() -> None:
            for path in doomed:
                self._storage.remove(path)

        self._do(doomed[0] if doomed else "", delete)

    def delete_tree(self, directory: str) -> None:
        def delete() -> None:
            for info in self._listed(directory):
                self._storage.remove(info.path)

        self._do(directory, delete)

    def sweep(self, directory: str, is_waste: Callable[[str], bool]) -> None:
        """There are no unfinished objects or empty directories here."""

    def _found(self, path: str) -> bytes:
        if path not in self._storage.objects:
            raise ObjectNotFoundError(f"there is no object {path}", path=path)
        return self._storage.objects[path]

    def _listed(self, directory: str) -> Sequence[ObjectInfo]:
        start = f"{directory.rstrip('/')}/"
        found = self._storage.objects.items()
        return [ObjectInfo(path, len(data)) for path, data in sorted(found) if path.startswith(start)]

    def list(self, directory: str) -> list[ObjectInfo]:
        return self._do(directory, lambda: [*self._listed(directory)])

    def _do(self, path: str, operation: Callable[[], T]) -> T:
        if "-probe-" in path or "/probe-" in path:
            return operation()  # the job would not start on a store that fails from the start
        return self._storage.carry_out(operation, metadata=path.endswith("/_metadata"))


class PeekObjects(SimObjects):
    """The same objects for checkers, without delays or faults."""

    def _do(self, path: str, operation: Callable[[], T]) -> T:
        del path
        return operation()


class SimJournal:
    """`JournalStore` of one job over simulated storage."""

    outlives_driver = True

    def __init__(self, storage: SimStorage, job: str) -> None:
        self._storage = storage
        self._job = job
        self._records = storage.records.setdefault(job, {})

    def read(self) -> Journal:
        return self._storage.carry_out(lambda: Journal(self._records.values()))

    def create(self, record: Record) -> bool:
        def create() -> bool:
            if record.name in self._records:
                return False
            self._records[record.name] = record
            for listener in self._storage.on_record:
                listener(self._job, record)
            return True

        return self._storage.carry_out(create, metadata=True)

    def delete(self, records: Iterable[Record]) -> None:
        doomed = list(records)

        def delete() -> None:
            for record in doomed:
                self._records.pop(record.name, None)

        self._storage.carry_out(delete)

    def prepare(self) -> None:
        """It can always be written."""

    def sweep(self) -> None:
        """Nothing is ever half-written here."""

    def close(self) -> None:
        """Holds no resources."""
