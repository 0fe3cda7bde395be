"""The aggregates of keyed streams, as users write them: `aggregate(n=count(), total=sum("value"))`."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from snapline.errors import ConfigurationError
from snapline.state.dtypes import resolve
from snapline.state.states import check_reducer

_SUM_DIGITS = 38
"""Of sums of decimals: as many as a decimal of 128 bits has."""


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One value for each key, made of all its rows. Without a `column` it counts them."""

    reduce: str
    column: str | None = None

    def result_type(self, name: str, schema: pa.Schema) -> pa.DataType:
        """The type of what comes out for rows of a schema; `name` is what an error message calls the result."""
        if self.column is None:
            return pa.int64()
        if self.column not in schema.names:
            known = ", ".join(repr(column) for column in schema.names)
            raise ConfigurationError(f"{name}={self}: there is no column {self.column!r}; there are {known}")
        kind = schema.field(self.column).type
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        try:
            result = _sum_type(kind) if self.reduce == "sum" else kind
            check_reducer(name, self.reduce, resolve(result))
        except ConfigurationError as error:
            raise ConfigurationError(f"{name}={self}: {kind} has no {self.reduce}; choose another column") from error
        return result

    def __str__(self) -> str:
        return "count()" if self.column is None else f"{self.reduce}({self.column!r})"


def _sum_type(kind: pa.DataType) -> pa.DataType:
    """Sums are kept wide, so that they do not overflow where a single value would not."""
    if pa.types.is_integer(kind):
        return pa.uint64() if kind == pa.uint64() else pa.int64()
    if pa.types.is_floating(kind):
        return pa.float64()
    if pa.types.is_decimal128(kind):
        return pa.decimal128(_SUM_DIGITS, kind.scale)
    return kind


def count() -> Aggregate:
    """How many rows."""
    return Aggregate("sum")


def sum(column: str) -> Aggregate:
    """Of numbers, without the nulls; null if there are only nulls. Narrow numbers are added up as wide ones."""
    return Aggregate("sum", column)


def min(column: str) -> Aggregate:
    """The least value, without the nulls; null if there are only nulls."""
    return Aggregate("min", column)


def max(column: str) -> Aggregate:
    """The greatest value, without the nulls; null if there are only nulls."""
    return Aggregate("max", column)
