"""Python functions and data sources that a plan carries, as Spark keeps them: pickled."""

from __future__ import annotations

from dataclasses import dataclass, replace

from snapline.sql.plans.trees import Expression, Plan


@dataclass(frozen=True, slots=True)
class PythonFunction:
    """`command` unpickles to the function with its return type, or to the class of a data source.

    Spark puts a large one into a broadcast variable: then it unpickles to that, and `broadcasts` has its id.
    """

    command: bytes
    python_version: str
    broadcasts: tuple[int, ...] = ()


def with_time_zone(plan: Plan, zone: str) -> Plan:
    """The plan whose Python functions and files have the session's time zone as their argument `timeZoneId`.

    Functions of pandas see times as local times there, and texts in files may be such; where these are read there is no
    session to ask.
    """

    def named(expression: Expression) -> Expression:
        if expression.kind != "PythonUDF":
            return expression
        return replace(expression, arguments={**expression.arguments, "timeZoneId": zone})

    def change(node: Plan) -> Plan:
        if node.kind == "StreamingRelation":
            return replace(node, arguments={**node.arguments, "timeZoneId": zone})
        changed = {name: tuple(each.rewritten(named) for each in found) for name, found in node.expressions.items()}
        same = all(
            a is b for name, found in changed.items() for a, b in zip(found, node.expressions[name], strict=True)
        )
        return node if same else replace(node, expressions=changed)

    return plan.rewritten(change)
