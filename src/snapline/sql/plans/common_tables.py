"""Common table expressions, put where they are used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from snapline.errors import ConfigurationError
from snapline.sql.plans.trees import Attribute, Expression, Plan


def without_common_tables(plan: Plan) -> Plan:
    """The plan with each reference to a `WITH` table replaced by the table's own plan.

    A table that is used twice is the same object in both places, below a `Project` that gives the columns the ids of
    the reference. Raises `ConfigurationError` for a recursive table.
    """
    return _Tables().inlined(plan, {})


class _Tables:
    def __init__(self) -> None:
        self._done: dict[tuple[int, int], tuple[Plan, Plan]] = {}

    def inlined(self, plan: Plan, tables: Mapping[int, Plan]) -> Plan:
        key = (id(plan), id(tables))
        if key not in self._done:
            self._done[key] = (plan, self._inlined(plan, tables))
        return self._done[key][1]

    def _inlined(self, plan: Plan, tables: Mapping[int, Plan]) -> Plan:
        if plan.kind == "WithCTE":
            known = dict(tables)
            definitions: tuple[Plan, ...] = plan.arguments.get("cteDefs", ()) or plan.children[:-1]
            for definition in definitions:
                known[definition.arguments["id"]] = self.inlined(definition.children[0], dict(known))
            return self.inlined(plan.children[-1], known)
        if plan.kind == "CTERelationRef":
            if plan.arguments["cteId"] not in tables:
                raise ConfigurationError(
                    f"{plan.text}: a recursive WITH table is not supported; it has no meaning on a stream"
                )
            return renamed(tables[plan.arguments["cteId"]], plan.output)
        children = tuple(self.inlined(child, tables) for child in plan.children)
        expressions = {
            name: tuple(self._in_expression(expression, tables) for expression in found)
            for name, found in plan.expressions.items()
        }
        return replace(plan, children=children, expressions=expressions)

    def _in_expression(self, expression: Expression, tables: Mapping[int, Plan]) -> Expression:
        def change(found: Expression) -> Expression:
            below = found.arguments.get("plan")
            if not isinstance(below, Plan):
                return found
            arguments: dict[str, Any] = {**found.arguments, "plan": self.inlined(below, tables)}
            return replace(found, arguments=arguments)

        return expression.rewritten(change)


def renamed(plan: Plan, output: tuple[Attribute, ...]) -> Plan:
    """The same columns with the names and ids of `output`."""
    if [attribute.id for attribute in plan.output] == [attribute.id for attribute in output]:
        return plan
    columns = tuple(
        Expression("Alias", given.type, (reference(given),), {"id": wanted.id, "name": wanted.name}, given.nullable)
        for given, wanted in zip(plan.output, output, strict=True)
    )
    return Plan("Project", output, (plan,), {"projectList": columns}, {}, plan.is_streaming, "Project")


def reference(attribute: Attribute) -> Expression:
    """The expression that reads a column."""
    arguments = {"id": attribute.id, "name": attribute.name, "metadata": attribute.metadata}
    return Expression(
        "AttributeReference", attribute.type, (), arguments, attribute.nullable, attribute.name, attribute.sql_type
    )
