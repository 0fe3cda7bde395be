"""A part of a query as a stream, and what making one needs to know."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from snapline.api.job import Job
from snapline.api.stream import Stream
from snapline.connectors.files.file_steps import FileSteps
from snapline.contracts.source import Watermarks
from snapline.operators.changes.changes import CHANGE_FIELD
from snapline.operators.step_watermarks import StepWatermarks
from snapline.sql.expressions.compiler import Program
from snapline.sql.expressions.registry import UnsupportedError
from snapline.sql.operators.sql_projection import KeepRows, ProjectColumns
from snapline.sql.plans.common_tables import reference
from snapline.sql.plans.fingerprints import Uids, column_names
from snapline.sql.plans.refusals import refusal
from snapline.sql.plans.trees import Attribute, Expression, Plan
from snapline.sql.plans.volatile_columns import is_volatile

_FIRST_ID = 1 << 60
"""Ids of columns that lowering adds; Catalyst's are smaller."""


@dataclass(frozen=True, slots=True)
class Lowered:
    """A stream whose columns are `attributes`, in their order; with `is_changing`, and then the kind of change.

    `sessions` has columns that stand for the time of a row whose session is not known yet, with the expression of the
    gap; only an aggregate can take these.
    """

    stream: Stream
    attributes: tuple[Attribute, ...]
    is_changing: bool = False
    sessions: Mapping[int, Expression] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        return column_names(self.attributes)


@dataclass(slots=True)
class Context:
    """What lowering a query needs: the job, names for operators, and the output mode ("append", "update", "complete").

    Without a mode, groups that event time ends are emitted once, at their end, and all others as changes.
    `views` are streams of the job under the ids that their relations have.
    """

    job: Job
    uids: Uids
    mode: str | None = None
    views: Mapping[str, Stream] = field(default_factory=dict)
    is_bounded: bool = False
    steps: list[FileSteps] | None = None
    """Takes the sources that say how much a step reads; None if the query does not run step by step."""
    has_timers: bool = False
    """Whether something waits for processing time."""
    made: dict[str, Lowered] = field(default_factory=dict)
    lower: Callable[[Plan], Lowered] = field(init=False)
    ids: Any = field(default_factory=lambda: itertools.count(_FIRST_ID))

    def with_watermarks(self, stream: Stream, watermarks: Watermarks) -> Stream:
        """The stream with watermarks: moving with its rows, or from step to step as in Spark."""
        if not self.steps:
            return stream.with_watermarks(watermarks)
        uid = self.uids.uid("watermarks", watermarks.column)
        column = watermarks.column
        # One subtask, since the newest of all rows counts.
        return stream._then("watermarks", StepWatermarks(watermarks), stream.schema, uid, 1, time_column=column)

    def attribute(self, name: str, kind: pa.DataType, *, nullable: bool = True) -> Attribute:
        """A column that the query does not have."""
        return Attribute(next(self.ids), name, kind, nullable)


def stream_schema(attributes: Sequence[Attribute], *, is_changing: bool) -> pa.Schema:
    """The schema of a stream with these columns."""
    names = column_names(list(attributes))
    fields = [pa.field(name, each.type, each.nullable) for name, each in zip(names, attributes, strict=True)]
    return pa.schema([*fields, CHANGE_FIELD] if is_changing else fields)


def checked_program(expressions: Sequence[Expression], attributes: Sequence[Attribute]) -> None:
    """Raises `ConfigurationError` if one of the expressions does not run here."""
    for expression in expressions:
        try:
            Program([expression], attributes)
        except UnsupportedError as error:
            raise refusal(_culprit(expression, attributes), str(error)) from error


def _culprit(expression: Expression, attributes: Sequence[Attribute]) -> Expression:
    """The smallest part of an expression that does not run."""
    for child in expression.children:
        if child.kind == "LambdaFunction":  # its body means nothing by itself
            continue
        try:
            Program([child], attributes)
        except UnsupportedError:
            return _culprit(child, attributes)
    return expression


def projected(given: Lowered, columns: Sequence[tuple[Attribute, Expression]], name: str = "select") -> Lowered:
    """The stream with other columns, each an attribute with the expression that it is computed from."""
    attributes = tuple(attribute for attribute, _ in columns)
    expressions = [expression for _, expression in columns]
    if [e.arguments.get("id") if e.kind == "AttributeReference" else None for e in expressions] == [
        attribute.id for attribute in given.attributes
    ] and column_names(attributes) == given.names:
        return replace(given, attributes=attributes)
    _check_values(given, expressions)
    schema = stream_schema(attributes, is_changing=given.is_changing)
    operator = ProjectColumns(expressions, given.attributes, schema)
    stream = given.stream._then(name, operator, schema, None, None, copies=_copies(given, columns))
    return Lowered(stream, attributes, given.is_changing, given.sessions)


def _check_values(given: Lowered, expressions: Sequence[Expression]) -> None:
    checked_program(expressions, given.attributes)
    volatile = [each for each in expressions if given.is_changing and is_volatile(each)]
    if volatile:
        raise refusal(
            volatile[0],
            "it has another value each time, so a row of a result that changes later cannot be taken back",
            "compute it before the result changes, or in the last select of the query",
        )


def _copies(given: Lowered, columns: Sequence[tuple[Attribute, Expression]]) -> dict[str, str]:
    """Which output columns are copies, so that the columns of watermarks keep their names."""
    before = dict(zip((attribute.id for attribute in given.attributes), given.names, strict=True))
    after = column_names([attribute for attribute, _ in columns])
    return {
        name: before[expression.arguments["id"]]
        for name, (_, expression) in zip(after, columns, strict=True)
        if expression.kind == "AttributeReference"
    }


def kept(given: Lowered, condition: Expression) -> Lowered:
    """The rows for which a condition is true."""
    _check_values(given, [condition])
    operator = KeepRows(condition, given.attributes)
    stream = given.stream._then("where", operator, given.stream.schema, None, None)
    return replace(given, stream=stream)


def references(attributes: Sequence[Attribute]) -> list[tuple[Attribute, Expression]]:
    """Columns that stay as they are."""
    return [(attribute, reference(attribute)) for attribute in attributes]
