"""Which expressions of a tree are the same, so that each is computed once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from snapline.sql.plans.trees import Expression

_DISREGARDED = frozenset({"name", "nameParts", "qualifier"})
_WITHOUT_WORK = frozenset({"AttributeReference", "Literal", "Alias", "NamedLambdaVariable"})


def is_deterministic(expression: Expression) -> bool:
    """Whether it gives the same value for the same row, always."""
    return all(part.arguments.get("deterministic", True) for part in expression.walk())


class Structures:
    """Numbers for expressions: equal trees have equal numbers, whatever the names of their columns."""

    def __init__(self, expressions: Iterable[Expression]) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._known: dict[int, tuple[Expression, int]] = {}
        self._uses = Counter(
            self.number(part) for expression in expressions for part in expression.walk() if self._shares(part)
        )

    def number(self, expression: Expression) -> int:
        """The number of this expression."""
        known = self._known.get(id(expression))
        if known is None:
            key = (
                expression.kind,
                expression.type,
                expression.sql_type,
                tuple(self.number(child) for child in expression.children),
                _frozen({k: v for k, v in expression.arguments.items() if k not in _DISREGARDED}),
            )
            # The expression itself is kept, so that no other one gets its `id`.
            known = self._known[id(expression)] = (expression, self._numbers.setdefault(key, len(self._numbers)))
        return known[1]

    def is_repeated(self, expression: Expression) -> bool:
        """Whether its value is used in several places."""
        return self._uses[self.number(expression)] > 1

    def _shares(self, expression: Expression) -> bool:
        return expression.kind not in _WITHOUT_WORK and is_deterministic(expression)


def _frozen(value: Any) -> Hashable:
    if isinstance(value, Mapping):
        return tuple(sorted((str(key), _frozen(item)) for key, item in value.items()))
    if isinstance(value, list | tuple):
        return tuple(_frozen(item) for item in value)
    if isinstance(value, Expression):
        return ("expression", id(value))
    # The text tells -0.0 from 0.0 and 1 from true, and NaN equals itself.
    return (type(value).__name__, repr(value))
