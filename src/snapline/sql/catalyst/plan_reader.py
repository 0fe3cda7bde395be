"""Turns the analysed plan of a DataFrame into the tree that the rest works on."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame

from snapline.sql.catalyst.catalyst_types import arrow_type, interval_type_name, literal_value
from snapline.sql.catalyst.plan_table import PlanTable, Record, plan_table
from snapline.sql.catalyst.session_values import SESSION_VALUES, session_value
from snapline.sql.plans.common_expressions import without_common_expressions
from snapline.sql.plans.common_tables import without_common_tables
from snapline.sql.plans.python_functions import PythonFunction, with_time_zone
from snapline.sql.plans.time_windows import with_time_windows
from snapline.sql.plans.trees import Attribute, Expression, Plan

_CALLS_OF_THE_JVM: Final = frozenset({"StaticInvoke", "Invoke", "NewInstance"})

_RENAMED: Final[Mapping[str, str]] = {"exprId": "id"}

_MARKS = re.compile(r"#\d+L?(-T\d+ms)?")


def read_plan(dataframe: DataFrame) -> Plan:
    """The plan of a DataFrame, streaming or not, as Spark's analyser understood it.

    Common table expressions stand where they are used, `window` and `session_window` are one expression again
    (`TimeWindow`, `SessionWindow`). An expression that Spark replaces by others is given as those others, unless they
    call Java: then it stays, with its original arguments as children. Where a class has several fields with children,
    the argument of that name says how many of them a list holds (`partitionSpec` of a window). Nodes that do not
    stream have the argument `dataframe`: a function that returns the DataFrame of their rows. Python functions have the
    session's time zone as their argument `timeZoneId`.

    Raises `ConfigurationError` for types that have no counterpart.
    """
    plan = _Reader(plan_table(dataframe)).root().rewritten(lambda node: _with_absolute_path(node, dataframe))
    zone = dataframe.sparkSession.conf.get("spark.sql.session.timeZone") or "UTC"
    return with_time_zone(with_time_windows(without_common_tables(plan)), zone)


def _with_absolute_path(node: Plan, dataframe: DataFrame) -> Plan:
    """A relative path of a source of files counts from where Spark runs, which may not be where this program does."""
    source: Any = node.arguments.get("dataSource")
    path = source["options"].get("path", "") if node.kind == "StreamingRelation" and source else ""
    if not path or path.startswith("/") or ":" in path.partition("/")[0]:
        return node
    jvm: Any = dataframe.sparkSession._jvm
    options = {**source["options"], "path": f"{jvm.java.lang.System.getProperty('user.dir')}/{path}"}
    return replace(node, arguments={**node.arguments, "dataSource": {**source, "options": options}})


class _Reader:
    """Makes the tree from a table. Nodes that Spark uses in several places are the same object here, too."""

    def __init__(self, table: PlanTable) -> None:
        self._table = table
        self._records = table.records
        self._plans: dict[int, Plan] = {}
        self._expressions: dict[int, Expression] = {}
        self._calls_java: dict[int, bool] = {}

    def root(self) -> Plan:
        return self._plan(len(self._records) - 1)

    # Plans.

    def _plan(self, position: int) -> Plan:
        known = self._plans.get(position)
        if known is None:
            known = self._plans[position] = self._read_plan(position)
        return known

    def _read_plan(self, position: int) -> Plan:
        record = self._records[position]
        children = tuple(self._plan(child) for child in record["children"])
        text = _MARKS.sub("", record["text"].removeprefix("~"))
        expressions: dict[str, tuple[Expression, ...]] = {}
        arguments: dict[str, Any] = {}
        for name, value in record["fields"]:
            if name == "output" or self._is_child(value, record):
                continue
            found = list(self._expressions_in(value))
            if value == []:
                expressions[name] = arguments[name] = ()
            elif found and all(self._is_expression(each) for each in found):
                expressions[name] = tuple(self._expression(each) for each in found)
                if any(isinstance(each, list) for each in value):
                    arguments[name] = tuple(len(each) for each in value)
            else:
                arguments[name] = self._argument(value, text)
        if "delay_ms" in record:
            arguments["delayMs"] = record["delay_ms"]
        output = tuple(self._attribute(given, text) for given in record["output"])
        if "rows" in record:
            kinds = [attribute.type for attribute in output]
            arguments["rows"] = [
                tuple(literal_value(value, kind) for value, kind in zip(row, kinds, strict=True))
                for row in record["rows"]
            ]
        if not record["is_streaming"]:
            arguments["dataframe"] = partial(self._table.dataframe, position)
        return Plan(_simple(record["class"]), output, children, expressions, arguments, record["is_streaming"], text)

    def _attribute(self, given: Sequence[Any], where: str) -> Attribute:
        number, name, kind, nullable, metadata = given
        found = arrow_type(kind, f"the column {name} of {where}")
        return Attribute(number, name, found, nullable, json.loads(metadata), interval_type_name(kind))

    # Expressions.

    def _expression(self, position: int) -> Expression:
        known = self._expressions.get(position)
        if known is None:
            known = self._expressions[position] = self._read_expression(position)
        return known

    def _read_expression(self, position: int) -> Expression:
        record = self._records[position]
        if "replacement" in record:
            replacement = record["replacement"][1]
            if not self._has_java_calls(replacement):
                return without_common_expressions(self._expression(replacement))
            record = {**record, "children": [node for _, node in record["parameters"]]}
        text = record["text"]
        if _simple(record["class"]) in SESSION_VALUES:
            value = session_value(self._table.session, _simple(record["class"]))
            return Expression("Literal", pa.string(), (), {"value": value}, False, text)
        kind = pa.null() if record["type"] is None else arrow_type(record["type"], text)
        children = tuple(self._expression(child) for child in record["children"])
        arguments = self._arguments(record, kind)
        sql_type = "" if record["type"] is None else interval_type_name(record["type"])
        return Expression(_simple(record["class"]), kind, children, arguments, record["nullable"], text, sql_type)

    def _arguments(self, record: Record, kind: pa.DataType) -> dict[str, Any]:
        arguments: dict[str, Any] = {}
        held: list[tuple[str, Any]] = []
        for name, value in record["fields"]:
            if self._is_child(value, record):
                held.append((name, value))
            elif isinstance(value, tuple) and value[0] == "object" and value[1].endswith(".NumericEvalContext"):
                arguments.update(value[2])
            elif name not in ("dataType", "nullable", "replacement", "metadata"):
                arguments[_RENAMED.get(name, name)] = self._argument(value, record["text"])
        if len(held) > 1:
            arguments.update({name: len(value) for name, value in held if isinstance(value, list)})
        if "id" in record:
            arguments.update(id=record["id"], name=record["name"], metadata=json.loads(record["metadata"]))
        if "value" in record:
            arguments["value"] = literal_value(record["value"], kind)
        if not record["deterministic"]:
            arguments["deterministic"] = False
        return arguments

    def _has_java_calls(self, position: int) -> bool:
        known = self._calls_java.get(position)
        if known is None:
            record = self._records[position]
            below = [record["replacement"][1]] if "replacement" in record else record["children"]
            is_call = _simple(record["class"]) in _CALLS_OF_THE_JVM
            is_nested = "replacement" not in record and any(map(self._has_java_calls, below))
            known = self._calls_java[position] = is_call or is_nested
        return known

    # Fields.

    def _is_expression(self, position: int) -> bool:
        return not self._records[position]["is_plan"]

    def _is_child(self, value: Any, record: Record) -> bool:
        found = list(self._expressions_in(value))
        return bool(found) and set(found) <= set(record["children"])

    def _expressions_in(self, value: Any) -> Iterator[int]:
        """Positions of the nodes in a field: one, or a list of them, or a list of lists or pairs."""
        if isinstance(value, tuple) and value and value[0] == "node":
            yield value[1]
        elif isinstance(value, tuple) and value and value[0] == "object" and value[1].startswith("scala.Tuple"):
            for _, element in value[2]:
                yield from self._expressions_in(element)
        elif isinstance(value, list):
            for element in value:
                yield from self._expressions_in(element)

    def _argument(self, value: Any, where: str) -> Any:
        """A field's value as plain data; the tags are those of `PlanWriter`."""
        if isinstance(value, list):
            return tuple(self._argument(element, where) for element in value)
        if not isinstance(value, tuple):
            return bytes(value) if isinstance(value, bytearray) else value
        match value:
            case ("node", position):
                if self._is_expression(position):
                    return self._expression(position)
                return self._plan(position)
            case ("type", described):
                return arrow_type(described, where)
            case ("map", pairs):
                return {self._argument(key, where): self._argument(item, where) for key, item in pairs}
            case ("object", name, fields) if name.startswith("scala.Tuple"):
                return tuple(self._argument(item, where) for _, item in fields)
            case ("object", name, fields):
                found = {key: self._argument(item, where) for key, item in fields}
                return {"class": _simple(name), **found}
            case ("function", command, version, broadcasts):
                return PythonFunction(bytes(command), version, tuple(broadcasts))
            case ("interval", months, days, microseconds):
                return pa.MonthDayNano([months, days, microseconds * 1000])
            case ("other", name):
                return _simple(name)
        raise AssertionError(f"unknown tag {value[0]!r}")


def _simple(name: str) -> str:
    """The last part of a class's name, without the marks of Scala's objects."""
    return name.rstrip("$").rpartition(".")[2].rpartition("$")[2]
