from __future__ import annotations

from collections import Counter
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from tests import sql_kit as kit

from snapline.errors import ConfigurationError
from snapline.operators.changes.group_functions import Percentages
from snapline.sql.lowering.aggregate_functions import aggregate_inputs, aggregate_spec
from snapline.sql.plans.common_tables import reference
from snapline.sql.plans.trees import Attribute, Expression

ROWS = [
    (1, kit.second(1), "a", 5),
    (2, kit.second(2), "b", None),
    (None, kit.second(3), "c", 7),
    (4, kit.second(4), None, 7),
]
RESULT = Attribute(10, "result", pa.int64())
PRICE, ID, USER = reference(kit.PRICE), reference(kit.ID), reference(kit.USER)
REAL = pa.float64()


def result(function: Expression, *, distinct: bool = False) -> Any:
    made = kit.alias(Attribute(10, "result", function.type), kit.aggregated(function, distinct=distinct))
    ((value,),) = kit.run(kit.aggregate(kit.relation(), [], [made]), ROWS)
    return value


def percentile(kind: str, share: Expression, *more: Expression, **arguments: Any) -> Expression:
    type = pa.int64() if kind == "ApproximatePercentile" else REAL
    type = pa.list_(pa.field("element", type, False)) if pa.types.is_list(share.type) else type
    return kit.call(kind, type, PRICE, share, *more, **arguments)


ONE, HALF = kit.literal(1), kit.literal(0.5)
SHARES = kit.call("CreateArray", pa.list_(REAL), kit.literal(0.0), kit.literal(1.0), useStringTypeWhenEmpty=False)
SPARK_HALF = kit.call("Cast", REAL, kit.literal(Decimal("0.5")), evalMode="ANSI", timeZoneId="UTC")


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (kit.call("MaxBy", pa.string(), USER, ID), None),
        (kit.call("MinBy", pa.string(), USER, ID), "a"),
        (kit.call("Corr", REAL, PRICE, ID), 1.0),
        (kit.call("CovPopulation", REAL, PRICE, ID), 1.5),
        (kit.call("Mode", pa.int64(), PRICE, reverseOpt=None), 7),
        (kit.call("BitXorAgg", pa.int64(), PRICE), 5),
        (percentile("Percentile", SPARK_HALF, ONE, reverse=False), 7.0),
        (percentile("Percentile", SHARES, ONE, reverse=False), (5.0, 7.0)),
        (percentile("Percentile", HALF, ID, reverse=False), 7.0),
        (percentile("PercentileDisc", kit.literal(0.4), reverse=True), 7.0),
        (percentile("ApproximatePercentile", kit.literal(0.1), kit.literal(10000)), 5),
    ],
)
def test_functions(function: Expression, expected: Any) -> None:
    assert result(function) == expected


def test_distinct_values_count_once() -> None:
    assert result(kit.call("BitXorAgg", pa.int64(), PRICE), distinct=True) == 5 ^ 7
    assert result(percentile("Percentile", HALF, ONE, reverse=False), distinct=True) == 6.0


def test_rows_with_a_null_count_for_no_pair() -> None:
    value, where = aggregate_inputs(kit.aggregated(kit.call("Corr", REAL, PRICE, ID), where=kit.greater(ID, ONE)))
    assert value is not None
    assert where is not None
    assert value.type == pa.struct([("_0", pa.int64()), ("_1", pa.int64())])
    assert where.text.count("IS NOT NULL") == 2


def test_the_mode_of_an_order() -> None:
    spec = aggregate_spec(kit.aggregated(kit.call("Mode", pa.int64(), PRICE, reverseOpt=False)), "price", None)
    assert spec.percentages == Percentages((), descending=True)


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (percentile("Percentile", PRICE, ONE), "expression AttributeReference .*it is not a constant"),
        (percentile("Percentile", kit.literal(1.5), ONE), "expression Percentile .*numbers between 0 and 1"),
        (percentile("PercentileDisc", HALF, legacyCalculation=True), "expression PercentileDisc .*older way"),
        (kit.call("MaxBy", pa.string(), USER, ID, kit.literal(3)), "expression MaxBy .*several rows"),
        (kit.call("CountMinSketchAgg", pa.binary(), ID), "expression CountMinSketchAgg .*no such aggregate.*max_by"),
    ],
)
def test_what_does_not_run_is_refused(function: Expression, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        result(function)


def test_counting_a_constant_once_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"count\(DISTINCT\) of a constant"):
        result(kit.count(), distinct=True)


def test_counts_of_several_columns() -> None:
    pairs = kit.count(PRICE, ID)
    assert result(pairs) == 2
    assert Counter([result(pairs, distinct=True)]) == Counter([2])
