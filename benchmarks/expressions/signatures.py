"""The table of functions that random expressions are made of.

Each family of functions has a module `signatures_<family>.py` in this folder, found by its name. It holds

- `SIGNATURES`, a list of `Signature`: one row for each way to call a function;
- `VALUES` (may be left out), edge values of further kinds of columns: a mapping of a kind to a list of Python values
  that `pa.array(values, type)` takes. A null is added to each.

A row looks like this; `{0}` and `{1}` stand for the arguments:

    Signature("Add", "({0} + {1})", ("int", "int"), "int")
    Signature("Substring", "substring({0}, {1}, {2})", ("string", "small", "small"), "string")
    Signature("DateFormatClass", "date_format({0}, {1})", ("timestamp", Choice("'yyyy'", "'HH:mm'")), "string")

An argument is one of

- a type as Spark SQL writes it (`int`, `decimal(10,2)`, `array<int>`): a column of edge values, a literal or another
  expression that gives this type;
- a *kind*, which is a type with a pool of values of its own (`small`, `number_string`, `date_string`): only columns.
  A kind is declared in `KINDS` of the module, with the type it has: `KINDS = {"json": "string"}`;
- a `Choice` of SQL texts, for arguments that are constants, units or patterns, or a `Made` text;
- a `Lambda`: a function of elements, whose body is a random expression.

`gives` is the type of the result, by which calls are nested; "" keeps a call from being an argument of another one.
`name` is the class in Catalyst; `--only` selects by it. `modes` restricts a row to ANSI or LEGACY. `exact=False`
is for functions of doubles whose last bits Java leaves open; they are not nested in others.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any, TypeAlias

import benchmarks.expressions


@dataclass(frozen=True, slots=True, init=False)
class Choice:
    """One of these SQL texts."""

    texts: tuple[str, ...]

    def __init__(self, *texts: str) -> None:
        object.__setattr__(self, "texts", texts)

    def text(self, random: Random) -> str:
        return random.choice(self.texts)


@dataclass(frozen=True, slots=True)
class Made:
    """A SQL text that a function makes at random."""

    make: Callable[[Random], str]

    def text(self, random: Random) -> str:
        return self.make(random)


@dataclass(frozen=True, slots=True)
class Lambda:
    """A function of values of the types `takes` that returns one of the type `gives`."""

    takes: tuple[str, ...]
    gives: str


Argument: TypeAlias = str | Choice | Made | Lambda


@dataclass(frozen=True, slots=True)
class Signature:
    """One way to call a function."""

    name: str
    sql: str
    takes: tuple[Argument, ...]
    gives: str = ""
    modes: tuple[str, ...] = ("ANSI", "LEGACY")
    exact: bool = True


@dataclass(frozen=True, slots=True)
class Table:
    """All families together. `kinds` maps each kind of column to its type, types themselves included."""

    signatures: tuple[Signature, ...]
    values: Mapping[str, list[Any]]
    kinds: Mapping[str, str]


@cache
def table() -> Table:
    """The rows of all modules `signatures_*` in this folder."""
    signatures: list[Signature] = []
    values: dict[str, list[Any]] = {}
    kinds: dict[str, str] = {}
    for module_info in pkgutil.iter_modules(benchmarks.expressions.__path__):
        if module_info.name.startswith("signatures_"):
            module = importlib.import_module(f"benchmarks.expressions.{module_info.name}")
            signatures += module.SIGNATURES
            values.update(getattr(module, "VALUES", {}))
            kinds.update(getattr(module, "KINDS", {}))
    kinds.update({kind: kind for kind in values if kind not in kinds})
    return Table(tuple(signatures), values, kinds)
