"""The job's committed output, read as it appears."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow.parquet as pq

_COMMITTED = re.compile(r".*-(?P<checkpoint>\d{10,})-\d+-\d+-[0-9a-f]+\.parquet")


class Results:
    """The committed files of the job's output. A committed file never changes, so each is read once."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._read: set[str] = set()
        self._counts: dict[str, int] = {}
        self._rows_of: dict[int, int] = {}

    @property
    def rows(self) -> int:
        return sum(self._rows_of.values())

    @property
    def files(self) -> int:
        return len(self._read)

    def refresh(self) -> None:
        """Read the files committed since the last call."""
        if not self._directory.is_dir():
            return
        for path in self._directory.iterdir():
            match = _COMMITTED.fullmatch(path.name)
            if match is not None and path.name not in self._read:
                self._take(path, int(match["checkpoint"]))

    def top(self, count: int) -> tuple[tuple[str, int], ...]:
        """Returns the users with the most clicks and their counts, most first."""
        ordered = sorted(self._counts.items(), key=lambda item: (-item[1], item[0]))
        return tuple(ordered[:count])

    def rows_until(self, checkpoint_id: int) -> int:
        """Returns the rows committed up to this checkpoint, which is the source's position at that time."""
        return sum(rows for checkpoint, rows in self._rows_of.items() if checkpoint <= checkpoint_id)

    def _take(self, path: Path, checkpoint_id: int) -> None:
        table = pq.ParquetFile(path).read(columns=["user", "number"])
        highest = table.group_by("user").aggregate([("number", "max")])
        for user, number in zip(highest["user"].to_pylist(), highest["number_max"].to_pylist(), strict=True):
            self._counts[user] = max(number, self._counts.get(user, 0))
        self._rows_of[checkpoint_id] = self._rows_of.get(checkpoint_id, 0) + table.num_rows
        self._read.add(path.name)
