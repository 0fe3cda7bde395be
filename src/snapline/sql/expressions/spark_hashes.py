"""Spark's own hashes of columns: Murmur3 with 32 bits and xxHash with 64, on whole arrays."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from decimal import localcontext
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from snapline.sql.expressions.frame import Value, as_array
from snapline.sql.expressions.registry import Kernel, UnsupportedError, kernel
from snapline.sql.expressions.values import numbers, valid
from snapline.sql.plans.trees import Expression

Words = npt.NDArray[Any]
"""Unsigned numbers, 32 or 64 bits wide."""


class _Hash(ABC):
    """A hash that goes on from column to column: the hash so far is the seed of the next value."""

    word: type[np.unsignedinteger[Any]]

    @abstractmethod
    def ints(self, values: npt.NDArray[np.uint32], seeds: Words) -> Words:
        """Hashes of numbers with 32 bits."""

    @abstractmethod
    def longs(self, values: npt.NDArray[np.uint64], seeds: Words) -> Words:
        """Hashes of numbers with 64 bits."""

    @abstractmethod
    def bytes(self, data: npt.NDArray[np.uint8], starts: Words, sizes: Words, seeds: Words) -> Words:
        """Hashes of stretches of bytes."""

    def array(self, array: pa.Array, seeds: Words) -> Words:
        """Hashes of all values; a null leaves the seed as it is."""
        there = valid(array)
        if not there.all():
            result = seeds.copy()
            result[there] = self.array(array.filter(pa.array(there)), seeds[there])
            return result
        type = array.type
        if pa.types.is_string(type) or pa.types.is_binary(type):
            return self._of_text(array, seeds)
        if pa.types.is_decimal(type):
            return self._of_decimals(array, seeds)
        if pa.types.is_list(type):
            return self._of_lists(array.offsets, [array.values], seeds)
        if pa.types.is_struct(type):
            for field in array.flatten():
                seeds = self.array(field, seeds)
            return seeds
        if pa.types.is_interval(type):
            return self._of_intervals(array, seeds)
        if pa.types.is_null(type):
            return seeds
        return self._of_numbers(array, seeds)

    def _of_numbers(self, array: pa.Array, seeds: Words) -> Words:
        type = array.type
        if pa.types.is_boolean(type):
            return self.ints(numbers(array, False).astype(np.uint32), seeds)
        if pa.types.is_floating(type):
            data = numbers(array)
            data = np.where(data == 0, data.dtype.type(0), np.where(np.isnan(data), data.dtype.type(np.nan), data))
            if pa.types.is_float32(type):
                return self.ints(data.view(np.uint32), seeds)
            return self.longs(data.view(np.uint64), seeds)
        if type.bit_width == 64:
            return self.longs(numbers(array.view(pa.int64())).view(np.uint64), seeds)
        if pa.types.is_date32(type):
            array = array.view(pa.int32())
        return self.ints(numbers(array).astype(np.int32).view(np.uint32), seeds)

    def _of_text(self, array: pa.Array, seeds: Words) -> Words:
        _, offsets, data = array.buffers()
        places = np.frombuffer(offsets, np.int32, len(array) + 1, array.offset * 4).astype(np.int64)
        octets = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
        return self.bytes(octets, places[:-1], np.diff(places), seeds)

    def _of_decimals(self, array: pa.Array, seeds: Words) -> Words:
        scale = array.type.scale
        with localcontext(prec=80):
            unscaled = [int(value.scaleb(scale)) for value in array.to_pylist()]
        if array.type.precision <= 18:
            return self.longs(np.array(unscaled, np.int64).view(np.uint64), seeds)
        written = [n.to_bytes((n if n >= 0 else ~n).bit_length() // 8 + 1, "big", signed=True) for n in unscaled]
        return self._of_text(pa.array(written, pa.binary()), seeds)

    def _of_intervals(self, array: pa.Array, seeds: Words) -> Words:
        parts = array.to_pylist()
        months, days = (np.array([part[n] for part in parts], np.int32).view(np.uint32) for n in (0, 1))
        micros = np.array([part[2] // 1000 for part in parts], np.int64).view(np.uint64)
        return self.ints(months, self.ints(days, self.longs(micros, seeds)))

    def _of_lists(self, offsets: pa.Array, columns: list[pa.Array], seeds: Words) -> Words:
        bounds = offsets.to_numpy().astype(np.int64)
        sizes = np.diff(bounds)
        result = seeds.copy()
        for place in range(int(sizes.max(initial=0))):
            rows = np.flatnonzero(sizes > place)
            for column in columns:
                result[rows] = self.array(column.take(pa.array(bounds[rows] + place)), result[rows])
        return result


def _rotated(values: Words, by: int) -> Words:
    width = values.dtype.itemsize * 8
    left, right = values.dtype.type(by), values.dtype.type(width - by)
    rotated: Words = (values << left) | (values >> right)
    return rotated


def _little_endian(data: npt.NDArray[np.uint8], places: Words, size: int, word: Any) -> Words:
    result = data[places].astype(word)
    for byte in range(1, size):
        result |= data[places + byte].astype(word) << word(8 * byte)
    return result


class _Murmur3(_Hash):
    word = np.uint32

    def ints(self, values: npt.NDArray[np.uint32], seeds: Words) -> Words:
        return self._finished(self._mixed(seeds, values), np.uint32(4))

    def longs(self, values: npt.NDArray[np.uint64], seeds: Words) -> Words:
        low, high = values.astype(np.uint32), (values >> np.uint64(32)).astype(np.uint32)
        return self._finished(self._mixed(self._mixed(seeds, low), high), np.uint32(8))

    def bytes(self, data: npt.NDArray[np.uint8], starts: Words, sizes: Words, seeds: Words) -> Words:
        result = seeds.copy()
        words = sizes // 4
        for place in range(int(words.max(initial=0))):
            rows = np.flatnonzero(words > place)
            read = _little_endian(data, starts[rows] + 4 * place, 4, np.uint32)
            result[rows] = self._mixed(result[rows], read)
        for place in range(3):
            rows = np.flatnonzero(sizes % 4 > place)
            read = data[starts[rows] + words[rows] * 4 + place].view(np.int8).astype(np.int32).view(np.uint32)
            result[rows] = self._mixed(result[rows], read)
        return self._finished(result, sizes.astype(np.uint32))

    def _mixed(self, seeds: Words, values: Words) -> Words:
        values = _rotated(values * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
        return _rotated(seeds ^ values, 13) * np.uint32(5) + np.uint32(0xE6546B64)

    def _finished(self, values: Words, size: Any) -> Words:
        values = values ^ size
        values = (values ^ (values >> np.uint32(16))) * np.uint32(0x85EBCA6B)
        values = (values ^ (values >> np.uint32(13))) * np.uint32(0xC2B2AE35)
        finished: Words = values ^ (values >> np.uint32(16))
        return finished


_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(prime)
    for prime in (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
)


class _XxHash(_Hash):
    word = np.uint64

    def ints(self, values: npt.NDArray[np.uint32], seeds: Words) -> Words:
        return self._finished(self._with_int(seeds + _P5 + np.uint64(4), values.astype(np.uint64)))

    def longs(self, values: npt.NDArray[np.uint64], seeds: Words) -> Words:
        return self._finished(self._with_long(seeds + _P5 + np.uint64(8), values))

    def bytes(self, data: npt.NDArray[np.uint8], starts: Words, sizes: Words, seeds: Words) -> Words:
        result = seeds + _P5
        done = sizes // 32 * 32
        long = np.flatnonzero(done)
        result[long] = self._of_stripes(data, starts[long], done[long], seeds[long])
        result += sizes.astype(np.uint64)
        for _ in range(3):
            rows = np.flatnonzero(sizes - done >= 8)
            read = _little_endian(data, starts[rows] + done[rows], 8, np.uint64)
            result[rows] = self._with_long(result[rows], read)
            done[rows] += 8
        rows = np.flatnonzero(sizes - done >= 4)
        read = _little_endian(data, starts[rows] + done[rows], 4, np.uint64)
        result[rows] = self._with_int(result[rows], read)
        done[rows] += 4
        for place in range(3):
            rows = np.flatnonzero(sizes - done > place)
            read = data[starts[rows] + done[rows] + place].astype(np.uint64)
            result[rows] = _rotated(result[rows] ^ (read * _P5), 11) * _P1
        return self._finished(result)

    def _of_stripes(self, data: npt.NDArray[np.uint8], starts: Words, sizes: Words, seeds: Words) -> Words:
        lanes = [seeds + _P1 + _P2, seeds + _P2, seeds.copy(), seeds - _P1]
        for place in range(0, int(sizes.max(initial=0)), 32):
            rows = np.flatnonzero(sizes > place)
            for number, lane in enumerate(lanes):
                read = _little_endian(data, starts[rows] + place + 8 * number, 8, np.uint64)
                lane[rows] = _rotated(lane[rows] + read * _P2, 31) * _P1
        result = _rotated(lanes[0], 1) + _rotated(lanes[1], 7) + _rotated(lanes[2], 12) + _rotated(lanes[3], 18)
        for lane in lanes:
            result = (result ^ (_rotated(lane * _P2, 31) * _P1)) * _P1 + _P4
        return result

    def _with_long(self, seeds: Words, values: Words) -> Words:
        return _rotated(seeds ^ (_rotated(values * _P2, 31) * _P1), 27) * _P1 + _P4

    def _with_int(self, seeds: Words, values: Words) -> Words:
        return _rotated(seeds ^ (values * _P1), 23) * _P2 + _P3

    def _finished(self, values: Words) -> Words:
        values = (values ^ (values >> np.uint64(33))) * _P2
        values = (values ^ (values >> np.uint64(29))) * _P3
        finished: Words = values ^ (values >> np.uint64(32))
        return finished


_HASHES: Final = {"Murmur3Hash": (_Murmur3(), pa.int32()), "XxHash64": (_XxHash(), pa.int64())}


@kernel("Murmur3Hash", "XxHash64", reads_all=True)
def _hash(expression: Expression) -> Kernel:
    hash, type = _HASHES[expression.kind]
    seed = np.array(expression.arguments["seed"]).astype(np.int64).astype(hash.word)
    for child in expression.children:
        if _has_map(child.type):
            raise UnsupportedError(f"the hash of a map is not supported: {expression.text}")

    def run(values: Sequence[Value], rows: int) -> Value:
        length = 1 if all(isinstance(value, pa.Scalar) for value in values) else rows
        hashes: Words = np.full(length, seed, hash.word)
        with np.errstate(over="ignore"):
            for value in values:
                hashes = hash.array(as_array(value, length), hashes)
        result = pa.array(hashes.view(type.to_pandas_dtype()), type)
        return result[0] if length != rows else result

    return run


def _has_map(type: pa.DataType) -> bool:
    if pa.types.is_map(type):
        return True
    return any(_has_map(type.field(n).type) for n in range(type.num_fields))
