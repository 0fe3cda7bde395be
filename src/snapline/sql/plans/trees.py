"""The plan of a query, as Spark's analyser understood it: nodes with expressions, all plain immutable data."""

from __future__ import annotations

import copyreg
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa


def calendar_interval(months: int, days: int, nanoseconds: int) -> pa.MonthDayNano:
    return pa.MonthDayNano([months, days, nanoseconds])


# Literals travel with operators to other processes, and pyarrow's class cannot be pickled by itself.
copyreg.pickle(pa.MonthDayNano, lambda value: (calendar_interval, (value.months, value.days, value.nanoseconds)))


@dataclass(frozen=True, slots=True)
class Expression:
    """One expression. `kind` is the simple name of its class in Catalyst, such as `Add` or `AttributeReference`.

    `type` is the type of its value: Spark's `TIMESTAMP` is `timestamp("us", "UTC")`, `TIMESTAMP_NTZ` is
    `timestamp("us")`, `CHAR` and `VARCHAR` are `string`, day-time intervals are `duration("us")`, year-month intervals
    `int32` months, calendar intervals `month_day_nano_interval`, `VOID` is `null`. `children` stand in Catalyst's
    order. `arguments` holds what else the class was made from, under Catalyst's names: `value` of a `Literal`
    (a Python value that `pa.scalar(value, type)` takes), `name` and `id` of an `AttributeReference` or `Alias`,
    `evalMode` ("ANSI", "LEGACY" or "TRY") and `timeZoneId` where they apply. `text` is the expression in SQL, for
    messages. `sql_type` is the name of the type in SQL if it is or holds an interval of years to seconds, whose units
    Arrow's types do not tell, and empty otherwise.
    """

    kind: str
    type: pa.DataType
    children: tuple[Expression, ...] = ()
    arguments: Mapping[str, Any] = field(default_factory=dict)
    nullable: bool = True
    text: str = ""
    sql_type: str = ""

    def walk(self) -> Iterator[Expression]:
        """This expression and all below it, parents first."""
        yield self
        for child in self.children:
            yield from child.walk()

    def rewritten(self, change: Callable[[Expression], Expression]) -> Expression:
        """The tree with every expression replaced by what `change` returns for it, children first."""
        children = tuple(child.rewritten(change) for child in self.children)
        same = all(new is old for new, old in zip(children, self.children, strict=True))
        return change(self if same else replace(self, children=children))

    @property
    def references(self) -> frozenset[int]:
        """Ids of the attributes that it reads."""
        return frozenset(e.arguments["id"] for e in self.walk() if e.kind == "AttributeReference")


@dataclass(frozen=True, slots=True)
class Attribute:
    """A column of a node's output. `id` is Catalyst's expression id: unique in a plan, where names are not.

    `metadata` is what Spark attached to it, such as `spark.watermarkDelayMs` for event time; `sql_type` is that of an
    `Expression`.
    """

    id: int
    name: str
    type: pa.DataType
    nullable: bool = True
    metadata: Mapping[str, Any] = field(default_factory=dict)
    sql_type: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """One node. `kind` is the simple name of its class in Catalyst, such as `Project` or `Join`.

    `expressions` holds its expressions under Catalyst's names (`projectList`, `condition`, `groupingExpressions`),
    `arguments` what else it was made from (`joinType`, options of a source, the delay of a watermark). `text` is one
    line that shows the node to people.
    """

    kind: str
    output: tuple[Attribute, ...]
    children: tuple[Plan, ...] = ()
    expressions: Mapping[str, tuple[Expression, ...]] = field(default_factory=dict)
    arguments: Mapping[str, Any] = field(default_factory=dict)
    is_streaming: bool = False
    text: str = ""

    def walk(self) -> Iterator[Plan]:
        """This node and all below it, parents first."""
        yield self
        for child in self.children:
            yield from child.walk()

    def rewritten(self, change: Callable[[Plan], Plan]) -> Plan:
        """The tree with every node replaced by what `change` returns for it, children first."""
        children = tuple(child.rewritten(change) for child in self.children)
        same = all(new is old for new, old in zip(children, self.children, strict=True))
        return change(self if same else replace(self, children=children))
