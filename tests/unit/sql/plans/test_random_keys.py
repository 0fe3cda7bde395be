from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from tests import sql_kit as kit

from snapline.errors import ConfigurationError
from snapline.sql.plans.common_tables import reference
from snapline.sql.plans.random_keys import check_keys
from snapline.sql.plans.trees import Attribute, Expression, Plan

CHANCE = Attribute(10, "chance", pa.int64())
COPY = Attribute(11, "copy", pa.int64())
N = kit.alias(Attribute(12, "n", pa.int64(), False), kit.aggregated(kit.count()))
RAND = kit.call("Rand", pa.int64(), deterministic=False)
OTHERS = tuple(replace(each, id=each.id + 100) for each in kit.EVENTS)


def rows(value: Expression = RAND) -> Plan:
    """Rows with the column `copy`, which comes from a value some nodes below."""
    made = kit.project(kit.relation(), *kit.EVENTS, kit.alias(CHANCE, kit.call("Add", pa.int64(), value)))
    made = kit.where(made, kit.greater(reference(CHANCE), kit.literal(1)))
    made = Plan("SubqueryAlias", made.output, (made,), {}, {}, True, "alias")
    return kit.project(made, *kit.EVENTS, kit.alias(COPY, reference(CHANCE)))


def keyed(kind: str, given: Plan, key: Attribute) -> Plan:
    """A node by a key over these rows."""
    column = reference(key)
    match kind:
        case "Aggregate":
            return kit.aggregate(given, [column], [column, N])
        case "Deduplicate":
            return Plan(kind, given.output, (given,), {"keys": (column,)}, {}, True, f"{kind} by {key.name}")
        case "Distinct":
            below = kit.project(given, key)
            return Plan(kind, below.output, (below,), {}, {}, True, f"{kind} by {key.name}")
        case "Join":
            condition = kit.call("EqualTo", pa.bool_(), reference(OTHERS[0]), column)
            return kit.join(given, kit.relation("others", OTHERS), condition)
        case "TransformWithStateInPySpark":
            below = kit.project(given, key, *kit.EVENTS)
            return Plan(kind, kit.EVENTS, (below,), {}, {"groupingAttributesLen": 1}, True, f"{kind} by {key.name}")
        case _:
            return Plan("Window", given.output, (given,), {"partitionSpec": (column,)}, {}, True, "Window")


KINDS = ["Aggregate", "Deduplicate", "Distinct", "Join", "TransformWithStateInPySpark", "Window"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_random_key_is_refused_with_node_fragment_and_advice(kind: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"operator {kind} .*key rand\(\) .*stands in: {kind}.*in the source"):
        check_keys(keyed(kind, rows(), COPY))


@pytest.mark.parametrize("kind", KINDS)
def test_other_keys_of_rows_with_random_columns_are_not(kind: str) -> None:
    check_keys(keyed(kind, rows(), kit.ID))
    check_keys(keyed(kind, rows(kit.call("CurrentTimestamp", pa.int64())), COPY))
    check_keys(replace(keyed(kind, rows(), COPY), is_streaming=False))


@pytest.mark.parametrize("place", [0, 1])
def test_a_column_of_a_union_is_random_if_one_of_its_parts_is(place: int) -> None:
    parts = [kit.project(rows(), COPY), kit.project(kit.relation(), kit.PRICE)]
    first, second = parts[place], parts[1 - place]
    union = Plan("Union", first.output, (first, second), {}, {}, True, "Union")
    with pytest.raises(ConfigurationError, match=r"rand\(\)"):
        check_keys(keyed("Aggregate", union, first.output[0]))


def test_what_a_random_list_is_exploded_into_is_random() -> None:
    made = Attribute(20, "item", pa.int64())
    generator = kit.call("Explode", pa.int64(), kit.call("Shuffle", pa.list_(pa.int64()), deterministic=False))
    expressions = {"generator": (generator,), "generatorOutput": (reference(made),)}
    below = kit.relation()
    plan = Plan("Generate", (*below.output, made), (below,), expressions, {}, True, "Generate")
    with pytest.raises(ConfigurationError, match=r"shuffle\(\)"):
        check_keys(keyed("Aggregate", plan, made))


def test_an_aggregate_keeps_its_value() -> None:
    first = Attribute(20, "first", pa.int64())
    value = kit.alias(first, kit.aggregated(kit.call("First", pa.int64(), reference(kit.PRICE), deterministic=False)))
    check_keys(keyed("Aggregate", kit.aggregate(kit.relation(), [reference(kit.USER)], [value]), first))
