"""Where the characters of strings are in memory, so that strings are cut without a loop over rows."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Integers = npt.NDArray[np.int64]


class TextBuffer:
    """The bytes of a string or binary array. Positions count characters for strings and bytes for binary."""

    def __init__(self, array: pa.Array) -> None:
        self._array = array
        _, offsets, data = array.buffers()
        self._offsets = np.frombuffer(offsets, np.int32, len(array) + 1, array.offset * 4).astype(np.int64)
        self._data = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
        low, high = self._offsets[0], self._offsets[-1]
        self.is_ascii = pa.types.is_binary(array.type) or not (self._data[low:high] & 0x80).any()
        if not self.is_ascii:
            heads = (self._data & 0xC0) != 0x80
            self._heads = np.append(np.flatnonzero(heads), len(self._data))
            self._counts = np.concatenate([np.zeros(1, np.int64), np.cumsum(heads)])

    @property
    def lengths(self) -> Integers:
        """How many characters each value has."""
        return np.diff(self._offsets if self.is_ascii else self._counts[self._offsets])

    def characters(self, byte_positions: Integers) -> Integers:
        """Of byte positions inside of each value, how many characters stand before them."""
        if self.is_ascii:
            return byte_positions
        starts = self._offsets[:-1]
        before: Integers = self._counts[starts + byte_positions] - self._counts[starts]
        return before

    def slices(self, starts: Integers, stops: Integers) -> pa.Array:
        """The characters from `starts` to before `stops` of each value; bounds outside of a value are cut to it."""
        lengths = self.lengths
        starts = np.clip(starts, 0, lengths)
        stops = np.clip(stops, starts, lengths)
        if self.is_ascii:
            low, high = self._offsets[:-1] + starts, self._offsets[:-1] + stops
        else:
            first = self._counts[self._offsets[:-1]]
            low, high = self._heads[first + starts], self._heads[first + stops]
        return self._gathered(low, high)

    def _gathered(self, low: Integers, high: Integers) -> pa.Array:
        sizes = high - low
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        places = np.repeat(low - offsets[:-1], sizes) + np.arange(offsets[-1])
        validity = self._array.is_valid() if self._array.null_count else None
        buffers = [
            None if validity is None else validity.buffers()[1],
            pa.py_buffer(offsets.astype(np.int32)),
            pa.py_buffer(self._data[places]),
        ]
        return pa.Array.from_buffers(self._array.type, len(self._array), buffers)
