"""Durable storage: objects that are created whole, only if absent, and outlive everything but their deletion."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from snapline.devtools.simulator.kernel import Kernel, Process
from snapline.devtools.simulator.scenario import Fault
from snapline.errors import StorageError


class SimStorage:
    """A store with create-if-absent.

    Each operation takes time, and under faults it may fail before or after its effect.
    """

    def __init__(self, kernel: Kernel, faults: frozenset[Fault]) -> None:
        self._kernel = kernel
        self._faults = faults
        self.is_quiet = False
        self.objects: dict[str, Any] = {}
        self.made_by: dict[str, int] = {}
        self.made_at_ms: dict[str, int] = {}
        self.on_create: list[Callable[[str, Any], None]] = []
        self.on_delete: list[Callable[[str], None]] = []

    def submit(
        self, owner: Process, operation: Callable[[], Any], done: Callable[[Any], None], *, metadata: bool = False
    ) -> None:
        """Carry out an operation some time from now and report its result, or the `StorageError` it ended with.

        The operation happens even if its process has died in between: it was on its way.
        """
        kernel = self._kernel
        delay_ms = kernel.between(1, 4)
        if Fault.STORAGE_SLOW in self._faults and not self.is_quiet and kernel.chance(0.2):
            kernel.cover(f"fault: {Fault.STORAGE_SLOW.value}")
            delay_ms += kernel.between(20, 150)
        kernel.after(delay_ms, None, self._carry_out, owner, operation, done, metadata)

    def _carry_out(
        self, owner: Process, operation: Callable[[], Any], done: Callable[[Any], None], metadata: bool
    ) -> None:
        result: Any
        try:
            if self._fails(metadata, 0.5):
                raise StorageError("the store did not answer")
            result = operation()
            if self._fails(metadata, 0.5):
                raise StorageError("the answer of the store was lost", possibly_inconsistent=True)
        except StorageError as error:
            result = error
        if owner.alive:
            self._kernel.after(0, owner, done, result)

    def _fails(self, metadata: bool, share: float) -> bool:
        if self.is_quiet:
            return False
        kernel = self._kernel
        if Fault.STORAGE_FAILS in self._faults and kernel.chance(0.08 * share):
            kernel.cover(f"fault: {Fault.STORAGE_FAILS.value}")
            return True
        if metadata and Fault.METADATA_FAILS in self._faults and kernel.chance(0.35 * share):
            kernel.cover(f"fault: {Fault.METADATA_FAILS.value}")
            return True
        return False

    def create(self, path: str, value: Any, attempt: int) -> bool:
        """Create an object unless it exists; true if it was created. A real object's name tells the attempt."""
        if path in self.objects:
            return False
        self.objects[path] = value
        self.made_by[path] = attempt
        self.made_at_ms[path] = self._kernel.now_ms
        for listener in self.on_create:
            listener(path, value)
        return True

    def delete(self, path: str) -> None:
        if path in self.objects:
            for listener in self.on_delete:
                listener(path)
            del self.objects[path]

    def read(self, path: str) -> Any:
        if path not in self.objects:
            raise StorageError(f"there is no object {path}")
        return self.objects[path]

    def delete_all(self, paths: Iterable[str]) -> None:
        for path in paths:
            self.delete(path)

    def list(self, prefix: str) -> list[str]:
        return [path for path in self.objects if path.startswith(prefix)]


def location_of(job: str, checkpoint_id: int, *, is_savepoint: bool) -> str:
    """Where the objects of a checkpoint go."""
    return f"savepoints/{job}-{checkpoint_id}" if is_savepoint else f"{job}/chk-{checkpoint_id}"
