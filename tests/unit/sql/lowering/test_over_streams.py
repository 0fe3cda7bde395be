"""Window functions of plans: which way they run, what they give, and what is refused."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from tests import sql_kit as kit

import snapline as sl
from snapline.errors import ConfigurationError
from snapline.sql.lowering.lowered_query import lowered
from snapline.sql.lowering.lowered_stream import Context
from snapline.sql.plans.common_tables import reference
from snapline.sql.plans.fingerprints import Uids
from snapline.sql.plans.trees import Attribute, Expression, Plan

RESULT = Attribute(10, "result", pa.int64())
ROWS = [
    (1, kit.second(3), "a", 5),
    (2, kit.second(1), "a", 9),
    (3, kit.second(2), "a", None),
    (4, kit.second(2), None, 1),
]
TOTAL = kit.aggregated(kit.total(reference(kit.PRICE)))
LAG = kit.call("Lag", pa.int64(), reference(kit.PRICE), kit.literal(1), kit.literal(None, pa.null()))
LEAD = kit.call("Lead", pa.int64(), reference(kit.PRICE), kit.literal(1), kit.literal(-1))
NOW = kit.call("CurrentTimestamp", kit.TIME)
BEFORE, HERE = kit.call("UnboundedPreceding", pa.null()), kit.call("CurrentRow", pa.null())


def order(value: Expression, *, descending: bool = False) -> Expression:
    direction, nulls = ("Descending", "NullsLast") if descending else ("Ascending", "NullsFirst")
    return kit.call("SortOrder", value.type, value, direction=direction, nullOrdering=nulls)


def frame(kind: str, lower: Expression = BEFORE, upper: Expression = HERE) -> Expression:
    return kit.call("SpecifiedWindowFrame", pa.null(), lower, upper, frameType=kind)


def over(function: Expression, *orders: Expression, by: Expression | None = None, below: Plan | None = None) -> Plan:
    child = kit.project(kit.watermark(kit.relation(), delay_ms=60_000), *kit.EVENTS) if below is None else below
    spec = kit.call("WindowSpecDefinition", pa.null(), *orders, frame("RangeFrame") if by is None else by)
    value = kit.call("WindowExpression", function.type, function, spec)
    partition = tuple(reference(kit.USER) for _ in "x" if kit.USER in child.output)
    expressions = {
        "windowExpressions": (kit.alias(RESULT, value),),
        "partitionSpec": partition,
        "orderSpec": tuple(orders),
    }
    return Plan("Window", (*child.output, RESULT), (child,), expressions, {}, True, "Window")


def results(plan: Plan, mode: str | None = None) -> dict[int, Any]:
    found = kit.run(kit.project(plan, kit.ID, RESULT), ROWS, mode=mode)
    assert set(found.values()) == {1}
    return dict(found.keys())


def is_changing(plan: Plan) -> bool:
    job = sl.Job("plan")
    schema = pa.schema([pa.field(each.name, each.type) for each in kit.EVENTS])
    views = {"events": job.source(sl.sources.Iterator([], schema=schema), uid="events")}
    return lowered(plan, Context(job, Uids(), None, views)).is_changing


BY_TIME = order(reference(kit.AT))
BY_PRICE = order(reference(kit.PRICE))
BY_NOW = order(NOW)
BY_ONE = order(kit.literal(1))


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        (over(TOTAL, BY_TIME), {1: 14, 2: 9, 3: 9, 4: 1}),
        (over(LAG, BY_TIME), {1: None, 2: None, 3: 9, 4: None}),
        (over(kit.call("RowNumber", pa.int64()), BY_TIME), {1: 3, 2: 1, 3: 2, 4: 1}),
    ],
)
def test_rows_in_order_are_final(plan: Plan, expected: dict[int, Any]) -> None:
    assert not is_changing(plan)
    assert results(plan, "append") == expected


@pytest.mark.parametrize("by", [BY_NOW, BY_ONE])
def test_rows_in_order_of_arrival_are_final(by: Expression) -> None:
    """Which of them comes first is not said."""
    numbers = over(kit.call("RowNumber", pa.int64()), by)
    totals = over(TOTAL, by, by=frame("RowFrame"))
    assert not is_changing(numbers)
    assert not is_changing(totals)
    assert sorted(results(numbers, "append").values()) == [1, 1, 2, 3]
    found = results(totals, "append")
    assert found.pop(4) == 1
    assert max(total or 0 for total in found.values()) == 14


def test_no_two_rows_arrive_at_the_same_time() -> None:
    ranks = results(over(kit.call("Rank", pa.int64()), BY_NOW), "append")
    assert sorted(ranks.values()) == [1, 1, 2, 3]
    assert not is_changing(over(TOTAL, BY_NOW))


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        (over(LEAD, BY_TIME), {1: -1, 2: None, 3: 5, 4: -1}),
        (over(TOTAL, BY_PRICE), {1: 5, 2: 14, 3: None, 4: 1}),
        (over(TOTAL, order(reference(kit.AT), descending=True)), {1: 5, 2: 14, 3: 5, 4: 1}),
        (over(TOTAL, BY_ONE), {1: 14, 2: 14, 3: 14, 4: 1}),
        (over(TOTAL, BY_PRICE, BY_NOW), {1: 5, 2: 14, 3: None, 4: 1}),
        (over(kit.call("Rank", pa.int64()), BY_PRICE), {1: 2, 2: 3, 3: 1, 4: 1}),
    ],
)
def test_rows_in_another_order_change_later(plan: Plan, expected: dict[int, Any]) -> None:
    assert is_changing(plan)
    assert results(plan) == expected
    with pytest.raises(ConfigurationError, match=r"operator Window .*in append mode.*watermark, ascending"):
        results(plan, "append")


def test_results_of_an_aggregate_are_ordered_anew_when_they_change() -> None:
    n = Attribute(11, "n", pa.int64(), False)
    keys = [reference(kit.USER)]
    counts = kit.aggregate(kit.relation(), keys, [*keys, kit.alias(n, kit.aggregated(kit.count()))])
    plan = over(kit.aggregated(kit.total(reference(n))), order(reference(n)), below=kit.project(counts, n))
    assert kit.run(plan, ROWS) == Counter([(1, 1), (3, 4)])


def test_names_of_columns_do_not_get_into_each_others_way() -> None:
    first = over(TOTAL, BY_TIME)
    again = over(kit.aggregated(kit.total(reference(RESULT))), BY_TIME, below=first)
    other = Attribute(12, "result", pa.int64())
    renamed = Plan(
        again.kind,
        (*first.output, other),
        again.children,
        {
            **again.expressions,
            "windowExpressions": (kit.alias(other, again.expressions["windowExpressions"][0].children[0]),),
        },
        {},
        True,
        again.text,
    )
    found = kit.run(kit.project(renamed, kit.ID, RESULT, other), ROWS)
    assert found == Counter([(1, 14, 32), (2, 9, 9), (3, 9, 18), (4, 1, 1)])


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (
            kit.call("PythonUDF", pa.int64(), reference(kit.PRICE)),
            "expression PythonUDF .*no such window function.*lag",
        ),
        (kit.aggregated(kit.call("HistogramNumeric", pa.int64(), reference(kit.PRICE))), "HistogramNumeric"),
        (kit.aggregated(kit.call("BitAndAgg", pa.string(), reference(kit.USER))), "operator Window .*bit_and"),
    ],
)
def test_what_does_not_run_is_refused(function: Expression, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        results(over(function, BY_TIME))


def test_columns_without_a_type_pass_by() -> None:
    """As `ORDER BY (SELECT NULL)` makes one."""
    void = Attribute(30, "void", pa.null())
    below = kit.project(kit.relation(), kit.ID, kit.USER, kit.alias(void, kit.literal(None, pa.null())))
    plan = over(kit.call("RowNumber", pa.int64()), order(reference(void)), below=below)
    found = kit.run(plan, ROWS, mode="append")
    assert {row[2] for row in found} == {None}
    assert sorted(row[3] for row in found) == [1, 1, 2, 3]
    nothing = kit.call("Lag", pa.null(), reference(void), kit.literal(1), kit.literal(None, pa.null()))
    with pytest.raises(ConfigurationError, match=r"AttributeReference .*cast NULL"):
        kit.run(over(nothing, BY_ONE, below=below), ROWS)


def test_an_order_by_a_list_is_refused() -> None:
    prices = kit.call("CreateArray", pa.list_(pa.int64()), reference(kit.PRICE), useStringTypeWhenEmpty=False)
    with pytest.raises(ConfigurationError, match=r"expression SortOrder .*order by list"):
        results(over(TOTAL, order(prices)))


def test_processing_time_has_no_distances() -> None:
    ten = kit.call("UnaryMinus", pa.duration("us"), kit.literal(10, pa.duration("us")))
    with pytest.raises(ConfigurationError, match=r"a distance in processing time.*ROWS BETWEEN"):
        results(over(TOTAL, BY_NOW, by=frame("RangeFrame", ten)))
