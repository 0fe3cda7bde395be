"""Casts from and to intervals of years and months, and of days to seconds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal

import numpy as np
import pyarrow as pa

from snapline.sql.expressions.calendar_days import Integers, truncated_division
from snapline.sql.expressions.cast_rules import CastRules, Converter
from snapline.sql.expressions.integers import from_integers, integers
from snapline.sql.expressions.registry import UnsupportedError
from snapline.sql.expressions.values import each, valid
from snapline.sql.plans.trees import Expression

_SECOND_US = 1_000_000
_TIME_UNITS = {"day": 86_400 * _SECOND_US, "hour": 3600 * _SECOND_US, "minute": 60 * _SECOND_US, "second": _SECOND_US}
_MONTH_UNITS = {"year": 12, "month": 1}
_BITS = {pa.int8(): 8, pa.int16(): 16, pa.int32(): 32, pa.int64(): 64}


@dataclass(frozen=True, slots=True)
class _Units:
    """The first and last unit of an interval, and the sizes of its family's units."""

    first: str
    last: str
    sizes: dict[str, int]

    @property
    def label(self) -> str:
        return self.first.upper() if self.first == self.last else f"{self.first} TO {self.last}".upper()


def _units(sql_type: str) -> _Units | None:
    """The units that a type's name tells; None if it is not an interval but holds one."""
    words = sql_type.split()
    if not words or words[0] != "interval":
        return None
    return _Units(words[1], words[-1], _MONTH_UNITS if words[-1] in _MONTH_UNITS else _TIME_UNITS)


def interval_cast(expression: Expression, rules: CastRules) -> Converter:
    """The cast of an interval to another type, or the other way. Raises `UnsupportedError`."""
    if rules.legacy:  # What does not fit is an error even then.
        rules = replace(rules, mode="ANSI")
    child = expression.children[0]
    source, target = _units(child.sql_type), _units(expression.sql_type)
    if pa.types.is_null(child.type):
        return lambda array: pa.nulls(len(array), expression.type)
    if source is not None and target is not None:
        return _between(target, expression.type)
    if source is not None and pa.types.is_string(expression.type):
        return interval_texts(child.sql_type)
    if source is not None and expression.type in _BITS:
        return _to_integer(source, expression.type, rules)
    if target is not None and child.type in _BITS:
        return _from_integer(target, expression.type, rules)
    raise UnsupportedError(
        f"the cast to or from {child.sql_type or expression.sql_type} is not supported: {expression.text}; "
        "cast intervals to a string or, if they have one unit, to a whole number"
    )


def refuse_intervals(expression: Expression, function: str) -> None:
    """Raises `UnsupportedError` if the expression's type is or holds an interval that its Arrow type does not tell."""
    if expression.sql_type:
        raise UnsupportedError(
            f"{function} with {expression.sql_type} is not supported: {expression.text}; cast intervals to strings"
        )


def _between(target: _Units, type: pa.DataType) -> Converter:
    """Intervals without the units below the last one of the target."""
    size = target.sizes[target.last]
    if size in (1, _SECOND_US):
        return lambda array: array

    def convert(array: pa.Array) -> pa.Array:
        amounts = integers(array)
        return from_integers(amounts - np.fmod(amounts, size), valid(array), type)

    return convert


def _to_integer(source: _Units, type: pa.DataType, rules: CastRules) -> Converter:
    size = source.sizes[source.last]
    limit = 2 ** (_BITS[type] - 1)

    def convert(array: pa.Array) -> pa.Array:
        amounts: Integers = np.asarray(truncated_division(integers(array), size))
        there = rules.without((amounts < -limit) | (amounts >= limit), valid(array), "CAST_OVERFLOW", type)
        return from_integers(np.where(there, amounts, 0), there, type)

    return convert


def _from_integer(target: _Units, type: pa.DataType, rules: CastRules) -> Converter:
    size = target.sizes[target.last]
    limit = (2**31 - 1 if target.sizes is _MONTH_UNITS else 2**63 - 1) // size

    def convert(array: pa.Array) -> pa.Array:
        amounts = integers(array)
        too_large = (amounts > limit) | (amounts < -limit - (size == 1))
        there = rules.without(too_large, valid(array), "CAST_OVERFLOW", type)
        return from_integers(np.where(there, amounts, 0) * size, there, type)

    return convert


def interval_texts(sql_type: str) -> Converter:
    """What writes intervals of this type as literals of SQL: `INTERVAL '1-2' YEAR TO MONTH`."""
    units = _units(sql_type)
    assert units is not None
    write: Callable[[int], str] = _months_text(units) if units.sizes is _MONTH_UNITS else _time_text(units)
    size = pa.int32() if units.sizes is _MONTH_UNITS else pa.int64()

    def convert(array: pa.Array) -> pa.Array:
        return each(array.view(size), lambda amount: f"INTERVAL '{write(amount)}' {units.label}", pa.string())

    return convert


def _months_text(units: _Units) -> Callable[[int], str]:
    def write(months: int) -> str:
        sign, rest = "-" if months < 0 else "", abs(months)
        if units.first == units.last:
            return f"{sign}{rest // units.sizes[units.last]}"
        return f"{sign}{rest // 12}-{rest % 12}"

    return write


def _time_text(units: _Units) -> Callable[[int], str]:
    names = list(_TIME_UNITS)
    names = names[names.index(units.first) : names.index(units.last) + 1]

    def write(micros: int) -> str:
        text, rest = "-" if micros < 0 else "", abs(micros)
        for name in names:
            size = _TIME_UNITS[name]
            text += "" if name == units.first else " " if name == "hour" else ":"
            if name == "second":
                lead = "0" if rest < 10 * size else ""
                text += f"{lead}{(Decimal(rest).scaleb(-6)).normalize():f}"
            else:
                text += f"{rest // size:d}" if name == "day" else f"{rest // size:02d}"
            rest %= size
        return text

    return write
