from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pytest
from tests import sql_kit as kit

from snapline.errors import ConfigurationError
from snapline.sql.plans.common_tables import reference
from snapline.sql.plans.trees import Attribute, Plan

ROWS = [
    (1, kit.second(1), "ann", 10),
    (2, kit.second(2), "bob", 20),
    (3, kit.second(12), "ann", 30),
    (4, kit.second(13), None, None),
    (5, kit.second(21), None, 5),
]


def test_rows_are_projected_and_filtered() -> None:
    doubled = Attribute(10, "doubled", pa.int64())
    price = reference(kit.PRICE)
    value = kit.call("Add", pa.int64(), price, price, evalMode="ANSI", allowDecimalPrecisionLoss=True)
    plan = kit.project(kit.where(kit.relation(), kit.greater(price, kit.literal(5))), kit.ID, kit.alias(doubled, value))
    assert kit.run(plan, ROWS) == Counter([(1, 20), (2, 40), (3, 60)])


def test_a_sliding_window_gives_a_row_for_each_window() -> None:
    window = Attribute(10, "window", kit.WINDOW, False)
    plan = kit.project(kit.relation(), kit.ID, kit.alias(window, kit.time_window(reference(kit.AT), 10, 5)))
    found = kit.run(plan, ROWS[:1])
    assert found == Counter([(1, (kit.second(-5), kit.second(5))), (1, (kit.second(0), kit.second(10)))])


def test_a_union_has_the_rows_of_both_sides() -> None:
    parts = kit.project(kit.relation(), kit.ID), kit.project(kit.relation("others"), kit.ID)
    plan = Plan("Union", parts[0].output, parts, {}, {}, True, "Union")
    others = {"others": (kit.EVENTS, ROWS[:1])}
    assert kit.run(plan, ROWS[:2], others=others) == Counter([(1,), (1,), (2,)])


def test_distinct_rows_and_null_is_one_of_them() -> None:
    below = kit.project(kit.relation(), kit.USER)
    plan = Plan("Distinct", below.output, (below,), {}, {}, True, "Distinct")
    assert kit.run(plan, ROWS) == Counter([("ann",), ("bob",), (None,)])


def test_a_duplicate_within_the_watermark_is_dropped() -> None:
    below = kit.watermark(kit.relation(), delay_ms=5000)
    at = replace(kit.AT, metadata={"spark.watermarkDelayMs": 5000})
    below = replace(below, output=(kit.ID, at, kit.USER, kit.PRICE))
    keys = {"keys": (reference(kit.USER),)}
    plan = Plan("DeduplicateWithinWatermark", below.output, (below,), keys, {}, True, "dedup")
    rows = [(1, kit.second(1), "ann", 1), (2, kit.second(3), "ann", 1)]
    assert sum(kit.run(plan, rows).values()) == 1


def test_parts_that_are_the_same_are_read_once() -> None:
    below = kit.project(kit.relation(), kit.ID)
    again = Attribute(20, "id", pa.int64(), False)
    other = kit.project(kit.relation("events", (again, *kit.EVENTS[1:])), again)
    plan = Plan("Union", below.output, (below, other), {}, {}, True, "Union")
    assert kit.run(plan, ROWS[:1]) == Counter({(1,): 2})


@pytest.mark.parametrize("kind", ["Sample", "Offset", "SomethingNew"])
def test_what_does_not_run_is_refused_with_node_and_advice(kind: str) -> None:
    plan = Plan(kind, kit.EVENTS, (kit.relation(),), {}, {}, True, f"{kind} of events")
    with pytest.raises(ConfigurationError, match=rf"operator {kind} .*{kind} of events.*What to do: \w+"):
        kit.run(plan, [])


def test_an_unknown_expression_is_refused_with_its_text() -> None:
    odd = kit.call("ScalaUDF", pa.int64(), reference(kit.ID))
    plan = kit.project(kit.relation(), kit.alias(Attribute(10, "odd", pa.int64()), odd))
    with pytest.raises(ConfigurationError, match=r"expression ScalaUDF .*scalaudf\(id\).*in Python"):
        kit.run(plan, [])
