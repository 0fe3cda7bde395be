"""The stable hash: 64 bits for a key, the same in every process, on every platform and in every version.

It decides key groups, and so which subtask owns which state: it can never change. In words:

- All arithmetic is modulo 2**64. `mix(x)` is the finaliser of SplitMix64: `x ^= x >> 30; x *= MIX_1; x ^= x >> 27;
  x *= MIX_2; x ^= x >> 31`. `fold(h, w) = mix((h ^ w) * GAMMA + MIX_2)`.
- A whole number x hashes to `mix(x + GAMMA)`, whatever its width. A bool counts as 0 or 1, a date as days since 1970, a
  timestamp as nanoseconds since 1970 in UTC, whatever its unit.
- A float hashes as the bits of its float64, -0.0 as 0.0 and every NaN as 0x7FF8000000000000.
- Bytes start with `h = mix(length * GAMMA + GAMMA)`; each 8 bytes, little-endian, the last ones padded with zeros, are
  folded in. A string hashes as its UTF-8 bytes.
- A key of n > 1 columns starts with `mix(n * GAMMA)`, and the hash of each column is folded in. A key of one column
  hashes as that column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from snapline.errors import ConfigurationError, UserCodeError
from snapline.state.arrays import Ints, Octets, Words
from snapline.text import explanation, for_row, shortened

GAMMA = 0x9E3779B97F4A7C15
MIX_1 = 0xBF58476D1CE4E5B9
MIX_2 = 0x94D049BB133111EB

_MASK = (1 << 64) - 1
_NAN_BITS = np.uint64(0x7FF8000000000000)
_U = np.uint64
_GAMMA, _MIX_1, _MIX_2 = _U(GAMMA), _U(MIX_1), _U(MIX_2)
_TAIL_MASKS = np.array([(1 << (8 * count)) - 1 for count in range(8)] + [_MASK], dtype=np.uint64)
_WORD = 8
_FEW = 64
"""Once at most this many rows have bytes left, they are hashed one by one: vectorised steps would cost more."""

_NANOSECONDS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
DAY_MS = 86_400_000


class NullKeyError(UserCodeError):
    """A key is null. `column` names the key column, `operator` the operator that keys by it, if known.

    Raised before rows are sent to the subtask that owns their keys, and there too.
    """

    def __init__(self, column: str, operator: str = "", row: Mapping[str, Any] | None = None) -> None:
        argument = column if column.isidentifier() else "key"
        super().__init__(
            f"{operator}{operator and ': '}the key column {column!r} has nulls, and a row without a key belongs "
            f"nowhere; filter such rows out before key_by(), with filter(pc.field({column!r}).is_valid()), or give "
            f"them a key of your own, with "
            f"with_columns({argument}=pc.coalesce(pc.field({column!r}), pc.scalar(...))){for_row(row)}"
        )
        self.column = column
        self.operator = operator


def check_no_nulls(columns: Sequence[pa.Array], names: Sequence[str], operator: str, batch: pa.RecordBatch) -> None:
    """Raise `NullKeyError` if a key column of a batch has nulls. `operator` is the operator that receives the rows."""
    for column, name in zip(columns, names, strict=True):
        if column.null_count:
            (row,) = batch.slice(column.is_null().index(True).as_py(), 1).to_pylist()
            raise NullKeyError(name, operator, row)


@dataclass(frozen=True, slots=True)
class FixedKeys:
    """A key column with one word per row. Rows are equal exactly if their words are.

    `is_hash_exact`: different words also have different hashes.
    """

    words: Words
    hashed: Words
    is_hash_exact: bool = True

    def __len__(self) -> int:
        return len(self.words)

    def hashes(self) -> Words:
        return mix(self.hashed + _GAMMA)

    def word(self, row: int) -> int:
        return int(self.words[row])

    def take(self, rows: Ints) -> FixedKeys:
        words = self.words[rows]
        return FixedKeys(words, words if self.is_hash_exact else self.hashed[rows], self.is_hash_exact)


class BytesKeys:
    """A key column of strings or bytes, as a large binary array."""

    is_hash_exact = False

    def __init__(self, array: pa.Array) -> None:
        self.array = array

    def __len__(self) -> int:
        return len(self.array)

    def hashes(self) -> Words:
        offsets, data = bytes_of(self.array)
        padded = np.zeros(len(data) + _WORD, dtype=np.uint8)
        padded[: len(data)] = data
        starts, left = offsets[:-1], np.diff(offsets)
        result = mix(left.astype(np.uint64) * _GAMMA + _GAMMA)
        for _ in range(-(-int(left.max(initial=0)) // _WORD)):
            is_left = left > 0
            count = int(np.count_nonzero(is_left))
            if count <= _FEW:
                for row in np.flatnonzero(is_left).tolist():
                    rest = padded[starts[row] : starts[row] + left[row]].tobytes()
                    result[row] = _fold_bytes(int(result[row]), rest)
                break
            if 2 * count > len(left):
                folded = fold(result, _words_at(padded, starts, left))
                result = folded if count == len(left) else np.where(is_left, folded, result)
            else:
                rows = np.flatnonzero(is_left)
                result[rows] = fold(result[rows], _words_at(padded, starts[rows], left[rows]))
            starts, left = starts + _WORD, left - _WORD
        return result

    def word(self, row: int) -> bytes:
        value: bytes = self.array[row].as_py()
        return value

    def take(self, rows: Ints) -> BytesKeys:
        return BytesKeys(self.array.take(pa.array(rows)))


EncodedKeys: TypeAlias = FixedKeys | BytesKeys


def bytes_of(array: pa.Array) -> tuple[Ints, Octets]:
    """The offsets of a large binary array, rebased to 0, and its bytes."""
    if not len(array):
        return np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.uint8)
    _, offsets_buffer, data_buffer = array.buffers()
    offsets = np.frombuffer(offsets_buffer, dtype=np.int64, count=len(array) + 1, offset=array.offset * _WORD)
    first, count = int(offsets[0]), int(offsets[-1] - offsets[0])
    if not count:
        return offsets - first, np.zeros(0, dtype=np.uint8)
    return offsets - first, np.frombuffer(data_buffer, dtype=np.uint8, count=count, offset=first)


def _words_at(padded: Octets, starts: Ints, left: Ints) -> Words:
    """The little-endian words at byte positions; bytes beyond `left` are zero."""
    view = np.ndarray((len(padded) - _WORD + 1,), dtype="<u8", buffer=padded, strides=(1,))
    words = view[np.minimum(starts, len(view) - 1)].astype(np.uint64, copy=False)
    words &= _TAIL_MASKS[np.clip(left, 0, _WORD)]
    return words


def mix(words: Words) -> Words:
    """Spread every bit of a word over all of it. Overwrites `words`."""
    shifted = words >> _U(30)
    words ^= shifted
    words *= _MIX_1
    np.right_shift(words, _U(27), out=shifted)
    words ^= shifted
    words *= _MIX_2
    np.right_shift(words, _U(31), out=shifted)
    words ^= shifted
    return words


def fold(hashes: Words, words: Words) -> Words:
    folded = hashes ^ words
    folded *= _GAMMA
    folded += _MIX_2
    return mix(folded)


def combine(hashes: Sequence[Words]) -> Words:
    """The hash of rows of several columns."""
    if len(hashes) == 1:
        return hashes[0]
    result = np.full(len(hashes[0]), _mix((len(hashes) * GAMMA) & _MASK), dtype=np.uint64)
    for column in hashes:
        result = fold(result, column)
    return result


def encode(column: pa.Array | pa.ChunkedArray, name: str = "key") -> EncodedKeys:
    """Encode a key column. Raises `NullKeyError` for nulls, `ConfigurationError` if its type cannot be a key."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if column.null_count:
        raise NullKeyError(name)
    kind = column.type
    if is_text(kind):
        return BytesKeys(column.cast(pa.large_string()).view(pa.large_binary()))
    if is_bytes(kind):
        return BytesKeys(column.cast(pa.large_binary()))
    if pa.types.is_integer(kind):
        numbers = column.to_numpy(zero_copy_only=False)
        words = numbers if kind == pa.uint64() else numbers.astype(np.int64, copy=False).view(np.uint64)
    elif pa.types.is_boolean(kind):
        words = column.cast(pa.uint8()).to_numpy().astype(np.uint64)
    elif pa.types.is_floating(kind):
        values = column.cast(pa.float64()).to_numpy()
        words = (values + 0.0).view(np.uint64)
        is_nan = np.isnan(values)
        if is_nan.any():
            words[is_nan] = _NAN_BITS
    elif pa.types.is_date32(kind):
        words = column.view(pa.int32()).to_numpy().astype(np.int64).view(np.uint64)
    elif pa.types.is_date64(kind):
        words = (column.view(pa.int64()).to_numpy() // DAY_MS).view(np.uint64)
    elif pa.types.is_timestamp(kind):
        words = column.view(pa.int64()).to_numpy().view(np.uint64)
        factor = _NANOSECONDS[kind.unit]
        return FixedKeys(words, words if factor == 1 else words * _U(factor), is_hash_exact=factor == 1)
    else:
        raise ConfigurationError(
            f"the key column {name!r} has the type {kind}, which cannot be a key; "
            "use whole numbers, floats, strings, binary, booleans, dates or timestamps, or several such columns"
        )
    return FixedKeys(words, words)


def hash_columns(columns: Sequence[pa.Array | pa.ChunkedArray], names: Sequence[str] | None = None) -> Words:
    """The stable hash of each row of one or more key columns."""
    if not columns:
        raise ConfigurationError("a key needs at least one column")
    if len({len(column) for column in columns}) > 1:
        raise UserCodeError("the columns of a key have different numbers of rows")
    names = names or [f"key[{index}]" for index in range(len(columns))]
    return combine([encode(column, name).hashes() for column, name in zip(columns, names, strict=True)])


def hash_key(*values: Any) -> int:
    """The stable hash of one key, given as the values of its columns."""
    try:
        columns = [pa.array([value]) for value in values]
    except (pa.ArrowException, OverflowError) as error:
        raise UserCodeError(f"{shortened(values)} cannot be a key: {explanation(error)}") from error
    return int(hash_columns(columns)[0])


def key_groups(hashes: Words, max_parallelism: int) -> npt.NDArray[np.uint16]:
    if max_parallelism & (max_parallelism - 1) == 0:
        return hashes.astype(np.uint16) & np.uint16(max_parallelism - 1)
    return (hashes % _U(max_parallelism)).astype(np.uint16)


Word: TypeAlias = int | bytes
"""One value of a key column: a word, or the bytes of a string."""


def word_of(value: Any, kind: pa.DataType) -> Word | None:
    """Encode a single key as `encode` would in a column of this type. Returns None if only `encode` can decide."""
    given = type(value)
    if given is int and pa.types.is_integer(kind):
        bits = kind.bit_width
        is_signed = pa.types.is_signed_integer(kind)
        least, end = (-(1 << (bits - 1)), 1 << (bits - 1)) if is_signed else (0, 1 << bits)
        return value & _MASK if least <= value < end else None
    if given is str and is_text(kind):
        try:
            return bytes(value, "utf-8")
        except UnicodeEncodeError:
            return None
    if given is bytes and (pa.types.is_binary(kind) or pa.types.is_large_binary(kind)):
        return bytes(value)
    if given is bool and pa.types.is_boolean(kind):
        return int(value)
    return None


def hash_word(word: Word) -> int:
    """The hash of a single value, as in a column of whole numbers, booleans, strings or bytes."""
    if isinstance(word, int):
        return _mix((word + GAMMA) & _MASK)
    return _fold_bytes(_mix((len(word) * GAMMA + GAMMA) & _MASK), word)


def hash_inside(hash_: int, inner: int) -> int:
    """The hash of a key with one more column; `Rows.inside` does this for many."""
    return _mix(((_mix(hash_) ^ inner) * GAMMA + MIX_2) & _MASK)


def is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind))


def _fold_bytes(hash_: int, data: bytes) -> int:
    for start in range(0, len(data), _WORD):
        word = int.from_bytes(data[start : start + _WORD], "little")
        hash_ = _mix(((hash_ ^ word) * GAMMA + MIX_2) & _MASK)
    return hash_


def _mix(word: int) -> int:
    word ^= word >> 30
    word = (word * MIX_1) & _MASK
    word ^= word >> 27
    word = (word * MIX_2) & _MASK
    return word ^ (word >> 31)
