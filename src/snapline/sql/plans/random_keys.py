"""Keys with another value at each evaluation, which no state can be found by again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from snapline.sql.plans.common_tables import reference
from snapline.sql.plans.join_conditions import split_condition
from snapline.sql.plans.refusals import refusal
from snapline.sql.plans.trees import Expression, Plan
from snapline.sql.plans.volatile_columns import is_random

_KEYS: Final[Mapping[str, str]] = {
    "Aggregate": "groupingExpressions",
    "Deduplicate": "keys",
    "DeduplicateWithinWatermark": "keys",
    "FlatMapGroupsInArrow": "groupingAttributes",
    "FlatMapGroupsInPandas": "groupingAttributes",
    "FlatMapGroupsInPandasWithState": "groupingAttributes",
    "Window": "partitionSpec",
}
"""Where nodes have the expressions that rows are brought together by."""


def check_keys(plan: Plan) -> None:
    """Raises `ConfigurationError` for a part that streams and has a random key: of groups, joins, distinct rows.

    Spark computes such a key in a projection somewhere below. The time is none: it is a constant of a batch.
    """
    _Columns().check(plan)


class _Columns:
    """The columns of a plan that are random, by their ids, with the expression that makes them so."""

    def __init__(self) -> None:
        self._random: dict[int, Expression] = {}

    def check(self, plan: Plan) -> None:
        for child in plan.children:
            self.check(child)
        found = self._first(_keys(plan)) if plan.is_streaming else None
        if found is not None:
            raise refusal(
                plan,
                f"its key {found.text} has another value each time",
                "compute the key in the source, or write the rows out with it first and read them from there",
            )
        self._add(plan)

    def _add(self, plan: Plan) -> None:
        """Looks at the columns that a node makes."""
        for each in (each for found in plan.expressions.values() for each in found if each.kind == "Alias"):
            self._note([each.arguments["id"]], [each])
        if plan.kind == "Generate":
            made = [each.arguments["id"] for each in plan.expressions["generatorOutput"]]
            self._note(made, plan.expressions["generator"])
        if plan.kind == "Union":
            for place, column in enumerate(plan.output):
                self._note([column.id], [reference(child.output[place]) for child in plan.children])

    def _note(self, made: list[int], values: Iterable[Expression]) -> None:
        found = self._first(values)
        if found is not None:
            self._random.update(dict.fromkeys(made, found))

    def _first(self, expressions: Iterable[Expression]) -> Expression | None:
        return next((found for each in expressions if (found := self._origin(each)) is not None), None)

    def _origin(self, expression: Expression) -> Expression | None:
        """The smallest random part. An aggregate is none, whatever it is of: its state keeps its value."""
        if expression.kind == "AggregateExpression":
            return None
        if expression.kind == "AttributeReference":
            return self._random.get(expression.arguments["id"])
        below = self._first(expression.children)
        return expression if below is None and is_random(expression) else below


def _keys(plan: Plan) -> Iterable[Expression]:
    if plan.kind == "Join":
        conditions = plan.expressions.get("condition", (None,))
        left, right = plan.children
        pairs = split_condition(conditions[0], left.output, right.output).keys
        return [side for pair in pairs for side in pair]
    if plan.kind == "Distinct":
        return map(reference, plan.output)
    if plan.kind == "TransformWithStateInPySpark":
        return map(reference, plan.children[0].output[: plan.arguments["groupingAttributesLen"]])
    return plan.expressions.get(_KEYS.get(plan.kind, ""), ())
