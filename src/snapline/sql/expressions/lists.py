"""Arrays and maps of a column taken apart into elements and lengths, and put together again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from snapline.sql.expressions.calendar_days import Integers
from snapline.sql.expressions.values import Bools, valid


@dataclass(frozen=True, slots=True)
class Lists:
    """The elements of all rows, one row after the other. A null row has no elements."""

    elements: pa.Array
    lengths: Integers
    there: Bools

    @property
    def starts(self) -> Integers:
        """Where the elements of each row begin."""
        return np.cumsum(self.lengths) - self.lengths

    @property
    def rows(self) -> Integers:
        """The row of each element."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)

    @property
    def positions(self) -> Integers:
        """The place of each element in its row, from 0."""
        return np.arange(len(self.elements)) - np.repeat(self.starts, self.lengths)

    def array(self, type: pa.DataType) -> pa.Array:
        """These lists as an array of `type`."""
        return list_array(self.elements, self.lengths, self.there, type)

    def chosen(self, elements: Bools) -> Lists:
        """Only some of the elements."""
        lengths = np.bincount(self.rows[elements], minlength=len(self.lengths))
        return Lists(self.elements.filter(pa.array(elements)), lengths, self.there)

    def arranged(self, order: Integers) -> Lists:
        """The elements in another order, which must keep the rows together."""
        return Lists(self.elements.take(pa.array(order)), self.lengths, self.there)


@dataclass(frozen=True, slots=True)
class Maps:
    """The keys and values of all rows, one row after the other. A null row has none."""

    keys: pa.Array
    values: pa.Array
    lengths: Integers
    there: Bools

    @property
    def as_keys(self) -> Lists:
        """Only the keys."""
        return Lists(self.keys, self.lengths, self.there)

    def array(self, type: pa.DataType) -> pa.Array:
        """These maps as an array of `type`."""
        mask = None if self.there.all() else pa.array(~self.there)
        keys, values = relabelled(self.keys, type.key_type), relabelled(self.values, type.item_type)
        return pa.MapArray.from_arrays(_offsets(self.lengths), keys, values, type=type, mask=mask)


def lists(array: pa.Array) -> Lists:
    """The elements of an array of lists."""
    lengths, there, begin, indices = _extent(array)
    return Lists(_part(array.values, begin, lengths, indices), lengths, there)


def maps(array: pa.Array) -> Maps:
    """The entries of an array of maps."""
    lengths, there, begin, indices = _extent(array)
    keys, items = (_part(each, begin, lengths, indices) for each in (array.keys, array.items))
    return Maps(keys, items, lengths, there)


def _extent(array: pa.Array) -> tuple[Integers, Bools, int, Integers | None]:
    offsets = np.asarray(array.offsets).astype(np.int64)
    lengths = np.diff(offsets)
    there = valid(array)
    hidden = ~there & (lengths > 0)
    if not hidden.any():
        return lengths, there, int(offsets[0]), None
    lengths = np.where(there, lengths, 0)
    return lengths, there, 0, ranges(offsets[:-1], lengths)


def _part(values: pa.Array, begin: int, lengths: Integers, indices: Integers | None) -> pa.Array:
    return values.slice(begin, int(lengths.sum())) if indices is None else values.take(pa.array(indices))


def ranges(starts: Integers, lengths: Integers) -> Integers:
    """The numbers from each start on, as many as the lengths say, one range after the other."""
    ends = np.cumsum(lengths)
    return np.asarray(np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - (ends - lengths), lengths))


def _offsets(lengths: Integers) -> pa.Array:
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))


def list_array(elements: pa.Array, lengths: Integers, there: Bools, type: pa.DataType) -> pa.Array:
    """An array of lists from the elements of all rows, null where not `there`."""
    mask = None if there.all() else pa.array(~there)
    return pa.ListArray.from_arrays(_offsets(lengths), relabelled(elements, type.value_type), type=type, mask=mask)


def relabelled(array: pa.Array, type: pa.DataType) -> pa.Array:
    """The same values with a type that names fields or says what may be null in another way."""
    if array.type == type:
        return array
    if pa.types.is_struct(type) and pa.types.is_struct(array.type):
        if not type.num_fields:
            return array
        children = [relabelled(child, field.type) for child, field in zip(array.flatten(), type, strict=True)]
        return pa.StructArray.from_arrays(children, fields=list(type), mask=array.is_null())
    if pa.types.is_map(type) and pa.types.is_map(array.type):
        return maps(array).array(type)
    if pa.types.is_list(type) and pa.types.is_list(array.type):
        return lists(array).array(type)
    return array.cast(type)
