"""Which aggregates an operator computes, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa

from snapline.errors import ConfigurationError
from snapline.operators.changes.accumulator import REAL, WHOLE, ChangeAccumulator, Count, Overflow, refuse_overflow
from snapline.operators.changes.change_extremes import Extreme, LongExtreme
from snapline.operators.changes.change_lists import EndOfList, FirstOrLast, Listed, ValueSet
from snapline.operators.changes.change_moments import Variance
from snapline.operators.changes.change_sums import ExactMean, ExactSum, FloatMean, FloatSum
from snapline.operators.changes.changes import is_changing
from snapline.operators.changes.counted_values import Distinct
from snapline.operators.changes.distinct_counts import MAX_CONDITIONS, DistinctCount, SharedValues
from snapline.operators.changes.fold_accumulators import Bag, ExtremeRow, Folded
from snapline.operators.changes.folds import Fold, fold_of
from snapline.operators.changes.group_functions import (
    Collected,
    ExtremeBy,
    GroupFold,
    GroupFunction,
    Mode,
    Percentages,
    Percentile,
)
from snapline.operators.changes.moment_folds import PAIR_FORMULAS, Bits, HigherMoments, PairMoments
from snapline.operators.changes.value_codes import has_codes
from snapline.operators.kept_rows import kept_type
from snapline.state.stable_hash import is_bytes, is_text


class AggregateKind(StrEnum):
    COUNT = "count"
    SUM = "sum"
    AVG = "avg"
    MIN = "min"
    MAX = "max"
    FIRST = "first"
    LAST = "last"
    COLLECT_LIST = "collect_list"
    COLLECT_SET = "collect_set"
    VAR_POP = "var_pop"
    VAR_SAMP = "var_samp"
    STDDEV_POP = "stddev_pop"
    STDDEV_SAMP = "stddev_samp"
    SKEWNESS = "skewness"
    KURTOSIS = "kurtosis"
    CORR = "corr"
    COVAR_POP = "covar_pop"
    COVAR_SAMP = "covar_samp"
    REGR_SLOPE = "regr_slope"
    REGR_INTERCEPT = "regr_intercept"
    REGR_R2 = "regr_r2"
    REGR_SXY = "regr_sxy"
    REGR_SXX = "regr_sxx"
    BIT_AND = "bit_and"
    BIT_OR = "bit_or"
    BIT_XOR = "bit_xor"
    MAX_BY = "max_by"
    MIN_BY = "min_by"
    MODE = "mode"
    PERCENTILE = "percentile"
    PERCENTILE_DISC = "percentile_disc"
    PERCENTILE_APPROX = "percentile_approx"


_SAMPLE = {AggregateKind.VAR_SAMP, AggregateKind.STDDEV_SAMP}
_ROOT = {AggregateKind.STDDEV_POP, AggregateKind.STDDEV_SAMP}
_VARIANCES = {AggregateKind.VAR_POP, AggregateKind.STDDEV_POP, *_SAMPLE}
_MOMENTS = {AggregateKind.SKEWNESS, AggregateKind.KURTOSIS, AggregateKind.REGR_SXX}
_BITS = {AggregateKind.BIT_AND, AggregateKind.BIT_OR, AggregateKind.BIT_XOR}
_SENSELESS = {
    AggregateKind.MIN,
    AggregateKind.MAX,
    AggregateKind.MIN_BY,
    AggregateKind.MAX_BY,
    AggregateKind.FIRST,
    AggregateKind.LAST,
    AggregateKind.COLLECT_SET,
    AggregateKind.BIT_AND,
    AggregateKind.BIT_OR,
}
"""Aggregates that equal values count only once for, or which DISTINCT means nothing to."""


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One aggregate over a column of the input.

    `column` is None for the number of rows, whatever they hold. Only rows in which the boolean column `where` is true
    count. With `distinct`, equal values count once. Nulls do not count, except for FIRST and LAST without
    `ignore_nulls`.

    `result` is the type of the results; without it, int64 for sums of whole numbers, decimal with 10 more digits for
    sums of decimals, 4 more digits before and after the point for their means, float64 for other sums, means and
    variances, and lists of the column's type. A decimal sum must have the scale of its column. `overflow` decides about
    sums and means that do not fit; by default they are an error.

    Aggregates of two values take a column of structs of both: MAX_BY and MIN_BY of a value and what it is chosen by,
    which is not null; CORR, COVAR and REGR of two numbers, neither of them null. `percentages` says which percentiles
    PERCENTILE and the like compute; a MODE is the greatest of equally frequent values if they are `descending`.
    PERCENTILE_APPROX is exact.
    """

    kind: AggregateKind
    column: str | None = None
    where: str | None = None
    distinct: bool = False
    ignore_nulls: bool = True
    result: pa.DataType | None = None
    overflow: Overflow = refuse_overflow
    percentages: Percentages | None = None

    def accumulator(self, schema: pa.Schema) -> ChangeAccumulator:
        """What computes it over a stream of this schema. `ConfigurationError` if the column has no such aggregate."""
        changing = is_changing(schema)
        made = self._accumulator(schema, changing)
        if self.distinct and self.kind not in _SENSELESS:
            return Distinct(made, self._type(schema), changing=changing)
        return made

    def _accumulator(self, schema: pa.Schema, changing: bool) -> ChangeAccumulator:
        if self.kind is AggregateKind.COUNT:
            return Count(self.column, self.where)
        column, kind, where = self._column(), self._type(schema), self.where
        # Of distinct values some go even if no row does, but only over changes.
        match self.kind:
            case AggregateKind.SUM | AggregateKind.AVG:
                return self._sum(kind, changing)
            case AggregateKind.MIN | AggregateKind.MAX:
                least = self.kind is AggregateKind.MIN
                if has_codes(kind):
                    return Extreme(column, kind, where, least=least, changing=changing)
                self._check(_is_ordered(kind), kind)
                return LongExtreme(column, kind, where, least=least, changing=changing)
            case AggregateKind.FIRST | AggregateKind.LAST:
                last, make = self.kind is AggregateKind.LAST, EndOfList if changing else FirstOrLast
                return make(column, kind, where, last=last, ignore_nulls=self.ignore_nulls)
            case AggregateKind.COLLECT_LIST:
                return Listed(column, kind, self.result or pa.list_(kind), where)
            case AggregateKind.COLLECT_SET:
                return ValueSet(column, kind, self.result or pa.list_(kind), where, changing=changing)
        if self.kind in _VARIANCES:
            self._check(_is_number(kind), kind)
            return Variance(column, where, sample=self.kind in _SAMPLE, root=self.kind in _ROOT)
        if self.kind in (AggregateKind.MAX_BY, AggregateKind.MIN_BY):
            extreme = self._extreme(kind)
            return (Bag if changing else ExtremeRow)(column, kind, extreme, where)
        fold = self._moments(kind)
        if fold is None:
            return Bag(column, kind, self.group_function(schema), where)
        # What has been added to moments cannot be taken out of them again without a loss of digits.
        return Bag(column, kind, GroupFold(fold), where) if changing else Folded(column, fold, where)

    def fold(self, schema: pa.Schema) -> Fold | None:
        """The aggregate as a fold, for ranges of rows; None if it is none. `DISTINCT` is left to the caller."""
        if self.kind is not AggregateKind.COUNT:
            found = self._moments(self._type(schema))
            if found is not None:
                return found
        return fold_of(self._accumulator(schema, False))

    def group_function(self, schema: pa.Schema) -> GroupFunction:
        """The aggregate as a function of the values of a group, for one that is neither a fold nor an extreme."""
        kind = self._type(schema)
        if self.kind is AggregateKind.MODE:
            self._check(has_codes(kind) or _is_ordered(kind), kind)
            return Mode(kind, greatest=self.percentages is not None and self.percentages.descending)
        if self.kind is AggregateKind.COLLECT_LIST:
            return Collected(self.result or pa.list_(kind), distinct=False)
        if self.kind is AggregateKind.COLLECT_SET:
            return Collected(self.result or pa.list_(kind), distinct=True)
        assert self.percentages is not None
        number = kind.field(0).type if self.percentages.weighted else kind
        self._check(has_codes(number) or _is_number(number), kind)
        if self.kind is AggregateKind.PERCENTILE_APPROX:
            return Percentile(self.percentages, number, interpolated=False)
        self._check(_is_number(number), number)
        return Percentile(self.percentages, REAL, interpolated=self.kind is AggregateKind.PERCENTILE)

    def _extreme(self, kind: pa.DataType) -> ExtremeBy:
        by = kind.field(1).type
        self._check(has_codes(by) or _is_ordered(by), by)
        return ExtremeBy(kind, least=self.kind is AggregateKind.MIN_BY)

    def _moments(self, kind: pa.DataType) -> Fold | None:
        if self.kind.value in PAIR_FORMULAS:
            return PairMoments(self.kind.value)
        if self.kind in _MOMENTS:
            self._check(_is_number(kind), kind)
            return HigherMoments(self.kind.value)
        if self.kind in _BITS:
            self._check(pa.types.is_integer(kind), kind)
            return Bits(self.kind.value, kind)
        return None

    def _sum(self, kind: pa.DataType, changing: bool) -> ChangeAccumulator:
        column, mean = self._column(), self.kind is AggregateKind.AVG
        self._check(_is_number(kind) and kind != pa.uint64(), kind)
        if pa.types.is_floating(kind):
            return (FloatMean if mean else FloatSum)(column, self.result or REAL, self.where, changing=changing)
        if pa.types.is_decimal(kind):
            more = 4 if mean else 0
            wide = pa.decimal128(min(38, kind.precision + (4 if mean else 10)), min(38, kind.scale + more))
            result = self.result or wide
            self._check(mean or (pa.types.is_decimal(result) and result.scale == kind.scale), result)
        else:
            result = self.result or (REAL if mean else WHOLE)
        return (ExactMean if mean else ExactSum)(column, kind, result, self.where, self.overflow)

    def _column(self) -> str:
        if self.column is None:
            raise ConfigurationError(f"{self.kind}: give the column to aggregate")
        return self.column

    def _type(self, schema: pa.Schema) -> pa.DataType:
        return kept_type(schema.field(self._column()).type)

    def _check(self, fits: bool, kind: pa.DataType) -> None:
        if not fits:
            raise ConfigurationError(f"{self.kind}({self.column}) cannot be computed as {kind}; cast the column first")


def accumulators(aggregates: Mapping[str, Aggregate], schema: pa.Schema) -> dict[str, ChangeAccumulator]:
    """What computes aggregates, by name. Numbers of distinct values of one column that only grow share their values."""
    made = {name: item.accumulator(schema) for name, item in aggregates.items()}
    if is_changing(schema):
        return made
    columns: dict[str, list[str]] = {}
    for name, item in aggregates.items():
        if item.kind is AggregateKind.COUNT and item.distinct:
            columns.setdefault(item._column(), []).append(name)
    for column, names in columns.items():
        for at in range(0, len(names), MAX_CONDITIONS):
            together = names[at : at + MAX_CONDITIONS]
            wheres = [aggregates[name].where for name in together]
            values = SharedValues(column, aggregates[together[0]]._type(schema), wheres)
            # With all of them in it, the bits of one set of conditions are never taken for those of another.
            state = f"distinct/{column}/{'/'.join(together)}"
            made |= {name: DistinctCount(values, bit, state) for bit, name in enumerate(together)}
    return made


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal128(kind))


def _is_ordered(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return all(
            has_codes(field.type) or (_is_ordered(field.type) and not pa.types.is_struct(field.type)) for field in kind
        )
    return bool(is_text(kind) or is_bytes(kind) or pa.types.is_decimal(kind))
