"""Numbers computed alike in SQL and in Python: functions of a `Sql` return text, those of an int an int.

Only the standard library is imported here: peers' interpreters read this module. numpy arrays of int64 go through the
same functions. All numbers are non-negative integers and must stay below 2**63.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Sql:
    """An integer in SQL; operators build larger expressions."""

    text: str

    def __add__(self, other: Sql | int) -> Sql:
        return Sql(f"({self.text} + {text(other)})")

    def __radd__(self, other: int) -> Sql:
        return Sql(f"({other} + {self.text})")

    def __sub__(self, other: Sql | int) -> Sql:
        return Sql(f"({self.text} - {text(other)})")

    def __mul__(self, other: Sql | int) -> Sql:
        return Sql(f"({self.text} * {text(other)})")

    def __floordiv__(self, other: int) -> Sql:
        return Sql(f"({self.text} / {other})")

    def __mod__(self, other: int) -> Sql:
        return Sql(f"MOD({self.text}, {other})")

    def __str__(self) -> str:
        return self.text


def text(value: Sql | int) -> str:
    return str(value)


def if_below(value: Any, limit: Any, then: Any, otherwise: Any) -> Any:
    """Returns `then` where the value is below the limit, which may differ per row; otherwise `otherwise`."""
    if isinstance(value, Sql):
        return Sql(f"CASE WHEN {value} < {limit} THEN {then} ELSE {otherwise} END")
    if isinstance(value, int):
        return then if value < limit else otherwise
    import numpy as np

    return np.where(value < limit, then, otherwise)


def one_of(words: Sequence[str], number: Any) -> Any:
    """Returns the word with this number, from 0; for arrays an Arrow array."""
    if isinstance(number, Sql):
        listed = ", ".join(f"'{word}'" for word in words)
        return Sql(f"ELT(CAST({number} + 1 AS INT), {listed})")
    if isinstance(number, int):
        return words[number]
    import pyarrow as pa

    return pa.array(words, pa.string()).take(pa.array(number))
