"""Expressions that Catalyst names once and uses several times (`With`), put where they are used."""

from __future__ import annotations

from collections.abc import Mapping

from snapline.errors import ConfigurationError
from snapline.sql.plans.trees import Expression


def without_common_expressions(expression: Expression) -> Expression:
    """The expression with each `CommonExpressionRef` replaced by what it refers to.

    Raises `ConfigurationError` if that is not deterministic and used more than once: it would have two values.
    """

    def change(found: Expression) -> Expression:
        if found.kind != "With":
            return found
        body, *definitions = found.children
        meanings = {definition.arguments["id"]["id"]: definition.children[0] for definition in definitions}
        _check_uses(body, meanings, found.text)
        return body.rewritten(lambda each: _meaning(each, meanings))

    return expression.rewritten(change)


def _meaning(expression: Expression, meanings: Mapping[int, Expression]) -> Expression:
    if expression.kind != "CommonExpressionRef":
        return expression
    return meanings.get(expression.arguments["id"]["id"], expression)


def _check_uses(body: Expression, meanings: Mapping[int, Expression], text: str) -> None:
    used = [each.arguments["id"]["id"] for each in body.walk() if each.kind == "CommonExpressionRef"]
    for number, meaning in meanings.items():
        is_random = any(not each.arguments.get("deterministic", True) for each in meaning.walk())
        if is_random and used.count(number) > 1:
            raise ConfigurationError(
                f"{text}: {meaning.text} is not deterministic and used twice here; compute it in a column of its own "
                "first"
            )
