"""What a plan is, apart from ids and addresses that change from run to run."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from snapline.sql.plans.trees import Attribute, Expression, Plan

_CHANGING: Final = frozenset(
    {"id", "metadata", "resultId", "nodeId", "dataframe", "qualifier", "source", "table", "relation", "rdd", "desc"}
)
"""Arguments that say nothing about the meaning, or differ in each run."""


_MAX_LENGTH: Final = 120
_DIGITS: Final = 12


def fingerprint(plan: Plan) -> str:
    """Equal for plans that compute the same columns, under the same names, in the same way."""
    return hashlib.sha256(_plan_text(plan).encode()).hexdigest()


def _plan_text(plan: Plan) -> str:
    below = [attribute for child in plan.children for attribute in child.output]
    positions = {attribute.id: number for number, attribute in enumerate(below)}
    own = {attribute.id: f"own {number}" for number, attribute in enumerate(plan.output)}
    known: dict[int, Any] = {**own, **positions}
    parts = [plan.kind, ", ".join(f"{column.name} {column.type}" for column in plan.output)]
    parts += [f"{name}={_value_text(value, known)}" for name, value in sorted(plan.arguments.items()) if _says(name)]
    for name, expressions in sorted(plan.expressions.items()):
        parts.append(f"{name}=[{'; '.join(expression_text(each, known) for each in expressions)}]")
    if not plan.is_streaming:
        parts.append(f"static {id(plan)}")  # rows of a DataFrame: equal only to itself
    return f"({' | '.join(parts)} {' '.join(_plan_text(child) for child in plan.children)})"


def expression_text(expression: Expression, known: Mapping[int, Any]) -> str:
    """An expression in which columns are the positions in `known`."""
    if expression.kind == "AttributeReference":
        return f"#{known.get(expression.arguments['id'], expression.arguments['name'])}"
    given = ", ".join(f"{k}={_value_text(v, known)}" for k, v in sorted(expression.arguments.items()) if _says(k))
    below = ", ".join(expression_text(child, known) for child in expression.children)
    return f"{expression.kind}<{expression.sql_type or expression.type}>({given})({below})"


def same_meaning(one: Expression, other: Expression) -> bool:
    """Whether two expressions over the same columns are the same."""
    ids = {number: f"id {number}" for number in one.references | other.references}
    return expression_text(one, ids) == expression_text(other, ids)


def _says(name: str) -> bool:
    return name not in _CHANGING


def _value_text(value: Any, known: Mapping[int, Any]) -> str:
    if isinstance(value, Expression):
        return expression_text(value, known)
    if isinstance(value, Plan):
        return _plan_text(value)
    if isinstance(value, Mapping):
        return str({key: _value_text(item, known) for key, item in value.items() if _says(str(key))})
    if isinstance(value, tuple | list):
        return str([_value_text(item, known) for item in value])
    return repr(value)


class Uids:
    """Names for the operators of one query, the same in each run.

    They are made of what an operator is and of the names of its columns, so that a change elsewhere in the query, or
    another order of its parts, leaves them as they are; the second of a kind gets a number.
    """

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix
        self._used: Counter[str] = Counter()

    def uid(self, kind: str, *names: str) -> str:
        base = "-".join([*([self._prefix] if self._prefix else []), kind, *map(_slug, names)])
        if len(base) > _MAX_LENGTH:
            digest = hashlib.sha256(base.encode()).hexdigest()[:_DIGITS]
            base = f"{base[: _MAX_LENGTH - _DIGITS - 1]}-{digest}"
        self._used[base] += 1
        return base if self._used[base] == 1 else f"{base}-{self._used[base]}"


def _slug(name: str) -> str:
    kept = "".join(letter if letter.isalnum() else "_" for letter in name.lower())
    return kept.strip("_") or "column"


def column_names(attributes: tuple[Attribute, ...] | list[Attribute]) -> list[str]:
    """Names for columns in the dataflow: their own, with a number where several have the same.

    State is found again by them, so they do not depend on ids.
    """
    used: Counter[str] = Counter()
    names = []
    for attribute in attributes:
        name = attribute.name.replace("/", "_") or "column"
        name = f"column {name}" if name.startswith("__") else name
        used[name] += 1
        names.append(name if used[name] == 1 else f"{name} ({used[name]})")
    return names
