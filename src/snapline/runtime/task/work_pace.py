"""How much data a subtask takes from its channels at once, learned from how long its operators take."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

_MERGED_S = 0.01
"""Small batches that wait are merged up to what takes about this long."""
_SLICED_S = 0.05
"""Of a batch that takes longer only a part is taken, so that a barrier in a hurry waits about this long at most."""
_WORTH = 4
"""What a call costs however few rows it has is paid for rows that take at least this many times as long."""
_DECAY = 0.95
"""How much the last call counts, against one before it."""
_SPREAD = 0.01
"""Calls whose numbers of rows vary less than this (the variance over the square of the mean) tell nothing new about
what a call costs without rows."""


class WorkPace:
    """Learns what a call of the operators takes: a fixed part, and a part for each row (a weighted linear fit).

    batch_bytes: batches are merged up to this size.
    slices: whether batches are cut; of use only where barriers may overtake data.
    """

    def __init__(self, time_s: Callable[[], float], batch_bytes: int, *, slices: bool) -> None:
        self._time_s = time_s
        self.batch_bytes = batch_bytes
        self._slices = slices
        self._fixed_s = 0.0
        self._row_s: float | None = None
        self._weight = self._rows = self._seconds = self._rows_rows = self._rows_seconds = 0.0

    def run(self, process: Callable[[pa.RecordBatch, int], None], batch: pa.RecordBatch, input_index: int) -> None:
        """Let the operators process a batch of one of their inputs."""
        began_s = self._time_s()
        process(batch, input_index)
        self.note(batch.num_rows, self._time_s() - began_s)

    def note(self, rows: int, seconds: float) -> None:
        """A call with this many rows took this long."""
        self._weight = self._weight * _DECAY + 1
        self._rows = self._rows * _DECAY + rows
        self._seconds = self._seconds * _DECAY + seconds
        self._rows_rows = self._rows_rows * _DECAY + rows * rows
        self._rows_seconds = self._rows_seconds * _DECAY + rows * seconds
        if not self._rows:
            return
        variance = self._weight * self._rows_rows - self._rows * self._rows
        if variance > _SPREAD * self._rows * self._rows:
            slope = (self._weight * self._rows_seconds - self._rows * self._seconds) / variance
            self._fixed_s = max((self._seconds - max(slope, 0.0) * self._rows) / self._weight, 0.0)
        self._row_s = max(self._seconds - self._fixed_s * self._weight, 0.0) / self._rows

    @property
    def merged_rows(self) -> float:
        """Batches are merged up to this many rows; 0 as long as nothing is known."""
        return 0 if self._row_s is None else self._rows_within(_MERGED_S, self._row_s)

    @property
    def sliced_rows(self) -> float:
        """A batch with more rows than this is cut."""
        if not self._slices or self._row_s is None:
            return float("inf")
        return self._rows_within(_SLICED_S, self._row_s)

    def _rows_within(self, seconds: float, row_s: float) -> float:
        return max(max(seconds, _WORTH * self._fixed_s) / row_s, 1.0) if row_s > 0 else float("inf")
