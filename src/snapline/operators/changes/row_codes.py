"""Rows as bytes: equal exactly if all their values are, nulls included.

State can be keyed by bytes, but not by nulls, decimals or nested values. Codes are part of checkpoints, so their form
never changes. In words: a bit for each column that says whether it is null; then, column by column, the bytes of a
value of fixed width (zeros for null) or the length of any other as int32; then the bytes of those others. A struct
counts as a column without bytes, followed by its fields; a list as the codes of its elements, with their number as its
length; a map as a list of structs. All numbers are little-endian.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from snapline.errors import ConfigurationError
from snapline.state.arrays import Bools, Ints, Octets

_LENGTH = np.dtype("<i4")


def row_codes(columns: Sequence[pa.Array], count: int, *, normalise: bool = False) -> pa.Array:
    """The code of each of `count` rows, as a binary array without nulls.

    With `normalise`, -0.0 has the code of 0.0 and every NaN the same one, as SQL wants it in keys; without, floats are
    equal if their bits are.
    """
    flat: list[pa.Array] = []
    for column in columns:
        _flatten(column, flat)
    head: list[Octets] = [_null_bits(flat, count)]
    tails: list[pa.Array] = []
    for column in flat:
        fixed = _fixed_bytes(column, count, normalise)
        if fixed is None:
            lengths, tail = _variable_bytes(column, normalise)
            head.append(lengths.astype(_LENGTH).view(np.uint8).reshape(count, _LENGTH.itemsize))
            tails.append(tail)
        elif fixed.shape[1]:
            head.append(fixed)
    code = _binary(np.ascontiguousarray(np.concatenate(head, axis=1)))
    return pc.binary_join_element_wise(code, *tails, b"") if tails else code


def _flatten(column: pa.Array, into: list[pa.Array]) -> None:
    """Append a column, and after a struct its fields."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        _flatten(column.dictionary_decode(), into)
    elif pa.types.is_struct(kind):
        into.append(column)
        for field in column.flatten():
            _flatten(field, into)
    else:
        into.append(column)


def _null_bits(columns: Sequence[pa.Array], count: int) -> Octets:
    flags = np.zeros((count, max(len(columns), 1)), dtype=np.bool_)
    for number, column in enumerate(columns):
        if column.null_count:
            flags[:, number] = column.is_null().to_numpy(zero_copy_only=False)
    return np.packbits(flags, axis=1, bitorder="little")


def _fixed_bytes(column: pa.Array, count: int, normalise: bool) -> Octets | None:
    """A matrix with the bytes of each value; None for types without fixed width."""
    kind = column.type
    if pa.types.is_struct(kind) or pa.types.is_null(kind):
        return np.zeros((count, 0), dtype=np.uint8)
    if pa.types.is_boolean(kind):
        column, kind = column.cast(pa.uint8()), pa.uint8()
    try:
        width = kind.bit_width // 8
    except ValueError:
        return None
    if pa.types.is_nested(kind):
        return None
    data: Octets = np.frombuffer(column.buffers()[1] or b"", dtype=np.uint8)
    data = data[column.offset * width : (column.offset + count) * width].reshape(count, width)
    if normalise and pa.types.is_floating(kind):
        data = _normalised(data, width)
    if column.null_count:
        data = data.copy()
        data[column.is_null().to_numpy(zero_copy_only=False)] = 0
    return data


def _normalised(data: Octets, width: int) -> Octets:
    floats = np.ascontiguousarray(data).view(f"<f{width}") + np.array(0, dtype=f"<f{width}")
    is_nan: Bools = np.isnan(floats)
    if is_nan.any():
        floats[is_nan] = np.nan
    normal: Octets = floats.view(np.uint8).reshape(len(data), width)
    return normal


def _variable_bytes(column: pa.Array, normalise: bool) -> tuple[Ints, pa.Array]:
    """The length of each value and its bytes, empty for null."""
    kind = column.type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind):
        return _list_bytes(column, normalise)
    if pa.types.is_fixed_size_list(kind):
        return _list_bytes(column.cast(pa.list_(kind.value_field)), normalise)
    if not (
        pa.types.is_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_string_view(kind)
        or pa.types.is_binary_view(kind)
    ):
        raise ConfigurationError(f"values of type {kind} cannot be compared; leave the column out or cast it")
    plain = column.cast(pa.binary())
    if plain.null_count:
        plain = pc.fill_null(plain, b"")
    return pc.binary_length(plain).to_numpy(), plain


def _list_bytes(column: pa.Array, normalise: bool) -> tuple[Ints, pa.Array]:
    if pa.types.is_map(column.type):
        entry = pa.struct([column.type.key_field, column.type.item_field])
        column = column.cast(pa.list_(pa.field("entries", entry, nullable=False)))
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    elements = column.flatten()
    codes = row_codes([elements], len(elements), normalise=normalise)
    ends = np.frombuffer(codes.buffers()[1], dtype=np.int32)[codes.offset : codes.offset + len(codes) + 1]
    offsets = ends[np.concatenate([[0], np.cumsum(lengths)])]
    return lengths, pa.Array.from_buffers(
        pa.binary(), len(column), [None, pa.py_buffer(np.ascontiguousarray(offsets)), codes.buffers()[2]]
    )


def _binary(matrix: Octets) -> pa.Array:
    """Each row of a matrix of bytes as a binary value."""
    count, width = matrix.shape
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(width)
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(matrix)])
