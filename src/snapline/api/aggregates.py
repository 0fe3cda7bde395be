"""The aggregates of keyed streams and windows, as users write them: `aggregate(n=count(), total=sum("value"))`.

Each takes `where=`: a condition that rows have to meet to count in it, as `FILTER` in SQL. It is an expression of
`pyarrow.compute`, or the name of a column of booleans. Nulls are left out of everything but `count()`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from snapline.config import MAX_COUNT
from snapline.contracts.schemas import empty_batch, misfit, no_column
from snapline.errors import ConfigurationError
from snapline.operators.aggregates.accumulators import (
    Accumulator,
    Accumulators,
    Counted,
    Distinct,
    Mean,
    Reduced,
)
from snapline.operators.aggregates.custom_accumulators import AggregateFunction, Custom
from snapline.operators.aggregates.list_accumulators import Collected, Greatest
from snapline.operators.projection import Evaluation
from snapline.state.batch_keys import key_types
from snapline.state.value_states import check_reducer
from snapline.state.state_types import resolve

Where: TypeAlias = "pc.Expression | str | None"
"""Which rows count: an expression of `pyarrow.compute`, the name of a column of booleans, or none for all."""

_SUM_DIGITS = 38
"""Of sums of decimals: as many as a decimal of 128 bits has."""


class Aggregate(ABC):
    """One value for each key, or for each key and window, made of its rows. Made by the functions of this module."""

    where: Where = None

    @abstractmethod
    def accumulator(self, schema: pa.Schema, where: int | None) -> Accumulator:
        """What keeps it in state for rows of a schema; `ConfigurationError` says what does not fit."""

    def result_type(self, name: str, schema: pa.Schema) -> pa.DataType:
        """The type of what comes out for rows of a schema; `name` is what an error message calls the result."""
        try:
            return self.accumulator(schema, None).result
        except ConfigurationError as error:
            raise ConfigurationError(f"{name}={self}: {error}") from error

    def __repr__(self) -> str:
        return f"snapline.{self}"


@dataclass(frozen=True, slots=True, repr=False)
class _Count(Aggregate):
    column: str | None
    where: Where = None

    def accumulator(self, schema: pa.Schema, where: int | None) -> Accumulator:
        if self.column is not None:
            _kind_of(self.column, schema)
        return Counted(self.column, where)

    def __str__(self) -> str:
        return "count()" if self.column is None else f"count({self.column!r})"


@dataclass(frozen=True, slots=True, repr=False)
class _Reduce(Aggregate):
    reduce: str
    column: str
    where: Where = None

    def accumulator(self, schema: pa.Schema, where: int | None) -> Accumulator:
        kind = _kind_of(self.column, schema)
        if self.reduce == "mean":
            return Mean(self.column, _reducible("sum", kind, "mean"), where)
        return Reduced(self.column, self.reduce, _reducible(self.reduce, kind, self.reduce), where)

    def __str__(self) -> str:
        return f"{self.reduce}({self.column!r})"


@dataclass(frozen=True, slots=True, repr=False)
class _Distinct(Aggregate):
    column: str
    where: Where = None

    def accumulator(self, schema: pa.Schema, where: int | None) -> Accumulator:
        kind = _kind_of(self.column, schema)
        try:
            key_types(resolve(kind), "value")
        except ConfigurationError as error:
            raise ConfigurationError(f"{kind} has no count_distinct; choose another column, or cast it") from error
        return Distinct(self.column, kind, where)

    def __str__(self) -> str:
        return f"count_distinct({self.column!r})"


@dataclass(frozen=True, slots=True, repr=False)
class _TopN(Aggregate):
    column: str
    n: int
    by: str | None
    where: Where = None

    def accumulator(self, schema: pa.Schema, where: int | None) -> Accumulator:
        by = self.column if self.by is None else self.by
        kind, by_kind = _stored(self.column, schema), _stored(by, schema)
        _reducible("max", by_kind, "top_n")
        return Greatest(self.column, kind, _checked_count("n", self.n), by, by_kind, where)

    def __str__(self) -> str:
        by = "" if self.by is None else f", by={self.by!r}"
        return f"top_n({self.column!r}, {self.n!r}{by})"


@dataclass(frozen=True, slots=True, repr=False)
class _Collect(Aggregate):
    column: str
    limit: int | None
    where: Where = None

    def accumulator(self, schema: pa.Schema, where: int | None) -> Accumulator:
        limit = None if self.limit is None else _checked_count("limit", self.limit)
        return Collected(self.column, _stored(self.column, schema), limit, where)

    def __str__(self) -> str:
        return f"collect({self.column!r})"


@dataclass(frozen=True, slots=True, repr=False)
class _Custom(Aggregate):
    function: AggregateFunction
    columns: tuple[str, ...]
    type: object
    where: Where = None

    def accumulator(self, schema: pa.Schema, where: int | None) -> Accumulator:
        missing = [
            name for name in ("create", "add", "merge", "result") if not callable(getattr(self.function, name, None))
        ]
        if missing:
            raise ConfigurationError(f"the function has no {', '.join(missing)}; it needs create, add, merge, result")
        if not self.columns:
            raise ConfigurationError("give the column, or the columns, whose values are to be added")
        for column in self.columns:
            _kind_of(column, schema)
        result = resolve(self.type).arrow
        if result is None:
            raise ConfigurationError(f"type={self.type!r}: give the Arrow type of the result, such as pa.float64()")
        return Custom(self.function, self.columns, result, where)

    def __str__(self) -> str:
        return f"aggregate({', '.join([type(self.function).__name__, *map(repr, self.columns)])})"


def accumulators(
    aggregates: Mapping[str, Aggregate], schema: pa.Schema, taken: Mapping[str, str], what: str
) -> Accumulators:
    """What keeps named aggregates of rows of a schema in state.

    `ConfigurationError` begins with `what`, and says which of them does not fit. `taken` are the columns the result has
    besides, each with what it is.
    """
    if not aggregates:
        raise ConfigurationError(f"{what}: nothing to compute; name what you want, for example n=snapline.count()")
    conditions: dict[str, pc.Expression] = {}
    made: dict[str, Accumulator] = {}
    for name, aggregate in aggregates.items():
        if not isinstance(aggregate, Aggregate):
            raise ConfigurationError(
                f"{what}: {name}={aggregate!r}; use snapline.count(), sum(), min() or another of the aggregates"
            )
        if "/" in name:
            raise ConfigurationError(f"{what}: {name!r}: states are called so; choose a name without '/'")
        if name in taken:
            raise ConfigurationError(f"{what}: {name!r} is {taken[name]} already; choose another name")
        try:
            where = _condition(aggregate.where, schema, conditions)
            made[name] = aggregate.accumulator(schema, where)
        except ConfigurationError as error:
            raise ConfigurationError(f"{what}: {name}={aggregate}: {error}") from error
    return Accumulators(made, list(conditions.values()))


def _condition(where: Where, schema: pa.Schema, known: dict[str, pc.Expression]) -> int | None:
    """The number of a condition among those that are known."""
    if where is None:
        return None
    if isinstance(where, str):
        _kind_of(where, schema)
        where = pc.field(where)
    if not isinstance(where, pc.Expression):
        raise ConfigurationError(
            f"where={where!r}; give an expression such as pc.field('price') > 10, or the name of a column of booleans"
        )
    try:
        kind = Evaluation([where]).arrays(empty_batch(schema))[0].type
    except (pa.ArrowException, TypeError, KeyError) as error:
        raise ConfigurationError(f"where={where} {misfit(error, schema)}") from error
    if not pa.types.is_boolean(kind):
        raise ConfigurationError(f"where={where} is {kind}; give a condition, which is true or false")
    known.setdefault(str(where), where)
    return list(known).index(str(where))


def known_column(column: Any, schema: pa.Schema) -> str:
    """`column`, if the rows have it; `ConfigurationError` says what there is instead."""
    if isinstance(column, str) and column in schema.names:
        return column
    raise ConfigurationError(no_column(column, schema))


def _kind_of(column: Any, schema: pa.Schema) -> pa.DataType:
    """The type of the values of a column."""
    kind = schema.field(known_column(column, schema)).type
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _stored(column: Any, schema: pa.Schema) -> pa.DataType:
    """The type of the values of a column that are kept in lists."""
    kind = _kind_of(column, schema)
    try:
        resolve(kind)
    except ConfigurationError as error:
        raise ConfigurationError(f"the column {column!r} is {kind}, which state cannot hold: {error}") from error
    return kind


def _reducible(reduce: str, kind: pa.DataType, what: str) -> pa.DataType:
    """The type in which a column of values is reduced."""
    try:
        result = _sum_type(kind) if reduce == "sum" else kind
        check_reducer(what, reduce, resolve(result))
    except ConfigurationError as error:
        raise ConfigurationError(f"{kind} has no {what}; choose another column") from error
    return result


def _sum_type(kind: pa.DataType) -> pa.DataType:
    """Sums are kept wide, so that they do not overflow where a single value would not."""
    if pa.types.is_integer(kind):
        return pa.uint64() if kind == pa.uint64() else pa.int64()
    if pa.types.is_floating(kind):
        return pa.float64()
    if pa.types.is_decimal128(kind):
        return pa.decimal128(_SUM_DIGITS, kind.scale)
    return kind


def _checked_count(setting: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MAX_COUNT:
        raise ConfigurationError(f"{setting}={value!r}; use a whole number from 1 to {MAX_COUNT}")
    return value


def count(column: str | None = None, *, where: Where = None) -> Aggregate:
    """How many rows; with a column those in which it is not null."""
    return _Count(column, where)


def sum(column: str, *, where: Where = None) -> Aggregate:
    """Of numbers; null if there are none. Narrow numbers are added up as wide ones."""
    return _Reduce("sum", column, where)


def min(column: str, *, where: Where = None) -> Aggregate:
    """The least value; null if there is none."""
    return _Reduce("min", column, where)


def max(column: str, *, where: Where = None) -> Aggregate:
    """The greatest value; null if there is none."""
    return _Reduce("max", column, where)


def mean(column: str, *, where: Where = None) -> Aggregate:
    """The sum of numbers divided by how many there are, as a float of 64 bits; null if there are none."""
    return _Reduce("mean", column, where)


def first(column: str, *, where: Where = None) -> Aggregate:
    """The value that came first; null if there is none.

    In sliding windows and sessions values that lie apart in event time count in its order, as slices or sessions do.
    """
    return _Reduce("first", column, where)


def last(column: str, *, where: Where = None) -> Aggregate:
    """The value that came last, as `first` is the one that came first."""
    return _Reduce("last", column, where)


def count_distinct(column: str, *, where: Where = None) -> Aggregate:
    """How many different values. All of them are kept in state."""
    return _Distinct(column, where)


def top_n(column: str, n: int, *, by: str | None = None, where: Where = None) -> Aggregate:
    """A list of the `n` greatest values, the greatest first; or of the values in the rows with the greatest `by`.

    Of equals the one that came first is ahead.
    """
    return _TopN(column, n, by, where)


def collect(column: str, limit: int | None = None, *, where: Where = None) -> Aggregate:
    """A list of all values in the order in which they came, as in `first`, or of the first `limit` of them."""
    return _Collect(column, limit, where)


def aggregate(function: AggregateFunction, *columns: str, type: object, where: Where = None) -> Aggregate:
    """An aggregate of one's own, for which Python runs for each row: an object with `create`, `add`, `merge`, `result`.

    `add` gets the values of one column, without nulls, or of several as tuples. `type` is that of the result. Where no
    value was added the result is null.
    """
    return _Custom(function, columns, type, where)
