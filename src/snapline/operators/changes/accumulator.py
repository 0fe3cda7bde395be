"""What all aggregates over changes have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from snapline.errors import UserCodeError
from snapline.operators.changes.group_changes import AggregateInput, GroupChanges
from snapline.state.arrays import Bools
from snapline.state.batch_keys import Rows
from snapline.state.keyed_backend import KeyedBackend

Parts: TypeAlias = list[npt.NDArray[Any]]
"""The parts of an aggregate that are numbers: an array for each, with a value for each group."""

Overflow: TypeAlias = Callable[[pa.Array, Bools], pa.Array]
"""Called with results of groups and which of them do not fit their type; returns the results to emit, or raises.

Whole numbers have wrapped around where they do not fit; decimals are null there. It is pickled with the job.
"""

WHOLE, REAL = pa.int64(), pa.float64()


class ChangeAccumulator(ABC):
    """One aggregate per group, to which values are added and from which they are taken back. Pickled with the job.

    What it keeps as numbers, its *parts*, is stored by its owner together with the parts of all others: `parts` are
    their types, and a group that is new has zeros. Anything else is in states of its own.
    """

    parts: tuple[pa.DataType, ...] = ()
    result: pa.DataType
    column: str | None = None
    where: str | None = None
    takes_nulls = False
    """Whether nulls are values too."""

    def open(self, keyed: KeyedBackend, name: str) -> None:
        """Declare its own states; `name` prefixes their names. Called first."""
        del keyed, name

    def add(self, parts: Parts, batch: AggregateInput) -> Parts:
        """Apply the changes of a batch; returns the new parts."""
        values, changes = batch.chosen(self.column, self.where, with_nulls=self.takes_nulls)
        return self.add_values(parts, values, changes)

    @abstractmethod
    def add_values(self, parts: Parts, values: pa.Array | None, changes: GroupChanges) -> Parts:
        """Apply changes; `values` has a value for each of them, or is None for an aggregate without column."""

    @abstractmethod
    def take(self, parts: Parts, keys: Rows) -> pa.Array:
        """The result of each group. Equal states have equal results, to the bit."""

    def delete(self, keys: Rows) -> None:
        """Drop the own states of groups that have no rows any more."""
        del keys


class Count(ChangeAccumulator):
    """The number of rows, or of rows in which a column is not null."""

    parts = (WHOLE,)
    result = WHOLE

    def __init__(self, column: str | None, where: str | None) -> None:
        self.column = column
        self.where = where

    def add_values(self, parts: Parts, values: pa.Array | None, changes: GroupChanges) -> Parts:
        return [parts[0] + changes.totals]

    def take(self, parts: Parts, keys: Rows) -> pa.Array:
        return pa.array(parts[0])


def or_null(values: pa.Array, is_null: Bools) -> pa.Array:
    """The values with nulls where `is_null`."""
    if not is_null.any():
        return values
    return pc.if_else(pa.array(~is_null), values, pa.scalar(None, values.type))


def refuse_overflow(results: pa.Array, overflows: Bools) -> pa.Array:
    """The default for results that do not fit: an error."""
    raise UserCodeError(
        f"the sum of {int(np.count_nonzero(overflows))} groups does not fit into {results.type}; cast the column to a "
        "wider type"
    )
