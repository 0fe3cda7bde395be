"""The rows that expressions are evaluated on."""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

Value: TypeAlias = Any
"""The values of an expression: a `pa.Array` with one for each row, or a `pa.Scalar` that all rows share."""


def _now_us() -> int:
    return time.time_ns() // 1000


@dataclass(frozen=True, slots=True)
class Frame:
    """Columns of equal length.

    `variables` are the arguments of the lambda functions around, by their ids. `now_us` is the processing time of the
    batch, in microseconds since 1970. `memo` holds the values of expressions that occur more than once.

    In a `careful` frame, an argument is computed only for the rows whose earlier arguments are not null, where Spark
    does so. That matters for errors alone, so a batch becomes careful after an error.
    """

    columns: Sequence[pa.Array]
    rows: int
    variables: Mapping[int, pa.Array] = field(default_factory=dict)
    now_us: int = field(default_factory=_now_us)
    careful: bool = False
    memo: dict[Hashable, Value] = field(default_factory=dict)

    def take(self, rows: pa.Array) -> Frame:
        """Only these rows, by number."""
        variables = {key: value.take(rows) for key, value in self.variables.items()}
        return Frame(_TakenColumns(self.columns, rows), len(rows), variables, self.now_us, self.careful)

    def with_variables(self, variables: Mapping[int, pa.Array]) -> Frame:
        """The same rows inside a lambda function."""
        return Frame(self.columns, self.rows, {**self.variables, **variables}, self.now_us, self.careful)


class _TakenColumns(Sequence[pa.Array]):
    """Some rows of columns; a column is copied when it is first read."""

    def __init__(self, columns: Sequence[pa.Array], rows: pa.Array) -> None:
        self._columns = columns
        self._rows = rows
        self._taken: dict[int, pa.Array] = {}

    def __len__(self) -> int:
        return len(self._columns)

    def __getitem__(self, position: Any) -> Any:
        if isinstance(position, slice):
            return [self[each] for each in range(*position.indices(len(self)))]
        if position not in self._taken:
            self._taken[position] = self._columns[position].take(self._rows)
        return self._taken[position]

    def __iter__(self) -> Iterator[pa.Array]:
        return (self[position] for position in range(len(self)))


def as_array(value: Value, rows: int) -> pa.Array:
    """The value as an array with one element for each row."""
    if isinstance(value, pa.Scalar):
        return pa.repeat(value, rows)
    if isinstance(value, pa.ChunkedArray):
        return value.combine_chunks()
    return value


def spread(value: Value, rows: pa.Array, total: int) -> pa.Array:
    """An array of `total` values: those of `value` at these rows, in ascending order, and null at all others."""
    if len(rows) == total:
        return as_array(value, total)
    places = np.full(total, -1, np.int64)
    places[rows.to_numpy(zero_copy_only=False)] = np.arange(len(rows))
    return as_array(value, len(rows)).take(pa.array(places, mask=places < 0))
