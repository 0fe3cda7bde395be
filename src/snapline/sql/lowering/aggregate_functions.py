"""Aggregate functions of SQL as the specifications that operators take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa

from snapline.operators.changes.aggregate_specs import Aggregate, AggregateKind
from snapline.operators.changes.group_functions import Percentages
from snapline.sql.expressions.compiler import Program
from snapline.sql.expressions.registry import UnsupportedError
from snapline.sql.lowering.overflows import overflow_rule
from snapline.sql.plans.refusals import refusal
from snapline.sql.plans.time_windows import conjunction
from snapline.sql.plans.trees import Expression, Plan

_KINDS: Final[Mapping[str, AggregateKind]] = {
    "Count": AggregateKind.COUNT,
    "Sum": AggregateKind.SUM,
    "Average": AggregateKind.AVG,
    "Min": AggregateKind.MIN,
    "Max": AggregateKind.MAX,
    "First": AggregateKind.FIRST,
    "Last": AggregateKind.LAST,
    "CollectList": AggregateKind.COLLECT_LIST,
    "CollectSet": AggregateKind.COLLECT_SET,
    "VariancePop": AggregateKind.VAR_POP,
    "VarianceSamp": AggregateKind.VAR_SAMP,
    "StddevPop": AggregateKind.STDDEV_POP,
    "StddevSamp": AggregateKind.STDDEV_SAMP,
    "HyperLogLogPlusPlus": AggregateKind.COUNT,
    "Skewness": AggregateKind.SKEWNESS,
    "Kurtosis": AggregateKind.KURTOSIS,
    "Corr": AggregateKind.CORR,
    "CovPopulation": AggregateKind.COVAR_POP,
    "CovSample": AggregateKind.COVAR_SAMP,
    "RegrSlope": AggregateKind.REGR_SLOPE,
    "RegrIntercept": AggregateKind.REGR_INTERCEPT,
    "RegrR2": AggregateKind.REGR_R2,
    "RegrSXY": AggregateKind.REGR_SXY,
    "RegrReplacement": AggregateKind.REGR_SXX,
    "BitAndAgg": AggregateKind.BIT_AND,
    "BitOrAgg": AggregateKind.BIT_OR,
    "BitXorAgg": AggregateKind.BIT_XOR,
    "MaxBy": AggregateKind.MAX_BY,
    "MinBy": AggregateKind.MIN_BY,
    "Mode": AggregateKind.MODE,
    "Percentile": AggregateKind.PERCENTILE,
    "PercentileDisc": AggregateKind.PERCENTILE_DISC,
    "ApproximatePercentile": AggregateKind.PERCENTILE_APPROX,
}

_TYPED: Final = frozenset({"Sum", "Average", "CollectList", "CollectSet"})
_PAIRS: Final = frozenset({"Corr", "CovPopulation", "CovSample", "RegrSlope", "RegrIntercept", "RegrR2", "RegrSXY"})
_EXTREMES: Final = frozenset({"MaxBy", "MinBy"})
_PERCENTILES: Final = frozenset({"Percentile", "PercentileDisc", "ApproximatePercentile"})

_INSTEAD = (
    "use count, sum, avg, min, max, first, last, max_by, min_by, collect_list, collect_set, stddev, variance, corr, "
    "percentile, median, mode, or a StatefulProcessor"
)


def aggregate_inputs(expression: Expression) -> tuple[Expression | None, Expression | None]:
    """The value that an `AggregateExpression` takes of each row, and the condition for it to count."""
    function, *filters = expression.children
    if function.kind not in _KINDS:
        raise refusal(function, "there is no such aggregate here", _INSTEAD)
    if function.kind in _PAIRS:
        values = list(function.children)
        return _struct(values), conjunction([*filters, *map(_is_not_null, values)])
    if function.kind in _EXTREMES:
        if len(function.children) != 2:
            raise refusal(function, "several rows", "use max_by or min_by without a number, or row_number()")
        return _struct(function.children), conjunction([*filters, _is_not_null(function.children[1])])
    if function.kind == "Percentile" and not _is_one(function.children[2]):
        value, _, frequency = function.children
        return _struct([value, frequency]), conjunction([*filters, _is_not_null(value), _is_not_null(frequency)])
    if function.kind != "Count":
        return function.children[0], filters[0] if filters else None
    values = [child for child in function.children if child.kind != "Literal" or child.arguments["value"] is None]
    if not values:
        return None, filters[0] if filters else None
    if len(values) == 1:
        return values[0], filters[0] if filters else None
    condition = conjunction([*filters, *map(_is_not_null, values)])
    return _struct(values) if expression.arguments["isDistinct"] else None, condition


def _is_one(frequency: Expression) -> bool:
    return frequency.kind == "Literal" and frequency.arguments["value"] == 1


def _is_not_null(value: Expression) -> Expression:
    return Expression("IsNotNull", pa.bool_(), (value,), {}, False, f"({value.text} IS NOT NULL)")


def _struct(values: Sequence[Expression]) -> Expression:
    children: list[Expression] = []
    for number, value in enumerate(values):
        name = f"_{number}"
        children += [Expression("Literal", pa.string(), (), {"value": name}, False, repr(name)), value]
    kind = pa.struct([pa.field(f"_{number}", value.type) for number, value in enumerate(values)])
    return Expression("CreateNamedStruct", kind, tuple(children), {}, False, "struct")


def aggregate_spec(expression: Expression, column: str | None, where: str | None) -> Aggregate:
    """The specification of an `AggregateExpression` whose inputs are in these columns."""
    function = expression.children[0]
    is_distinct = expression.arguments["isDistinct"] or function.kind == "HyperLogLogPlusPlus"
    if function.kind == "Count" and column is None and is_distinct:
        raise refusal(expression, "count(DISTINCT) of a constant", "count(*) or max(1)")
    return Aggregate(
        _KINDS[function.kind],
        column,
        where,
        distinct=is_distinct,
        ignore_nulls=function.arguments.get("ignoreNulls", True),
        result=function.type if function.kind in _TYPED else None,
        overflow=overflow_rule(function),
        percentages=_percentages(function),
    )


def _percentages(function: Expression) -> Percentages | None:
    if function.kind == "Mode":
        return Percentages((), descending=function.arguments.get("reverseOpt") is False)
    if function.kind not in _PERCENTILES:
        return None
    if function.arguments.get("legacyCalculation"):
        raise refusal(function, "its older way to count", "unset spark.sql.legacy.percentileDiscCalculation")
    wanted = _constant(function.children[1])
    given = wanted if isinstance(wanted, list) else [wanted]
    shares = tuple(share for share in given if isinstance(share, float) and 0 <= share <= 1)
    if len(shares) < len(given):
        raise refusal(function, f"percentages {wanted}", "give numbers between 0 and 1")
    return Percentages(
        shares,
        is_list=isinstance(wanted, list),
        descending=bool(function.arguments.get("reverse")),
        weighted=function.kind == "Percentile" and not _is_one(function.children[2]),
    )


def _constant(expression: Expression) -> object:
    """The value of an expression without columns."""
    if expression.references:
        raise refusal(expression, "it is not a constant", "write the percentages as numbers")
    try:
        program = Program([expression], [])
    except UnsupportedError as error:
        raise refusal(expression, str(error)) from error
    row = pa.RecordBatch.from_arrays([pa.array([True])], names=["row"])
    return program.arrays(row)[0][0].as_py()


def aggregate_texts(plan: Plan) -> list[str]:
    """The aggregates of an `Aggregate` node as Spark writes them, each once, in their order."""
    found = (part for each in plan.expressions["aggregateExpressions"] for part in each.walk())
    return list(dict.fromkeys(part.text for part in found if part.kind == "AggregateExpression"))
