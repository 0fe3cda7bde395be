"""Files that are slow on purpose, for tests of what is said about slow storage."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from snapline.storage.objects.file_objects import FileObjects
from snapline.storage.objects.object_store import Bytes


class SlowFiles(FileObjects):
    """`FileObjects` whose writes take `delay_s` each, and a second for every `bytes_per_s`; None is no limit.

    The attributes belong to the class, and may be changed at any time. `is_slow` selects the paths that are: by
    default those of state, not the metadata and the journal.
    """

    delay_s = 0.0
    bytes_per_s: float | None = None

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.is_slow: Callable[[str], bool] = is_state

    def create(self, path: str, data: Bytes) -> bool:
        self._wait(path, len(data))
        return super().create(path, data)

    def write(self, path: str, data: Bytes) -> None:
        self._wait(path, memoryview(data).nbytes)
        super().write(path, data)

    def upload(self, source: Path, path: str) -> None:
        self._wait(path, source.stat().st_size)
        super().upload(source, path)

    def _wait(self, path: str, size_bytes: int) -> None:
        if self.is_slow(path):
            time.sleep(self.delay_s + (size_bytes / self.bytes_per_s if self.bytes_per_s else 0.0))


def is_state(path: str) -> bool:
    """Whether an object of a checkpoint is state: neither metadata nor of the journal."""
    return "/chk-" in path and not path.endswith("_metadata")
