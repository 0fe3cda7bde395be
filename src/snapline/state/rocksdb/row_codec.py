"""Entries as bytes: the layout of state inside RocksDB.

A key starts with the number of the state and the key group, two big-endian bytes each, so that the entries of a state
are together and ordered by key group. The key columns follow: eight big-endian bytes for those of fixed width; for
strings and bytes, the length in four bytes and then the bytes. So no key is a prefix of another by accident, and all
entries of a key share a prefix. A value starts with eight bytes for the time of its last update, if that is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from snapline.state.arrays import Ints, Octets
from snapline.state.fixed_columns import dtype_of, fixed_array, fixed_numbers, is_fixed_width, struct_array
from snapline.state.key_index import FrozenBytesKeys, FrozenFixedKeys, FrozenKeys
from snapline.state.stable_hash import bytes_of

HEAD_BYTES = 4
_WORD = 8


def heads(state: int, groups: npt.NDArray[np.uint16]) -> Octets:
    """The first four bytes of keys."""
    result = np.empty((len(groups), 2), dtype=">u2")
    result[:, 0] = state
    result[:, 1] = groups
    return result.view(np.uint8)


def head(state: int, group: int) -> bytes:
    """The first bytes of all keys of a key group; that of the next key group is their end."""
    return ((state << 16) + group).to_bytes(HEAD_BYTES + 1, "big")[1:]


def in_order(groups: npt.NDArray[np.uint16], columns: Sequence[FrozenKeys]) -> Ints:
    """The order of entries by key. RocksDB reads and writes neighbours faster, and files of tables need it."""
    if not any(isinstance(column, FrozenBytesKeys) for column in columns):
        words = [column.words for column in columns if isinstance(column, FrozenFixedKeys)]
        if len(words) == 1:
            return _one_word_order(groups, words[0])
        by: list[npt.NDArray[Any]] = [*reversed(words), groups]
        return np.lexsort(by)
    parts: list[Any] = [groups]
    for column in columns:
        if isinstance(column, FrozenBytesKeys):
            parts += [_lengths(column).view(">u4").astype(np.uint32), column.array]
        else:
            parts.append(column.words)
    table = pa.table([pa.array(part) if isinstance(part, np.ndarray) else part for part in parts], _names(len(parts)))
    order: Ints = pc.sort_indices(table, [(name, "ascending") for name in table.column_names]).to_numpy()
    return order.astype(np.int64)


def _one_word_order(groups: npt.NDArray[np.uint16], words: npt.NDArray[np.uint64]) -> Ints:
    """Sort by the word, then by the group: a stable sort of small integers is a radix sort."""
    order = np.argsort(words, kind="quicksort")
    return order[np.argsort(groups[order], kind="stable")]


def _names(count: int) -> list[str]:
    return [f"c{number}" for number in range(count)]


def _lengths(column: FrozenBytesKeys) -> npt.NDArray[np.uint32]:
    """The lengths of strings or bytes, as they are stored: four little-endian bytes each."""
    return np.diff(bytes_of(column.array)[0]).astype("<u4")


def encode_keys(start: Octets, columns: Sequence[FrozenKeys]) -> list[bytes]:
    """The keys of entries: `start`, then the columns."""
    if not any(isinstance(column, FrozenBytesKeys) for column in columns):
        words = [_word_bytes(column) for column in columns]
        return _rows(np.hstack([start, *words]))
    pieces = [_rows(start)]
    for column in columns:
        if isinstance(column, FrozenBytesKeys):
            pieces.append(_rows(_lengths(column).view(np.uint8).reshape(-1, 4)))
            pieces.append(column.array.to_pylist())
        else:
            pieces.append(_rows(_word_bytes(column)))
    return [b"".join(parts) for parts in zip(*pieces, strict=True)]


def decode_keys(keys: Sequence[bytes], start: int, kinds: Sequence[pa.DataType]) -> list[pa.Array]:
    """The columns of keys, from byte `start` on."""
    fixed = [dtype_of(kind) is not None for kind in kinds]
    if all(fixed):
        matrix = np.frombuffer(b"".join(keys), dtype=np.uint8).reshape(len(keys), -1)
        return [
            _from_words(np.ascontiguousarray(matrix[:, at : at + _WORD]).view(">u8").ravel().astype(np.uint64), kind)
            for kind, at in zip(kinds, range(start, start + _WORD * len(kinds), _WORD), strict=True)
        ]
    columns: list[list[Any]] = [[] for _ in kinds]
    for key in keys:
        at = start
        for column, is_fixed in zip(columns, fixed, strict=True):
            if is_fixed:
                column.append(int.from_bytes(key[at : at + _WORD], "big"))
                at += _WORD
            else:
                length = int.from_bytes(key[at : at + 4], "little")
                column.append(key[at + 4 : at + 4 + length])
                at += 4 + length
    return [
        _from_words(np.array(column, dtype=np.uint64), kind) if is_fixed else pa.array(column, pa.binary()).cast(kind)
        for column, kind, is_fixed in zip(columns, kinds, fixed, strict=True)
    ]


def _word_bytes(column: FrozenKeys) -> Octets:
    assert not isinstance(column, FrozenBytesKeys)
    return np.ascontiguousarray(column.words.astype(">u8")).view(np.uint8).reshape(-1, _WORD)


def _from_words(words: npt.NDArray[np.uint64], kind: pa.DataType) -> pa.Array:
    return FrozenFixedKeys(kind, words).to_arrow()


def _rows(matrix: Octets) -> list[bytes]:
    width = matrix.shape[1]
    rows: list[bytes] = np.ascontiguousarray(matrix).reshape(-1).view(f"V{width}").tolist() if len(matrix) else []
    return rows


class ValueCodec:
    """Encodes values of one type, none of them null, as bytes."""

    def __init__(self, kind: pa.DataType) -> None:
        self._kind = kind
        self._is_fixed = is_fixed_width(kind)
        self._is_bytes = pa.types.is_string(kind) or pa.types.is_binary(kind)

    def encode(self, values: pa.Array) -> list[bytes]:
        if self._is_fixed:
            return _rows(np.hstack(_fixed_bytes(values, is_top=True)))
        if self._is_bytes:
            stored: list[bytes] = values.cast(pa.binary()).to_pylist()
            return stored
        return [
            pa.record_batch([values.slice(row, 1)], names=["value"]).serialize().to_pybytes()
            for row in range(len(values))
        ]

    def decode(self, stored: Sequence[bytes]) -> pa.Array:
        if self._is_fixed:
            if not stored:
                return pa.array([], self._kind)
            matrix = np.frombuffer(b"".join(stored), dtype=np.uint8).reshape(len(stored), -1)
            return _from_fixed_bytes(matrix, 0, self._kind, is_top=True)[0]
        if self._is_bytes:
            return pa.array(stored, pa.binary()).cast(self._kind)
        schema = pa.schema([("value", self._kind)])
        rows = [pa.ipc.read_record_batch(pa.py_buffer(data), schema).column(0) for data in stored]
        return pa.concat_arrays(rows) if rows else pa.array([], self._kind)


def _fixed_bytes(values: pa.Array, *, is_top: bool) -> list[Octets]:
    """Columns of bytes: a flag for null (not at the top), then the value, or for structs the fields."""
    parts = []
    if not is_top:
        parts.append(values.is_valid().cast(pa.uint8()).to_numpy().reshape(-1, 1))
    if pa.types.is_struct(values.type):
        for field in values.flatten():
            parts += _fixed_bytes(field, is_top=False)
        return parts
    dtype = dtype_of(values.type)
    assert dtype is not None
    numbers = fixed_numbers(values.fill_null(False) if pa.types.is_boolean(values.type) else values, dtype)
    parts.append(np.ascontiguousarray(numbers).view(np.uint8).reshape(len(values), dtype.itemsize))
    return parts


def _from_fixed_bytes(matrix: Octets, at: int, kind: pa.DataType, *, is_top: bool) -> tuple[pa.Array, int]:
    """The values in columns of bytes from `at` on, and the position of their end."""
    nulls = None
    if not is_top:
        nulls = matrix[:, at] == 0
        at += 1
    if pa.types.is_struct(kind):
        fields = []
        for field in kind:
            values, at = _from_fixed_bytes(matrix, at, field.type, is_top=False)
            fields.append(values)
        return struct_array(kind, fields, nulls, len(matrix)), at
    dtype = dtype_of(kind)
    assert dtype is not None
    end = at + dtype.itemsize
    return fixed_array(kind, np.ascontiguousarray(matrix[:, at:end]).view(dtype).ravel(), nulls), end


def stamp(values: list[bytes], updated: Ints) -> list[bytes]:
    """Prefix values with the time of their last update."""
    times = _rows(np.ascontiguousarray(updated.astype("<i8", copy=False)).view(np.uint8).reshape(-1, _WORD))
    return [time + value for time, value in zip(times, values, strict=True)]


def unstamp(stored: Sequence[bytes]) -> tuple[list[bytes], Ints]:
    times = np.frombuffer(b"".join(value[:_WORD] for value in stored), dtype="<i8").astype(np.int64)
    return [value[_WORD:] for value in stored], times


def updated_ms(value: bytes) -> int:
    """The time of the last update, from a stamped value."""
    return int.from_bytes(value[:_WORD], "little", signed=True)
