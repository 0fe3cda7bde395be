"""Window functions: what each row gets of the rows around it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np
import pyarrow as pa

from snapline.errors import ConfigurationError
from snapline.operators.changes.aggregate_specs import Aggregate
from snapline.operators.changes.over_frames import Frame, SortedRows
from snapline.operators.changes.range_aggregates import range_aggregate
from snapline.operators.changes.rank_order import RankKind
from snapline.state.arrays import Bools, Ints

WHOLE_PARTITION: Final = Frame(True, None, None)


class OverKind(StrEnum):
    ROW_NUMBER = RankKind.ROW_NUMBER.value
    RANK = RankKind.RANK.value
    DENSE_RANK = RankKind.DENSE_RANK.value
    PERCENT_RANK = "percent_rank"
    CUME_DIST = "cume_dist"
    NTILE = "ntile"
    LAG = "lag"
    NTH_VALUE = "nth_value"
    AGGREGATE = "aggregate"


@dataclass(frozen=True, slots=True)
class OverFunction:
    """One window function. `result` is the type of its results.

    `number` is how many rows back LAG looks (forward if it is negative), which row of its frame NTH_VALUE is, and into
    how many parts NTILE divides a partition. LAG and NTH_VALUE take their value from `column`, with `ignore_nulls`
    counting only rows that have one; where LAG finds no row it gives the column `default`. `aggregate` is what
    AGGREGATE computes of its frame.
    """

    kind: OverKind
    result: pa.DataType
    frame: Frame = WHOLE_PARTITION
    column: str | None = None
    default: str | None = None
    number: int = 1
    ignore_nulls: bool = False
    aggregate: Aggregate | None = None

    def check(self, schema: pa.Schema) -> None:
        """Raises `ConfigurationError` for an aggregate that a column of this schema does not have."""
        if self.aggregate is not None:
            if self.aggregate.distinct and not self.frame.is_whole:
                raise ConfigurationError(f"{self.aggregate.kind}(DISTINCT) is computed of whole partitions only")
            range_aggregate(self.aggregate, schema)


def computed(function: OverFunction, rows: SortedRows, schema: pa.Schema) -> pa.Array:
    """The result of a function for each row."""
    return _computed(function, rows, schema).cast(function.result)


def _computed(function: OverFunction, rows: SortedRows, schema: pa.Schema) -> pa.Array:
    match function.kind:
        case OverKind.ROW_NUMBER:
            return pa.array(np.arange(len(rows)) - rows.starts + 1)
        case OverKind.RANK:
            return pa.array(rows.first_peers - rows.starts + 1)
        case OverKind.DENSE_RANK:
            numbers = np.cumsum(rows.is_first_peer)
            return pa.array(numbers - numbers[rows.starts] + 1)
        case OverKind.PERCENT_RANK:
            others = rows.ends - rows.starts - 1
            return pa.array((rows.first_peers - rows.starts) / np.maximum(others, 1))
        case OverKind.CUME_DIST:
            return pa.array((rows.after_peers - rows.starts) / (rows.ends - rows.starts))
        case OverKind.NTILE:
            return _ntile(function.number, rows)
        case OverKind.LAG:
            return _lag(function, rows)
        case OverKind.NTH_VALUE:
            return _nth_value(function, rows)
    assert function.aggregate is not None
    prepared = range_aggregate(function.aggregate, schema).prepared(rows.columns, rows.groups)
    return prepared.results(*rows.ranges(function.frame))


def _ntile(parts: int, rows: SortedRows) -> pa.Array:
    """The first parts have a row more than the others where rows do not divide evenly."""
    sizes = rows.ends - rows.starts
    places = np.arange(len(rows)) - rows.starts
    small, more = sizes // parts, sizes % parts
    in_large = more * (small + 1)
    later = more + (places - in_large) // np.maximum(small, 1)
    return pa.array(np.where(places < in_large, places // (small + 1), later) + 1)


def _lag(function: OverFunction, rows: SortedRows) -> pa.Array:
    values, places = _column(function, rows), np.arange(len(rows))
    if function.ignore_nulls and function.number:
        there = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
        before = np.searchsorted(there, places, side="left" if function.number > 0 else "right")
        wanted = before - function.number - (function.number < 0)
        is_there = (wanted >= 0) & (wanted < len(there))
        at = there[np.where(is_there, wanted, 0)] if len(there) else places
    else:
        at, is_there = places - function.number, np.ones(len(rows), dtype=np.bool_)
    is_there &= (at >= rows.starts) & (at < rows.ends)
    if function.default is None:
        return values.take(pa.array(np.where(is_there, at, 0), mask=~is_there))
    both = pa.concat_arrays([values, rows.columns[function.default].cast(values.type)])
    return both.take(pa.array(np.where(is_there, at, places + len(rows))))


def _nth_value(function: OverFunction, rows: SortedRows) -> pa.Array:
    values = _column(function, rows)
    starts, ends = rows.ranges(function.frame)
    at: Ints = starts + function.number - 1
    is_there: Bools = at < ends
    if function.ignore_nulls:
        there = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
        wanted = np.searchsorted(there, starts) + function.number - 1
        is_there = wanted < len(there)
        at = there[np.where(is_there, wanted, 0)] if len(there) else starts
        is_there &= at < ends
    return values.take(pa.array(np.where(is_there, at, 0), mask=~is_there))


def _column(function: OverFunction, rows: SortedRows) -> pa.Array:
    assert function.column is not None
    return rows.columns[function.column]
