"""The contract of readers of one file."""

from __future__ import annotations

from abc import ABC, abstractmethod

import pyarrow as pa

from snapline.contracts.source import Position, Wait


class FileRows(ABC):
    """The rows of a file or of a part of it. `position` is that of the next row."""

    @abstractmethod
    def read(self) -> pa.RecordBatch | Wait | None:
        """The next rows; None at the end."""

    @property
    @abstractmethod
    def position(self) -> Position: ...

    @abstractmethod
    def close(self) -> None: ...
