"""Columns of values of fixed width: numbers, booleans, dates and times, and structs of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from snapline.errors import EngineError, UserCodeError
from snapline.state.arrays import MAX_INT64, MIN_CAPACITY, Bools, Ints, Values, largest_absolute
from snapline.state.columns import Column, CopyOnWrite, FrozenColumn
from snapline.state.exact_cast import converted
from snapline.text import shortened


def dtype_of(kind: pa.DataType) -> np.dtype[Any] | None:
    """The numpy type that holds values of an Arrow type of fixed width, or None."""
    if pa.types.is_boolean(kind):
        return np.dtype(np.bool_)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        dtype: np.dtype[Any] = np.dtype(kind.to_pandas_dtype())
        return dtype
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        return np.dtype(np.int32)
    if pa.types.is_temporal(kind) and kind.bit_width == 64:
        return np.dtype(np.int64)
    return None


def is_fixed_width(kind: pa.DataType) -> bool:
    """Whether values of a type are kept in numpy arrays."""
    if pa.types.is_struct(kind):
        return all(is_fixed_width(field.type) for field in kind)
    return dtype_of(kind) is not None


def make_fixed_column(kind: pa.DataType) -> Column:
    """Create an empty column for a type that `is_fixed_width`."""
    return StructColumn(kind) if pa.types.is_struct(kind) else FixedColumn(kind)


class _Validity:
    """Which values are not null. Allocated with the first null."""

    def __init__(self) -> None:
        self._flags: CopyOnWrite | None = None

    def mask(self, slots: Ints) -> Bools | None:
        """True for nulls."""
        return None if self._flags is None else ~self._flags.array[slots]

    def set(self, slots: Any, valid: Bools | bool, capacity: int) -> None:
        if self._flags is None:
            if valid is True or (not isinstance(valid, bool) and valid.all()):
                return
            self._flags = CopyOnWrite(np.bool_, fill=True)
        self._flags.grow(capacity)
        self._flags.own()[slots] = valid

    def is_valid(self, slot: int) -> bool:
        return self._flags is None or bool(self._flags.array[slot])

    def grow(self, capacity: int) -> None:
        if self._flags is not None:
            self._flags.grow(capacity)

    def keep(self, slots: Ints) -> None:
        if self._flags is not None:
            self._flags.keep(slots)

    @property
    def nbytes(self) -> int:
        return 0 if self._flags is None else self._flags.nbytes

    def freeze(self) -> Callable[[Ints], Bools | None]:
        """Returns `mask` as of this moment."""
        if self._flags is None:
            return lambda _: None
        valid = self._flags.freeze()
        return lambda slots: ~valid[slots]


def _either(nulls: Bools | None, absent: Bools | None) -> Bools | None:
    if nulls is None or absent is None:
        return absent if nulls is None else nulls
    return nulls | absent


def _valid(array: pa.Array) -> Any:
    return array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else True


def fixed_array(kind: pa.DataType, values: npt.NDArray[Any], nulls: Bools | None) -> pa.Array:
    """An Arrow array of values as `fixed_numbers` returns them."""
    array = pa.array(values, mask=nulls)
    return array if array.type == kind else array.view(kind)


def fixed_numbers(array: pa.Array, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """The values of an array as numbers. Undefined for nulls, which booleans must not have."""
    if dtype == np.bool_:
        result: npt.NDArray[Any] = array.to_numpy(zero_copy_only=False)
        return result
    return np.frombuffer(array.buffers()[1], dtype=dtype, count=len(array), offset=array.offset * dtype.itemsize)


class FixedColumn(Column):
    """Numbers, booleans, dates and times: one numpy array."""

    def __init__(self, kind: pa.DataType) -> None:
        dtype = dtype_of(kind)
        if dtype is None:
            raise EngineError(f"{kind} has no fixed width")
        self.kind = kind
        self._values = CopyOnWrite(dtype)
        self._validity = _Validity()
        self._largest: int | None = 0
        """Upper bound of the absolute values, or None if unknown."""

    def grow(self, capacity: int) -> None:
        self._values.grow(capacity)
        self._validity.grow(capacity)

    def can_merge(self, reduce: str) -> bool:
        """Whether `merge` supports this reducer."""
        kind, dtype = self.kind, self._values.array.dtype
        if reduce == "sum":
            return bool(kind in (pa.int64(), pa.float64()))
        return reduce in ("min", "max") and dtype.kind in "iuf" and dtype.itemsize > 1

    def merge(self, reduce: str, slots: Ints, absent: Ints, values: pa.Array) -> bool:
        """Merge values, none of them null, into those at slots; a slot may come more than once.

        Slots in `absent` have no value yet. Returns False, with no value changed, if a sum might overflow.
        """
        numbers = fixed_numbers(values, self._values.array.dtype)
        self._values.own()[absent] = _neutral(reduce, numbers.dtype)
        if reduce == "sum" and numbers.dtype == np.int64:
            added = len(numbers) * largest_absolute(numbers)
            if self._largest is None or self._largest + added > MAX_INT64:
                self._largest = largest_absolute(self._values.array)
            if self._largest + added > MAX_INT64:
                return False
            self._largest += added
        else:
            self._largest = None
        self._validity.set(absent, True, len(self._values.array))
        _MERGES[reduce](self._values.own(), slots, numbers)
        return True

    def gather(self, slots: Ints, absent: Bools | None = None) -> pa.Array:
        values = self._values.array.take(slots)
        return fixed_array(self.kind, values, _either(self._validity.mask(slots), absent))

    def scatter(self, slots: Ints, values: Values) -> None:
        array = converted(values, self.kind)
        self._validity.set(slots, _valid(array), len(self._values.array))
        if array.null_count:
            array = pc.fill_null(array, fixed_array(self.kind, np.zeros(1, self._values.array.dtype), None)[0])
        self._largest = None
        np.put(self._values.own(), slots, fixed_numbers(array, self._values.array.dtype))

    def get(self, slot: int) -> Any:
        if not self._validity.is_valid(slot):
            return None
        if pa.types.is_temporal(self.kind):
            return fixed_array(self.kind, self._values.array[slot : slot + 1], None)[0].as_py()
        return self._values.array[slot].item()

    def set(self, slot: int, value: Any) -> None:
        dtype = self._values.array.dtype
        if (type(value) is int and dtype.kind == "i" and not pa.types.is_temporal(self.kind)) or (
            type(value) is float and dtype == np.float64
        ):
            self._largest = None
            try:
                self._values.own()[slot] = value
            except OverflowError as error:
                raise UserCodeError(f"{shortened(value)} is no value of type {self.kind}") from error
            self._validity.set(slot, True, len(self._values.array))
        else:
            self.scatter(np.array([slot]), [value])

    def freeze(self) -> FrozenColumn:
        kind, values, nulls = self.kind, self._values.freeze(), self._validity.freeze()
        return FrozenColumn(lambda slots: fixed_array(kind, values.take(slots), nulls(slots)))

    def keep(self, slots: Ints) -> None:
        self._values.keep(slots)
        self._validity.keep(slots)

    @property
    def nbytes(self) -> int:
        return self._values.nbytes + self._validity.nbytes


_MERGES: dict[str, Callable[[npt.NDArray[Any], Ints, npt.NDArray[Any]], None]] = {
    "sum": np.add.at,
    # Numbers win over NaN.
    "min": np.fmin.at,
    "max": np.fmax.at,
}


def _neutral(reduce: str, dtype: np.dtype[Any]) -> Any:
    """The value that changes no other."""
    if reduce == "sum":
        return 0
    if dtype.kind == "f":
        return np.nan
    bounds = np.iinfo(dtype)
    return bounds.max if reduce == "min" else bounds.min


class StructColumn(Column):
    """Structs of fixed width: one column for each field."""

    def __init__(self, kind: pa.DataType) -> None:
        self.kind = kind
        self._fields = [make_fixed_column(field.type) for field in kind]
        self._validity = _Validity()
        self._capacity = MIN_CAPACITY

    def grow(self, capacity: int) -> None:
        self._capacity = max(capacity, self._capacity)
        for column in self._fields:
            column.grow(capacity)
        self._validity.grow(capacity)

    def gather(self, slots: Ints, absent: Bools | None = None) -> pa.Array:
        fields = [column.gather(slots) for column in self._fields]
        return struct_array(self.kind, fields, _either(self._validity.mask(slots), absent), len(slots))

    def scatter(self, slots: Ints, values: Values) -> None:
        array = converted(values, self.kind)
        for column, field in zip(self._fields, array.flatten(), strict=True):
            column.scatter(slots, field)
        self._validity.set(slots, _valid(array), self._capacity)

    def get(self, slot: int) -> Any:
        if not self._validity.is_valid(slot):
            return None
        return {field.name: column.get(slot) for field, column in zip(self.kind, self._fields, strict=True)}

    def set(self, slot: int, value: Any) -> None:
        self.scatter(np.array([slot]), [value])

    def freeze(self) -> FrozenColumn:
        kind, nulls, fields = self.kind, self._validity.freeze(), [column.freeze() for column in self._fields]
        return FrozenColumn(
            lambda slots: struct_array(kind, [field.encode(slots) for field in fields], nulls(slots), len(slots))
        )

    def keep(self, slots: Ints) -> None:
        self._capacity = max(MIN_CAPACITY, len(slots))
        for column in self._fields:
            column.keep(slots)
        self._validity.keep(slots)

    @property
    def nbytes(self) -> int:
        return self._validity.nbytes + sum(column.nbytes for column in self._fields)


def struct_array(kind: pa.DataType, fields: Sequence[pa.Array], nulls: Bools | None, count: int) -> pa.Array:
    if not fields:
        return pa.array([{}] * count, type=kind)
    mask = None if nulls is None else pa.array(nulls)
    return pa.StructArray.from_arrays(fields, fields=list(kind), mask=mask)
