"""Rows of partitions in an order, and the range of rows around each that a window function sees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from snapline.errors import ConfigurationError
from snapline.operators.changes.rank_order import SortCodes, SortColumn, sort_codes_of, sorted_rows
from snapline.operators.changes.value_codes import has_codes, order_codes
from snapline.state.arrays import Bools, Ints
from snapline.state.stable_hash import is_bytes, is_text

_MAX = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Frame:
    """The rows from `lower` to `upper`, both included, counted from the current one; less than 0 is before it.

    None has no end. With `by_rows` rows are counted; otherwise the bounds are distances from the row's value of the
    only sort column, in ticks of its type (days, microseconds, units of the last decimal), and 0 means all rows that
    are equal in the order.
    """

    by_rows: bool
    lower: int | float | None
    upper: int | float | None

    @property
    def is_whole(self) -> bool:
        """Whether it is the whole partition."""
        return self.lower is None and self.upper is None

    @property
    def looks_ahead(self) -> bool:
        """Whether it may have rows after the current one that are not equal to it."""
        return self.upper is None or self.upper > 0


class SortedRows:
    """Rows sorted by partition and then in order: the number of each one's partition, and their columns.

    `codes` are those that they are sorted by, in the order of the rows.
    """

    def __init__(
        self, groups: Ints, codes: SortCodes, order: Sequence[SortColumn], columns: Mapping[str, pa.Array]
    ) -> None:
        self.groups = groups
        self.columns = columns
        self._codes = codes
        self._order = tuple(order)

    def __len__(self) -> int:
        return len(self.groups)

    @cached_property
    def starts(self) -> Ints:
        """For each row, the first one of its partition."""
        return np.searchsorted(self.groups, self.groups)

    @cached_property
    def ends(self) -> Ints:
        """For each row, the one after the last of its partition."""
        return np.searchsorted(self.groups, self.groups, side="right")

    @cached_property
    def is_first_peer(self) -> Bools:
        """Which rows differ from the one before in the order, or in their partition."""
        is_new = np.ones(len(self.groups), dtype=np.bool_)
        is_new[1:] = self.groups[1:] != self.groups[:-1]
        for code in self._codes:
            is_new[1:] |= code[1:] != code[:-1]
        return is_new

    @cached_property
    def _peers(self) -> tuple[Ints, Ints]:
        firsts = np.flatnonzero(self.is_first_peer)
        numbers = np.cumsum(self.is_first_peer) - 1
        return firsts[numbers], np.append(firsts[1:], len(self.groups))[numbers]

    @property
    def first_peers(self) -> Ints:
        """For each row, the first one that is equal to it in the order."""
        return self._peers[0]

    @property
    def after_peers(self) -> Ints:
        """For each row, the one after the last that is equal to it in the order."""
        return self._peers[1]

    def ranges(self, frame: Frame) -> tuple[Ints, Ints]:
        """The first row of each row's frame, and the one after its last; empty frames end where they start."""
        places = np.arange(len(self.groups))
        if frame.lower is None:
            starts = self.starts
        elif frame.by_rows:
            starts = places + int(frame.lower)
        else:
            starts = self.first_peers if frame.lower == 0 else self._at_distance(frame.lower, "left")
        if frame.upper is None:
            ends = self.ends
        elif frame.by_rows:
            ends = places + int(frame.upper) + 1
        else:
            ends = self.after_peers if frame.upper == 0 else self._at_distance(frame.upper, "right")
        starts = np.clip(starts, self.starts, self.ends)
        return starts, np.maximum(np.clip(ends, self.starts, self.ends), starts)

    def _at_distance(self, distance: int | float, side: str) -> Ints:
        """Where rows whose sort value is so far from each row's own would stand in its partition.

        Nulls are at any distance from null, and from nothing else.
        """
        (by,) = self._order
        column = self.columns[by.name]
        codes, targets = distant_codes(column, -distance if by.descending else distance)
        values, ranks = np.unique(np.concatenate([codes, targets]), return_inverse=True)
        if by.descending:
            ranks = len(values) - 1 - ranks
        ranks = ranks + 1
        if column.null_count:
            is_null = column.is_null().to_numpy(zero_copy_only=False)
            ranks[np.concatenate([is_null, is_null])] = 0 if by.nulls_first else len(values) + 1
        apart = self.groups * (len(values) + 2)
        keys = apart + ranks[: len(codes)]
        wanted = apart + ranks[len(codes) :]
        return np.searchsorted(keys, wanted, side="right" if side == "right" else "left")


def distant_codes(column: pa.Array, distance: int | float) -> tuple[Ints, Ints]:
    """The codes of values, and of those at a distance from them; anything for nulls."""
    if pa.types.is_floating(column.type):
        floats = pc.fill_null(column, 0).to_numpy(zero_copy_only=False).astype(np.float64) + 0.0
        return order_codes(pa.array(floats)), order_codes(pa.array(floats + float(distance)))
    if not has_codes(column.type):
        raise ConfigurationError(f"rows have no distance in the order of a column of type {column.type}; cast it")
    codes = np.zeros(len(column), dtype=np.int64)
    codes[column.is_valid().to_numpy(zero_copy_only=False)] = order_codes(column.drop_null())
    with np.errstate(over="ignore"):
        targets = codes + np.int64(distance)
    is_over = (targets < codes) if distance > 0 else (targets > codes)
    return codes, np.where(is_over, _MAX if distance > 0 else -_MAX - 1, targets)


def codes_of_order(columns: Mapping[str, pa.Array], order: Sequence[SortColumn], count: int) -> SortCodes:
    """The codes that rows sort by; zeros of both signs are equal."""
    if not order:
        return [np.zeros(count, dtype=np.int64)]
    flat: list[tuple[pa.Array, SortColumn]] = []
    for by in order:
        _flatten(columns[by.name], by, flat)
    return sort_codes_of([_without_signed_zeros(column) for column, _ in flat], [by for _, by in flat])


def _flatten(column: pa.Array, by: SortColumn, into: list[tuple[pa.Array, SortColumn]]) -> None:
    """Append a column, or the fields of a struct: it sorts by these, of which null is the least."""
    if not pa.types.is_struct(column.type):
        into.append((column, by))
        return
    if column.null_count:
        is_null = column.is_null()
        into.append((is_null, SortColumn(by.name, descending=by.nulls_first)))
    for field in column.flatten():
        _flatten(field, SortColumn(by.name, descending=by.descending, nulls_first=not by.descending), into)


def is_sortable(kind: pa.DataType) -> bool:
    """Whether rows can be ordered by a column of this type."""
    if pa.types.is_struct(kind):
        return all(is_sortable(field.type) for field in kind)
    return bool(has_codes(kind) or is_text(kind) or is_bytes(kind) or pa.types.is_decimal(kind))


def _without_signed_zeros(column: pa.Array) -> pa.Array:
    return pc.add(column, pa.scalar(0, column.type)) if pa.types.is_floating(column.type) else column


def in_order(
    groups: Ints, columns: Mapping[str, pa.Array], order: Sequence[SortColumn], sequence: Ints
) -> tuple[Ints, SortedRows]:
    """Rows sorted by group and order, of equal ones the lesser sequence number first: where each stood, and they."""
    codes = codes_of_order(columns, order, len(groups))
    places = sorted_rows(groups, codes, sequence)
    at = pa.array(places)
    found = {name: column.take(at) for name, column in columns.items()}
    return places, SortedRows(groups[places], [code[places] for code in codes], order, found)
