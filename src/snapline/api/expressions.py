"""Columns as users write them: names and expressions of `pyarrow.compute`, checked when the job is built."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from snapline.contracts.dead_letters import OnError
from snapline.contracts.schemas import checked_schema, empty_batch, misfit, no_column
from snapline.errors import ConfigurationError
from snapline.operators.projection import Evaluation, Project

Column: TypeAlias = str | pc.Expression
"""The name of a column, or an expression such as `pc.field("price") * 2`."""


def select(
    schema: pa.Schema, columns: Sequence[Column], named: Mapping[str, Any], on_error: OnError = OnError.FAIL
) -> Project:
    """Project to these columns and the named ones, in this order."""
    wanted: dict[str, Any] = {}
    plain = [(column if isinstance(column, str) else _field_name(column, schema), column) for column in columns]
    for name, column in (*plain, *named.items()):
        if name is None:
            raise ConfigurationError(
                f"select({column}): a computed column needs a name; write select(..., name={column}), or "
                "with_columns(name=...)"
            )
        if name in wanted:
            raise _twice("select", name)
        wanted[name] = column
    if not wanted:
        raise ConfigurationError("select: nothing is selected; name at least one column")
    return _project("select", schema, wanted, on_error)


def with_columns(schema: pa.Schema, named: Mapping[str, Any], on_error: OnError = OnError.FAIL) -> Project:
    """All columns; named ones replace those of the same name, or are appended."""
    if not named:
        raise ConfigurationError(
            "with_columns: nothing to add; write with_columns(name=pc.field('price') * 2). uid= and parallelism= are "
            "arguments of the call: for a column of such a name use another name, then rename()"
        )
    return _project("with_columns", schema, {**{name: name for name in schema.names}, **named}, on_error)


def drop(schema: pa.Schema, columns: Sequence[str]) -> Project:
    """All columns except these."""
    if not columns:
        raise ConfigurationError("drop: nothing to drop; name at least one column")
    for column in columns:
        check_column("drop", column, schema)
    kept = [name for name in schema.names if name not in columns]
    if not kept:
        raise ConfigurationError("drop: no column would be left; rows need at least one")
    return _project("drop", schema, {name: name for name in kept})


def rename(schema: pa.Schema, names: Mapping[str, str]) -> Project:
    """All columns, some of them under other names."""
    if not isinstance(names, Mapping) or not names:
        raise ConfigurationError(f"rename({names!r}): give the new names by the old ones, such as {{'old': 'new'}}")
    for old in names:
        check_column("rename", old, schema)
    wanted: dict[str, str] = {}
    for old in schema.names:
        new = names.get(old, old)
        if new in wanted:
            raise _twice("rename", new)
        wanted[new] = old
    return _project("rename", schema, wanted)


def check_predicate(predicate: pc.Expression, schema: pa.Schema) -> None:
    """Raise `ConfigurationError` unless this is a condition on rows of the schema."""
    kind = _evaluated("filter", {"it": predicate}, schema)[0].type
    if not pa.types.is_boolean(kind):
        raise ConfigurationError(
            f"filter({predicate}) gives {kind} for each row; give a condition, such as pc.field('value') > 0"
        )


def check_column(call: str, column: Any, schema: pa.Schema) -> None:
    """Raise `ConfigurationError` unless there is such a column; `call` is the method the user called."""
    if not isinstance(column, str) or column not in schema.names:
        raise ConfigurationError(f"{call}: {no_column(column, schema)}")


def check_own_arguments(call: str, uid: Any, parallelism: Any, on_error: Any = None) -> None:
    """Raise `ConfigurationError` if an argument of the call itself was used to name a column."""
    for name, value, kind in (("uid", uid, str), ("parallelism", parallelism, int), ("on_error", on_error, str)):
        if value is not None and not isinstance(value, kind):
            raise ConfigurationError(
                f"{call}: {name}= is an argument of the call, and {value} is not of type {kind.__name__}; for a column "
                f"of that name use another name here, then rename({{'other': {name!r}}})"
            )


def _twice(call: str, name: str) -> ConfigurationError:
    return ConfigurationError(f"{call}: there would be two columns {name!r}; give one of them another name")


def _project(call: str, schema: pa.Schema, wanted: Mapping[str, Any], on_error: OnError = OnError.FAIL) -> Project:
    columns: list[str | pc.Expression] = []
    for name, column in wanted.items():
        if isinstance(column, str):
            check_column(call, column, schema)
            columns.append(column)
        elif isinstance(column, pc.Expression):
            columns.append(_field_name(column, schema) or column)
        else:
            raise ConfigurationError(
                f"{call}: {name}={column!r}; give the name of a column, or an expression such as "
                "pc.field('price') * 2. A constant is pc.scalar(...)"
            )
    computed = {name: item for name, item in zip(wanted, columns, strict=True) if not isinstance(item, str)}
    types = dict(zip(computed, _evaluated(call, computed, schema), strict=True))
    fields = [
        schema.field(item).with_name(name) if isinstance(item, str) else pa.field(name, types[name].type)
        for name, item in zip(wanted, columns, strict=True)
    ]
    for field in fields:
        if pa.types.is_null(field.type):
            raise ConfigurationError(
                f"{call}: the type of the column {field.name!r} is unknown; set it with cast(), for example "
                "pc.scalar(None).cast(pyarrow.string())"
            )
    return Project(call, columns, checked_schema(pa.schema(fields), f"{call}()"), on_error)


def _field_name(column: Any, schema: pa.Schema) -> str | None:
    """The column that an expression refers to, or None if it computes something."""
    if not isinstance(column, pc.Expression):
        raise ConfigurationError(f"select({column!r}): give names of columns, or expressions such as pc.field('price')")
    return next((name for name in schema.names if column.equals(pc.field(name))), None)


def _evaluated(call: str, expressions: Mapping[str, pc.Expression], schema: pa.Schema) -> list[pa.Array]:
    """Evaluates each expression on an empty batch, which shows its type."""
    found: list[pa.Array] = []
    for name, expression in expressions.items():
        try:
            found += Evaluation([expression]).arrays(empty_batch(schema))
        except (pa.ArrowException, TypeError, KeyError, ValueError) as error:
            shown = f"{call}({expression})" if call == "filter" else f"{call}: {name}={expression}"
            raise ConfigurationError(f"{shown} {misfit(error, schema)}") from error
    return found
