"""The order of rows within a partition, and their ranks in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from snapline.operators.changes.value_codes import has_codes, order_codes
from snapline.state.arrays import Bools, Ints


@dataclass(frozen=True, slots=True)
class SortColumn:
    """A column to sort by. NaN is greater than any other float."""

    name: str
    descending: bool = False
    nulls_first: bool = True


class RankKind(StrEnum):
    """How rows that are equal in the order are numbered: each by itself, or alike, with or without gaps after them."""

    ROW_NUMBER = "row_number"
    RANK = "rank"
    DENSE_RANK = "dense_rank"


SortCodes = list[npt.NDArray[Any]]
"""Arrays of numbers, the most significant first: rows sort as their numbers do, and are equal if all of these are."""


def sort_codes_of(columns: Sequence[pa.Array], order: Sequence[SortColumn]) -> SortCodes:
    """The codes of rows with these values of the sort columns. Codes of different calls cannot be compared.

    Structs, windows for example, sort by their fields, in which null is less than anything else.
    """
    result: SortCodes = []
    for column, by in zip(columns, order, strict=True):
        is_null: Bools | None = None
        if column.null_count:
            is_null = column.is_null().to_numpy(zero_copy_only=False)
            result.append(~is_null if by.nulls_first else is_null)
        if pa.types.is_struct(column.type):
            inside = replace(by, nulls_first=not by.descending)
            result += sort_codes_of(column.flatten(), [inside] * column.type.num_fields)
            continue
        codes = _codes(column)
        if by.descending:
            codes = ~codes
        if is_null is not None:
            codes = np.where(is_null, 0, codes)
        result.append(codes)
    return result


def _codes(column: pa.Array) -> Ints:
    if not has_codes(column.type):
        ranks: Ints = pc.rank(column, sort_keys="ascending", tiebreaker="dense").to_numpy().astype(np.int64)
        return ranks
    if column.null_count:
        present = column.is_valid().to_numpy(zero_copy_only=False)
        codes = np.zeros(len(column), dtype=np.int64)
        codes[present] = order_codes(column.drop_null())
        return codes
    return order_codes(column)


def compared(left: SortCodes, right: SortCodes) -> tuple[Bools, Bools]:
    """For each row, whether it comes before the one on the right, and whether they are equal."""
    count = len(left[0]) if left else 0
    is_before = np.zeros(count, dtype=np.bool_)
    is_equal = np.ones(count, dtype=np.bool_)
    for mine, its in zip(left, right, strict=True):
        is_before |= is_equal & (mine < its)
        is_equal &= mine == its
    return is_before, is_equal


def ranks_of(groups: Ints, codes: SortCodes, kind: RankKind) -> Ints:
    """The ranks, from 1, of rows that are sorted by group and code."""
    if not groups.size:
        return np.zeros(0, dtype=np.int64)
    is_first = np.ones(len(groups), dtype=np.bool_)
    is_first[1:] = groups[1:] != groups[:-1]
    places: Ints = np.arange(len(groups))
    starts: Ints = np.maximum.accumulate(np.where(is_first, places, 0))
    if kind is RankKind.ROW_NUMBER:
        return places - starts + 1
    is_new = is_first.copy()
    for code in codes:
        is_new[1:] |= code[1:] != code[:-1]
    if kind is RankKind.RANK:
        firsts: Ints = np.maximum.accumulate(np.where(is_new, places, 0))
        return firsts - starts + 1
    numbers: Ints = np.cumsum(is_new)
    return numbers - numbers[starts] + 1


def sorted_rows(groups: Ints, codes: SortCodes, sequence: Ints, *, newest_first: bool = False) -> Ints:
    """The rows ascending by group, then in order; of equal ones the one with the lesser sequence number first."""
    tie = -sequence if newest_first else sequence
    return np.lexsort([tie, *reversed(codes), groups])


def first_rows_of(codes: SortCodes, groups: Ints, count: int) -> Ints:
    """The row of each of `count` groups that is first in order; of equal rows the one that came first."""
    rows: Ints | None = None
    for code in codes:
        mine, owners = (code, groups) if rows is None else (code[rows], groups[rows])
        numbers = mine.astype(np.int64, copy=False)
        least = np.full(count, np.iinfo(np.int64).max)
        np.minimum.at(least, owners, numbers)
        best = np.flatnonzero(numbers == least[owners])
        rows = best if rows is None else rows[best]
    chosen = np.arange(len(groups)) if rows is None else rows
    result = np.empty(count, dtype=np.int64)
    # The last one that is put for a group stays.
    result[groups[chosen[::-1]]] = chosen[::-1]
    return result
