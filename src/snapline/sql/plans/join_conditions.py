"""The condition of a join, taken apart: columns that must be equal, bounds on the distance in time, and the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from snapline.sql.plans.time_windows import conjuncts
from snapline.sql.plans.trees import Attribute, Expression

_ADDITIONS = frozenset({"TimeAdd", "TimestampAddInterval", "Add", "Subtract"})
_COMPARISONS = {"GreaterThan": (1, 1), "GreaterThanOrEqual": (1, 0), "LessThan": (-1, 1), "LessThanOrEqual": (-1, 0)}
"""Direction, and what strictness takes off, in microseconds."""


@dataclass(frozen=True, slots=True)
class TimeBounds:
    """How far the time of the right row may be after that of the left one, in microseconds, inclusive.

    `left` and `right` are the ids of the columns. None is no bound.
    """

    left: int
    right: int
    lower_us: int | None
    upper_us: int | None


@dataclass(frozen=True, slots=True)
class JoinCondition:
    """`keys` are pairs of expressions, one over each side, that must be equal; `null_safe` says where null equals null.

    `rest` holds over a joined row and has to be checked for it; the bounds on time are not in it.
    """

    keys: tuple[tuple[Expression, Expression], ...]
    null_safe: tuple[bool, ...]
    bounds: TimeBounds | None
    rest: tuple[Expression, ...]


def split_condition(
    condition: Expression | None, left: Sequence[Attribute], right: Sequence[Attribute]
) -> JoinCondition:
    """The parts of a condition over the columns of two sides."""
    ours, theirs = ({attribute.id for attribute in side} for side in (left, right))
    keys: list[tuple[Expression, Expression]] = []
    null_safe: list[bool] = []
    bounds: TimeBounds | None = None
    rest: list[Expression] = []
    for each in [] if condition is None else conjuncts(condition):
        pair = _key(each, ours, theirs)
        found = None if pair else _bound(each, ours, theirs)
        if pair is not None:
            keys.append(pair)
            null_safe.append(each.kind == "EqualNullSafe")
        elif found is not None and (bounds is None or (bounds.left, bounds.right) == (found.left, found.right)):
            bounds = found if bounds is None else _both(bounds, found)
        else:
            rest.append(each)
    return JoinCondition(tuple(keys), tuple(null_safe), bounds, tuple(rest))


def _key(condition: Expression, ours: set[int], theirs: set[int]) -> tuple[Expression, Expression] | None:
    if condition.kind not in ("EqualTo", "EqualNullSafe"):
        return None
    one, other = condition.children
    if one.references and other.references:
        if one.references <= ours and other.references <= theirs:
            return one, other
        if one.references <= theirs and other.references <= ours:
            return other, one
    return None


def _bound(condition: Expression, ours: set[int], theirs: set[int]) -> TimeBounds | None:
    """The bound that a comparison of two times sets."""
    if condition.kind not in _COMPARISONS:
        return None
    first, second = map(_time, condition.children)
    if first is None or second is None:
        return None
    direction, strict = _COMPARISONS[condition.kind]
    (one, one_us), (other, other_us) = first, second
    # one + one_us (direction) other + other_us, as a bound on right - left.
    if one in theirs and other in ours:
        limit_us = other_us - one_us
        return _bounds(other, one, direction, limit_us, strict)
    if one in ours and other in theirs:
        limit_us = one_us - other_us
        return _bounds(one, other, -direction, limit_us, strict)
    return None


def _bounds(left: int, right: int, direction: int, limit_us: int, strict: int) -> TimeBounds:
    """`right - left` is at least the limit, or at most."""
    if direction > 0:
        return TimeBounds(left, right, limit_us + strict, None)
    return TimeBounds(left, right, None, limit_us - strict)


def _both(one: TimeBounds, other: TimeBounds) -> TimeBounds:
    lowers = [found for found in (one.lower_us, other.lower_us) if found is not None]
    uppers = [found for found in (one.upper_us, other.upper_us) if found is not None]
    return TimeBounds(one.left, one.right, max(lowers, default=None), min(uppers, default=None))


def _time(expression: Expression) -> tuple[int, int] | None:
    """A time column and the microseconds that are added to it; None for anything else."""
    if not pa.types.is_timestamp(expression.type):
        return None
    if expression.kind == "AttributeReference":
        return expression.arguments["id"], 0
    if expression.kind == "Cast":
        return _time(expression.children[0])
    if expression.kind not in _ADDITIONS:
        return None
    time, added_us = _time(expression.children[0]), _microseconds(expression.children[1])
    if time is None or added_us is None:
        return None
    return time[0], time[1] + (-added_us if expression.kind == "Subtract" else added_us)


def _microseconds(expression: Expression) -> int | None:
    """The length of a constant interval without months."""
    if expression.kind == "UnaryMinus":
        length = _microseconds(expression.children[0])
        return None if length is None else -length
    if expression.kind == "Cast":
        return _microseconds(expression.children[0])
    if expression.kind != "Literal" or expression.arguments["value"] is None:
        return None
    value = expression.arguments["value"]
    if pa.types.is_duration(expression.type):
        return int(value)
    if isinstance(value, pa.MonthDayNano):
        return None if value.months else (value.days * 86_400_000_000 + value.nanoseconds // 1000)
    return None
