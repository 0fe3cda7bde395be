"""The aggregates of keyed streams and windows, as users write them: `aggregate(n=count(), total=sum("value"))`.

Each takes `where=`, a condition that rows must meet to count, like `FILTER` in SQL: an expression of `pyarrow.compute`,
or the name of a boolean column. All but `count()` ignore nulls.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from snapline.config.setting_checks import count as checked_count
from snapline.contracts.schemas import decoded_type, empty_batch, misfit, no_column
from snapline.errors import ConfigurationError
from snapline.operators.aggregates.accumulators import Accumulator, Accumulators, Counted, Distinct, Mean, Reduced
from snapline.operators.aggregates.custom_accumulators import Custom, MergeableFunction
from snapline.operators.aggregates.list_accumulators import Collected, Greatest
from snapline.operators.projection import Evaluation
from snapline.state.batch_keys import key_types
from snapline.state.state_types import resolve
from snapline.state.value_states import check_reducer

Where: TypeAlias = pc.Expression | str | None
"""Which rows count: an expression of `pyarrow.compute`, or the name of a boolean column. None counts all."""

_PARTS = ("create", "add", "merge", "result")
"""Methods of an aggregate function."""

_SUM_DIGITS = 38
"""Of decimal sums: as many as 128 bits hold."""


class Aggregate(ABC):
    """One value per key, or per key and window, computed from its rows. Made by the functions of this module."""

    where: Where = None

    @abstractmethod
    def accumulator(self, schema: pa.Schema, where: int | None) -> Accumulator:
        """Its accumulator for rows of a schema; `ConfigurationError` says what does not fit."""

    def __repr__(self) -> str:
        return f"snapline.{self}"


@dataclass(frozen=True, slots=True, repr=False)
class _Made(Aggregate):
    text: str
    make: Callable[[pa.Schema, int | None], Accumulator]
    where: Where

    def accumulator(self, schema: pa.Schema, where: int | None) -> Accumulator:
        return self.make(schema, where)

    def __str__(self) -> str:
        return self.text


def accumulators(
    aggregates: Mapping[str, Aggregate], schema: pa.Schema, taken: Mapping[str, str], what: str
) -> Accumulators:
    """The accumulators of named aggregates for rows of a schema.

    `ConfigurationError` starts with `what`, and says which aggregate does not fit. `taken` maps the other columns of
    the result to what each is.
    """
    if not aggregates:
        raise ConfigurationError(f"{what}: nothing to compute; name an aggregate, for example n=snapline.count()")
    conditions: dict[str, pc.Expression] = {}
    made: dict[str, Accumulator] = {}
    for name, aggregate in aggregates.items():
        if not isinstance(aggregate, Aggregate):
            raise ConfigurationError(
                f"{what}: {name}={aggregate!r}; use snapline.count(), sum(), min() or another of the aggregates"
            )
        if "/" in name:
            raise ConfigurationError(f"{what}: {name!r}: names with '/' are reserved for states; choose another")
        if name in taken:
            raise ConfigurationError(f"{what}: {name!r} is {taken[name]} already; choose another name")
        try:
            where = _condition(aggregate.where, schema, conditions)
            made[name] = aggregate.accumulator(schema, where)
        except ConfigurationError as error:
            raise ConfigurationError(f"{what}: {name}={aggregate}: {error}") from error
    return Accumulators(made, list(conditions.values()))


def _condition(where: Where, schema: pa.Schema, known: dict[str, pc.Expression]) -> int | None:
    """The number of a condition in `known`, where it is added if new; None for no condition."""
    if where is None:
        return None
    if isinstance(where, str):
        _kind_of(where, schema)
        where = pc.field(where)
    if not isinstance(where, pc.Expression):
        raise ConfigurationError(
            f"where={where!r}; give an expression such as pc.field('price') > 10, or the name of a boolean column"
        )
    try:
        kind = Evaluation([where]).arrays(empty_batch(schema))[0].type
    except (pa.ArrowException, TypeError, KeyError) as error:
        raise ConfigurationError(f"where={where} {misfit(error, schema)}") from error
    if not pa.types.is_boolean(kind):
        raise ConfigurationError(f"where={where} is {kind}; give a condition, which is true or false")
    known.setdefault(str(where), where)
    return list(known).index(str(where))


def _kind_of(column: Any, schema: pa.Schema) -> pa.DataType:
    """The value type of a column, decoded if it is a dictionary."""
    if not isinstance(column, str) or column not in schema.names:
        raise ConfigurationError(no_column(column, schema))
    return decoded_type(schema.field(column).type)


def _stored(column: Any, schema: pa.Schema) -> pa.DataType:
    """The value type of a column whose values are kept in lists."""
    kind = _kind_of(column, schema)
    try:
        resolve(kind)
    except ConfigurationError as error:
        raise ConfigurationError(f"the column {column!r} is {kind}, which state cannot hold: {error}") from error
    return kind


def _reducible(reduce: str, kind: pa.DataType, what: str) -> pa.DataType:
    """The type in which values of this type are reduced."""
    try:
        result = _sum_type(kind) if reduce == "sum" else kind
        check_reducer(what, reduce, resolve(result))
    except ConfigurationError as error:
        raise ConfigurationError(f"{kind} has no {what}; choose another column") from error
    return result


def _sum_type(kind: pa.DataType) -> pa.DataType:
    """Sums are wide, so that they do not overflow where a single value would not."""
    if pa.types.is_integer(kind):
        return pa.uint64() if kind == pa.uint64() else pa.int64()
    if pa.types.is_floating(kind):
        return pa.float64()
    if pa.types.is_decimal128(kind):
        return pa.decimal128(_SUM_DIGITS, kind.scale)
    return kind


def count(column: str | None = None, *, where: Where = None) -> Aggregate:
    """The number of rows; with a column, of those where it is not null."""

    def make(schema: pa.Schema, condition: int | None) -> Accumulator:
        if column is not None:
            _kind_of(column, schema)
        return Counted(column, condition)

    return _Made("count()" if column is None else f"count({column!r})", make, where)


def sum(column: str, *, where: Where = None) -> Aggregate:
    """The sum of numbers; null if there are none. Narrow types are summed as wide ones."""
    return _reduced("sum", column, where)


def min(column: str, *, where: Where = None) -> Aggregate:
    """The least value; null if there is none."""
    return _reduced("min", column, where)


def max(column: str, *, where: Where = None) -> Aggregate:
    """The greatest value; null if there is none."""
    return _reduced("max", column, where)


def mean(column: str, *, where: Where = None) -> Aggregate:
    """The mean of numbers as a 64-bit float; null if there are none."""
    return _reduced("mean", column, where)


def first(column: str, *, where: Where = None) -> Aggregate:
    """The value that came first; null if there is none.

    In sliding windows and sessions, values of different slices or merged sessions are in the order of event time.
    """
    return _reduced("first", column, where)


def last(column: str, *, where: Where = None) -> Aggregate:
    """The value that came last, in the order of `first`."""
    return _reduced("last", column, where)


def _reduced(reduce: str, column: str, where: Where) -> Aggregate:
    def make(schema: pa.Schema, condition: int | None) -> Accumulator:
        kind = _kind_of(column, schema)
        if reduce == "mean":
            return Mean(column, _reducible("sum", kind, "mean"), condition)
        return Reduced(column, reduce, _reducible(reduce, kind, reduce), condition)

    return _Made(f"{reduce}({column!r})", make, where)


def count_distinct(column: str, *, where: Where = None) -> Aggregate:
    """The number of distinct values. All of them are kept in state."""

    def make(schema: pa.Schema, condition: int | None) -> Accumulator:
        kind = _kind_of(column, schema)
        try:
            key_types(resolve(kind), "value")
        except ConfigurationError as error:
            raise ConfigurationError(f"{kind} has no count_distinct; choose another column, or cast it") from error
        return Distinct(column, kind, condition)

    return _Made(f"count_distinct({column!r})", make, where)


def top_n(column: str, n: int, *, by: str | None = None, where: Where = None) -> Aggregate:
    """A list of the `n` greatest values, greatest first; or of the values in the rows with the greatest `by`.

    Equal values are in order of arrival.
    """

    def make(schema: pa.Schema, condition: int | None) -> Accumulator:
        order = column if by is None else by
        kind, order_kind = _stored(column, schema), _stored(order, schema)
        _reducible("max", order_kind, "top_n")
        return Greatest(column, kind, checked_count(n, "n", least=1), order, order_kind, condition)

    return _Made(f"top_n({column!r}, {n!r}{'' if by is None else f', by={by!r}'})", make, where)


def collect(column: str, limit: int | None = None, *, where: Where = None) -> Aggregate:
    """A list of all values in the order of `first`, or of the first `limit` of them."""

    def make(schema: pa.Schema, condition: int | None) -> Accumulator:
        most = None if limit is None else checked_count(limit, "limit", least=1)
        return Collected(column, _stored(column, schema), most, condition)

    return _Made(f"collect({column!r})", make, where)


def aggregate(function: MergeableFunction, *columns: str, type: object, where: Where = None) -> Aggregate:
    """An aggregate of your own, which runs Python for each row: an object with `create`, `add`, `merge`, `result`.

    `add` gets the values of one column, without nulls, or of several as a tuple. `type` is that of the result, which is
    null if no value was added.
    """

    def make(schema: pa.Schema, condition: int | None) -> Accumulator:
        missing = [name for name in _PARTS if not callable(getattr(function, name, None))]
        if missing:
            raise ConfigurationError(f"the function has no {', '.join(missing)}; it needs {', '.join(_PARTS)}")
        if not columns:
            raise ConfigurationError("name the column, or columns, whose values to add")
        for column in columns:
            _kind_of(column, schema)
        result = resolve(type).arrow
        if result is None:
            raise ConfigurationError(f"type={type!r}: give the Arrow type of the result, such as pa.float64()")
        return Custom(function, columns, result, condition)

    return _Made(f"aggregate({', '.join([function.__class__.__name__, *map(repr, columns)])})", make, where)
