"""`LATERAL` parts of a query as generators and projections over the rows that they belong to."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from snapline.sql.plans.common_tables import reference
from snapline.sql.plans.filter_push_down import filtered
from snapline.sql.plans.refusals import refusal
from snapline.sql.plans.trees import Attribute, Expression, Plan

_NAMES_ONLY: Final = frozenset({"SubqueryAlias", "View", "ResolvedHint"})
_INSTEAD = "use one table function, generator or expression of the row there, or write it as a join"


def without_lateral_joins(plan: Plan) -> Plan:
    """The plan with each `LateralJoin` as nodes over its left side: a row is taken on by what is made of it.

    Raises `ConfigurationError` if the lateral part reads other tables, or aggregates.
    """
    return plan.rewritten(_changed)


def _changed(node: Plan) -> Plan:
    if node.kind != "LateralJoin":
        return node
    (query,) = node.expressions["right"]
    is_outer = node.arguments["joinType"] == "LeftOuter"
    conditions = [each for each in node.expressions.get("condition", ()) if not _is_true(each)]
    if is_outer and (conditions or not _keeps_nulls(query.arguments["plan"])):
        raise refusal(node, "a left join with a condition, or with other than columns of a generator", _INSTEAD)
    made = _over(query.arguments["plan"], node.children[0], is_outer)
    made = filtered(made, conditions) if conditions else made
    return _with_columns(made, node.output)


def _over(plan: Plan, row: Plan, is_outer: bool) -> Plan:
    """A lateral part with the columns of the row in front."""
    if plan.kind == "OneRowRelation":
        return row
    if plan.kind in _NAMES_ONLY:
        return _over(plan.children[0], row, is_outer)
    if plan.kind not in ("Project", "Filter", "Generate") or len(plan.children) != 1:
        raise refusal(plan, "in a LATERAL part of a query", _INSTEAD)
    below = _over(plan.children[0], row, is_outer)
    expressions = {
        name: tuple(each.rewritten(_without_mark) for each in found) for name, found in plan.expressions.items()
    }
    if plan.kind == "Project":
        kept = tuple(reference(attribute) for attribute in row.output)
        expressions["projectList"] = (*kept, *expressions["projectList"])
        output = (*row.output, *plan.output)
    elif plan.kind == "Generate":
        made = {each.arguments["id"] for each in plan.expressions["generatorOutput"]}
        output = (*below.output, *(attribute for attribute in plan.output if attribute.id in made))
    else:
        output = below.output
    arguments = {name: value for name, value in plan.arguments.items() if name != "dataframe"}
    if plan.kind == "Generate":
        arguments["outer"] = arguments["outer"] or is_outer
    return Plan(plan.kind, output, (below,), expressions, arguments, row.is_streaming, plan.text)


def _keeps_nulls(plan: Plan) -> bool:
    """Whether a row for which there is nothing gets nulls if its generator keeps it."""
    if plan.kind == "Filter":
        return False
    if plan.kind == "Project" and any(node.kind == "Generate" for node in plan.walk()):
        values = [each.children[0] if each.kind == "Alias" else each for each in plan.expressions["projectList"]]
        if not all(value.kind == "AttributeReference" for value in values):
            return False
    return all(map(_keeps_nulls, plan.children))


def _with_columns(plan: Plan, output: tuple[Attribute, ...]) -> Plan:
    """The plan with exactly these columns."""
    if [attribute.id for attribute in plan.output] == [attribute.id for attribute in output]:
        return replace(plan, output=output) if plan.kind in ("Project", "Generate") else plan
    columns = tuple(reference(attribute) for attribute in output)
    names = ", ".join(column.text for column in columns)
    return Plan("Project", output, (plan,), {"projectList": columns}, {}, plan.is_streaming, f"Project [{names}]")


def _without_mark(expression: Expression) -> Expression:
    inner: Expression = expression.arguments["e"] if expression.kind == "OuterReference" else expression
    return inner


def _is_true(expression: Expression) -> bool:
    return expression.kind == "Literal" and expression.arguments["value"] is True
