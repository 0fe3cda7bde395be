"""Random typed expressions in SQL, and the rows of edge values that they are evaluated on."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from benchmarks.expressions.random_values import filled
from benchmarks.expressions.signatures import Argument, Lambda, Signature, Table

ROWS = 48
COPIES = "ab"
"""There are two columns of each kind, so that values of one type meet."""

_SHAPES = (*[(3, 0.35)] * 6, *[(4, 0.5)] * 2, (7, 0.6))
"""How deep calls are nested, and how likely an argument is a call."""

_OTHER_KIND = 0.15
_NULL = 0.03
_VARIABLE = 0.5
_ANY_CALL = 0.3
_LITERALS: dict[str, Sequence[str]] = {
    "int": ("0", "1", "-1", "7", "2147483647", "cast(null as int)"),
    "bigint": ("0L", "1L", "-3L", "cast(null as bigint)"),
    "double": ("0.0D", "1.5D", "-2.0D", "double('NaN')", "-0.0D", "cast(null as double)"),
    "string": ("''", "'a'", "'12'", "'😀é'", "cast(null as string)"),
    "boolean": ("true", "false", "cast(null as boolean)"),
    "decimal(5,2)": ("cast(1.25 as decimal(5,2))",),
    "decimal(38,18)": ("cast(-1.000000000000000001 as decimal(38,18))",),
    "date": ("date'2026-03-29'", "date'0001-01-01'", "cast(null as date)"),
    "timestamp": ("timestamp'2026-03-29 01:30:00'", "timestamp'2026-11-01 01:30:00'", "cast(null as timestamp)"),
    "array<int>": ("array(1, null, 3)", "cast(null as array<int>)"),
    "array<string>": ("array('a', null)", "array('😀')"),
    "map<string,int>": ("map('a', 1)", "map('b', cast(null as int))"),
}


@dataclass(frozen=True, slots=True)
class Generated:
    """An expression, the class of its outermost function, and whether its value must be equal to the last bit."""

    name: str
    sql: str
    exact: bool


def column_name(kind: str, copy: str) -> str:
    """The column of a kind of values."""
    return re.sub(r"[^a-z0-9]+", "_", kind).strip("_") + "_" + copy


def edge_table(table: Table, seed: int) -> pa.Table:
    """Columns of edge values in random order, with nulls; the first one numbers the rows."""
    generator = random.Random(seed)  # noqa: S311 (reproducible, no secret)
    columns: dict[str, Any] = {"row_number": pa.array(range(ROWS), pa.int32())}
    for kind, values in table.values.items():
        for copy in COPIES:
            type = table.kinds[kind]
            picked = filled(values, kind, type, ROWS, generator)
            columns[column_name(kind, copy)] = pa.array(picked, arrow_type(type))
    return pa.table(columns)


_TYPES = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "interval day to second": pa.duration("us"),
    "interval year to month": pa.int32(),
}


def arrow_type(name: str) -> pa.DataType:
    """The Arrow type of a type in SQL."""
    if name in _TYPES:
        return _TYPES[name]
    if match := re.fullmatch(r"decimal\((\d+),(\d+)\)", name):
        return pa.decimal128(int(match[1]), int(match[2]))
    if match := re.fullmatch(r"array<(.*)>", name):
        return pa.list_(pa.field("element", arrow_type(match[1])))
    if match := re.fullmatch(r"map<(.*)>", name):
        key, item = _split(match[1])
        return pa.map_(arrow_type(key), arrow_type(item))
    if match := re.fullmatch(r"struct<(.*)>", name):
        fields = (part.split(":", 1) for part in _split(match[1]))
        return pa.struct([pa.field(field, arrow_type(kind)) for field, kind in fields])
    raise ValueError(f"no such type: {name}")


def _split(text: str) -> list[str]:
    """The parts between commas that are not inside of brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "<(") - (character in ">)")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return parts


class Generator:
    """Makes expressions for one mode, `ANSI` or `LEGACY`."""

    def __init__(self, table: Table, mode: str, seed: int, only: Collection[str] = ()) -> None:
        self._random = random.Random(seed)  # noqa: S311 (reproducible, no secret)
        self._kinds = table.kinds
        rows = [row for row in table.signatures if mode in row.modes]
        self._by_name: dict[tuple[str, str], list[Signature]] = defaultdict(list)
        self._by_type: dict[str, list[Signature]] = defaultdict(list)
        for row in rows:
            if not only or row.name in only:
                self._by_name[row.name, row.sql.partition("(")[0]].append(row)
            if row.gives and row.exact:
                self._by_type[row.gives].append(row)
        self._names = self._in_turn(sorted(self._by_name))
        self._calls = [row for rows in self._by_name.values() for row in rows]
        self._nested = 0.0
        self._scope: list[tuple[str, str]] = []
        self._kinds_of: dict[str, list[str]] = defaultdict(list)
        for kind, type in table.kinds.items():
            if kind != type:
                self._kinds_of[type].append(kind)

    def _in_turn(self, names: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
        while True:
            self._random.shuffle(names)
            yield from names

    def expression(self) -> Generated:
        """One expression; the outermost function is the next one in a random order of all, or that of any call."""
        if self._random.random() < _ANY_CALL:
            row = self._random.choice(self._calls)
        else:
            row = self._random.choice(self._by_name[next(self._names)])
        depth, self._nested = self._random.choice(_SHAPES)
        return Generated(row.name, self._call(row, depth), row.exact)

    def _call(self, row: Signature, depth: int) -> str:
        return row.sql.format(*(self._argument(argument, depth - 1) for argument in row.takes))

    def _argument(self, argument: Argument, depth: int) -> str:
        if isinstance(argument, Lambda):
            return self._lambda(argument, depth)
        if not isinstance(argument, str):
            return argument.text(self._random)
        variables = [name for name, type in self._scope if type == argument]
        if variables and self._random.random() < _VARIABLE:
            return self._random.choice(variables)
        if self._kinds.get(argument) == argument and depth > 0 and self._random.random() < self._nested:
            inner = self._by_type.get(argument)
            if inner:
                return self._call(self._random.choice(inner), depth)
        if argument in _LITERALS and self._random.random() < 0.12:
            return self._random.choice(_LITERALS[argument])
        if self._random.random() < _NULL:
            return f"cast(null as {self._kinds.get(argument, argument)})"
        if self._kinds_of.get(argument) and self._random.random() < _OTHER_KIND:
            argument = self._random.choice(self._kinds_of[argument])
        return column_name(argument, self._random.choice(COPIES))

    def _lambda(self, argument: Lambda, depth: int) -> str:
        """A function of elements; its body may use its variables and those of the functions around it."""
        names = [f"v{len(self._scope) + number}" for number in range(len(argument.takes))]
        self._scope += zip(names, argument.takes, strict=True)
        body = self._argument(argument.gives, max(depth, 1))
        del self._scope[-len(names) :]
        return f"{names[0] if len(names) == 1 else '(' + ', '.join(names) + ')'} -> {body}"
